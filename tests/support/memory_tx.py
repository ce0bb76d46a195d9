"""A transaction over a database in memory, for tests of what runs inside one."""

import sqlite3
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from threadkeep.base.sqlite.errors import translate
from threadkeep.base.sqlite.tx import SqliteTx


def tx_of(connection: sqlite3.Connection, queries: Mapping[str, str] | None = None) -> SqliteTx:
    """Return the transaction that a connection is in."""
    return SqliteTx(connection, queries or {}, partial(translate, path=Path(":memory:")))
