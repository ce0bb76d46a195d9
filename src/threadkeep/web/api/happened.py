"""What happened beside agents (commands, visits, runs of CI), and what was learned of all of it."""

from typing import Literal

import msgspec

from threadkeep.home.stores import Stores
from threadkeep.knowledge.command_list import CommandFilter, CommandRow, StoredVisit
from threadkeep.knowledge.lessons import Lesson
from threadkeep.knowledge.records import Outcome
from threadkeep.knowledge.results import EntityRow, EntityView, Graph, NodeRow, NodeView
from threadkeep.knowledge.views import (
    ci_run,
    ci_runs,
    commands as stored_commands,
    visits as stored_visits,
)
from threadkeep.knowledge.workflow_runs import RunDetails, RunRow
from threadkeep.web.api.verb import (
    Cursor,
    Limit,
    Moment,
    Name,
    ResultPage,
    RowId,
    Strict,
    Verb,
    Words,
    has_knowledge,
    page_before,
    page_of,
    verb,
)

_ALL = 100_000
_RAN_BY = {"user": "shell", "tool": "claude-tool"}  # as the column says it


class CommandList(Strict, frozen=True):
    """Which commands."""

    q: Words | None = None
    project: str | None = None
    role: Literal["user", "tool"] | None = None  # a person at a shell, or a tool of an agent
    terminal: str | None = None
    failed: bool = False
    since: Moment | None = None
    limit: Limit = 50
    cursor: Cursor = ""


class VisitList(Strict, frozen=True):
    """Which web pages."""

    q: Words | None = None
    domain: str | None = None
    since: Moment | None = None
    limit: Limit = 50
    cursor: Cursor = ""


class RunList(Strict, frozen=True):
    """Which runs of CI."""

    project: Name | None = None  # owner/name
    limit: Limit = 50
    cursor: Cursor = ""


class OneRun(Strict, frozen=True):
    """A run of CI, by its number."""

    run: RowId


class NodeList(Strict, frozen=True):
    """Which nodes."""

    q: Words = ""
    project: Name | None = None
    outcome: Outcome | None = None
    limit: Limit = 50
    cursor: Cursor = ""


class OneNode(Strict, frozen=True):
    """A node, by its number or uuid."""

    node: Name


class EntityListRequest(Strict, frozen=True):
    """Which entities."""

    q: Words = ""
    type: Name | None = None
    limit: Limit = 50
    cursor: Cursor = ""


class OneEntity(Strict, frozen=True):
    """An entity, by its number."""

    entity: RowId


class GraphSize(Strict, frozen=True):
    """How many entities."""

    limit: Limit = 150


class LessonListRequest(Strict, frozen=True):
    """Which page of the lessons."""

    limit: Limit = 50
    cursor: Cursor = ""


def commands(stores: Stores, asked: CommandList) -> ResultPage[CommandRow]:
    """List commands of shells and tools, the latest first."""
    if not has_knowledge(stores):
        return ResultPage([])
    store = stores.browse().store
    narrowed = msgspec.structs.asdict(asked)
    del narrowed["limit"], narrowed["cursor"]
    narrowed |= {"text": narrowed.pop("q"), "kind": _RAN_BY.get(narrowed.pop("role"))}

    def fetch(until: int | None, count: int) -> list[CommandRow]:
        return stored_commands(store, CommandFilter(**narrowed, until=until), count)

    return page_before(fetch, lambda one: (one.timestamp, one.id), asked)


def visits(stores: Stores, asked: VisitList) -> ResultPage[StoredVisit]:
    """List web pages that were read, the latest first."""
    if not has_knowledge(stores):
        return ResultPage([])
    store = stores.browse().store

    def fetch(until: int | None, count: int) -> list[StoredVisit]:
        narrowed = (asked.since, until, asked.domain, asked.q)
        return stored_visits(store, *narrowed, count)

    return page_before(fetch, lambda one: (one.timestamp, one.id), asked)


def runs(stores: Stores, asked: RunList) -> ResultPage[RunRow]:
    """List runs of CI, the newest first."""
    if not has_knowledge(stores):
        return ResultPage([])
    found = ci_runs(stores.browse().store, asked.project, _ALL)
    return page_of(
        found, lambda one: (one.started_at or one.first_seen_at, one.id), asked, newest_first=True
    )


def run(stores: Stores, asked: OneRun) -> RunDetails:
    """Give a run of CI with its jobs and what they said."""
    return ci_run(stores.browse().store, asked.run)


# ---------------------------------------------------------------------- what was learned


def nodes(stores: Stores, asked: NodeList) -> ResultPage[NodeRow]:
    """List what was learned, the newest first."""
    if not has_knowledge(stores):
        return ResultPage([])
    page = stores.browse().nodes(
        text=asked.q,
        project=asked.project,
        outcome=asked.outcome,
        after=asked.cursor or None,
        limit=asked.limit,
    )
    return ResultPage(page.items, page.next)


def node(stores: Stores, asked: OneNode) -> NodeView:
    """Give a piece of knowledge with what it rests on."""
    name = asked.node
    plain = name.isascii() and name.isdigit() and len(name) < 16  # noqa: PLR2004
    return stores.browse().node(int(name) if plain else name)


def entities(stores: Stores, asked: EntityListRequest) -> ResultPage[EntityRow]:
    """List what knowledge mentions, the most often mentioned first."""
    if not has_knowledge(stores):
        return ResultPage([])
    found = stores.browse().entities(text=asked.q, type=asked.type, limit=_ALL)
    return page_of(found, lambda one: (one.nodes, one.id), asked, newest_first=True)


def entity(stores: Stores, asked: OneEntity) -> EntityView:
    """Give something that knowledge mentions, with its nodes and neighbours."""
    return stores.browse().entity(asked.entity)


def graph(stores: Stores, asked: GraphSize) -> Graph:
    """Give the entities that are mentioned most, and what ties them."""
    return stores.browse().graph(asked.limit)


def lessons(stores: Stores, asked: LessonListRequest) -> ResultPage[Lesson]:
    """List failures that came back, the most frequent first."""
    found = stores.browse().lessons(_ALL) if has_knowledge(stores) else []
    return page_of(found, lambda one: (one.occurrences, one.id), asked, newest_first=True)


VERBS: tuple[Verb, ...] = (
    verb("GET", "/commands", commands),
    verb("GET", "/visits", visits),
    verb("GET", "/runs", runs),
    verb("GET", "/runs/{run}", run),
    verb("GET", "/nodes", nodes),
    verb("GET", "/nodes/{node}", node),
    verb("GET", "/entities", entities),
    verb("GET", "/entities/{entity}", entity),
    verb("GET", "/entities/graph", graph),
    verb("GET", "/lessons", lessons),
)
