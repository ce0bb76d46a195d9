"""What our own tools take and give back."""

from typing import Annotated, Literal

import msgspec

from threadkeep.mcp.arguments import Branch, Cursor, Limit, Project, Since, Until, other, text
from threadkeep.mcp.replies import NOTICE

Session = Annotated[
    str,
    text("Session", "Its ref as list_sessions and recall give it (program:id), or a beginning."),
]
Agent = Annotated[str, text("Agent", "Only of this program: claude-code, codex, opencode, …")]


# ---------------------------------------------------------------------- arguments


class RecallArguments(msgspec.Struct, frozen=True):
    """What `recall` takes."""

    query: Annotated[str, text("Query", "Plain words, an error, or a name; empty: the newest.")]
    limit: Limit = 10
    cursor: Cursor = ""
    project: Project = ""
    source: Annotated[
        str, text("Source", "Only from: shell, agent, browser, ci, or a program such as codex.")
    ] = ""
    kind: Annotated[
        Literal["", "message", "node", "command", "page", "ci", "lesson"],
        other("Kind", "Only this kind of thing. Empty: all."),
    ] = ""
    since: Since = ""
    until: Until = ""
    branch: Branch = ""


class SessionArguments(msgspec.Struct, frozen=True):
    """What `get_session` takes."""

    session: Session


class MessagesArguments(msgspec.Struct, frozen=True):
    """What `get_messages` takes."""

    session: Session = ""
    around: Annotated[
        str, text("Around", "A ref as recall gives it (message:12): begin a little before it.")
    ] = ""
    cursor: Cursor = ""
    limit: Limit = 30
    chars: Annotated[
        int, other("Characters", "How much of each message is given; up to 40000.")
    ] = 2_000


class SessionsArguments(msgspec.Struct, frozen=True):
    """What `list_sessions` takes."""

    query: Annotated[
        str,
        text(
            "Query",
            'Words that were said, and filters: agent:codex model:opus cost:>1 is:live "a phrase".',
        ),
    ] = ""
    agent: Agent = ""
    project: Project = ""
    since: Since = ""
    until: Until = ""
    limit: Limit = 20
    cursor: Cursor = ""


class TimelineArguments(msgspec.Struct, frozen=True):
    """What `timeline` takes."""

    project: Project = ""
    day: Annotated[str, text("Day", "One day: 2026-03-01, today or yesterday.")] = ""
    since: Since = ""
    until: Until = ""
    limit: Limit = 50
    cursor: Cursor = ""


class UsageArguments(msgspec.Struct, frozen=True):
    """What `usage` takes."""

    by: Annotated[Literal["day", "model", "project", "agent"], other("By", "How to sum up.")] = (
        "day"
    )
    agent: Agent = ""
    project: Project = ""
    since: Since = "30d"
    until: Until = ""


class RememberArguments(msgspec.Struct, frozen=True):
    """What `remember` takes."""

    note: Annotated[
        str, text("Note", "What to remember, so that it makes sense without this conversation.")
    ]
    title: Annotated[str, text("Title", "A few words.")] = ""
    project: Annotated[str, text("Project", "Its folder, or owner/name.")] = ""
    tags: Annotated[list[str], other("Tags", "Words to find it by.")] = []


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
    source: str
    agent: str | None
    project: str | None
    branch: str | None
    session: str | None
    outcome: str | None


class HitList(msgspec.Struct, frozen=True):
    """What `recall` answers."""

    hits: list[HitRow]
    next_cursor: str | None = None
    notes: list[str] = []
    notice: str = NOTICE
    left_out: str = ""


class SessionRow(msgspec.Struct, frozen=True):
    """A session in a list."""

    ref: str
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


class SessionList(msgspec.Struct, frozen=True):
    """What `list_sessions` answers."""

    sessions: list[SessionRow]
    next_cursor: str | None = None
    notice: str = NOTICE
    left_out: str = ""


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
    """One entry of a transcript."""

    position: int
    ref: str
    role: str
    kind: str
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
    next_cursor: str | None = None
    notice: str = NOTICE
    left_out: str = ""


class MomentRow(msgspec.Struct, frozen=True):
    """One thing that happened."""

    at: str
    kind: str
    text: str
    ref: str
    source: str
    project: str | None
    outcome: str | None
    count: int


class MomentList(msgspec.Struct, frozen=True):
    """What `timeline` answers; the earliest first."""

    moments: list[MomentRow]
    next_cursor: str | None = None
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


class NoteStored(msgspec.Struct, frozen=True):
    """What `remember` answers."""

    uuid: str
    ref: str
