"""What is not captured: projects that the user excluded, forgotten sessions, our own work."""

from collections.abc import Callable
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from threadkeep.base.tx import Tx
from threadkeep.knowledge.archive import digest
from threadkeep.knowledge.copies import parts_of
from threadkeep.knowledge.forgetting import forgotten_lines
from threadkeep.sources.copy_marks import origins_in
from threadkeep.sources.decoding import decode_line
from threadkeep.sources.records import Log, Parser

# Prompts of our own enrichment carry this mark, so that no session is ever learned from twice.
OWN_MARK: Final = "threadkeep:enrichment"
ENOUGH_LINES: Final = 60


class Exclusion(msgspec.Struct, frozen=True):
    """Patterns of projects that stay out: a folder (and all below it), a name, or a glob."""

    patterns: tuple[str, ...] = ()

    def name(self) -> str:
        """Name these rules, so that a log kept out by others is looked at again."""
        return digest("\0".join(self.patterns).encode()).hex()

    def of_place(self, place: str) -> bool:
        """Tell whether a folder or the name of a project is excluded."""
        return bool(place) and any(_covers(pattern, place) for pattern in self.patterns)

    def of_log(self, log: Log) -> bool:
        """Tell whether a log is excluded by where it lies."""
        return self.of_place(log.path) or self.of_place(log.project_dir)

    def of_beginning(self, data: bytes, parser: Parser) -> bool:
        """Tell whether a log is excluded by how it begins: the folder it works in, or our mark.

        `parser` is one of its own: it is used up.
        """
        mark = OWN_MARK.encode()
        if not self.patterns and mark not in data:
            return False
        for number, line in enumerate(data.split(b"\n", ENOUGH_LINES)[:ENOUGH_LINES]):
            if (self.patterns or mark in line) and _is_ours(parser, line, number):
                return True
        return any(self.of_place(facts.cwd) for facts in parser.harvest().facts.values())


def _is_ours(parser: Parser, line: bytes, number: int) -> bool:
    # A session may well speak of the mark; only a prompt that begins with it is our own work.
    with suppress(Exception):  # whatever is wrong with a line shows when it is captured
        for record in decode_line(line):
            for entry in parser.feed(record, line, number):
                if entry.kind == "prompt" and entry.text.lstrip().startswith(OWN_MARK):
                    return True
    return False


def _covers(pattern: str, place: str) -> bool:
    folder = pattern.rstrip("/")
    if place == folder or place.startswith(folder + "/"):
        return True
    if "/" not in folder and "\\" not in folder:
        place = place.replace("\\", "/").rstrip("/").rpartition("/")[2]
    return fnmatchcase(place, folder)


def kept_out(tx: Tx) -> Callable[[bytes], bool]:
    """Give a test for lines that were forgotten, alone or as part of the session they copy."""
    if tx.value("any_forgotten") is None:
        return lambda _: False
    is_forgotten = forgotten_lines(tx)
    return lambda line: is_forgotten(line) or any(_is_gone(tx, one) for one in origins_in(line))


def _is_gone(tx: Tx, origin: str) -> bool:
    named = parts_of(origin)
    if named is None:
        return False
    values = {"harness": named[0], "session_id": named[1]}
    return tx.value("is_forgotten", values) is not None
