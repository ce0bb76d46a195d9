"""What is put right whenever a file is opened for writing, of whatever version it came."""

from typing import Any, Final

from threadkeep.base.clock import Clock
from threadkeep.base.schema import add_missing_columns, columns_of
from threadkeep.base.sqlite import Database
from threadkeep.base.tx import Tx
from threadkeep.knowledge.layout import (
    FILL_INDEX,
    INDEX,
    begun_version,
    create_missing,
    has_everything,
    head_of,
    is_begun,
    run_script,
    seed_health,
    seeded,
    side_of,
    unseeded,
    user_version,
    write_version,
)

Health = dict[str, Any]

# What keeps tickets apart that wait for us alone: those that were there before are touched once.
_OWN_TICKETS: Final = frozenset({"tk_own_ticket_again"})

# The name of a source before version 14 gave it another.
_OLD, _NEW = "claude-session", "agentic-session-claude"
_LARGEST: Final = (
    *("last_event_ts", "last_success_ts", "last_heartbeat_ts", "consecutive_failures"),
    *("events_last_1h", "events_last_24h", "expected_min_per_hour"),
)
# What is said together comes from the row that said it last; the first column tells when.
_TOGETHER: Final = (
    ("last_error_ts", "last_error_msg"),
    ("probe_last_run_ts", "probe_ok", "probe_lag_ms"),
)
_HEALTH: Final = (*_LARGEST, *(column for group in _TOGETHER for column in group))
_MISSING: Final = (
    ("agentic_sessions", "probe_tag", "TEXT"),
    ("agentic_cursor", "last_seen_updated_at", "INTEGER NOT NULL DEFAULT 0"),
    ("tk_logs", "ctime_ns", "INTEGER NOT NULL DEFAULT 0"),
    ("tk_logs", "crc", "INTEGER"),
    ("tk_logs", "checked_at", "INTEGER"),
)
_LEGACY_CURSOR: Final = "last_time_created"


def finish_making(database: Database, clock: Clock) -> None:
    """Finish a file that Hippo has begun: it makes table after table, and the version last."""
    with database.read() as tx:
        if not is_begun(tx):
            return
    with database.write() as tx:
        if is_begun(tx):
            write_version(tx, begun_version(tx))
            mend(tx, clock())


def heal(database: Database, clock: Clock) -> None:
    """Bring what a file lacks by its version, in one transaction; a whole file is not written."""
    with database.read() as tx:
        if is_whole(tx):
            return
    with database.write() as tx:
        mend(tx, clock())


def is_whole(tx: Tx) -> bool:
    """Tell whether there is nothing to heal."""
    return (
        has_everything(tx)
        and all(column in columns_of(tx, table) for table, column, _ in _MISSING)
        and _health_of(tx, _OLD) is None
        and not unseeded(tx)
    )


def mend(tx: Tx, now: int) -> None:
    """Make what is missing: tables, indexes, columns, health rows, our own tables."""
    _add_late_columns(tx)
    version = user_version(tx)
    if INDEX in create_missing(tx, head_of(version)):
        run_script(tx, FILL_INDEX)
    _rename_source(tx, now)
    seed_health(tx, seeded(version), now)
    if create_missing(tx, side_of(version)) & _OWN_TICKETS:
        tx.execute("UPDATE agentic_enrichment_queue SET status = status WHERE status = 'pending'")


def _add_late_columns(tx: Tx) -> None:
    for table, column, kind in _MISSING:
        present = columns_of(tx, table)
        if present and add_missing_columns(tx, table, {column: kind}) and _LEGACY_CURSOR in present:
            tx.execute(f"UPDATE {table} SET {column} = {_LEGACY_CURSOR}")  # noqa: S608


# ---------------------------------------------------------------------- one source, two names


def merge_health(old: Health, new: Health) -> Health:
    """Make one health row of two: the largest numbers, and what was said last."""
    merged: Health = {column: _largest(old[column], new[column]) for column in _LARGEST}
    for group in _TOGETHER:
        when = group[0]
        older_counts = new[when] is None or (old[when] is not None and old[when] > new[when])
        merged |= {column: (old if older_counts else new)[column] for column in group}
    return merged


def _largest(*values: int | None) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _rename_source(tx: Tx, now: int) -> None:
    old = _health_of(tx, _OLD)
    if old is None:
        return
    seed_health(tx, (_NEW,), now)
    merged = merge_health(old, _health_of(tx, _NEW) or old)
    values = ", ".join(f"{column} = :{column}" for column in _HEALTH)
    sql = f"UPDATE source_health SET {values}, updated_at = :now WHERE source = :source"  # noqa: S608
    tx.execute(sql, {**merged, "now": now, "source": _NEW})
    tx.execute("DELETE FROM source_health WHERE source = ?", (_OLD,))


def _health_of(tx: Tx, source: str) -> Health | None:
    sql = f"SELECT {', '.join(_HEALTH)} FROM source_health WHERE source = ?"  # noqa: S608
    row = tx.execute(sql, (source,)).fetchone()
    return None if row is None else dict(zip(_HEALTH, row, strict=True))
