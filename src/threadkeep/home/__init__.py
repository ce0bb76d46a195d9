"""Home: a folder and its stores. Surfaces import from here, and nothing below."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from threadkeep.base import json
from threadkeep.base.clock import iso, now_ms, parse_duration
from threadkeep.base.paths import Paths
from threadkeep.base.text import join_text, printable

if TYPE_CHECKING:
    from threadkeep.chat.timeline import Timeline, Turn
    from threadkeep.home.backups import KINDS, Backup
    from threadkeep.home.facade import Home
    from threadkeep.home.live import follow, running_runs
    from threadkeep.home.sessions import (
        count_long_messages,
        find_state_session,
        flags_of,
        is_adopted,
        messages_near,
        session_as_lines,
        session_as_object,
        session_lines,
    )
    from threadkeep.home.status import KnowledgeStatus, MailStatus, StateStatus, Status, StoreStatus

__all__ = ["KINDS", "Backup", "Home", "KnowledgeStatus", "MailStatus", "Paths", "StateStatus"]
__all__ += ["Status", "StoreStatus", "Timeline", "Turn", "count_long_messages"]
__all__ += ["find_state_session", "flags_of", "follow", "is_adopted", "iso", "join_text", "json"]
__all__ += [
    "messages_near",
    "now_ms",
    "parse_duration",
    "printable",
    "running_runs",
    "session_as_lines",
]
__all__ += ["session_as_object", "session_lines"]

# Where the heavier names live; loaded when first asked for: all four stores take 100 ms.
_LAZY = {
    **dict.fromkeys(("Timeline", "Turn"), "threadkeep.chat.timeline"),
    **dict.fromkeys(("KINDS", "Backup"), "threadkeep.home.backups"),
    **dict.fromkeys(("follow", "running_runs"), "threadkeep.home.live"),
    "Home": "threadkeep.home.facade",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'threadkeep.home' has no attribute {name!r}")
    other = "status" if name.endswith("Status") else "sessions"
    return getattr(import_module(_LAZY.get(name, f"threadkeep.home.{other}")), name)
