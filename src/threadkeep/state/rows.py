"""Rows of the contract as the dicts callers get, and their fingerprints."""

import json
import logging
from collections.abc import Sequence
from typing import Any

from threadkeep.base.hashes import fingerprint
from threadkeep.base.tx import Row, Tx
from threadkeep.state.columns import update_rows
from threadkeep.state.content import decode_content
from threadkeep.state.context import MESSAGE_COLUMNS, Json, StateContext
from threadkeep.state.exact import (
    ColumnValue,
    drop_outdated,
    keep,
    overlay_messages,
    overlay_session,
)
from threadkeep.state.offload import inline_messages

log = logging.getLogger(__name__)


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
    """Set columns of a session, whatever the file looks like; False if there is no such one."""
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
        log.warning("message %s: %s is no JSON and was left out", message_id, field)
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
        tx.run("put_hash", (message_id, fingerprint(row)))
