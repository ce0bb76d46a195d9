"""The tables of memory in a file of version 18, which has none of its own.

Versions 19 and 20 added them and changed nothing else: a Hippo of 18 does not look at them, and a
step to 23 finds them there and keeps their rows.
"""

from typing import Final

from threadkeep.base.sqlite import Database
from threadkeep.knowledge.fit import FittedQueries
from threadkeep.knowledge.layout import create_missing, names, script_of
from threadkeep.knowledge.versions import CHANGES

_LAST: Final = 20
_CHANGES: Final = tuple(change for change in CHANGES if change.number <= _LAST)
MEMORY: Final = frozenset(table for change in _CHANGES for table in change.tables)


def make_memory_tables(database: Database) -> bool:
    """Make the tables of memory in a file that lacks them; False if there was nothing to do."""
    with database.read() as tx:
        if names(tx, "table") >= MEMORY:
            return False
    with database.write() as tx:
        for change in _CHANGES:
            create_missing(tx, script_of(change))
        present = names(tx, "table")
    if isinstance(database.queries, FittedQueries):
        database.queries.fit(present)
    return True
