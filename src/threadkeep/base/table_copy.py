"""Tables copied from one database into another, page by page, each page read back and compared.

A page that is there already is left alone, so a copy that was cut continues where it was when it is
run again, and one that is run twice changes nothing. Rows are compared as SQLite keeps them.
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol

import msgspec

from threadkeep.base.tx import Row
from threadkeep.errors import Damaged

PAGE: Final = 2_000  # rows that are written as one transaction

Key = tuple[object, ...]
Tell = Callable[[str, int], None]  # the table, and how many rows of it are done


class CopiedTable(NamedTuple):
    """A table: its columns, what SQLite declares them as, and its key; small ones may have none."""

    name: str
    columns: tuple[str, ...]
    kinds: tuple[str, ...]
    key: tuple[str, ...]

    def key_of(self, row: Row) -> Key:
        """Return what a row is found by."""
        return tuple(row[self.columns.index(column)] for column in self.key)


class CopySource(Protocol):
    """A database that tables are copied from; it is only read."""

    @property
    def name(self) -> str:
        """What it is called in messages."""

    def rows(
        self, table: CopiedTable, after: Key | None, upto: Key | None, limit: int | None
    ) -> list[Row]:
        """Return rows in the order of their key: behind one, up to another, so many at most."""


class CopyTarget(CopySource, Protocol):
    """A database that tables are copied into, and read back from."""

    def replace(
        self, table: CopiedTable, after: Key | None, upto: Key | None, rows: Sequence[Row]
    ) -> None:
        """Put rows in the place of those between two keys, as one transaction."""


class TableCopy(NamedTuple):
    """What became of a table; the digest is of all its rows."""

    table: str
    rows: int
    written: int
    digest: str


def copy_table(source: CopySource, target: CopyTarget, table: CopiedTable, tell: Tell) -> TableCopy:
    """Copy what differs in a table; raise if the target does not have it then."""
    digest = blake2b(digest_size=16)
    after: Key | None = None
    done = written = 0
    while True:
        page = source.rows(table, after, None, PAGE if table.key else None)
        last = not table.key or len(page) < PAGE
        upto = None if last else table.key_of(page[-1])
        packed = _pack(table, page)
        if packed != _pack(table, target.rows(table, after, upto, None)):
            target.replace(table, after, upto, page)
            written += len(page)
            if packed != _pack(table, target.rows(table, after, upto, None)):
                msg = f"rows of {table.name} differ between {source.name} and {target.name}"
                raise Damaged(msg, hint="nothing was switched over; please report this")
        digest.update(packed)
        done += len(page)
        tell(table.name, done)
        if last:
            return TableCopy(table.name, done, written, digest.hexdigest())
        after = upto


def _pack(table: CopiedTable, rows: Sequence[Row]) -> bytes:
    packed = [msgspec.msgpack.encode(row) for row in rows]
    return b"".join(packed if table.key else sorted(packed))
