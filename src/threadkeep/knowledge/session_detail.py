"""One session with all that is known around it: its turns, its family, its neighbours."""

import shlex
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, Final

from threadkeep.base.text import from_sql
from threadkeep.base.tx import Tx
from threadkeep.errors import NotFound
from threadkeep.knowledge.opening import KnowledgeContext
from threadkeep.knowledge.prices import SumBuilder, cost_known, pico_of, step_of
from threadkeep.knowledge.records import CapturedSession, to_session
from threadkeep.knowledge.results import SessionDetail, TurnSum
from threadkeep.knowledge.session_list import listed
from threadkeep.knowledge.session_sql import ListContext
from threadkeep.knowledge.sessions import children_of, find_session
from threadkeep.knowledge.transcript import Outline, Prompt

# ------------------------------------------------------------------------------
# How a session is gone on with in the program that it comes from.

# What stands before the session's id, by program; those that are not here cannot.
_COMMANDS: Final = {
    "claude-code": ("claude", "--resume"),
    "codex": ("codex", "resume"),
    "opencode": ("opencode", "--session"),
    "gemini-cli": ("gemini", "--resume"),
    "copilot-cli": ("copilot", "--resume"),
    "pi": ("pi", "--session"),
    "cursor": ("cursor-agent", "--resume"),
    "qwen-code": ("qwen", "--resume"),
    "kimi-code": ("kimi", "--session"),
    "goose": ("goose", "session", "--resume", "--session-id"),
    "kilo": ("kilo", "--session"),
    "gptme": ("gptme", "--name"),
    "llm": ("llm", "chat", "--cid"),
    "continue": ("cn", "--fork"),  # it resumes only the last; a fork of any begins with all of it
    "cline": ("cline", "--id"),
    "kimi-cli": ("kimi", "--session"),  # until 1.51: 1.52 only says that it is no longer kept
    "openhands": ("openhands", "--resume"),
    "mistral-vibe": ("vibe", "--resume"),
    "grok-build": ("grok", "--resume"),
    "droid": ("droid", "--resume"),
    "auggie": ("auggie", "--resume"),
    "amp": ("amp", "threads", "continue"),
    "qoder": ("qodercli", "--resume"),
}
_JOINED: Final = {"cursor", "copilot-cli"}  # these want `--resume=ID`: the id may be left out there
# These look for the session among those of the folder they are started in.
_BY_FOLDER: Final = {
    *("claude-code", "gemini-cli", "opencode", "pi", "qwen-code", "kimi-code", "kimi-cli", "kilo"),
}
# These number the sessions of a day: what makes the number unique here is not theirs.
_NUMBERED: Final = {"goose"}
# These look for the session in the one database that they are told of.
_BY_DATABASE: Final = {"llm"}


def resume_command(
    harness: str, session_id: str, cwd: str = "", log_path: str | None = None
) -> str | None:
    """Return the command for a shell that continues a session; None if its program has none."""
    command = _COMMANDS.get(harness)
    if command is None or "/" in session_id:  # a part of a session, which no program resumes
        return None
    own = session_id.partition("@")[0] if harness in _NUMBERED else session_id
    name = shlex.quote(own)
    program = " ".join(command)
    resumed = f"{program}={name}" if harness in _JOINED else f"{program} {name}"
    if log_path and harness in _BY_DATABASE:
        return f"{resumed} -d {shlex.quote(log_path)}"
    if cwd and harness in _BY_FOLDER:
        return f"cd {shlex.quote(cwd)} && {resumed}"
    return resumed


PROMPT_WIDTH: Final = 200


def find(context: KnowledgeContext, tx: Tx, tables: set[str], ref: str) -> CapturedSession:
    """Find a session by `agent:session_id`, or by a beginning of its id that only one has."""
    if "tk_sessions" not in tables:
        msg = f"there is no session {ref!r}: nothing was captured into {context.db.name} yet"
        raise NotFound(msg, hint="`threadkeep capture` does it")
    harness, colon, session_id = ref.partition(":")
    if colon:
        values = {"harness": harness, "session_id": session_id}
        row = tx.one("browse_session", values)
        if row is not None:
            return to_session(row)
    return find_session(tx, ref)


def read_detail(
    around: ListContext,
    session: CapturedSession,
    outline: Outline,
    prompts: Sequence[Prompt],
) -> SessionDetail:
    """Put together what is known around a session."""
    tx = around.tx
    children = children_of(tx, session)
    parent = _parent(tx, session)
    shown = listed(around, [session, *children, *([parent] if parent else [])])
    log_path = _log_path(tx, session)
    usage = tx.all("browse_usage_of_session", {"session": session.id})
    return SessionDetail(
        listed=shown[0],
        turns=sum_turns(outline, prompts, usage),
        children=tuple(shown[1 : len(children) + 1]),
        parent=shown[-1] if parent else None,
        newer=_neighbour(tx, "browse_newer", session),
        older=_neighbour(tx, "browse_older", session),
        log_path=log_path,
        resume=resume_command(session.agent, session.session_id, session.cwd, log_path),
    )


def _parent(tx: Tx, session: CapturedSession) -> CapturedSession | None:
    if not session.parent_session_id or session.parent_session_id == session.session_id:
        return None
    values = {"harness": session.agent, "session_id": session.parent_session_id}
    row = tx.one("browse_session", values)
    return None if row is None else to_session(row)


def _neighbour(tx: Tx, query: str, session: CapturedSession) -> str | None:
    row = tx.one(query, {"at": session.ended_at, "id": session.id})
    return None if row is None else f"{row[0]}:{row[1]}"


def _log_path(tx: Tx, session: CapturedSession) -> str | None:
    values = {"harness": session.agent, "session_id": session.session_id}
    path = tx.value("browse_log_path", values)
    if path is None:
        path = tx.value("browse_log_of_entries", {"session": session.id})
    return None if path is None else from_sql(path)


# ---------------------------------------------------------------------- turns


def sum_turns(
    outline: Outline, prompts: Sequence[Prompt], usage: Iterable[Sequence[Any]]
) -> tuple[TurnSum, ...]:
    """Sum up each turn; an answer belongs to the last prompt before it."""
    spent = _spent_by_turn(outline, usage)
    ends = [*outline.starts[1:], *([outline.total] if outline.starts else [])]  # maybe no prompt
    turns = []
    for turn, (start, end) in enumerate(zip(outline.starts, ends, strict=True)):
        rows = outline.entries(0 if turn == 0 else start, end)
        prompt = outline.entry(start)
        total = spent[turn].done()
        turns.append(
            TurnSum(
                turn=turn,
                position=start,
                key=prompt.key,
                prompt=prompts[turn].text,
                at=prompt.at,
                ended_at=max((row.at for row in rows if row.at is not None), default=None),
                input=total.input,
                output=total.output,
                cache_read=total.cache_read,
                cache_write=total.cache_write,
                cost=cost_known(total),
                tools=sum(row.kind == "tool_call" for row in rows),
                errors=sum(row.error for row in rows),
            )
        )
    return tuple(turns)


def _spent_by_turn(outline: Outline, usage: Iterable[Sequence[Any]]) -> list[SumBuilder]:
    spent = [SumBuilder() for _ in outline.starts]
    begins: list[int] = []
    for start in outline.starts:
        at = outline.entry(start).at
        begins.append(max([*begins[-1:], at or 0]))
    for at, harness, model, *counts in usage:
        if spent:
            turn = max(0, bisect_right(begins, at or 0) - 1)
            input_, output, read, write, hour = counts
            answer = (1, input_, output, read, write, hour, 0)
            step = step_of(input_ + read + write)
            spent[turn].add(answer, pico_of(harness, model, step, at, answer))
    return spent
