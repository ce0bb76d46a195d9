"""Codex: what the records beside the conversation say about its session."""

from typing import Any, Final

from threadkeep.knowledge.records import SessionFacts
from threadkeep.sources.common import number, table, text

# Threads that the program runs for itself; nobody looks for them.
_INTERNAL: Final = {"review", "compact", "memory_consolidation", "guardian"}
_CONTEXT_HEAD: Final = 2000
_UUID: Final = 36
_VERSION: Final = 14  # the place of the version in a UUID
_BEYOND_BELIEF: Final = 2**40


def learn_from_meta(facts: SessionFacts, meta: dict[str, Any]) -> None:
    """Take what a `session_meta` says about its own session."""
    source = table(meta.get("source"))
    subagent = source.get("subagent")
    spawn = table(table(subagent).get("thread_spawn"))
    thread_source = text(meta.get("thread_source"))
    role = text(subagent) or text(table(subagent).get("other"))
    facts.cwd = text(meta.get("cwd")) or facts.cwd
    facts.began_in = facts.began_in or facts.cwd
    facts.git_branch = text(table(meta.get("git")).get("branch")) or facts.git_branch
    facts.version = text(meta.get("cli_version")) or facts.version
    facts.is_subagent = facts.is_subagent or bool(subagent) or thread_source == "subagent"
    facts.hidden = (
        facts.hidden or "internal" in source or not _INTERNAL.isdisjoint({role, thread_source})
    )
    facts.parent_session_id = (
        text(spawn.get("parent_thread_id"))
        or text(meta.get("parent_thread_id"))
        or text(meta.get("forked_from_id"))
        or facts.parent_session_id
    )
    named = (spawn.get("agent_role"), meta.get("agent_role"), spawn.get("agent_nickname"))
    names = [*map(text, named), text(meta.get("agent_nickname")), role, facts.agent]
    facts.agent = next(filter(None, names), "")


def origin_of(meta: dict[str, Any], session_id: str) -> str:
    """Name the thread that a log's running totals began in.

    A fork of the older kind copies its parent's records, their metas among them, so the last meta
    of the leading ones names the oldest thread. One with a `history_base` copies nothing.
    """
    copied_from = "" if meta.get("history_base") else text(meta.get("forked_from_id"))
    return copied_from or text(meta.get("id")) or session_id


def is_copy_of_older(turn: str, thread: str) -> bool:
    """Tell whether a turn is older than its thread, and so copied from the one it was forked from.

    Both ids begin with the time at which they were made (UUID version 7); other ids tell nothing.
    """
    return _tells_time(turn) and _tells_time(thread) and turn < thread


def _tells_time(name: str) -> bool:
    return len(name) == _UUID and name[_VERSION] == "7"


def first_index_of(meta: dict[str, Any]) -> int:
    """Number the segments of a reverted thread's new file behind those of its old one.

    Both have the same session. The new file goes on at a record of the old one, which holds no
    more segments than records up to there.
    """
    if text(meta.get("forked_from_id")) or text(meta.get("parent_thread_id")):
        return 0  # a session of its own
    ordinal = number(table(meta.get("history_base")).get("end_ordinal_exclusive"))
    return ordinal if 0 <= ordinal < _BEYOND_BELIEF else 0


def cwd_in(context: str) -> str:
    """Find the folder in an environment block: the oldest logs say it nowhere else."""
    head = context[:_CONTEXT_HEAD]
    for before, behind in (("<cwd>", "</cwd>"), ("Current working directory: ", "\n")):
        found = head.partition(before)[2].partition(behind)[0].strip()
        if found:
            return found
    return ""
