"""Whole messages: what the user says, and messages put in as they are."""

from collections.abc import Mapping, Sequence
from typing import Any

from threadkeep.base import json
from threadkeep.base.page import Cursor, Limit, Page, read_cursor, write_cursor
from threadkeep.base.text import from_sql
from threadkeep.base.tx import Tx
from threadkeep.chat import journal
from threadkeep.chat.context import (
    NOTHING,
    ChatContext,
    clean,
    encode_part,
    need_object,
    need_text,
    need_whole,
    optional_text,
)
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
from threadkeep.chat.recovery import settle_unless_running
from threadkeep.chat.rows import (
    MESSAGE,
    PART,
    SESSION,
    foreign_message,
    insert_message,
    insert_part,
    need_message,
    need_session,
    next_message_time,
    part_row,
    rehash,
    set_message_metadata,
    touch_session,
)
from threadkeep.chat.sessions import refresh_model
from threadkeep.chat.usage import decide_usage, is_counted, write_sums
from threadkeep.chat.views import (
    COMPACTION,
    View,
    check_view,
    load,
    load_message,
    read_part,
    select,
    stored_message,
)
from threadkeep.errors import Conflict, Invalid

ROLES = ("user", "assistant", "system")
SCHEMA_VERSION = 1
# What the store itself notes on a message; replacing the message does not undo it.
_OWN_KEYS = ("hidden_at", "queued_at", "queue_enqueued_at", "queue_canceled_at")
# Names inside a part tie it to others: redaction must leave them alone.
_PART_NAMES = ("type", "id", "state", "toolCallId", "toolName", "sourceId", "mediaType")


def check_parts(text_or_parts: object) -> list[Json]:
    """Take text, one part or a list of parts, and give a list of parts."""
    if isinstance(text_or_parts, str):
        return [{"type": "text", "text": text_or_parts}]
    given = [text_or_parts] if isinstance(text_or_parts, dict) else text_or_parts
    if not isinstance(given, (list, tuple)):
        msg = f"a message is text or a list of parts, not {type(given).__name__}"
        raise Invalid(msg, hint='pass "text", or [{"type": "text", "text": "…"}]')
    for place, part in enumerate(given):
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            msg = f"part {place} is not an object with a text `type`"
            raise Invalid(msg, hint='a part looks like {"type": "text", "text": "…"}')
    return list(given)


def turn_metadata(
    metadata: Mapping[str, Any],
    *,
    agent: str | None = None,
    model: Json | None = None,
    trigger: Json | None = None,
    snapshot_id: str | None = None,
    schema_version: int | None = None,
) -> Json:
    """Collect what a user message says about its turn; what is not given is left out."""
    given: Json = {
        "agent": optional_text(agent, "agent"),
        "model": model,
        "trigger": None if trigger is None else need_object(trigger, "trigger"),
        "snapshot_id": optional_text(snapshot_id, "snapshot_id"),
    }
    if schema_version is not None:
        given["schema_version"] = need_whole(schema_version, "schema_version")
    known = {key: value for key, value in given.items() if value is not None}
    return {"schema_version": SCHEMA_VERSION, **need_object(metadata, "metadata"), **known}


def say(
    ctx: ChatContext,
    tx: Tx,
    session: SessionRef,
    text_or_parts: str | Json | Sequence[Json],
    *,
    metadata: Mapping[str, Any] = NOTHING,
    agent: str | None = None,
    model: Json | str | None = None,
    trigger: Json | None = None,
    snapshot_id: str | None = None,
    schema_version: int | None = None,
    message_id: str | None = None,
) -> Message:
    """Store what the user says, before any model sees it."""
    session_id = ref_id(session, "session")
    parts = need_parts(text_or_parts)
    shaped = None if model is None else refresh_model(ctx, tx, session_id, model)
    noted = turn_metadata(
        metadata,
        agent=agent,
        model=shaped,
        trigger=trigger,
        snapshot_id=snapshot_id,
        schema_version=schema_version,
    )
    new_id = ctx.ids.new("msg") if message_id is None else ref_id(message_id, "message")
    if message_id is not None:
        refuse_taken_id(tx, session_id, new_id)
    return add_message(ctx, tx, session_id, new_id, "user", parts, noted)


def need_parts(text_or_parts: object) -> list[Json]:
    """Take what `check_parts` takes, but at least one part."""
    parts = check_parts(text_or_parts)
    if not parts:
        raise Invalid("the message has no parts", hint="pass text, or at least one part")
    return parts


def add_message(
    ctx: ChatContext,
    tx: Tx,
    session_id: str,
    message_id: str,
    role: str,
    parts: Sequence[Json],
    metadata: Json,
) -> Message:
    """Add a message with its parts at the end of the session; its id is known to be free."""
    created = next_message_time(tx, session_id, ctx.clock())
    hidden = metadata.get("hidden_at")
    message = insert_message(
        tx,
        message_id=message_id,
        session_id=session_id,
        role=role,
        metadata=clean(ctx, metadata),
        created_at=created,
        hidden_at=hidden if isinstance(hidden, int) and not isinstance(hidden, bool) else None,
    )
    part_ids = add_parts(ctx, tx, session_id, message_id, parts, created)
    touch_session(tx, session_id, created)
    changed = [(MESSAGE, message_id), *((PART, part) for part in part_ids), (SESSION, session_id)]
    journal.note(ctx, tx, session_id, "message", changed)
    return message


def refuse_taken_id(tx: Tx, session_id: str, message_id: str) -> None:
    """Refuse an id that a message has already, here or in another session."""
    row = tx.one("get_message", {"id": message_id})
    if row is None:
        return
    owner = message_of(row).session_id
    if owner != session_id:
        raise foreign_message(message_id, owner, session_id)
    msg = f"session {session_id!r} has a message {message_id!r} already"
    raise Conflict(msg, hint="use put_message to replace it, or another id")


def add_parts(
    ctx: ChatContext,
    tx: Tx,
    session_id: str,
    message_id: str,
    parts: Sequence[Json],
    at: int,
    first: int = 0,
) -> list[str]:
    """Add parts to a message and give their ids."""
    ids = []
    for index, part in enumerate(parts, first):
        cleaned = clean_part(ctx, part)
        row = part_row(
            cleaned,
            encode_part(ctx, cleaned, f"part {index} of message {message_id!r}"),
            part_id=ctx.ids.new("prt"),
            message_id=message_id,
            session_id=session_id,
            position=index,
            created_at=at,
            updated_at=at,
        )
        insert_part(tx, row)
        ids.append(row.id)
    return ids


def clean_part(ctx: ChatContext, part: Json) -> Json:
    """Pass the texts of a part through the host's redaction hook, but not what names it."""
    cleaned: Json = clean(ctx, part)
    return cleaned | {name: part[name] for name in _PART_NAMES if name in part}


def ui_messages(
    _ctx: ChatContext, tx: Tx, session: SessionRef, view: View = "transcript"
) -> list[Json]:
    """Return the messages of a session in the AI SDK's shape.

    "transcript" is what people see, "model" what the model gets after compaction, "all" has
    hidden and queued messages too. Exact up to the last committed chunk.
    """
    check_view(view)
    session_id = need_session(tx, ref_id(session, "session")).id
    return select(load(tx, session_id), view)


def message_page(
    ctx: ChatContext,
    tx: Tx,
    session: SessionRef,
    view: View = "transcript",
    *,
    limit: Limit = 50,
    cursor: Cursor | None = None,
) -> Page[Json]:
    """Return the messages of a session in the AI SDK's shape, in order, one page at a time."""
    found = ui_messages(ctx, tx, session, view)
    begin = _behind(found, cursor) if cursor else 0
    page = found[begin : begin + limit]
    more = begin + limit < len(found)
    return Page(page, write_cursor([page[-1]["id"]]) if more else None)


def _behind(messages: Sequence[Json], cursor: str) -> int:
    """Find the place behind the message of a cursor."""
    (last,) = read_cursor(cursor, str)
    places = (place for place, one in enumerate(messages) if one["id"] == last)
    place = next(places, None)
    if place is None:
        raise Conflict(f"the message {last[:80]!r} is no longer shown", hint="start over")
    return place + 1


def ui_message(_ctx: ChatContext, tx: Tx, session: SessionRef, message: MessageRef) -> Json:
    """Return one message in the AI SDK's shape."""
    session_id = need_session(tx, ref_id(session, "session")).id
    return load_message(tx, need_message(tx, session_id, ref_id(message, "message")))


def put_message(ctx: ChatContext, tx: Tx, session: SessionRef, ui_message: Json) -> Message:
    """Store a whole AI SDK message, or replace the one of that id in this session."""
    session_id = need_session(tx, ref_id(session, "session")).id
    given = need_object(ui_message, "a message")
    role = given.get("role")
    if role not in ROLES:
        msg = f"a message has the role user, assistant or system, not {role!r}"
        raise Invalid(msg, hint="set message['role']")
    given_id = given.get("id")
    minted = given_id is None or given_id == ""
    message_id = ctx.ids.new("msg") if minted else need_text(given_id, "the message id")
    parts = check_parts(given.get("parts", []))
    metadata = need_object({} if given.get("metadata") is None else given["metadata"], "metadata")
    row = tx.one("get_message", {"id": message_id})
    if row is None:
        add_message(ctx, tx, session_id, message_id, role, parts, metadata)
    else:
        _replace(ctx, tx, session_id, message_of(row), role, parts, metadata)
    if role == "assistant" and (row is not None or _counts_tokens(parts, metadata)):
        decide_usage(tx, session_id, message_id, metadata.get("usage"))
        write_sums(tx, session_id, ctx.clock())
        journal.note(ctx, tx, session_id, "usage", [(SESSION, session_id)])
    return need_message(tx, session_id, message_id)


def _counts_tokens(parts: Sequence[Json], metadata: Json) -> bool:
    return "usage" in metadata or any(part["type"] == COMPACTION for part in parts)


def _replace(
    ctx: ChatContext,
    tx: Tx,
    session_id: str,
    old: Message,
    role: Any,
    parts: Sequence[Json],
    metadata: Json,
) -> None:
    if old.session_id != session_id:
        raise foreign_message(old.id, old.session_id, session_id)
    if old.role != role:
        msg = f"message {old.id!r} is of role {old.role!r} and cannot become {role!r}"
        raise Conflict(msg, hint="use another id")
    settle_unless_running(ctx, tx, old.id)
    before = [from_sql(row[0]) for row in tx.all("message_parts", {"message_id": old.id})]
    tx.run("delete_message_parts", {"message_id": old.id, "first": 0})
    now = ctx.clock()
    own = (*_OWN_KEYS, "usage") if is_counted(tx, old.id) else _OWN_KEYS
    kept = {key: old.metadata[key] for key in own if key in old.metadata}
    fresh = {**without_keys(clean(ctx, metadata), *own), **kept}
    set_message_metadata(tx, old.id, fresh, now)
    after = add_parts(ctx, tx, session_id, old.id, parts, now)
    touch_session(tx, session_id, now)
    changed = [(PART, part) for part in (*before, *after)]
    journal.note(
        ctx, tx, session_id, "message", [(MESSAGE, old.id), *changed, (SESSION, session_id)]
    )


# ------------------------------------------------------------------------------
# The queue of pending turns: user messages with a numeric `queued_at` in their metadata.
#
# They are in neither the transcript nor the model's view, survive a restart, and are left alone by
# a rewind. Firing and cancelling are one compare-and-swap each on the same metadata: of two that
# race for one message exactly one wins.


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
    """Return the waiting messages of a session, first in, first out."""
    session_id = need_session(tx, ref_id(session, "session")).id
    rows = tx.all("messages_that_may_wait", {"session_id": session_id})
    waiting = [
        message for message in map(message_of, rows) if message.queued and not message.hidden
    ]
    return sorted(waiting, key=lambda message: (message.metadata["queued_at"], message.id))


def fire(
    ctx: ChatContext, tx: Tx, session: SessionRef, message: MessageRef | None = None
) -> Message | None:
    """Move a queued message to the end of the conversation; None if it is no longer queued.

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
    """Return a fired message to its old place in the queue, if its turn did not begin."""
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
    """Remove a message from the queue; False if it was already fired or cancelled."""
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
    """Return the metadata of a message that leaves the queue; that it was in there stays known."""
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
    if tx.count("swap_queued_message", params) == 0:
        return False
    rehash(tx, MESSAGE, message.id)
    return True


def _note(ctx: ChatContext, tx: Tx, session_id: str, message_id: str, kind: str) -> None:
    journal.note(ctx, tx, session_id, kind, [(MESSAGE, message_id), (SESSION, session_id)])
