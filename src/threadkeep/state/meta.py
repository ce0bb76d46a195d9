"""Values by key that programs keep in the file: when they last pruned, what they loop over."""

from typing import Any

from threadkeep.base.tx import Tx
from threadkeep.state.context import StateContext
from threadkeep.state.layout import QUERIES
from threadkeep.state.verbs import write


def get_meta(_ctx: StateContext, tx: Tx, key: str) -> str | None:
    """Give the value of a key, None if there is none."""
    value: str | None = tx.value("state_value", {"key": key})
    return value


def set_meta(ctx: StateContext, key: str, value: str | None, *, cursor: Any = None) -> None:
    """Keep a value under a key; with a `cursor` inside the transaction that it is in."""
    if cursor is None:
        write(ctx, put_meta, key, value)
    else:
        cursor.execute(QUERIES["put_state_value"], {"key": key, "value": value})


def put_meta(ctx: StateContext, tx: Tx, key: str, value: str | None) -> None:
    """Keep a value under a key, in the same transaction."""
    ctx.widen(tx)
    tx.run("put_state_value", {"key": key, "value": value})


def list_meta_prefix(_ctx: StateContext, tx: Tx, prefix: str) -> list[tuple[str, str | None]]:
    """Give the keys that begin so, with their values."""
    if not prefix:
        return []
    escaped = prefix.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return [(key, value) for key, value in tx.all("state_values", {"pattern": f"{escaped}%"})]
