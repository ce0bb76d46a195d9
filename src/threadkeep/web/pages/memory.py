"""The memory pages: nodes, what they mention, how that hangs together, and lessons."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

import msgspec

from threadkeep.errors import Invalid, NotFound
from threadkeep.home.stores import Stores
from threadkeep.knowledge.lessons import Lesson
from threadkeep.knowledge.results import EntityRow, EntityView, Graph, NodePage, NodeView, Query
from threadkeep.web.page import SitePage, SiteRequest
from threadkeep.web.pages.recall import HitLink, row_of

# The contract has these types and no others.
ENTITY_TYPES: Final = (
    *("concept", "domain", "env_var", "file", "host", "person"),
    *("project", "repo", "service", "tool"),
)
OUTCOMES: Final = ("success", "partial", "failure", "unknown")
_NODES: Final = 40
_ENTITIES: Final = 200
_GRAPH: Final = 120
_EVIDENCE: Final = 12
_QUOTED: Final = 300  # characters of what a node rests on
_LESSONS: Final = 200


class NodesPage(msgspec.Struct, frozen=True):
    """Some nodes, the latest first."""

    q: str
    project: str
    outcome: str
    projects: tuple[str, ...]
    nodes: NodePage


class NodeShown(msgspec.Struct, frozen=True):
    """One node, whole."""

    node: NodeView
    evidence: tuple[HitLink, ...]  # the first things that it rests on, as far as they are there


class EntitiesPage(msgspec.Struct, frozen=True):
    """What knowledge mentions."""

    q: str
    type: str
    types: tuple[str, ...]
    entities: tuple[EntityRow, ...]


class EntityShown(msgspec.Struct, frozen=True):
    """One entity, with what mentions it and what stands beside it."""

    entity: EntityView
    graph: Graph  # itself and its neighbours


class GraphPage(msgspec.Struct, frozen=True):
    """The entities that are mentioned most, and what ties them."""

    graph: Graph


class LessonsPage(msgspec.Struct, frozen=True):
    """Failures that came back."""

    lessons: tuple[Lesson, ...]


def list_nodes(visit: SiteRequest) -> NodesPage:
    """List nodes by what the address asks for."""
    browse = visit.stores.browse()
    q, project, outcome = (
        visit.query.get(name, "").strip() for name in ("q", "project", "outcome")
    )
    found = browse.nodes(
        text=q,
        project=project or None,
        outcome=outcome if outcome in OUTCOMES else None,
        after=visit.query.get("after") or None,
        limit=max(1, visit.number("limit", _NODES, 200)),
    )
    projects = tuple(name for name, _ in browse.facets(Query()).get("project", ()))
    return NodesPage(q, project, outcome, projects, found)


def show_node(visit: SiteRequest) -> NodeShown:
    """Show a node by its number or uuid."""
    node = visit.stores.browse().node(visit.path["uuid"])
    return NodeShown(node, tuple(_opened(visit.stores, node.evidence[:_EVIDENCE])))


def _opened(stores: Stores, refs: Iterable[str]) -> Iterator[HitLink]:
    for ref in refs:
        with suppress(NotFound, Invalid):  # it may have been forgotten
            opened = stores.memory().open(ref, 0)
            said = " ".join(opened.text.split())[:_QUOTED]
            yield row_of(msgspec.structs.replace(opened.hit, snippet=said))


def list_entities(visit: SiteRequest) -> EntitiesPage:
    """List what knowledge mentions."""
    browse = visit.stores.browse()
    q, kind = visit.query.get("q", "").strip(), visit.query.get("type", "").strip()
    found = tuple(browse.entities(text=q, type=kind or None, limit=_ENTITIES))
    return EntitiesPage(q, kind, ENTITY_TYPES, found)


def show_entity(visit: SiteRequest) -> EntityShown:
    """Show an entity with its neighbours."""
    found: EntityView = visit.stores.browse().entity(int(visit.path["id"]))
    return EntityShown(found, Graph((found.row, *found.neighbours), found.edges))


def show_graph(visit: SiteRequest) -> GraphPage:
    """Show how entities hang together."""
    return GraphPage(visit.stores.browse().graph(visit.number("limit", _GRAPH, 300)))


def list_lessons(visit: SiteRequest) -> LessonsPage:
    """List failures that came back, the latest first."""
    return LessonsPage(tuple(visit.stores.browse().lessons(_LESSONS)))


PAGES: Final = (
    SitePage("/memory", "memory.html", list_nodes, "Memory", kept=True),
    SitePage("/memory/{uuid}", "node.html", show_node, "Node", kept=True),
    SitePage("/entities", "entities.html", list_entities, "Entities", kept=True),
    SitePage("/entities/graph", "graph.html", show_graph, "Graph of entities", kept=True),
    SitePage("/entities/{id:int}", "entity.html", show_entity, "Entity", kept=True),
    SitePage("/lessons", "lessons.html", list_lessons, "Lessons", kept=True),
)
