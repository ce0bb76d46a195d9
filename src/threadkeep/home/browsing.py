"""What surfaces browse, named in one place, and how it is opened."""

from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from threadkeep.browse.browsing import Browse
from threadkeep.browse.kept import Kept
from threadkeep.browse.query import format_query, hour_name, parse_query
from threadkeep.browse.records import (
    BillingBlock,
    Block,
    Bound,
    Edge,
    EntityRow,
    EntityView,
    Graph,
    Listed,
    NodePage,
    NodeRow,
    NodeView,
    ProjectRow,
    Query,
    SessionDetail,
    SessionPage,
    Spot,
    Sum,
    Today,
    TurnSum,
    UsageReport,
    Window,
)
from threadkeep.home.all_sources import all_sources
from threadkeep.home.in_place import make_listable
from threadkeep.knowledge.lessons import Lesson
from threadkeep.knowledge.reading import Session
from threadkeep.knowledge.records import Image

if TYPE_CHECKING:
    from threadkeep.home.facade import Home

__all__ = [
    "BillingBlock",
    "Block",
    "Bound",
    "Browse",
    "Edge",
    "EntityRow",
    "EntityView",
    "Graph",
    "Image",
    "Kept",
    "Lesson",
    "Listed",
    "NodePage",
    "NodeRow",
    "NodeView",
    "ProjectRow",
    "Query",
    "Session",
    "SessionDetail",
    "SessionPage",
    "Spot",
    "Sum",
    "Today",
    "TurnSum",
    "UsageReport",
    "Window",
    "format_query",
    "hour_name",
    "open_browse",
    "parse_query",
]


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
