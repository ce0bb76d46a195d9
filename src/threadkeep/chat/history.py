"""Going back and branching off: rewind, fork and compaction. Nothing here deletes anything."""

from collections.abc import Collection, Mapping
from typing import Any

from threadkeep.base import json
from threadkeep.base.tx import Tx
from threadkeep.chat import journal
from threadkeep.chat.context import NOTHING, ChatContext, need_object, need_text, need_whole
from threadkeep.chat.messages import add_message, add_parts
from threadkeep.chat.raw_rows import put_chunk, unknown_chunks
from threadkeep.chat.records import (
    LARGEST_TIME,
    Json,
    Message,
    MessageRef,
    Session,
    SessionRef,
    is_number,
    message_of,
    ref_id,
    without_keys,
)
from threadkeep.chat.recovery import refuse_if_running
from threadkeep.chat.rows import (
    MESSAGE,
    PART,
    SESSION,
    insert_message,
    need_message,
    need_session,
    rehash,
)
from threadkeep.chat.sessions import create_session
from threadkeep.chat.usage import copy_usage, put_said_usage, usage_by_message, write_sums
from threadkeep.chat.views import COMPACTION, counts, load
from threadkeep.errors import Invalid

_TURN_KEYS = ("queued_at", "queue_enqueued_at", "queue_canceled_at", "hidden_at")


def rewind(
    ctx: ChatContext, tx: Tx, session: SessionRef, message: MessageRef, *, inclusive: bool = False
) -> list[str]:
    """Hide every message after a user message (and, if inclusive, that one); return their ids.

    Queued messages stay in the queue. A compaction after the point is hidden with the rest, so
    the head it summarised is seen again.
    """
    session_id = need_session(tx, ref_id(session, "session")).id
    refuse_if_running(tx, session_id, "rewind")
    point = need_message(tx, session_id, ref_id(message, "message"))
    if point.role != "user":
        msg = f"message {point.id!r} is of role {point.role!r}; a rewind goes to a user message"
        raise Invalid(msg, hint="pass the id of the user message to return to")
    if not counts(point):
        msg = f"message {point.id!r} {_whereabouts(point)} and cannot be returned to"
        raise Invalid(
            msg,
            hint="name a visible user message; `ChatStore.unrewind()` shows hidden ones again",
        )
    place = (point.created_at, point.id)
    chosen = [
        other
        for other in _messages(tx, session_id)
        if (other.created_at, other.id) > place or (inclusive and other.id == point.id)
    ]
    return hide(ctx, tx, session_id, {other.id for other in chosen})


def hide(ctx: ChatContext, tx: Tx, session_id: str, chosen: Collection[str]) -> list[str]:
    """Hide messages of a session, as one step that unrewind takes back; give their ids."""
    messages = _messages(tx, session_id)
    # After every earlier rewind, also where the clock was set back: they are undone in turn.
    now = max([ctx.clock(), *(_hidden_time(other) + 1 for other in messages if other.hidden)])
    hidden = [other for other in messages if other.id in chosen and counts(other)]
    for message in hidden:
        _set_hidden(tx, message, now, {**message.metadata, "hidden_at": now})
    ids = [message.id for message in hidden]
    _settle(ctx, tx, session_id, "rewind", ids, now)
    return ids


def unrewind(ctx: ChatContext, tx: Tx, session: SessionRef) -> list[str]:
    """Show again what the latest rewind hid; return the ids of those messages."""
    session_id = ref_id(session, "session")
    refuse_if_running(tx, session_id, "undo the rewind")
    now = ctx.clock()
    hidden = [m for m in _messages(tx, session_id) if m.hidden and not _canceled(m)]
    latest = max((_hidden_time(message) for message in hidden), default=None)
    shown = []
    for message in hidden:
        if _hidden_time(message) == latest:
            _set_hidden(tx, message, now, without_keys(message.metadata, "hidden_at"), at=None)
            shown.append(message.id)
    _settle(ctx, tx, session_id, "unrewind", shown, now)
    return shown


def _canceled(message: Message) -> bool:
    return "queue_canceled_at" in message.metadata


def _hidden_time(message: Message) -> int:
    """When a message was hidden; 0, before every rewind, where what is noted is no time."""
    at = message.hidden_at if message.hidden_at is not None else message.metadata["hidden_at"]
    return int(at) if is_number(at) and 0 <= at <= LARGEST_TIME else 0


def _whereabouts(message: Message) -> str:
    return "queued" if message.queued else "is hidden"


def _messages(tx: Tx, session_id: str) -> list[Message]:
    need_session(tx, session_id)
    return [message_of(row) for row in tx.all("session_messages", {"session_id": session_id})]


_SAME = object()


def _set_hidden(tx: Tx, message: Message, now: int, metadata: Json, at: Any = _SAME) -> None:
    """Write both places: a reader may know only one of them."""
    params = {
        "id": message.id,
        "metadata_json": json.encode(metadata),
        "hidden_at": now if at is _SAME else at,
        "now": now,
    }
    tx.run("set_message_hidden", params)
    rehash(tx, MESSAGE, message.id)


def _settle(
    ctx: ChatContext, tx: Tx, session_id: str, kind: str, message_ids: list[str], now: int
) -> None:
    write_sums(tx, session_id, now)
    changed = [(MESSAGE, message_id) for message_id in message_ids]
    journal.note(ctx, tx, session_id, kind, [*changed, (SESSION, session_id)])


def fork(
    ctx: ChatContext,
    tx: Tx,
    session: SessionRef,
    from_message: MessageRef | None = None,
    *,
    metadata: Mapping[str, Any] = NOTHING,
    title: str | None = None,
) -> Session:
    """Fork a session: copy its visible messages up to one, with their parts, under new ids.

    Permissions are not copied. The pointer of a compaction is turned to the copied message, so
    the branch keeps the verbatim tail.
    """
    parent_id = ref_id(session, "session")
    from_id = None if from_message is None else ref_id(from_message, "message")
    refuse_if_running(tx, parent_id, "fork")
    parent = need_session(tx, parent_id)
    copied = _visible_until(tx, parent_id, from_id)
    branch = create_session(
        ctx,
        tx,
        agent=parent.agent,
        model=parent.model,
        workspace_root=parent.workspace_root,
        title=_copy_title(parent.title) if title is None else title,
        metadata={**parent.metadata, **need_object(metadata, "metadata")},
        parent_id=parent_id,
        parent_message_id=copied[-1][0].id if copied else None,
        workspace_id=parent.workspace_id,
        mode=parent.mode,
    )
    used = usage_by_message(tx, parent_id)
    unknown = unknown_chunks(tx, parent_id)
    new_ids = {message.id: ctx.ids.new("msg") for message, _ in copied}
    for message, shaped in copied:
        _copy_message(ctx, tx, branch.id, message, shaped["parts"], new_ids)
        for chunk in unknown.get(message.id, ()):
            put_chunk(tx, branch.id, new_ids[message.id], chunk)
        if message.role == "assistant":
            copy_usage(tx, branch.id, new_ids[message.id], used.get(message.id))
    write_sums(tx, branch.id, ctx.clock())
    journal.note(ctx, tx, branch.id, "fork", [(SESSION, branch.id)], facts={"from": parent_id})
    return need_session(tx, branch.id)


def _copy_title(title: str | None) -> str | None:
    return f"{title} (copy)" if title else title


def _visible_until(tx: Tx, session_id: str, message_id: str | None) -> list[tuple[Message, Json]]:
    messages = {message.id: message for message in _messages(tx, session_id)}
    shown = load(tx, session_id).conversation()
    visible = [(messages[shaped["id"]], shaped) for shaped in shown]
    if message_id is None:
        return visible
    point = need_message(tx, session_id, message_id)
    if not counts(point):
        msg = f"message {message_id!r} {_whereabouts(point)} and cannot be a fork point"
        raise Invalid(msg, hint="fork at a visible message")
    last = [message.id for message, _ in visible].index(message_id)
    return visible[: last + 1]


def _copy_message(
    ctx: ChatContext,
    tx: Tx,
    session_id: str,
    message: Message,
    parts: list[Json],
    new_ids: dict[str, str],
) -> None:
    copy_id = new_ids[message.id]
    insert_message(
        tx,
        message_id=copy_id,
        session_id=session_id,
        role=message.role,
        metadata=without_keys(message.metadata, *_TURN_KEYS),
        created_at=message.created_at,
    )
    moved = [_repoint(part, new_ids) for part in parts]
    part_ids = add_parts(ctx, tx, session_id, copy_id, moved, message.created_at)
    changed = [(MESSAGE, copy_id), *((PART, part_id) for part_id in part_ids)]
    journal.note(ctx, tx, session_id, "message", changed)


def _repoint(part: Json, new_ids: dict[str, str]) -> Json:
    data = part.get("data")
    if part.get("type") != COMPACTION or not isinstance(data, dict):
        return part
    start = data.get("tail_start_id")
    if not isinstance(start, str):
        return part
    return {**part, "data": {**data, "tail_start_id": new_ids.get(start)}}


def start_of_turns(tx: Tx, session_id: str, turns: int) -> str | None:
    """Return the user message that the last so many turns begin with; None keeps nothing."""
    asked = [message for message in _messages(tx, session_id) if counts(message)]
    users = [message.id for message in asked if message.role == "user"]
    return users[-turns] if 0 < turns <= len(users) else (users[0] if turns > 0 and users else None)


def compact(
    ctx: ChatContext,
    tx: Tx,
    session: SessionRef,
    summary: str,
    *,
    tail_start: MessageRef | None = None,
    tail_turns: int | None = None,
    auto: bool = False,
    summary_tokens: int = 0,
) -> Message:
    """Replace earlier messages with a summary, for the model only.

    The tail from `tail_start` on stays verbatim, or the last `tail_turns` turns. Nothing is
    hidden; the boundary is resolved when the session is read.
    """
    session_id = need_session(tx, ref_id(session, "session")).id
    refuse_if_running(tx, session_id, "compact")
    tail_start_id = None if tail_start is None else ref_id(tail_start, "message")
    if tail_turns is not None:
        if tail_start_id is not None:
            msg = "the tail is given twice, by its first message and in turns"
            raise Invalid(msg, hint="pass tail_start or tail_turns, not both")
        tail_start_id = start_of_turns(tx, session_id, need_whole(tail_turns, "tail_turns"))
    if tail_start_id is not None and not counts(need_message(tx, session_id, tail_start_id)):
        msg = f"message {tail_start_id!r} is not visible and cannot begin the tail"
        raise Invalid(msg, hint="begin the tail at a visible message, or pass None to keep none")
    payload = {
        "summary": need_text(summary, "summary"),
        "tail_start_id": tail_start_id,
        "auto": bool(auto),
        "summary_tokens": need_whole(summary_tokens, "summary_tokens"),
    }
    marker = ctx.ids.new("msg")
    metadata = {"compaction": True, "usage": {"input": summary_tokens}}
    part = {"type": COMPACTION, "data": payload}
    add_message(ctx, tx, session_id, marker, "assistant", [part], metadata)
    put_said_usage(tx, session_id, marker, metadata["usage"])
    write_sums(tx, session_id, ctx.clock())
    journal.note(ctx, tx, session_id, "compact", [(SESSION, session_id)])
    return need_message(tx, session_id, marker)
