"""Files of memory from another knowledge file: the newer state counts, and one node tells of it.

Documents, revisions and chunks were matched before. A node of memory is replaced when its file
changes, and its name holds the number of a row, which is another one here: it is known by the
revision that it tells of, and never by its name.
"""

from typing import Any, Final, NamedTuple

from threadkeep.base.schema import columns_of
from threadkeep.base.sql import load_queries
from threadkeep.base.tx import Tx
from threadkeep.knowledge.forgetting import erase_nodes
from threadkeep.knowledge.layout import PACKAGE
from threadkeep.knowledge.memory_names import node_uuid

NODES: Final = "knowledge_nodes"
_QUERIES: Final = load_queries(PACKAGE, "merge.sql")


class MergedRow(NamedTuple):
    """Where a row of theirs is here, 0 if another stands for it; and whether it is new here."""

    number: int
    new: bool
    changed: bool = False


Places = dict[str, dict[int, MergedRow]]  # table -> number there -> where it is here


class _TellingNodes(NamedTuple):
    """The nodes that tell of a document: by their number, the revision and its chunks."""

    revision: int
    chunks: list[int]


def merge_memory(source: Tx, tx: Tx, places: Places) -> int:
    """Take over the state of each document that is newer there, with its node; place their nodes.

    Comes after the documents, revisions and chunks, and before the nodes and what refers to them.
    Gives how many documents that were here have changed.
    """
    changed = 0
    nodes = places.setdefault(NODES, {})
    documents = places["memory_documents"]
    for theirs in _rows(source, "memories", "memory_documents"):
        place = documents.get(theirs["id"])
        told = _told(source, theirs["id"])
        if place is None:
            nodes |= dict.fromkeys(told, MergedRow(0, new=False))
        elif _is_newer(tx, place, theirs):
            nodes |= _take_over(source, tx, places, theirs, told)
            changed += not place.new
        else:
            nodes |= _match(tx, places, place.number, told)
    return changed


def _is_newer(tx: Tx, place: MergedRow, theirs: dict[str, Any]) -> bool:
    updated, *_ = tx.execute(_QUERIES["memory_here"], {"id": place.number}).fetchone()
    return place.new or updated < theirs["updated_at"]


def _match(
    tx: Tx, places: Places, document: int, told: dict[int, _TellingNodes]
) -> dict[int, MergedRow]:
    """Find the nodes here that tell of the same revisions as theirs."""
    here = {one.revision: node for node, one in _told(tx, document).items()}
    revisions = places["memory_revisions"]
    at = {node: revisions.get(one.revision) for node, one in told.items()}
    return {n: MergedRow(here.get(p.number, 0) if p else 0, new=False) for n, p in at.items()}


def _take_over(
    source: Tx, tx: Tx, places: Places, theirs: dict[str, Any], told: dict[int, _TellingNodes]
) -> dict[int, MergedRow]:
    number = places["memory_documents"][theirs["id"]].number
    revisions = places["memory_revisions"]
    current, active = (
        revisions[theirs[column]].number if theirs[column] in revisions else None
        for column in ("current_revision_id", "active_revision_id")
    )
    values = {**theirs, "id": number, "current": current, "active": active}
    tx.execute(_QUERIES["take_over_memory"], values)
    tx.execute(_QUERIES["drop_old_categories"], {"id": number})
    if active is not None and theirs["projection_status"] == "ready":
        done = {"revision": active, "now": theirs["updated_at"]}
        tx.execute(_QUERIES["finish_ticket"], done)
    placed = _match(tx, places, number, told)
    kept = {place.number for place in placed.values()}
    erase_nodes(tx, [node for node in _told(tx, number) if node not in kept])
    for node, one in told.items():
        if placed[node].number == 0 and one.revision in revisions:
            placed[node] = _put_node(source, tx, places, (theirs["uuid"], node, one))
    return placed


def _put_node(
    source: Tx, tx: Tx, places: Places, told: tuple[str, int, _TellingNodes]
) -> MergedRow:
    """Put a node in, under the name that it has in this file, and link it."""
    document, node, one = told
    (row,) = _rows(source, "one_node", NODES, {"id": node})
    revision = places["memory_revisions"][one.revision].number
    if row["uuid"] == node_uuid(document, one.revision):
        row["uuid"] = node_uuid(document, revision)
    columns = [column for column in columns_of(tx, NODES) if column in row and column != "id"]
    listed, marks = (", ".join(f"{sign}{c}" for c in columns) for sign in ("", ":"))
    put = tx.execute(f"INSERT OR IGNORE INTO {NODES} ({listed}) VALUES ({marks})", row)  # noqa: S608
    if put.rowcount != 1 or put.lastrowid is None:
        return MergedRow(0, new=False)
    for chunk in one.chunks:
        place = places["memory_chunks"].get(chunk)
        if place is not None:
            tx.execute(_QUERIES["link_memory"], {"node": put.lastrowid, "chunk": place.number})
    return MergedRow(put.lastrowid, new=True)


def _told(tx: Tx, document: int) -> dict[int, _TellingNodes]:
    found: dict[int, _TellingNodes] = {}
    for node, revision, chunk in tx.execute(_QUERIES["nodes_of_memory"], {"id": document}):
        found.setdefault(node, _TellingNodes(revision, [])).chunks.append(chunk)
    return found


def _rows(
    tx: Tx, query: str, table: str, values: dict[str, int] | None = None
) -> list[dict[str, Any]]:
    columns = columns_of(tx, table)
    found = tx.execute(_QUERIES[query], values or {}).fetchall()
    return [dict(zip(columns, row, strict=True)) for row in found]
