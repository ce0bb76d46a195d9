"""Taking messages back without losing them, and bringing them back."""

import json

from threadkeep.base.sqlite import Tx
from threadkeep.errors import NotFound
from threadkeep.state.context import Context
from threadkeep.state.copying import beside, insert_row
from threadkeep.state.messages import call_count
from threadkeep.state.sessions import need_session


def rewind_to_message(ctx: Context, tx: Tx, session_id: str, message_id: int) -> int:
    """Take back a message and everything after it in its session; give how many messages.

    They are out of every reader's sight, Hermes's too, until `undo_rewind`.
    """
    need_message(tx, session_id, message_id)
    return put_aside(ctx, tx, session_id, message_id)


def need_message(tx: Tx, session_id: str, message_id: int) -> None:
    """Raise if there is no such session, or no such message in it."""
    need_session(tx, session_id)
    if tx.one("message_of_session", {"id": message_id, "session_id": session_id}) is None:
        msg = f"session {session_id!r} has no message {message_id}"
        raise NotFound(msg, hint="`threadkeep state show` numbers the messages")


def put_aside(ctx: Context, tx: Tx, session_id: str, first: int) -> int:
    """Take a message and all behind it out of sight; give how many."""
    batch = int(tx.value("next_rewind_batch"))
    params = {"session_id": session_id, "first": first}
    for (message_id,) in tx.all("message_ids_from", params):
        aside = json.dumps(beside(tx, message_id))
        values = {"id": message_id, "batch": batch, "cut": first, "exact": aside}
        tx.run("copy_to_rewound", {**values, "now": ctx.clock()})
    gone = tx.run("delete_messages_from", params)
    recount(tx, session_id)
    return gone


def undo_rewind(ctx: Context, tx: Tx, session_id: str) -> int:
    """Bring back what the last rewind of a session took; give how many messages.

    Messages written after that rewind are taken back in turn: another undo brings them back.
    """
    need_session(tx, session_id)
    found = tx.one("last_rewind", {"session_id": session_id})
    if found is None:
        return 0
    batch, cut = found
    rows = tx.all("rewound_messages", {"batch": batch})
    put_aside(ctx, tx, session_id, cut)
    for message_id, *columns, hash_, kept in rows:
        insert_row(tx, message_id, tuple(columns), json.loads(kept or "[]"))
        if hash_ is not None:  # the one it had: damage meanwhile must not get a new one
            tx.run("put_hash", (message_id, hash_))
    tx.run("forget_rewind", {"batch": batch})
    recount(tx, session_id)
    at = tx.value("activity_of", {"id": session_id})  # its cursor has passed these ids, too
    tx.run("put_activity", {"id": session_id, "at": at})
    return len(rows)


def recount(tx: Tx, session_id: str) -> None:
    """Set the counts of a session to what its messages say."""
    rows = tx.all("tool_calls_of", {"session_id": session_id})
    calls = sum(_calls_in(row[0]) for row in rows)
    messages = tx.value("count_messages", {"session_id": session_id})
    tx.run("set_counts", {"id": session_id, "messages": messages, "calls": calls})


def _calls_in(text: str) -> int:
    try:
        return call_count(json.loads(text))
    except (ValueError, RecursionError):
        return 1
