"""Gemini CLI before its line logs: one JSON document per session, rewritten on each change.

A session that is resumed moves to a line log beside the document, which stays as it was: then the
log alone is read, as it begins with everything that the document has.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import msgspec

from threadkeep.base.json import decode_line
from threadkeep.errors import Invalid
from threadkeep.knowledge.records import Entry
from threadkeep.sources.common import rows, table, text
from threadkeep.sources.files import LogFile
from threadkeep.sources.gemini_cli import GeminiParser, chats, entries_of, roots
from threadkeep.sources.records import DocumentItem, Log, UserHome


class GeminiDocuments:
    """The sessions of Gemini CLI that are kept as whole documents."""

    kind: Final = "document"

    def __init__(self, agent: str = "gemini-cli", folder: str = "") -> None:
        """Take the program's name; one that began as a copy of Gemini CLI has its own folder."""
        self.agent = agent
        self._folder = folder

    def roots(self, user: UserHome) -> list[Path]:
        """Name the folders to look into."""
        return [user.home / self._folder / "tmp"] if self._folder else roots(user)

    def find(self, user: UserHome) -> Iterator[Log]:
        """Yield the documents that no line log has taken the place of."""
        found = chats(self.roots(user), user)
        for path, log in found.items():
            if path.suffix == ".json" and path.with_suffix(".jsonl") not in found:
                yield log

    def parser(self, log: Log, state: bytes | None) -> GeminiParser:
        """Make a parser for one session."""
        return GeminiParser(log, state)

    def entries(self, record: Any, line: bytes, number: int) -> list[Entry]:
        """Read one record alone."""
        del line
        return entries_of(record, number)

    def items(self, log: Log) -> Iterable[DocumentItem]:
        """Yield the one session of the document."""
        data = _content(log)
        own = text(_document(log, data).get("sessionId"))
        yield DocumentItem(own or log.session_id, blake2b(data, digest_size=16).hexdigest())

    def records(self, log: Log, item: str) -> Iterable[tuple[str, bytes]]:
        """Yield the session's own data, then its messages."""
        document = _document(log, _content(log))
        messages = rows(document.pop("messages", None))
        document.setdefault("sessionId", item)
        yield "session", msgspec.json.encode(document)
        for place, message in enumerate(messages):
            key = text(table(message).get("id")) or f"{item}:{place}"
            yield key, msgspec.json.encode(_with_id(message, key))


def _with_id(message: object, key: str) -> object:
    """Return a message without an id its place as one: the line number changes between looks."""
    return {**message, "id": key} if isinstance(message, dict) else message


def _content(log: Log) -> bytes:
    with LogFile(log.path, log.root) as file:
        return file.whole()


def _document(log: Log, data: bytes) -> dict[str, Any]:
    """Read the whole document; it may be half-written at this moment."""
    try:
        found = decode_line(data)
    except Invalid as error:
        msg = f"{log.path} is not a complete JSON document: {error}"
        raise Invalid(msg, hint="it is read again when it has changed") from error
    return table(found[0]) if found else {}


SOURCE: Final = GeminiDocuments()
QWEN: Final = GeminiDocuments("qwen-code", ".qwen")  # before version 0.5
