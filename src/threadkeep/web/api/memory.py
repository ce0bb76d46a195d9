"""Memory: recall, open, ask, and what else is made of it."""

import datetime as dt
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta

from threadkeep.base.page import Cursor, Limit, Page, page_before
from threadkeep.base.verb_table import Given
from threadkeep.base.verbs import Moment
from threadkeep.errors import Invalid
from threadkeep.home.opening import answering
from threadkeep.home.stores import Stores
from threadkeep.knowledge.memory_documents import MemoryFilter, MemoryPart, MemoryRevision
from threadkeep.knowledge.query import Kind, Query
from threadkeep.knowledge.records import Kind as EntryKind, Outcome, Role
from threadkeep.knowledge.search_scope import NodeChoice
from threadkeep.memory.agent_query import AgentAnswer, AgentMode, of_contract_source
from threadkeep.memory.ask import Answer
from threadkeep.memory.fixed import Fix
from threadkeep.memory.records import HitDetail, RecallResult
from threadkeep.memory.timeline import Moment as Happened
from threadkeep.web.api.verb import ApiVerb, Empty, Name, Text, Words, verb

# ------------------------------------------------------------------------------
# Claude's notes, and one question with all that its answer rests on.

Offset = Annotated[int, Meta(ge=0, le=1_000_000)]


class AgentQuestion(Given, frozen=True):
    """A question, how it is to be answered, and what a hit must be."""

    query: Text
    mode: AgentMode = "known"
    agent: Name | None = None
    source: Name | None = None  # what the nodes rest on, in the words of the contract's tool
    since: Moment | None = None
    project: Name | None = None
    branch: Name | None = None
    limit: Limit = 10
    include_excluded: bool = False


class WantedNotes(Given, frozen=True):
    """Which notes are meant; an empty text means any."""

    query: Words = ""
    repository: Words = ""
    category: Words = ""
    logical_path: Words = ""
    document_uuid: Words = ""
    since: Moment | None = None
    limit: Limit = 20
    offset: Offset = 0
    include_non_queryable: bool = False
    include_source_path: bool = False


class WantedHistory(Given, frozen=True):
    """Which note is meant: its document, or its repository and its name there."""

    repository: Words = ""
    logical_path: Words = ""
    document_uuid: Words = ""
    limit: Limit = 50
    include_source_path: bool = False


class NoteList(msgspec.Struct, frozen=True):
    """What notes say now."""

    results: list[MemoryPart]
    truncated: bool


class RevisionList(msgspec.Struct, frozen=True):
    """What became of a note, the newest first."""

    results: list[MemoryRevision]
    truncated: bool


def query(stores: Stores, _: Empty, body: AgentQuestion) -> AgentAnswer:
    """Answer with what is known, what that rests on, how fresh and how sure it is."""
    given = Query(
        project=_one(body.project),
        since=body.since,
        branch=_one(body.branch),
        agent=_one(body.agent),
    )
    within, nodes = of_contract_source(given, body.source)
    nodes = msgspec.structs.replace(nodes, excluded=body.include_excluded)
    memory = stores.memory()
    return memory.agent_query(body.query, within, nodes=nodes, mode=body.mode, limit=body.limit)


def notes(stores: Stores, _: Empty, body: WantedNotes) -> NoteList:
    """Give what the notes that Claude keeps say now."""
    asked = MemoryFilter(
        text=body.query,
        repository=body.repository,
        category=body.category,
        logical_path=body.logical_path,
        document_uuid=body.document_uuid,
        since=body.since,
        limit=body.limit,
        offset=body.offset,
        unpublished=body.include_non_queryable,
        paths=body.include_source_path,
    )
    memory = stores.memory()
    return NoteList(*memory.memories(asked))


def revisions(stores: Stores, _: Empty, body: WantedHistory) -> RevisionList:
    """Give the revisions of one of Claude's notes."""
    asked = MemoryFilter(
        repository=body.repository,
        logical_path=body.logical_path,
        document_uuid=body.document_uuid,
        limit=body.limit,
        paths=body.include_source_path,
    )
    memory = stores.memory()
    return RevisionList(*memory.memory_history(asked))


NOTE_VERBS: tuple[ApiVerb, ...] = (
    verb("POST", "/agent/query", query),
    verb("POST", "/notes/query", notes),
    verb("POST", "/notes/history", revisions),
)


Near = Annotated[int, Meta(ge=0, le=50)]
Characters = Annotated[int, Meta(ge=200, le=100_000)]
Few = Annotated[int, Meta(ge=1, le=50)]


class Recall(Given, frozen=True):
    """A question, and what a hit must be."""

    q: Words
    project: Name | None = None
    agent: Name | None = None
    since: Moment | None = None
    until: Moment | None = None
    branch: Name | None = None
    model: Name | None = None
    session: Name | None = None
    entity: Name | None = None
    role: Role | None = None
    part: EntryKind | None = None
    tool: Name | None = None
    outcome: Outcome | None = None
    kind: tuple[Kind, ...] = ()
    category: Name | None = None
    include_excluded: bool = False
    limit: Limit = 10
    explain: bool = False
    newest: bool = False
    all_hits: bool = False  # every hit, not only the best of each session


class Like(Given, frozen=True):
    """A hit by its ref, or any text."""

    q: Words
    project: Name | None = None
    limit: Few = 10


class FixRequest(Given, frozen=True):
    """An error, or a part of what it said."""

    error: Text
    project: Name | None = None
    limit: Few = 10


class ContextFor(Given, frozen=True):
    """What a prompt is about, and how much may be said of it."""

    about: Text
    project: Name | None = None
    limit: Few = 8
    max_chars: Characters = 4000


class OneRef(Given, frozen=True):
    """A hit by its ref, and how many of its neighbours."""

    ref: Name
    around: Near = 3


class Ask(Given, frozen=True):
    """A question; with `model` the configured one writes the answer, if there is one."""

    question: Text
    project: Name | None = None
    limit: Few = 8
    model: bool = False
    include_excluded: bool = False


class TimelineRequest(Given, frozen=True):
    """A day (2026-03-01), or a span of time; without either everything, the latest first."""

    day: Annotated[str, Meta(max_length=10)] | None = None
    since: Moment | None = None
    until: Moment | None = None
    project: Name | None = None
    limit: Limit = 100
    cursor: Cursor = ""


class ContextBlock(msgspec.Struct, frozen=True):
    """A fenced block for a prompt; empty if nothing is remembered."""

    text: str


def recall(stores: Stores, asked: Recall) -> RecallResult:
    """Find what answers a question best: messages, commands, visits, runs, what was learned."""
    names = ("project", "branch", "model", "session", "role", "part", "tool", "outcome")
    several: dict[str, Any] = {name: _one(getattr(asked, name)) for name in names}
    query = Query(
        **several,
        agent=_one(asked.agent),
        kind=asked.kind,
        entity=asked.entity,
        since=asked.since,
        until=asked.until,
    )
    nodes = NodeChoice(category=asked.category, excluded=asked.include_excluded)
    options: dict[str, Any] = {
        "limit": asked.limit,
        "explain": asked.explain,
        "newest": asked.newest,
        "fold": "nothing" if asked.all_hits else "session",
    }
    return stores.memory().recall(asked.q, query, nodes=nodes, **options)


def _one(value: str | None) -> tuple[str, ...]:
    return () if value is None else (value,)


def opened(stores: Stores, asked: OneRef) -> HitDetail:
    """Open a hit at its place, whole, with what stands around it."""
    memory = stores.memory()
    return memory.open(asked.ref, asked.around)


def ask(stores: Stores, _: Empty, body: Ask) -> Answer:
    """Answer a question with passages that were really said."""
    memory = stores.memory()
    model = answering(stores.home, memory) if body.model else None
    nodes = NodeChoice(excluded=body.include_excluded)
    within = Query(project=_one(body.project))
    given: dict[str, Any] = {"within": within, "nodes": nodes, "limit": body.limit}
    zone = ZoneInfo(stores.home.zone)
    return memory.ask(body.question, **given, answer_with=model, zone=zone)


def fixed(stores: Stores, _: Empty, body: FixRequest) -> Page[Fix]:
    """Find how an error was ended before; the most telling first."""
    memory = stores.memory()
    within = Query(project=_one(body.project))
    return Page(memory.fixed(body.error, within=within, limit=body.limit))


def similar(stores: Stores, asked: Like) -> RecallResult:
    """Find what is like a hit, or like a text."""
    memory = stores.memory()
    within = Query(project=_one(asked.project))
    return memory.similar(asked.q, within=within, limit=asked.limit)


def context(stores: Stores, _: Empty, body: ContextFor) -> ContextBlock:
    """Make a fenced block for a prompt of what is remembered."""
    given: dict[str, Any] = {"limit": body.limit, "max_chars": body.max_chars}
    memory = stores.memory()
    within = Query(project=_one(body.project))
    return ContextBlock(memory.context(body.about, within=within, **given))


def timeline(stores: Stores, asked: TimelineRequest) -> Page[Happened]:
    """Tell what happened: commands, agents' turns, pages, CI and commits, the latest first."""
    zone = ZoneInfo(stores.home.zone)
    since, last = _span(asked, zone)
    memory = stores.memory()

    def fetch(before: int | None, count: int) -> list[Happened]:
        until = last if before is None else before
        within = Query(project=_one(asked.project), since=since, until=until)
        return memory.timeline(within=within, zone=zone, limit=count)[::-1]

    def key(one: Happened) -> tuple[int, str]:
        return one.at, f"{one.kind} {one.ref}"

    return page_before(fetch, key, asked.limit, asked.cursor, str)


def _span(asked: TimelineRequest, zone: ZoneInfo) -> tuple[int | None, int | None]:
    if asked.day is None:
        return asked.since, asked.until
    if asked.since is not None or asked.until is not None:
        raise Invalid("a day and a span of time were both given", hint="give one of them")
    try:
        first = dt.datetime.combine(dt.date.fromisoformat(asked.day), dt.time.min, zone)
        after = first + dt.timedelta(days=1)
        return int(first.timestamp() * 1000), int(after.timestamp() * 1000)
    except (ValueError, OverflowError):
        raise Invalid(f"{asked.day!r} is not a day", hint="write 2026-03-01") from None


VERBS: tuple[ApiVerb, ...] = (
    verb("GET", "/recall", recall),
    verb("GET", "/open/{ref}", opened),
    verb("POST", "/ask", ask),
    verb("POST", "/fixed", fixed),
    verb("GET", "/similar", similar),
    verb("POST", "/context", context),
    verb("GET", "/timeline", timeline),
    *NOTE_VERBS,
)
