"""Schemas: what shapes a database, and how an older file is brought up.

A schema is a head (what a fresh file gets) and numbered steps. A step is one transaction with
its version bump inside, so a crash at any moment leaves the file at one version or the next,
never between. A verified backup is made first. A file newer than the program is left untouched.
What was read before the lock was taken is read again under it: another process may be faster.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

from threadkeep.base.database import Database
from threadkeep.base.sqlite.catalogue import broken_references, foreign_keys
from threadkeep.base.sqlite.statements import split_statements
from threadkeep.base.sqlite.upkeep import sqlite_file
from threadkeep.base.tx import Sql, Tx
from threadkeep.errors import Damaged, Invalid, SchemaMismatch


class SchemaStep(NamedTuple):
    """One forward step: SQL, then code for what SQL cannot say; `rebuilds` names its tables.

    A step that rebuilds a table runs with foreign keys off and checks those tables at its end.
    """

    number: int
    name: str
    script: str = ""
    code: Callable[[Tx], None] | None = None
    rebuilds: tuple[str, ...] = ()


class Schema(NamedTuple):
    """The SQL that shapes a database, and where its version is kept.

    `read_version` gives None for a file without any of this schema's tables.
    """

    name: str
    version: int
    head: str
    steps: tuple[SchemaStep, ...]
    read_version: Callable[[Tx], int | None]
    write_version: Callable[[Tx, int], None]


def prepare(database: Database, schema: Schema, backup: Callable[[str], object]) -> list[str]:
    """Create the schema or bring the file up to it; give the names of the steps that ran.

    `backup` is called with a reason before the first step changes a file with data in it.
    """
    with database.read() as tx:
        version = _known_version(database, schema, tx)
    if version is None:
        return _create(database, schema, backup)
    pending = [step for step in schema.steps if step.number > version]
    if pending:
        backup(f"before-{schema.name}-{schema.version}")
    return [step.name for step in pending if _run(database, schema, step)]


def _known_version(database: Database, schema: Schema, tx: Tx) -> int | None:
    """Return the version of a file, None if it is empty; refuse what is not ours to write."""
    version = schema.read_version(tx)
    if version is not None:
        refuse_newer(database, schema, version)
    elif not is_empty(tx):
        msg = f"{database.name} is a SQLite database, but not a {schema.name} store"
        raise Invalid(msg, hint="give another path; this file was not touched")
    return version


def is_empty(tx: Tx) -> bool:
    """Tell whether a file has no table of anybody's."""
    return tx.one(Sql("SELECT 1 FROM sqlite_master LIMIT 1")) is None


def refuse_newer(database: Database, schema: Schema, version: int) -> None:
    """Raise if the file was written by a newer program."""
    if version > schema.version:
        msg = (
            f"{database.name} has {schema.name} schema version {version};"
            f" this program knows versions up to {schema.version}"
        )
        raise SchemaMismatch(msg, hint="upgrade threadkeep; the file was not touched")


def _create(database: Database, schema: Schema, backup: Callable[[str], object]) -> list[str]:
    with database.write() as tx:
        if _known_version(database, schema, tx) is None:
            for statement in split_statements(schema.head):
                tx.run(Sql(statement))
            schema.write_version(tx, schema.version)
            return []
    return prepare(database, schema, backup)  # another program was first, maybe an older one


def _run(database: Database, schema: Schema, step: SchemaStep) -> bool:
    with sqlite_file(database).write(foreign_keys=not step.rebuilds) as tx:
        version = _known_version(database, schema, tx)
        if version is None or version >= step.number:
            return False  # another process did it while we waited for the lock
        before = _broken_references(tx, step.rebuilds)
        for statement in split_statements(step.script):
            tx.run(Sql(statement))
        if step.code is not None:
            step.code(tx)
        broken = _broken_references(tx, step.rebuilds) - before
        if broken > 0:
            msg = f"step {step.name} left {broken} rows without their parent"
            raise Damaged(msg, hint="nothing was changed; report this with the file's history")
        schema.write_version(tx, step.number)
    return True


def _broken_references(tx: Tx, tables: tuple[str, ...]) -> int:
    """Count rows without their parent, in the tables and in those that refer to them."""
    touched = {*tables, *_referring_to(tx, tables)} if tables else set()
    present = touched & tx.tables()
    return sum(len(broken_references(tx, table)) for table in present)


def _referring_to(tx: Tx, tables: tuple[str, ...]) -> list[str]:
    return [
        table for table in tx.tables() for key in foreign_keys(tx, table) if key.parent in tables
    ]


class DeclaredColumn(NamedTuple):
    """A column as its table declares it: type and constraints, and its default as SQL."""

    name: str
    declared: str
    default: str


def declared_columns(script: str) -> dict[str, tuple[DeclaredColumn, ...]]:
    """Return the columns of every table that a script of SQL creates."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in split_statements(script):
            connection.execute(statement)
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        ).fetchall()
        return {
            str(table): tuple(
                _declared(*row[1:5])
                for row in connection.execute(f'PRAGMA table_info("{table}")').fetchall()
            )
            for (table,) in tables
        }


def _declared(name: str, kind: str, never_null: int, default: str | None) -> DeclaredColumn:
    words = [kind, *(["NOT NULL"] if never_null else [])]
    if default is not None:
        words.append(f"DEFAULT {default}")
    return DeclaredColumn(name, " ".join(words), "NULL" if default is None else default)


def add_missing_columns(tx: Tx, table: str, wanted: dict[str, str]) -> list[str]:
    """Add the columns of `wanted` (name to definition) that a table lacks; name those added."""
    present = set(tx.columns(table))
    missing = [name for name in wanted if name not in present]
    for name in missing:
        tx.run(Sql(f'ALTER TABLE "{table}" ADD COLUMN {name} {wanted[name]}'))
    return missing
