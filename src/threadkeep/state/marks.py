"""Marks of sessions: pinned, archived, hidden, read; set on a whole chain of compressions.

In a file that has no columns for them yet, our side tables keep pins, archive and who gave a title.
"""

from collections.abc import Iterable
from typing import Any, Final

from threadkeep.base.tx import Tx
from threadkeep.state.columns import update_rows
from threadkeep.state.context import StateContext

_BESIDE: Final = {
    "pinned": "set_pinned",
    "archived": "set_archived",
    "title_source": "set_title_source",
}


def set_session_pinned(ctx: StateContext, tx: Tx, session_id: str, pinned: bool = True) -> bool:  # noqa: FBT001, FBT002
    """Pin a session, so that pruning spares it; False if there is no such session."""
    return _mark_chain(ctx, tx, session_id, "pinned", int(bool(pinned)))


def set_session_archived(ctx: StateContext, tx: Tx, session_id: str, archived: bool = True) -> bool:  # noqa: FBT001, FBT002
    """Archive a session, so that listings leave it out; False if there is no such session."""
    return _mark_chain(ctx, tx, session_id, "archived", int(bool(archived)))


def set_session_hidden(ctx: StateContext, tx: Tx, session_id: str, hidden: bool) -> bool:  # noqa: FBT001
    """Hide a session from every list that does not ask for hidden ones; False if there is none."""
    return _mark_chain(ctx, tx, session_id, "hidden", int(bool(hidden)))


def set_session_read(ctx: StateContext, tx: Tx, session_id: str, read: bool = True) -> bool:  # noqa: FBT001, FBT002
    """Note that a session was read just now, or that it is unread; False if there is none."""
    return _mark_chain(ctx, tx, session_id, "last_read_at", ctx.clock() if read else 0.0)


def _mark_chain(ctx: StateContext, tx: Tx, session_id: str, column: str, value: Any) -> bool:
    """A list shows a chain as its last session: what is done to one is done to all of them."""
    members = [str(row[0]) for row in tx.all("compressed_family", {"id": session_id})]
    put_mark(ctx, tx, members, column, value)
    return bool(members)


def put_mark(ctx: StateContext, tx: Tx, ids: Iterable[str], column: str, value: Any) -> None:
    """Write a mark of sessions where the file keeps it."""
    in_column = column in ctx.form.tables["sessions"]
    beside = _BESIDE.get(column) if ctx.side else None
    for session_id in ids:
        if beside is not None:
            at = ctx.clock() if value else None
            tx.run(beside, {"id": session_id, "at": at, "source": value})
        if in_column or beside is None:
            update_rows(ctx, tx, "sessions", {"id": session_id}, {column: value})
