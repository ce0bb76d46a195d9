"""What makes a source of a format: its places as data, and pure functions that read its records.

Three kinds, all behind the same limits: `LineLogs` only grow, `Documents` are rewritten whole and
may consist of several files, `Databases` hold many sessions. A format says what one record means
(`read` gives a `Told`); finding, opening, keys, segments, usage and drift are the same for all. A
package may bring one of its own through the entry point group `threadkeep.sources`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import wraps
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import msgspec

from threadkeep.base.json import decode_line
from threadkeep.base.sqlite.foreign import ForeignDatabase, open_foreign
from threadkeep.errors import Invalid, NotFound, ThreadkeepError
from threadkeep.knowledge.records import Entry, SessionFacts, Usage
from threadkeep.sources.common import Gatherer, GathererState, plain, table
from threadkeep.sources.copy_marks import marked, marks_in, notices_in
from threadkeep.sources.files import LogFile, file_bytes
from threadkeep.sources.folders import MOST_ENTRIES, database_stamp, stamp_of
from threadkeep.sources.places import LogPlace, files_of, place, roots_of
from threadkeep.sources.records import (
    DocumentItem,
    Harvest,
    Log,
    Parser,
    Stamp,
    UnreadablePlace,
    UserHome,
)


class Told(msgspec.Struct):
    """What one record says: its entries, what it cost, facts about its session, what is unknown."""

    entries: list[Entry] = []
    usage: list[Usage] = []
    unknown: list[str] = []
    facts: SessionFacts | None = None  # what is empty in it stays as it was
    session_id: str = ""  # if the record knows better than the path whose it is


Read = Callable[[Any, int], Told]  # a record, and the number of its line
Identify = Callable[[Log], Log]  # what a path says: the session, its project, its parent
Prefer = Callable[[Iterable[Log]], Iterable[Log]]  # which to read where a session has several forms
Keyed = tuple[str, object]  # a lasting key, and a record: a JSON value, or bytes of one line


class RecordParser:
    """Reads the records of one session in order with a function that knows one at a time."""

    def __init__(self, log: Log, label: str, read: Read, state: bytes | None) -> None:
        """Start afresh or continue; `label` names the program in summaries."""
        kept = msgspec.msgpack.decode(state, type=GathererState) if state else None
        self._gatherer = Gatherer(log, label, kept)
        self._read = read

    def feed(self, record: Any, line: bytes, number: int) -> list[Entry]:
        """Take the next record."""
        del line
        told = _told(self._read, record, number)
        gatherer = self._gatherer
        gatherer.session_id = told.session_id or gatherer.session_id
        if told.facts is not None:
            _learn(gatherer.facts, told.facts)
        gatherer.wonder(told.unknown)
        for usage in told.usage:
            usage.model = usage.model or gatherer.facts.model
            gatherer.spend(usage)
        return gatherer.keep(told.entries)

    def harvest(self) -> Harvest:
        """Return what came up since the last call."""
        return self._gatherer.harvest()

    def state(self) -> bytes:
        """Return what a new parser needs to continue from here."""
        return msgspec.msgpack.encode(self._gatherer.kept())


def _told(read: Read, record: Any, number: int) -> Told:
    """Read a record; what a hand-off wrote is marked as a copy, with the notices around it."""
    told = read(record, number)
    mark = next(marks_in(table(record)), None)
    if mark is not None:
        own = told.entries[0].key if told.entries else str(number)
        at = told.entries[0].at if told.entries else None
        before, after = notices_in(table(record))
        for notice in (*before, *after):
            notice.key, notice.at = f"{own}#{notice.key}", at
        told.entries = marked([*before, *told.entries, *after], mark)
    return told


def _learn(facts: SessionFacts, told: SessionFacts) -> None:
    for name in SessionFacts.__struct_fields__:
        value = getattr(told, name)
        if value:
            setattr(facts, name, value)


def named_by_file(log: Log) -> Log:
    """Take the name of the file, without its suffix, as the session's."""
    return msgspec.structs.replace(log, session_id=plain(Path(log.path).stem))


def named_by_folder(log: Log) -> Log:
    """Take the name of the folder that a file lies in as the session's."""
    return msgspec.structs.replace(log, session_id=plain(Path(log.path).parent.name))


# ---------------------------------------------------------------------- line logs


class LineLogs(msgspec.Struct, frozen=True, kw_only=True):
    """A program that appends one JSON record per line, a file for each session."""

    agent: str
    label: str
    places: tuple[LogPlace, ...]
    read: Read
    identify: Identify = named_by_file
    parse: Callable[[Log, bytes | None], Parser] | None = None  # where one record is not enough
    prefer: Prefer = tuple

    kind: ClassVar[Literal["lines"]] = "lines"

    def roots(self, user: UserHome) -> list[Path]:
        """Name the folders to look into and to watch, whether they exist or not."""
        return roots_of(self.places, user)

    def find(self, user: UserHome) -> Iterator[Log]:
        """Yield the logs that are there now, sorted by path."""
        found = files_of(self.places, user)
        yield from self.prefer(self.identify(Log(str(path), stamp)) for path, _, stamp in found)

    def parser(self, log: Log, state: bytes | None) -> Parser:
        """Make a parser that starts afresh, or continues from a state."""
        if self.parse is not None:
            return self.parse(log, state)
        return RecordParser(log, self.label, self.read, state)

    def entries(self, record: Any, line: bytes, number: int) -> list[Entry]:
        """Read one record alone."""
        del line
        return _told(self.read, record, number).entries

    def items(self, log: Log) -> Iterable[DocumentItem]:
        """A line log has none."""
        del log
        return ()

    def records(self, log: Log, item: str) -> Iterable[tuple[str, bytes]]:
        """A line log has none."""
        del log, item
        return ()


# ---------------------------------------------------------------------- documents

_BEGINNING: Final = 64 * 1024


class DocumentFiles:
    """The files of one document, below its own folder alone; links and large ones are refused."""

    def __init__(self, log: Log, contents: Mapping[Path, bytes] | None = None) -> None:
        """Take a document as it was found, or as it would be: `contents` instead of the disk."""
        self._contents = contents
        self.path = Path(log.path)
        self.session_id = log.session_id
        self._root = log.root or str(self.path.parent)

    @property
    def modified(self) -> int:
        """When the document was last written, in epoch milliseconds."""
        return self.path.stat().st_mtime_ns // 1_000_000

    def content(self, name: str = "") -> bytes:
        """Read a file beside the document, or the document itself; empty if there is none."""
        if self._contents is not None:
            return self._contents.get(self._at(name), b"")
        try:
            return file_bytes(self._at(name), self._root)
        except NotFound:
            if not name:
                raise
            return b""

    def json(self, name: str = "") -> Any:
        """Read a file as JSON; None if there is none. Half of one is refused, and read later."""
        data = self.content(name)
        try:
            found = decode_line(data)
        except Invalid as error:
            msg = f"{self._at(name)} is not a complete JSON document: {error}"
            raise Invalid(msg, hint="it is read again when it has changed") from error
        if not found and not name:  # a program that writes it again has just begun
            raise Invalid(f"{self.path} is empty", hint="it is read again when it has changed")
        return found[0] if found else None

    def above(self, name: str, levels: int = 1) -> Any:
        """Read a file so many folders above the document's as JSON; None if there is none."""
        place_ = self.path.parents[levels] / name
        inside = place_.is_relative_to(self._root) and ".." not in place_.parts
        try:
            found = decode_line(file_bytes(place_, self._root)) if inside else []
        except (NotFound, Invalid):
            return None
        return found[0] if found else None

    def beside_root(self, name: str) -> Any:
        """Read a file beside the folder of all documents as JSON; None if there is none."""
        folder = Path(self._root).parent
        try:
            found = decode_line(file_bytes(folder / name, str(folder)))
        except ThreadkeepError:  # it only adds to what a document says
            return None
        return found[0] if found else None

    def lines(self, name: str = "") -> list[bytes]:
        """Read the whole lines of a file; the last one only if it ends."""
        return self.content(name).split(b"\n")[:-1]

    def beginning(self, name: str) -> list[bytes]:
        """Read the first whole lines of a file beside the document; none if there is none."""
        try:
            with LogFile(str(self._at(name)), self._root) as file:
                return file.between(0, _BEGINNING).split(b"\n")[:-1]
        except OSError:
            return []

    def names(self, folder: str) -> list[str]:
        """Name the files in a folder beside the document, sorted."""
        place = self._at(folder)
        if place.is_symlink() or not place.is_dir():
            return []
        return sorted(plain(one.name) for one in place.iterdir() if not one.is_symlink())

    def _at(self, name: str) -> Path:
        if not name:
            return self.path
        if ".." in name.split("/") or name.startswith("/"):
            raise Invalid(f"{name!r} leads out of the folder of {self.path}", hint="leave it out")
        return self.path.parent / name


class Documents(msgspec.Struct, frozen=True, kw_only=True):
    """A program that rewrites a session whole: one file, or one with others beside it.

    `split` gives the records of a session with lasting keys, those about the session itself first.
    """

    agent: str
    label: str
    places: tuple[LogPlace, ...]
    split: Callable[[DocumentFiles], Iterable[Keyed]]
    read: Read
    identify: Identify = named_by_file
    # Files and folders, seen from the document's own, that belong to it; {folder} is its name, and
    # `/*` behind a folder stands for the files in it.
    beside: tuple[str, ...] = ()
    prefer: Prefer = tuple
    names: bool = False  # it only names sessions whose lines are elsewhere, and is read before them

    kind: ClassVar[Literal["document"]] = "document"

    def roots(self, user: UserHome) -> list[Path]:
        """Name the folders to look into and to watch, whether they exist or not."""
        return roots_of(self.places, user)

    def find(self, user: UserHome) -> Iterator[Log]:
        """Yield the documents that are there now, sorted by path."""
        yield from self.prefer(self._found(user))

    def _found(self, user: UserHome) -> Iterator[Log]:
        for path, root, stamp in files_of(self.places, user):
            beside = [name.replace("{folder}", path.parent.name) for name in self.beside]
            whole = _with_others(path, stamp, beside)
            yield self.identify(Log(str(path), whole, root=str(root)))

    def parser(self, log: Log, state: bytes | None) -> Parser:
        """Make a parser that starts afresh: a changed session is read from its beginning."""
        del state
        return RecordParser(log, self.label, self.read, None)

    def entries(self, record: Any, line: bytes, number: int) -> list[Entry]:
        """Read one record alone."""
        del line
        return _told(self.read, record, number).entries

    def items(self, log: Log) -> Iterable[DocumentItem]:
        """Yield the one session of a document; it is read again when its files look different."""
        yield DocumentItem(log.session_id, _mark(log.stamp))

    def records(self, log: Log, item: str) -> Iterable[tuple[str, bytes]]:
        """Yield the records of the session in order."""
        del item
        return encoded(self.split(DocumentFiles(log)))


def _with_others(path: Path, own: Stamp, beside: Iterable[str]) -> Stamp:
    """Add what is beside a document to its stamp: one changes when any of them does."""
    for place_ in _places_beside(path.parent, beside):
        try:
            other = stamp_of(place_.lstat())
        except OSError:
            continue
        own = own._replace(
            size=own.size + other.size,
            mtime_ns=max(own.mtime_ns, other.mtime_ns),
            ctime_ns=max(own.ctime_ns, other.ctime_ns),
        )
    return own


def _places_beside(folder: Path, beside: Iterable[str]) -> Iterator[Path]:
    for name in beside:
        if not name.endswith("/*"):
            yield folder / name
            continue
        with suppress(OSError):
            yield from islice((folder / name[:-2]).iterdir(), MOST_ENTRIES)


def encoded(records: Iterable[Keyed]) -> Iterator[tuple[str, bytes]]:
    """Write records as lines; of several with one key the last stays alone in its place."""
    kept: dict[str, bytes] = {}
    for key, record in records:
        kept[key] = record if isinstance(record, bytes) else msgspec.json.encode(record)
    yield from kept.items()


def _mark(told: object) -> str:
    return blake2b(repr(told).encode("utf-8", "replace"), digest_size=16).hexdigest()


# ---------------------------------------------------------------------- databases


class Databases(msgspec.Struct, frozen=True, kw_only=True):
    """A program that keeps its sessions in SQLite; each is read in one guarded snapshot.

    `sessions` gives the name of each and what must differ for it to be read again; `split` gives
    the records of one with lasting keys.
    """

    agent: str
    label: str
    places: tuple[LogPlace, ...]
    sessions: Callable[[ForeignDatabase], Iterable[tuple[str, object]]]
    split: Callable[[ForeignDatabase, str, Path], Iterable[Keyed]]
    read: Read
    parse: Callable[[Log, bytes | None], Parser] | None = None  # where one record is not enough
    # Databases that no place names, each with the folder that was named.
    more: Callable[[UserHome], Iterable[tuple[Path, Path]]] = lambda _: ()

    kind: ClassVar[Literal["document"]] = "document"

    def roots(self, user: UserHome) -> list[Path]:
        """Name the folders to look into and to watch, whether they exist or not."""
        return [*roots_of(self.places, user), *(path for _, path in self.more(user))]

    def find(self, user: UserHome) -> Iterator[Log]:
        """Yield the databases that are there now, sorted by path."""
        found = {path: (root, stamp) for path, root, stamp in self._files(user)}
        for path in sorted(found):
            root, stamp = found[path]
            yield Log(str(path), stamp, root="" if root == path else str(root))

    def _files(self, user: UserHome) -> Iterator[tuple[Path, Path, Stamp]]:
        yield from files_of(self.places, user, databases=True)
        for root, path in self.more(user):
            stamp = database_stamp(path, user)
            if stamp is not None:
                yield path, root, stamp

    def parser(self, log: Log, state: bytes | None) -> Parser:
        """Make a parser that starts afresh: a changed session is read from its beginning."""
        del state
        if self.parse is not None:
            return self.parse(log, None)
        return RecordParser(log, self.label, self.read, None)

    def entries(self, record: Any, line: bytes, number: int) -> list[Entry]:
        """Read one record alone."""
        del line
        return _told(self.read, record, number).entries

    def items(self, log: Log) -> Iterable[DocumentItem]:
        """Yield the sessions of a database."""
        with open_foreign(Path(log.path), root=log.root) as database:
            for name, told in self.sessions(database):
                yield DocumentItem(name, _mark(told))

    def records(self, log: Log, item: str) -> Iterable[tuple[str, bytes]]:
        """Yield the records of one session in order."""
        with open_foreign(Path(log.path), root=log.root) as database:
            yield from encoded(self.split(database, item, Path(log.path)))


def read_rows(
    database: ForeignDatabase,
    name: str,
    columns: Iterable[str],
    rest: str = "",
    values: tuple[object, ...] = (),
) -> Iterator[dict[str, Any]]:
    """Read rows of a table as far as it has these columns; nothing if no such table exists."""
    if name not in database.tables():
        return
    there = set(database.columns(name))
    wanted = [column for column in columns if column in there]
    if not wanted:
        return
    shown = ", ".join(f'"{column}"' for column in wanted)
    for row in database.rows(f'SELECT {shown} FROM "{name}" {rest}', values):  # noqa: S608
        yield dict(zip(wanted, row, strict=True))


def decoded(stored: object) -> Any:
    """Read JSON that a database holds as a text; what is none is given as it is."""
    if not isinstance(stored, (str, bytes)):
        return stored
    raw = stored.encode("utf-8", "replace") if isinstance(stored, str) else stored
    try:
        found = decode_line(raw)
    except Invalid:
        return raw.decode("utf-8", "replace")
    return found[0] if found else ""


# ---------------------------------------------------------------------- sources of other packages

_NAME: Final = re.compile(r"[a-z][a-z0-9-]{1,39}")


def checked(name: str, given: object) -> LineLogs | Documents | Databases:
    """Check what a package brings: a description of a format, so that every limit is ours."""
    if not isinstance(given, (LineLogs, Documents, Databases)):
        msg = f"the source {name!r} is a {type(given).__name__}"
        raise Invalid(msg, hint="it must be LineLogs, Documents or Databases of threadkeep")
    for one in (name, given.agent):
        if not _NAME.fullmatch(one):
            msg = f"{one!r} is not a valid source name"
            raise Invalid(msg, hint="use lower-case letters, digits and dashes")
    if given.agent in _OWN:
        msg = f"the source {name!r} calls itself {given.agent!r}, as a store of threadkeep does"
        raise Invalid(msg, hint="name the program that writes the logs")
    for one_place in given.places:
        place(one_place.roots, *one_place.logs)
    calls = {name: getattr(given, name) for name in given.__struct_fields__}
    guarded = {name: _guarded(one) for name, one in calls.items() if name in _GUARDED}
    return msgspec.structs.replace(given, **guarded)


def _guarded(call: Callable[..., Any]) -> Callable[..., Any]:
    """Let whatever somebody else's code raises be the trouble of its log, not the end of a run."""

    @wraps(call)
    def guarded(*given: Any) -> Any:
        with _trouble():
            found = call(*given)
        return _each(found) if isinstance(found, Iterator) else found

    return guarded


def _each(found: Iterator[Any]) -> Iterator[Any]:
    end = object()
    while True:
        with _trouble():
            one = next(found, end)
        if one is end:
            return
        yield one


@contextmanager
def _trouble() -> Iterator[None]:
    try:
        yield
    except (OSError, ThreadkeepError):  # capture tells these as they are
        raise
    except (Exception, SystemExit) as error:
        msg = f"its source raised {type(error).__name__}: {error}"
        raise Invalid(
            msg, hint="report it to the authors of the package that provides the source"
        ) from error


# Functions of a package outside the reading of single records, whose trouble is counted there.
_GUARDED: Final = frozenset(("identify", "split", "prefer", "sessions", "more"))


_OWN: Final = frozenset(("chat", "state", "mailbox"))


class UnreadableLogs(msgspec.Struct, frozen=True):
    """A source of which nothing can be read: it tells what is there, and why."""

    agent: str
    why: str
    fix: str
    # Where a program keeps what nobody else can read; without any it is the source that is broken.
    places: tuple[LogPlace, ...] = ()

    kind: ClassVar[Literal["document"]] = "document"

    def roots(self, user: UserHome) -> list[Path]:
        """Name the folders that it keeps them in."""
        return roots_of(self.places, user)

    def find(self, user: UserHome) -> Iterator[Log]:
        """Find nothing to read, and tell what there is."""
        found = [str(root) for root in self.roots(user) if root.is_dir()]
        for path in found if self.places else [f"the source {self.agent!r}"]:
            user.tell(UnreadablePlace(path, self.why, self.fix, is_ours=not self.places))
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
