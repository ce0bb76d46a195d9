"""Writing rows by the names of their columns, in a file that may lack some or have more.

What is not named keeps its default or its value, so columns that we do not know are left alone. A
value for a column that the file lacks widens the file first, unless it is the default anyway.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from threadkeep.base.sqlite import Tx
from threadkeep.state.context import Context
from threadkeep.state.form import Form
from threadkeep.state.versions import known_columns

Values = Mapping[str, Any]


def insert_row(ctx: Context, tx: Tx, table: str, values: Values, *, or_ignore: bool = False) -> int:
    """Insert one row and give its rowid, 0 if it was there and `or_ignore` is set."""
    fitting = _fitting(ctx, tx, table, values)
    sql = _insertion("INSERT OR IGNORE" if or_ignore else "INSERT", table, tuple(fitting))
    cursor = tx.execute(sql, tuple(fitting.values()))
    return (cursor.lastrowid or 0) if cursor.rowcount else 0


@lru_cache(maxsize=128)
def _insertion(word: str, table: str, names: tuple[str, ...]) -> str:
    return f"{word} INTO {table}({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"


def update_rows(ctx: Context, tx: Tx, table: str, key: Values, values: Values) -> int:
    """Set columns of the rows that have the values of `key`; give how many there were."""
    fitting = _fitting(ctx, tx, table, values)
    if not fitting:
        return 0
    changes = ", ".join(f"{name} = ?" for name in fitting)
    where = " AND ".join(f"{name} IS ?" for name in key)
    sql = f"UPDATE {table} SET {changes} WHERE {where}"  # noqa: S608
    return tx.execute(sql, (*fitting.values(), *key.values())).rowcount


def _fitting(ctx: Context, tx: Tx, table: str, values: Values) -> Values:
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
