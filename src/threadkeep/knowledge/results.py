"""What surfaces ask of the captured history, and what they get back."""

from typing import Any, Final, Literal

import msgspec

from threadkeep.knowledge.records import CapturedSession, Image


class Labels(msgspec.Struct, frozen=True):
    """What people put on a session or a message."""

    starred: bool = False
    tags: tuple[str, ...] = ()
    note: str = ""


NO_LABELS: Final = Labels()


class SessionSummary(msgspec.Struct, frozen=True):
    """A session in a list."""

    session: CapturedSession
    ref: str  # agent:session_id, what `find` and addresses take
    tokens: int
    cost: int | None  # microdollars; None: no price is known for one of its models
    live: bool  # something was written in the last minutes
    children: int
    snippet: str = ""  # where the words of the query stand, marked >>> and <<<
    continues: str | None = None  # the ref of the session that it was handed over from
    continued_in: tuple[str, ...] = ()  # refs of the sessions that it was handed over to
    labels: Labels = NO_LABELS


class SessionPage(msgspec.Struct, frozen=True):
    """One page of a list; `next` is given back to have the following one."""

    items: tuple[SessionSummary, ...]
    next: str | None
    missing: tuple[str, ...] = ()  # words of the query that none of these has: no session has all


class TranscriptMessage(msgspec.Struct, frozen=True):
    """One message of a transcript, whole."""

    position: int  # from 0, in the order that is shown
    ref: str  # message:12, as recall names it
    key: str
    role: str
    part: str  # prompt, text, tool_call, …
    at: int | None
    text: str
    tool: str = ""
    call_id: str = ""
    error: bool = False
    model: str = ""
    input: Any = None  # the arguments of a tool call, as the agent gave them
    images: tuple[Image, ...] = ()
    copied: bool = False  # the session that this one continues has it, and it counts there
    branches: int = 0  # more than one: the conversation was continued here so many times
    turn: int = 0  # which prompt it belongs to, from 0
    labels: Labels = NO_LABELS


class Window(msgspec.Struct, frozen=True):
    """Some consecutive messages of a transcript."""

    messages: tuple[TranscriptMessage, ...]
    total: int  # messages in the whole session


class TurnSum(msgspec.Struct, frozen=True):
    """What one turn took: from a prompt to the last entry before the next one."""

    turn: int
    position: int  # of its prompt
    key: str
    prompt: str  # its beginning
    at: int | None
    ended_at: int | None
    input: int
    output: int
    cache_read: int
    cache_write: int
    cost: int | None
    tools: int
    errors: int


class SessionDetail(msgspec.Struct, frozen=True):
    """A session with all that is known around it."""

    listed: SessionSummary
    turns: tuple[TurnSum, ...]
    children: tuple[SessionSummary, ...]
    parent: SessionSummary | None
    newer: str | None  # refs of the sessions before and after it in the list
    older: str | None
    log_path: str | None  # where its log is, or was
    resume: str | None  # the command that continues it in its own program


class Spot(msgspec.Struct, frozen=True):
    """A place in one session where words were found."""

    position: int
    key: str
    part: str
    snippet: str


class Sum(msgspec.Struct, frozen=True):
    """Tokens and their price."""

    answers: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    cost: int = 0  # microdollars, of what has a known price
    unpriced: int = 0  # answers without a known price


Split = Literal["model", "project", "agent"]


class UsageReport(msgspec.Struct, frozen=True):
    """Tokens and cost of what a query means, summed up in the ways that are drawn."""

    total: Sum
    by_day: dict[str, dict[str, Sum]]  # day -> model (or what is asked for) -> sum
    by_model: dict[str, Sum]
    by_project: dict[str, Sum]
    by_agent: dict[str, Sum]
    by_hour: tuple[tuple[int, ...], ...]  # [weekday from Monday][hour] -> tokens
    priced: bool  # False: no price list is installed
    by_session: dict[str, Sum] = {}  # if asked for: by agent:id


class Today(msgspec.Struct, frozen=True):
    """What happened since midnight."""

    sessions: int
    messages: int
    commands: int
    pages: int
    runs: int
    tokens: int
    cost: int
    live: tuple[SessionSummary, ...]
    recent: tuple[SessionSummary, ...]


class NodeRow(msgspec.Struct, frozen=True):
    """A piece of knowledge in a list."""

    id: int
    uuid: str
    summary: str
    outcome: str | None
    tags: tuple[str, ...]
    entities: tuple[str, ...]
    project: str | None
    at: int | None
    title: str = ""  # what was achieved, or asked for; empty where its content does not say


class EntityRow(msgspec.Struct, frozen=True):
    """Something that knowledge mentions."""

    id: int
    type: str
    name: str
    canonical: str | None
    nodes: int
    first_seen: int | None
    last_seen: int | None


class Edge(msgspec.Struct, frozen=True):
    """Two entities that are mentioned together, or related."""

    a: int
    b: int
    kind: str
    weight: int


class Graph(msgspec.Struct, frozen=True):
    """Entities and what ties them."""

    entities: tuple[EntityRow, ...]
    edges: tuple[Edge, ...]


class BillingBlock(msgspec.Struct, frozen=True):
    """Five hours from the full hour of a first answer on, as subscriptions count them; or a gap."""

    start: int  # epoch milliseconds, as all times here
    end: int  # five hours later; of a gap, when the next block's first answer came
    first: int | None  # its first and last answer; None in a gap
    last: int | None
    gap: bool  # more than five hours without an answer
    active: bool  # it is not over, and its last answer is not long ago
    total: Sum
    models: tuple[str, ...] = ()
    tokens_per_minute: float | None = None  # between the first and the last answer
    cost_per_hour: int | None = None  # microdollars
    projected_tokens: int | None = None  # at its end, if it continues like this; active blocks only
    projected_cost: int | None = None
    minutes_left: int | None = None


class NodeView(msgspec.Struct, frozen=True):
    """A piece of knowledge, whole."""

    row: NodeRow
    text: str  # what it says in sentences
    content: Any  # as it was written: JSON, or a text
    evidence: tuple[str, ...]  # what it rests on, as recall names it: message:12, command:7
    entities: tuple[EntityRow, ...]
    model: str | None = None  # which wrote it


class EntityView(msgspec.Struct, frozen=True):
    """Something that knowledge mentions, with what mentions it and what is beside it."""

    row: EntityRow
    nodes: tuple[NodeRow, ...]
    neighbours: tuple[EntityRow, ...]
    edges: tuple[Edge, ...]


class NodePage(msgspec.Struct, frozen=True):
    """One page of knowledge; `next` is given back to have the following one."""

    items: tuple[NodeRow, ...]
    next: str | None


class ProjectRow(msgspec.Struct, frozen=True):
    """A project, and how much happened in it."""

    name: str
    sessions: int
    last_at: int | None
    agents: tuple[str, ...]
    cwd: str = ""  # a folder of it
