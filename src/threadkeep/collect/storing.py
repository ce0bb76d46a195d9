"""Storing what was reported: everything of a batch in one transaction, with the sources' health."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from threadkeep.base.sqlite import Database
from threadkeep.base.tx import Tx
from threadkeep.collect.protocol import RegisterWatchSha, watch_of
from threadkeep.collect.rules import Rules, masked_variables, prepare
from threadkeep.knowledge.commands import (
    WriteResult,
    environment_of,
    note_environment,
    notice_others,
    write_command,
)
from threadkeep.knowledge.health import count_drop, heard, note_failure, note_success
from threadkeep.knowledge.observed import Command, GitState, Heartbeat, Observed, Visit, Watch
from threadkeep.knowledge.visits import write_visit
from threadkeep.knowledge.watchlist import register

EXCLUDED: Final = "excluded"
COLLECTED: Final = "shell"  # the source whose health tells of trouble with the spool

Facts = Callable[[str, int], GitState | None]  # where a folder stood in its repository, and when


class BatchReport(msgspec.Struct):
    """What came of a batch."""

    new: int = 0
    updated: int = 0  # a command has ended, a visit was longer
    known: int = 0  # it was there already
    excluded: int = 0
    refused: int = 0  # no report that anybody could understand

    def add(self, other: "BatchReport") -> None:
        """Add what came of another batch."""
        for field in self.__struct_fields__:
            setattr(self, field, getattr(self, field) + getattr(other, field))


class Store(msgspec.Struct, frozen=True):
    """Where reports go, and by which rules."""

    db: Database
    rules: Rules
    clock: Callable[[], int]  # epoch milliseconds
    facts: Callable[[], Facts] = lambda: lambda _cwd, _at: None  # one for each batch
    user: str = "unknown"  # whose commands they are, where nobody says


class Shell(msgspec.Struct, frozen=True):
    """One running shell of a session."""

    session: str
    pid: int


class _Environment(msgspec.Struct, frozen=True):
    variables: dict[str, str]


class Batch:
    """Reports on their way into the store: prepared outside of a transaction, written inside."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._facts = store.facts()
        self._ready: list[tuple[Observed | _Environment, Shell | None]] = []
        self._last: dict[str, int | None] = {}
        self._fresh: Counter[str] = Counter()
        self.stored = BatchReport()
        self._excluded: Counter[str] = Counter()
        self._refused: Counter[tuple[str, str]] = Counter()

    def add(self, thing: Observed, shell: Shell | None = None) -> None:
        """Prepare a report, of a shell if it told its environment; one kept out is only counted.

        A watch for what is no commit, or no repository, raises Invalid.
        """
        if isinstance(thing, Watch):
            thing = _checked(thing, self._store.clock())
        ready = prepare(self._completed(thing), self._store.rules)
        if ready is None:
            self._excluded[source_of(thing)] += 1
            self.stored.excluded += 1
        else:
            self._ready.append((ready, shell))

    def add_environment(self, shell: Shell, variables: dict[str, str]) -> None:
        """Prepare the environment in which a shell's next commands run."""
        masked = masked_variables(variables, self._store.rules)
        self._ready.append((_Environment(masked), shell))

    def refuse(self, source: str, reason: str, count: int = 1) -> None:
        """Count what nobody could understand."""
        self._refused[source, reason] += count
        self.stored.refused += count

    def write(self, tx: Tx) -> None:
        """Write what was prepared."""
        now = self._store.clock()
        notice_others(tx)
        for thing, shell in self._ready:
            self._count(thing, _write(tx, thing, shell, now))
        for source, last in self._last.items():
            # A clock that is ahead must not hide that a source falls silent.
            at = None if last is None else min(last, now)
            note_success(tx, source, last_event=at, count=self._fresh[source], now=now)
        for source, count in self._excluded.items():
            count_drop(tx, source, EXCLUDED, count, now)
        for (source, reason), count in self._refused.items():
            count_drop(tx, source, reason, count, now)

    def _completed(self, thing: Observed) -> Observed:
        """Add to a command what it does not tell: whose it is, and where its repository stood."""
        if not isinstance(thing, Command):
            return thing
        git = thing.git
        if git is None and thing.probe_tag is None:
            git = self._facts(thing.cwd, thing.at - thing.duration_ms)
        user = thing.username or self._store.user
        return msgspec.structs.replace(thing, git=git, username=user)

    def _count(self, thing: Observed | _Environment, written: WriteResult | None) -> None:
        if not isinstance(thing, Command | Visit) or written is None:
            return
        source = source_of(thing)
        last = self._last.setdefault(source, None)
        if thing.probe_tag is None:  # a probe shows that the way is open, but nothing happened
            self._last[source] = thing.at if last is None else max(last, thing.at)
        if written.event is None:
            self.stored.known += 1
        elif not written.new:
            self.stored.updated += 1
        else:
            self.stored.new += 1
            self._fresh[source] += thing.probe_tag is None


def _checked(watch: Watch, now: int) -> Watch:
    """Nobody waits longer than is allowed, even if the clock was ahead."""
    request = RegisterWatchSha(watch.sha, watch.repo, watch.ttl_secs)
    return watch_of(request, min(watch.at, now))


def source_of(thing: Observed) -> str:
    """Name the row of `source_health` that a report belongs to."""
    match thing:
        case Command():
            return "shell" if thing.tool_name is None else "claude-tool"
        case Visit():
            return "browser"
        case Heartbeat():
            return thing.source
        case Watch():
            return "github-actions"


def store_all(store: Store, things: Sequence[Observed]) -> BatchReport:
    """Store reports in one transaction; none of them if that fails."""
    batch = Batch(store)
    for thing in things:
        batch.add(thing)
    with store.db.write() as tx:
        batch.write(tx)
    return batch.stored


def note_trouble(store: Store, message: str) -> None:
    """Write down that reports could not be stored."""
    with store.db.write() as tx:
        note_failure(tx, COLLECTED, message, store.clock())


def _write(
    tx: Tx, thing: Observed | _Environment, shell: Shell | None, now: int
) -> WriteResult | None:
    match thing:
        case Command():
            known = environment_of(tx, shell.session, shell.pid) if shell else None
            return write_command(tx, thing, now, known)
        case _Environment() if shell:
            note_environment(tx, shell.session, shell.pid, thing.variables, now)
        case Visit():
            return write_visit(tx, thing, now)
        case Heartbeat():
            heard(tx, thing.source, min(thing.at, now), now, thing.error)
        case Watch():
            register(tx, thing)
    return None
