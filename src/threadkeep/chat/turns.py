"""The queue of pending turns: user messages with a numeric `queued_at` in their metadata.

They are in neither the transcript nor the model's view, survive a restart, and are left alone by
a rewind. Firing and cancelling are one compare-and-swap each on the same metadata: of two that
race for one message exactly one wins.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from threadkeep.base import json
from threadkeep.base.tx import Tx
from threadkeep.chat import journal
from threadkeep.chat.context import NOTHING, ChatContext
from threadkeep.chat.messages import add_message, clean_part, need_parts, turn_metadata
from threadkeep.chat.records import (
    Json,
    Message,
    MessageRef,
    SessionRef,
    is_number,
    message_of,
    ref_id,
    without_keys,
)
from threadkeep.chat.rows import (
    MESSAGE,
    SESSION,
    foreign_message,
    need_message,
    need_session,
    next_message_time,
    rehash,
    touch_session,
)
from threadkeep.chat.views import read_part, stored_message
from threadkeep.errors import Conflict


def enqueue(
    ctx: ChatContext,
    tx: Tx,
    session: SessionRef,
    text_or_parts: str | Json | Sequence[Json],
    *,
    metadata: Mapping[str, Any] = NOTHING,
    message_id: str | None = None,
    trigger: Json | None = None,
) -> Message:
    """Add a user message to the end of the queue.

    The same id with the same content gives the first message back, whatever became of it since;
    the same id with other content is a conflict.
    """
    session_id = need_session(tx, ref_id(session, "session")).id
    parts = need_parts(text_or_parts)
    new_id = ctx.ids.new("msg") if message_id is None else ref_id(message_id, "message")
    row = tx.one("get_message", {"id": new_id})
    if row is not None:
        return _same_again(ctx, tx, session_id, message_of(row), parts)
    now = ctx.clock()
    waiting = queued(ctx, tx, session_id)
    # One clock for people and triggers, and a place behind everybody who waits already.
    at = max([now, *(int(message.metadata["queued_at"]) + 1 for message in waiting)])
    noted = {**turn_metadata(metadata, trigger=trigger), "queued_at": at, "queue_enqueued_at": at}
    add_message(ctx, tx, session_id, new_id, "user", parts, noted)
    return need_message(tx, session_id, new_id)


def _same_again(
    ctx: ChatContext, tx: Tx, session_id: str, message: Message, parts: list[Json]
) -> Message:
    if message.session_id != session_id:
        raise foreign_message(message.id, message.session_id, session_id)
    # Compared as they are read back: a tuple that was given is a list that was stored.
    given = [read_part(json.encode(clean_part(ctx, part)), part["type"]) for part in parts]
    if _enqueued_at(message) is not None and stored_message(tx, message)["parts"] == given:
        return message
    msg = f"message {message.id!r} exists with other content"
    raise Conflict(msg, hint="use another id for another message")


def _enqueued_at(message: Message) -> Any:
    """When a message was queued, if it ever was; older writers note only that it waits."""
    first = message.metadata.get("queue_enqueued_at")
    at = first if is_number(first) else message.metadata.get("queued_at")
    return at if message.role == "user" and is_number(at) else None


def queued(_ctx: ChatContext, tx: Tx, session: SessionRef) -> list[Message]:
    """Give the waiting messages of a session, first in, first out."""
    session_id = need_session(tx, ref_id(session, "session")).id
    rows = tx.all("messages_that_may_wait", {"session_id": session_id})
    waiting = [
        message for message in map(message_of, rows) if message.queued and not message.hidden
    ]
    return sorted(waiting, key=lambda message: (message.metadata["queued_at"], message.id))


def fire(
    ctx: ChatContext, tx: Tx, session: SessionRef, message: MessageRef | None = None
) -> Message | None:
    """Take a message out of the queue into the conversation, as its newest; None if it is gone.

    Without an id the message that waits longest is taken.
    """
    session_id = need_session(tx, ref_id(session, "session")).id
    first = _waiting(ctx, tx, session_id, message)
    if first is None:
        return None
    now = ctx.clock()
    created = next_message_time(tx, session_id, now)
    metadata = _without_place(first)
    if not _swap(tx, first, metadata, created_at=created, hidden_at=None, now=now):
        return None
    touch_session(tx, session_id, now)
    _note(ctx, tx, session_id, first.id, "fire")
    return need_message(tx, session_id, first.id)


def unfire(ctx: ChatContext, tx: Tx, session: SessionRef, message: MessageRef) -> bool:
    """Put a fired message back at its old place in the queue: its turn did not begin."""
    session_id = need_session(tx, ref_id(session, "session")).id
    fired = need_message(tx, session_id, ref_id(message, "message"))
    at = _enqueued_at(fired)
    if at is None or fired.queued or fired.hidden:
        return False
    metadata = {**fired.metadata, "queued_at": at}
    created, now = fired.created_at, ctx.clock()
    done = _swap(tx, fired, metadata, created_at=created, hidden_at=None, now=now)
    if done:
        _note(ctx, tx, session_id, fired.id, "unfire")
    return done


def cancel(ctx: ChatContext, tx: Tx, session: SessionRef, message: MessageRef) -> bool:
    """Take a message out of the queue for good; False if it was fired or cancelled before."""
    session_id = need_session(tx, ref_id(session, "session")).id
    waiting = _waiting(ctx, tx, session_id, ref_id(message, "message"))
    if waiting is None:
        return False
    now = ctx.clock()
    metadata = _without_place(waiting) | {"queue_canceled_at": now, "hidden_at": now}
    created = waiting.created_at
    done = _swap(tx, waiting, metadata, created_at=created, hidden_at=now, now=now)
    if done:
        _note(ctx, tx, session_id, waiting.id, "cancel")
    return done


def _without_place(message: Message) -> Json:
    """Give the metadata of a message that leaves the queue; that it was in there stays known."""
    return {
        **without_keys(message.metadata, "queued_at"),
        "queue_enqueued_at": _enqueued_at(message),
    }


def _waiting(
    ctx: ChatContext, tx: Tx, session_id: str, message: MessageRef | None
) -> Message | None:
    if message is None:
        return next(iter(queued(ctx, tx, session_id)), None)
    found = need_message(tx, session_id, ref_id(message, "message"))
    return found if found.queued and not found.hidden else None


def _swap(
    tx: Tx,
    message: Message,
    metadata: Json,
    *,
    created_at: int,
    hidden_at: int | None,
    now: int,
) -> bool:
    row = tx.one("get_message", {"id": message.id})
    params = {
        "id": message.id,
        "metadata_json": json.encode(metadata),
        "expected": row[3] if row else None,
        "created_at": created_at,
        "hidden_at": hidden_at,
        "now": now,
    }
    if tx.run("swap_queued_message", params) == 0:
        return False
    rehash(tx, MESSAGE, message.id)
    return True


def _note(ctx: ChatContext, tx: Tx, session_id: str, message_id: str, kind: str) -> None:
    journal.note(ctx, tx, session_id, kind, [(MESSAGE, message_id), (SESSION, session_id)])
