"""Codex: the rollouts of OpenAI's coding agent, one file of lines for each thread."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from threadkeep.knowledge.records import Entry
from threadkeep.sources.codex_items import entries_of, unwrap
from threadkeep.sources.codex_parser import CodexParser
from threadkeep.sources.codex_paths import find_rollouts, rollout_folders
from threadkeep.sources.records import DocumentItem, Log, UserHome


class CodexSource:
    """Rollouts of every version, from bare lines to the paginated history."""

    harness: Final = "codex"
    kind: Final = "lines"

    def roots(self, user: UserHome) -> list[Path]:
        """Name the folders to look into."""
        return rollout_folders(user)

    def find(self, user: UserHome) -> Iterator[Log]:
        """Yield the rollouts that are there now, each once."""
        return find_rollouts(user)

    def parser(self, log: Log, state: bytes | None) -> CodexParser:
        """Make a parser of one rollout."""
        return CodexParser(log, state)

    def entries(self, record: Any, line: bytes, number: int) -> list[Entry]:  # noqa: ARG002
        """Read one record alone.

        An event that repeats a prompt or an answer is given here, too; `feed` leaves it out where
        the rollout has the item it repeats.
        """
        return entries_of(unwrap(record), line)

    def items(self, log: Log) -> Iterable[DocumentItem]:  # noqa: ARG002
        """A rollout is no document."""
        return ()

    def records(self, log: Log, item: str) -> Iterable[tuple[str, bytes]]:  # noqa: ARG002
        """A rollout is no document."""
        return ()


SOURCE: Final = CodexSource()
