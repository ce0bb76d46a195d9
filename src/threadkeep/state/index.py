"""The two full-text indexes of a state file: kept apart from writing, repaired by `reindex`."""

from threadkeep.errors import ThreadkeepError
from threadkeep.state.context import Context

_TRIGGERS = ("messages_fts_insert", "messages_fts_delete", "messages_fts_update")
_CORRUPT_INDEX = 267  # SQLITE_CORRUPT_VTAB


def blames_index(error: ThreadkeepError) -> bool:
    """Tell whether an error of a write comes from the contract's index, not from the tables."""
    cause = error.__cause__
    code = getattr(cause, "sqlite_errorcode", None)
    return code == _CORRUPT_INDEX or "messages_fts" in str(cause) or code == 11


def detach_index(ctx: Context, error: ThreadkeepError) -> None:
    """Take the contract's triggers out, so that messages can be stored; say so once."""
    with ctx.db.write() as tx:
        for trigger in _TRIGGERS:
            tx.execute(f"DROP TRIGGER IF EXISTS {trigger}")
    ctx.notices.warn(
        "index",
        "the full-text index of %s is damaged (%s); messages are stored without it: run reindex()",
        ctx.db.path,
        error.__cause__,
    )
