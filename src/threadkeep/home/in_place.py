"""A file of Hippo's that is used where it is: its conversations are listed like our own.

Such a file has slices of conversations and none of our tables. What lists sessions needs them, as
recall needs its index: the first look makes both. Nothing of Hippo's is changed by that.
"""

import logging
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from threadkeep.base.tx import Tx
from threadkeep.errors import ReadOnly, ThreadkeepError
from threadkeep.knowledge.layout import names
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.knowledge.things import noted_so_far
from threadkeep.sources.hippo_notes import READER

if TYPE_CHECKING:
    from threadkeep.capture.history import History
    from threadkeep.home.facade import Home
    from threadkeep.recall.memory import Memory

log = logging.getLogger(__name__)

_OURS: Final = "SELECT 1 FROM tk_logs WHERE reader <> ? LIMIT 1"


def make_listable(home: "Home", store: KnowledgeStore) -> None:
    """Make sessions of new slices in a file that is looked at, if nobody captures into it.

    Where the file cannot be written all stays as it is.
    """
    if store.access.finding.kind != "current":
        return  # to look at a file is no reason to bring it to another version
    with store.context.db.read() as tx:
        if not _has_news(tx):
            return
    path = store.context.db.path
    try:
        with home.history(path, must_exist=True) as history:
            history.note_sessions(everything=False)
    except ThreadkeepError as error:
        log.warning("the conversations in %s are not listed: %s", path, error.message)


def open_history_to_list(home: "Home", path: str | Path | None = None) -> "History":
    """Open the captured history to list and search it; close it after use."""
    history = home.history(path, read_only=True)
    make_listable(home, history.store)
    return history


def open_memory_to_ask(home: "Home", path: str | Path | None = None) -> "Memory":
    """Open memory so that its index can be brought up, where that changes nothing of the contract.

    No store is begun by a question, and none is brought to another version.
    """
    memory = home.memory(path, read_only=True)
    if memory.store.access.finding.kind != "current":
        return memory
    memory.close()
    with suppress(ReadOnly):
        return home.memory(path, must_exist=True)
    return home.memory(path, read_only=True)


def _has_news(tx: Tx) -> bool:
    last = int(tx.value("last_slice") or 0)
    if "tk_indexed" not in names(tx, "table"):
        return last > 0
    captured = tx.execute(_OURS, (READER,)).fetchone() is not None
    return not captured and last > noted_so_far(tx)
