r"""The histories that shells keep themselves: zsh, bash, fish, and atuin.

Every entry has an id made of its kind, time, text, and its number among entries that are equal in
these. So importing a file twice gives the same ids, also after it grew at its end or was trimmed at
its start; entries without a time are then told apart only as far as their numbers go, and one that
is typed again after a trim may count as one that was there before.
"""

import re
import socket
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID, uuid5

import msgspec

from threadkeep.base.files import translate_os
from threadkeep.base.sqlite.foreign import open_foreign
from threadkeep.capture.observed.intake import Batch, BatchReport, ObservedContext
from threadkeep.errors import Invalid, NotFound
from threadkeep.knowledge.commands import HISTORY, is_known
from threadkeep.knowledge.records import Command
from threadkeep.sources.files import LONGEST_LINE, LogFile

Kind = Literal["zsh", "bash", "fish", "atuin"]

LONGEST_ENTRY: Final = 1 << 20  # bytes; what is longer is no command but damage

_NAMESPACE: Final = UUID("f1b0b9a4-52d7-5c43-8d0e-3a9a6be1c7d5")
_YEAR_10000_MS: Final = 253_402_300_800_000
_BIG: Final = 1 << 63
_ZSH_STAMP: Final = re.compile(rb": *([0-9]{1,12}):([0-9]{1,9});")
_METAFIED: Final = re.compile(rb"\x83(.)", re.DOTALL)
_BASH_STAMP: Final = re.compile(rb"#([0-9]{1,12})\s*")
_FISH_STAMP: Final = re.compile(rb"  when: *([0-9]{1,12})\s*")
_FISH_PATH: Final = re.compile(rb"  paths:\s*|    - .*", re.DOTALL)
_FISH_ESCAPE: Final = re.compile(r"\\([n\\])")
_ZSH_NAMES: Final = (".zsh_history", ".zhistory", ".histfile")


class HistoryFile(NamedTuple):
    """A history on the disk."""

    kind: Kind
    path: Path


class HistoryCommand(msgspec.Struct, frozen=True):
    """A command that was typed at some time; what its history does not tell is None."""

    command: str
    at_ms: int | None = None  # when it began
    duration_ms: int | None = None
    exit_code: int | None = None
    cwd: str | None = None
    session: str | None = None
    hostname: str | None = None
    shell: str = ""  # empty if the history does not tell
    envelope_id: str = ""


class Tally(msgspec.Struct):
    """Counts what a reader could not understand."""

    damaged: int = 0


Lines = Iterable[bytes | None]  # None is a line too long to be one


def read_past(file: HistoryFile, tally: Tally) -> Iterator[HistoryCommand]:
    """Yield the commands of a history in its order, each with its id; count what is none."""
    entries = _atuin(file.path, tally) if file.kind == "atuin" else _from_text(file, tally)
    numbers: dict[bytes, int] = {}
    for entry in entries:
        key = f"{file.kind}\0{entry.at_ms}\0{entry.command}"
        digest = blake2b(key.encode(), digest_size=8).digest()  # a long history has a million
        number = numbers[digest] = numbers.get(digest, -1) + 1
        name = str(uuid5(_NAMESPACE, f"{key}\0{number}"))
        yield msgspec.structs.replace(entry, envelope_id=name)


# ---------------------------------------------------------------------- finding


def find_histories(home: Path, environ: Mapping[str, str]) -> list[HistoryFile]:
    """List the histories of a user, each once."""
    found: dict[tuple[int, int], HistoryFile] = {}
    for candidate in _candidates(home, environ):
        try:
            info = candidate.path.stat()
        except (OSError, ValueError):
            continue
        if stat.S_ISREG(info.st_mode):
            found.setdefault((info.st_dev, info.st_ino), candidate)
    return list(found.values())


def _candidates(home: Path, environ: Mapping[str, str]) -> Iterator[HistoryFile]:
    data = _place(home, environ, "XDG_DATA_HOME") or home / ".local/share"
    state = _place(home, environ, "XDG_STATE_HOME") or home / ".local/state"
    for folder in (_place(home, environ, "ZDOTDIR"), home):
        if folder:
            yield from (HistoryFile("zsh", folder / name) for name in _ZSH_NAMES)
    yield HistoryFile("bash", home / ".bash_history")
    for folder in (data, state):
        yield HistoryFile("zsh", folder / "zsh/history")
        yield HistoryFile("bash", folder / "bash/history")
    yield from (HistoryFile("fish", path) for path in sorted((data / "fish").glob("*_history")))
    atuin = _place(home, environ, "ATUIN_DB_PATH") or data / "atuin/history.db"
    yield HistoryFile("atuin", atuin)
    named = _place(home, environ, "HISTFILE")
    if named:
        yield HistoryFile(_kind_of(named.name, environ.get("SHELL", "")), named)


def _place(home: Path, environ: Mapping[str, str], name: str) -> Path | None:
    """Return the path in a variable; a relative one means another file in each folder."""
    value = environ.get(name, "")
    path = home / value[2:] if value.startswith("~/") else Path(value)
    return path if path.is_absolute() else None


def _kind_of(name: str, shell: str) -> Kind:
    zsh = "zsh" in name or ("bash" not in name and Path(shell).name == "zsh")
    return "zsh" if zsh else "bash"


# ---------------------------------------------------------------------- text files


def _from_text(file: HistoryFile, tally: Tally) -> Iterator[HistoryCommand]:
    readers: dict[Kind, Callable[[Lines, Tally], Iterator[HistoryCommand]]]
    readers = {"zsh": zsh_entries, "bash": bash_entries, "fish": fish_entries}
    try:
        with LogFile(str(file.path)) as log:
            yield from readers[file.kind](_lines(log), tally)
    except FileNotFoundError as error:
        raise NotFound(f"there is no file {file.path}", hint="check the path") from error
    except OSError as error:
        raise translate_os(error, file.path, "cannot read") from error


def _lines(log: LogFile) -> Iterator[bytes | None]:
    inside = False  # of a line so long that it came in parts
    for piece in log.pieces(0):
        first, *more = (piece.data[:-1] if piece.complete else piece.data).split(b"\n")
        broken = not piece.complete and len(piece.data) >= LONGEST_LINE
        if not inside:
            yield first if len(first) <= LONGEST_ENTRY else None
        yield from (line if len(line) <= LONGEST_ENTRY else None for line in more)
        inside = broken


class _Block:
    """The lines of one entry; too many of them are dropped, not held."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._size = 0

    def add(self, line: bytes | None) -> None:
        self._size += LONGEST_ENTRY + 1 if line is None else len(line) + 1
        if line is None or self._size > LONGEST_ENTRY:
            self._lines.clear()
        else:
            self._lines.append(line)

    def whole(self, tally: Tally) -> bytes:
        """Return the entry, empty if it was too long; that counts as damage."""
        tally.damaged += self._size > LONGEST_ENTRY
        return b"\n".join(self._lines)


def zsh_entries(lines: Lines, tally: Tally) -> Iterator[HistoryCommand]:
    """Read a history of zsh, with or without times; a line break is behind a backslash."""
    block = _Block()
    for line in lines:
        if line is not None and line.endswith(b"\\"):
            block.add(line[:-1])
        else:
            block.add(line)
            yield from _zsh_entry(block.whole(tally))
            block = _Block()
    yield from _zsh_entry(block.whole(tally))


def _zsh_entry(raw: bytes) -> Iterator[HistoryCommand]:
    stamp = _ZSH_STAMP.match(raw)
    # Without times zsh puts a backslash before a colon, which would look like one.
    typed = raw[stamp.end() :] if stamp else raw[raw.startswith(b"\\:") :]
    # Behind a backslash that is the command's own, zsh writes a blank that is not.
    padded = typed.endswith(b" ") and typed.rstrip(b" ").endswith(b"\\")
    plain = _METAFIED.sub(lambda found: bytes([found[1][0] ^ 0x20]), typed[: len(typed) - padded])
    # It writes 0 seconds also for what it had not seen end.
    took = int(stamp[2]) * 1000 if stamp else 0
    yield from _entry("zsh", _text(plain), stamp and stamp[1], took or None)


def bash_entries(lines: Lines, tally: Tally) -> Iterator[HistoryCommand]:
    """Read a history of bash: a line each, or with times everything up to the next time."""
    block, at = _Block(), None
    for line in lines:
        stamp = _BASH_STAMP.fullmatch(line) if line else None
        if not stamp:
            block.add(line)
        if stamp or at is None:
            yield from _entry("bash", _text(block.whole(tally)), at)
            block = _Block()
        at = stamp[1] if stamp else at
    yield from _entry("bash", _text(block.whole(tally)), at)


def fish_entries(lines: Lines, tally: Tally) -> Iterator[HistoryCommand]:
    """Read a history of fish, which looks like YAML and is not."""
    command, at = "", None
    for line in lines:
        if line is None or line.startswith(b"- cmd:"):
            yield from _entry("fish", command, at)
            command, at = _fish_text((line or b"").removeprefix(b"- cmd:")), None
            tally.damaged += line is None
        elif stamp := _FISH_STAMP.fullmatch(line):
            at = stamp[1]
        elif line.strip() and not _FISH_PATH.fullmatch(line):
            tally.damaged += 1
    yield from _entry("fish", command, at)


def _fish_text(raw: bytes) -> str:
    text = _text(raw.removeprefix(b" "))
    return _FISH_ESCAPE.sub(lambda found: "\n" if found[1] == "n" else "\\", text)


def _entry(
    shell: Kind, command: str, at: bytes | None, took: int | None = None
) -> Iterator[HistoryCommand]:
    if command:
        yield HistoryCommand(command, _seconds(at), took, shell=shell)


def _text(raw: bytes) -> str:
    """Decode a command; NUL bytes around it are what a crash leaves in a file."""
    text = raw.strip(b"\0").decode("utf-8", "replace").replace("\0", "\ufffd")
    return text if text.strip() else ""


def _seconds(digits: bytes | None) -> int | None:
    return _time(int(digits) * 1000) if digits else None


def _time(ms: int) -> int | None:
    return ms if 0 < ms < _YEAR_10000_MS else None


# ---------------------------------------------------------------------- atuin

_ATUIN: Final = ("timestamp", "duration", "exit", "command", "cwd", "session", "hostname")


def _atuin(path: Path, tally: Tally) -> Iterator[HistoryCommand]:
    """Read the database of atuin, without what its user deleted."""
    with open_foreign(path) as database:
        columns = set(database.columns("history"))
        if not columns >= {"timestamp", "command"}:
            raise Invalid(f"{path} is not an atuin history", hint="give the path of its history.db")
        for row in database.rows(_atuin_query(columns)):
            entry = _atuin_entry(dict(zip(_ATUIN, row, strict=True)))
            if entry is None:
                tally.damaged += 1
            else:
                yield entry


def _atuin_query(columns: set[str]) -> str:
    """Write the query for the columns that are there; a text that is too long is left out."""
    wanted = ", ".join(
        f"CASE WHEN length(CAST({name} AS BLOB)) <= {LONGEST_ENTRY} THEN {name} END"
        if name in columns
        else "NULL"
        for name in _ATUIN
    )
    kept = "WHERE deleted_at IS NULL" if "deleted_at" in columns else ""
    return f"SELECT {wanted} FROM history {kept} ORDER BY timestamp, rowid"  # noqa: S608  constants


def _atuin_entry(row: dict[str, Any]) -> HistoryCommand | None:
    command = row["command"]
    if not isinstance(command, str) or not command.strip():
        return None
    began, took, code = (_integer(row[name]) for name in ("timestamp", "duration", "exit"))
    ended = took is not None and took >= 0  # it writes -1 for what it did not see end
    host = row["hostname"] if isinstance(row["hostname"], str) else None
    return HistoryCommand(
        command.replace("\0", "\ufffd"),
        at_ms=None if began is None else _time(began // 1_000_000),
        duration_ms=took // 1_000_000 if took is not None and ended else None,
        exit_code=code if ended else None,
        cwd=row["cwd"] if isinstance(row["cwd"], str) else None,
        session=row["session"] if isinstance(row["session"], str) else None,
        hostname=host and host.partition(":")[0],  # it writes host:user
    )


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and abs(value) < _BIG else None


# ------------------------------------------------------------------------------
# Importing the histories that shells kept before anybody collected: each command once.

_IMPORTING_NAMESPACE: Final = UUID("2b0c5e9e-6a58-5d0c-8f52-0a7e1d6d7c11")
_ROWS: Final = 1000  # of one transaction
_MORE: Final = re.compile(r"[;&|\n]")  # another command on the same line


class ImportedFile(msgspec.Struct):
    """What came of one history; in a dry run `stored.new` is what would be looked at."""

    kind: str
    path: str
    commands: int = 0
    damaged: int = 0
    stored: BatchReport = msgspec.field(default_factory=BatchReport)


class Imported(msgspec.Struct):
    """What came of an import."""

    files: list[ImportedFile] = []

    @property
    def new(self) -> int:
        """How many commands are new in the store."""
        return sum(file.stored.new for file in self.files)


Progress = Callable[[ImportedFile], None]


def no_progress(_: ImportedFile) -> None:
    """Show nothing."""


def import_past(
    around: ObservedContext,
    files: Iterable[HistoryFile],
    *,
    dry_run: bool = False,
    show: Progress = no_progress,
) -> Imported:
    """Bring in the commands of histories; with `dry_run` only count them."""
    done = Imported()
    for file in files:
        came = ImportedFile(file.kind, str(file.path))
        done.files.append(came)
        _import(around, file, came, show, dry_run=dry_run)
    return done


def _import(
    around: ObservedContext, file: HistoryFile, came: ImportedFile, show: Progress, *, dry_run: bool
) -> None:
    tally = Tally()
    entries = _once(read_past(file, tally))
    changed = int(file.path.stat().st_mtime * 1000)
    while some := list(islice(entries, _ROWS)):
        came.commands += len(some)
        if not dry_run:
            came.stored.add(_store(around, file, some, changed))
        show(came)
    came.damaged = tally.damaged
    show(came)


def _is_recorded(entry: HistoryCommand) -> bool:
    """Tell whether a command was reported by itself: what `threadkeep run` ran is there already."""
    return entry.command.startswith("threadkeep run ") and not _MORE.search(entry.command)


def _once(entries: Iterator[HistoryCommand]) -> Iterator[HistoryCommand]:
    """Leave out what is told elsewhere, and repetitions of commands whose time nobody knows."""
    seen: set[str] = set()
    for entry in entries:
        if _is_recorded(entry):
            continue
        if entry.at_ms is None:
            if entry.command in seen:
                continue
            seen.add(entry.command)
        yield entry


def _store(
    around: ObservedContext, file: HistoryFile, entries: list[HistoryCommand], changed: int
) -> BatchReport:
    clean = around.rules.clean
    with around.store.read() as tx:
        wanted = [e for e in entries if e.at_ms is not None or not is_known(tx, clean(e.command))]
    batch = Batch(around)
    for entry in wanted:
        batch.add(command_of(entry, file, changed))
    with around.store.write() as tx:
        batch.write(tx)
    batch.stored.known += len(entries) - len(wanted)
    return batch.stored


def command_of(entry: HistoryCommand, file: HistoryFile, changed: int) -> Command:
    """Make the command of a history's entry; its time is the file's where nobody knows better."""
    duration = entry.duration_ms or 0
    return Command(
        envelope_id=entry.envelope_id,
        session=_session(entry, file),
        at=changed if entry.at_ms is None else entry.at_ms + duration,
        command=entry.command,
        cwd=entry.cwd or "",
        exit_code=entry.exit_code,
        duration_ms=duration,
        hostname=entry.hostname or socket.gethostname(),
        shell=entry.shell or file.kind,
        origin=HISTORY,
    )


def _session(entry: HistoryCommand, file: HistoryFile) -> str:
    if entry.session:
        try:
            return str(UUID(entry.session))
        except ValueError:
            pass
    return str(uuid5(_IMPORTING_NAMESPACE, f"{file.kind}:{entry.session or file.path}"))
