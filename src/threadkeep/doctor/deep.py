"""The deep check: every page, every reference, every hash, every word of the indexes."""

from collections.abc import Callable, Iterator
from typing import Final

from threadkeep.base.checks import sqlite_problems
from threadkeep.base.json import decode, encode
from threadkeep.base.sqlite import Database
from threadkeep.base.tx import Tx
from threadkeep.doctor.facts import DeepCheck
from threadkeep.errors import Damaged, Invalid, ThreadkeepError
from threadkeep.knowledge.archive import read_block
from threadkeep.knowledge.entries import text_hash
from threadkeep.knowledge.layout import names

Show = Callable[[int, int], None]

_FEW: Final = 20
# Compares an index with what it is made of; without the 1 a missing row goes unnoticed.
_CHECK_INDEX: Final = "INSERT INTO {0} ({0}, rank) VALUES ('integrity-check', 1)"
_INDEXES: Final = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE '%USING fts5%'"


def deep_knowledge(database: Database, show: Show | None = None) -> list[str]:
    """Check a knowledge store whole; give what is wrong with it, at most twenty sentences."""
    try:
        with database.read() as tx:
            problems = sqlite_problems(tx)
            if not problems:
                problems += _unlike(tx)
                problems += _blocks(tx, show)
        return (problems or list(index_problems(database)))[:_FEW]
    except ThreadkeepError as error:
        return [error.message]


def index_problems(database: Database) -> Iterator[str]:
    """Let every full-text index of a file compare itself with what it is made of."""
    with database.read() as tx:
        indexes = [str(row[0]) for row in tx.execute(_INDEXES)]
    if database.read_only:
        return  # FTS5 wants a connection that could write, though it writes nothing
    for index in indexes:
        try:
            with database.write(durable=False) as tx:
                tx.execute(_CHECK_INDEX.format(index))
        except Damaged as error:
            yield f"the full-text index {index} is damaged: {error.message}"


def _unlike(tx: Tx) -> list[str]:
    """Compare both indexes with the rows that they are made of, in both directions."""
    found = []
    missing = unindexed(tx) + differing(tx)
    if missing:
        found.append(f"{missing} rows are missing in the full-text index, or differ there")
    return found


def unindexed(tx: Tx) -> int:
    """Count the rows that the full-text indexes do not have; the texts are not compared."""
    tables, count = names(tx, "table"), 0
    if tables >= {"tk_entries", "tk_entry_words_docsize"} and not _is_cleaning(tx, tables):
        count += int(tx.value("entries_without_words", {"empty": text_hash("")}))
    if tables >= {"knowledge_nodes", "knowledge_fts_docsize"}:
        count += int(tx.value("nodes_unindexed"))
    return count


def differing(tx: Tx) -> int:
    """Count the nodes whose text in the index is another one, and texts there without a node."""
    if not names(tx, "table") >= {"knowledge_nodes", "knowledge_fts_content"}:
        return 0
    return int(tx.value("nodes_differing")) + int(tx.value("words_without_nodes"))


def _is_cleaning(tx: Tx, tables: set[str]) -> bool:
    """While something forgotten is being taken out, the words are built anew."""
    if "tk_cleaning" not in tables:
        return False
    return tx.execute("SELECT 1 FROM tk_cleaning").fetchone() is not None


def _blocks(tx: Tx, show: Show | None) -> list[str]:
    """Read every block of the archive and compare it with its digest."""
    if "tk_blocks" not in names(tx, "table"):
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


# ---------------------------------------------------------------------- what is remembered


def remember_deep(tx: Tx, check: DeepCheck) -> None:
    """Write down how a deep check ended."""
    tx.run(
        "put_deep_check",
        {
            "path": check.path,
            "now": check.checked_at,
            "took": check.took_ms,
            "problems": encode(list(check.problems)),
        },
    )


def last_deep_checks(tx: Tx) -> dict[str, DeepCheck]:
    """Give the last deep check of each store, by the path of its file."""
    if "tk_deep_checks" not in names(tx, "table"):
        return {}
    rows = tx.all("deep_checks")
    return {row[0]: DeepCheck(row[0], row[1], row[2], _sentences(row[3])) for row in rows}


def _sentences(text: str) -> tuple[str, ...]:
    try:
        found = decode(text)
    except Invalid:
        return (f"what was remembered cannot be read: {text[:80]}",)
    return tuple(map(str, found)) if isinstance(found, list) else ()
