"""The collector: brings what lies in the spool into the store, each thing once.

How far a file was read is stored in the same transaction as what it brought. Whoever is killed at
any point leaves either both or none; and everything has an id under which it is stored once.
"""

import re
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID, uuid5

import msgspec

from threadkeep.base.spool import APPENDED, WHOLE, Spool, SpoolFile, Unreadable
from threadkeep.base.text import pattern
from threadkeep.base.tx import Tx
from threadkeep.capture.observed.envelopes import UnknownEnvelope, read_line
from threadkeep.capture.observed.intake import COLLECTED, Batch, BatchReport, ObservedContext, Shell
from threadkeep.errors import Invalid
from threadkeep.knowledge import commands
from threadkeep.knowledge.health import count_drop, note_failure
from threadkeep.knowledge.records import Command

# ------------------------------------------------------------------------------
# What shell hooks append to the spool: records of control characters, read from any bytes.
#
# A record is `RS kind US field US … US command GS LF`. Every one begins with RS, which no field
# contains, so whatever happened to one of them, the next begins at the next RS. The caller reads a
# file in blocks and keeps what is behind `consumed` for the next call; how the file is cut into
# blocks does not change what is read.

HOOK_KEEPS: Final = 65_536  # characters of a command, as its shell counts them
LONGEST_RECORD: Final = 1 << 20  # bytes; nothing that a hook wrote comes near this

_NAMESPACE: Final = UUID("6d0f5a52-3c1e-5b7e-9d1b-8c7c0a4f2e61")
_RS: Final = b"\x1e"
_END: Final = b"\x1d\n"
_GS: Final = 0x1D
_NUMBER: Final = pattern(r"[0-9]{1,18}")
_EXIT: Final = pattern(r"-?[0-9]{1,9}")
_TIME: Final = pattern(r"([0-9]{1,12})(?:[.,]([0-9]*))?")
_VARIABLE: Final = pattern(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_YEAR_10000: Final = 253_402_300_800  # what comes later is no time but a mistake
_START_FIELDS: Final = 10
_END_FIELDS: Final = 12


class EnvRecord(msgspec.Struct, frozen=True):
    """The environment of a shell from here on."""

    session: str
    pid: int
    variables: dict[str, str]


class StartRecord(msgspec.Struct, frozen=True):
    """A command that is about to run."""

    session: str  # a UUID
    pid: int
    seq: int
    shell: str
    host: str
    user: str
    started: str  # as the hook wrote it: a part of the command's id
    started_ms: int
    cwd: str
    chars: int  # how long the command was before anybody cut it
    command: str


class EndRecord(msgspec.Struct, frozen=True):
    """A command that has ended; its StartRecord adds nothing."""

    session: str  # a UUID
    pid: int
    seq: int
    shell: str
    host: str
    user: str
    started: str  # as the hook wrote it: a part of the command's id
    started_ms: int
    ended_ms: int
    exit_code: int | None
    cwd: str
    chars: int  # how long the command was before anybody cut it
    command: str


Record = EnvRecord | StartRecord | EndRecord


class SpoolBlock(msgspec.Struct):
    """What a block of a spool file holds."""

    records: list[Record] = []
    consumed: int = 0  # bytes that are understood or given up
    damaged: int = 0  # pieces that are no records
    lost_bytes: int = 0  # bytes that went into no record
    skipping: bool = False  # the block ended inside a piece that was given up


def read_records(data: bytes, final: bool, skipping: bool = False) -> SpoolBlock:  # noqa: FBT001, FBT002
    """Read the records of a block; `final` if nothing will follow it.

    `skipping` is what the block before said. An unfinished record at the end is left for the
    next block, and lost if there is none.
    """
    parsed = SpoolBlock(skipping=skipping)
    while parsed.consumed < len(data):
        at = parsed.consumed
        begins = data.startswith(_RS, at)
        following = data.find(_RS, at + begins)
        piece = data[at:following] if following >= 0 else data[at:]
        if not begins:
            _give_up(parsed, len(piece), open_end=following < 0)
        elif not _take(parsed, piece, whole=final or following >= 0):
            break
    return parsed


def envelope_id(session: str, pid: int, seq: int, started: str) -> str:
    """Name a command, the same at its start and at its end."""
    return str(uuid5(_NAMESPACE, f"{session}:{pid}:{seq}:{started}"))


def command_of(record: StartRecord | EndRecord, env: dict[str, str] | None = None) -> Command:
    """Return a hook's record as it is stored; one that never ended has no exit code."""
    ended = record.ended_ms if isinstance(record, EndRecord) else record.started_ms
    return Command(
        envelope_id=envelope_id(record.session, record.pid, record.seq, record.started),
        session=record.session,
        at=ended,
        command=_marked(record.command, record.chars),
        cwd=record.cwd,
        exit_code=record.exit_code if isinstance(record, EndRecord) else None,
        duration_ms=max(0, ended - record.started_ms),
        hostname=record.host,
        shell=record.shell,
        username=record.user,
        env=env or {},
        origin="hook",
    )


def _marked(command: str, chars: int) -> str:
    # Only beyond what a hook keeps is it cut: a shell without UTF-8 counts bytes, so that a
    # whole command may have fewer characters here than there.
    cut = chars > max(HOOK_KEEPS, len(command))
    return f"{command}…[truncated, {chars} characters]" if cut else command


# ---------------------------------------------------------------------- pieces


def _take(parsed: SpoolBlock, piece: bytes, *, whole: bool) -> bool:
    """Read one piece that begins with RS; False if it must wait for the rest of it."""
    end = piece.find(_END, 0, LONGEST_RECORD)
    if end >= 0:
        used, record = end + len(_END), _read(piece[1:end])
    elif len(piece) >= LONGEST_RECORD:
        # Only the first bytes decide, so that they need not wait for the others.
        used, record = LONGEST_RECORD, _cut(_read(piece[1:LONGEST_RECORD]))
    elif whole:
        used, record = len(piece), None
    else:
        return False
    parsed.consumed += used
    parsed.skipping = end < 0 and used == LONGEST_RECORD
    if record is None:
        parsed.damaged += 1
        parsed.lost_bytes += used
    else:
        parsed.records.append(record)
    return True


def _give_up(parsed: SpoolBlock, size: int, *, open_end: bool) -> None:
    """Pass over what does not begin with RS; it counts once, in however many blocks it comes."""
    parsed.damaged += not parsed.skipping
    parsed.lost_bytes += size
    parsed.consumed += size
    parsed.skipping = open_end


def _cut(record: Record | None) -> Record | None:
    """Mark a command that continues behind the longest record; how far nobody has read."""
    if isinstance(record, StartRecord | EndRecord) and len(record.command) >= HOOK_KEEPS:
        return msgspec.structs.replace(record, chars=max(record.chars, len(record.command) + 1))
    return None  # something else is too long, which no hook writes


# ---------------------------------------------------------------------- fields


def _read(body: bytes) -> Record | None:
    if _GS in body:
        return None
    kind, *fields = body.decode("utf-8", "replace").replace("\0", "\ufffd").split("\x1f")
    if kind == "start1" and len(fields) == _START_FIELDS:
        return _start(fields)
    if kind == "end1" and len(fields) == _END_FIELDS:
        return _end(fields)
    return _env(fields) if kind == "env1" else None


def _env(fields: list[str]) -> EnvRecord | None:
    padded = [*fields, "", ""]
    session, pid, rest = padded[0], padded[1], fields[2:]
    number, found = _number(pid), [_VARIABLE.fullmatch(text) for text in rest]
    variables = {pair[1]: pair[2] for pair in found if pair}
    if not session or number is None or None in found:
        return None
    return EnvRecord(_uuid(session), number, variables)


def _start(fields: list[str]) -> StartRecord | None:
    *head, started, cwd, chars, command = fields
    known, begun = _head(head), _time(started)
    if known is None or begun is None:
        return None
    return StartRecord(*known, started, begun, cwd, _number(chars) or 0, command)


def _end(fields: list[str]) -> EndRecord | None:
    *head, started, ended, code, cwd, chars, command = fields
    known, begun, over = _head(head), _time(started), _time(ended)
    # Of two times one is enough; a command that nobody knows the time of has no place.
    begun, over = over if begun is None else begun, begun if over is None else over
    if known is None or begun is None or over is None:
        return None
    exit_code = int(code) if _EXIT.fullmatch(code) else None
    kept = _number(chars) or 0
    return EndRecord(*known, started, begun, over, exit_code, cwd, kept, command)


def _head(fields: list[str]) -> tuple[str, int, int, str, str, str] | None:
    """Read which shell ran a command: session, process and number, then its names."""
    session, pid, seq, shell, host, user = fields
    process, place = _number(pid), _number(seq)
    if not session or process is None or place is None:
        return None
    return _uuid(session), process, place, shell, host, user


def _uuid(session: str) -> str:
    """Return the session's UUID; a user may have set the variable to anything."""
    try:
        return str(UUID(session))
    except ValueError:
        return str(uuid5(_NAMESPACE, session))


def _number(text: str) -> int | None:
    return int(text) if _NUMBER.fullmatch(text) else None


def _time(text: str) -> int | None:
    """Read epoch seconds as milliseconds, without a float's rounding."""
    found = _TIME.fullmatch(text)
    if not found or int(found[1]) >= _YEAR_10000:
        return None
    return int(found[1]) * 1000 + int(f"{(found[2] or '')[:3]:0<3}")


_BLOCK: Final = 4 << 20
_LONGEST_LINE: Final = 12 << 20  # a frame of the socket has at most 10 MiB
# Files of another folder have cursors, too: those that somebody is reading are not old.
_OLD_CURSOR_MS: Final = 86_400_000
_SOURCE: Final = "spool"
_FALLBACK: Final = "fallback"


class _Place(NamedTuple):
    offset: int
    skipping: bool  # inside something that is too long


_START: Final = _Place(0, skipping=False)


class _Moved(Exception):
    """Another collector has read on in the same file."""


def collect(around: ObservedContext, spool: Spool) -> BatchReport:
    """Store what lies in the spool, and tell what came of it."""
    total = BatchReport()
    for taken in spool.take():
        total.add(_bring_in(around, spool, taken, "socket"))
    _tidy(around, spool)
    return total


def replay_fallback(around: ObservedContext, folder: Path) -> BatchReport:
    """Store what Hippo's programs left in their fallback folder; files get its endings."""
    total = BatchReport()
    spool = Spool(folder)
    for taken in spool.take():
        total.add(_bring_in(around, spool, taken, _FALLBACK))
    return total


def copy_fallback(around: ObservedContext, folder: Path) -> BatchReport:
    """Store what lies in another program's fallback folder, and leave its files as they are."""
    total = BatchReport()
    spool = Spool(folder)
    for path in spool.waiting():
        place = _START
        while True:
            batch, after = _next_batch(around, spool, SpoolFile(path, WHOLE), place, _FALLBACK)
            if after == place:
                break
            with around.store.write() as tx:
                batch.write(tx)
            total.add(batch.stored)
            place = after
    return total


def waiting_in(folder: Path) -> int:
    """Count the files that lie in a fallback folder."""
    return len(Spool(folder).waiting())


def _bring_in(around: ObservedContext, spool: Spool, taken: SpoolFile, origin: str) -> BatchReport:
    """Store what is in a file; one that cannot be read must not keep the others waiting."""
    try:
        came = _drain(around, spool, taken, origin)
    except Unreadable as error:
        spool.refuse(taken)
        with around.store.write() as tx:
            count_drop(tx, _SOURCE, "unreadable", 1, around.clock())
            note_failure(tx, COLLECTED, error.message, around.clock())
        return BatchReport(refused=1)
    hippos = ".partial" if came.refused else ".done"
    _finish(around, spool, taken, hippos if origin == _FALLBACK else "")
    return came


def _drain(around: ObservedContext, spool: Spool, taken: SpoolFile, origin: str) -> BatchReport:
    """Read a file on from where it was read to, block by block."""
    total = BatchReport()
    while True:
        with around.store.read() as tx:
            place = _place_of(tx, taken)
        batch, after = _next_batch(around, spool, taken, place, origin)
        if after == place:
            return total
        try:
            with around.store.write() as tx:
                _move(tx, taken, place, after, around.clock())
                batch.write(tx)
        except _Moved:
            continue
        total.add(batch.stored)


def _next_batch(
    around: ObservedContext, spool: Spool, taken: SpoolFile, place: _Place, origin: str
) -> tuple[Batch, _Place]:
    """Prepare the next block of a file; give where the one after it begins."""
    batch = Batch(around)
    limit = _BLOCK if taken.kind == APPENDED else _LONGEST_LINE
    data = spool.read(taken, place.offset, limit)
    ends = len(data) < limit and spool.is_settled(taken)
    if taken.kind == APPENDED:
        return batch, _take_records(batch, data, place, ends=ends)
    after, refused = _take_lines(batch, data, place, origin, ends=ends)
    if refused and origin != _FALLBACK:  # there the file itself is kept
        spool.set_aside(f"{taken.name}-{place.offset}", b"".join(refused))
    return batch, after


def _take_records(batch: Batch, data: bytes, place: _Place, *, ends: bool) -> _Place:
    """Hand over the records that shells appended; give where the next ones begin."""
    parsed = read_records(data, final=ends, skipping=place.skipping)
    ended = {_key(record) for record in parsed.records if isinstance(record, EndRecord)}
    for record in parsed.records:
        shell = Shell(record.session, record.pid)
        if isinstance(record, EnvRecord):
            batch.add_environment(shell, record.variables)
        elif isinstance(record, EndRecord) or _key(record) not in ended:
            batch.add(command_of(record), shell)
    if parsed.damaged:
        batch.refuse(_SOURCE, "damaged", parsed.damaged)
    return _Place(place.offset + parsed.consumed, parsed.skipping)


def _key(record: StartRecord | EndRecord) -> tuple[str, int, int, str]:
    return record.session, record.pid, record.seq, record.started


def _take_lines(
    batch: Batch, data: bytes, place: _Place, origin: str, *, ends: bool
) -> tuple[_Place, list[bytes]]:
    """Hand over the lines that a program left; give those that nobody understands back."""
    end = len(data) if ends else data.rfind(b"\n") + 1
    if not end:  # a line without an end
        too_long = len(data) >= _LONGEST_LINE
        return (_Place(place.offset + len(data), skipping=True) if too_long else place), []
    lines = data[:end].split(b"\n")
    if place.skipping:
        batch.refuse(_SOURCE, "too long")
        lines = lines[1:]
    refused = [line + b"\n" for line in lines if line.strip() and not _taken(batch, line, origin)]
    return _Place(place.offset + end, skipping=False), refused


def _taken(batch: Batch, line: bytes, origin: str) -> bool:
    try:
        batch.add(read_line(line, origin))
    except UnknownEnvelope:
        batch.refuse(_SOURCE, "unknown payload")
    except Invalid:
        batch.refuse(_SOURCE, "not understood")
        return False
    return True


def _place_of(tx: Tx, taken: SpoolFile) -> _Place:
    return _Place(*commands.spool_place(tx, taken.name))


def _move(tx: Tx, taken: SpoolFile, before: _Place, after: _Place, now: int) -> None:
    if _place_of(tx, taken) != before:
        raise _Moved
    commands.move_spool_place(tx, taken.name, after.offset, now, skipping=after.skipping)


def _finish(around: ObservedContext, spool: Spool, taken: SpoolFile, ending: str) -> None:
    """Remove a file that is stored to its end; its cursor is not needed any more then."""
    with around.store.read() as tx:
        place = _place_of(tx, taken)
    if spool.done(taken, place.offset, ending):
        around.store.evidence.drop_spool_place(taken.name)


def _tidy(around: ObservedContext, spool: Spool) -> None:
    """Forget files that are gone and shells that ended; commands without an end get a ticket."""
    spool.sweep()
    now = around.clock()
    with around.store.read() as tx:
        old = commands.old_spool_names(tx, now - _OLD_CURSOR_MS)
        waits = commands.has_unended(tx, now)
    # Only after the look into the store: others take files and note how far they are meanwhile.
    there = {path.name for path in spool.waiting()}
    gone = [name for name in old if name not in there]
    if not gone and not waits:
        return
    with around.store.write() as tx:
        for name in gone:
            commands.drop_spool_place(tx, name)
        commands.give_up_unended(tx, now)
        commands.forget_old_shells(tx, now)
