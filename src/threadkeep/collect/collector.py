"""The collector: brings what lies in the spool into the store, each thing once.

How far a file was read is stored in the same transaction as what it brought. Whoever is killed at
any point leaves either both or none; and everything has an id under which it is stored once.
"""

from pathlib import Path
from typing import Final, NamedTuple

from threadkeep.base.spool import APPENDED, WHOLE, Spool, SpoolFile, Unreadable
from threadkeep.base.tx import Tx
from threadkeep.collect.envelopes import UnknownEnvelope, read_line
from threadkeep.collect.hook_records import (
    EndRecord,
    EnvRecord,
    StartRecord,
    command_of,
    read_records,
)
from threadkeep.collect.storing import COLLECTED, Batch, BatchReport, Shell, Store
from threadkeep.errors import Invalid
from threadkeep.knowledge.commands import give_up_unended, has_unended
from threadkeep.knowledge.health import count_drop, note_failure

_BLOCK: Final = 4 << 20
_LONGEST_LINE: Final = 12 << 20  # a frame of the socket has at most 10 MiB
# Files of another folder have cursors, too: those that somebody is reading are not old.
_OLD_CURSOR_MS: Final = 86_400_000
_OLD_SHELL_MS: Final = 90 * 86_400_000
_SOURCE: Final = "spool"
_FALLBACK: Final = "fallback"


class _Place(NamedTuple):
    offset: int
    skipping: bool  # inside something that is too long


_START: Final = _Place(0, skipping=False)


class _Moved(Exception):
    """Another collector has read on in the same file."""


def collect(store: Store, spool: Spool) -> BatchReport:
    """Store what lies in the spool, and tell what came of it."""
    total = BatchReport()
    for taken in spool.take():
        total.add(_bring_in(store, spool, taken, "socket"))
    _tidy(store, spool)
    return total


def replay_fallback(store: Store, folder: Path) -> BatchReport:
    """Store what Hippo's programs left in their fallback folder; files get its endings."""
    total = BatchReport()
    spool = Spool(folder)
    for taken in spool.take():
        total.add(_bring_in(store, spool, taken, _FALLBACK))
    return total


def copy_fallback(store: Store, folder: Path) -> BatchReport:
    """Store what lies in another program's fallback folder, and leave its files as they are."""
    total = BatchReport()
    spool = Spool(folder)
    for path in spool.waiting():
        place = _START
        while True:
            batch, after = _next_batch(store, spool, SpoolFile(path, WHOLE), place, _FALLBACK)
            if after == place:
                break
            with store.db.write() as tx:
                batch.write(tx)
            total.add(batch.stored)
            place = after
    return total


def waiting_in(folder: Path) -> int:
    """Count the files that lie in a fallback folder."""
    return len(Spool(folder).waiting())


def _bring_in(store: Store, spool: Spool, taken: SpoolFile, origin: str) -> BatchReport:
    """Store what is in a file; one that cannot be read must not keep the others waiting."""
    try:
        came = _drain(store, spool, taken, origin)
    except Unreadable as error:
        spool.refuse(taken)
        with store.db.write() as tx:
            count_drop(tx, _SOURCE, "unreadable", 1, store.clock())
            note_failure(tx, COLLECTED, error.message, store.clock())
        return BatchReport(refused=1)
    hippos = ".partial" if came.refused else ".done"
    _finish(store, spool, taken, hippos if origin == _FALLBACK else "")
    return came


def _drain(store: Store, spool: Spool, taken: SpoolFile, origin: str) -> BatchReport:
    """Read a file on from where it was read to, block by block."""
    total = BatchReport()
    while True:
        with store.db.read() as tx:
            place = _place_of(tx, taken)
        batch, after = _next_batch(store, spool, taken, place, origin)
        if after == place:
            return total
        try:
            with store.db.write() as tx:
                _move(tx, taken, place, after, store.clock())
                batch.write(tx)
        except _Moved:
            continue
        total.add(batch.stored)


def _next_batch(
    store: Store, spool: Spool, taken: SpoolFile, place: _Place, origin: str
) -> tuple[Batch, _Place]:
    """Prepare the next block of a file; give where the one after it begins."""
    batch = Batch(store)
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
    row = tx.one("spool_cursor", {"name": taken.name})
    return _START if row is None else _Place(row[0], bool(row[1]))


def _move(tx: Tx, taken: SpoolFile, before: _Place, after: _Place, now: int) -> None:
    if _place_of(tx, taken) != before:
        raise _Moved
    values = {"name": taken.name, "offset": after.offset, "skipping": int(after.skipping)}
    tx.run("move_spool_cursor", values | {"now": now})


def _finish(store: Store, spool: Spool, taken: SpoolFile, ending: str) -> None:
    """Remove a file that is stored to its end; its cursor is not needed any more then."""
    with store.db.read() as tx:
        place = _place_of(tx, taken)
    if spool.done(taken, place.offset, ending):
        with store.db.write() as tx:
            tx.run("drop_spool_cursor", {"name": taken.name})


def _tidy(store: Store, spool: Spool) -> None:
    """Forget files that are gone and shells that ended; commands without an end get a ticket."""
    spool.sweep()
    now = store.clock()
    with store.db.read() as tx:
        old = [name for (name,) in tx.all("spool_names", {"before": now - _OLD_CURSOR_MS})]
        waits = has_unended(tx, now)
    # Only after the look into the store: others take files and note how far they are meanwhile.
    there = {path.name for path in spool.waiting()}
    gone = [name for name in old if name not in there]
    if not gone and not waits:
        return
    with store.db.write() as tx:
        for name in gone:
            tx.run("drop_spool_cursor", {"name": name})
        give_up_unended(tx, now)
        tx.run("forget_old_shells", {"before": now - _OLD_SHELL_MS})
