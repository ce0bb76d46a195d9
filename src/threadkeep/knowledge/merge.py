"""The rows of one knowledge file brought into another, each once.

A row is known by what it is, never by its number: numbers are given again, and what refers to them
follows. All happens in one transaction, and what is there already stays as it is, so a merge that
was cut off is simply repeated, and a second one changes nothing.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import msgspec

from threadkeep.base.database import Database
from threadkeep.base.sql import load_queries, load_text
from threadkeep.base.sqlite.catalogue import foreign_keys, never_null
from threadkeep.base.sqlite.upkeep import sqlite_file
from threadkeep.base.tx import Sql, Tx
from threadkeep.knowledge.archive import digest
from threadkeep.knowledge.forget import erase, erase_nodes
from threadkeep.knowledge.kinds import KINDS, Kind
from threadkeep.knowledge.memory_documents import node_uuid
from threadkeep.knowledge.repair import (
    HARNESSES,
    TABLE as ORPHANS,
    harness_is_allowed,
    is_agent_name,
    widen_harness,
)
from threadkeep.knowledge.schema import MEMORY, PACKAGE

# ------------------------------------------------------------------------------
# Files of memory from another knowledge file: the newer state counts, and one node tells of it.
#
# Documents, revisions and chunks were matched before. A node of memory is replaced when its file
# changes, and its name holds the number of a row, which is another one here: it is known by the
# revision that it tells of, and never by its name.

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
    updated = tx.value(Sql(_QUERIES["memory_here"]), {"id": place.number})
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
    tx.run(Sql(_QUERIES["take_over_memory"]), values)
    tx.run(Sql(_QUERIES["drop_old_categories"]), {"id": number})
    if active is not None and theirs["projection_status"] == "ready":
        done = {"revision": active, "now": theirs["updated_at"]}
        tx.run(Sql(_QUERIES["finish_ticket"]), done)
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
    columns = [column for column in tx.columns(NODES) if column in row and column != "id"]
    listed, marks = (", ".join(f"{sign}{c}" for c in columns) for sign in ("", ":"))
    sql = f"INSERT OR IGNORE INTO {NODES} ({listed}) VALUES ({marks})"  # noqa: S608
    put = tx.insert(Sql(sql), row)
    if not put:
        return MergedRow(0, new=False)
    for chunk in one.chunks:
        place = places["memory_chunks"].get(chunk)
        if place is not None:
            tx.run(Sql(_QUERIES["link_memory"]), {"node": put, "chunk": place.number})
    return MergedRow(put, new=True)


def _told(tx: Tx, document: int) -> dict[int, _TellingNodes]:
    found: dict[int, _TellingNodes] = {}
    for node, revision, chunk in tx.all(Sql(_QUERIES["nodes_of_memory"]), {"id": document}):
        found.setdefault(node, _TellingNodes(revision, [])).chunks.append(chunk)
    return found


def _rows(
    tx: Tx, query: str, table: str, values: dict[str, int] | None = None
) -> list[dict[str, Any]]:
    columns = tx.columns(table)
    found = tx.all(Sql(_QUERIES[query]), values or {})
    return [dict(zip(columns, row, strict=True)) for row in found]


Row = dict[str, Any]
Progress = Callable[[int, int], None]
_MAKE_ORPHANS: Final = load_text(PACKAGE, "orphans.sql")
# What is known of something forgotten, and the query that finds it.
_KNOWN_BY: Final[tuple[tuple[Kind, str], ...]] = (
    ("segment", "segments_of_session"),
    ("legacy", "legacy_of_session"),
    ("event", "events_of_conversation"),
    ("document", "documents_forgotten_as"),
)
_EVERY: Final = 500  # rows between two words about the progress


class ForgetList(NamedTuple):
    """What the user asked to forget: conversations by harness and session, texts by digest."""

    conversations: Sequence[tuple[str, str]] = ()
    texts: frozenset[bytes] = frozenset()


class MergeCounts(msgspec.Struct, frozen=True):
    """What came of the rows of one table."""

    new: int = 0
    there: int = 0  # they were there already, or belong to such a row
    left: int = 0  # the schema here refuses them, or what they refer to
    changed: int = 0  # of those that were there: slices of conversations that have grown since


class _Way(NamedTuple):
    """How a table is merged; of several keys the first counts that has no NULL, else the last."""

    table: str
    keys: tuple[tuple[str, ...], ...]
    ticket: bool = False  # it says what is to be done about another row: only if that one is new
    also: tuple[str, ...] = ()  # another key, for a row that is not found by the first
    counted: str = ""  # a number within a parent: where another row has it, the next one is given


_RULE: Final = ("repo", "tool", "rule_id", "path_prefix")
# What is referred to comes first. Not here: how far Hippo has read its logs (ours are read by us),
# and vectors (their tables need an extension, and can be made again).
WAYS: Final = (
    _Way("sessions", (("start_time", "terminal", "shell", "hostname"),)),
    _Way("env_snapshots", (("content_hash",),)),
    _Way("events", (("envelope_id",), ("session_id", "timestamp", "command", "source_kind"))),
    _Way("browser_events", (("envelope_id",), ("timestamp", "url"))),
    _Way("workflow_runs", (("id",),)),
    _Way("workflow_jobs", (("id",),)),
    _Way(
        "workflow_annotations",
        (("job_id", "level", "tool", "rule_id", "path", "start_line", "message"),),
    ),
    _Way("workflow_log_excerpts", (("job_id", "step_name", "excerpt"),)),
    _Way("sha_watchlist", (("sha", "repo"),)),
    _Way("lessons", (_RULE,)),
    _Way("lesson_pending", (_RULE,)),
    _Way("entities", (("type", "canonical"), ("type", "name"))),
    _Way("relationships", (("from_entity_id", "to_entity_id", "relationship"),)),
    _Way("event_entities", (("event_id", "entity_id", "role"),)),
    _Way("agentic_sessions", (("session_id", "harness", "segment_index"),)),
    _Way("claude_sessions", (("session_id", "segment_index"),)),
    _Way("claude_session_parity", (("path", "window_start", "window_end"),)),
    _Way("memory_documents", (("source_kind", "repository", "logical_path"),), also=("uuid",)),
    _Way(
        *("memory_revisions", (("document_id", "revision_number", "content_hash"),)),
        also=("document_id", "content_hash", "change_kind", "created_at"),
        counted="revision_number",
    ),
    _Way("memory_chunks", (("revision_id", "ordinal"),)),
    _Way("memory_document_categories", (("document_id", "category", "source"),)),
    _Way(
        "memory_document_links",
        (("source_document_id", "source_revision_id", "target_logical_path"),),
    ),
    _Way("knowledge_nodes", (("uuid",),)),
    *(
        _Way(kind.links, (("knowledge_node_id", kind.link),))
        for kind in KINDS
        if kind.links and kind.link
    ),
    *(
        _Way(kind.tickets.name, ((kind.tickets.target,),), ticket=True)
        for kind in KINDS
        if kind.tickets
    ),
    _Way("capture_alarms", (("invariant_id", "raised_at"),)),
    _Way("source_health", (("source",),)),
    _Way(ORPHANS, (("table_name", "row_json", "reason"),)),
)


class _Table(NamedTuple):
    """A table as both files have it."""

    way: _Way
    columns: tuple[str, ...]
    parents: Mapping[str, str]  # column -> the table it refers to
    needed: frozenset[str]  # references that cannot be empty
    insert: str


def merge_knowledge(
    theirs: Database, ours: Database, progress: Progress | None = None
) -> dict[str, MergeCounts]:
    """Bring the rows of one file into another, of versions that we know; only `ours` is written.

    What `ours` has no table for stays out.
    """
    with theirs.read(lenient=True) as source:
        _allow_harnesses(source, ours)
        present = source.tables()
        tell = _teller(source, [way for way in WAYS if way.table in present], progress)
        places: Places = {}
        with ours.write() as tx:
            if ORPHANS in present:
                tx.script(_MAKE_ORPHANS)
            present &= tx.tables()
            done: dict[str, MergeCounts] = {}
            for way in WAYS:
                if way.table == NODES and present >= MEMORY:
                    changed = merge_memory(source, tx, places)
                    told = done["memory_documents"]
                    done["memory_documents"] = msgspec.structs.replace(told, changed=changed)
                if way.table in present:
                    done[way.table] = _merge_table(source, tx, way, places, tell)
            return done


def _allow_harnesses(source: Tx, ours: Database) -> None:
    """Let our file take the agents that we know, and those that the other's schema names."""
    found = [str(row[0]) for row in source.all(Sql(_QUERIES["harnesses"]))]
    named = [one for one in found if is_agent_name(one)]
    wanted = [one for one in named if one in HARNESSES or harness_is_allowed(source, one)]
    with ours.read() as tx:
        if all(harness_is_allowed(tx, harness) for harness in wanted):
            return
    with sqlite_file(ours).write(foreign_keys=False) as tx:
        widen_harness(tx, wanted)


def _teller(source: Tx, ways: list[_Way], progress: Progress | None) -> Callable[[], None]:
    if progress is None:
        return lambda: None
    sql = "SELECT count(*) FROM {}"
    total = sum(int(source.value(Sql(sql.format(way.table)))) for way in ways)
    done = 0

    def tell() -> None:
        nonlocal done
        done += 1
        if done % _EVERY == 0 or done == total:
            progress(done, total)

    return tell


# ---------------------------------------------------------------------- one table


def _merge_table(
    source: Tx, tx: Tx, way: _Way, places: Places, tell: Callable[[], None]
) -> MergeCounts:
    table = _table(source, tx, way)
    found = places.setdefault(way.table, {})  # some may have come with what they belong to
    taken: set[int] = set()  # rows here that stand for one of theirs: of two alike both come
    there = left = 0
    for number, row in _merging_rows(source, table):
        place = found.get(number) or _settle(tx, table, row, places, taken)
        if place is None:
            left += 1
        else:
            found[number] = place
            taken.add(place.number)
            there += not place.new
        tell()
    new = sum(place.new for place in found.values())
    changed = sum(place.changed for place in found.values())
    return MergeCounts(new, there, left, changed)


def _table(source: Tx, tx: Tx, way: _Way) -> _Table:
    theirs = set(source.columns(way.table))
    columns = tuple(c for c in tx.columns(way.table) if c in theirs)
    parents = {key.column: key.parent for key in foreign_keys(tx, way.table)}
    needed = frozenset(never_null(tx, way.table)) & parents.keys()
    return _Table(way, columns, parents, needed, _insert_sql(way, columns))


def _insert_sql(way: _Way, columns: tuple[str, ...]) -> str:
    """Leave the number out, which is given again; GitHub's numbers stay."""
    stored = [c for c in columns if c != "id" or way.keys == (("id",),)]
    listed = ", ".join(f'"{column}"' for column in stored)
    marks = ", ".join(f":{column}" for column in stored)
    return f'INSERT OR IGNORE INTO "{way.table}" ({listed}) VALUES ({marks})'  # noqa: S608


def _merging_rows(source: Tx, table: _Table) -> Iterator[tuple[int, Row]]:
    shown = ", ".join(f'"{column}"' for column in table.columns)
    sql = f'SELECT rowid, {shown} FROM "{table.way.table}" ORDER BY rowid'  # noqa: S608
    for number, *values in source.each(Sql(sql)):
        yield number, dict(zip(table.columns, values, strict=True))


def _settle(tx: Tx, table: _Table, row: Row, places: Places, taken: set[int]) -> MergedRow | None:
    """Find the row here, or put it in; None if it cannot be here."""
    parents = _refer(table, row, places)
    if parents is None:
        return None
    if any(parent.number == 0 for parent in parents):
        return MergedRow(0, new=False)
    if table.way.ticket:
        if not all(parent.new for parent in parents):
            return MergedRow(0, new=False)
        row |= _unlocked(row)
    here = _find(tx, table.way, row)
    free = next((number for number in here if number not in taken), None)
    if free is None:
        number = _insert(tx, table, row) or _insert_next(tx, table, row)
        if number is not None:
            return MergedRow(number, new=True)
        free = here[0] if here else None
    if free is None:
        return None
    return MergedRow(free, new=False, changed=_merging_take_over(tx, table.way.table, free, row))


def _refer(table: _Table, row: Row, places: Places) -> list[MergedRow] | None:
    """Let a row refer to the rows here; None if it needs one that is not."""
    found = []
    for column, parent in table.parents.items():
        place = places.get(parent, {}).get(row[column]) if row.get(column) is not None else None
        if place is not None:
            found.append(place)
        elif column in table.needed:
            return None
        row[column] = None if place is None else place.number
    return found


def _unlocked(row: Row) -> Row:
    """Whoever had taken a ticket there does not work here."""
    waits = row["status"] == "processing" or row["locked_by"] == "threadkeep"
    status = "pending" if waits else row["status"]
    return {"status": status, "locked_at": None, "locked_by": None}


def _insert_next(tx: Tx, table: _Table, row: Row) -> int | None:
    """Put a row in under the next number within its parent, where another has its own."""
    column, parent = table.way.counted, table.way.keys[0][0]
    if not column:
        return None
    sql = f'SELECT max("{column}") FROM "{table.way.table}" WHERE "{parent}" = :{parent}'  # noqa: S608
    return _insert(tx, table, row | {column: int(tx.value(Sql(sql), row) or 0) + 1})


def _find(tx: Tx, way: _Way, row: Row) -> list[int]:
    """Return the numbers of the rows here with the key of a row."""
    whole = (key for key in way.keys if all(row[column] is not None for column in key))
    found = _find_by(tx, way.table, next(whole, way.keys[-1]), row)
    return found or (_find_by(tx, way.table, way.also, row) if way.also else [])


def _find_by(tx: Tx, table: str, key: tuple[str, ...], row: Row) -> list[int]:
    empty = tuple(column for column in key if row[column] is None)
    return [int(found[0]) for found in tx.all(Sql(_find_sql(table, key, empty)), row)]


@cache
def _find_sql(table: str, key: tuple[str, ...], empty: tuple[str, ...]) -> str:
    # With `IS ?` SQLite would not use an index that leaves out NULL.
    terms = (f'"{c}" IS NULL' if c in empty else f'"{c}" = :{c}' for c in key)
    return f'SELECT rowid FROM "{table}" WHERE {" AND ".join(terms)} ORDER BY rowid'  # noqa: S608


def _insert(tx: Tx, table: _Table, row: Row) -> int | None:
    """Put a row in; None if a constraint refuses it."""
    return tx.insert(Sql(table.insert), row) or None


def _merging_take_over(tx: Tx, table: str, number: int, row: Row) -> bool:
    """Learn from a row of theirs what the row here does not know; tell whether it has grown."""
    grown = False
    if table == "agentic_sessions":
        (here,) = tx.all(Sql(_QUERIES["size_of_slice"]), {"id": number})
        if here < (row["end_time"], row["message_count"]):
            grown = tx.count(Sql(_QUERIES["take_over_growth"]), {**row, "id": number}) == 1
        values = {
            "id": number,
            "hash": row["content_hash"],
            "learned": row["last_enriched_content_hash"],
            "enriched": row["enriched"],
        }
        tx.run(Sql(_QUERIES["take_over_learning"]), values)
    if table == "source_health":
        values = {
            "source": row["source"],
            "event": row["last_event_ts"],
            "success": row["last_success_ts"],
            "heartbeat": row["last_heartbeat_ts"],
        }
        tx.run(Sql(_QUERIES["raise_health"]), values)
    if table == "memory_revisions":
        grown = tx.count(Sql(_QUERIES["take_over_revision"]), {**row, "id": number}) == 1
    if table == "memory_document_links":
        tx.run(Sql(_QUERIES["take_over_link"]), {**row, "id": number})
    return grown


# ---------------------------------------------------------------------- what is not wanted


def list_forgotten(tx: Tx) -> ForgetList:
    """Give what the user asked to forget: conversations by harness and session, texts by digest."""
    names_ = tx.all(Sql(_QUERIES["forgotten"]))
    return ForgetList(names_, frozenset(row[0] for row in tx.all("forgotten_digests")))


def drop_forgotten(tx: Tx, unwanted: ForgetList) -> int:
    """Take out what was forgotten, with what was learned from it alone; give how many rows went."""
    count = 0
    for harness, name in unwanted.conversations:
        values = {"harness": harness, "session_id": name}
        for kind, query in _KNOWN_BY:
            numbers = [int(row[0]) for row in tx.all(query, values)]
            erase(tx, kind, numbers)
            count += len(numbers)
        tx.run("drop_empty_shell_session", {"terminal": name})
    said = [int(row[0]) for row in tx.all("revisions_said")] if unwanted.texts else []
    numbers = [n for n in said if _says(tx, n, unwanted.texts)]
    erase(tx, "revision", numbers)
    return count + len(numbers)


def _says(tx: Tx, revision: int, texts: frozenset[bytes]) -> bool:
    said = tx.all("said_in_revision", {"id": revision})
    return any(digest(text.encode("utf-8", "replace")) in texts for (text,) in said)
