"""Message rows moved or copied whole: their columns, and what is kept beside them."""

from typing import Any

from threadkeep.base.sqlite import Tx
from threadkeep.state.exact import put
from threadkeep.state.messages import Columns, put_hash

Beside = list[list[Any]]


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


def insert_row(tx: Tx, message_id: int | None, columns: Columns, kept: Beside) -> int:
    """Insert a message by its columns, under its old id or a new one; give the id."""
    if message_id is None:
        message_id = tx.insert("insert_message", columns)
    else:
        tx.run("restore_message", (message_id, *columns))
        tx.run("mark_dirty", {"id": message_id})  # the second index has passed this id already
    put_hash(tx, message_id, columns)
    put_beside(tx, message_id, kept)
    return message_id
