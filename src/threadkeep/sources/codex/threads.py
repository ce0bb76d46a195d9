"""Where Codex keeps its rollouts, and what a rollout's name says about it."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from threadkeep.base.text import pattern
from threadkeep.knowledge.records import Entry, SessionFacts
from threadkeep.sources.common import number, table, text
from threadkeep.sources.folders import file_stamp, files_below
from threadkeep.sources.records import DocumentItem, Harvest, Log, Stamp, UserHome

_LIVE: Final = "sessions"
_ARCHIVED: Final = "archived_sessions"
_XCODE: Final = Path("Library", "Developer", "Xcode", "CodingAssistant", "codex")
_PREFIX: Final = "rollout-"
_ZIPPED: Final = ".zst"
_SUFFIX: Final = ".jsonl"
_SUFFIXES: Final = (_SUFFIX, _SUFFIX + _ZIPPED)
# rollout-<local time>-<thread id>[_<rollout id>]: after a revert a thread has several files.
_THREAD: Final = pattern(
    r"rollout-.*?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:_.*)?", re.DOTALL
)


class _Copy(NamedTuple):
    """One copy of a rollout; of several the smallest counts: live before archived, plain first."""

    is_archived: bool
    is_zipped: bool
    path: str
    stamp: Stamp


def codex_homes(user: UserHome) -> list[Path]:
    """Name the folders in which Codex, and Xcode's own Codex, keep everything."""
    return [user.home / (user.env.get("CODEX_HOME") or ".codex"), user.home / _XCODE]


def rollout_folders(homes: Iterable[Path]) -> list[Path]:
    """Name the folders that hold rollouts."""
    return [home / place for home in homes for place in (_LIVE, _ARCHIVED)]


def find_rollouts(folders: Iterable[Path], user: UserHome) -> Iterator[Log]:
    """Yield every rollout once, in the order of the paths."""
    found: dict[str, _Copy] = {}
    for folder in folders:
        for path, stamp in files_below(folder, user, *_SUFFIXES, is_root=True):
            if path.name.startswith(_PREFIX):
                copy = _Copy(folder.name == _ARCHIVED, path.suffix == _ZIPPED, str(path), stamp)
                name = path.name.removesuffix(_ZIPPED)
                found[name] = min(copy, found.get(name, copy))
    for copy in sorted(found.values(), key=lambda one: one.path):
        yield Log(path=copy.path, stamp=copy.stamp, session_id=thread_of(Path(copy.path).name))


def thread_of(name: str) -> str:
    """Read the id of the thread from the name of its file; without one it is the name itself."""
    stem = storable(name).removesuffix(_ZIPPED).removesuffix(_SUFFIX)
    named = _THREAD.fullmatch(stem)
    return named[1] if named else stem


def storable(name: str) -> str:
    """Return a name from the disk as text that a database can hold."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


# ------------------------------------------------------------------------------
# Codex: the names of threads, which stand in an index beside the rollouts.

_NAME: Final = "session_index.jsonl"


class IndexParser:
    """Reads `{id, thread_name, updated_at}` lines; the last name of a thread counts."""

    def __init__(self) -> None:
        """Start, or continue: no line needs another."""
        self._facts: dict[str, SessionFacts] = {}
        self._unknown = 0

    def feed(self, record: Any, line: bytes, number: int) -> list[Entry]:  # noqa: ARG002
        """Take the next line; nothing is said in it."""
        named = table(record)
        thread, title = text(named.get("id")), text(named.get("thread_name"))
        if thread and title:
            self._facts[thread] = SessionFacts(title=title)
        elif not thread:
            self._unknown += 1
        return []

    def harvest(self) -> Harvest:
        """Return the names that came since the last call."""
        unknown = {"session_index": self._unknown} if self._unknown else {}
        harvest = Harvest(facts=self._facts, unknown=unknown)
        self._facts, self._unknown = {}, 0
        return harvest

    def state(self) -> bytes:
        """Nothing is kept from one line to the next."""
        return b""


class CodexIndex:
    """The index of names as a log of its own: it has no session, only facts about others."""

    agent: Final = "codex"
    kind: Final = "lines"

    def roots(self, user: UserHome) -> list[Path]:
        """Name the index files."""
        return [home / _NAME for home in codex_homes(user)]

    def find(self, user: UserHome) -> Iterator[Log]:
        """Yield the index files that are there."""
        for path in sorted(self.roots(user)):
            stamp = file_stamp(path, user)
            if stamp is not None:
                yield Log(path=str(path), stamp=stamp, root=str(path.parent))

    def parser(self, log: Log, state: bytes | None) -> IndexParser:  # noqa: ARG002
        """Make a parser."""
        return IndexParser()

    def entries(self, record: Any, line: bytes, number: int) -> list[Entry]:  # noqa: ARG002
        """Nothing is said in an index."""
        return []

    def items(self, log: Log) -> Iterable[DocumentItem]:  # noqa: ARG002
        """An index is no document."""
        return ()

    def records(self, log: Log, item: str) -> Iterable[tuple[str, bytes]]:  # noqa: ARG002
        """An index is no document."""
        return ()


SOURCE: Final = CodexIndex()


# ------------------------------------------------------------------------------
# Codex: what the records beside the conversation say about its session.

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

    Both have the same session. The new file continues at a record of the old one, which holds no
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
