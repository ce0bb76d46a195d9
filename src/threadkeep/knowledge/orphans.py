"""Rows whose parent is gone: found, told, and set aside without a loss.

Programs that write with foreign keys off leave such rows behind, and a later version refuses to
start for ever because of one. Here a row that cannot stay goes as JSON to `tk_orphans`. Where the
reference may be empty the row stays and only the reference goes.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from threadkeep.base.json import encode
from threadkeep.base.schema import columns_of
from threadkeep.base.sql import load_text
from threadkeep.base.tx import Tx
from threadkeep.knowledge.layout import PACKAGE, names, present_tables, run_script

TABLE: Final = "tk_orphans"
_SCRIPT: Final = load_text(PACKAGE, "orphans.sql")


class Orphan(msgspec.Struct, frozen=True):
    """A row that refers to a row that is not there."""

    table: str
    rowid: int
    column: str
    parent: str
    missing: Any
    """What the column says."""

    @property
    def reason(self) -> str:
        """Say what is missing, for people."""
        return f"{self.column} {self.missing} is not in {self.parent}"


class OrphanRow(msgspec.Struct, frozen=True):
    """A row of `tk_orphans`: where it was, all of it, what was wrong, and when that was seen."""

    table_name: str
    row: dict[str, Any]
    reason: str
    found_at: int


def find_orphans(tx: Tx, tables: Iterable[str] | None = None) -> list[Orphan]:
    """Find the rows without a parent, in some tables of the contract or in all."""
    chosen = present_tables(tx) if tables is None else tables
    return [orphan for table in chosen for orphan in _orphans_of(tx, table)]


def set_aside_orphans(tx: Tx, now: int, tables: Iterable[str] | None = None) -> int:
    """Take out every row without a parent, and those that lose theirs by that; give how many.

    The transaction must have foreign keys off: nothing but what is found here may go.
    """
    chosen = present_tables(tx) if tables is None else list(tables)
    count = 0
    while found := find_orphans(tx, chosen):
        run_script(tx, _SCRIPT)
        for orphan in found:
            count += _set_aside(tx, orphan, now)
    return count


def list_set_aside(tx: Tx, first: int = 1) -> list[OrphanRow]:
    """Give what was set aside, from a place in that list on."""
    if TABLE not in names(tx, "table"):
        return []
    sql = "SELECT table_name, row_json, reason, found_at FROM tk_orphans WHERE rowid >= ?"
    rows = tx.execute(sql, (first,)).fetchall()
    return [OrphanRow(row[0], msgspec.json.decode(row[1]), row[2], row[3]) for row in rows]


def count_set_aside(tx: Tx) -> int:
    """Count the rows that were ever set aside in this file."""
    if TABLE not in names(tx, "table"):
        return 0
    return int(tx.execute("SELECT coalesce(max(rowid), 0) FROM tk_orphans").fetchone()[0])


def _orphans_of(tx: Tx, table: str) -> Iterator[Orphan]:
    found = tx.execute(f'PRAGMA foreign_key_check("{table}")').fetchall()
    if not found:
        return
    columns = {row[0]: row[3] for row in tx.execute(f'PRAGMA foreign_key_list("{table}")')}
    for _, rowid, parent, key in found:
        row = read_whole(tx, table, rowid) or {}
        yield Orphan(table, rowid, columns[key], parent, row.get(columns[key]))


def _set_aside(tx: Tx, orphan: Orphan, now: int) -> int:
    """Move one row, or empty its reference; 0 if it went already for another of its references."""
    row = read_whole(tx, orphan.table, orphan.rowid)
    if row is None:
        return 0
    keep = _may_be_empty(tx, orphan.table, orphan.column)
    reason = orphan.reason + (": the reference was emptied" if keep else "")
    sql = "INSERT INTO tk_orphans (table_name, row_json, reason, found_at) VALUES (?, ?, ?, ?)"
    tx.execute(sql, (orphan.table, encode(row), reason, now))
    emptied = f'UPDATE "{orphan.table}" SET "{orphan.column}" = NULL'  # noqa: S608
    change = emptied if keep else f'DELETE FROM "{orphan.table}"'  # noqa: S608
    tx.execute(f"{change} WHERE rowid = ?", (orphan.rowid,))
    return 1


def _may_be_empty(tx: Tx, table: str, column: str) -> bool:
    """Tell whether a column takes NULL; one of the key never does, whatever the table says."""
    rows = tx.execute(f'PRAGMA table_info("{table}")').fetchall()
    return any(row[1] == column and not row[3] and not row[5] for row in rows)


def read_whole(tx: Tx, table: str, rowid: int) -> dict[str, Any] | None:
    """Read a row by column, whatever bytes are in it; None if there is none."""
    columns = columns_of(tx, table)
    # As bytes, since another program's text need not be valid UTF-8.
    shown = ", ".join(
        f"""typeof("{c}"), iif(typeof("{c}") = 'text', CAST("{c}" AS BLOB), "{c}")"""
        for c in columns
    )
    sql = f'SELECT {shown} FROM "{table}" WHERE rowid = ?'  # noqa: S608
    row = tx.execute(sql, (rowid,)).fetchone()
    if row is None:
        return None
    return {c: _plain(row[2 * i], row[2 * i + 1]) for i, c in enumerate(columns)}


def _plain(kind: str, value: Any) -> Any:
    if isinstance(value, float) and math.isinf(value):  # JSON has no such number
        return {"real": str(value)}
    if not isinstance(value, bytes):
        return value
    if kind == "text":
        try:
            return value.decode()
        except UnicodeDecodeError:
            pass
    return {"blob": value.hex()}
