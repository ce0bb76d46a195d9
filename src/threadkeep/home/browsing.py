"""What surfaces browse, named in one place, and how it is opened."""

from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from threadkeep.browse.browsing import Browse
from threadkeep.home.all_sources import all_sources
from threadkeep.home.in_place import make_listable

if TYPE_CHECKING:
    from threadkeep.home.facade import Home


def open_browse(home: "Home", path: str | Path | None = None) -> Browse:
    """Open the captured history to browse it; its store must exist. Close it after use."""
    store = home.knowledge(path, read_only=True)
    try:
        make_listable(home, store)
        data = home.paths().data
        sources = all_sources([home.chat_path()], [data / "state.db"], [data / "mailbox"])
        return Browse(store, sources, ZoneInfo(home.zone))
    except BaseException:
        store.close()
        raise
