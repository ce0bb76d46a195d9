"""Every setting a connection of ours gets, each with its reason; set, then read back."""

import sqlite3
from typing import NamedTuple

import msgspec

from threadkeep.errors import UnsupportedEngine

FULL = 2
NORMAL = 1
WAL_LIMIT = 64 * 1024 * 1024
BUSY_MS = 5000


class Pragma(NamedTuple):
    """One setting: what it is set to, what reading it back must give, and why."""

    name: str
    value: str
    reads_back: int | str
    why: str


CONNECTION = (
    Pragma("busy_timeout", str(BUSY_MS), BUSY_MS, "patience with programs that ignore our lock"),
    Pragma("foreign_keys", "ON", 1, "ON DELETE CASCADE; off by default, per connection"),
    Pragma("recursive_triggers", "ON", 1, "a REPLACE by another program must fire our triggers"),
    Pragma("trusted_schema", "OFF", 0, "a hostile file must not run functions through its schema"),
    Pragma("cell_size_check", "ON", 1, "a damaged page is noticed when read, not after"),
    Pragma("secure_delete", "ON", 1, "deleted text is overwritten, not left in free pages"),
    Pragma("mmap_size", "0", 0, "an I/O error must be an error code, not a signal"),
    Pragma("temp_store", "MEMORY", 2, "no temporary files with message text in shared folders"),
)

WRITER = (
    Pragma("busy_timeout", "0", 0, "writes already wait, within their time budget"),
    Pragma("journal_size_limit", str(WAL_LIMIT), WAL_LIMIT, "a reset log gives its space back"),
    Pragma("synchronous", "FULL", FULL, "a commit that was acknowledged survives a power cut"),
    Pragma("fullfsync", "ON", 1, "on macOS a plain fsync does not reach the disk"),
    Pragma("checkpoint_fullfsync", "ON", 1, "the same for what a checkpoint copies"),
)

ALONE = (Pragma("locking_mode", "EXCLUSIVE", "exclusive", "no shared index: it keeps its own"),)

READER = (Pragma("query_only", "ON", 1, "a read connection cannot write by mistake"),)


def apply(connection: sqlite3.Connection, *groups: tuple[Pragma, ...]) -> None:
    """Set the pragmas of the groups and check that each took effect."""
    for group in groups:
        for pragma in group:
            connection.execute(f"PRAGMA {pragma.name} = {pragma.value}")
            row = connection.execute(f"PRAGMA {pragma.name}").fetchone()
            # mmap_size answers nothing where memory mapping is compiled out: that is off, too.
            if row is not None and row[0] != pragma.reads_back:
                msg = f"SQLite did not accept PRAGMA {pragma.name} = {pragma.value}: it is {row[0]}"
                raise UnsupportedEngine(msg, hint="use a Python with a complete SQLite build")


def wal_reset_race(version: tuple[int, int, int]) -> bool:
    """Tell whether this SQLite has the race of two checkpoints that can corrupt a database."""
    fixed = version >= (3, 51, 3)
    backported = (3, 50, 7) <= version < (3, 51, 0) or (3, 44, 6) <= version < (3, 45, 0)
    return not (fixed or backported)


# ------------------------------------------------------------------------------
# Which SQLite this Python brings, and what is known about it.


class Engine(msgspec.Struct, frozen=True):
    """The SQLite library in use; `wal_reset_race` is why every checkpoint takes our lock."""

    version: str
    wal_reset_race: bool


def engine() -> Engine:
    """Tell which SQLite library this process uses."""
    return Engine(sqlite3.sqlite_version, wal_reset_race(sqlite3.sqlite_version_info))
