"""What SQLite's catalogue and header tell of a file, beyond the tables and columns of a `Tx`."""

from typing import NamedTuple

from threadkeep.base.tx import Row, Sql, Tx


def object_names(tx: Tx, kind: str = "") -> set[str]:
    """Name everything in a file, or everything of one kind: `table`, `index`, `trigger`, `view`."""
    sql = "SELECT name FROM sqlite_master WHERE ? IN ('', type)"
    return {str(row[0]) for row in tx.all(Sql(sql), (kind,))}


def definitions(tx: Tx, *kinds: str) -> dict[str, str]:
    """Return the SQL that made each thing in a file, by its name; of some kinds, or of all."""
    rows = tx.all(Sql("SELECT name, type, sql FROM sqlite_master"))
    return {str(name): str(sql or "") for name, kind, sql in rows if not kinds or kind in kinds}


class ColumnFacts(NamedTuple):
    """A column as SQLite has it: its place, whether it refuses NULL, its place in the key."""

    place: int
    name: str
    declared: str
    never_null: int
    default: str | None
    key: int


def column_facts(tx: Tx, table: str) -> list[ColumnFacts]:
    """Describe the columns of a table, in order."""
    return [ColumnFacts(*row) for row in tx.all(Sql(f'PRAGMA table_info("{table}")'))]


def never_null(tx: Tx, table: str) -> list[str]:
    """Name the columns that refuse NULL."""
    return [column.name for column in column_facts(tx, table) if column.never_null]


class ForeignKey(NamedTuple):
    """A column that refers to another table; `number` is how a broken reference names it."""

    number: int
    parent: str
    column: str
    on_delete: str


def foreign_keys(tx: Tx, table: str) -> list[ForeignKey]:
    """Return the references of a table to others."""
    rows = tx.all(Sql(f'PRAGMA foreign_key_list("{table}")'))
    return [ForeignKey(row[0], str(row[2]), str(row[3]), str(row[6])) for row in rows]


def broken_references(tx: Tx, table: str) -> list[Row]:
    """Return the rows of a table without their parent: table, rowid, parent, number of the key."""
    return tx.all(Sql(f'PRAGMA foreign_key_check("{table}")'))


def user_version(tx: Tx) -> int:
    """Return the number in the file's header that programs may use, 0 for one that says nothing."""
    return int(tx.value(Sql("PRAGMA user_version")))


def set_user_version(tx: Tx, version: int) -> None:
    """Write the number into the file's header, with the rest of the transaction."""
    tx.run(Sql(f"PRAGMA user_version = {version:d}"))


def schema_cookie(tx: Tx) -> int:
    """Return a number that is another one after any change of the schema (2 µs)."""
    return int(tx.value(Sql("PRAGMA schema_version")))


class FilePages(NamedTuple):
    """How large a file is: its pages, how large one is, how many are free, if they are cut off."""

    total: int
    size: int
    free: int
    auto_vacuum: int

    @property
    def bytes(self) -> int:
        """The size that the file has once its log is written into it."""
        return self.total * self.size

    @property
    def free_bytes(self) -> int:
        """What of that is free."""
        return self.free * self.size


def pages(tx: Tx) -> FilePages:
    """Measure a file."""
    names = ("page_count", "page_size", "freelist_count", "auto_vacuum")
    return FilePages(*(int(tx.value(Sql(f"PRAGMA {name}"))) for name in names))
