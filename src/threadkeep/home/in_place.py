"""A file of Hippo's that is used where it is: its conversations are listed like our own.

Such a file has slices of conversations and none of our tables. What lists sessions needs them, as
recall needs its index: the first look makes both. Nothing of Hippo's is changed by that.
"""

import logging
from typing import TYPE_CHECKING, Final

from threadkeep.base.sqlite import Tx
from threadkeep.capture.noted_sessions import noted_so_far
from threadkeep.errors import ThreadkeepError
from threadkeep.knowledge.layout import names
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.sources.hippo_notes import READER

if TYPE_CHECKING:
    from threadkeep.home.facade import Home

log = logging.getLogger(__name__)

_OURS: Final = "SELECT 1 FROM tk_logs WHERE reader <> ? LIMIT 1"


def make_listable(home: "Home", store: KnowledgeStore) -> None:
    """Make sessions of new slices in a file that is looked at, if nobody captures into it.

    Where the file cannot be written all stays as it is.
    """
    if not store.context.db.read_only or not store.access.finding.writable:
        return
    with store.context.db.read() as tx:
        if not _has_news(tx):
            return
    path = store.context.db.path
    try:
        with home.history(path, must_exist=True) as history:
            history.note_sessions(everything=False)
    except ThreadkeepError as error:
        log.warning("the conversations in %s are not listed: %s", path, error.message)


def _has_news(tx: Tx) -> bool:
    last = int(tx.value("last_slice") or 0)
    if "tk_indexed" not in names(tx, "table"):
        return last > 0
    captured = tx.execute(_OURS, (READER,)).fetchone() is not None
    return not captured and last > noted_so_far(tx)
