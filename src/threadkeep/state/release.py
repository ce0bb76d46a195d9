"""Giving a file back to Hermes as if we had never had it."""

from functools import partial

from threadkeep.base.backup import make_backup
from threadkeep.base.tx import Tx
from threadkeep.errors import Damaged
from threadkeep.state.check import problems_of
from threadkeep.state.columns import update_rows
from threadkeep.state.content import encode_content
from threadkeep.state.context import Json, StateContext
from threadkeep.state.exact import load, to_column
from threadkeep.state.form import carry_over
from threadkeep.state.moving import inline_blobs
from threadkeep.state.offload import read_blob
from threadkeep.state.rewind import hand_over_rewound
from threadkeep.state.side import take_out


def release(ctx: StateContext) -> Json:
    """Take everything that is ours out of the file, and close the store; tell what was removed.

    A backup is made first: what only our tables can hold is in it alone afterwards, such as
    relations and usage by day. Pins, lists as content and messages that were taken back stay where
    the file has Hermes's own columns for them. Offloaded values go back into their messages, and
    the full-text index is Hermes's own again, filled.
    """
    if not ctx.side:
        ctx.db.close()
        return {"removed": [], "backup": None}
    backup = make_backup(ctx.db, reason="before-release", check=problems_of)
    inline_blobs(ctx)
    with ctx.db.write() as tx:
        _, offloaded = tx.one("side_counts") or (0, 0)
        if offloaded:
            msg = f"{offloaded} offloaded values of {ctx.db.path} cannot be put back"
            raise Damaged(msg, hint="`threadkeep state check` names them; nothing was removed")
        form = ctx.forms.look(tx)
        carry_over(tx, form)
        if form.answers.marked_rewinds:
            hand_over_rewound(ctx, tx)
        if form.answers.content_in_column:
            _hand_over_contents(ctx, tx)
        removed = take_out(tx)
    ctx.db.close()
    return {"removed": removed, "backup": str(backup)}


def _hand_over_contents(ctx: StateContext, tx: Tx) -> None:
    """Write lists and dicts into their messages, unless another program has changed these."""
    for message_id, kind, value, column in tx.all("exact_contents"):
        try:
            exact = load(kind, value, partial(read_blob, tx))
        except ValueError:
            continue  # its readable form stays
        if isinstance(exact, (list, dict)) and to_column(exact, "content").column == column:
            content = {"content": encode_content(exact)}
            update_rows(ctx, tx, "messages", {"id": message_id}, content)
