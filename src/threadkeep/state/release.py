"""Giving a file back to Hermes as if we had never had it."""

from threadkeep.base.backup import make_backup
from threadkeep.errors import Damaged
from threadkeep.state.check import problems_of
from threadkeep.state.context import Context, Json
from threadkeep.state.moving import inline_blobs
from threadkeep.state.side import take_out


def release(ctx: Context) -> Json:
    """Take everything that is ours out of the file, and close the store; tell what was removed.

    A backup is made first: pins, relations, exact values, usage by day and messages that were taken
    back are in it alone afterwards. Offloaded values go back into their messages, and the full-text
    index is Hermes's own again, filled.
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
        removed = take_out(tx)
    ctx.db.close()
    return {"removed": removed, "backup": str(backup)}
