"""Looking at knowledge files that nobody has open, with plain sqlite3."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from threadkeep.knowledge.opening import open_knowledge

NOW = 1_800_000_000_000
Row = tuple[Any, ...]
Shape = dict[str, Any]


def clock() -> int:
    return NOW


def bring_up(path: Path) -> tuple[str, ...]:
    """Open a file for writing and close it again; name the steps that ran."""
    opened = open_knowledge(path, lambda _: {}, clock=clock)
    opened.database.close()
    return opened.access.brought_up.steps


def ask(path: Path, sql: str, *params: object) -> list[Row]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return connection.execute(sql, params).fetchall()


def do(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def objects(path: Path) -> dict[str, str]:
    """Return what the file is made of, but for SQLite's own, the index's own, and our own."""
    rows = ask(path, "SELECT type, name, tbl_name, sql FROM sqlite_master")
    return {
        f"{kind}:{name}": normal(sql)
        for kind, name, table, sql in rows
        if not name.startswith(("sqlite_", "knowledge_fts_", "tk_")) and not table.startswith("tk_")
    }


def normal(sql: str) -> str:
    """Write a statement in one way: without comments, spare blanks, quotes of names."""
    bare = re.sub(r"--[^\n]*", " ", sql.replace("IF NOT EXISTS ", ""))
    bare = " ".join(re.sub(r'["`]', "", bare).split())
    return re.sub(r"\s*([(),])\s*", r"\1", bare)


def shape(path: Path, table: str) -> Shape:
    """Return columns, keys, references and indexes of a table, the order of columns aside."""
    with closing(sqlite3.connect(path)) as connection:

        def pragma(name: str, of: str) -> list[Row]:
            return connection.execute(f"PRAGMA {name}({of})").fetchall()

        return {
            "columns": sorted(row[1:] for row in pragma("table_info", table)),
            "references": sorted(row[2:] for row in pragma("foreign_key_list", table)),
            "indexes": {
                row[1]: (
                    *(row[2], row[4]),
                    [part[2:6] for part in pragma("index_xinfo", row[1]) if part[2] is not None],
                )
                for row in pragma("index_list", table)
                if not row[1].startswith("tk_")  # ours, as its name says
            },
        }


def rows(path: Path, table: str) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        found = [dict(row) for row in connection.execute(f"SELECT * FROM {table}")]
    return sorted(found, key=lambda row: str(sorted(row.items(), key=str)))


def everything(path: Path) -> dict[str, Any]:
    """Return all that a file holds: version, objects, rows, words."""
    tables = [name for (name,) in ask(path, "SELECT name FROM sqlite_master WHERE type = 'table'")]
    plain = [name for name in tables if "_fts" not in name and "_words" not in name]
    held: dict[str, Any] = {name: rows(path, name) for name in plain}
    held["objects"] = objects(path)
    held["user_version"] = ask(path, "PRAGMA user_version")
    if "knowledge_fts" in tables:
        held["words"] = ask(path, "SELECT rowid, * FROM knowledge_fts ORDER BY rowid")
    return held


def assert_sound(path: Path) -> None:
    assert ask(path, "PRAGMA integrity_check") == [("ok",)]
    assert ask(path, "PRAGMA foreign_key_check") == []
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO knowledge_fts (knowledge_fts) VALUES ('integrity-check')")
