"""Home: a folder and its stores. Surfaces import from here, and nothing below."""

from threadkeep.base import json
from threadkeep.base.clock import iso, now_ms, parse_duration
from threadkeep.base.paths import Paths
from threadkeep.base.text import join_text, printable
from threadkeep.chat.timeline import Timeline, Turn
from threadkeep.home.backups import KINDS, Backup
from threadkeep.home.facade import Home
from threadkeep.home.live import follow, running_runs
from threadkeep.home.sessions import (
    count_long_messages,
    find_state_session,
    flags_of,
    is_adopted,
    session_as_lines,
    session_as_object,
    session_lines,
)
from threadkeep.home.status import (
    KnowledgeStatus,
    MailStatus,
    StateStatus,
    Status,
    StoreStatus,
)

__all__ = [
    "KINDS",
    "Backup",
    "Home",
    "KnowledgeStatus",
    "MailStatus",
    "Paths",
    "StateStatus",
    "Status",
    "StoreStatus",
    "Timeline",
    "Turn",
    "count_long_messages",
    "find_state_session",
    "flags_of",
    "follow",
    "is_adopted",
    "iso",
    "join_text",
    "json",
    "now_ms",
    "parse_duration",
    "printable",
    "running_runs",
    "session_as_lines",
    "session_as_object",
    "session_lines",
]
