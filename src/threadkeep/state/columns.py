"""Writing rows by the names of their columns, in a file that may lack some or have more.

What is not named keeps its default or its value, so columns that we do not know are left alone. A
value for a column that the file lacks widens the file first, unless it is the default anyway.
"""

from collections.abc import Mapping
from typing import Any

from threadkeep.base.sqlite import Tx
from threadkeep.state.context import Context

Values = Mapping[str, Any]


def insert_row(ctx: Context, tx: Tx, table: str, values: Values, *, or_ignore: bool = False) -> int:
    """Insert one row and give its rowid, 0 if it was there and `or_ignore` is set."""
    fitting = _fitting(ctx, tx, table, values)
    names, marks = ", ".join(fitting), ", ".join("?" * len(fitting))
    word = "INSERT OR IGNORE" if or_ignore else "INSERT"
    cursor = tx.execute(f"{word} INTO {table}({names}) VALUES ({marks})", tuple(fitting.values()))
    return (cursor.lastrowid or 0) if cursor.rowcount else 0


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
    missing = {column.name: column.default for column in ctx.form.missing_columns(table)}
    if any(
        name in missing and not _is_default(value, missing[name]) for name, value in values.items()
    ):
        ctx.widen(tx)
        return values
    return {name: value for name, value in values.items() if name not in missing}


def _is_default(value: Any, default: str) -> bool:
    return value is None or str(int(value) if isinstance(value, bool) else value) == default
