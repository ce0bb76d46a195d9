"""What surfaces need of the captured history, named in one place, so that none imports a service.

Loading this loads capture and its archive: a surface does so when a command needs it.
"""

from threadkeep.capture.history import History
from threadkeep.errors import NotFound
from threadkeep.knowledge.layout import names
from threadkeep.knowledge.reading import CapturedSession
from threadkeep.knowledge.spending import TokenTotals

_SPENT = (
    "SELECT input, output, cache_read, cache_write, cache_write_1h, reasoning, final"
    " FROM tk_usage WHERE session = ?"
)


def need_captured(history: History) -> None:
    """Raise if a file is open to look at into which nothing was ever captured."""
    with history.store.context.db.read() as tx:
        known = "tk_sessions" in names(tx, "table")
    if not known:
        access = history.store.access
        msg = f"nothing was captured into {access.path} yet"
        how = "`threadkeep capture` does it; --db names the file"
        if not access.finding.writable:
            how = f"`threadkeep import hippo {access.path}` takes over what it has"
        raise NotFound(msg, hint=how)


def spent_in(history: History, session: CapturedSession) -> TokenTotals:
    """Sum up the tokens of one session, without those of the sessions it started."""
    spent = TokenTotals()
    with history.store.context.db.read() as tx:
        for *counts, final in tx.execute(_SPENT, (session.id,)):
            spent.add(tuple(counts), final=bool(final))
    return spent
