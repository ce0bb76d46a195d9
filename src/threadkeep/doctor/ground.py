"""The ground that capture is judged by: which logs on the disk are not in the store, since when."""

import os
from collections.abc import Mapping
from typing import Final

import msgspec

from threadkeep.base.text import from_sql
from threadkeep.base.tx import Tx
from threadkeep.capture.line_logs import SETTLED_MS, UNFINISHED
from threadkeep.capture.troubles import TROUBLES
from threadkeep.doctor.memory import SeenLog
from threadkeep.doctor.snapshot import LogBacklog
from threadkeep.knowledge.health import health_name
from threadkeep.knowledge.logs import LogState, all_looks, keeps_sums
from threadkeep.sources.folders import stamp_of
from threadkeep.sources.records import Log, Source, UnreadablePlace, UserHome

# Their logs lie among the user's own files and are looked at twice a minute only.
_POLLED: Final = frozenset({"aider"})
_CLOSED: Final = "closed"
_ERROR: Final = "SELECT error FROM tk_logs WHERE reader = ? AND path = ? AND item = ''"


class LogScan(msgspec.Struct, frozen=True):
    """What was found: the logs that are behind, and what to remember of them."""

    behind: tuple[LogBacklog, ...]
    seen: dict[str, SeenLog]
    found: dict[str, int]  # logs on the disk, by harness
    missed: dict[str, int]  # of these, logs that are behind


class _Missing(msgspec.Struct, frozen=True):
    reader: str
    path: str
    mark: str
    since: int
    failed: bool
    why: str = ""  # of a place that cannot be looked into
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
        logs, missing = _look(known, reader, source, user, before, now)
        found[source.harness] = found.get(source.harness, 0) + logs
        behind.setdefault(source.harness, []).extend(missing)
    seen = {
        _key(one.reader, one.path): SeenLog(one.mark, _first_seen(one, before, now))
        for missing in behind.values()
        for one in missing
    }
    grouped = (_group(tx, harness, missing) for harness, missing in behind.items() if missing)
    missed = {harness: len(missing) for harness, missing in behind.items()}
    return LogScan(tuple(grouped), seen, found, missed)


def _look(
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
            if looks is None or looks.failed or not _looks_the_same(looks, log, source):
                missing.append(_missing(reader, log, looks, before, now))
    except TROUBLES as error:
        unseen = UnreadablePlace(f"source {reader}", str(error), "threadkeep capture")
        missing.append(_closed(reader, unseen, before, now))
    return count, missing


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
    """Give a place that cannot be looked into: whatever is in it is not in the store."""
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
    """Give when a log changed: by the inode, because a copied file keeps its old mtime."""
    latest = log.stamp.mtime_ns
    for path in (log.path, f"{log.path}-wal"):
        try:
            latest = max(latest, os.stat(path).st_ctime_ns)
        except OSError:
            continue
    return latest // 1_000_000


def _group(tx: Tx, harness: str, missing: list[_Missing]) -> LogBacklog:
    """Put the logs of one harness together.

    A place that cannot be looked into stands for them, else the one that waits longest.
    """
    first = min(missing, key=lambda one: (not one.why, one.since))
    return LogBacklog(
        source=health_name(harness),
        harness=harness,
        since=first.since,
        logs=len(missing),
        example=first.path,
        why=_error(tx, first) if first.failed else first.why,
        polled=first.polled or harness in _POLLED,
        closed=first.mark == _CLOSED,
        fix=first.fix,
    )


def _error(tx: Tx, one: _Missing) -> str:
    row = tx.execute(_ERROR, (one.reader, one.path)).fetchone()
    return "" if row is None or row[0] is None else from_sql(row[0])


def _key(reader: str, path: str) -> str:
    return f"{reader}:{path}".encode("utf-8", "replace").decode()
