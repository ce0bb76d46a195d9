"""A store's files as another program sees them: for tests, which look and damage on purpose."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

RowDict = dict[str, Any]
OutsideConnection = sqlite3.Connection
BrokenConstraint = sqlite3.IntegrityError  # what other programs raise for a row that is refused


@contextmanager
def open_raw(place: Path) -> Iterator[OutsideConnection]:
    """Open a file without a lock of ours, with foreign keys on.

    Of a mailbox, which is a folder, `main` is the host's file and `outbound` the container's.
    """
    folder = place.is_dir()
    connection = sqlite3.connect(place / "inbound.db" if folder else place, isolation_level=None)
    connection.row_factory = sqlite3.Row
    try:
        connection.execute("PRAGMA foreign_keys = ON")
        if folder:
            connection.execute("ATTACH ? AS outbound", (str(place / "outbound.db"),))
        yield connection
    finally:
        connection.close()


def raw_rows(place: Path, sql: str, *params: object) -> list[RowDict]:
    """Return the rows that a statement finds by their columns."""
    with open_raw(place) as connection:
        return [dict(row) for row in connection.execute(sql, params)]


def all_rows(place: Path) -> dict[str, list[RowDict]]:
    """Return every row of every table; indexes over them (full text, vectors) are left out."""
    with open_raw(place) as connection:
        tables = connection.execute("PRAGMA table_list").fetchall()
        names = [
            (row["schema"], row["name"])
            for row in tables
            if row["type"] == "table" and not row["name"].startswith(("sqlite_", "tk_search"))
        ]
        return {
            name if schema == "main" else f"{schema}.{name}": sorted(
                (dict(row) for row in connection.execute(f'SELECT * FROM "{schema}"."{name}"')),  # noqa: S608
                key=repr,
            )
            for schema, name in sorted(names)
        }


def insert_row(place: Path, table: str, values: RowDict) -> int:
    """Add a row to a table, and give its number."""
    columns, marks = ", ".join(f'"{name}"' for name in values), ", ".join("?" * len(values))
    sql = f'INSERT INTO "{table}" ({columns}) VALUES ({marks})'  # noqa: S608
    with open_raw(place) as connection:
        return int(connection.execute(sql, tuple(values.values())).lastrowid or 0)


def update_row(place: Path, table: str, number: int, values: RowDict) -> None:
    """Change columns of a row, by its number."""
    changes = ", ".join(f'"{name}" = ?' for name in values)
    sql = f'UPDATE "{table}" SET {changes} WHERE rowid = ?'  # noqa: S608
    with open_raw(place) as connection:
        connection.execute(sql, (*values.values(), number))


def delete_row(place: Path, table: str, number: int) -> None:
    """Take a row out of a table, by its number."""
    with open_raw(place) as connection:
        connection.execute(f'DELETE FROM "{table}" WHERE rowid = ?', (number,))  # noqa: S608


def matching_rows(place: Path, index: str, words: str) -> list[int]:
    """Return the numbers of the rows in which a full-text index finds words."""
    sql = f'SELECT rowid FROM "{index}" WHERE "{index}" MATCH ? ORDER BY rowid'  # noqa: S608
    with open_raw(place) as connection:
        return [row[0] for row in connection.execute(sql, (words,))]
