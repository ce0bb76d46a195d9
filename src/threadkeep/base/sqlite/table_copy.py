"""A SQLite file as an end of a copy of tables."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set as AbstractSet
from typing import Final

from threadkeep.base.database import Database
from threadkeep.base.sqlite.schema import Schema
from threadkeep.base.sqlite.statements import split_statements
from threadkeep.base.sqlite.upkeep import sqlite_file
from threadkeep.base.table_copy import CopiedTable, Key
from threadkeep.base.tx import Row, Sql, Tx

_CODE: Final = re.compile(r"--[^\n]*\n")
_TABLE: Final = re.compile(r"CREATE TABLE\b")
_KINDS: Final = (
    "SELECT name, type FROM pragma_table_list WHERE name NOT LIKE 'sqlite~_%' ESCAPE '~'"
)
_FINISHED: Final = """
SELECT name FROM sqlite_master
WHERE type = :kind AND sql IS NOT NULL AND (type <> 'table' OR rootpage = 0)"""
_PLAIN: Final = re.compile(r"\b(INT|REAL|BLOB|TEXT)", re.IGNORECASE)


class SqliteSource:
    """The tables of a file, as one read transaction sees them."""

    def __init__(self, name: str, tx: Tx) -> None:
        self.name = name
        self._tx = tx

    def rows(
        self, table: CopiedTable, after: Key | None, upto: Key | None, limit: int | None
    ) -> list[Row]:
        """Return rows in the order of their key."""
        return _rows(self._tx, table, after, upto, limit)


class SqliteTarget:
    """A new file, which gets indexes, triggers and its version when the rows are there."""

    def __init__(self, database: Database, schema: Schema) -> None:
        self.name = database.name
        self._file = sqlite_file(database)
        self._schema = schema
        with self._file.write(foreign_keys=False) as tx:
            _unfinish(tx)
            present = tx.tables()
            for statement in _statements(schema):
                made = re.match(r'CREATE TABLE (?:IF NOT EXISTS )?"?(\w+)', statement)
                if made and made[1] not in present:
                    tx.run(Sql(statement))

    def rows(
        self, table: CopiedTable, after: Key | None, upto: Key | None, limit: int | None
    ) -> list[Row]:
        """Return rows in the order of their key."""
        with self._file.read() as tx:
            return _rows(tx, table, after, upto, limit)

    def replace(
        self, table: CopiedTable, after: Key | None, upto: Key | None, rows: Sequence[Row]
    ) -> None:
        """Put rows in the place of those between two keys."""
        where, params = _span(table, after, upto)
        names = ", ".join(f'"{column}"' for column in table.columns)
        values = ", ".join(f":v{place}" for place in range(len(table.columns)))
        put = f'INSERT INTO "{table.name}" ({names}) VALUES ({values})'  # noqa: S608
        with self._file.write(foreign_keys=False) as tx:
            tx.run(Sql(f'DELETE FROM "{table.name}"{where}'), params)  # noqa: S608
            tx.run_bulk(Sql(put), [{f"v{n}": one for n, one in enumerate(row)} for row in rows])

    def finish(self, refill: Callable[[Tx], None] | None) -> None:
        """Make the rest of the schema, and write the version: from now on it is a store.

        `refill` has what is made from the rows made again.
        """
        with self._file.write(foreign_keys=False) as tx:
            for statement in _statements(self._schema):
                if not _TABLE.match(statement) and not statement.startswith("INSERT INTO tk_meta"):
                    tx.run(Sql(statement))
            if refill is not None:
                refill(tx)
            self._schema.write_version(tx, self._schema.version)


def _unfinish(tx: Tx) -> None:
    """Take away what `finish` made in a run that was cut later: rows go into bare tables."""
    for kind in ("trigger", "index", "view", "table"):  # the last are virtual: they have no page
        for (name,) in tx.all(Sql(_FINISHED), {"kind": kind}):
            tx.run(Sql(f'DROP {kind.upper()} "{name}"'))


def _statements(schema: Schema) -> Iterator[str]:
    for statement in split_statements(schema.head):
        yield _CODE.sub("", statement).strip()


def _rows(
    tx: Tx, table: CopiedTable, after: Key | None, upto: Key | None, limit: int | None
) -> list[Row]:
    where, params = _span(table, after, upto)
    columns = ", ".join(map(_read, table.columns, table.kinds))
    order = f" ORDER BY {_key(table)}" if table.key else ""
    most = "" if limit is None else f" LIMIT {limit}"
    return tx.all(Sql(f'SELECT {columns} FROM "{table.name}"{where}{order}{most}'), params)  # noqa: S608


def _read(column: str, kind: str) -> str:
    """Read a column; where anything may be in it, as the text that a server has for it."""
    if _PLAIN.search(kind):
        return f'"{column}"'
    return (
        f'CASE typeof("{column}") WHEN \'blob\' THEN lower(hex("{column}"))'
        f' ELSE CAST("{column}" AS TEXT) END'
    )


def _key(table: CopiedTable) -> str:
    kinds = dict(zip(table.columns, table.kinds, strict=True))
    return ", ".join(
        f'"{column}"' if _PLAIN.search(kinds[column]) else f'CAST("{column}" AS TEXT)'
        for column in table.key
    )


def _span(table: CopiedTable, after: Key | None, upto: Key | None) -> tuple[str, dict[str, object]]:
    params: dict[str, object] = {}
    conditions = []
    for key, word, sign in ((after, "a", ">"), (upto, "u", "<=")):
        if key is not None:
            params |= {f"{word}{place}": value for place, value in enumerate(key)}
            values = ", ".join(f":{word}{place}" for place in range(len(key)))
            conditions.append(f"({_key(table)}) {sign} ({values})")
    return (f" WHERE {' AND '.join(conditions)}" if conditions else "", params)


def columns_in_use(
    tx: Tx, known: Mapping[str, AbstractSet[str]], leaving_out: AbstractSet[str]
) -> list[str]:
    """Name the tables and columns of a file that are not known and have something in them."""
    plain = [name for name, kind in tx.all(Sql(_KINDS)) if kind == "table"]
    found = []
    for name in sorted(set(plain) - leaving_out):
        others = [column for column in tx.columns(name) if column not in known.get(name, ())]
        if name not in known and tx.one(Sql(f'SELECT 1 FROM "{name}" LIMIT 1')):  # noqa: S608
            found.append(name)
        elif name in known:
            used = f'SELECT 1 FROM "{name}" WHERE "{{}}" IS NOT NULL LIMIT 1'  # noqa: S608
            found += [f"{name}.{one}" for one in others if tx.one(Sql(used.format(one)))]
    return found
