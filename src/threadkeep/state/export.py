"""Sessions out of the store, whole: as dicts, or as lines of JSON that an import takes."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from threadkeep.base.tx import Tx
from threadkeep.errors import Invalid
from threadkeep.state.context import Json, StateContext, reading
from threadkeep.state.lineage import get_compression_lineage
from threadkeep.state.rows import read_session
from threadkeep.state.sessions import search_sessions
from threadkeep.state.transcript import get_messages, iter_messages

_MOST: Final = 100_000
HINT: Final = "pass what `export` wrote; nothing of this session was stored"


# ---------------------------------------------------------------------- out


def export_session(ctx: StateContext, tx: Tx, session_id: str) -> Json | None:
    """Return a session with its messages as one dict, None if there is none."""
    session = read_session(ctx, tx, session_id)
    if session is None:
        return None
    return {**session, "messages": get_messages(ctx, tx, session_id)}


def export_all(ctx: StateContext, tx: Tx, source: str | None = None) -> list[Json]:
    """Return all sessions with their messages, the last used first, all in memory."""
    sessions = search_sessions(ctx, tx, source, _MOST)
    return [{**one, "messages": get_messages(ctx, tx, one["id"])} for one in sessions]


def export_session_lineage(ctx: StateContext, tx: Tx, session_id: str) -> Json | None:
    """Return a chain of compressed sessions as one: the last, with all messages, None if none.

    `segments` has each session with its own messages, the oldest first.
    """
    chain = get_compression_lineage(ctx, tx, session_id)
    found = (export_session(ctx, tx, member) for member in chain)
    segments = [session for session in found if session is not None]
    if not segments:
        return None
    messages = [message for segment in segments for message in segment["messages"]]
    return {
        **segments[-1],
        "segments": segments,
        "lineage_session_ids": [segment["id"] for segment in segments],
        "message_count": len(messages),
        "messages": messages,
    }


def iter_export(ctx: StateContext, source: str | None = None) -> Iterator[str]:
    """Yield all sessions as lines of JSON, the oldest first, one page in memory at a time.

    The first line of a session has its columns and what each model used, each further one a
    message, also one that was taken back or summarised; `import_sessions` takes them. A session
    that is written to meanwhile is given as far as it was.
    """
    for session_id in _ids(ctx, source):
        yield from export_lines(ctx, session_id)


def export_lines(ctx: StateContext, session_id: str) -> Iterator[str]:
    """Return one session as `iter_export` gives all; nothing if there is none."""

    def first(tx: Tx) -> Json | None:
        session = read_session(ctx, tx, session_id)
        beside = {
            "side": side_of(tx, session_id) if ctx.side else {},
            "usage": tx.dicts("usage_of_session", {"id": session_id}),
        }
        found = {name: value for name, value in beside.items() if value}
        return None if session is None else {"session": session, **found}

    told = reading(ctx, first)
    if told is not None:
        yield line(told)
        for message in iter_messages(ctx, session_id, include_inactive=True):
            yield line({"message": message})


def _ids(ctx: StateContext, source: str | None) -> Iterator[str]:
    with ctx.db.read() as tx:
        ids = [str(row[0]) for row in tx.all("ids_oldest_first", {"source": source})]
    yield from ids


def side_of(tx: Tx, session_id: str) -> Json:
    """Return what only we know of a session: pins, archive, who gave the title, its relation."""
    row = tx.one("side_of", {"id": session_id})
    names = ("pinned_at", "archived_at", "title_source", "relation")
    found = dict(zip(names, row or (), strict=False))
    return {name: value for name, value in found.items() if value is not None}


def line(value: Json) -> str:
    """Write a session, a message, or a session with its messages as one line of JSON, in ASCII."""
    return json.dumps(_in_fields(value, _marked))


def _in_fields(value: Mapping[str, Any], turn: Callable[[Any], Any]) -> Json:
    """Turn every field of the sessions and messages in a line; what is inside a field stays."""
    return {name: _turned(name, item, turn) for name, item in value.items()}


def _turned(name: str, item: Any, turn: Callable[[Any], Any]) -> Any:
    if name in ("session", "message") and isinstance(item, Mapping):
        return {field: turn(inner) for field, inner in item.items()}
    if name == "messages" and isinstance(item, list):
        return [_turned("message", message, turn) for message in item]
    return turn(item)


def _marked(value: Any) -> Any:
    """Bytes are no JSON; a dict that looks like what stands for them is marked, too."""
    if isinstance(value, bytes):
        return {"$bytes": value.hex()}
    is_like_it = isinstance(value, dict) and set(value) in ({"$bytes"}, {"$value"})
    return {"$value": value} if is_like_it else value


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"$bytes"}:
        return bytes.fromhex(value["$bytes"])
    return value["$value"] if isinstance(value, dict) and set(value) == {"$value"} else value


# ---------------------------------------------------------------------- back again


def read_lines(lines: Iterable[str | bytes | Mapping[str, Any]]) -> Iterator[Json]:
    """Read sessions with their messages from an export: lines of JSON, or dicts."""
    current: Json | None = None
    for number, raw in enumerate(lines, 1):
        if isinstance(raw, (str, bytes)) and not raw.strip():
            continue
        value = raw if isinstance(raw, Mapping) else _parse(raw, number)
        if "message" in value and "session" not in value and "id" not in value:
            if current is None:
                msg = f"line {number} has a message before any session"
                raise Invalid(msg, hint="pass what `export` wrote, from its beginning")
            current["messages"].append(value["message"])
            continue
        if current is not None:
            yield current
        current = _session(value, number)
    if current is not None:
        yield current


def _session(value: Mapping[str, Any], number: int) -> Json:
    session, side = value.get("session", value), value.get("side") or {}
    if not isinstance(session, Mapping) or not isinstance(side, Mapping):
        raise Invalid(f"line {number} has no session in it", hint=HINT)
    messages = session.get("messages") or []
    if not isinstance(messages, (list, tuple)):
        raise Invalid(f"line {number} has messages that are not a list", hint=HINT)
    usage = value.get("usage") or []
    return {**session, "side": side, "usage": usage, "messages": list(messages)}


def _parse(raw: str | bytes, number: int) -> Mapping[str, Any]:
    try:
        value = json.loads(raw)
        if isinstance(value, dict):
            return _in_fields(value, _unmarked)
    except (ValueError, TypeError, RecursionError) as error:
        raise Invalid(f"line {number} is not JSON: {error}", hint=HINT) from None
    raise Invalid(f"line {number} is not a JSON object", hint=HINT)
