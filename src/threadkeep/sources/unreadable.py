"""Programs whose conversations cannot be read: what is there is told, and why."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import msgspec

from threadkeep.knowledge.records import Entry
from threadkeep.sources.format import RecordParser, Told
from threadkeep.sources.places import LogPlace, place, roots_of
from threadkeep.sources.records import DocumentItem, Log, Parser, UnreadablePlace, UserHome

_ENCRYPTED: Final = "found, not readable: the program encrypts its conversations"
_PACKED: Final = "found, not readable: the program encrypts or packs its conversations"
_UNKNOWN: Final = "found, not readable: the format is not known to this version"
_FIX: Final = "copy what you want to keep out of the program itself"


class UnreadableLogs(msgspec.Struct, frozen=True):
    """A program whose conversations are found and cannot be read."""

    agent: str
    places: tuple[LogPlace, ...]
    why: str = _UNKNOWN

    kind: ClassVar[Literal["document"]] = "document"

    def roots(self, user: UserHome) -> list[Path]:
        """Name the folders that it keeps them in."""
        return roots_of(self.places, user)

    def find(self, user: UserHome) -> Iterator[Log]:
        """Find nothing to read, and tell where something is."""
        for root in self.roots(user):
            if root.is_dir():
                user.tell(UnreadablePlace(str(root), self.why, _FIX, is_ours=False))
        return iter(())

    def parser(self, log: Log, state: bytes | None) -> Parser:
        """Read nothing."""
        return RecordParser(log, self.agent, lambda *_: Told(), state)

    def entries(self, record: Any, line: bytes, number: int) -> list[Entry]:
        """Read nothing."""
        del record, line, number
        return []

    def items(self, log: Log) -> Iterable[DocumentItem]:
        """Have none."""
        del log
        return ()

    def records(self, log: Log, item: str) -> Iterable[tuple[str, bytes]]:
        """Have none."""
        del log, item
        return ()


def _settings(name: str, rest: str) -> tuple[str, ...]:
    return tuple(f"{{{base}}}/{name}/{rest}" for base in ("config", "support", "roaming"))


WINDSURF: Final = UnreadableLogs("windsurf", (place("~/.codeium/windsurf/cascade"),), _ENCRYPTED)
ANTIGRAVITY: Final = UnreadableLogs(
    "antigravity",
    (place([f"~/.gemini/antigravity{one}/conversations" for one in ("", "-cli", "-ide")]),),
    _PACKED,
)
TRAE: Final = UnreadableLogs("trae", (place(_settings("Trae", "User")),), _ENCRYPTED)
KIRO_IDE: Final = UnreadableLogs(
    "kiro-ide", (place(_settings("Kiro", "User/globalStorage/kiro.kiroagent")),)
)
JUNIE: Final = UnreadableLogs("junie", (place("~/.junie/sessions"),))
CODEBUFF: Final = UnreadableLogs("codebuff", (place("{config}/manicode/projects"),))
