"""What surfaces need of the captured history, named in one place, so that none imports a service.

Loading this loads capture and its archive: a surface does so when a command needs it.
"""

from threadkeep.capture.coverage import Coverage, SourceCoverage, Stored
from threadkeep.capture.engine import Wanted
from threadkeep.capture.history import History
from threadkeep.capture.report import HarnessReport, Progress, Report, Watcher
from threadkeep.capture.transcripts import Hit, Shown
from threadkeep.errors import NotFound
from threadkeep.knowledge.copies import NO_LINKS, Links
from threadkeep.knowledge.layout import names
from threadkeep.knowledge.reading import Among, Session
from threadkeep.knowledge.spending import Spending, Spent

__all__ = [
    "NO_LINKS",
    "Among",
    "Coverage",
    "HarnessReport",
    "History",
    "Hit",
    "Links",
    "Progress",
    "Report",
    "Session",
    "Shown",
    "SourceCoverage",
    "Spending",
    "Spent",
    "Stored",
    "Wanted",
    "Watcher",
    "need_captured",
    "spent_in",
]

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


def spent_in(history: History, session: Session) -> Spent:
    """Sum up the tokens of one session, without those of the sessions it started."""
    spent = Spent()
    with history.store.context.db.read() as tx:
        for *counts, final in tx.execute(_SPENT, (session.id,)):
            spent.add(tuple(counts), final=bool(final))
    return spent
