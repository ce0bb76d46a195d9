"""What a run of capture did, and how far it is."""

import logging
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from threadkeep.base.json import decode_line
from threadkeep.base.tx import Tx
from threadkeep.errors import NotFound, ThreadkeepError
from threadkeep.knowledge.archive import digest
from threadkeep.knowledge.copies import parts_of
from threadkeep.knowledge.forget import any_forgotten, forgotten_lines, is_forgotten
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.sources.copy_marks import origins_in
from threadkeep.sources.records import Log, Parser, Source, UnreadablePlace, UserHome


class AgentReport(msgspec.Struct):
    """What was found and taken of one agent."""

    found: int = 0  # logs on the disk
    changed: int = 0  # of these, logs with something new
    changed_bytes: int = 0  # and how large they are
    excluded: int = 0
    lines: int = 0  # archived in this run
    source_bytes: int = 0
    entries: int = 0
    segments: int = 0
    memories: int = 0  # notes that came or changed
    bad_lines: int = 0
    masked_lines: int = 0
    unknown: dict[str, int] = {}
    errors: dict[str, str] = {}  # path -> what happened
    passed: dict[str, str] = {}  # path -> why it was passed over on purpose


class CaptureReport(msgspec.Struct):
    """What one run did, by agent."""

    agents: dict[str, AgentReport] = {}
    seconds: float = 0.0
    dry_run: bool = False

    def of(self, agent: str) -> AgentReport:
        """Return the part of one agent."""
        return self.agents.setdefault(agent, AgentReport())

    @property
    def errors(self) -> int:
        """How many logs could not be read."""
        return sum(len(part.errors) for part in self.agents.values())


class Progress(msgspec.Struct):
    """How far a run is."""

    logs_done: int = 0
    logs_total: int = 0
    bytes_done: int = 0
    bytes_total: int = 0
    entries: int = 0
    errors: int = 0
    path: str = ""
    doing: str = ""  # if it is not capturing


Watcher = Callable[[Progress], None]


def silent(_: Progress) -> None:
    """Show nothing."""


# ------------------------------------------------------------------------------
# What may go wrong with one log without stopping the others, and how it is told.

log = logging.getLogger(__name__)

# What a broken log, or a mistake in the parser of one, raises. An error of the database under the
# store is none of these, and ends the run.
TROUBLES: Final = (
    *(OSError, ThreadkeepError, msgspec.MsgspecError),
    *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError),
)


def tell(what: str, error: Exception, part: AgentReport) -> str:
    """Report what could not be read, and give the reason in words."""
    expected = isinstance(error, (OSError, ThreadkeepError))
    said = str(error) if expected else f"{type(error).__name__}: {error}"
    log.warning("%s: %s", what, said, exc_info=not expected)
    part.errors[what] = said
    return said


def has_vanished(path: str, error: Exception) -> bool:
    """Tell whether an error only means that a log was deleted after it was found."""
    return isinstance(error, (FileNotFoundError, NotFound)) and not exists(Path(path))


def tell_unseen(unseen: Iterable[UnreadablePlace], part: AgentReport) -> None:
    """Report the places that could not be looked into; a link is not followed, and no error."""
    for one in unseen:
        if one.is_failure:
            log.warning("%s: %s", one.path, one.told)
            part.errors[one.path] = one.told
        else:
            part.passed[one.path] = one.told


def exists(place: Path) -> bool:
    """Tell whether a place is there; one that may not be looked at is not."""
    try:
        return place.exists()
    except OSError:
        return False


# ------------------------------------------------------------------------------
# What is not captured: projects that the user excluded, forgotten sessions, our own work.

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
    """Return a test for lines that were forgotten, alone or as part of the session they copy."""
    if not any_forgotten(tx):
        return lambda _: False
    is_known = forgotten_lines(tx)
    return lambda line: is_known(line) or any(_is_gone(tx, one) for one in origins_in(line))


def _is_gone(tx: Tx, origin: str) -> bool:
    named = parts_of(origin)
    return named is not None and is_forgotten(tx, *named)


# ------------------------------------------------------------------------------
# What there is to see of a source: its logs, and the places that could not be looked into.


class SourceLogs(msgspec.Struct, frozen=True):
    """The logs of one source as they are now, and what stayed hidden."""

    logs: list[Log]
    roots: list[str]  # those that exist
    unseen: list[UnreadablePlace]

    def hides(self, path: str) -> bool:
        """Tell whether a log may still be there, behind a door that is closed to us."""
        return is_below(path, [one.path for one in self.unseen if not one.is_link])


def see(source: Source, user: UserHome) -> SourceLogs:
    """Look for the logs of a source, and hear of every place that cannot be read."""
    unseen: dict[str, UnreadablePlace] = {}

    def hear(one: UnreadablePlace) -> None:
        unseen.setdefault(one.path, one)

    whose = msgspec.structs.replace(user, tell=hear, projects=cache(user.projects))
    logs = list(source.find(whose))
    roots = [str(root) for root in source.roots(whose) if exists(root)]
    return SourceLogs(logs, roots, list(unseen.values()))


def is_below(path: str, places: Iterable[str]) -> bool:
    """Tell whether a path is one of these places, or lies below one."""
    return any(path == place or path.startswith(place + os.sep) for place in places)


def rooted(log: Log, roots: Iterable[str]) -> Log:
    """Give a log the nearest of the roots that it lies below; one that is a root was named."""
    above = [root for root in roots if log.path.startswith(root + os.sep)]
    if log.root or not above:
        return log
    return msgspec.structs.replace(log, root=max(above, key=len))


def index_behind(store: KnowledgeStore, *, live: bool = False) -> None:
    """Index what was brought in; no trouble with the index is one of what was captured.

    While a log grows before our eyes (`live`), the places of its entries wait for the next look at
    all logs, or for a question: three of 25 pages that a new line writes.
    """
    with suppress(ThreadkeepError):  # whoever captures or asks next continues it
        store.index(lazily=live)
