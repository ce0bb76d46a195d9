"""The recall pages: hits across everything, a quoted answer, how an error ended, a thing opened."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from typing import Any, Final, get_args
from zoneinfo import ZoneInfo

import msgspec

from threadkeep.errors import Invalid, NotFound
from threadkeep.home.stores import Stores
from threadkeep.knowledge.lessons import Lesson
from threadkeep.knowledge.query import Kind, Query, fill_query, parse_query
from threadkeep.knowledge.results import EntityRow, EntityView, Graph, NodePage, NodeRow, NodeView
from threadkeep.memory.ask import Answer
from threadkeep.memory.fixed import Fix
from threadkeep.memory.memory import Memory
from threadkeep.memory.records import Hit, HitDetail, RecallResult
from threadkeep.memory.timeline import Moment
from threadkeep.web.page import Elsewhere, SitePage, SiteRequest
from threadkeep.web.words import opening_address, session_address, when, with_query

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_OLD_KINDS: Final = {"page": "visit", "ci": "run"}
_SHOWN: Final = 20
_COMPARED: Final = 50  # hits whose facets are counted
_MOST: Final = 500
_FACET: Final = 8
_AROUND: Final = 5
_SECONDS: Final = 1000


class HitLink(msgspec.Struct, frozen=True):
    """A hit, and the address at which it opens."""

    hit: Hit
    href: str
    others: str = ""  # the address of all hits of its session


class RecallChoice(msgspec.Struct, frozen=True):
    """One value of a facet; following `href` chooses it, or lets go of it."""

    value: str
    count: int
    chosen: bool
    href: str


class RecallFacet(msgspec.Struct, frozen=True):
    """One way to narrow the hits down."""

    name: str
    choices: tuple[RecallChoice, ...]


class RecallPage(msgspec.Struct, frozen=True):
    """The hits of a question."""

    q: str
    asked: dict[str, str]  # what was chosen besides the words
    ref: str  # what the hits are like; empty: they answer the words
    hits: tuple[HitLink, ...]
    facets: tuple[RecallFacet, ...]
    candidates: int
    by_meaning: bool
    notes: tuple[str, ...]
    missing: tuple[str, ...]  # words that none of the hits has
    took_ms: int
    more: str | None  # address of the same with more hits
    like: str = ""  # what is called so that the hits are like


class AskPage(msgspec.Struct, frozen=True):
    """A question, and what memory says to it."""

    q: str
    answer: Answer | None
    asked: dict[str, str]


class FixedPage(msgspec.Struct, frozen=True):
    """An error, and how errors like it ended."""

    q: str
    fixes: tuple[Fix, ...]


class OpenedPage(msgspec.Struct, frozen=True):
    """Something recalled, whole."""

    opened: HitDetail
    before: tuple[HitLink, ...]
    after: tuple[HitLink, ...]


# ---------------------------------------------------------------------- loading


def recall(visit: SiteRequest) -> RecallPage:
    """Recall what the address asks for."""
    began = time.perf_counter()
    q = visit.query.get("q", "").strip()
    asked = {name: value for name in _ASKED if (value := visit.query.get(name, ""))}
    query = parse_query(q, visit.now, visit.zone)
    within = within_of(query, asked, visit)
    limit = max(1, visit.number("limit", _SHOWN, _MOST))
    compared = max(limit, _COMPARED)
    found = _found(visit.stores.memory(), query.text, within, compared)
    rows = tuple(_folded_row(hit, q, asked) for hit in found.hits[:limit])
    more = with_query("/recall", q=q, **asked, limit=limit * 2)
    return RecallPage(
        q=q,
        asked=asked,
        ref="",
        hits=rows,
        facets=facets_of(q, asked, found.hits),
        candidates=found.candidates,
        by_meaning=found.by_meaning,
        notes=found.notes,
        missing=found.missing,
        took_ms=round((time.perf_counter() - began) * _SECONDS),
        more=more if len(found.hits) > limit else None,
    )


def _found(memory: Memory, words: str, within: Query, limit: int) -> RecallResult:
    """Recall words; where nothing has the last one, it may not be typed to its end."""
    found = memory.recall(words, within, limit=limit, explain=True, fold="session")
    last = words.rsplit(maxsplit=1)[-1].lower() if words[-1:].isalnum() else ""
    if not last or (found.hits and last not in map(str.lower, found.missing)):
        return found
    begun = memory.recall(f"{words}*", within, limit=limit, explain=True, fold="session")
    return begun if begun.hits else found


def ask(visit: SiteRequest) -> AskPage:
    """Answer a question with quotations."""
    q = visit.query.get("q", "").strip()
    if not q:
        return AskPage(q, None, {})
    query = parse_query(q, visit.now, visit.zone)
    asked = {name: value for name in _ASKED if (value := visit.query.get(name, ""))}
    within = within_of(query, asked, visit)
    answer = visit.stores.memory().ask(query.text or q, within=within, zone=visit.zone)
    return AskPage(q, answer, asked)


def fixed(visit: SiteRequest) -> FixedPage:
    """Find how an error was overcome."""
    q = visit.query.get("q", "").strip()
    return FixedPage(q, tuple(visit.stores.memory().fixed(q, limit=10)) if q else ())


def open_ref(visit: SiteRequest) -> OpenedPage:
    """Open a reference; messages and nodes have pages of their own."""
    opened = visit.stores.memory().open(visit.path["ref"], around=_AROUND)
    hit = opened.hit
    if hit.kind == "message" and hit.agent and hit.session_id:
        raise Elsewhere(session_address(hit.agent, hit.session_id, hit.key))
    if hit.kind == "node" and hit.uuid:
        raise Elsewhere(f"/nodes/{hit.uuid}")
    before, after = (tuple(map(row_of, beside)) for beside in (opened.before, opened.after))
    return OpenedPage(opened, before, after)


def similar(visit: SiteRequest) -> RecallPage:
    """Find what is like something that was recalled."""
    began = time.perf_counter()
    ref = visit.path["ref"]
    memory = visit.stores.memory()
    found = memory.similar(ref, limit=_SHOWN)
    like = memory.open(ref, around=0).hit
    return RecallPage(
        q="",
        asked={},
        ref=ref,
        hits=tuple(map(row_of, found.hits)),
        facets=(),
        candidates=found.candidates,
        by_meaning=found.by_meaning,
        notes=found.notes,
        missing=found.missing,
        took_ms=round((time.perf_counter() - began) * _SECONDS),
        more=None,
        like=like.title or ref,
    )


# ---------------------------------------------------------------------- pure


def row_of(hit: Hit) -> HitLink:
    """Return a hit with the address at which it opens."""
    if hit.kind == "message" and hit.agent and hit.session_id:
        return HitLink(hit, session_address(hit.agent, hit.session_id, hit.key))
    if hit.kind == "node" and hit.uuid:
        return HitLink(hit, f"/nodes/{hit.uuid}")
    return HitLink(hit, opening_address(hit.ref))


def _folded_row(hit: Hit, q: str, asked: dict[str, str]) -> HitLink:
    row = row_of(hit)
    if not hit.more:
        return row
    whole = f"{q} session:{hit.agent}:{hit.session_id}"
    return msgspec.structs.replace(row, others=with_query("/recall", q=whole, **asked))


def within_of(query: Query, asked: dict[str, str], visit: SiteRequest) -> Query:
    """Put what was typed and what was chosen together; what was chosen goes first."""
    since = parse_query(f"since:{asked.get('since', '')}", visit.now, visit.zone).since
    chosen: dict[str, Any] = {
        name: (asked[name],) for name in ("agent", "project") if asked.get(name)
    }
    kind = _OLD_KINDS.get(asked.get("kind", ""), asked.get("kind"))
    if kind in KINDS:
        chosen["kind"] = (kind,)
    if since is not None:
        chosen["since"] = since
    return msgspec.structs.replace(query, **chosen)


def facets_of(q: str, asked: dict[str, str], hits: Iterable[Hit]) -> tuple[RecallFacet, ...]:
    """Count what the hits can be narrowed down by; a chosen value stays to be let go of."""
    hits = list(hits)
    found = []
    for name, value_of in _FACETS.items():
        counts = Counter(value for hit in hits if (value := value_of(hit)))
        chosen = asked.get(name, "")
        if chosen:
            counts.setdefault(chosen, 0)
        if len(counts) > 1 or chosen:
            choices = (_choice(name, one, q, asked) for one in counts.most_common(_FACET))
            found.append(RecallFacet(name, tuple(choices)))
    return tuple(found)


def _choice(name: str, counted: tuple[str, int], q: str, asked: dict[str, str]) -> RecallChoice:
    value, count = counted
    is_chosen = asked.get(name) == value
    then: dict[str, Any] = {**asked, name: "" if is_chosen else value}
    return RecallChoice(value, count, is_chosen, with_query("/recall", q=q, **then))


_FACETS: Final[dict[str, Callable[[Hit], str | None]]] = {
    "kind": lambda hit: hit.kind,
    "agent": lambda hit: hit.agent,
    "project": lambda hit: hit.project,
}
_ASKED: Final = (*_FACETS, "since")

PAGES: Final = (
    SitePage("/recall", "recall.html", recall, "Recall"),
    SitePage("/ask", "ask.html", ask, "Ask"),
    SitePage("/fixed", "fixed.html", fixed, "Fixed"),
    SitePage("/open/{ref}", "opened.html", open_ref, "Recalled"),
    SitePage("/similar/{ref}", "similar.html", similar, "Similar"),
)


# ------------------------------------------------------------------------------
# The memory pages: nodes, what they mention, how that is related, and lessons.

# The contract has these types and no others.
ENTITY_TYPES: Final = (
    *("concept", "domain", "env_var", "file", "host", "person"),
    *("project", "repo", "service", "tool"),
)
OUTCOMES: Final = ("success", "partial", "failure", "unknown")
_NODES: Final = 40
_ENTITIES: Final = 200
_CENTRES: Final = 16
_BESIDE: Final = 12
_MOST_ID: Final = 2**53 - 1
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
    """One entity, with what mentions it and what is beside it."""

    entity: EntityView
    graph: Graph  # itself and its neighbours


class GraphPage(msgspec.Struct, frozen=True):
    """One neighbourhood of the graph: an entity with what is mentioned beside it."""

    centres: tuple[EntityRow, ...]  # the entities that are mentioned most
    of: int | None  # the one in the middle
    nodes: tuple[NodeRow, ...]  # that mention it
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
    chosen = outcome if outcome in OUTCOMES else ""
    given = {"q": q, "project": project, "outcome": chosen}
    found = browse.nodes(
        fill_query(given, visit.now, visit.zone),
        cursor=visit.query.get("after") or None,
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
    """Show what is mentioned beside one entity; of none, the one that is mentioned most."""
    browse = visit.stores.browse()
    centres = tuple(browse.entities(limit=_CENTRES))
    chosen = visit.number("of", centres[0].id if centres else 0, _MOST_ID)
    if not chosen:
        return GraphPage((), None, (), Graph((), ()))
    found = browse.entity(chosen)
    graph = Graph((found.row, *found.neighbours), found.edges)
    return GraphPage(centres, chosen, found.nodes[:_BESIDE], graph)


def list_lessons(visit: SiteRequest) -> LessonsPage:
    """List recurring failures, the latest first."""
    return LessonsPage(tuple(visit.stores.browse().lessons(_LESSONS)))


MEMORY_PAGES: Final = (
    SitePage("/nodes", "nodes.html", list_nodes, "Memory", kept=True),
    SitePage("/nodes/{uuid}", "node.html", show_node, "Node", kept=True),
    SitePage("/entities", "entities.html", list_entities, "Entities", kept=True),
    SitePage("/entities/graph", "graph.html", show_graph, "Graph of entities", kept=True),
    SitePage("/entities/{id:int}", "entity.html", show_entity, "Entity", kept=True),
    SitePage("/lessons", "lessons.html", list_lessons, "Lessons", kept=True),
)


# ------------------------------------------------------------------------------
# The timeline page: one day in the order of time, in lanes: agents, commands, visits, runs.

_LIMIT: Final = 600
_AGENTS: Final = "agents"
_KIND_LANES: Final = {"command": "commands", "commit": "commands", "visit": "visits", "run": "runs"}
_LANES: Final = tuple(dict.fromkeys((_AGENTS, *_KIND_LANES.values())))  # from left to right
# What comes first of what happened in the same moment.
_FIRST: Final = {"prompt": 0, "answer": 2}


class TimelineRow(msgspec.Struct, frozen=True):
    """Something that happened, in the lane of its source."""

    moment: Moment
    lane: int
    href: str


class Hour(msgspec.Struct, frozen=True):
    """What happened in one hour."""

    hour: int
    rows: tuple[TimelineRow, ...]


class TimelinePage(msgspec.Struct, frozen=True):
    """One day."""

    day: str
    weekday: str
    before: str  # addresses of the days around it
    after: str
    latest: str  # the last day on which anything happened
    project: str
    projects: tuple[str, ...]
    lanes: tuple[str, ...]
    hours: tuple[Hour, ...]
    counts: dict[str, int]  # kind -> how many
    cut: bool  # there was more than is shown


def show(visit: SiteRequest) -> TimelinePage:
    """Show what happened on a day; without one, on the last day on which anything did."""
    project = visit.query.get("project", "").strip()
    today = datetime.fromtimestamp(visit.now / 1000, visit.zone).date()
    latest = _latest(visit) or today
    day = read_day(visit.query.get("day", "")) or latest
    within = Query(project=(project,) if project else ())
    moments = visit.stores.memory().timeline(within=within, day=day, zone=visit.zone, limit=_LIMIT)
    return page_of(
        day, moments, visit.zone, latest=latest, project=project, projects=_projects(visit)
    )


def read_day(text: str) -> date | None:
    """Read a day; None if it is none, or one that has no neighbour."""
    try:
        found = date.fromisoformat(text.strip())
    except ValueError:
        return None
    return found if date(2, 1, 1) <= found <= date(9998, 12, 30) else None


def _latest(visit: SiteRequest) -> date | None:
    page = visit.stores.browse().sessions(Query(), limit=1)
    ended = page.items[0].session.ended_at if page.items else None
    return None if ended is None else read_day(when(ended, visit.zone)[:10])


def _projects(visit: SiteRequest) -> tuple[str, ...]:
    return tuple(name for name, _ in visit.stores.browse().facets(Query()).get("project", ()))


# ---------------------------------------------------------------------- pure


def page_of(
    day: date,
    moments: Sequence[Moment],
    zone: ZoneInfo,
    *,
    latest: date,
    project: str = "",
    projects: tuple[str, ...] = (),
) -> TimelinePage:
    """Sort a day into hours and lanes."""
    lanes = lanes_of(moments)
    counts: dict[str, int] = {}
    for one in moments:
        counts[one.kind] = counts.get(one.kind, 0) + one.count
    return TimelinePage(
        day=str(day),
        weekday=day.strftime("%A"),
        before=_address(day - timedelta(days=1), project),
        after=_address(day + timedelta(days=1), project),
        latest=_address(latest, project),
        project=project,
        projects=projects,
        lanes=lanes,
        hours=hours_of(moments, lanes, zone),
        counts=counts,
        cut=len(moments) >= _LIMIT,
    )


def _address(day: date, project: str) -> str:
    return with_query("/timeline", day=str(day), project=project)


def lanes_of(moments: Iterable[Moment]) -> tuple[str, ...]:
    """Name the lanes that have something."""
    having = {_lane(moment) for moment in moments}
    return tuple(lane for lane in _LANES if lane in having)


def _lane(moment: Moment) -> str:
    return _AGENTS if moment.agent else _KIND_LANES.get(moment.kind, _AGENTS)


def hours_of(moments: Iterable[Moment], lanes: Sequence[str], zone: ZoneInfo) -> tuple[Hour, ...]:
    """Sort moments into hours, each in its lane."""
    hours: dict[int, list[TimelineRow]] = {}
    for one in sorted(moments, key=lambda one: (one.at, _FIRST.get(one.kind, 1))):
        row = TimelineRow(one, lanes.index(_lane(one)) + 1, opening_address(one.ref))
        hours.setdefault(_local(one.at, zone).hour, []).append(row)
    return tuple(Hour(hour, tuple(rows)) for hour, rows in hours.items())


def _local(at: int, zone: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(at / 1000, zone)


TIMELINE_PAGES: Final = (SitePage("/timeline", "timeline.html", show, "Timeline"),)
