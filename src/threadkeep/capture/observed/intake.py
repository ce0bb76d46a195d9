"""Storing what was reported: everything of a batch in one transaction, with the sources' health."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from threadkeep.base.spool import Spool
from threadkeep.base.tx import Tx
from threadkeep.capture.observed.envelopes import write_line
from threadkeep.capture.observed.protocol import RegisterWatchSha, watch_of
from threadkeep.capture.observed.visits import is_listed, split_address, stripped
from threadkeep.capture.records import Exclusion
from threadkeep.knowledge.commands import (
    WriteResult,
    environment_of,
    note_environment,
    notice_others,
    write_command,
    write_visit,
)
from threadkeep.knowledge.health import count_drop, heard, note_success
from threadkeep.knowledge.records import (
    Command,
    GitState,
    Heartbeat,
    Observed,
    Output,
    Visit,
    Watch,
)
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.knowledge.workflow_runs import register

# ------------------------------------------------------------------------------
# What is done to everything reported before it is stored: left out, or its secrets masked.

# Where one command of a line ends and the next begins, as far as patterns are concerned.
_SLASHES: Final = re.compile(r"^/+")
_BETWEEN: Final = re.compile(r"[;&|\n]+|\$\(|`|\(")


class Rules(msgspec.Struct, frozen=True):
    """What the user keeps out, and how secrets are masked."""

    clean: Callable[[str], str]
    folders: Exclusion = Exclusion()
    commands: tuple[str, ...] = ()  # patterns of commands
    visits: bool = True  # whether pages are kept at all
    sites: tuple[str, ...] | None = None  # the only domains of which pages are kept; None: any
    domains: tuple[str, ...] = ()  # excluded with all below them
    strip_params: tuple[str, ...] = ()  # cut out of addresses


def prepare(thing: Observed, rules: Rules) -> Observed | None:
    """Mask the secrets of what was reported; None if the user does not want it kept."""
    match thing:
        case Command():
            return None if is_excluded(thing, rules) else masked_command(thing, rules)
        case Visit():
            return None if is_excluded(thing, rules) else masked_visit(thing, rules)
        case Heartbeat():
            return msgspec.structs.replace(thing, error=_maybe(thing.error, rules.clean))
        case _:
            return thing


def is_excluded(thing: Command | Visit, rules: Rules) -> bool:
    """Tell whether the user keeps out this folder, this command, or this site. Probes pass."""
    if thing.probe_tag is not None:
        return False
    if isinstance(thing, Visit):
        return not rules.visits or not _is_wanted(thing, rules)
    return lies_in(thing.cwd, rules.folders) or matches(thing.command, rules.commands)


def lies_in(folder: str, excluded: Exclusion) -> bool:
    """Tell whether a folder is kept out, by any of its names: links and dots lead into it too."""
    if not folder or not excluded.patterns:
        return False
    plain = _SLASHES.sub("/", os.path.normpath(folder))
    return any(map(excluded.of_place, (folder, plain, os.path.realpath(plain))))


def _is_wanted(visit: Visit, rules: Rules) -> bool:
    address = split_address(visit.url)
    hosts = (visit.domain, address.domain() if address else "")
    if any(is_listed(host, rules.domains) for host in hosts):
        return False
    return rules.sites is None or all(is_listed(host, rules.sites) for host in hosts)


def matches(command: str, patterns: tuple[str, ...]) -> bool:
    """Tell whether a command, or one that is part of it, fits one of the patterns.

    A pattern of one plain word names a program, whatever its arguments.
    """
    if not patterns:
        return False
    parts = [command.strip(), *(part.strip() for part in _BETWEEN.split(command))]
    return any(_fits(part, pattern) for part in parts for pattern in patterns if part)


def _fits(part: str, pattern: str) -> bool:
    if fnmatchcase(part, pattern):
        return True
    first = part.split(None, 1)[0] if part.split() else ""
    return first == pattern or first.rpartition("/")[2] == pattern


def masked_command(command: Command, rules: Rules) -> Command:
    """Mask the secrets in everything that a command brought along."""
    clean = rules.clean
    return msgspec.structs.replace(
        command,
        command=clean(command.command),
        cwd=clean(command.cwd),
        stdout=_masked_output(command.stdout, clean),
        stderr=_masked_output(command.stderr, clean),
        env=masked_variables(command.env, rules),
        git=_masked_git(command.git, clean),
    )


def masked_visit(visit: Visit, rules: Rules) -> Visit:
    """Mask the secrets in everything that a visit brought along."""
    clean = rules.clean
    if _leads_from_outside(visit, rules):
        visit = msgspec.structs.replace(visit, referrer=None, search_query=None)
    return msgspec.structs.replace(
        visit,
        url=clean(_stripped(visit.url, rules)),
        title=_maybe(visit.title, clean),
        extracted_text=_maybe(visit.extracted_text, clean),
        search_query=_maybe(visit.search_query, clean),
        referrer=_maybe(visit.referrer, lambda url: clean(_stripped(url, rules))),
    )


def _leads_from_outside(visit: Visit, rules: Rules) -> bool:
    """Tell whether somebody came from a site that is kept out, with what was looked for there."""
    address = split_address(visit.referrer) if visit.referrer else None
    return address is not None and is_listed(address.domain(), rules.domains)


def _stripped(url: str, rules: Rules) -> str:
    address = split_address(url)
    return stripped(address, rules.strip_params) if address else url


def masked_variables(variables: dict[str, str], rules: Rules) -> dict[str, str]:
    """Mask the secrets in the values of variables; one that names a folder kept out goes."""
    return {
        name: _masked_value(name, text, rules.clean)
        for name, text in variables.items()
        if not any(lies_in(place, rules.folders) for place in text.split(":"))
    }


def _masked_value(name: str, text: str, clean: Callable[[str], str]) -> str:
    # With its name in front, a value is found by rules that look for assignments.
    told = clean(f"{name}={text}")
    return told.removeprefix(f"{name}=") if told.startswith(f"{name}=") else clean(text)


def _masked_output(output: Output | None, clean: Callable[[str], str]) -> Output | None:
    if output is None:
        return None
    return msgspec.structs.replace(output, content=clean(output.content))


def _masked_git(git: GitState | None, clean: Callable[[str], str]) -> GitState | None:
    if git is None:
        return None
    return msgspec.structs.replace(
        git, repo=_maybe(git.repo, clean), branch=_maybe(git.branch, clean)
    )


def _maybe(text: str | None, clean: Callable[[str], str]) -> str | None:
    return None if text is None else clean(text)


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


class ObservedContext(msgspec.Struct, frozen=True):
    """Where reports go, and by which rules."""

    store: KnowledgeStore
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

    def __init__(self, around: ObservedContext) -> None:
        self._around = around
        self._facts = around.facts()
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
            thing = _checked(thing, self._around.clock())
        ready = prepare(self._completed(thing), self._around.rules)
        if ready is None:
            self._excluded[source_of(thing)] += 1
            self.stored.excluded += 1
        else:
            self._ready.append((ready, shell))

    def add_environment(self, shell: Shell, variables: dict[str, str]) -> None:
        """Prepare the environment in which a shell's next commands run."""
        masked = masked_variables(variables, self._around.rules)
        self._ready.append((_Environment(masked), shell))

    def refuse(self, source: str, reason: str, count: int = 1) -> None:
        """Count what nobody could understand."""
        self._refused[source, reason] += count
        self.stored.refused += count

    def write(self, tx: Tx) -> None:
        """Write what was prepared."""
        now = self._around.clock()
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
        user = thing.username or self._around.user
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


def store_all(around: ObservedContext, things: Sequence[Observed]) -> BatchReport:
    """Store reports in one transaction; none of them if that fails."""
    batch = Batch(around)
    for thing in things:
        batch.add(thing)
    with around.store.write() as tx:
        batch.write(tx)
    return batch.stored


def note_trouble(around: ObservedContext, message: str) -> None:
    """Write down that reports could not be stored."""
    around.store.upkeep.note_failure(COLLECTED, message, around.clock())


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


# ------------------------------------------------------------------------------
# Reporting: one thing that was observed, left in the spool. No store is opened for it.


def report(spool: Spool, rules: Rules, thing: Observed) -> bool:
    """Leave a report in a spool, its secrets masked; False if the user keeps it out."""
    return report_all(spool, rules, [thing]) == 1


def report_all(spool: Spool, rules: Rules, things: Iterable[Observed]) -> int:
    """Leave reports in one file of a spool, on the disk when this returns; count them."""
    ready = [done for thing in things if (done := prepare(thing, rules)) is not None]
    if ready:
        spool.put(b"".join(map(write_line, ready)))
    return len(ready)
