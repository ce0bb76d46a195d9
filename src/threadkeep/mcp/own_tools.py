"""Our own tools: what agents cannot ask the contract's server."""

from typing import Annotated, Any, Final, Literal

import msgspec

from threadkeep.errors import Invalid
from threadkeep.home.captured import NoteStored
from threadkeep.knowledge.results import Labels, Sum
from threadkeep.mcp import reply_text
from threadkeep.mcp.reply_text import go_on, later, left_with, told, when
from threadkeep.mcp.tools import (
    NOTICE,
    Tool,
    ToolContext,
    ToolReply,
    arguments_of,
    ask_verb,
    cut,
    kept,
    other,
)
from threadkeep.memory.fence import FenceItem
from threadkeep.memory.hits import ago, label_of
from threadkeep.memory.records import Hit
from threadkeep.memory.timeline import Moment
from threadkeep.verbs import TABLES

# ------------------------------------------------------------------------------
# What our own tools take and give back.

_BY = Annotated[
    Literal["day", "model", "project", "agent", "session"], other("By", "How to sum up.")
]
RECALL: Final = TABLES["memory"]["recall"]
TIMELINE: Final = TABLES["memory"]["timeline"]
USAGE: Final = TABLES["knowledge"]["usage"]
REMEMBER: Final = TABLES["captured"]["remember"]
LABEL: Final = TABLES["captured"]["label"]


# ---------------------------------------------------------------------- answers


class HitRow(msgspec.Struct, frozen=True):
    """Something that was recalled."""

    ref: str
    kind: str
    label: str  # who said it, and whether that is to be trusted
    at: str | None
    age: str
    title: str
    snippet: str
    score: float
    agent: str | None
    project: str | None
    branch: str | None
    session: str | None
    outcome: str | None
    same: int = 0  # others that say the same
    more: int = 0  # others of its session


class HitList(msgspec.Struct, frozen=True):
    """What `recall` answers."""

    hits: list[HitRow]
    next: str | None = None
    notes: list[str] = []
    notice: str = NOTICE
    left_out: str = ""


class SessionRow(msgspec.Struct, frozen=True):
    """A session in a list."""

    session: str  # its name, agent:id, as the other tools take it
    title: str
    agent: str
    model: str
    project: str
    cwd: str
    branch: str
    started_at: str | None
    ended_at: str | None
    messages: int
    prompts: int
    tool_calls: int
    errors: int
    tokens: int
    cost_microdollars: int | None
    live: bool
    subagents: int
    snippet: str = ""
    continues: str | None = None
    continued_in: tuple[str, ...] = ()
    starred: bool = False
    tags: tuple[str, ...] = ()
    note: str = ""


class SessionList(msgspec.Struct, frozen=True):
    """What `list_sessions` answers."""

    sessions: list[SessionRow]
    next: str | None = None
    notice: str = NOTICE
    left_out: str = ""
    missing: tuple[str, ...] = ()  # words that none of these has: no session has all


class TurnRow(msgspec.Struct, frozen=True):
    """A prompt with what it took."""

    position: int  # get_messages takes it as cursor
    prompt: str
    at: str | None
    tools: int
    errors: int
    tokens: int


class SessionView(msgspec.Struct, frozen=True):
    """What `get_session` answers."""

    session: SessionRow
    turns: list[TurnRow]
    subagents: list[str]
    parent: str | None
    log_path: str | None
    resume: str | None
    notice: str = NOTICE
    left_out: str = ""


class MessageRow(msgspec.Struct, frozen=True):
    """One message of a session."""

    position: int
    ref: str
    role: str
    part: str
    at: str | None
    text: str
    tool: str = ""
    error: bool = False
    model: str = ""
    cut: int = 0  # so many characters were left out


class MessageList(msgspec.Struct, frozen=True):
    """What `get_messages` answers."""

    session: str
    messages: list[MessageRow]
    total: int
    next: str | None = None
    notice: str = NOTICE
    left_out: str = ""


class MomentRow(msgspec.Struct, frozen=True):
    """One thing that happened."""

    at: str
    kind: str
    text: str
    ref: str
    agent: str | None  # who did it; none: a person, a browser or CI, as the kind says
    project: str | None
    outcome: str | None
    count: int


class MomentList(msgspec.Struct, frozen=True):
    """What `timeline` answers; the earliest first."""

    moments: list[MomentRow]
    next: str | None = None
    notice: str = NOTICE
    left_out: str = ""


class UsageRow(msgspec.Struct, frozen=True):
    """Tokens of a day, a model, a project or an agent."""

    name: str
    answers: int
    input: int
    output: int
    cache_read: int
    cache_write: int
    reasoning: int
    cost_microdollars: int
    unpriced_answers: int


class UsageList(msgspec.Struct, frozen=True):
    """What `usage` answers."""

    by: str
    rows: list[UsageRow]
    total: UsageRow
    priced: bool
    notice: str = NOTICE
    left_out: str = ""


_TITLE: Final = 200
_SNIPPET: Final = 600
_MS: Final = 1000


# ---------------------------------------------------------------------- recall


def recall(room: ToolContext, given: Any) -> ToolReply:
    """Find the exact place where something was said or done."""
    if not given.q.strip():
        hint = "give words to look for; timeline and list_sessions show what is newest"
        raise Invalid("the query is empty", hint=hint)
    answer = ask_verb(room, RECALL, given)
    found = kept([_hit_row(hit, room.now()) for hit in answer.hits], _of_hit)
    if found.left_out:  # the page must end where the answer does
        answer = ask_verb(room, RECALL, given, limit=len(found.rows))
    more = answer.next
    notes = [*answer.notes]
    if answer.missing:
        notes.insert(0, f"No match has all words; missing: {', '.join(answer.missing)}")
    data = HitList(found.rows, more, notes, left_out=left_with(found, more))
    opens = "get_messages(around=ref) opens one in context."
    lead = reply_text.lead(found.rows, f"{opens} {go_on(more)}")
    told = [FenceItem("notes", "\n".join(notes))] if notes else []
    return ToolReply(lead, [*found.items, *told], data)


def _hit_row(hit: Hit, now: int) -> HitRow:
    return HitRow(
        ref=hit.ref,
        kind=hit.kind,
        label=label_of(hit),
        at=when(hit.at),
        age=ago(hit.at, now),
        title=cut(hit.title, _TITLE),
        snippet=cut(reply_text.plain(hit.snippet), _SNIPPET),
        score=round(hit.score, 4),
        agent=hit.agent,
        project=hit.project,
        branch=hit.branch,
        session=f"{hit.agent}:{hit.session_id}" if hit.agent and hit.session_id else None,
        outcome=hit.outcome,
        same=hit.same,
        more=hit.more,
    )


def _of_hit(row: HitRow) -> FenceItem:
    facts = (row.label, row.agent, row.project, row.age, row.title, row.ref)
    return FenceItem(told(*facts, row.session), row.snippet or row.title or "(nothing)")


# ---------------------------------------------------------------------- time and tokens


def timeline(room: ToolContext, given: Any) -> ToolReply:
    """Tell what happened, in order."""
    page = ask_verb(room, TIMELINE, given)
    newest_first = kept([_moment_row(one) for one in page.items], _of_moment)
    if newest_first.left_out:
        page = ask_verb(room, TIMELINE, given, limit=len(newest_first.rows))
    rows, items = newest_first.rows[::-1], newest_first.items[::-1]
    data = MomentList(rows, page.next, left_out=go_on(page.next, "earlier"))
    return ToolReply(reply_text.lead(rows, data.left_out), items, data)


def _moment_row(one: Moment) -> MomentRow:
    text = cut(one.text, _SNIPPET)
    facts = (one.ref, one.agent, one.project, one.outcome, one.count)
    return MomentRow(when(one.at) or "", one.kind, text, *facts)


def _of_moment(row: MomentRow) -> FenceItem:
    times = f"{row.count} times" if row.count > 1 else ""
    heading = told(row.at, row.kind, row.agent, row.project, row.outcome, times, row.ref)
    return FenceItem(heading, row.text or "(nothing)")


def usage(room: ToolContext, given: Any) -> ToolReply:
    """Sum up tokens and what they cost."""
    report = ask_verb(room, USAGE, given, sessions=given.by == "session")
    sums = {
        "day": {day: _summed(of.values()) for day, of in report.by_day.items()},
        "model": report.by_model,
        "project": report.by_project,
        "agent": report.by_agent,
        "session": report.by_session,
    }[given.by]
    rows = [_usage_row(name, one) for name, one in sums.items()]
    order = (lambda row: row.name) if given.by == "day" else _tokens_of
    found = kept(sorted(rows, key=order, reverse=True), _of_usage)
    total = _usage_row("total", report.total)
    data = UsageList(given.by, found.rows, total, report.priced, left_out=later(found))
    priced = "" if report.priced else " No price list is installed, so no costs are shown."
    return ToolReply(f"Total: {_of_usage(total).text}.{priced}", found.items, data)


def _summed(sums: Any) -> Sum:
    names = Sum.__struct_fields__
    many = list(sums)
    return Sum(**{name: sum(getattr(one, name) for one in many) for name in names})


def _usage_row(name: str, one: Sum) -> UsageRow:
    counts = (one.answers, one.input, one.output, one.cache_read, one.cache_write, one.reasoning)
    return UsageRow(name, *counts, one.cost, one.unpriced)


def _tokens_of(row: UsageRow) -> int:
    return row.input + row.output + row.cache_read + row.cache_write


def _of_usage(row: UsageRow) -> FenceItem:
    cached = f"{row.cache_read} cache read, {row.cache_write} cache write"
    cost = f"${row.cost_microdollars / 1_000_000:.2f}"
    return FenceItem(row.name, f"{row.input} input, {row.output} output, {cached} tokens, {cost}")


# ---------------------------------------------------------------------- writing


def remember(room: ToolContext, given: Any) -> ToolReply:
    """Store a note."""
    stored = ask_verb(room, REMEMBER, given, author=room.client, session=room.session)
    lead = f"Remembered as {stored.ref}. `threadkeep forget --pattern …` removes it."
    return ToolReply(lead, data=stored)


def label(room: ToolContext, given: Any) -> ToolReply:
    """Put a star, tags or a note on a session or message."""
    found = ask_verb(room, LABEL, given)
    lead = f"{given.ref} is labelled. list_sessions finds it with tag:… or is:starred."
    return ToolReply(lead, data=found)


READING: Final = (
    Tool(
        RECALL.tool,
        "Recall",
        "Search everything that was said, done, run or read on this machine: messages of every"
        " agent, commands, web pages, CI runs and knowledge, by words or meaning. Returns snippets"
        " with refs; get_messages opens them. Use it first for 'have we seen this before'.",
        arguments_of(RECALL, leave_out=("explain",)),
        recall,
        HitList,
    ),
    Tool(
        TIMELINE.tool,
        "Timeline",
        "List what happened on a day or in a span of time, in order: prompts and answers, commands,"
        " commits, web pages, CI runs. Use it for 'what did I do yesterday'.",
        arguments_of(TIMELINE, limit=50),
        timeline,
        MomentList,
    ),
    Tool(
        USAGE.tool,
        "Token usage",
        "Sum tokens and cost of all agents by day, model, project, agent or session.",
        arguments_of(USAGE, [("by", _BY, "day")], leave_out=("sessions",), since="30d"),
        usage,
        UsageList,
    ),
)
WRITING: Final = (
    Tool(
        LABEL.tool,
        "Label",
        "Star a session or message, tag it, or write a note on it, so that the user finds it again"
        " on their page.",
        arguments_of(LABEL),
        label,
        Labels,
        writes=True,
    ),
    Tool(
        REMEMBER.tool,
        "Remember",
        "Store a note for later sessions: a decision, a fact about the project, what the user"
        " prefers. It is marked as written by an agent. Never store secrets.",
        arguments_of(REMEMBER, leave_out=("author", "session")),
        remember,
        NoteStored,
        writes=True,
    ),
)
