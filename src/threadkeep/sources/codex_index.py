"""Codex: the names of threads, which stand in an index beside the rollouts."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from threadkeep.knowledge.records import Entry, SessionFacts
from threadkeep.sources.codex_paths import codex_homes
from threadkeep.sources.common import table, text
from threadkeep.sources.folders import file_stamp
from threadkeep.sources.records import DocumentItem, Harvest, Log, UserHome

_NAME: Final = "session_index.jsonl"


class IndexParser:
    """Reads `{id, thread_name, updated_at}` lines; the last name of a thread counts."""

    def __init__(self) -> None:
        """Start, or go on: no line needs another."""
        self._facts: dict[str, SessionFacts] = {}
        self._unknown = 0

    def feed(self, record: Any, line: bytes, number: int) -> list[Entry]:  # noqa: ARG002
        """Take the next line; nothing is said in it."""
        named = table(record)
        thread, title = text(named.get("id")), text(named.get("thread_name"))
        if thread and title:
            self._facts[thread] = SessionFacts(title=title)
        elif not thread:
            self._unknown += 1
        return []

    def harvest(self) -> Harvest:
        """Give the names that came since the last call."""
        unknown = {"session_index": self._unknown} if self._unknown else {}
        harvest = Harvest(facts=self._facts, unknown=unknown)
        self._facts, self._unknown = {}, 0
        return harvest

    def state(self) -> bytes:
        """Nothing is kept from one line to the next."""
        return b""


class CodexIndex:
    """The index of names as a log of its own: it has no session, only facts about others."""

    harness: Final = "codex"
    kind: Final = "lines"

    def roots(self, user: UserHome) -> list[Path]:
        """Name the index files."""
        return [home / _NAME for home in codex_homes(user)]

    def find(self, user: UserHome) -> Iterator[Log]:
        """Yield the index files that are there."""
        for path in sorted(self.roots(user)):
            stamp = file_stamp(path, user)
            if stamp is not None:
                yield Log(path=str(path), stamp=stamp, root=str(path.parent))

    def parser(self, log: Log, state: bytes | None) -> IndexParser:  # noqa: ARG002
        """Make a parser."""
        return IndexParser()

    def entries(self, record: Any, line: bytes, number: int) -> list[Entry]:  # noqa: ARG002
        """Nothing is said in an index."""
        return []

    def items(self, log: Log) -> Iterable[DocumentItem]:  # noqa: ARG002
        """An index is no document."""
        return ()

    def records(self, log: Log, item: str) -> Iterable[tuple[str, bytes]]:  # noqa: ARG002
        """An index is no document."""
        return ()


SOURCE: Final = CodexIndex()
