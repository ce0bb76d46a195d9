"""A full-text index whose own records are damaged: without mending it can be neither used nor left.

FTS5 reads two records of an index before it does anything with it, even before it drops it. Where
these are broken, those of an empty index are put in their place; then it can be filled anew.
"""

import sqlite3
from typing import Final

from threadkeep.base.tx import Tx

# What FTS5 itself writes into a new index: no averages, and a structure without any segment.
_EMPTY: Final = ((1, b""), (10, bytes(7)))


def mend_index(tx: Tx, name: str) -> bool:
    """Make a broken index an empty one that works; False if it was not broken."""
    try:
        tx.execute(f"SELECT rowid FROM {name} LIMIT 0")  # noqa: S608  (a name of our own)
    except sqlite3.DatabaseError:
        for part in ("data", "idx", "docsize"):
            tx.execute(f"DELETE FROM {name}_{part}")  # noqa: S608
        for record in _EMPTY:
            tx.execute(f"INSERT INTO {name}_data (id, block) VALUES (?, ?)", record)  # noqa: S608
        return True
    return False
