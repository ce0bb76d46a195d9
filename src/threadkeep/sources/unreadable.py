"""Programs whose conversations cannot be read: what is there is told, and why."""

from typing import Final

from threadkeep.sources.format import UnreadableLogs
from threadkeep.sources.places import place

_ENCRYPTED: Final = "found, not readable: the program encrypts its conversations"
_PACKED: Final = "found, not readable: the program encrypts or packs its conversations"
_UNKNOWN: Final = "found, not readable: the format is not known to this version"
_FIX: Final = "copy what you want to keep out of the program itself"


def _unreadable(agent: str, why: str, *roots: str) -> UnreadableLogs:
    return UnreadableLogs(agent, why, _FIX, (place(roots),))


def _settings(name: str, rest: str) -> list[str]:
    return [f"{{{base}}}/{name}/{rest}" for base in ("config", "support", "roaming")]


WINDSURF: Final = _unreadable("windsurf", _ENCRYPTED, "~/.codeium/windsurf/cascade")
ANTIGRAVITY: Final = _unreadable(
    *("antigravity", _PACKED),
    *(f"~/.gemini/antigravity{one}/conversations" for one in ("", "-cli", "-ide")),
)
TRAE: Final = _unreadable("trae", _ENCRYPTED, *_settings("Trae", "User"))
KIRO_IDE: Final = _unreadable(
    "kiro-ide", _UNKNOWN, *_settings("Kiro", "User/globalStorage/kiro.kiroagent")
)
JUNIE: Final = _unreadable("junie", _UNKNOWN, "~/.junie/sessions")
CODEBUFF: Final = _unreadable("codebuff", _UNKNOWN, "{config}/manicode/projects")
