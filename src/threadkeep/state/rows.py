"""Writing rows by the names of their columns, in a file that may lack some or have more.

What is not named keeps its default or its value, so columns that we do not know are left alone. A
value for a column that the file lacks widens the file first, unless it is the default anyway.
"""

import json
import logging
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from threadkeep.base.hashes import fingerprint
from threadkeep.base.tx import Row, Sql, Tx
from threadkeep.state.context import (
    MESSAGE_COLUMNS,
    Form,
    Json,
    StateContext,
    known_columns,
    newest_columns,
)
from threadkeep.state.side_values import (
    ColumnValue,
    JsonText,
    drop_outdated,
    dump,
    inline_messages,
    keep,
    overlay_messages,
    overlay_session,
)

Values = Mapping[str, Any]

# How SQLite says that a statement names a table or column which is not there.
_UNKNOWN: Final = re.compile(
    r'(?:no such (?:table|column): |has no column named )(?:\w+\.)?"?(\w+)"?$'
)


class _InsertWay(NamedTuple):
    """How rows of some names go into a table: the statement, and what is lacking."""

    sql: Sql
    lacking: tuple[tuple[str, str], ...]


def insert_row(
    ctx: StateContext, tx: Tx, table: str, values: Values, *, unless_there: bool = False
) -> int:
    """Insert one row; give the number of a message, else 1, or 0 where it was there already."""
    names = tuple(values)
    clause = " ON CONFLICT DO NOTHING" if unless_there else ""
    way = _way(table, names, ctx.form.tables.get(table, ()), clause)
    for name, default in way.lacking:
        value = values[name]
        if value is not None and not _is_default(value, default):
            ctx.widen(tx)
            way = _way(table, names, ctx.form.tables.get(table, ()), clause)
            break
    # Values of columns that the file lacks are not in the statement, and nobody asks for them.
    return tx.insert(way.sql, values) if table == "messages" else tx.count(way.sql, values)


# Written once for each set of names: an append takes 15 µs less.
@lru_cache(maxsize=256)
def _way(table: str, names: tuple[str, ...], present: tuple[str, ...], clause: str) -> _InsertWay:
    missing = _defaults_of(table, present)
    kept = [name for name in names if name not in missing]
    values = ", ".join(f":{name}" for name in kept)
    sql = Sql(f"INSERT INTO {table}({', '.join(kept)}) VALUES ({values}){clause}")  # noqa: S608
    return _InsertWay(sql, tuple((name, missing[name]) for name in names if name in missing))


def update_rows(ctx: StateContext, tx: Tx, table: str, key: Values, values: Values) -> int:
    """Set columns of the rows that have the values of `key`; give how many there were."""
    fitting = _fitting(ctx, tx, table, values)
    if not fitting:
        return 0
    changes = ", ".join(f"{name} = :{name}" for name in fitting)
    where = " AND ".join(f"{name} = :key_{name}" for name in key)
    sql = f"UPDATE {table} SET {changes} WHERE {where}"  # noqa: S608
    named = {f"key_{name}": value for name, value in key.items()}
    return tx.count(Sql(sql), {**fitting, **named})


def supply(ctx: StateContext, complaint: str) -> bool:
    """Widen the file if a program's own SQL failed for what a newer file has; tell whether."""
    found = _UNKNOWN.search(complaint)
    if found is None or ctx.db.read_only:
        return False
    missing = {
        name
        for table in newest_columns()
        for name in (table, *(column.name for column in ctx.form.missing_columns(table)))
        if name not in ctx.form.tables
    }
    if found[1] in missing:
        with ctx.db.write() as tx:
            ctx.widen(tx)
    return found[1] in missing


def _fitting(ctx: StateContext, tx: Tx, table: str, values: Values) -> Values:
    missing = _defaults(ctx.form, table)
    if not missing:
        return values
    if any(not _is_default(values.get(name), default) for name, default in missing.items()):
        ctx.widen(tx)
        return values
    return {name: value for name, value in values.items() if name not in missing}


def _defaults(form: Form, table: str) -> Mapping[str, str]:
    """Return the known columns that the file lacks, with their defaults."""
    return _defaults_of(table, form.tables.get(table, ()))


@lru_cache(maxsize=64)
def _defaults_of(table: str, present: tuple[str, ...]) -> Mapping[str, str]:
    known = known_columns()[table]
    return {column.name: column.default for column in known if column.name not in present}


def _is_default(value: Any, default: str) -> bool:
    return value is None or str(int(value) if isinstance(value, bool) else value) == default


# ------------------------------------------------------------------------------
# How values of a message become columns, and what readers get back from them.

log = logging.getLogger(__name__)

# A list or dict as content: no text of a conversation begins with a NUL.
_STRUCTURED: Final = "\0json:"
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def whole_text(text: str) -> str:
    """Return text that is valid UTF-8: half a character becomes U+FFFD."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def encode_content(value: Any) -> Any:
    """Return the column for a content: text and numbers as they are, what has parts as JSON."""
    if isinstance(value, str):
        return whole_text(str.__str__(value))
    if value is None or isinstance(value, (bytes, int, float)):
        return value
    try:
        return _STRUCTURED + json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        log.warning("a content of %s is not JSON and is stored as text", type(value).__name__)
        return whole_text(str(value))


def decode_content(column: Any) -> Any:
    """Return the value that `encode_content` stored; a damaged one as the text it is."""
    if not (isinstance(column, str) and column.startswith(_STRUCTURED)):
        return column
    try:
        return json.loads(column.removeprefix(_STRUCTURED))
    except (ValueError, RecursionError):
        log.warning("a content claims to be JSON and is not; its text is given")
        return column


def encode_json(value: Any, field: str) -> str:
    """Return the column for what is JSON; text is taken for JSON already."""
    return whole_text(str.__str__(value)) if isinstance(value, str) else dump(value, field)


def parse_calls(value: Any) -> Any:
    """Return tool calls as a value, also where they come as JSON text; broken text is none."""
    if not isinstance(value, str) or isinstance(value, JsonText):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        log.warning("tool calls that are not JSON were left out")
        return []


def encode_metadata(value: Any) -> str | None:
    """Return the column for what is shown with a message: the JSON of a dict, else NULL."""
    meaning = _as_dict(value) if value else None
    return json.dumps(meaning) if meaning else None


def decode_metadata(column: Any) -> Json | None:
    """Return what is shown with a message, None where the column holds no dict."""
    return None if column is None else _as_dict(column)


def _as_dict(value: Any) -> Json | None:
    found = value
    for _ in range(2):  # some programs have written JSON of JSON
        if isinstance(found, str):
            try:
                found = json.loads(found)
            except (ValueError, RecursionError):
                break
    if isinstance(found, dict):
        return found
    log.warning("display metadata that is not a JSON object was left out")
    return None


# ------------------------------------------------------------------------------
# The preview of a session: how its first message by the user begins, on one line.

_LONGEST: Final = 60
_HEAD: Final = 63  # of these an end may be cut off: so much is looked at, as in Hermes
_EXCERPT: Final = 400
_JOINT: Final = "\x1e"
# Hermes puts the text of a skill into the message that calls it; these are its words.
_SKILL: Final = re.compile(r'\[IMPORTANT: The user has invoked the (?:"([^"]*)")?')
_SKILL_BEGIN: Final = "[IMPORTANT: The user has invoked the "
_ONE_SKILL: Final = "The full skill content is loaded below.]"
_BUNDLE: Final = " skill bundle,"
_TYPED: Final = "The user has provided the following instruction alongside the skill invocation: "
_NOTE: Final = "\n\n[Runtime note:"
_TYPED_FOR_BUNDLE: Final = "\nUser instruction: "
_FIRST_OF_BUNDLE: Final = "\n\n[Loaded as part of the "


def preview_of(tx: Tx, session_id: str) -> str:
    """Return the beginning of the first thing that the user said, on one line."""
    head, tail = tx.one("first_user_text", {"session_id": session_id}) or (None, None)
    return "" if head is None else shape_preview(str(head), tail)


def shape_preview(head: str, tail: str | None = None) -> str:
    """Make a preview of a text, or of the beginning and the end of a long one."""
    if not head.startswith(_SKILL_BEGIN):
        return _shortened(_on_one_line(head[:_HEAD]).strip())
    text = _on_one_line(head if tail is None else head[:_EXCERPT] + _JOINT + tail).strip()
    called = describe_skill_call(text)
    return _shortened(text.split(_JOINT)[0] if called is None else called)


def describe_skill_call(text: str, separator: str = " — ") -> str | None:
    """Show a message with the text of a skill as it was typed: command and instruction.

    None if the message calls no skill.
    """
    found = _SKILL.match(text)
    if found is None:
        return None
    name = (found[1] or "").strip()
    command = name if name.startswith("/") else f"/{name}"
    typed = " ".join((_typed(text) or "").split(_JOINT)[0].split())
    if typed:
        return f"{command}{separator}{typed}" if name else typed
    return command if name else None


def _typed(text: str) -> str | None:
    """Return what was typed with the call: before the skills of a bundle, behind a single one."""
    if _BUNDLE in text:
        _, _, rest = text.partition(_TYPED_FOR_BUNDLE)
        return rest.partition(_FIRST_OF_BUNDLE)[0].strip()
    if _ONE_SKILL in text and _TYPED in text:
        return text.rpartition(_TYPED)[2].partition(_NOTE)[0].strip()
    return None


def _on_one_line(text: str) -> str:
    return text.replace("\n", " ").replace("\r", " ")


def _shortened(text: str) -> str:
    return text[:_LONGEST] + ("..." if len(text) > _LONGEST else "")


# ------------------------------------------------------------------------------
# Rows of the contract as the dicts callers get, and their fingerprints.


def read_session(ctx: StateContext, tx: Tx, session_id: str) -> Json | None:
    """Read a session with all its columns, known or not; None if there is none."""
    found = read_sessions(ctx, tx, "get_session", {"id": session_id})
    return found[0] if found else None


def read_sessions(ctx: StateContext, tx: Tx, query: str, params: Json) -> list[Json]:
    """Read the sessions that a query gives, with what their columns could not hold."""
    sessions = tx.dicts(query, params)
    if ctx.side:
        for session in sessions:
            overlay_session(tx, session)
    return sessions


def update_session(ctx: StateContext, tx: Tx, session_id: str, values: Json) -> bool:
    """Set columns of a session, whatever the file looks like; False if it does not exist."""
    changed = update_rows(ctx, tx, "sessions", {"id": session_id}, values) > 0
    if changed and ctx.side:
        refresh_session_hash(tx, session_id)
    return changed


def update_session_texts(
    ctx: StateContext, tx: Tx, session_id: str, texts: dict[str, ColumnValue]
) -> bool:
    """Set texts of a session, and keep beside it what a column cannot hold."""
    values: Json = {field: stored.column for field, stored in texts.items()}
    changed = update_session(ctx, tx, session_id, values)
    if changed:
        keep_texts(ctx, tx, session_id, texts)
    return changed


def keep_texts(ctx: StateContext, tx: Tx, session_id: str, texts: dict[str, ColumnValue]) -> None:
    """Keep beside a session what its columns cannot hold of these texts, and nothing older."""
    if ctx.side:
        for field in texts:
            tx.run("drop_exact", {"owner": "session", "key": session_id, "field": field})
        keep(tx, "session", session_id, texts)


def messages_of(ctx: StateContext, tx: Tx, rows: Sequence[Row]) -> list[Json]:
    """Make dicts of rows of the thirteen columns, with what is kept beside them."""
    return complete_messages(
        ctx, tx, [dict(zip(MESSAGE_COLUMNS, row, strict=True)) for row in rows]
    )


def complete_messages(ctx: StateContext, tx: Tx, messages: list[Json]) -> list[Json]:
    """Put into messages what their columns hold in another form, or not at all."""
    if ctx.side:
        inline_messages(tx, messages)
    if ctx.form.answers.content_in_column:
        for message in messages:
            message["content"] = decode_content(message["content"])
    if ctx.side:
        overlay_messages(tx, messages)
    return messages


def decode_json(text: Any, message_id: int, field: str, otherwise: Any) -> Any:
    """Decode a JSON column; text that is none gives `otherwise`, and a warning."""
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        log.warning("message %s: %s is not JSON and was left out", message_id, field)
        return otherwise


def refresh_session_hash(tx: Tx, session_id: str) -> None:
    """Write the fingerprint of a session that we just changed."""
    row = tx.one("fingerprint_session", {"id": session_id})
    if row is not None:
        tx.run("put_session_hash", {"id": session_id, "hash": fingerprint(row)})


def adopt_message(tx: Tx, message_id: int) -> None:
    """Vouch for a message as it is now: another program wrote or changed it."""
    row = tx.one("get_message", {"id": message_id})
    if row is not None:
        drop_outdated(tx, dict(zip(MESSAGE_COLUMNS, row, strict=True)))
        tx.run("put_hash", {"id": message_id, "hash": fingerprint(row)})
