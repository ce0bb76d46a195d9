"""What happened beside agents (commands, visits, runs of CI), and what was learned of all of it."""

from typing import Literal

import msgspec

from threadkeep.base.limits import Moment, RowId
from threadkeep.base.page import Cursor, Limit, Page, page_before, page_of
from threadkeep.base.verb_table import Given
from threadkeep.home.stores import Stores
from threadkeep.knowledge.command_list import CommandRow, StoredVisit
from threadkeep.knowledge.lessons import Lesson
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.records import Outcome
from threadkeep.knowledge.results import EntityRow, EntityView, Graph, NodeRow, NodeView
from threadkeep.knowledge.views import (
    ci_run,
    ci_runs,
    commands as stored_commands,
    visits as stored_visits,
)
from threadkeep.knowledge.workflow_runs import RunDetails, RunRow
from threadkeep.web.api.verb import ApiVerb, Name, Names, Words, query_of, verb

_ALL = 100_000


class CommandList(Given, frozen=True):
    """Which commands."""

    q: Words = ""
    session: Names = ()  # how its id begins, or the number of its row
    agent: Names = ()
    project: Names = ()
    branch: Names = ()
    role: tuple[Literal["user", "tool"], ...] = ()  # a person at a shell, or a tool of an agent
    tool: Names = ()
    outcome: tuple[Outcome, ...] = ()
    entity: Name | None = None
    failed: bool = False
    since: Moment | None = None
    until: Moment | None = None
    limit: Limit = 50
    cursor: Cursor = ""


class VisitList(Given, frozen=True):
    """Which web pages."""

    q: Words = ""
    domain: str | None = None
    since: Moment | None = None
    until: Moment | None = None
    limit: Limit = 50
    cursor: Cursor = ""


class RunList(Given, frozen=True):
    """Which runs of CI."""

    q: Words = ""
    project: Names = ()  # a name, or owner/name
    branch: Names = ()
    outcome: tuple[Outcome, ...] = ()
    failed: bool = False
    since: Moment | None = None
    until: Moment | None = None
    limit: Limit = 50
    cursor: Cursor = ""


class OneRun(Given, frozen=True):
    """A run of CI, by its number."""

    run: RowId


class NodeList(Given, frozen=True):
    """Which nodes."""

    q: Words = ""
    project: Names = ()
    outcome: tuple[Outcome, ...] = ()
    since: Moment | None = None
    until: Moment | None = None
    limit: Limit = 50
    cursor: Cursor = ""


class OneNode(Given, frozen=True):
    """A node, by its number or uuid."""

    node: Name


class EntityListRequest(Given, frozen=True):
    """Which entities."""

    q: Words = ""
    type: Name | None = None
    limit: Limit = 50
    cursor: Cursor = ""


class OneEntity(Given, frozen=True):
    """An entity, by its number."""

    entity: RowId


class GraphSize(Given, frozen=True):
    """How many entities."""

    limit: Limit = 150


class LessonListRequest(Given, frozen=True):
    """Which page of the lessons."""

    limit: Limit = 50
    cursor: Cursor = ""


def commands(stores: Stores, asked: CommandList) -> Page[CommandRow]:
    """List commands of shells and tools, the latest first."""
    store, query = stores.browse().store, query_of(stores, asked)

    def fetch(until: int | None, count: int) -> list[CommandRow]:
        return stored_commands(store, _before(query, until), count)

    return page_before(fetch, lambda one: (one.timestamp, one.id), asked.limit, asked.cursor)


def _before(query: Query, until: int | None) -> Query:
    """Narrow a query to what is older than a page."""
    ends = [at for at in (query.until, until) if at is not None]
    return msgspec.structs.replace(query, until=min(ends, default=None))


def visits(stores: Stores, asked: VisitList) -> Page[StoredVisit]:
    """List web pages that were read, the latest first."""
    store, query = stores.browse().store, query_of(stores, asked)

    def fetch(until: int | None, count: int) -> list[StoredVisit]:
        return stored_visits(store, _before(query, until), asked.domain, count)

    return page_before(fetch, lambda one: (one.timestamp, one.id), asked.limit, asked.cursor)


def runs(stores: Stores, asked: RunList) -> Page[RunRow]:
    """List runs of CI, the newest first."""
    found = ci_runs(stores.browse().store, query_of(stores, asked), _ALL)
    return page_of(
        found,
        lambda one: (one.started_at or one.first_seen_at, one.id),
        asked.limit,
        asked.cursor,
        newest_first=True,
    )


def run(stores: Stores, asked: OneRun) -> RunDetails:
    """Give a run of CI with its jobs and what they said."""
    return ci_run(stores.browse().store, asked.run)


# ---------------------------------------------------------------------- what was learned


def nodes(stores: Stores, asked: NodeList) -> Page[NodeRow]:
    """List what was learned, the newest first."""
    query = query_of(stores, asked)
    page = stores.browse().nodes(query, after=asked.cursor or None, limit=asked.limit)
    return Page(list(page.items), page.next)


def node(stores: Stores, asked: OneNode) -> NodeView:
    """Give a piece of knowledge with what it rests on."""
    name = asked.node
    plain = name.isascii() and name.isdigit() and len(name) < 16  # noqa: PLR2004
    return stores.browse().node(int(name) if plain else name)


def entities(stores: Stores, asked: EntityListRequest) -> Page[EntityRow]:
    """List what knowledge mentions, the most often mentioned first."""
    found = stores.browse().entities(text=asked.q, type=asked.type, limit=_ALL)
    return page_of(
        found, lambda one: (one.nodes, one.id), asked.limit, asked.cursor, newest_first=True
    )


def entity(stores: Stores, asked: OneEntity) -> EntityView:
    """Give something that knowledge mentions, with its nodes and neighbours."""
    return stores.browse().entity(asked.entity)


def graph(stores: Stores, asked: GraphSize) -> Graph:
    """Give the entities that are mentioned most, and what ties them."""
    return stores.browse().graph(asked.limit)


def lessons(stores: Stores, asked: LessonListRequest) -> Page[Lesson]:
    """List failures that came back, the most frequent first."""
    found = stores.browse().lessons(_ALL)
    return page_of(
        found, lambda one: (one.occurrences, one.id), asked.limit, asked.cursor, newest_first=True
    )


VERBS: tuple[ApiVerb, ...] = (
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
