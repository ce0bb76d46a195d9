"""What a source yields: entries of a conversation, facts about it, usage, segments, tool runs.

A source is read in one of two ways. A *line log* only grows: each new line is one record, fed to a
parser whose small state is kept between two looks. A *document* (a database, a file that is
rewritten whole) is turned into records with lasting keys; only new and changed ones are archived.
Of some documents, our own stores, a session can be read on from a cursor: what comes before it is
compared in a few sums, and read again only if these differ.
(Beside these there are *memories*: notes in which nobody speaks, taken whole and never archived.)
Either way a record is one line of bytes, masked before anything here sees it, and the archive
keeps exactly these lines: whatever is shown later is read from them again by `Source.entries`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import msgspec

from threadkeep.knowledge.records import Entry, Segment, SessionFacts, ToolRun, Usage


class Harvest(msgspec.Struct):
    """What came up since the last look, beside the entries themselves."""

    facts: dict[str, SessionFacts] = {}
    usage: list[Usage] = []
    segments: list[Segment] = []  # the closed ones, and the open one as it is now
    tools: list[ToolRun] = []
    unknown: dict[str, int] = {}  # record types this version does not know, with their number


class Stamp(NamedTuple):
    """How a file looked: if this is the same, nothing in it has changed."""

    size: int
    mtime_ns: int
    device: int
    inode: int
    ctime_ns: int = 0  # nobody can set it: a rewrite that puts size and mtime back shows here


class UnreadablePlace(NamedTuple):
    """A place that may hold logs and cannot be read, why, and what to do about it."""

    path: str
    why: str
    fix: str
    is_link: bool = False  # it leads out of its root: that is no trouble, it is not followed
    is_ours: bool = True  # False: somebody else's, and only guessed to hold logs

    @property
    def is_failure(self) -> bool:
        """Tell whether something may be missing because of it."""
        return self.is_ours and not self.is_link

    @property
    def told(self) -> str:
        """Why, and what to do about it."""
        return f"{self.why}: {self.fix}"


class Log(msgspec.Struct, frozen=True):
    """One place where a program keeps conversations, as found on the disk."""

    path: str
    stamp: Stamp  # of a database: with the size and time of its write-ahead log added
    session_id: str = ""  # what the path says; a parser may know better
    project_dir: str = ""
    parent_session_id: str | None = None
    is_subagent: bool = False
    root: str = ""  # below this nothing on the way to it may be a link; empty: it is named itself


class DocumentItem(NamedTuple):
    """One session inside a document, and what must differ for it to be read again."""

    item: str
    fingerprint: str


class SessionExcerpt(NamedTuple):
    """The records of a session, all or those behind a cursor, and where to continue later."""

    records: Iterable[tuple[str, bytes]]
    resumed: bool = False  # what comes before the cursor is as it was, and left out
    start: str = ""  # the key of the record from which on the next excerpt is to be
    cursor: str = ""  # what gives that excerpt; empty: the session is to be read whole again


def _nobody(_: UnreadablePlace) -> None:
    """Hear nothing."""


class UserHome(msgspec.Struct, frozen=True):
    """Whose logs are looked for: a home folder, and the variables that move things out of it.

    `env` is empty if somebody named another folder than the user's own. `roots` are folders that
    the user named, `projects` those in which agents worked: some programs leave their logs there.
    """

    home: Path
    env: Mapping[str, str] = {}
    roots: tuple[Path, ...] = ()
    projects: Callable[[], Iterable[Path]] = tuple  # asked by those who need it: it takes a query
    tell: Callable[[UnreadablePlace], None] = _nobody  # hears of what could not be looked into


class Parser(Protocol):
    """Reads the lines of one log in order; its state fits a database row."""

    def feed(self, record: Any, line: bytes, number: int) -> list[Entry]:
        """Take the next record: its JSON value, the line it came from, the line's number."""
        ...

    def harvest(self) -> Harvest:
        """Return what came up since the last call; asking twice changes nothing."""
        ...

    def state(self) -> bytes:
        """Return what a new parser needs to continue from here."""
        ...


class Source(Protocol):
    """One producer of conversations. What follows `find` is pure but for `items` and `records`."""

    @property
    def agent(self) -> str:
        """The name under which everything of it is stored."""
        ...

    @property
    def kind(self) -> Literal["lines", "document", "memory"]:
        """How it is read."""
        ...

    def roots(self, user: UserHome) -> list[Path]:
        """Name the folders (or files) to look into and to watch, whether they exist or not."""
        ...

    def find(self, user: UserHome) -> Iterator[Log]:
        """Yield the logs that are there now, sorted by path; one stat each, none is opened."""
        ...

    def parser(self, log: Log, state: bytes | None) -> Parser:
        """Make a parser that starts afresh, or continues from a state."""
        ...

    def entries(self, record: Any, line: bytes, number: int) -> list[Entry]:
        """Read one record alone, as `feed` would: the way from the archive back to text."""
        ...

    def items(self, log: Log) -> Iterable[DocumentItem]:
        """Yield the sessions in a document; a source of line logs has none."""
        ...

    def records(self, log: Log, item: str) -> Iterable[tuple[str, bytes]]:
        """Yield the records of one session in order: a lasting key, and the record as JSON."""
        ...


@runtime_checkable
class CursorSource(Protocol):
    """A source of documents whose sessions can be read on from where they were read to."""

    def excerpt(self, log: Log, item: str, cursor: str) -> AbstractContextManager[SessionExcerpt]:
        """Open a session behind a cursor, or whole if that is empty or does not hold any more.

        What tells about the session itself comes first in either case.
        """
        ...
