"""What a source yields: entries of a conversation, facts about it, usage, segments, tool runs.

A source is read in one of two ways. A *line log* only grows: each new line is one record, fed to a
parser whose small state is kept between two looks. A *document* (a database, a file that is
rewritten whole) is turned into records with lasting keys; only new and changed ones are archived.
Either way a record is one line of bytes, masked before anything here sees it, and the archive
keeps exactly these lines: whatever is shown later is read from them again by `Source.entries`.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

Role = Literal["user", "assistant", "tool", "system"]
Kind = Literal[
    "prompt",  # what a person (or, for a subagent, its parent) asked
    "text",  # what the agent answered
    "reasoning",  # what it thought
    "tool_call",  # what it did
    "tool_result",  # what came back
    "summary",  # what a compaction left
    "note",  # context, notices and errors that the program itself put in
]


class Entry(msgspec.Struct, gc=False):
    """One thing said or done in a conversation: a message, or one block of it."""

    # Unique within its session; the same record gives the same key whenever it is read.
    key: str
    role: Role
    kind: Kind
    at: int | None  # epoch milliseconds, None if the log does not say
    text: str  # what is shown and searched
    session_id: str = ""  # empty: the session of its log
    tool: str = ""
    call_id: str = ""
    error: bool = False
    model: str = ""


class Usage(msgspec.Struct, gc=False):
    """What one answer of a model cost; of several with one key the one with most output counts."""

    key: str  # unique for the harness, over all its sessions: a replayed answer counts once
    at: int | None
    model: str
    input: int = 0  # without what came from or went to the cache
    output: int = 0  # with reasoning
    cache_read: int = 0
    cache_write: int = 0  # all of it
    cache_write_1h: int = 0  # the part that is kept for an hour
    reasoning: int = 0
    final: bool = True  # False: the log may have been cut before the last count came
    session_id: str = ""


class Facts(msgspec.Struct, gc=False, omit_defaults=True):
    """What is known about a session; empty means nothing new is known."""

    parent_session_id: str = ""
    is_subagent: bool = False
    title: str = ""
    agent: str = ""  # the agent's role or name inside its program
    model: str = ""
    cwd: str = ""
    git_branch: str = ""
    slug: str = ""
    version: str = ""  # of the program that wrote the log
    hidden: bool = False  # internal threads: kept, but not listed by default


class Segment(msgspec.Struct, gc=False):
    """A slice of a session, the unit of enrichment: one row of `agentic_sessions`."""

    session_id: str
    index: int
    start: int
    end: int
    project_dir: str
    cwd: str
    summary: str
    prompts: list[str] | None
    tools: list[tuple[str, str]] | None  # name, summary
    texts: list[str]
    messages: int
    tokens: int = 0
    git_branch: str | None = None
    is_subagent: bool = False
    parent_session_id: str | None = None
    model: str = ""
    agent: str = ""
    slug: str = ""
    title: str = ""
    diffs_json: str = "null"
    hashed_besides: bytes = b""  # what goes into the content hash behind the three common fields


class ToolRun(msgspec.Struct, gc=False):
    """A tool call with its result: one row of `events`, of kind claude-tool."""

    call_id: str
    session_id: str
    at: int
    tool: str
    command: str
    cwd: str
    git_branch: str | None
    exit_code: int = 0
    duration_ms: int = 0
    output: str | None = None
    truncated: bool = False


class Harvest(msgspec.Struct):
    """What came up since the last look, beside the entries themselves."""

    facts: dict[str, Facts] = {}
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


class Log(msgspec.Struct, frozen=True):
    """One place where a program keeps conversations, as found on the disk."""

    path: str
    stamp: Stamp  # of a database: with the size and time of its write-ahead log added
    session_id: str = ""  # what the path says; a parser may know better
    project_dir: str = ""
    parent_session_id: str | None = None
    is_subagent: bool = False


class Item(NamedTuple):
    """One session inside a document, and what must differ for it to be read again."""

    item: str
    fingerprint: str


class UserHome(msgspec.Struct, frozen=True):
    """Whose logs are looked for: a home folder, and the variables that move things out of it.

    `env` is empty if somebody named another folder than the user's own.
    """

    home: Path
    env: Mapping[str, str] = {}


class Parser(Protocol):
    """Reads the lines of one log in order; its state fits a database row."""

    def feed(self, record: Any, line: bytes, number: int) -> list[Entry]:
        """Take the next record: its JSON value, the line it came from, the line's number."""
        ...

    def harvest(self) -> Harvest:
        """Give what came up since the last call; asking twice changes nothing."""
        ...

    def state(self) -> bytes:
        """Give what a new parser needs to go on from here."""
        ...


class Source(Protocol):
    """One producer of conversations. What follows `find` is pure but for `items` and `records`."""

    @property
    def harness(self) -> str:
        """The name under which everything of it is stored."""
        ...

    @property
    def kind(self) -> Literal["lines", "document"]:
        """How it is read."""
        ...

    def roots(self, user: UserHome) -> list[Path]:
        """Name the folders (or files) to look into and to watch, whether they exist or not."""
        ...

    def find(self, user: UserHome) -> Iterator[Log]:
        """Yield the logs that are there now, sorted by path; one stat each, none is opened."""
        ...

    def parser(self, log: Log, state: bytes | None) -> Parser:
        """Make a parser that starts afresh, or goes on from a state."""
        ...

    def entries(self, record: Any, line: bytes, number: int) -> list[Entry]:
        """Read one record alone, as `feed` would: the way from the archive back to text."""
        ...

    def items(self, log: Log) -> Iterable[Item]:
        """Yield the sessions in a document; a source of line logs has none."""
        ...

    def records(self, log: Log, item: str) -> Iterable[tuple[str, bytes]]:
        """Yield the records of one session in order: a lasting key, and the record as JSON."""
        ...
