"""Messages: appended one by one or a turn at once, read back as rows or as a conversation."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from threadkeep.base.hashes import fingerprint
from threadkeep.base.sqlite import Tx
from threadkeep.errors import Invalid
from threadkeep.state.context import MESSAGE_COLUMNS, Context, Json, clean, reading
from threadkeep.state.exact import Stored, dump, keep, to_column
from threadkeep.state.rows import decode_json, messages_of

_TEXTS = ("role", "content", "tool_call_id", "tool_name", "finish_reason", "reasoning")
_JSON = ("tool_calls", "reasoning_details", "codex_reasoning_items")
_FIELDS = frozenset({*_TEXTS, *_JSON, "token_count", "timestamp", "idempotency_key"})
_SURROGATES = re.compile("[\ud800-\udfff]")
_LAST_ID = (1 << 63) - 1
_PAGE = 500

# The columns of a message in their order, without the id.
Columns = tuple[Any, ...]
# What a message says, wherever it is stored.
MESSAGE_FIELDS: Final = MESSAGE_COLUMNS[2:]


def append_message(
    ctx: Context,
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
    reasoning_details: Any = None,
    codex_reasoning_items: Any = None,
    *,
    timestamp: float | None = None,
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
    message = {
        "role": role,
        "content": content,
        "tool_name": tool_name,
        "tool_calls": tool_calls,
        "tool_call_id": tool_call_id,
        "token_count": token_count,
        "finish_reason": finish_reason,
        "reasoning": reasoning,
        "reasoning_details": reasoning_details,
        "codex_reasoning_items": codex_reasoning_items,
        "timestamp": timestamp,
    }
    message_id = insert(ctx, tx, session_id, message)
    tx.run("count_message", (1, call_count(tool_calls), session_id))
    if idempotency_key is not None:
        remember_key(tx, session_id, "message", idempotency_key, message_id)
    return message_id


def append_messages(
    ctx: Context, tx: Tx, session_id: str, messages: Iterable[Mapping[str, Any]]
) -> list[int]:
    """Store messages in one transaction, all or none, with one sync; give their ids.

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
        ids.append(insert(ctx, tx, session_id, message))
        stored += 1
        calls += call_count(message.get("tool_calls"))
        if key is not None:
            remember_key(tx, session_id, "message", key, ids[-1])
    if stored:
        tx.run("count_message", (stored, calls, session_id))
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


def insert(ctx: Context, tx: Tx, session_id: str, message: Mapping[str, Any]) -> int:
    """Store one message without counting it; give its id."""
    columns, exact = _columns(ctx, session_id, message)
    message_id = tx.insert("insert_message", columns)
    put_hash(tx, message_id, columns)
    if exact:
        keep(tx, "message", message_id, exact)
    return message_id


def change(
    ctx: Context, tx: Tx, session_id: str, message_id: int, message: Mapping[str, Any]
) -> None:
    """Put another message in the place of one, under its id."""
    columns, exact = _columns(ctx, session_id, message)
    tx.run("change_message", (*columns[1:], message_id))
    put_hash(tx, message_id, columns)
    keep(tx, "message", message_id, exact)


def _columns(
    ctx: Context, session_id: str, message: Mapping[str, Any]
) -> tuple[Columns, dict[str, Stored]]:
    timestamp = message.get("timestamp")
    exact: dict[str, Stored] = {}
    columns: Columns = (
        session_id,
        _text(ctx, message, "role", exact),
        _text(ctx, message, "content", exact),
        _text(ctx, message, "tool_call_id", exact),
        _json(ctx, message, "tool_calls"),
        _text(ctx, message, "tool_name", exact),
        _seconds(ctx.clock() if timestamp is None else timestamp),
        message.get("token_count"),
        _text(ctx, message, "finish_reason", exact),
        _text(ctx, message, "reasoning", exact),
        _json(ctx, message, "reasoning_details"),
        _json(ctx, message, "codex_reasoning_items"),
    )
    return columns, exact


def _seconds(timestamp: Any) -> float:
    """Give a time as its column gives it back: a number with a point, zero without a sign."""
    try:
        return float(timestamp) + 0.0
    except (TypeError, ValueError, OverflowError):
        msg = f"a timestamp must be Unix seconds, not {timestamp!a}"
        raise Invalid(msg, hint="pass a number, such as datetime.timestamp() gives") from None


def _text(
    ctx: Context, message: Mapping[str, Any], field: str, exact: dict[str, Stored]
) -> str | None:
    """Give the text of a column; a value that needs more than its column is noted in `exact`."""
    value = message.get(field)
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


def _json(ctx: Context, message: Mapping[str, Any], field: str) -> str | None:
    value = message.get(field)
    return dump(clean(ctx, value), field) if value else None


def put_hash(tx: Tx, message_id: int, columns: Columns) -> None:
    """Write the fingerprint of a message that was just stored, by its columns after the id."""
    if type(columns[0]) is str and type(columns[7]) in (int, type(None)):
        value = fingerprint((message_id, *columns))
    else:  # a column turned it into something else: take what it gives back
        value = fingerprint(tx.one("get_message", {"id": message_id}) or ())
    tx.run("put_hash", (message_id, value))


# ---------------------------------------------------------------------- keys


def find_key(tx: Tx, session_id: str, kind: str, key: str) -> tuple[int, ...] | None:
    """Tell what was done under a caller's key: None if nothing was."""
    if not isinstance(key, str) or not key or _SURROGATES.search(key):
        msg = f"an idempotency key must be valid text, not {key!a}"
        raise Invalid(msg, hint="pass the same short text for the same message, a UUID for example")
    return tx.one("get_key", {"session_id": session_id, "kind": kind, "key": key})


def remember_key(tx: Tx, session_id: str, kind: str, key: str, message_id: int | None) -> None:
    """Note that something was done under a caller's key."""
    values = {"session_id": session_id, "kind": kind, "key": key, "message_id": message_id}
    tx.run("put_key", values)


# ---------------------------------------------------------------------- reading


def get_messages(
    ctx: Context,
    tx: Tx,
    session_id: str,
    limit: int | None = None,
    offset: int = 0,
    *,
    after_id: int | None = None,
    before_id: int | None = None,
    latest: bool = False,
) -> list[Json]:
    """Give the messages of a session in the order they were written, all columns.

    `after_id` and `before_id` page through long sessions; `latest` counts `limit` and `offset` from
    the end. Tool calls are decoded, other JSON columns are text.
    """
    rows = tx.all(
        "get_latest_messages" if latest else "get_messages",
        {
            "session_id": session_id,
            "after": 0 if after_id is None else after_id,
            "before": _LAST_ID if before_id is None else before_id,
            "limit": -1 if limit is None else limit,
            "offset": offset,
        },
    )
    messages = messages_of(ctx, tx, rows[::-1] if latest else rows)
    for message in messages:
        if message["tool_calls"]:
            message["tool_calls"] = decode_json(
                message["tool_calls"], message["id"], "tool_calls", []
            )
    return messages


def iter_messages(ctx: Context, session_id: str, page: int = _PAGE) -> Iterator[Json]:
    """Give the messages of a session one by one, holding a page of them in memory at a time."""
    after = 0
    while True:
        rest = partial(get_messages, ctx, session_id=session_id, limit=page, after_id=after)
        messages = reading(ctx, rest)
        yield from messages
        if len(messages) < max(page, 1):
            return
        after = messages[-1]["id"]


def get_messages_around(
    ctx: Context, tx: Tx, message_id: int, before: int = 5, after: int = 5
) -> list[Json]:
    """Give a message with its neighbours in the session; nothing if it does not exist."""
    row = tx.one("get_message", {"id": message_id})
    if row is None:
        return []
    session_id = row[1]
    earlier = get_messages(ctx, tx, session_id, before, before_id=message_id, latest=True)
    return [*earlier, *get_messages(ctx, tx, session_id, after + 1, after_id=message_id - 1)]


def get_messages_as_conversation(
    ctx: Context, tx: Tx, session_id: str, *, limit: int | None = None
) -> list[Json]:
    """Give the messages of a session in the form that a model is called with."""
    params = {"session_id": session_id, "after": 0, "before": _LAST_ID, "offset": 0}
    if limit is None:
        rows = tx.all("get_messages", {**params, "limit": -1})
    else:
        rows = tx.all("get_latest_messages", {**params, "limit": limit})[::-1]
    return [_as_turn(message) for message in messages_of(ctx, tx, rows)]


def _as_turn(message: Json) -> Json:
    turn = {"role": message["role"], "content": message["content"]}
    for field in ("tool_call_id", "tool_name"):
        if message[field]:
            turn[field] = message[field]
    if message["tool_calls"]:
        turn["tool_calls"] = decode_json(message["tool_calls"], message["id"], "tool_calls", [])
    if message["role"] == "assistant":
        if message["reasoning"]:
            turn["reasoning"] = message["reasoning"]
        for field in ("reasoning_details", "codex_reasoning_items"):
            if message[field]:
                turn[field] = decode_json(message[field], message["id"], field, None)
    return turn


def message_count(_ctx: Context, tx: Tx, session_id: str | None = None) -> int:
    """Count the messages of a session, or of all."""
    return int(tx.value("count_messages", {"session_id": session_id}))


def clear_messages(_ctx: Context, tx: Tx, session_id: str) -> None:
    """Delete the messages of a session for good and zero its counts; tokens stay counted."""
    tx.run("delete_messages", {"session_id": session_id})
    tx.run("reset_counts", {"id": session_id})


def encoded(message: Json) -> str:
    """Write a message as one line of JSON, in ASCII, whatever it holds."""
    return json.dumps(message, default=_as_text)


def _as_text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
