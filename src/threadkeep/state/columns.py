"""Writing rows by the names of their columns, in a file that may lack some or have more.

What is not named keeps its default or its value, so columns that we do not know are left alone. A
value for a column that the file lacks widens the file first, unless it is the default anyway.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, NamedTuple

from threadkeep.base.tx import Tx
from threadkeep.state.context import StateContext
from threadkeep.state.form import Form
from threadkeep.state.versions import known_columns, newest_columns

Values = Mapping[str, Any]

# How SQLite says that a statement names a table or column which is not there.
_UNKNOWN: Final = re.compile(
    r'(?:no such (?:table|column): |has no column named )(?:\w+\.)?"?(\w+)"?$'
)


class _InsertWay(NamedTuple):
    """How rows of some names go into a table: the statement, their values, and what is lacking."""

    sql: str
    pick: Callable[[Values], tuple[Any, ...]]
    lacking: tuple[tuple[str, str], ...]


def insert_row(
    ctx: StateContext, tx: Tx, table: str, values: Values, *, or_ignore: bool = False
) -> int:
    """Insert one row and give its rowid, 0 if it was there and `or_ignore` is set."""
    word, names = "INSERT OR IGNORE" if or_ignore else "INSERT", tuple(values)
    way = _way(word, table, names, ctx.form.tables.get(table, ()))
    for name, default in way.lacking:
        value = values[name]
        if value is not None and not _is_default(value, default):
            ctx.widen(tx)
            way = _way(word, table, names, ctx.form.tables.get(table, ()))
            break
    cursor = tx.execute(way.sql, way.pick(values))
    return (cursor.lastrowid or 0) if cursor.rowcount else 0


# Written once for each set of names: an append takes 15 µs less.
@lru_cache(maxsize=256)
def _way(word: str, table: str, names: tuple[str, ...], present: tuple[str, ...]) -> _InsertWay:
    missing = _defaults_of(table, present)
    kept = tuple(name for name in names if name not in missing)
    sql = f"{word} INTO {table}({', '.join(kept)}) VALUES ({', '.join('?' * len(kept))})"
    pick = itemgetter(*kept) if len(kept) > 1 else lambda values: tuple(values[n] for n in kept)
    return _InsertWay(sql, pick, tuple((name, missing[name]) for name in names if name in missing))


def update_rows(ctx: StateContext, tx: Tx, table: str, key: Values, values: Values) -> int:
    """Set columns of the rows that have the values of `key`; give how many there were."""
    fitting = _fitting(ctx, tx, table, values)
    if not fitting:
        return 0
    changes = ", ".join(f"{name} = ?" for name in fitting)
    where = " AND ".join(f"{name} IS ?" for name in key)
    sql = f"UPDATE {table} SET {changes} WHERE {where}"  # noqa: S608
    return tx.execute(sql, (*fitting.values(), *key.values())).rowcount


def supply(ctx: StateContext, complaint: str) -> bool:
    """Widen the file if a program's own SQL failed for what a newer file has; tell whether."""
    found = _UNKNOWN.search(complaint)
    if found is None or ctx.db.read_only:
        return False
    missing = {
        name
        for table in newest_columns()
        for name in (table, *(column.name for column in ctx.form.missing_columns(table)))
        if name not in ctx.form.tables
    }
    if found[1] in missing:
        with ctx.db.write() as tx:
            ctx.widen(tx)
    return found[1] in missing


def _fitting(ctx: StateContext, tx: Tx, table: str, values: Values) -> Values:
    missing = _defaults(ctx.form, table)
    if not missing:
        return values
    if any(not _is_default(values.get(name), default) for name, default in missing.items()):
        ctx.widen(tx)
        return values
    return {name: value for name, value in values.items() if name not in missing}


def _defaults(form: Form, table: str) -> Mapping[str, str]:
    """Give the known columns that the file lacks, with their defaults."""
    return _defaults_of(table, form.tables.get(table, ()))


@lru_cache(maxsize=64)
def _defaults_of(table: str, present: tuple[str, ...]) -> Mapping[str, str]:
    known = known_columns()[table]
    return {column.name: column.default for column in known if column.name not in present}


def _is_default(value: Any, default: str) -> bool:
    return value is None or str(int(value) if isinstance(value, bool) else value) == default
