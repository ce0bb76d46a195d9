"""Programs that encrypt their conversations: what is there is told, and cannot be read."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import msgspec

from threadkeep.knowledge.records import Entry
from threadkeep.sources.format import RecordParser, Told
from threadkeep.sources.places import LogPlace, place, roots_of
from threadkeep.sources.records import DocumentItem, Log, Parser, UnreadablePlace, UserHome

_WHY: Final = "found, not readable: the program encrypts its conversations"
_FIX: Final = "copy what you want to keep out of the program itself"


class EncryptedLogs(msgspec.Struct, frozen=True):
    """A program whose conversations nobody else can read."""

    agent: str
    places: tuple[LogPlace, ...]

    kind: ClassVar[Literal["document"]] = "document"

    def roots(self, user: UserHome) -> list[Path]:
        """Name the folders that it keeps them in."""
        return roots_of(self.places, user)

    def find(self, user: UserHome) -> Iterator[Log]:
        """Find nothing to read, and tell where something is."""
        for root in self.roots(user):
            if root.is_dir():
                user.tell(UnreadablePlace(str(root), _WHY, _FIX, is_ours=False))
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


WINDSURF: Final = EncryptedLogs("windsurf", (place("~/.codeium/windsurf/cascade"),))
ANTIGRAVITY: Final = EncryptedLogs(
    "antigravity",
    (place([f"~/.gemini/antigravity{one}/conversations" for one in ("", "-cli", "-ide")]),),
)
TRAE: Final = EncryptedLogs(
    "trae", (place(("{config}/Trae/User", "{support}/Trae/User", "{roaming}/Trae/User")),)
)
