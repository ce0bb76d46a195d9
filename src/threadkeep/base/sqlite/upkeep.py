"""The file behind a database, for those who must know it: opening, upkeep, doctor and backup."""

from threadkeep.base.database import Database
from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.errors import UnsupportedEngine


def sqlite_file(database: Database) -> SqliteDatabase:
    """Give a database with what only a SQLite file has: its path, its log, its free pages."""
    if isinstance(database, SqliteDatabase):
        return database
    msg = f"{database.name} is no SQLite file"
    raise UnsupportedEngine(msg, hint=f"leave that to {database.engine} itself")
