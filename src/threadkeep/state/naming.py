"""What surfaces need of a state store beyond its verbs: names resolved, flags, lines out and in."""

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from threadkeep.errors import Invalid, NotFound
from threadkeep.state.blob_migration import long_messages
from threadkeep.state.export import export_lines, line, side_of
from threadkeep.state.session_db import SessionDB
from threadkeep.state.sessions import two_that_begin

Json = dict[str, Any]

_LAST = "last"
_SQLITE = b"SQLite format 3\0"
_EXPORTED = "pass what `export` wrote, or the JSON of Hermes's own export"


# ---------------------------------------------------------------------- names


def find_state_session(store: SessionDB, ref: str) -> str:
    """Return the id that is meant: an id or its beginning, `last`, or a title."""
    if not ref:
        raise Invalid("the name of the session is empty", hint="give an id, a title, or `last`")
    if store.get_session(ref) is not None:
        return ref
    if ref == _LAST:
        return _newest(store)
    found = store.resolve_session_id(ref) or store.resolve_session_by_title(ref)
    if found is not None:
        return found
    with store.context.db.read() as tx:
        several = two_that_begin(tx, ref)
    if several:
        msg = f"several sessions begin with {ref!r}, including {', '.join(several)}"
        raise Invalid(msg, hint="use a longer prefix of the id")
    msg = f"there is no session {ref!r}, neither by id nor by title"
    raise NotFound(msg, hint="`threadkeep state ls` shows the sessions")


def messages_near(store: SessionDB, message_id: int, before: int, after: int) -> list[Json]:
    """Return a message with its neighbours, whatever its session; nothing if it does not exist."""
    message = store.get_message(message_id)
    if message is None:
        return []
    around = store.get_messages_around(message["session_id"], message_id, max(before, after))
    window: list[Json] = around["window"]
    at = around["messages_before"]
    return window[max(at - before, 0) : at + after + 1]


def _newest(store: SessionDB) -> str:
    """Return the session that was used last; one in which nothing was said only if all are so."""
    for least in (1, 0):
        found = store.list_sessions_rich(
            limit=1,
            include_children=True,
            order_by_last_active=True,
            include_archived=True,
            include_hidden=True,
            min_message_count=least,
        )
        if found:
            return str(found[0]["id"])
    raise NotFound("there is no session yet", hint="import some with `threadkeep state import`")


def is_adopted(store: SessionDB) -> bool:
    """Tell whether a file has our side tables, and with them our search index."""
    return store.context.side


def flags_of(store: SessionDB, session_ids: Iterable[str]) -> dict[str, Json]:
    """Return what only we know of sessions: when they were pinned and archived, and so on."""
    if not store.context.side:
        return {session_id: {} for session_id in session_ids}
    with store.context.db.read() as tx:
        return {session_id: side_of(tx, session_id) for session_id in session_ids}


def count_long_messages(store: SessionDB, older_than_days: float = 0) -> int:
    """Count the messages of ended sessions that are long enough to be looked at for offloading."""
    return sum(1 for _ in long_messages(store.context, older_than_days=older_than_days))


# ---------------------------------------------------------------------- out


def session_as_lines(store: SessionDB, session_id: str) -> Iterator[str]:
    """Return one session as `iter_export` gives all: a line for it, and one for each message."""
    return export_lines(store.context, session_id)


def session_as_object(store: SessionDB, session_id: str) -> str:
    """Return one session with its messages inside, on one line, as Hermes exports it."""
    return line(store.export_session(session_id) or {})


# ---------------------------------------------------------------------- in


def session_lines(lines: Iterable[bytes]) -> Iterator[str | bytes]:
    """Return the lines of an export: JSON lines as they are, a list of sessions one by one.

    The beginning is read and checked at once, so that wrong input is refused before a store is
    begun for it.
    """
    rest = iter(lines)
    first = next((raw for raw in rest if raw.strip()), None)
    if first is None:
        raise Invalid("there is no session in the input", hint=_EXPORTED)
    if first.startswith(_SQLITE):
        raise Invalid("the input is a database", hint="name it with --db instead of importing it")
    value, whole = _first_value(first, rest)
    if not isinstance(value, list):
        _need_session(value)
        return chain([first if whole is None else whole], rest)
    for item in value:
        _need_session(item)
    return chain((json.dumps(item) for item in value), rest)


def _first_value(first: bytes, rest: Iterator[bytes]) -> tuple[Any, str | None]:
    """Read the first line; if it is no JSON, it may begin a document of many lines."""
    try:
        return json.loads(first), None
    except (ValueError, RecursionError):
        pass
    try:
        value = json.loads(first + b"".join(rest))
    except (ValueError, RecursionError) as error:
        raise Invalid(f"the input is not JSON: {error}", hint=_EXPORTED) from None
    return value, json.dumps(value)


def _need_session(value: Any) -> None:
    session = value.get("session", value) if isinstance(value, dict) else None
    if not isinstance(session, dict) or not isinstance(session.get("id"), str):
        raise Invalid("the input does not begin with a session that has an id", hint=_EXPORTED)
