"""The file behind a database, for those who must know it: opening, upkeep, doctor and backup."""

from pathlib import Path
from typing import Final

from threadkeep.base.database import Database
from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.errors import UnsupportedEngine

# What to do instead with a store on a server.
WITHOUT_A_FILE: Final = (
    "pg_dump and pg_restore copy a home on a server, `threadkeep doctor` checks it,"
    " `threadkeep migrate --from` makes files of it"
)


def sqlite_file(database: Database) -> SqliteDatabase:
    """Return a database with what only a SQLite file has: its path, its log, its free pages."""
    if isinstance(database, SqliteDatabase):
        return database
    msg = f"{database.name} is on a server, and only a store in a file can do this"
    raise UnsupportedEngine(msg, hint=WITHOUT_A_FILE)


def file_of(database: Database) -> Path | None:
    """Return the file of a database, behind whatever links lead to it; None for one on a server."""
    return database.file if isinstance(database, SqliteDatabase) else None


def is_current(database: Database) -> bool:
    """Tell whether the file is the one that was opened; on a server it cannot be another."""
    return not isinstance(database, SqliteDatabase) or database.is_current()
