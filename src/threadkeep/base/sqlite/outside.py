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
    """Give the rows that a statement finds by their columns."""
    with open_raw(place) as connection:
        return [dict(row) for row in connection.execute(sql, params)]


def all_rows(place: Path) -> dict[str, list[RowDict]]:
    """Give every row of every table; indexes over them (full text, vectors) are left out."""
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
