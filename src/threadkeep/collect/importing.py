"""Importing the histories that shells kept before anybody collected: each command once."""

import re
import socket
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final
from uuid import UUID, uuid5

import msgspec

from threadkeep.collect.storing import Batch, BatchReport, Store
from threadkeep.knowledge.commands import HISTORY, is_known
from threadkeep.knowledge.observed import Command
from threadkeep.sources.shell_history import HistoryCommand, HistoryFile, Tally, read_past

_NAMESPACE: Final = UUID("2b0c5e9e-6a58-5d0c-8f52-0a7e1d6d7c11")
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
    store: Store,
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
        _import(store, file, came, show, dry_run=dry_run)
    return done


def _import(
    store: Store, file: HistoryFile, came: ImportedFile, show: Progress, *, dry_run: bool
) -> None:
    tally = Tally()
    entries = _once(read_past(file, tally))
    changed = int(file.path.stat().st_mtime * 1000)
    while some := list(islice(entries, _ROWS)):
        came.commands += len(some)
        if not dry_run:
            came.stored.add(_store(store, file, some, changed))
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
    store: Store, file: HistoryFile, entries: list[HistoryCommand], changed: int
) -> BatchReport:
    clean = store.rules.clean
    with store.db.read() as tx:
        wanted = [e for e in entries if e.at_ms is not None or not is_known(tx, clean(e.command))]
    batch = Batch(store)
    for entry in wanted:
        batch.add(command_of(entry, file, changed))
    with store.db.write() as tx:
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
    return str(uuid5(_NAMESPACE, f"{file.kind}:{entry.session or file.path}"))
