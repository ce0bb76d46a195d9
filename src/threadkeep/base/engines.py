"""Which engine keeps a store: its place says it, a path or the URL of a PostgreSQL server.

Here alone it is chosen. Who opens a store calls `open_database`; only who must know what is behind
it (upkeep, doctor, backup) asks `database.engine` afterwards.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from threadkeep.base.database import DEFAULT_BUDGET, Database
from threadkeep.base.sql import Engine
from threadkeep.base.sqlite import catalogue
from threadkeep.base.sqlite.catalogue import pages
from threadkeep.base.sqlite.connect import PLAIN, Tuning
from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.base.sqlite.schema import Schema, prepare as prepare_file
from threadkeep.base.sqlite.upkeep import sqlite_file
from threadkeep.base.text import pattern
from threadkeep.base.tx import Sql, Tx
from threadkeep.errors import UnsupportedEngine

if TYPE_CHECKING:
    from threadkeep.base.postgres.database import PostgresDatabase

# A path, or a URL such as `postgresql://user@host/database?home=team`.
Place = str | Path
# Gives the named queries of a store as an engine takes them.
Queries = Callable[[Engine], Mapping[str, str]]

# 16 MB of pages of 8 KB; a step moves what lies behind them, under the lock.
_PAGES_AT_ONCE: Final = 2_000
# A file that cannot shrink in steps is rewritten only when that gives back this much of it.
_WORTH_A_VACUUM: Final = 0.25
_INCREMENTAL: Final = 2  # of PRAGMA auto_vacuum
_PASSWORD: Final = pattern(r"(//[^:/@]*):[^@/]*(?=@)")
_SCHEMES = ("postgresql:", "postgres:")
_SIZE: Final = """
SELECT CAST(coalesce(sum(pg_total_relation_size(oid)), 0) AS bigint) FROM pg_class
WHERE relnamespace = CAST(current_schema() AS regnamespace) AND relkind = 'r'"""
_NEVER_NULL: Final = """
SELECT column_name FROM information_schema.columns
WHERE table_schema = current_schema() AND table_name = :table AND is_nullable = 'NO'"""


def is_url(place: Place) -> bool:
    """Tell whether a place is the URL of a server, and no path."""
    return isinstance(place, str) and place.startswith(_SCHEMES)


def without_password(place: Place) -> Place:
    """Return a place as it may be shown."""
    return _PASSWORD.sub(r"\1", place) if isinstance(place, str) and is_url(place) else place


def open_database(
    place: Place,
    store: str,
    queries: Queries,
    *,
    budget: float = DEFAULT_BUDGET,
    read_only: bool = False,
    must_exist: bool = False,
    tuning: Tuning = PLAIN,
) -> Database:
    """Open the database of a store (`chat`, `state`, `knowledge`), on the engine of its place.

    A file that is missing is created unless it must exist; the tables on a server are made by
    `prepare`. `tuning` is for SQLite alone.
    """
    if not is_url(place):
        return SqliteDatabase(
            place,
            queries("sqlite"),
            budget=budget,
            read_only=read_only,
            must_exist=must_exist,
            tuning=tuning,
        )
    try:
        from threadkeep.base.postgres.database import (  # noqa: PLC0415  (an extra)
            PostgresDatabase,
        )
    except ImportError as error:
        raise UnsupportedEngine(
            f"stores on PostgreSQL need psycopg, which cannot be loaded: {error}",
            hint="install it: pip install 'threadkeep[postgres]'",
        ) from error
    return PostgresDatabase(
        str(place), store, queries("postgres"), budget=budget, read_only=read_only
    )


def prepare(database: Database, schema: Schema, backup: Callable[[str], object] = str) -> list[str]:
    """Make the tables of a store or bring them up to a schema; name the steps that ran.

    Of a file, `backup` makes a copy first; a server does a step whole or not at all.
    """
    if database.engine == "sqlite":
        return prepare_file(database, schema, backup)
    from threadkeep.base.postgres.schema import prepare as prepare_server  # noqa: PLC0415

    return prepare_server(server_of(database), schema)


def server_of(database: Database) -> "PostgresDatabase":
    """Return a database with what only one on a server has."""
    if database.engine == "postgres":
        return cast("PostgresDatabase", database)
    msg = f"{database.name} is not on a server"
    raise UnsupportedEngine(msg, hint="give the URL of a home on PostgreSQL")


# ------------------------------------------------------------------------------
# What upkeep asks of either engine.


class DiskUse(NamedTuple):
    """How many bytes a store takes, its log beside it, and how many of them are free."""

    bytes: int
    log_bytes: int
    free_bytes: int

    @property
    def used_bytes(self) -> int:
        """What of the store is not free."""
        return self.bytes - self.free_bytes


def store_size(database: Database, tx: Tx) -> DiskUse:
    """Measure a store."""
    if tx.engine == "sqlite":
        size = pages(tx)
        return DiskUse(size.bytes, sqlite_file(database).wal.size(), size.free_bytes)
    return DiskUse(int(tx.value(Sql(_SIZE))), 0, 0)


def give_back_space(database: Database) -> int:
    """Give free space back to the disk; tells how many bytes it freed."""
    before = _measured(database)
    if database.engine == "sqlite":
        sqlite_file(database).vacuum()
    else:
        server_of(database).vacuum()
    return before - _measured(database)


def cut_free_pages(database: Database) -> None:
    """Cut the free pages off a file, in steps between which others write.

    A file that was not made for that is written again when a quarter of it is free. A server has
    free pages filled by new rows.
    """
    if database.engine != "sqlite":
        return
    file = sqlite_file(database)
    with database.read() as tx:
        size = pages(tx)
    if size.auto_vacuum == _INCREMENTAL:
        while file.give_back(_PAGES_AT_ONCE) > 0:
            pass
    elif size.free > size.total * _WORTH_A_VACUUM:
        file.vacuum()
    file.truncate_log()


def _measured(database: Database) -> int:
    with database.read() as tx:
        return store_size(database, tx).bytes


def engine_problems(tx: Tx, *, quick: bool = False, references: bool = True) -> list[str]:
    """Run SQLite's own checks and give what they find; a server looks after its pages itself."""
    if tx.engine != "sqlite":
        return []
    from threadkeep.base.sqlite.checks import sqlite_problems  # noqa: PLC0415  (seldom asked)

    return sqlite_problems(tx, quick=quick, references=references)


def never_null(tx: Tx, table: str) -> list[str]:
    """Name the columns that refuse NULL."""
    if tx.engine == "sqlite":
        return catalogue.never_null(tx, table)
    return [str(row[0]) for row in tx.all(Sql(_NEVER_NULL), {"table": table})]
