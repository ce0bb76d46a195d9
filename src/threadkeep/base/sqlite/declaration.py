"""What a script of SQL declares, read from a database in memory that it has made."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Final, NamedTuple

from threadkeep.base.sqlite.statements import split_statements

_INDEXED: Final = re.compile(r"\bON\s+\w+\s*\((.*)$", re.DOTALL | re.IGNORECASE)
_CHECK: Final = re.compile(r"\bCHECK\s*\(", re.IGNORECASE)
_COMMENT: Final = re.compile(r"--[^\n]*")


class TableColumn(NamedTuple):
    """A column of a table; `key` is its place in the primary key, 0 for one that is not in it."""

    name: str
    declared: str
    never_null: bool
    default: str | None
    key: int


class Reference(NamedTuple):
    """A foreign key."""

    columns: tuple[str, ...]
    parent: str
    parents: tuple[str, ...]
    on_delete: str


class Index(NamedTuple):
    """An index that a statement declares: its terms and its condition as they are written."""

    name: str
    table: str
    unique: bool
    terms: tuple[str, ...]
    condition: str


class Table(NamedTuple):
    """A plain table."""

    name: str
    columns: tuple[TableColumn, ...]
    unique: tuple[tuple[str, ...], ...]  # the constraints beside the primary key
    references: tuple[Reference, ...]
    checks: tuple[str, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """Name the columns of the primary key, in its order."""
        inside = sorted((column for column in self.columns if column.key), key=lambda one: one.key)
        return tuple(column.name for column in inside)

    @property
    def numbered(self) -> str | None:
        """Name the column that SQLite numbers, if it is declared."""
        kinds = [column.declared.upper() for column in self.columns if column.key]
        return self.key[0] if kinds == ["INTEGER"] else None


class Declared(NamedTuple):
    """What a script makes: each by its name, and the statements that fill it."""

    tables: dict[str, Table]
    indexes: dict[str, Index]
    triggers: dict[str, str]
    word_indexes: tuple[str, ...]
    inserts: tuple[str, ...] = ()


def declared_by(script: str) -> Declared:
    """Read a script."""
    statements = split_statements(script)
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in statements:
            connection.execute(statement)
        code = (_COMMENT.sub("", statement).strip() for statement in statements)
        inserts = (text.rstrip("; \n") for text in code if text.startswith("INSERT"))
        return declared_in(connection)._replace(inserts=tuple(inserts))


def declared_in(connection: sqlite3.Connection) -> Declared:
    """Read what a database has; nobody knows any more what has filled it."""
    kinds = {name: kind for _, name, kind, *_ in connection.execute("PRAGMA table_list")}
    made = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
    plain = [
        (name, sql)
        for kind, name, _, sql in made
        if kind == "table" and kinds[name] == "table" and not name.startswith("sqlite_")
    ]
    return Declared(
        {name: _table(connection, name, _COMMENT.sub("", sql)) for name, sql in plain},
        {
            name: _index(name, table, _COMMENT.sub("", sql))
            for kind, name, table, sql in made
            if kind == "index" and sql
        },
        {name: _COMMENT.sub("", sql) for kind, name, _, sql in made if kind == "trigger"},
        tuple(name for name, kind in kinds.items() if kind == "virtual"),
    )


def _table(connection: sqlite3.Connection, name: str, sql: str) -> Table:
    told = connection.execute(f'PRAGMA table_info("{name}")').fetchall()
    columns = (
        TableColumn(one, kind, bool(full), default, key)
        for _, one, kind, full, default, key in told
    )
    unique = (
        tuple(row[2] for row in connection.execute(f'PRAGMA index_info("{index}")').fetchall())
        for _, index, _, origin, _ in connection.execute(f'PRAGMA index_list("{name}")').fetchall()
        if origin == "u"
    )
    references = _references(connection, name)
    return Table(name, tuple(columns), tuple(unique), tuple(references), tuple(_checks(sql)))


def _references(connection: sqlite3.Connection, table: str) -> Iterator[Reference]:
    told = connection.execute(f'PRAGMA foreign_key_list("{table}")').fetchall()
    for number in sorted({row[0] for row in told}):
        rows = sorted((row for row in told if row[0] == number), key=lambda row: int(row[1]))
        parent, on_delete = rows[0][2], rows[0][6]
        keys = connection.execute(f'PRAGMA table_info("{parent}")').fetchall()
        default = tuple(row[1] for row in keys if row[5])
        named = tuple(row[4] for row in rows)
        yield Reference(
            tuple(row[3] for row in rows), parent, default if None in named else named, on_delete
        )


def _checks(sql: str) -> Iterator[str]:
    for found in _CHECK.finditer(sql):
        inside, _ = _parenthesis(sql[found.end() :])
        yield " ".join(inside.split())


def _index(name: str, table: str, sql: str) -> Index:
    unique = sql.upper().split()[1] == "UNIQUE"
    found = _INDEXED.search(sql)
    if found is None:
        msg = f"cannot read how the index {name} is declared"
        raise ValueError(msg)
    inside, rest = _parenthesis(found[1])
    return Index(name, table, unique, tuple(_terms(inside)), " ".join(rest.split()))


def _parenthesis(text: str) -> tuple[str, str]:
    """Cut a text, which begins behind a parenthesis, at its end."""
    depth = 1
    for at, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth == 0:
            return text[:at], text[at + 1 :]
    msg = f"the parenthesis is never closed: {text[:60]!r}"
    raise ValueError(msg)


def _terms(text: str) -> Iterator[str]:
    """Cut a list at the commas that stand in no parenthesis."""
    depth, term = 0, ""
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            yield " ".join(term.split())
            term = ""
        else:
            term += letter
    yield " ".join(term.split())
