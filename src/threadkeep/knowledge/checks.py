"""Whether a knowledge file is whole: every page, reference, hash and word; and mending indexes."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from threadkeep.base.database import Database
from threadkeep.base.json import decode, encode
from threadkeep.base.sqlite.checks import sqlite_problems
from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.base.sqlite.upkeep import sqlite_file
from threadkeep.base.tx import Sql, Tx
from threadkeep.base.word_index import WordIndex
from threadkeep.errors import Damaged, Invalid, ThreadkeepError
from threadkeep.knowledge.archive import read_block, text_hash
from threadkeep.knowledge.copies import copies_by_harness
from threadkeep.knowledge.entities import recount_some
from threadkeep.knowledge.ledger import ModelUsage, day_of, spent
from threadkeep.knowledge.nodes import node_marks
from threadkeep.knowledge.queues import depths
from threadkeep.knowledge.schema import (
    ENTRY_WORDS,
    FILL_INDEX,
    NODE_WORDS,
    THING_WORDS,
    read_version,
)
from threadkeep.knowledge.search_index import clear_things, is_indexable
from threadkeep.knowledge.store import QUERIES
from threadkeep.knowledge.vector_rows import count_vectors

Show = Callable[[int, int], None]

_FEW: Final = 20
_INDEXES: Final = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE '%USING fts5%'"


def deep_problems(database: Database, show: Show | None = None) -> list[str]:
    """Check a knowledge store whole; give what is wrong with it, at most twenty sentences."""
    try:
        with database.read() as tx:
            problems = sqlite_problems(tx)
            if not problems:
                missing = unindexed(tx) + differing(tx)
                if missing:
                    said = "rows are missing in the full-text index, or differ there"
                    problems.append(f"{missing} {said}")
                problems += _blocks(tx, show)
        return (problems or list(index_problems(database)))[:_FEW]
    except ThreadkeepError as error:
        return [error.message]


def index_problems(database: Database) -> Iterator[str]:
    """Let every full-text index of a file compare itself with what it is made of."""
    with database.read() as tx:
        indexes = [str(row[0]) for row in tx.all(Sql(_INDEXES))]
    if database.read_only:
        return  # FTS5 wants a connection that could write, though it writes nothing
    for index in indexes:
        try:
            with database.write(durable=False) as tx:
                problem = WordIndex(index).problem(tx, compare=True)
        except Damaged as error:
            problem = f"is damaged ({error.message})"
        if problem is not None:
            yield f"the full-text index {index} {problem}"


def count_unindexed(path: Path) -> int:
    """Count the rows of a file that its full-text indexes do not have, without changing it."""
    with SqliteDatabase(path, QUERIES, read_only=True) as database, database.read() as tx:
        return unindexed(tx)


def unindexed(tx: Tx) -> int:
    """Count the rows that the full-text indexes do not have; the texts are not compared."""
    tables, count = tx.tables(), 0
    if tables >= {"tk_entries", "tk_entry_words_docsize"} and not _is_cleaning(tx, tables):
        count += int(tx.value("entries_without_words", {"empty": text_hash("")}))
    if tables >= {"knowledge_nodes", "knowledge_fts_docsize"}:
        count += int(tx.value("nodes_unindexed"))
    return count


def differing(tx: Tx) -> int:
    """Count the nodes whose text in the index is another one, and texts there without a node."""
    if not tx.tables() >= {"knowledge_nodes", "knowledge_fts_content"}:
        return 0
    return int(tx.value("nodes_differing")) + int(tx.value("words_without_nodes"))


def _is_cleaning(tx: Tx, tables: set[str]) -> bool:
    """While something forgotten is being taken out, the words are rebuilt."""
    if "tk_cleaning" not in tables:
        return False
    return tx.one("cleaning") is not None


def _blocks(tx: Tx, show: Show | None) -> list[str]:
    """Read every block of the archive and compare it with its digest."""
    if "tk_blocks" not in tx.tables():
        return []
    found: list[str] = []
    numbers = [int(row[0]) for row in tx.all("archive_blocks")]
    for done, number in enumerate(numbers, 1):
        try:
            read_block(tx, number)
        except Damaged as error:
            found.append(error.message)
        if show is not None:
            show(done, len(numbers))
        if len(found) >= _FEW:
            break
    return found


def clear_indexes(tx: Tx) -> int:
    """Index every node again, and have everything else reindexed; give how many nodes."""
    for index in _indexes(tx):
        index.mend(tx)
    NODE_WORDS.rebuild(tx)  # nothing can be taken out of an index that does not have it
    tx.run(Sql("DELETE FROM knowledge_fts"))
    if is_indexable(tx):
        clear_things(tx)
    return tx.count(Sql(FILL_INDEX))


# ---------------------------------------------------------------------- small steps

# Small enough that whoever wants to write waits some milliseconds.
_MERGE_PAGES: Final = 64
_MERGES: Final = 8
_TIES: Final = 200
_FREE_PAGES: Final = 256
_TRUNCATE_SECONDS: Final = 0.5
_WORDS: Final = (ENTRY_WORDS, THING_WORDS, NODE_WORDS)


def _indexes(tx: Tx) -> list[WordIndex]:
    """Return the full-text indexes that a file has."""
    tables = tx.tables()
    return [index for index in _WORDS if index.is_among(tx, tables)]


def tidy(database: Database) -> None:
    """Merge indexes a little, give some free pages back, and let SQLite look at its statistics.

    In a file every step is a transaction of a few milliseconds, so nobody has to be idle for it;
    on a server a merge takes seconds, in which others write. A server looks after the rest itself.
    """
    with database.read() as tx:
        indexes = _indexes(tx)
    for index in indexes:
        for _ in range(_MERGES):
            with database.write(durable=False, key="merge") as tx:
                if not index.merge(tx, _MERGE_PAGES):
                    break
    with database.write(durable=False) as tx:
        recount_some(tx, _TIES)
    if database.engine != "sqlite":
        return
    file = sqlite_file(database)
    file.give_back(_FREE_PAGES)
    with database.write(durable=False) as tx:
        tx.run(Sql("PRAGMA optimize"))
    file.truncate_log(budget=_TRUNCATE_SECONDS)


# ---------------------------------------------------------------------- what is remembered


class DeepCheck(msgspec.Struct, frozen=True):
    """The last deep check of a store."""

    path: str
    checked_at: int
    took_ms: int
    problems: tuple[str, ...]


def note_deep_checks(tx: Tx, checks: Iterable[DeepCheck]) -> None:
    """Write down how deep checks ended."""
    for path, checked_at, took_ms, problems in map(msgspec.structs.astuple, checks):
        values = {"now": checked_at, "took": took_ms, "problems": encode(list(problems))}
        tx.run("put_deep_check", {"path": path, **values})


def last_deep_checks(tx: Tx) -> dict[str, DeepCheck]:
    """Return the last deep check of each store, by the path of its file."""
    if "tk_deep_checks" not in tx.tables():
        return {}
    rows = tx.all("deep_checks")
    return {row[0]: DeepCheck(row[0], row[1], row[2], _sentences(row[3])) for row in rows}


def _sentences(text: str) -> tuple[str, ...]:
    try:
        found = decode(text)
    except Invalid:
        return (f"what was remembered cannot be read: {text[:80]}",)
    return tuple(map(str, found)) if isinstance(found, list) else ()


# ---------------------------------------------------------------------- what is in it


class LearningStatus(msgspec.Struct, frozen=True):
    """What was made of what was captured, what waits for it, and what a model used today."""

    nodes: int = 0
    vectors: int = 0
    waiting: int = 0  # tickets of all queues
    failed: int = 0
    model: list[ModelUsage] = []  # the ledger of this day, in UTC


class KnowledgeFacts(msgspec.Struct, frozen=True):
    """How much was captured into a file, and what was made of it."""

    schema_version: int | None
    sessions: int
    messages: int
    learned: LearningStatus


def facts(tx: Tx, now: int) -> KnowledgeFacts:
    """Tell what is in the file."""
    # A file that only Hippo wrote has no such table.
    totals = tx.all("session_totals") if "tk_sessions" in tx.tables() else []
    states = Counter[str]()
    for depth in depths(tx).values():
        states.update(depth)
    return KnowledgeFacts(
        schema_version=read_version(tx),
        sessions=sum(int(row[1]) for row in totals),
        messages=sum(int(row[2]) for row in totals) - sum(copies_by_harness(tx).values()),
        learned=LearningStatus(
            nodes=node_marks(tx)[0],
            vectors=sum(kind.vectors for kind in count_vectors(tx).values()),
            waiting=states["pending"] + states["processing"],
            failed=states["failed"],
            model=spent(tx, day_of(now)),
        ),
    )
