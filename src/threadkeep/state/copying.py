"""Message rows copied, brought back or marked: all their columns, and what is kept beside them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from threadkeep.base.tx import Tx
from threadkeep.state.context import MESSAGE_COLUMNS, StateContext
from threadkeep.state.exact import put
from threadkeep.state.messages import put_hash

Beside = list[list[Any]]
# What a copy does not take over: it is another row, and a live one, at a place of its own.
_OWN: Final = ("id", "session_id", "active", "compacted", "display_order")


def beside(tx: Tx, message_id: int) -> Beside:
    """Collect what is kept beside a message, as plain JSON values."""
    exact = tx.all("exact_messages", {"first": message_id, "last": message_id})
    offloaded = tx.all("offloaded_of", {"id": message_id})
    return [
        *(
            ["exact", field, kind, value.hex() if isinstance(value, bytes) else value]
            for _, field, kind, value in exact
        ),
        *(["offloaded", field, pieces] for field, pieces in offloaded),
    ]


def put_beside(tx: Tx, message_id: int, kept: Beside) -> None:
    """Keep beside a message what `beside` collected."""
    for kind, field, *rest in kept:
        if kind == "exact":
            value = bytes.fromhex(rest[1]) if rest[0] == "bytes" else rest[1]
            put(tx, "message", message_id, field, rest[0], value)
        else:
            values = {"message_id": message_id, "field": field, "pieces": rest[0]}
            tx.run("put_offloaded", values)


def copy_message(ctx: StateContext, tx: Tx, message_id: int, session_id: str) -> int:
    """Copy a message into a session, with all columns there are; give the id of the live copy."""
    present = ctx.form.tables["messages"]
    names = ", ".join(_quoted(name) for name in present if name not in _OWN)
    live = [name for name in ("active", "compacted") if name in present]
    values = "".join(f", {int(name == 'active')}" for name in live)
    cursor = tx.execute(
        f"INSERT INTO messages(session_id, {', '.join([names, *live])})"  # noqa: S608
        f" SELECT ?, {names}{values} FROM messages WHERE id = ?",
        (session_id, message_id),
    )
    copied = cursor.lastrowid or 0
    if ctx.side:
        row = tx.one("get_message", {"id": copied}) or ()
        put_hash(tx, copied, dict(zip(MESSAGE_COLUMNS[1:], row[1:], strict=True)))
        put_beside(tx, copied, beside(tx, message_id))
    return copied


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def restore_message(tx: Tx, message_id: int, columns: Sequence[Any], kept: Beside) -> None:
    """Insert a message under the id that it had, by the columns of version 6."""
    tx.run("restore_message", (message_id, *columns))
    tx.run("mark_dirty", {"id": message_id})  # the second index has passed this id already
    put_hash(tx, message_id, dict(zip(MESSAGE_COLUMNS[1:], columns, strict=True)))
    put_beside(tx, message_id, kept)


def mark_messages(ctx: StateContext, tx: Tx, ids: Sequence[int], values: Mapping[str, Any]) -> int:
    """Set columns that say something about messages, not what they say; give how many there were.

    Their fingerprints do not cover these, so they stay as they are.
    """
    named = json.dumps(list(ids))
    hashes = tx.all("hashes_among", {"ids": named}) if ctx.side else []
    changes = ", ".join(f"{name} = ?" for name in values)
    found = tx.execute(
        f"UPDATE messages SET {changes} WHERE id IN (SELECT value FROM json_each(?))",  # noqa: S608
        (*values.values(), named),
    ).rowcount
    for message_id, hash_ in hashes:
        tx.run("put_hash", (message_id, hash_))
    return found
