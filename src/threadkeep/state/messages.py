"""Messages as they are written: one by one, a turn at once, or one in the place of another."""

import json
import re
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any, Final, NamedTuple

from threadkeep.base.hashes import fingerprint
from threadkeep.base.tx import Sql, Tx
from threadkeep.errors import Invalid
from threadkeep.state.context import MESSAGE_COLUMNS, Json, StateContext, clean
from threadkeep.state.leases import refuse_append
from threadkeep.state.rows import (
    Values,
    encode_content,
    encode_json,
    encode_metadata,
    insert_row,
    parse_calls,
    update_rows,
    whole_text,
)
from threadkeep.state.search.index_fill import after_append
from threadkeep.state.side_values import ColumnValue, dump, keep, put, to_column
from threadkeep.state.verbs import write

# ------------------------------------------------------------------------------
# The first message in a file whose form we have not written yet is looked at.
#
# Triggers that we do not know are welcome. But one row must come in where one is inserted, and the
# index must follow; else whoever runs both programs wants to know before a thousand messages later.


def insert_and_look(ctx: StateContext, tx: Tx, columns: Values) -> int:
    """Insert a message and give its id; look at the result where the form is new to us."""
    form = ctx.form
    if form.side or ctx.forms.tried == form.cookie:
        return insert_row(ctx, tx, "messages", columns)
    before = {"id": tx.value("newest_message_id") or 0}
    message_id = insert_row(ctx, tx, "messages", columns)
    ctx.forms.tried = ctx.form.cookie
    rows = int(tx.value("count_messages_after", before))
    entries = _entries_after(tx, before)
    said = columns.get("content")
    if rows != 1 or (isinstance(said, str) and said and entries not in (None, rows)):
        ctx.notices.warn(
            "first insert",
            "%s: one message was inserted, %d came into the table and %s into its index;"
            " a program of another version may not find it",
            ctx.db.name,
            rows,
            entries,
        )
    return message_id


def _entries_after(tx: Tx, before: dict[str, Any]) -> int | None:
    """Count what came into the index; None where there is no count, or nobody keeps it."""
    if tx.value("index_is_kept") != 1:
        return None
    stale = tx.value("index_is_stale") if tx.value("has_state_meta") else None
    return None if stale else int(tx.value("count_entries_after", before))


# What a message can say, by the names of the newest form.
_TEXTS: Final = (
    *("role", "tool_call_id", "tool_name", "finish_reason", "reasoning", "reasoning_content"),
    *("platform_message_id", "effect_disposition"),
)
# Text that is only taken where it is text.
_SENT = ("api_content", "display_kind")
_JSON = ("reasoning_details", "codex_reasoning_items", "codex_message_items")
# What an assistant alone says; other programs put it into any message.
_ASSISTANT = ("reasoning", "reasoning_content", *_JSON)
_FIELDS = frozenset(
    {
        *_TEXTS,
        *_SENT,
        *_JSON,
        *("content", "tool_calls", "observed", "display_metadata", "token_count", "timestamp"),
        "idempotency_key",
    }
)
# What version 6 has no column for.
NEWER_FIELDS: Final = (
    *("reasoning_content", "codex_message_items", "platform_message_id", "observed"),
    *("effect_disposition", *_SENT, "display_metadata"),
)
_fingerprinted = itemgetter(*MESSAGE_COLUMNS[1:])
_NOTHING: Final = (None, False)
_NEWER: Final = frozenset(NEWER_FIELDS)
# The columns of a message that says nothing, in the order in which they are written.
_UNSAID: Final[Json] = {
    **dict.fromkeys(("session_id", *_TEXTS, "content", *_SENT, *_JSON, "tool_calls")),
    **dict.fromkeys(("display_metadata", "token_count", "timestamp")),
    "observed": 0,
    "active": 1,
}
_SAID: Final = _UNSAID.keys() - {"session_id", "timestamp", "active"}
# The clock of a batch moves on by this much from message to message.
_TICK: Final = 1e-6
_SURROGATES = re.compile("[\ud800-\udfff]")

# The columns of a message by their names, without the id.
Columns = dict[str, Any]
# What a message says, wherever it is stored.
MESSAGE_FIELDS: Final = MESSAGE_COLUMNS[2:]


def append_message(
    ctx: StateContext,
    tx: Tx,
    session_id: str,
    role: str,
    content: Any = None,
    tool_name: str | None = None,
    tool_calls: Any = None,
    tool_call_id: str | None = None,
    token_count: int | None = None,
    finish_reason: str | None = None,
    reasoning: str | None = None,
    reasoning_content: str | None = None,
    reasoning_details: Any = None,
    codex_reasoning_items: Any = None,
    codex_message_items: Any = None,
    platform_message_id: str | None = None,
    observed: bool = False,  # noqa: FBT001, FBT002
    effect_disposition: str | None = None,
    timestamp: Any = None,
    api_content: str | None = None,
    display_kind: str | None = None,
    display_metadata: Any = None,
    compression_lock_holder: str | None = None,  # noqa: ARG001  (a compaction stops nobody)
    turn_lease_holder: str | None = None,
    turn_lease_ttl_seconds: float = 300.0,
    *,
    idempotency_key: str | None = None,
) -> int:
    """Store a message and give its id; durable when it returns.

    A second call with the same `idempotency_key` in the session stores nothing and gives that id.
    """
    known = None
    if idempotency_key is not None:
        known = find_key(tx, session_id, "message", idempotency_key)
    if known is not None:
        return known[0]
    refuse_append(ctx, tx, session_id, turn_lease_holder, turn_lease_ttl_seconds)
    message = {
        "role": role,
        "content": content,
        "tool_name": tool_name,
        "tool_calls": _calls(ctx, tool_calls),
        "tool_call_id": tool_call_id,
        "token_count": token_count,
        "finish_reason": finish_reason,
        "reasoning": reasoning,
        "reasoning_content": reasoning_content,
        "reasoning_details": reasoning_details,
        "codex_reasoning_items": codex_reasoning_items,
        "codex_message_items": codex_message_items,
        "platform_message_id": platform_message_id,
        "observed": observed,
        "effect_disposition": effect_disposition,
        "timestamp": timestamp,
        "api_content": api_content,
        "display_kind": display_kind,
        "display_metadata": display_metadata,
    }
    message_id = insert(ctx, tx, session_id, message)
    calls = call_count(message["tool_calls"])
    tx.run("count_message", {"messages": 1, "calls": calls, "id": session_id})
    if idempotency_key is not None:
        remember_key(tx, session_id, "message", idempotency_key, message_id)
    return message_id


def append_messages(
    ctx: StateContext, tx: Tx, session_id: str, messages: Iterable[Mapping[str, Any]]
) -> list[int]:
    """Store messages in one transaction, all or none, with one sync; return their ids.

    Each message is a dict with the names of `append_message`'s arguments. Those whose
    `idempotency_key` was used before are not stored again; their place holds the earlier id.
    """
    ids: list[int] = []
    stored = calls = 0
    for message in messages:
        _check(message)
        key = message.get("idempotency_key")
        known = None if key is None else find_key(tx, session_id, "message", key)
        if known is not None:
            ids.append(known[0])
            continue
        if not stored:
            refuse_append(ctx, tx, session_id)
        ids.append(insert(ctx, tx, session_id, message))
        stored += 1
        calls += call_count(_calls(ctx, message.get("tool_calls")))
        if key is not None:
            remember_key(tx, session_id, "message", key, ids[-1])
    if stored:
        tx.run("count_message", {"messages": stored, "calls": calls, "id": session_id})
    return ids


def _check(message: Mapping[str, Any]) -> None:
    if not isinstance(message, Mapping):
        msg = f"a message must be a dict, not {type(message).__name__}"
        raise Invalid(msg, hint="pass {'role': ..., 'content': ...}")
    unknown = sorted(set(message) - _FIELDS)
    if unknown:
        msg = f"a message has no field {unknown[0]!r}"
        raise Invalid(msg, hint=f"the fields are {', '.join(sorted(_FIELDS))}")


def call_count(tool_calls: Any) -> int:
    """Count tool calls as the contract does: the items of a list, or one of anything else."""
    if tool_calls is None:
        return 0
    return len(tool_calls) if isinstance(tool_calls, list) else 1


class MessageCounts(NamedTuple):
    """How many messages were stored, and how many tool calls are in them."""

    messages: int
    calls: int


def insert_turns(
    ctx: StateContext, tx: Tx, session_id: str, turns: Iterable[MutableMapping[str, Any]]
) -> MessageCounts:
    """Store turns as a conversation has them, without counting them in their session.

    Each dict is given the number of its row as `_row_id`. A turn without a time follows the one
    before; what only an assistant says is left out elsewhere; other keys mean nothing here.
    """
    clock = ctx.clock()
    stored = calls = 0
    for turn in turns:
        role = turn.get("role", "unknown")
        message = {name: turn[name] for name in _FIELDS & turn.keys()}
        message |= {"role": role, "tool_calls": _calls(ctx, turn.get("tool_calls"))}
        if role != "assistant":
            message |= dict.fromkeys(_ASSISTANT)
        message["platform_message_id"] = turn.get("platform_message_id") or turn.get("message_id")
        message["timestamp"] = at = _seconds(turn.get("timestamp"), clock)
        turn["_row_id"] = insert(ctx, tx, session_id, message)
        stored += 1
        calls += call_count(message["tool_calls"])
        clock = max(clock, at) + _TICK
    return MessageCounts(stored, calls)


def append_messages_batch(
    ctx: StateContext,
    session_id: str,
    messages: list[Json],
    compression_lock_holder: str | None = None,  # noqa: ARG001  (a compaction stops nobody)
    turn_lease_holder: str | None = None,
    chunk_rows: int | None = None,
    turn_lease_ttl_seconds: float = 300.0,
) -> int:
    """Store turns of a conversation in one transaction, all or none; return their number.

    With `chunk_rows` a long copy is stored in pieces of that many, so that others get their turn.
    """
    if not messages:
        return 0
    step = len(messages) if chunk_rows is None else max(chunk_rows, 1)
    lease = (turn_lease_holder, turn_lease_ttl_seconds)
    stored = 0
    for first in range(0, len(messages), step):
        stored += write(ctx, _append_turns, session_id, messages[first : first + step], *lease)
    after_append(ctx, [turn["_row_id"] for turn in messages])
    return stored


def _append_turns(
    ctx: StateContext,
    tx: Tx,
    session_id: str,
    turns: list[Json],
    turn_lease_holder: str | None,
    turn_lease_ttl_seconds: float,
) -> int:
    ctx.widen(tx)  # who knows this verb is a program of today, and counts on its rules
    refuse_append(ctx, tx, session_id, turn_lease_holder, turn_lease_ttl_seconds)
    added = insert_turns(ctx, tx, session_id, turns)
    counts = {"messages": added.messages, "calls": added.calls}
    tx.run("count_message", {**counts, "id": session_id})
    return added.messages


# ---------------------------------------------------------------------- rows


def insert(
    ctx: StateContext, tx: Tx, session_id: str, message: Mapping[str, Any], **more: Any
) -> int:
    """Store one message without counting it, with `more` in its columns; give its id."""
    columns, exact = _columns(ctx, tx, session_id, message)
    columns |= more
    message_id = insert_and_look(ctx, tx, columns)
    if ctx.side:
        put_hash(tx, message_id, columns)
        if exact:
            keep(tx, "message", message_id, exact)
    return message_id


def change(
    ctx: StateContext,
    tx: Tx,
    session_id: str,
    message_id: int,
    message: Mapping[str, Any],
    **more: Any,
) -> None:
    """Put another message in the place of one, under its id, with `more` in its columns."""
    columns, exact = _columns(ctx, tx, session_id, message)
    columns |= more
    update_rows(ctx, tx, "messages", {"id": message_id}, columns)
    if ctx.side:
        put_hash(tx, message_id, columns)
        tx.run("drop_exact_of_message", {"id": message_id})
        tx.run("drop_offloaded_of_message", {"id": message_id})
        keep(tx, "message", message_id, exact)


def _columns(
    ctx: StateContext, tx: Tx, session_id: str, message: Mapping[str, Any]
) -> tuple[Columns, dict[str, ColumnValue]]:
    old = not ctx.form.answers.content_in_column
    if old and any(message[name] not in _NOTHING for name in message.keys() & _NEWER):
        ctx.widen(tx)  # before the content is written in one form or the other
    exact: dict[str, ColumnValue] = {}
    columns: Columns = {**_UNSAID, "session_id": session_id}
    columns["timestamp"] = _seconds(message.get("timestamp"), ctx.clock())
    for field, value in message.items():
        if value is None or field not in _SAID:
            continue
        if field in _TEXTS:
            columns[field] = _text(ctx, value, field, exact)
        elif field == "content":
            columns[field] = _content(ctx, value, exact)
        elif field == "token_count":
            columns[field] = value
        else:
            columns[field] = _structured(ctx, field, value)
    return columns, exact


def _structured(ctx: StateContext, field: str, value: Any) -> Any:
    """Return the column for what is more than a text, or only taken where it is one."""
    if field == "observed":
        return 1 if value else 0
    if field in _SENT:
        return whole_text(clean(ctx, value)) if isinstance(value, str) else None
    if field == "display_metadata":
        return encode_metadata(clean(ctx, value))
    if field == "tool_calls":
        value = _calls(ctx, value)
        return dump(clean(ctx, value), field) if value else None
    if not value:
        return None
    taken = ctx.form.answers.json_given_as_text
    return encode_json(clean(ctx, value), field) if taken else dump(clean(ctx, value), field)


def _calls(ctx: StateContext, value: Any) -> Any:
    return parse_calls(value) if ctx.form.answers.json_given_as_text else value


def _content(ctx: StateContext, value: Any, exact: dict[str, ColumnValue]) -> Any:
    if ctx.form.answers.content_in_column and not isinstance(value, str):
        return encode_content(clean(ctx, value))
    return _text(ctx, value, "content", exact)


def _seconds(timestamp: Any, now: float) -> float:
    """Return a time as its column gives it back: a number with a point, zero without a sign."""
    if timestamp is None:
        return now + 0.0
    try:
        moment = timestamp.timestamp() if isinstance(timestamp, datetime) else timestamp
        return float(moment) + 0.0
    except (TypeError, ValueError, OverflowError):
        msg = f"a timestamp must be Unix seconds, not {timestamp!a}"
        raise Invalid(msg, hint="pass a number, such as datetime.timestamp() returns") from None


def _text(ctx: StateContext, value: Any, field: str, exact: dict[str, ColumnValue]) -> str | None:
    """Return the text of a column; a value that needs more than its column is noted in `exact`."""
    if value is None:
        return None
    if ctx.redact is not None:
        value = clean(ctx, value)
    if type(value) is str and value.isascii():
        return value
    stored = to_column(value, field)
    if stored.exact is not None:
        exact[field] = stored
    return stored.column


def put_hash(tx: Tx, message_id: int, columns: Columns) -> None:
    """Write the fingerprint of a message that was just stored."""
    plain = type(columns["content"]) in (str, type(None)) and type(columns["session_id"]) is str
    if plain and type(columns["token_count"]) in (int, type(None)):
        value = fingerprint((message_id, *_fingerprinted(columns)))
    else:  # a column turned it into something else: take what it gives back
        value = fingerprint(tx.one("get_message", {"id": message_id}) or ())
    tx.run("put_hash", {"id": message_id, "hash": value})


def clear_messages(_ctx: StateContext, tx: Tx, session_id: str, *, dry_run: bool = False) -> None:
    """Delete the messages of a session for good and zero its counts; tokens stay counted.

    With `dry_run` nothing is deleted.
    """
    if dry_run:
        return
    tx.run("delete_messages", {"session_id": session_id})
    tx.run("reset_counts", {"id": session_id})


# ---------------------------------------------------------------------- keys


def find_key(tx: Tx, session_id: str, kind: str, key: str) -> tuple[int, ...] | None:
    """Tell what was done under a caller's key: None if nothing was."""
    if not isinstance(key, str) or not key or _SURROGATES.search(key):
        msg = f"an idempotency key must be valid text, not {key!a}"
        raise Invalid(msg, hint="pass the same short text for the same message, a UUID for example")
    tables = {str(name) for (name,) in tx.all("key_tables")}
    if "tk_keys" not in tables:
        return None
    name = "get_key" if "tk_rewound" in tables else "get_key_plain"
    return tx.one(name, {"session_id": session_id, "kind": kind, "key": key})


def remember_key(tx: Tx, session_id: str, kind: str, key: str, message_id: int | None) -> None:
    """Note that something was done under a caller's key; the first one makes the table."""
    if ("tk_keys",) not in tx.all("key_tables"):
        tx.run("make_keys")
    values = {"session_id": session_id, "kind": kind, "key": key, "message_id": message_id}
    tx.run("put_key", values)


def keys_of(tx: Tx, session_id: str, kind: str) -> dict[str, int]:
    """Return what was done in a session under keys of a kind, by the keys."""
    if ("tk_keys",) not in tx.all("key_tables"):
        return {}
    return dict(tx.all("keys_of", {"session_id": session_id, "kind": kind}))


# ------------------------------------------------------------------------------
# Message rows copied, brought back or marked: all their columns, and what is kept beside them.

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
    sql = (
        f"INSERT INTO messages(session_id, {', '.join([names, *live])})"  # noqa: S608
        f" SELECT :session_id, {names}{values} FROM messages WHERE id = :id"
    )
    copied = tx.insert(Sql(sql), {"session_id": session_id, "id": message_id})
    if ctx.side:
        row = tx.one("get_message", {"id": copied}) or ()
        put_hash(tx, copied, dict(zip(MESSAGE_COLUMNS[1:], row[1:], strict=True)))
        put_beside(tx, copied, beside(tx, message_id))
    return copied


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def restore_message(tx: Tx, message_id: int, columns: Sequence[Any], kept: Beside) -> None:
    """Insert a message under the id that it had, by the columns of version 6."""
    values = dict(zip(MESSAGE_COLUMNS[1:], columns, strict=True))
    tx.run("restore_message", {"id": message_id, **values})
    tx.run("mark_dirty", {"id": message_id})  # the second index has passed this id already
    put_hash(tx, message_id, values)
    put_beside(tx, message_id, kept)


def mark_messages(ctx: StateContext, tx: Tx, ids: Sequence[int], values: Mapping[str, Any]) -> int:
    """Set columns that say something about messages, not what they say; give how many there were.

    Their fingerprints do not cover these, so they stay as they are.
    """
    named = json.dumps(list(ids))
    hashes = tx.all("hashes_among", {"ids": named}) if ctx.side else []
    changes = ", ".join(f"{name} = :{name}" for name in values)
    sql = f"UPDATE messages SET {changes} WHERE id IN ({{ids:ids}})"  # noqa: S608
    found = tx.count(Sql(sql), {**values, "ids": named})
    for message_id, hash_ in hashes:
        tx.run("put_hash", {"id": message_id, "hash": hash_})
    return found
