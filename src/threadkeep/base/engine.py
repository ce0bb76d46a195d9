"""Which SQLite this Python brings, and what is known about it."""

import sqlite3

import msgspec

from threadkeep.base.pragmas import wal_reset_race


class Engine(msgspec.Struct, frozen=True):
    """The SQLite library in use; `wal_reset_race` is why every checkpoint takes our lock."""

    version: str
    wal_reset_race: bool


def engine() -> Engine:
    """Tell which SQLite library this process uses."""
    return Engine(sqlite3.sqlite_version, wal_reset_race(sqlite3.sqlite_version_info))
