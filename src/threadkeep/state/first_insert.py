"""The first message in a file whose form we have not written yet is looked at.

Triggers that we do not know are welcome. But one row must come in where one is inserted, and the
index must follow; else whoever runs both programs wants to know before a thousand messages later.
"""

from typing import Any

from threadkeep.base.tx import Tx
from threadkeep.state.columns import Values, insert_row
from threadkeep.state.context import StateContext


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
            ctx.db.path,
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
