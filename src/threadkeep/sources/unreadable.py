"""Programs whose conversations cannot be read: what is there is told, and why."""

from functools import partial
from typing import Final

from threadkeep.sources.format import UnreadSource
from threadkeep.sources.places import place

_ENCRYPTED: Final = "found, not readable: the program encrypts its conversations"
_PACKED: Final = "found, not readable: the program encrypts or packs its conversations"
_UNKNOWN: Final = "found, not readable: the format is not known to this version"

_unread = partial(UnreadSource, fix="copy what you want to keep out of the program itself")


def _settings(name: str, rest: str) -> tuple[str, ...]:
    return tuple(f"{{{base}}}/{name}/{rest}" for base in ("config", "support", "roaming"))


WINDSURF: Final = _unread("windsurf", _ENCRYPTED, places=(place("~/.codeium/windsurf/cascade"),))
ANTIGRAVITY: Final = _unread(
    "antigravity",
    _PACKED,
    places=(place([f"~/.gemini/antigravity{one}/conversations" for one in ("", "-cli", "-ide")]),),
)
TRAE: Final = _unread("trae", _ENCRYPTED, places=(place(_settings("Trae", "User")),))
KIRO_IDE: Final = _unread(
    "kiro-ide",
    _UNKNOWN,
    places=(place(_settings("Kiro", "User/globalStorage/kiro.kiroagent")),),
)
JUNIE: Final = _unread("junie", _UNKNOWN, places=(place("~/.junie/sessions"),))
CODEBUFF: Final = _unread("codebuff", _UNKNOWN, places=(place("{config}/manicode/projects"),))
