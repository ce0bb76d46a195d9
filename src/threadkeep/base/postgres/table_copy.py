"""A store's schema on PostgreSQL as an end of a copy of tables; rows are those of one member."""

from collections.abc import Sequence
from typing import Any, Final

import psycopg

from threadkeep.base.postgres.errors import translate
from threadkeep.base.postgres.pool import Connection
from threadkeep.base.postgres.schema import StorePlace
from threadkeep.base.postgres.tables import type_of
from threadkeep.base.sql import OWNER
from threadkeep.base.table_copy import CopiedTable, Key
from threadkeep.base.text import from_sql, to_sql
from threadkeep.base.tx import Row

_TEXT: Final = "text"


class PostgresCopy:
    """The tables of a store, over a connection that has entered its home."""

    def __init__(self, name: str, connection: Connection, place: StorePlace) -> None:
        self.name = name
        self._connection = connection
        self._place = place

    def rows(
        self, table: CopiedTable, after: Key | None, upto: Key | None, limit: int | None
    ) -> list[Row]:
        """Return rows in the order of their key."""
        where, params = self._span(table, after, upto)
        order = f" ORDER BY {_listed(table.key)}" if table.key else ""
        most = "" if limit is None else f" LIMIT {limit}"
        sql = f"SELECT {_listed(table.columns)} FROM {self._named(table)}{where}{order}{most}"  # noqa: S608
        cursor = self._connection.cursor(binary=True)
        found = cursor.execute(sql.encode(), params, prepare=True).fetchall()
        texts = [place for place, kind in enumerate(table.kinds) if type_of(kind).startswith(_TEXT)]
        return [_as_sqlite(row, texts) for row in found]

    def has_rows(self, table: str) -> bool:
        """Tell whether a table has any row of the member."""
        asked = CopiedTable(table, (OWNER,), ("INTEGER",), ())
        return bool(self.rows(asked, None, None, 1))

    def replace(
        self, table: CopiedTable, after: Key | None, upto: Key | None, rows: Sequence[Row]
    ) -> None:
        """Put rows in the place of those between two keys."""
        where, params = self._span(table, after, upto)
        put = f"COPY {self._named(table)} ({_listed(table.columns)}) FROM STDIN"
        texts = [place for place, kind in enumerate(table.kinds) if type_of(kind).startswith(_TEXT)]
        try:
            with self._connection.transaction(), self._connection.cursor() as cursor:
                cursor.execute(f"DELETE FROM {self._named(table)}{where}".encode(), params)  # noqa: S608
                with cursor.copy(put.encode()) as copy:
                    for row in rows:
                        copy.write_row(_as_postgres(row, texts))
        except psycopg.Error as error:
            raise translate(error, f"{self.name}, {table.name}") from error

    def _named(self, table: CopiedTable) -> str:
        return f'{self._place.schema}."{table.name}"'

    def _span(
        self, table: CopiedTable, after: Key | None, upto: Key | None
    ) -> tuple[str, dict[str, Any]]:
        params: dict[str, Any] = {}
        conditions = [f"{OWNER} = CAST(current_setting('tk.owner') AS bigint)"]
        for key, word, sign in ((after, "a", ">"), (upto, "u", "<=")):
            if key is not None:
                params |= {f"{word}{place}": _as_text(value) for place, value in enumerate(key)}
                values = ", ".join(f"%({word}{place})s" for place in range(len(key)))
                conditions.append(f"({_listed(table.key)}) {sign} ({values})")
        return f" WHERE {' AND '.join(conditions)}", params


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _as_sqlite(row: Sequence[Any], texts: Sequence[int]) -> Row:
    values = list(row)
    for place in texts:
        if isinstance(values[place], str) and not values[place].isascii():
            values[place] = to_sql(values[place])
    return tuple(values)


def _as_postgres(row: Row, texts: Sequence[int]) -> Row:
    if not any(isinstance(row[place], bytes) for place in texts):
        return row
    values = list(row)
    for place in texts:
        values[place] = _as_text(values[place])
    return tuple(values)


def _as_text(value: Any) -> Any:
    return from_sql(value) if isinstance(value, bytes) else value
