"""Tools that list the sessions of all agents and read them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final

import msgspec

from threadkeep.errors import Invalid, NotFound
from threadkeep.knowledge.results import SessionSummary, TranscriptMessage, TurnSum
from threadkeep.mcp import own_tools, reply_text
from threadkeep.mcp.reply_text import go_on, later, left_with, told, when
from threadkeep.mcp.tools import (
    Cursor,
    Tool,
    ToolContext,
    ToolReply,
    arguments_of,
    ask_verb,
    cut,
    kept,
    text,
)
from threadkeep.memory.fence import FenceItem
from threadkeep.verbs import TABLES

SESSIONS: Final = TABLES["knowledge"]["sessions"]
SESSION: Final = TABLES["knowledge"]["session"]
WINDOW: Final = TABLES["knowledge"]["window"]

_TITLE: Final = 200
_PROMPT: Final = 300
_AROUND = Annotated[
    str, text("Around", "A ref from recall (message:12): start a little before it.")
]
_CHARS = Annotated[
    int,
    msgspec.Meta(
        ge=1, le=40_000, title="Characters", description="Maximum characters of each message."
    ),
]
_BEFORE: Final = 2  # messages that are shown before the one that was asked for


def list_sessions(room: ToolContext, given: Any) -> ToolReply:
    """List sessions, the latest first."""
    page = ask_verb(room, SESSIONS, given)
    found = kept([_session_row(one) for one in page.items], _of_session)
    if found.left_out:  # the page must end where the answer does, or some would never be seen
        page = ask_verb(room, SESSIONS, given, limit=len(found.rows))
    left = left_with(found, page.next)
    data = own_tools.SessionList(found.rows, page.next, left_out=left, missing=page.missing)
    opens = "get_session and get_messages open one by its ref."
    if page.missing:
        opens = f"No session has all the words; `missing` lists those that none has. {opens}"
    return ToolReply(reply_text.lead(found.rows, f"{opens} {go_on(page.next)}"), found.items, data)


def get_session(room: ToolContext, given: Any) -> ToolReply:
    """Tell what a session was about: its facts, and its prompts in order."""
    with _named():
        one = ask_verb(room, SESSION, given)
    row = _session_row(one.listed)
    found = kept([_turn_row(turn) for turn in one.turns], _of_turn)
    view = own_tools.SessionView(
        session=row,
        turns=found.rows,
        subagents=[child.ref for child in one.children],
        parent=one.parent.ref if one.parent is not None else None,
        log_path=one.log_path,
        resume=one.resume,
        left_out=later(found),
    )
    lead = f"{len(one.turns)} turns. get_messages(session, cursor=position) reads from one. "
    items = [_of_session(row), *_around(view), *found.items]
    return ToolReply(f"{lead}{view.left_out}".strip(), items, view)


def get_messages(room: ToolContext, given: Any) -> ToolReply:
    """Read a session, entry by entry."""
    ref, first = _place(room, given)
    with _named():
        window = ask_verb(room, WINDOW, given, session=ref, after=first - 1)
    rows = [_message_row(message, given.chars) for message in window.messages]
    found = kept(rows, _of_message)
    behind = found.rows[-1].position + 1 if found.rows else window.total
    more = str(behind) if behind < window.total else None
    shorter = any(row.cut for row in found.rows)
    longer = "Long messages are cut; ask again with larger chars. " if shorter else ""
    data = own_tools.MessageList(
        ref, found.rows, window.total, more, left_out=f"{longer}{go_on(more)}"
    )
    lead = f"{len(found.rows)} of {window.total} entries of {ref}. {data.left_out}"
    return ToolReply(lead.strip(), found.items, data)


@contextmanager
def _named() -> Iterator[None]:
    """Say of a session that is not there which tool names those that are; an agent has no shell."""
    try:
        yield
    except NotFound as error:
        raise NotFound(error.message, hint="list_sessions and recall give refs") from None


def _place(room: ToolContext, given: Any) -> tuple[str, int]:
    """Tell which session is meant, and from which position on."""
    if not given.around:
        if not given.session:
            msg = "neither session nor around was given"
            raise Invalid(msg, hint="give session, as list_sessions shows it, or around=message:12")
        return given.session, _read_place(given.cursor)
    opened = room.stores.memory().open(given.around, 0)
    hit = opened.hit
    if hit.key is None or hit.session_id is None:
        msg = f"{given.around} is not a message of a session"
        raise Invalid(msg, hint="recall shows all of it; give a message")
    ref = f"{hit.agent}:{hit.session_id}"
    if given.cursor:
        return ref, _read_place(given.cursor)
    (message,) = ask_verb(room, WINDOW, given, session=ref, at=hit.ref, limit=1).messages
    return ref, max(0, message.position - _BEFORE)


def _read_place(cursor: str) -> int:
    """Read a cursor of ours; none means the beginning."""
    if not cursor:
        return 0
    if not cursor.isdecimal() or not cursor.isascii() or len(cursor) > 16:  # noqa: PLR2004
        msg = f"{cut(cursor, 60)!r} is not a cursor"
        raise Invalid(msg, hint="pass the `next` of the previous answer unchanged")
    return int(cursor)


def _session_row(one: SessionSummary) -> own_tools.SessionRow:
    session = one.session
    return own_tools.SessionRow(
        session=one.ref,
        title=cut(session.name, _TITLE),
        agent=session.agent,
        model=session.model,
        project=session.project,
        cwd=session.cwd,
        branch=session.git_branch,
        started_at=when(session.started_at),
        ended_at=when(session.ended_at),
        messages=session.entries,
        prompts=session.prompts,
        tool_calls=session.tool_calls,
        errors=session.errors,
        tokens=one.tokens,
        cost_microdollars=one.cost,
        live=one.live,
        subagents=one.children,
        snippet=cut(reply_text.plain(one.snippet), _TITLE),
        continues=one.continues,
        continued_in=one.continued_in,
        starred=one.labels.starred,
        tags=one.labels.tags,
        note=one.labels.note,
    )


def _around(view: own_tools.SessionView) -> list[FenceItem]:
    """Tell what belongs to a session: who started it, whom it started, how to continue with it."""
    told_of = (
        ("part of", view.parent or ""),
        ("continues", view.session.continues or ""),
        ("continued in", "\n".join(view.session.continued_in)),
        ("subagents", "\n".join(view.subagents)),
        ("the command that resumes it", view.resume or ""),
    )
    return [FenceItem(told(name), text) for name, text in told_of if text]


def _of_session(row: own_tools.SessionRow) -> FenceItem:
    counts = f"{row.prompts} prompts, {row.tool_calls} tool calls, {row.errors} errors"
    cost = f"${row.cost_microdollars / 1e6:.2f}" if row.tokens and row.cost_microdollars else ""
    tokens = f"{row.tokens} tokens" if row.tokens else ""
    facts = (row.session, row.model, row.project, row.ended_at, counts, tokens, cost)
    return FenceItem(
        told(*facts), "\n".join(filter(None, (row.title, row.snippet))) or "(no title)"
    )


def _turn_row(turn: TurnSum) -> own_tools.TurnRow:
    tokens = turn.input + turn.output + turn.cache_read + turn.cache_write
    prompt = cut(turn.prompt, _PROMPT)
    return own_tools.TurnRow(turn.position, prompt, when(turn.at), turn.tools, turn.errors, tokens)


def _of_turn(row: own_tools.TurnRow) -> FenceItem:
    facts = (f"position {row.position}", row.at, f"{row.tools} tool calls")
    return FenceItem(told(*facts), row.prompt or "(nothing)")


def _message_row(message: TranscriptMessage, chars: int) -> own_tools.MessageRow:
    called = "" if message.text or message.input is None else _json(message.input)
    said = message.text or called
    return own_tools.MessageRow(
        position=message.position,
        ref=message.ref,
        role=message.role,
        part=message.part,
        at=when(message.at),
        text=cut(said, chars),
        tool=message.tool,
        error=message.error,
        model=message.model,
        cut=max(0, len(said) - chars),
    )


def _of_message(row: own_tools.MessageRow) -> FenceItem:
    failed = "failed" if row.error else ""
    trust = "(untrusted)" if row.role == "tool" else ""
    facts = (f"position {row.position}", row.role, trust, row.part, row.tool, failed, row.at)
    return FenceItem(told(*facts, row.ref), row.text or "(nothing)")


def _json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        return str(value)


TOOLS: Final = (
    Tool(
        SESSION.tool,
        "Get a session",
        "Get what one session was about: agent, model, project, cost, its prompts in order,"
        " subagents, and the command that resumes it.",
        arguments_of(SESSION),
        get_session,
        own_tools.SessionView,
    ),
    Tool(
        WINDOW.tool,
        "Read messages",
        "Read the transcript of a session: prompts, answers, reasoning, tool calls and results."
        " By session, from a cursor; or around a ref from recall.",
        arguments_of(
            WINDOW,
            [("around", _AROUND, ""), ("cursor", Cursor, ""), ("chars", _CHARS, 2_000)],
            leave_out=("at", "before", "after"),
            session="",
            limit=30,
        ),
        get_messages,
        own_tools.MessageList,
    ),
    Tool(
        SESSIONS.tool,
        "List sessions",
        "List sessions of all agents, the latest first, by project, agent, time, cost or words.",
        arguments_of(SESSIONS, limit=20),
        list_sessions,
        own_tools.SessionList,
    ),
)
