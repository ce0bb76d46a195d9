"""Views of memory: what was learned, what it mentions, and how that is related."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from threadkeep.base.match import read_match
from threadkeep.base.paths import project_name, repository_folder
from threadkeep.base.text import one_line
from threadkeep.base.tx import Row, Tx
from threadkeep.errors import Invalid, NotFound
from threadkeep.knowledge.command_list import CommandRow, StoredVisit
from threadkeep.knowledge.evidence import eligible_nodes
from threadkeep.knowledge.health import Drop, Health
from threadkeep.knowledge.hit_rows import summary_of, title_of
from threadkeep.knowledge.query import Query, refuse_others
from threadkeep.knowledge.results import (
    Edge,
    EntityRow,
    EntityView,
    Graph,
    NodePage,
    NodeRow,
    NodeView,
    ProjectRow,
)
from threadkeep.knowledge.schema import NODE_WORDS
from threadkeep.knowledge.search_index import strings_in
from threadkeep.knowledge.session_sql import like
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.knowledge.workflow_runs import RunDetails, RunRow, list_runs, run_details

_LAST: Final = (1 << 63) - 1
_CHUNK: Final = 200
_MOST_LOOKED_AT: Final = 10_000
_MOST: Final = 500
_NAMES_SHOWN: Final = 12
_NODES_OF_ENTITY: Final = 50
_NEIGHBOURS: Final = 40
_NODES_FOR_PAIRS: Final = 5_000
_EDGES: Final = 1_000
_EVIDENCE: Final = 200
# Of a node's content, beside its summary: what was written as sentences.
_SENTENCES: Final = ("intent", "key_decisions", "design_decisions", "problems_encountered")


class NodeEvidence(NamedTuple):
    """One thing that a node rests on."""

    kind: str
    number: int
    at: int | None
    place: str  # a repository or a folder
    cwd: str
    probe: bool


# ---------------------------------------------------------------------- nodes


def list_nodes(tx: Tx, query: Query, now: int, cursor: str | None, limit: int) -> NodePage:
    """List nodes, the newest first; those that rest on nothing real or settled are not shown."""
    refuse_others(query, "node")
    before = _LAST if cursor is None else _number(cursor)
    size = max(1, min(limit, _MOST))
    kept: list[NodeRow] = []
    looked = 0
    while True:
        rows = _nodes_before(tx, query, before)
        shown = eligible_nodes(tx, [row[0] for row in rows], now)
        found = _node_rows(tx, [row for row in rows if row[0] in shown], query.project)
        kept += [one for one in found if _is_in_span(one.at, query)]
        looked += len(rows)
        if len(kept) > size:
            return NodePage(tuple(kept[:size]), str(kept[size - 1].id))
        if len(rows) < _CHUNK:
            return NodePage(tuple(kept), None)
        before = rows[-1][0]
        if looked >= _MOST_LOOKED_AT:
            return NodePage(tuple(kept), str(before))


def _number(cursor: str) -> int:
    if not cursor.isascii() or not cursor.isdecimal() or len(cursor) > 18:  # noqa: PLR2004  (64 bits)
        hint = "give the one from the previous page, or none to start over"
        raise Invalid(f"{cursor[:40]!r} is not a cursor of this list", hint=hint)
    return int(cursor)


def _is_in_span(at: int | None, query: Query) -> bool:
    """Tell whether a time is in the span of a query; what has no time lies in no span."""
    if at is None:
        return query.since is None and query.until is None
    return (query.since is None or at >= query.since) and (query.until is None or at < query.until)


def _nodes_before(tx: Tx, query: Query, before: int) -> list[Row]:
    outcomes = [*query.outcome, *(["failure"] if "failed" in query.marks else [])]
    wanted = msgspec.json.encode(outcomes).decode() if outcomes else None
    page = {"before": before, "outcomes": wanted, "limit": _CHUNK}
    if not query.text.strip():
        if "tk_things" not in tx.tables():  # a file that another program made
            return tx.all("browse_nodes", page)
        at = _LAST if before == _LAST else tx.value("node_time", {"id": before}) or 0
        return tx.all("browse_nodes_by_time", {**page, "at": at})
    match = read_match(query.text, split=False)  # another program may have filled this index
    if match is None:
        return []
    return tx.all("browse_nodes_with_words", {**page, "match": NODE_WORDS.asked(tx, match)})


def _node_rows(tx: Tx, rows: Sequence[Row], projects: Sequence[str] = ()) -> list[NodeRow]:
    """Make rows to show; of a node whose evidence is all probes, none."""
    ids = [row[0] for row in rows]
    grounds = _grounds(tx, ids)
    names = _names(tx, ids)
    shown = []
    for row in rows:
        found = grounds.get(row[0], [])
        real = [one for one in found if not one.probe]
        if found and not real:
            continue
        if projects and not any(is_within(one, name) for one in real for name in projects):
            continue
        shown.append(_node_row(row, real, names.get(row[0], [])))
    return shown


def is_within(ground: NodeEvidence, project: str) -> bool:
    """Tell whether evidence is of a project: a folder with all below it, or a last component."""
    wanted = project.rstrip("/")
    places = [place.replace("\\", "/").rstrip("/") for place in (ground.place, ground.cwd)]
    return any(
        place == wanted
        or place.startswith(f"{wanted}/")
        or wanted in (place.rpartition("/")[2], project_name(place))
        for place in places
        if place
    )


def _grounds(tx: Tx, ids: Sequence[int]) -> dict[int, list[NodeEvidence]]:
    found: dict[int, list[NodeEvidence]] = {}
    for node, kind, number, at, place, cwd, probe in tx.all("browse_grounds", _ids(ids)):
        ground = NodeEvidence(kind, number, at, place or "", cwd or "", bool(probe))
        found.setdefault(node, []).append(ground)
    return found


def _names(tx: Tx, ids: Sequence[int]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for node, name in tx.all("browse_names_in_nodes", _ids(ids)):
        found.setdefault(node, []).append(name)
    return found


def _node_row(row: Row, grounds: Sequence[NodeEvidence], names: Sequence[str]) -> NodeRow:
    number, uuid, content, outcome, tags, created, *_ = row
    place = next((one.place for one in grounds if one.place), "")
    times = [one.at for one in grounds if one.at is not None]
    project = project_name(place) or None
    return NodeRow(
        id=number,
        uuid=uuid,
        summary=one_line(summary_of(content)),
        outcome=outcome,
        tags=tuple(strings_in(tags or "")),
        entities=tuple(names[:_NAMES_SHOWN]),
        project=project,
        at=max(times, default=created),
        title=title_of(_decoded(content), outcome, project),
    )


def read_node(tx: Tx, name: int | str, *, archived: bool) -> NodeView:
    """Return a node by its number or uuid, whole; `archived`: the file has sessions of ours."""
    number = tx.value("node_number", {"uuid": name}) if isinstance(name, str) else name
    if number is None and isinstance(name, str) and name.isdecimal() and len(name) < 19:  # noqa: PLR2004
        number = int(name)
    row = None if number is None else tx.one("browse_node", {"id": number})
    shown = [] if row is None else _node_rows(tx, [row])
    if row is None or not shown:
        raise NotFound(f"there is no node {name!r}", hint="it may have been deleted")
    grounds = [one for one in _grounds(tx, [row[0]]).get(row[0], []) if not one.probe]
    entities = tx.all("browse_entities_of_node", {"id": row[0]})
    return NodeView(
        row=shown[0],
        text=note_in(_decoded(row[2])) or row[7],
        content=_decoded(row[2]),
        evidence=tuple(_ref(tx, one, archived=archived) for one in grounds[:_EVIDENCE]),
        entities=tuple(EntityRow(*one) for one in entities),
        model=row[6],
    )


def note_in(content: Any) -> str:
    """Return what a node's content says in sentences; words it is only found by stay out."""
    if not isinstance(content, dict):
        return content if isinstance(content, str) else ""
    summary = content.get("summary")
    lines = [summary] if isinstance(summary, str) else []
    for name in _SENTENCES:
        told = strings_in(msgspec.json.encode(content.get(name) or []).decode())
        lines += [line for line in told if line.rstrip(".…") not in (lines or [""])[0]]
    return "\n".join(lines)


def _ref(tx: Tx, ground: NodeEvidence, *, archived: bool) -> str:
    """Name evidence so that it can be opened; a segment by the message that it begins with."""
    if ground.kind == "segment" and archived:
        entry = tx.value("first_entry_of_segment", {"id": ground.number})
        if entry is not None:
            return f"message:{entry}"
    return f"{ground.kind}:{ground.number}"


def _decoded(content: str) -> Any:
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return content


# ---------------------------------------------------------------------- entities


def list_entities(tx: Tx, text: str, type_: str | None, limit: int) -> list[EntityRow]:
    """List entities, the most often mentioned first."""
    pattern = f"%{like(text.strip())}%" if text.strip() else None
    values = {"type": type_, "text": pattern, "limit": max(0, min(limit, 10 * _MOST))}
    return _with_times(tx, [EntityRow(*row) for row in tx.all("browse_entities", values)])


def _with_times(tx: Tx, entities: Sequence[EntityRow]) -> list[EntityRow]:
    """Say when entities were last worked with: their rows tell when that was learned."""
    if "tk_things" not in tx.tables():  # a file that another program made
        return list(entities)
    of_each = {**_ids([one.id for one in entities]), "nodes": _NODES_OF_ENTITY}
    times: dict[int, int | None] = dict(tx.all("browse_last_mentioned", of_each))
    return [
        msgspec.structs.replace(one, last_seen=times.get(one.id) or one.last_seen)
        for one in entities
    ]


def read_entity(tx: Tx, number: int) -> EntityView:
    """Return an entity with the nodes that mention it and what is mentioned beside it."""
    rows = tx.all("browse_entities_by_id", _ids([number]))
    if not rows:
        raise NotFound(f"there is no entity {number}", hint="it may have been deleted")
    page = {"id": number, "limit": _NODES_OF_ENTITY}
    nodes = [row[0] for row in tx.all("browse_nodes_of_entity", page)]
    beside = {"id": number, "nodes": _NODES_FOR_PAIRS, "limit": _NEIGHBOURS}
    together: dict[int, int] = dict(tx.all("browse_neighbours", beside))
    ties = tx.all("browse_ties_of", {"id": number, "limit": _NEIGHBOURS})
    tied = {one for a, b, *_ in ties for one in (a, b)} - {number}
    edges = [Edge(a, b, kind, int(weight)) for a, b, kind, weight in ties]
    edges += [Edge(number, one, TOGETHER, count) for one, count in together.items()]
    neighbours = tx.all("browse_entities_by_id", _ids([*together, *(tied - together.keys())]))
    mentions = _node_rows(tx, tx.all("browse_nodes_by_id", _ids(nodes)))
    return EntityView(
        row=_with_times(tx, [EntityRow(*rows[0])])[0],
        nodes=tuple(sorted(mentions, key=lambda one: (-(one.at or 0), -one.id))),
        neighbours=tuple(EntityRow(*row) for row in neighbours),
        edges=tuple(edges),
    )


TOGETHER: Final = "together"  # the kind of an edge between two that the same nodes mention


def read_graph(tx: Tx, limit: int) -> Graph:
    """Return the most often mentioned entities, and the relations between them."""
    entities = list_entities(tx, "", None, limit)
    ids = _ids([one.id for one in entities])
    ties = tx.all("browse_ties", {**ids, "limit": _EDGES})
    pairs = tx.all("browse_together", {**ids, "nodes": _NODES_FOR_PAIRS, "limit": _EDGES})
    edges = [Edge(a, b, kind, int(weight)) for a, b, kind, weight in ties]
    edges += [Edge(a, b, TOGETHER, count) for a, b, count in pairs]
    return Graph(tuple(entities), tuple(edges))


def list_projects(tx: Tx) -> list[ProjectRow]:
    """List the projects that sessions were about, the latest first."""
    agents: dict[str, list[str]] = {}
    for project, harness in tx.all("browse_agents_of_projects"):
        agents.setdefault(project, []).append(harness)
    return [
        ProjectRow(name, count, last, tuple(agents.get(name, ())), _folder(tx, name))
        for name, count, last in tx.all("browse_projects")
    ]


def _folder(tx: Tx, project: str) -> str:
    """Return the folder in which a project was last worked on."""
    return repository_folder(tx.value("browse_folder_of_project", {"project": project}) or "")


def _ids(numbers: Iterable[int]) -> dict[str, str]:
    return {"ids": msgspec.json.encode(list(numbers)).decode()}


# ------------------------------------------------------------------------------
# What happened beside agents, read from an opened store: commands, pages, CI, alarms.
#
# A file of another program, or an older one, may lack a table: then nothing happened there.


def _has(store: KnowledgeStore, table: str) -> bool:
    with store.context.db.read() as tx:
        return table in tx.tables()


def commands(store: KnowledgeStore, query: Query, limit: int) -> list[CommandRow]:
    """List commands and tool calls, the latest first."""
    return store.list_events(query, limit=limit) if _has(store, "events") else []


def visits(
    store: KnowledgeStore, query: Query, domain: str | None, limit: int
) -> list[StoredVisit]:
    """List visits to pages, the latest first."""
    if not _has(store, "browser_events"):
        return []
    return store.list_visits(query, domain=domain, limit=limit)


def ci_runs(store: KnowledgeStore, query: Query, limit: int) -> list[RunRow]:
    """List runs of CI, the newest first."""
    if not _has(store, "workflow_runs"):
        return []
    with store.context.db.read(lenient=True) as tx:
        return list_runs(tx, query, limit)


def ci_run(store: KnowledgeStore, number: int) -> RunDetails:
    """Return a run of CI with its jobs."""
    found = None
    if _has(store, "workflow_runs"):
        with store.context.db.read(lenient=True) as tx:
            found = run_details(tx, number)
    if found is None:
        raise NotFound(f"there is no run {number}", hint="`threadkeep github runs` lists them")
    return found


def health(store: KnowledgeStore) -> list[Health]:
    """Tell how the capture of each source is."""
    return store.health() if _has(store, "source_health") else []


def drops(store: KnowledgeStore) -> list[Drop]:
    """Tell what did not become a row, and why."""
    return store.drops() if _has(store, "tk_drops") else []
