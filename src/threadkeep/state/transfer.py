"""Sessions out of the store and into it, whole: as dicts, or as lines of JSON."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from threadkeep.base.sqlite import Tx
from threadkeep.errors import Conflict, Invalid
from threadkeep.state.context import SESSION_COLUMNS, Context, Json, clean
from threadkeep.state.exact import dump, keep, to_column
from threadkeep.state.lineage import get_compression_lineage
from threadkeep.state.messages import get_messages, insert, iter_messages
from threadkeep.state.rewind import recount
from threadkeep.state.rows import complete_session, read_session, refresh_session_hash, session_of
from threadkeep.state.sessions import RELATIONS, check_id
from threadkeep.state.titles import get_next_title_in_lineage, sanitize_title
from threadkeep.state.verbs import write

_MOST: Final = 100_000
_PAGE: Final = 200
_CHOICES: Final = ("skip", "error", "replace")
_TEXTS: Final = ("source", "user_id", "model", "system_prompt")


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
    rows = tx.all(name, {"source": source, "limit": _MOST, "offset": 0})
    return [
        {**complete_session(ctx, tx, session), "messages": get_messages(ctx, tx, session["id"])}
        for session in map(session_of, rows)
    ]


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
    """Write a value as one line of JSON, in ASCII, whatever text it holds."""
    return json.dumps(value, default=_marked)


def _marked(value: object) -> Any:
    if isinstance(value, bytes):
        return {"$bytes": value.hex()}
    msg = f"{type(value).__name__} is no JSON"
    raise TypeError(msg)


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
        current = {**value.get("session", value), "side": value.get("side") or {}}
        current["messages"] = list(current.get("messages") or [])
    if current is not None:
        yield current


def _parse(raw: str | bytes, number: int) -> Mapping[str, Any]:
    try:
        value = json.loads(raw, object_hook=_unmarked)
    except (ValueError, RecursionError) as error:
        msg = f"line {number} is no JSON: {error}"
        raise Invalid(
            msg, hint="pass what `export` wrote; nothing of this session was stored"
        ) from None
    if not isinstance(value, Mapping):
        msg = f"line {number} is no JSON object"
        raise Invalid(msg, hint="pass what `export` wrote; nothing of this session was stored")
    return value


def _unmarked(value: Json) -> Any:
    if len(value) == 1 and isinstance(value.get("$bytes"), str):
        return bytes.fromhex(value["$bytes"])
    return value


def import_sessions(
    ctx: Context,
    sessions: Iterable[str | bytes | Mapping[str, Any]],
    *,
    on_conflict: str = "skip",
    progress: Callable[[int], None] | None = None,
) -> dict[str, int]:
    """Store exported sessions, each in one transaction; give how many were added, and so on.

    Takes what `export_session`, `export_all` and `iter_export` give. A session that exists is
    skipped, replaced, or an error. Bad input stops the import before anything of its session is
    stored.
    """
    if on_conflict not in _CHOICES:
        msg = f"what exists cannot be treated as {on_conflict!r}"
        raise Invalid(msg, hint=f"use one of {', '.join(_CHOICES)}")
    counts = {"added": 0, "skipped": 0, "replaced": 0, "messages": 0}
    parents: list[tuple[str, str]] = []
    for number, session in enumerate(read_lines(sessions), 1):
        outcome = write(ctx, import_session, session, on_conflict)
        counts[outcome] += 1
        if outcome != "skipped":
            counts["messages"] += len(session["messages"])
            if isinstance(session.get("parent_session_id"), str):
                parents.append((session["id"], session["parent_session_id"]))
        if progress is not None:
            progress(number)
    write(ctx, _join_families, parents)
    return counts


def _join_families(_ctx: Context, tx: Tx, parents: list[tuple[str, str]]) -> None:
    """Give children their parents, which may have come after them."""
    for child, parent in parents:
        if tx.run("adopt_parent", {"id": child, "parent": parent}):
            refresh_session_hash(tx, child)


def import_session(ctx: Context, tx: Tx, session: Json, on_conflict: str = "skip") -> str:
    """Store an exported session whole; give what became of it: added, skipped or replaced."""
    session_id = session.get("id")
    if not isinstance(session_id, str) or not session_id:
        msg = f"a session needs an id, not {session_id!r}"
        raise Invalid(msg, hint="pass what `export` wrote")
    check_id(session_id)
    outcome = "added"
    if tx.one("session_exists", {"id": session_id}) is not None:
        if on_conflict == "skip":
            return "skipped"
        if on_conflict == "error":
            msg = f"there is a session {session_id!r} already"
            raise Conflict(msg, hint="import with on_conflict='skip' or 'replace'")
        tx.run("delete_messages", {"session_id": session_id})
        outcome = "replaced"
    _store(ctx, tx, session_id, session)
    return outcome


def _store(ctx: Context, tx: Tx, session_id: str, session: Json) -> None:
    texts = {field: to_column(clean(ctx, session.get(field)), field) for field in _TEXTS}
    columns: Json = {name: session.get(name) for name in SESSION_COLUMNS}
    columns |= {field: stored.column for field, stored in texts.items()}
    config = session.get("model_config")
    if not isinstance(config, str):
        columns["model_config"] = dump(config, "model_config") if config else None
    columns["source"] = columns["source"] or "unknown"
    columns["started_at"] = ctx.clock() if columns["started_at"] is None else columns["started_at"]
    columns["title"] = _free_title(ctx, tx, session_id, session.get("title"))
    parent = columns["parent_session_id"]
    if parent is not None and tx.one("session_exists", {"id": parent}) is None:
        columns["parent_session_id"] = None
    _check_numbers(session_id, columns)
    tx.run("put_session", columns)
    keep(tx, "session", session_id, texts)
    for message in session["messages"]:
        insert(ctx, tx, session_id, _message(session_id, message))
    recount(tx, session_id)
    _put_side(tx, session_id, parent, session.get("side") or {})
    refresh_session_hash(tx, session_id)


def _put_side(tx: Tx, session_id: str, parent: Any, side: Json) -> None:
    if {"pinned_at", "archived_at", "title_source"} & set(side):
        names = ("pinned_at", "archived_at", "title_source")
        tx.run("put_flags", {"id": session_id, **{name: side.get(name) for name in names}})
    if side.get("relation") in RELATIONS and isinstance(parent, str):
        tx.run("put_relation", {"id": session_id, "parent_id": parent, "kind": side["relation"]})


def _free_title(ctx: Context, tx: Tx, session_id: str, title: Any) -> str | None:
    """Take the title along; if another session has it by now, with a number."""
    wanted = sanitize_title(str(title)[:100]) if title else None
    owner = None if wanted is None else tx.value("title_owner", {"title": wanted})
    if wanted is None or owner in (None, session_id):
        return None if wanted is None else to_column(wanted, "title").column
    return get_next_title_in_lineage(ctx, tx, wanted)


def _check_numbers(session_id: str, columns: Json) -> None:
    for name, value in columns.items():
        numeric = name.endswith(("_at", "_tokens", "_count", "_usd"))
        if numeric and value is not None and not isinstance(value, (int, float)):
            msg = f"session {session_id!r}: {name} must be a number, not {value!r}"
            raise Invalid(msg, hint="pass what `export` wrote")


def _message(session_id: str, message: Any) -> Json:
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        msg = f"session {session_id!r} has a message that is no object with a role"
        raise Invalid(msg, hint="pass what `export` wrote; nothing of this session was stored")
    decoded = dict(message)
    for field in ("reasoning_details", "codex_reasoning_items", "tool_calls"):
        if isinstance(decoded.get(field), str):
            decoded[field] = _decoded(decoded[field])
    return decoded


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
