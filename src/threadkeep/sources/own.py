"""What sources of our own stores share: rows as lines, fingerprints, a parser of whole sessions.

A record has the same frame in all of them: `{"type": …, "session": <id>, "row": {columns}, …}`.
Each can be read alone, so that what the archive keeps needs nothing beside it.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import msgspec

from threadkeep.base.database import Database
from threadkeep.base.json import compact
from threadkeep.base.sqlite.foreign import open_foreign
from threadkeep.base.tx import Tx
from threadkeep.errors import NoStore
from threadkeep.knowledge.records import Entry, SessionFacts, Usage
from threadkeep.sources.common import OpenSegment, Segmenter, rows, table, text
from threadkeep.sources.folders import database_stamp
from threadkeep.sources.records import DocumentItem, Harvest, Log, SessionExcerpt, Stamp, UserHome

if TYPE_CHECKING:
    from threadkeep.base.postgres.served_tables import ServedTables

Row = dict[str, Any]
_NAME: Final = 80
_NAMES: Final = 200
_LATEST_MS: Final = 253_402_300_799_999  # the end of the year 9999


class OwnStoreRecord(NamedTuple):
    """What one record says; an empty session means that it says nothing."""

    session_id: str = ""
    entries: Sequence[Entry] = ()
    facts: SessionFacts | None = None
    usage: Sequence[Usage] = ()
    unknown: str = ""
    copied: bool = False  # another session has it, too: nothing new to learn from


Read = Callable[[Any], OwnStoreRecord]


class SessionParser:
    """Reads sessions from their first record on, or from a cursor with the slices open there."""

    def __init__(self, log: Log, label: str, read: Read, state: bytes | None = None) -> None:
        """Read records with `read`; `label` names the program in summaries."""
        self._log = log
        self._label = label
        self._read = read
        self._facts: dict[str, SessionFacts] = {}
        kept = msgspec.json.decode(state, type=dict[str, OpenSegment]) if state else {}
        self._segments = {name: Segmenter(log, label, one) for name, one in kept.items()}
        self._usage: list[Usage] = []
        self._unknown: Counter[str] = Counter()

    def feed(self, record: Any, line: bytes, number: int) -> list[Entry]:
        """Take the next record."""
        del line, number  # every row has an id of its own
        found = read_safely(self._read, record)
        if found.unknown:
            self._count(found.unknown)
        if found.facts is not None:
            self._facts[found.session_id] = found.facts
        self._usage += found.usage
        if found.entries and not found.copied:
            self._cut(found)
        return list(found.entries)

    def _cut(self, found: OwnStoreRecord) -> None:
        segmenter = self._segments.get(found.session_id)
        if segmenter is None:
            segmenter = self._segments[found.session_id] = Segmenter(self._log, self._label)
        facts = self._facts.setdefault(found.session_id, SessionFacts())
        for entry in found.entries:
            segmenter.add(entry, facts)

    def _count(self, name: str) -> None:
        short = name[:_NAME]
        if short in self._unknown or len(self._unknown) < _NAMES:
            self._unknown[short] += 1

    def harvest(self) -> Harvest:
        """Return what came up since the last call, beside the entries."""
        usage, self._usage = self._usage, []
        unknown, self._unknown = dict(self._unknown), Counter()
        segments = [
            segment
            for session_id, segmenter in self._segments.items()
            for segment in segmenter.take(session_id, self._facts.get(session_id, SessionFacts()))
        ]
        return Harvest(dict(self._facts), usage, segments, [], unknown)

    def state(self) -> bytes:
        """Return the slices that are open; what is known of a session is told again each time."""
        return msgspec.json.encode({name: one.open for name, one in self._segments.items()})


def read_safely(read: Read, record: Any) -> OwnStoreRecord:
    """Read a record of any shape; one too deep to be written out counts as unknown."""
    try:
        return read(record)
    except RecursionError:
        return OwnStoreRecord(unknown="nested too deeply")


def frame_of(record: Any) -> tuple[str, str, Row, Row]:
    """Take a record apart: its type, its session, its row, and the whole of it."""
    whole = table(record)
    return text(whole.get("type")), text(whole.get("session")), table(whole.get("row")), whole


# ---------------------------------------------------------------------- rows to lines


class OwnDatabase(Protocol):
    """A database that is open for reading: one snapshot."""

    def rows(self, sql: str, params: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query."""
        ...

    def tables(self) -> set[str]:
        """Name the tables."""
        ...

    def columns(self, table: str) -> list[str]:
        """Name the columns that a table really has."""
        ...


class ServedStore:
    """One of a home's own stores that is on a server: read as a file is, in one snapshot each time.

    Its sessions are compared by what is in them, never by a number that only rises: a row that is
    committed late is found as well.
    """

    def __init__(self, open_store: Callable[[], Database]) -> None:
        """Say what opens the store to look."""
        self._open = open_store
        self._database: Database | None = None
        self._name = ""

    def find(self, latest_use: str) -> Log | None:
        """Return its log with a stamp that differs after a commit; None if it was never begun.

        The query tells when it was last used, in epoch milliseconds.
        """
        try:
            database = self._opened()
        except NoStore:
            return None
        with database.read() as tx:
            seen = _served(tx).look(latest_use)
        self._name = seen.name
        return Log(seen.name, Stamp(seen.number, seen.latest * 1_000_000, 0, 0))

    def has(self, log: Log) -> bool:
        """Tell whether a log is this store."""
        return log.path == self._name

    @contextmanager
    def read(self) -> Iterator[OwnDatabase]:
        """Open one snapshot of it."""
        with self._opened().read() as tx:
            yield _served(tx)

    def _opened(self) -> Database:
        if self._database is None:
            self._database = self._open()
        return self._database

    def close(self) -> None:
        """Close its connections."""
        if self._database is not None:
            self._database.close()


def _served(tx: Tx) -> "ServedTables":
    # Where nothing is on a server, nothing of it is loaded.
    from threadkeep.base.postgres.served_tables import ServedTables  # noqa: PLC0415

    return ServedTables(tx)


OwnPlace = Path | ServedStore


def find_databases(
    places: Iterable[OwnPlace], user: UserHome, latest_use: str, *, is_root: bool = True
) -> list[Log]:
    """Return the databases among the places that are there now, sorted; no file is opened.

    Those that somebody named himself (`is_root`) may be links. A server is asked by a query when
    its store was last used.
    """
    served = [place.find(latest_use) for place in places if isinstance(place, ServedStore)]
    found = [log for log in served if log is not None]
    for path in sorted({place for place in places if isinstance(place, Path)}):
        stamp = database_stamp(path, user, is_root=is_root)
        if stamp is not None:
            found.append(Log(os.fspath(path), stamp))
    return found


def files_of(places: Iterable[OwnPlace]) -> list[Path]:
    """Return the places that are files."""
    return [place for place in places if isinstance(place, Path)]


@contextmanager
def open_own(places: Iterable[OwnPlace], log: Log) -> Iterator[OwnDatabase]:
    """Open the place of a log: a store on a server, or a file, with every caution."""
    for place in places:
        if isinstance(place, ServedStore) and place.has(log):
            with place.read() as database:
                yield database
            return
    with open_foreign(Path(log.path), root=log.root) as file:
        yield file


def line(**frame: Any) -> bytes:
    """Write a record as one line."""
    return msgspec.json.encode(frame)


def embed(value: Any) -> Any:
    """Put JSON that a column holds as text into a record as the value that it is.

    Written as text inside JSON its quotes would be escaped twice, and secrets in it would hide
    from the patterns that look for them. What is no JSON stays text.
    """
    if not isinstance(value, str):
        return value
    try:
        msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return _embed_odd(value)
    return msgspec.Raw(_on_one_line(value))


def _embed_odd(value: str) -> Any:
    """Half characters are JSON to some writers, and so are numbers of any size."""
    try:
        return msgspec.Raw(json.dumps(json.loads(value, parse_constant=str)).encode())
    except (ValueError, RecursionError):
        return value


def _on_one_line(value: str) -> bytes:
    # In JSON a line can only end between two values: inside a string it is escaped.
    return value.replace("\r", " ").replace("\n", " ").encode()


def row_of(values: Mapping[str, Any], as_json: frozenset[str] = frozenset()) -> Row:
    """Return a row without its empty columns; those of `as_json` hold JSON."""
    return {
        name: embed(value) if name in as_json else value
        for name, value in values.items()
        if value is not None
    }


def table_rows(
    database: OwnDatabase,
    name: str,
    rest: str = "",
    params: Sequence[Any] = (),
    *,
    without: frozenset[str] = frozenset(),
) -> Iterator[Row]:
    """Yield rows of a table by the columns that it has; `rest` is what follows its name in SQL."""
    names = [column for column in database.columns(name) if column not in without]
    columns = ", ".join(f"{name}.{quoted(column)}" for column in names)
    sql = f"SELECT {columns} FROM {name} {rest}"  # noqa: S608  (the names are ours and the file's)
    for values in database.rows(sql, params):
        yield dict(zip(names, values, strict=True))


def quoted(column: str) -> str:
    """Quote the name of a column."""
    return '"' + column.replace('"', '""') + '"'


def by_session(database: OwnDatabase, sql: str) -> Mapping[str, tuple[Any, ...]]:
    """Run a query whose first column is a session, and give the rest of each row by it."""
    return {row[0]: row[1:] for row in database.rows(sql)}


def items_of(
    database: OwnDatabase, name: str, looks: Iterable[str], without: frozenset[str]
) -> Iterator[DocumentItem]:
    """Yield the sessions of a table; `looks` are queries that tell what else has changed."""
    seen = [by_session(database, sql) for sql in looks]
    for row in table_rows(database, name, "ORDER BY id", without=without):
        session_id = row.get("id")
        if isinstance(session_id, str) and session_id:
            yield DocumentItem(
                session_id, fingerprint(row, *(look.get(session_id) for look in seen))
            )


def fingerprint(*seen: Any) -> str:
    """Make one short text of everything that must differ for a session to be read again."""
    return hashlib.blake2b(repr(seen).encode("utf-8", "replace"), digest_size=12).hexdigest()


# ---------------------------------------------------------------------- reading on from a cursor
#
# A session grows at its end. So its last message is read again each time, for it may grow, and of
# what comes before it a few sums are compared. Where these differ, something was changed, hidden
# or deleted there, and the session is read whole.

Place = tuple[int, str]  # where a message stands in its session
STAMP: Final = (1 << 40) - 1  # as many bits of a time as can be summed up without an end


class Before(NamedTuple):
    """What stands before a message: sums that differ when it is changed, and if it is at rest."""

    sums: tuple[Any, ...]
    settled: bool = True  # False: it was changed so lately that it may change without a trace


class OwnSessionRows(Protocol):
    """The rows of one session of an open file."""

    def about(self) -> bytes | None:
        """Write down what is known of the session; None if there is none."""
        ...

    def newest(self) -> Place | None:
        """Find the last message."""
        ...

    def before(self, place: Place) -> Before:
        """Sum up what comes before a message, and what it depends on."""
        ...

    def messages(self, first: Place | None) -> Iterator[tuple[str, bytes]]:
        """Yield the records of all messages, or from one on."""
        ...


class _Cursor(msgspec.Struct, array_like=True, frozen=True):
    place: Place
    before: str


def excerpt_of(session: OwnSessionRows, cursor: str) -> SessionExcerpt:
    """Return the records of a session behind a cursor, or all if it does not hold any more."""
    about = session.about()
    if about is None:
        return SessionExcerpt(())
    old = _read_cursor(cursor)
    resumed = old is not None and fingerprint(session.before(old.place).sums) == old.before
    first = old.place if old is not None and resumed else None
    records = chain([("session", about)], session.messages(first))
    newest = session.newest()
    before = None if newest is None else session.before(newest)
    if newest is None or before is None or not before.settled:
        return SessionExcerpt(records, resumed)
    following = msgspec.json.encode(_Cursor(newest, fingerprint(before.sums))).decode()
    return SessionExcerpt(records, resumed, f"message:{newest[1]}", following)


def _read_cursor(cursor: str) -> _Cursor | None:
    return msgspec.json.decode(cursor, type=_Cursor) if cursor else None


# ---------------------------------------------------------------------- values to text


def moment(milliseconds: object) -> int | None:
    """Read a time in epoch milliseconds; None if it is none."""
    is_time = isinstance(milliseconds, (int, float)) and 0 < milliseconds <= _LATEST_MS
    return int(milliseconds) if is_time else None  # type: ignore[call-overload]


def said(value: object) -> str:
    """Write out what a tool or a person gave: text as it is, blocks joined, other values as JSON.

    Pictures and other blobs are only named.
    """
    if isinstance(value, str):
        return "[image]" if value.startswith("data:image/") else value
    inside = table(value).get("content", table(value).get("value"))
    blocks = rows(value) or rows(inside)
    if blocks and all(isinstance(block, (str, dict)) for block in blocks):
        shown = [_block(block) for block in blocks]
        if None not in shown:
            return "\n".join(piece for piece in shown if piece)
    return "" if value is None else compact(_without_blobs(value))


def _block(block: object) -> str | None:
    """Return the text of one block; None if it is no block of a message."""
    if isinstance(block, str):
        return block
    fields = table(block)
    kind = text(fields.get("type"))
    if isinstance(fields.get("text"), str) and kind:
        return text(fields["text"])
    return "[image]" if kind.startswith(("image", "media", "file", "input_image")) else None


def _without_blobs(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: "[data]" if key == "data" and _is_blob(item) else _without_blobs(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_without_blobs(item) for item in value]
    return "[image]" if isinstance(value, str) and value.startswith("data:image/") else value


def _is_blob(value: object) -> bool:
    return isinstance(value, str) and len(value) > 1000 and " " not in value[:200]  # noqa: PLR2004
