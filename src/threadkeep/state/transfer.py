"""Sessions out of the store and into it, whole: as dicts, or as lines of JSON."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from threadkeep.base.sqlite import Tx
from threadkeep.errors import Conflict, Invalid
from threadkeep.state.context import SESSION_COLUMNS, Context, Json, clean
from threadkeep.state.exact import JsonText, Stored, dump, keep, to_column
from threadkeep.state.lineage import get_compression_lineage
from threadkeep.state.messages import insert
from threadkeep.state.relations import RELATIONS, comes_from
from threadkeep.state.rewind import recount
from threadkeep.state.rows import read_session, read_sessions, refresh_session_hash
from threadkeep.state.sessions import check_id
from threadkeep.state.titles import (
    MAX_TITLE_LENGTH,
    get_next_title_in_lineage,
    sanitize_title,
)
from threadkeep.state.transcript import get_messages, iter_messages
from threadkeep.state.updates import apply_update, plan_update, remember
from threadkeep.state.verbs import write

_MOST: Final = 100_000
_PAGE: Final = 200
_CHOICES: Final = ("skip", "error", "replace", "update")
_TEXTS: Final = ("source", "user_id", "model", "system_prompt", "title")
_FLAGS: Final = ("pinned_at", "archived_at", "title_source")
_HINT: Final = "pass what `export` wrote; nothing of this session was stored"


# ---------------------------------------------------------------------- out


def export_session(ctx: Context, tx: Tx, session_id: str) -> Json | None:
    """Give a session with its messages as one dict, None if there is none."""
    session = read_session(ctx, tx, session_id)
    if session is None:
        return None
    return {**session, "messages": get_messages(ctx, tx, session_id)}


def export_all(ctx: Context, tx: Tx, source: str | None = None) -> list[Json]:
    """Give all sessions with their messages, the newest first, all in memory."""
    name = "sessions_newest" if source is None else "sessions_newest_of_source"
    sessions = read_sessions(ctx, tx, name, {"source": source, "limit": _MOST, "offset": 0})
    return [{**one, "messages": get_messages(ctx, tx, one["id"])} for one in sessions]


def export_session_lineage(ctx: Context, tx: Tx, session_id: str) -> list[Json]:
    """Give a chain of compressed sessions with their messages, the oldest first."""
    chain = (
        export_session(ctx, tx, member) for member in get_compression_lineage(ctx, tx, session_id)
    )
    return [session for session in chain if session is not None]


def iter_export(ctx: Context, source: str | None = None) -> Iterator[str]:
    """Give all sessions as lines of JSON, the oldest first; a page in memory at a time.

    The first line of a session has its columns, each further one a message; `import_sessions` takes
    them. A session that is written to meanwhile is given as far as it was.
    """
    for session_id in _ids(ctx, source):
        with ctx.db.read() as tx:
            session = read_session(ctx, tx, session_id)
            side = side_of(tx, session_id) if ctx.side else {}
        if session is None:
            continue
        yield line({"session": session, **({"side": side} if side else {})})
        for message in iter_messages(ctx, session_id):
            yield line({"message": message})


def _ids(ctx: Context, source: str | None) -> Iterator[str]:
    with ctx.db.read() as tx:
        ids = [str(row[0]) for row in tx.all("ids_oldest_first", {"source": source})]
    yield from ids


def side_of(tx: Tx, session_id: str) -> Json:
    """Give what only we know of a session: pins, archive, who gave the title, its relation."""
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


# ---------------------------------------------------------------------- in


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
        raise Invalid(f"line {number} has no session in it", hint=_HINT)
    messages = session.get("messages") or []
    if not isinstance(messages, (list, tuple)):
        raise Invalid(f"line {number} has messages that are no list", hint=_HINT)
    return {**session, "side": side, "messages": list(messages)}


def _parse(raw: str | bytes, number: int) -> Mapping[str, Any]:
    try:
        value = json.loads(raw)
        if isinstance(value, dict):
            return _in_fields(value, _unmarked)
    except (ValueError, TypeError, RecursionError) as error:
        raise Invalid(f"line {number} is no JSON: {error}", hint=_HINT) from None
    raise Invalid(f"line {number} is no JSON object", hint=_HINT)


def import_sessions(
    ctx: Context,
    sessions: Iterable[str | bytes | Mapping[str, Any]],
    *,
    on_conflict: str = "skip",
    origin: str = "",
    progress: Callable[[int], None] | None = None,
) -> dict[str, int]:
    """Store exported sessions, each in one transaction; give how many were added, and so on.

    Takes what `export_session`, `export_all` and `iter_export` give. A session that exists is
    skipped, replaced, updated with what is new in it, or an error. `origin` names the store that
    they come from, so that the next update knows its messages again. Bad input stops the import
    before anything of its session is stored.
    """
    if on_conflict not in _CHOICES:
        msg = f"what exists cannot be treated as {on_conflict!r}"
        raise Invalid(msg, hint=f"use one of {', '.join(_CHOICES)}")
    counts = {"added": 0, "skipped": 0, "replaced": 0, "messages": 0}
    if on_conflict == "update":
        counts["updated"] = 0
    parents: list[tuple[str, str]] = []
    for number, session in enumerate(read_lines(sessions), 1):
        outcome, messages = write(ctx, import_session, session, on_conflict, origin)
        counts[outcome] += 1
        counts["messages"] += messages
        if isinstance(session.get("parent_session_id"), str):  # an import may have stopped half-way
            parents.append((session["id"], session["parent_session_id"]))
        if progress is not None:
            progress(number)
    write(ctx, _join_families, parents)
    return counts


def _join_families(_ctx: Context, tx: Tx, parents: list[tuple[str, str]]) -> None:
    """Give children their parents, which may have come after them."""
    for child, parent in parents:
        if not comes_from(tx, parent, child) and tx.run(
            "adopt_parent", {"id": child, "parent": parent}
        ):
            refresh_session_hash(tx, child)


def import_session(
    ctx: Context, tx: Tx, session: Json, on_conflict: str = "skip", origin: str = ""
) -> tuple[str, int]:
    """Store an exported session whole; give what became of it, and how many messages came in."""
    session_id = session.get("id")
    if not isinstance(session_id, str) or not session_id:
        msg = f"a session needs an id, not {session_id!r}"
        raise Invalid(msg, hint="pass what `export` wrote")
    check_id(session_id)
    outcome = "added"
    if tx.one("session_exists", {"id": session_id}) is not None:
        if on_conflict == "skip":
            return "skipped", 0
        if on_conflict == "update":
            return _update(ctx, tx, session, origin)
        if on_conflict == "error":
            msg = f"there is a session {session_id!r} already"
            raise Conflict(msg, hint="import with on_conflict='skip' or 'replace'")
        _empty(tx, session_id)
        outcome = "replaced"
    _store(ctx, tx, session_id, session, origin)
    return outcome, len(session["messages"])


def _update(ctx: Context, tx: Tx, session: Json, origin: str) -> tuple[str, int]:
    session_id = session["id"]
    messages = [_message(ctx, session_id, one) for one in session["messages"]]
    update = plan_update(ctx, tx, {**session, "messages": messages}, origin)
    if update.columns:
        here = tx.dicts("get_session", {"id": session_id})[0]
        columns, texts = _columns(ctx, tx, session_id, update.columns)
        _check_numbers(session_id, columns)
        taken = {name: columns[name] for name in update.columns}
        tx.run("put_session", {**here, **taken})
        keep(tx, "session", session_id, {name: texts[name] for name in taken if name in texts})
    apply_update(ctx, tx, session_id, update, origin)
    told = len(update.new) + len(update.changed)
    return ("updated" if update.is_needed else "skipped"), told


def _empty(tx: Tx, session_id: str) -> None:
    """Take out what a session is to be replaced of; flags stay unless the new one has some."""
    tx.run("delete_messages", {"session_id": session_id})
    for name in ("forget_rewinds", "drop_session_exact", "drop_relation"):
        tx.run(name, {"id": session_id})


def _columns(
    ctx: Context, tx: Tx, session_id: str, session: Mapping[str, Any]
) -> tuple[Json, dict[str, Stored]]:
    """Give the columns of a session as they are stored, and the texts among them."""
    values = {field: clean(ctx, session.get(field)) for field in _TEXTS}
    values["title"] = _free_title(ctx, tx, session_id, values["title"])
    texts = {field: to_column(value, field) for field, value in values.items()}
    columns: Json = {name: session.get(name) for name in SESSION_COLUMNS}
    columns |= {field: stored.column for field, stored in texts.items()}
    config = clean(ctx, session.get("model_config"))
    if not isinstance(config, str):
        config = dump(config, "model_config") if config else None
    columns["model_config"] = config
    return columns, texts


def _store(ctx: Context, tx: Tx, session_id: str, session: Json, origin: str) -> None:
    columns, texts = _columns(ctx, tx, session_id, session)
    columns["source"] = "unknown" if columns["source"] is None else columns["source"]
    columns["started_at"] = ctx.clock() if columns["started_at"] is None else columns["started_at"]
    parent = columns["parent_session_id"]
    known = parent is not None and tx.one("session_exists", {"id": parent}) is not None
    if not known or comes_from(tx, parent, session_id):
        columns["parent_session_id"] = None
    side = session["side"]
    _check_numbers(session_id, {**columns, **side})
    tx.run("put_session", columns)
    keep(tx, "session", session_id, texts)
    pairs = []
    for message in session["messages"]:
        number = insert(ctx, tx, session_id, _message(ctx, session_id, message))
        pairs.append((message.get("id"), number))
    remember(tx, session_id, origin, pairs)
    recount(tx, session_id)
    _put_side(tx, session_id, parent, side)
    refresh_session_hash(tx, session_id)


def _put_side(tx: Tx, session_id: str, parent: Any, side: Mapping[str, Any]) -> None:
    if set(_FLAGS) & set(side):
        tx.run("put_flags", {"id": session_id, **{name: side.get(name) for name in _FLAGS}})
    if side.get("relation") in RELATIONS and isinstance(parent, str):
        tx.run("put_relation", {"id": session_id, "parent_id": parent, "kind": side["relation"]})


def _free_title(ctx: Context, tx: Tx, session_id: str, title: Any) -> str | None:
    """Take the title along; if another session has it by now, with a number."""
    wanted = sanitize_title(str(title)[:MAX_TITLE_LENGTH]) if title else None
    column = to_column(wanted, "title").column
    if column is None or tx.value("title_owner", {"title": column}) in (None, session_id):
        return wanted
    return get_next_title_in_lineage(ctx, tx, column)


def _check_numbers(session_id: str, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        numeric = name.endswith(("_at", "_tokens", "_count", "_usd", "timestamp"))
        if numeric and value is not None and not _is_number(value):
            msg = f"session {session_id!r}: {name} must be a number, not {str(value)[:40]!r}"
            raise Invalid(msg, hint=_HINT)


def _is_number(value: Any) -> bool:
    fits = not isinstance(value, int) or abs(value) < 1 << 63
    return isinstance(value, (int, float)) and value == value and fits  # noqa: PLR0124  (no NaN)


def _message(ctx: Context, session_id: str, message: Any) -> Json:
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        msg = f"session {session_id!r} has a message that is no object with a role"
        raise Invalid(msg, hint=_HINT)
    _check_numbers(session_id, {name: message.get(name) for name in ("timestamp", "token_count")})
    decoded = dict(message)
    for field in ("reasoning_details", "codex_reasoning_items", "tool_calls"):
        if isinstance(decoded.get(field), str):
            as_it_is = ctx.redact is None and field != "tool_calls"
            decoded[field] = JsonText(decoded[field]) if as_it_is else _decoded(decoded[field])
    return decoded


def _decoded(text: str) -> Any:
    """Exports have tool calls decoded; other programs may write them as the text they are."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
