"""Putting a snapshot together: what the store says about itself, beside what the disk says."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from threadkeep.base.spool import Spool
from threadkeep.base.tx import Tx
from threadkeep.capture.logs import SETTLED_MS, UNFINISHED
from threadkeep.capture.observed.intake import matches
from threadkeep.capture.observed.shell_history import (
    HistoryCommand,
    HistoryFile,
    Tally,
    find_histories,
    read_past,
)
from threadkeep.capture.records import TROUBLES
from threadkeep.errors import ThreadkeepError
from threadkeep.knowledge.archive import LogState, all_looks, keeps_sums, load_log
from threadkeep.knowledge.forget import is_forgotten
from threadkeep.knowledge.health import (
    Health,
    all_drops,
    all_health,
    health_name,
    last_seen,
    last_tool_call,
    the_service,
)
from threadkeep.knowledge.memory_documents import SOURCE_KIND, memory_health
from threadkeep.knowledge.nodes import count_twins, node_marks
from threadkeep.knowledge.vector_rows import nodes_without_vector, vector_model
from threadkeep.service.doctor.invariants import (
    Browsing,
    LogBacklog,
    Memories,
    MissingCommands,
    PendingReports,
    Preflight,
    Probe,
    Snapshot,
    ToolCalls,
)
from threadkeep.service.doctor.watchdog_memory import (
    DoctorState,
    SeenHistory,
    SeenLog,
    awake_since,
    lost_lately,
    sample_drops,
    unclear_lately,
)
from threadkeep.sources.folders import stamp_of
from threadkeep.sources.records import Log, Source, UnreadablePlace, UserHome

# ------------------------------------------------------------------------------
# Evidence that something happened: what shells remember, which browsers run, what waits.

# Histories keep whole seconds, and a command is stored when it has ended.
_SLACK_MS: Final = 2_000
_BROWSERS: Final = (*("firefox", "librewolf", "chrome", "chromium", "brave", "msedge", "vivaldi"),)
_PROC: Final = Path("/proc")


def hooked_shells(hooks: Path) -> dict[str, int]:
    """Return the shells whose hook was written, and when that was."""
    found = {}
    try:
        entries = sorted(hooks.iterdir())
    except OSError:
        return {}
    for entry in entries:
        if entry.name.startswith("hook."):
            found[entry.name.removeprefix("hook.")] = entry.stat().st_mtime_ns // 1_000_000
    return found


def typed_since(
    histories: Iterable[HistoryFile],
    hooks: Mapping[str, int],
    last_stored: int | None,
    patterns: tuple[str, ...],
    before: Mapping[str, SeenHistory],
) -> tuple[MissingCommands | None, dict[str, SeenHistory]]:
    """Find commands that a history has and the store has not, and what to remember.

    Only shells with the hook count, from the time on at which they got it. A history that looks
    as it did is not read again.
    """
    seen = {}
    for file in histories:
        began = max(hooks.values(), default=None) if file.kind == "atuin" else hooks.get(file.kind)
        if began is None:
            continue
        after = max(began, last_stored or 0) + _SLACK_MS
        found = _read_history(file, after, patterns, before.get(str(file.path)))
        if found is not None:
            seen[str(file.path)] = found
    missing = [(one.since, path, one.commands) for path, one in seen.items() if one.commands]
    if not missing:
        return None, seen
    since, path, commands = min(missing)
    return MissingCommands(since, commands, path), seen


def _read_history(
    file: HistoryFile, after: int, patterns: tuple[str, ...], before: SeenHistory | None
) -> SeenHistory | None:
    try:
        found = os.stat(file.path)
        looks = (found.st_mtime_ns, found.st_size)
        if before is not None and (before.looks, before.after) == (looks, after):
            return before
        if found.st_mtime_ns // 1_000_000 <= after:
            return None
        times = [at for at in _times(read_past(file, Tally()), patterns) if at > after]
    except (OSError, ThreadkeepError):
        return None  # a history that cannot be read is no evidence
    return SeenHistory(looks, after, min(times, default=0), len(times))


def _times(entries: Iterable[HistoryCommand], patterns: tuple[str, ...]) -> Iterator[int]:
    """Yield when commands were typed that nobody keeps out."""
    for entry in entries:
        hidden = entry.command.startswith(" ") or matches(entry.command, patterns)
        if entry.at_ms is not None and not hidden:
            yield entry.at_ms


def waiting_in(place: str, folder: Path) -> PendingReports | None:
    """Tell how much waits in a folder of reports, and since when; None if nothing does."""
    try:
        files = Spool(folder).waiting()
    except ThreadkeepError:
        return None  # the doctor says so
    times = [at for at in map(_modified, files) if at is not None]
    return PendingReports(place, len(times), min(times)) if times else None


def _modified(path: Path) -> int | None:
    try:
        return path.lstat().st_mtime_ns // 1_000_000
    except OSError:
        return None


def browser_runs(proc: Path = _PROC) -> bool:
    """Tell whether a browser of this user runs, as far as the system tells."""
    try:
        numbers = [entry for entry in os.listdir(proc) if entry.isdigit()]  # noqa: PTH208  (quick)
    except OSError:
        return False
    return any(_is_browser(proc / number / "exe") for number in numbers)


def _is_browser(link: Path) -> bool:
    try:
        name = os.path.basename(os.readlink(link)).lower()  # noqa: PTH115, PTH119  (quick)
    except OSError:
        return False
    return name.startswith(_BROWSERS)


# ------------------------------------------------------------------------------
# The ground that capture is judged by: which logs on the disk are not in the store, since when.

# Their logs lie among the user's own files and are looked at twice a minute only.
_POLLED: Final = frozenset({"aider"})
_CLOSED: Final = "closed"


class LogScan(msgspec.Struct, frozen=True):
    """What was found: the logs that are behind, and what to remember of them."""

    behind: tuple[LogBacklog, ...]
    seen: dict[str, SeenLog]
    found: dict[str, int]  # logs on the disk, by agent
    missed: dict[str, int]  # of these, logs that are behind


class _Missing(msgspec.Struct, frozen=True):
    reader: str
    path: str
    mark: str
    since: int
    failed: bool
    why: str = ""  # of a place that cannot be read
    fix: str = ""
    polled: bool = False  # nobody tells when it can be read


def look_at_logs(
    tx: Tx,
    sources: Mapping[str, Source],
    user: UserHome,
    before: Mapping[str, SeenLog],
    now: int,
) -> LogScan:
    """Compare every log of these sources with the store; one look at each, none is opened."""
    behind: dict[str, list[_Missing]] = {}
    found: dict[str, int] = {}
    sums = not sources or keeps_sums(tx)
    for reader, source in sources.items():
        known = all_looks(tx, reader, sums=sums)
        logs, missing = _look(tx, known, reader, source, user, before, now)
        found[source.agent] = found.get(source.agent, 0) + logs
        behind.setdefault(source.agent, []).extend(missing)
    seen = {
        _key(one.reader, one.path): SeenLog(one.mark, _first_seen(one, before, now))
        for missing in behind.values()
        for one in missing
    }
    grouped = (_group(tx, agent, missing) for agent, missing in behind.items() if missing)
    missed = {agent: len(missing) for agent, missing in behind.items()}
    return LogScan(tuple(grouped), seen, found, missed)


def _look(
    tx: Tx,
    known: Mapping[str, LogState],
    reader: str,
    source: Source,
    user: UserHome,
    before: Mapping[str, SeenLog],
    now: int,
) -> tuple[int, list[_Missing]]:
    count, missing = 0, list[_Missing]()

    def hear(unseen: UnreadablePlace) -> None:
        if unseen.is_failure:
            missing.append(_closed(reader, unseen, before, now))

    try:
        for log in source.find(
            msgspec.structs.replace(user, tell=hear)
        ):  # one at a time: thousands would stay in our memory
            count += 1
            looks = known.get(log.path)
            if looks is not None and _settles_at(looks, log) > now:
                continue  # nobody misses a line that is still being written
            if looks is None and _is_forgotten(tx, source, log):
                continue  # its row went with it, until capture looks at it again
            if looks is None or looks.failed or not _looks_the_same(looks, log, source):
                missing.append(_missing(reader, log, looks, before, now))
    except TROUBLES as error:
        unseen = UnreadablePlace(f"source {reader}", str(error), "threadkeep capture")
        missing.append(_closed(reader, unseen, before, now))
    return count, missing


def _is_forgotten(tx: Tx, source: Source, log: Log) -> bool:
    name = log.session_id or Path(log.path).stem
    return "tk_forgotten" in tx.tables() and is_forgotten(tx, source.agent, name)


def _looks_the_same(looks: LogState, log: Log, source: Source) -> bool:
    """Tell whether a log looks as it did when it was read.

    Whoever only reads a database leaves an empty write-ahead log beside it: that is no change.
    """
    if looks.is_current(log.stamp):
        return True
    try:
        empty = source.kind == "document" and os.stat(f"{log.path}-wal").st_size == 0
        return empty and looks.is_current(stamp_of(os.stat(log.path)))
    except OSError:
        return False


def _closed(
    reader: str, unseen: UnreadablePlace, before: Mapping[str, SeenLog], now: int
) -> _Missing:
    """Return a place that cannot be read: whatever is in it is not in the store."""
    seen = before.get(_key(reader, unseen.path))
    since = now if seen is None else min(seen.first_seen, now)
    why, fix = unseen.why, unseen.fix
    return _Missing(reader, unseen.path, _CLOSED, since, failed=False, why=why, fix=fix)


def _missing(
    reader: str, log: Log, looks: LogState | None, before: Mapping[str, SeenLog], now: int
) -> _Missing:
    """Tell since when something of a log is missing.

    That is when it last changed. One that changes all the time is behind since the first look at
    which no more of it was stored than now.
    """
    mark = "" if looks is None else f"{looks.stamp}{looks.read_to}{looks.failed}"
    waits = 0 if looks is None else _settles_at(looks, log)
    changed = max(_changed_at(log), waits)
    seen = before.get(_key(reader, log.path))
    same = seen is not None and seen.mark == mark
    since = min(changed, seen.first_seen) if seen is not None and same else changed
    failed = looks is not None and looks.failed
    return _Missing(reader, log.path, mark, min(since, now), failed, polled=bool(waits))


def _settles_at(looks: LogState, log: Log) -> int:
    """Tell when capture takes the last line of a log as it is; 0 if it does not wait for one.

    Nothing happens then that would be told: it is noticed at the next look at all logs.
    """
    waits = looks.stamp[1] == UNFINISHED and looks.stamp[0] == log.stamp.size
    return log.stamp.mtime_ns // 1_000_000 + SETTLED_MS if waits else 0


def _first_seen(one: _Missing, before: Mapping[str, SeenLog], now: int) -> int:
    seen = before.get(_key(one.reader, one.path))
    return seen.first_seen if seen is not None and seen.mark == one.mark else now


def _changed_at(log: Log) -> int:
    """Return when a log changed: by the inode, because a copied file keeps its old mtime."""
    latest = log.stamp.mtime_ns
    for path in (log.path, f"{log.path}-wal"):
        try:
            latest = max(latest, os.stat(path).st_ctime_ns)
        except OSError:
            continue
    return latest // 1_000_000


def _group(tx: Tx, agent: str, missing: list[_Missing]) -> LogBacklog:
    """Put the logs of one agent together.

    A place that cannot be read stands for them, else the one that waits longest.
    """
    first = min(missing, key=lambda one: (not one.why, one.since))
    return LogBacklog(
        source=health_name(agent),
        agent=agent,
        since=first.since,
        logs=len(missing),
        example=first.path,
        why=_error(tx, first) if first.failed else first.why,
        polled=first.polled or agent in _POLLED,
        closed=first.mark == _CLOSED,
        fix=first.fix,
    )


def _error(tx: Tx, one: _Missing) -> str:
    log = load_log(tx, one.reader, one.path)
    return "" if log is None else log.error or ""


def _key(reader: str, path: str) -> str:
    return f"{reader}:{path}".encode("utf-8", "replace").decode()


WATCHER: Final = "claude-session-watcher"
WATCHDOG: Final = "watchdog"
_PREFLIGHT: Final = "brain-preflight"
_FRESH_MS: Final = 90_000
_TOOL_WINDOW_MS: Final = 3_600_000
_TOOL_REST_MS: Final = 60_000
_VECTORS_EVERY_MS: Final = 300_000
_VECTORS_OLD_MS: Final = 900_000
_COUNTED: Final = frozenset({"shell", "claude-tool", "browser"})


class DoctorScope(msgspec.Struct, frozen=True):
    """What is looked at: whose logs, which folders, and what the user has switched on."""

    user: UserHome
    sources: Mapping[str, Source]
    hooks: Path
    spool: Path
    fallbacks: tuple[Path, ...]
    excluded_commands: tuple[str, ...] = ()
    browser: bool = True
    model: bool = False
    embeddings: bool = True
    watchdog: bool = True
    memories: bool = False  # Claude's notes are captured


class CheckTime(msgspec.Struct, frozen=True):
    """When it is looked: by the clock, by the machine's own counter, and since when we run."""

    now: int
    monotonic_ms: int
    up_since: int | None = None  # None: whoever looks does not capture itself


class DoctorObservation(msgspec.Struct, frozen=True):
    """A snapshot, what to remember of it, and the logs it was made from."""

    snapshot: Snapshot
    memory: DoctorState
    ground: LogScan


def observe(
    tx: Tx, place: DoctorScope, moment: CheckTime, before: DoctorState
) -> DoctorObservation:
    """Look at the disk and at the store, and change nothing."""
    now, tables = moment.now, tx.tables()
    up_since = _up_since(tx, moment)
    health = {one.source: one for one in all_health(tx)}
    drops, last = all_drops(tx), last_seen(tx)
    sources = place.sources if "tk_logs" in tables else {}
    ground = look_at_logs(tx, sources, place.user, before.logs, now)
    typed, histories = _typed(last.typed, place, before)
    nodes = _duplicates(tx, before, tables)
    vectors = _vectors(tx, place, before, now)
    running = before.browser_since or now if place.browser and browser_runs() else None
    memory = DoctorState(
        at=now,
        monotonic_ms=moment.monotonic_ms,
        awake_since=_awake_since(before, moment, up_since),
        logs=ground.seen,
        histories=histories,
        drops=sample_drops(before, drops, now),
        browser_since=running,
        nodes=nodes,
        vectors=vectors,
    )
    looked_at = _heartbeat(health, WATCHER)
    snapshot = Snapshot(
        now=now,
        awake_since=memory.awake_since,
        resident=up_since is not None or _is_fresh(looked_at, now),
        looked_at=looked_at,
        captured_at=last.captured,
        behind=ground.behind,
        typed=typed,
        calls=_calls(tx, now),
        browsing=_browsing(health, running),
        lost=lost_lately(before, drops, now),
        unclear=unclear_lately(before, drops, _stored_lately(health), now),
        watchdog_at=_heartbeat(health, WATCHDOG) if place.watchdog else None,
        probes=_probes(health, place),
        waiting=_waiting(place),
        preflight=_preflight(health) if place.model else None,
        vectors_missing=vectors[1],
        duplicates=nodes[2],
        memories=_memories(tx, health, now) if place.memories else None,
        typed_at=last.typed,
    )
    return DoctorObservation(snapshot, memory, ground)


def _heartbeat(health: Mapping[str, Health], source: str) -> int | None:
    return health[source].last_heartbeat_ts if source in health else None


def _is_fresh(at: int | None, now: int) -> bool:
    return at is not None and now - at < _FRESH_MS


def _stored_lately(health: Mapping[str, Health]) -> int:
    return sum(one.events_last_1h for one in health.values() if one.source in _COUNTED)


def _typed(
    last: int | None, place: DoctorScope, before: DoctorState
) -> tuple[MissingCommands | None, dict[str, SeenHistory]]:
    hooks = hooked_shells(place.hooks)
    if not hooks:
        return None, {}
    found = find_histories(place.user.home, place.user.env)
    return typed_since(found, hooks, last, place.excluded_commands, before.histories)


def _calls(tx: Tx, now: int) -> ToolCalls | None:
    """Compare the tool calls of the last hour with the events that they became."""
    found = last_tool_call(tx, now - _TOOL_WINDOW_MS, now - _TOOL_REST_MS)
    return None if found is None else ToolCalls(*found)


def _browsing(health: Mapping[str, Health], running: int | None) -> Browsing | None:
    heard = _heartbeat(health, "browser")
    return None if heard is None or running is None else Browsing(running, heard)


def _probes(health: Mapping[str, Health], place: DoctorScope) -> tuple[Probe, ...]:
    return tuple(
        Probe(one.source, bool(one.probe_ok), one.probe_last_run_ts, one.probe_last_run_ts)
        for one in health.values()
        if one.probe_last_run_ts is not None
        and one.probe_ok is not None
        and (place.browser or one.source != "browser")
    )


def _waiting(place: DoctorScope) -> tuple[PendingReports, ...]:
    folders = [("spool", place.spool), *(("fallback", folder) for folder in place.fallbacks)]
    found = (waiting_in(name, folder) for name, folder in folders)
    return tuple(one for one in found if one is not None)


def _preflight(health: Mapping[str, Health]) -> Preflight | None:
    one = health.get(_PREFLIGHT)
    if one is None or not one.consecutive_failures:
        return None
    since = one.last_success_ts or one.last_error_ts or 0
    return Preflight(one.consecutive_failures, since, one.last_error_msg or "no message")


def _memories(tx: Tx, health: Mapping[str, Health], now: int) -> Memories | None:
    found, taken = memory_health(tx, now), health.get(SOURCE_KIND)
    if found is None:
        return None
    return Memories(
        watched_at=found.watcher_last_heartbeat_ms,
        taken_at=found.ingest_last_event_ms,
        failures=found.ingest_consecutive_failures,
        failed_at=None if taken is None else taken.last_error_ts,
        message=(taken.last_error_msg if taken is not None else None) or "no message",
        waiting=found.stale_projection_count,
        waiting_since=found.stale_since,
        bare=found.orphan_chunk_links,
        bare_since=found.orphans_since,
    )


def _duplicates(tx: Tx, before: DoctorState, tables: set[str]) -> tuple[int, int, int]:
    """Count the nodes that are there twice; while there are no new ones nothing is counted."""
    if not tables >= {"knowledge_nodes", "knowledge_node_agentic_sessions"}:
        return 0, 0, 0
    marks = node_marks(tx)
    return before.nodes if marks == before.nodes[:2] else (*marks, count_twins(tx))


def _vectors(tx: Tx, place: DoctorScope, before: DoctorState, now: int) -> tuple[int, int]:
    """Count the nodes without a vector, every few minutes: that reads all of them."""
    if not place.embeddings or vector_model(tx) is None:
        return 0, 0
    if 0 <= now - before.vectors[0] < _VECTORS_EVERY_MS:
        return before.vectors
    return now, nodes_without_vector(tx, now - _VECTORS_OLD_MS)


def _awake_since(before: DoctorState, moment: CheckTime, up_since: int | None) -> int:
    resident = moment.up_since is not None
    return awake_since(before, moment.now, moment.monotonic_ms, up_since, resident=resident)


def _up_since(tx: Tx, moment: CheckTime) -> int | None:
    """Tell since when somebody captures: whoever looks, or the service of this file."""
    if moment.up_since is not None:
        return moment.up_since
    service = the_service(tx)
    return service.started_at if service is not None and service.is_running else None
