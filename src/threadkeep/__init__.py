"""threadkeep: the persistence and memory layer for AI agents; begin with `threadkeep.open()`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from threadkeep import errors
from threadkeep.errors import ThreadkeepError

if TYPE_CHECKING:
    from pathlib import Path

    from threadkeep.base.page import Page
    from threadkeep.capture.capture import History
    from threadkeep.chat.recorder import Recorder
    from threadkeep.chat.records import Event, Message, Run, Session
    from threadkeep.chat.search import ChatHit, ChatHit as Hit
    from threadkeep.chat.store import ChatStore
    from threadkeep.client import connect
    from threadkeep.home.home import Home
    from threadkeep.knowledge.store import KnowledgeStore
    from threadkeep.mailbox.mailroom import Mailroom
    from threadkeep.state.session_db import SessionDB

__version__ = "0.1.0"
__all__ = ["ChatHit", "ChatStore", "Event", "History", "Hit", "Home", "KnowledgeStore"]
__all__ += ["Mailroom", "Message", "Page", "Recorder", "Run", "Session", "SessionDB"]
__all__ += ["ThreadkeepError", "__version__", "connect", "errors", "open"]

_LAZY = {  # where each name lives; it is loaded when first asked for, so that importing is quick
    **dict.fromkeys(("Event", "Message", "Run", "Session"), "threadkeep.chat.records"),
    "Page": "threadkeep.base.page",
    "ChatStore": "threadkeep.chat.store",
    "History": "threadkeep.capture.capture",
    **dict.fromkeys(("ChatHit", "Hit"), "threadkeep.chat.search"),
    "connect": "threadkeep.client",
    "Home": "threadkeep.home",
    "KnowledgeStore": "threadkeep.knowledge.store",
    "Mailroom": "threadkeep.mailbox.mailroom",
    "Recorder": "threadkeep.chat.recorder",
    "SessionDB": "threadkeep.state.session_db",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'threadkeep' has no attribute {name!r}")
    renamed = {"Hit": "ChatHit"}  # the name of one version ago
    return getattr(import_module(_LAZY[name]), renamed.get(name, name))


def __dir__() -> list[str]:
    return __all__


def open(path: "str | Path | None" = None) -> "Home":  # noqa: A001  (read as threadkeep.open)
    """Open a home: a folder with its stores, the user's own without a path, or a server's URL."""
    from threadkeep.home.home import Home  # noqa: PLC0415  (loaded when it is needed)

    return Home(path)
