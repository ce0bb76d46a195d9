"""A new database for another program, made in memory: whoever has its bytes writes the file."""

import sqlite3
from contextlib import closing


def database_of(script: str) -> bytes:
    """Return the file of the database that a script of SQL makes."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(script)
        return connection.serialize()
