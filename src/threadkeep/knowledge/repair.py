"""What is put right whenever a file is opened for writing, regardless of its version."""

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from threadkeep.base.clock import Clock
from threadkeep.base.database import Database
from threadkeep.base.json import encode
from threadkeep.base.paths import project_name
from threadkeep.base.sql import load_text
from threadkeep.base.sqlite.catalogue import (
    broken_references,
    column_facts,
    definitions,
    foreign_keys,
)
from threadkeep.base.sqlite.schema import add_missing_columns
from threadkeep.base.text import pattern
from threadkeep.base.tx import Sql, Tx
from threadkeep.errors import Damaged, Invalid
from threadkeep.knowledge.records import OrphanRow
from threadkeep.knowledge.schema import (
    FILL_INDEX,
    NODE_WORDS,
    PACKAGE,
    begun_version,
    create_missing,
    has_everything,
    head_of,
    is_begun,
    present_tables,
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
# What tells that the projects of agents' copies of a repository were put right.
_COPIES: Final = "tk_sessions_copies"

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
        and all(column in tx.columns(table) for table, column, _ in _MISSING)
        and _health_of(tx, _OLD) is None
        and not unseeded(tx)
    )


def mend(tx: Tx, now: int) -> None:
    """Make what is missing: tables, indexes, columns, health rows, our own tables."""
    _add_late_columns(tx)
    version = user_version(tx)
    if NODE_WORDS.table in create_missing(tx, head_of(version)):
        tx.script(FILL_INDEX)
    _rename_source(tx, now)
    seed_health(tx, seeded(version), now)
    made = create_missing(tx, side_of(version))
    if made & _OWN_TICKETS:
        tx.run(Sql("UPDATE agentic_enrichment_queue SET status = status WHERE status = 'pending'"))
    if _COPIES in made:
        _name_copies(tx)


def _name_copies(tx: Tx) -> None:
    """Give sessions in agents' copies of a repository its project: they had the copy's name."""
    sql = "SELECT id, cwd, project FROM tk_sessions WHERE instr(cwd, 'worktrees/') > 0"
    for number, cwd, project in tx.all(Sql(sql)):
        inside = cwd.replace("\\", "/").partition("worktrees/")[2].split("/")
        name = project_name(cwd)
        if project in inside and name and name != project:
            tx.run(Sql("UPDATE tk_sessions SET project = ? WHERE id = ?"), (name, number))


def _add_late_columns(tx: Tx) -> None:
    for table, column, kind in _MISSING:
        present = tx.columns(table)
        if present and add_missing_columns(tx, table, {column: kind}) and _LEGACY_CURSOR in present:
            tx.run(Sql(f"UPDATE {table} SET {column} = {_LEGACY_CURSOR}"))  # noqa: S608


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
    tx.run(Sql(sql), {**merged, "now": now, "source": _NEW})
    tx.run(Sql("DELETE FROM source_health WHERE source = ?"), (_OLD,))


def _health_of(tx: Tx, source: str) -> Health | None:
    sql = f"SELECT {', '.join(_HEALTH)} FROM source_health WHERE source = ?"  # noqa: S608
    row = tx.one(Sql(sql), (source,))
    return None if row is None else dict(zip(_HEALTH, row, strict=True))


# ------------------------------------------------------------------------------
# Tables rebuilt, for what SQLite cannot change in place: a CHECK, a UNIQUE.

# Which agents' conversations may be stored; as in head.sql, which a test compares.
HIPPOS: Final = ("claude-code", "opencode", "codex", "cursor")  # those that Hippo reads itself
HARNESSES: Final = (
    *HIPPOS,
    *("gemini-cli", "copilot-cli", "pi", "aider", "hermes", "nanoclaw", "chat", "state", "mailbox"),
)
_TABLE: Final = "agentic_sessions"
_PLAIN: Final = pattern(r"[a-z][a-z0-9-]{1,39}")
_LIST: Final = pattern(r"(\bharness\b[\"`\]]?\s+IN\s*\()([^)]*)", re.IGNORECASE)
_NAME: Final = pattern(
    r"(CREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?)[\"`\[]?agentic_sessions[\"`\]]?", re.IGNORECASE
)


def rebuild(tx: Tx, table: str, create: str) -> None:
    """Put a table of the same name in the place of one, with its rows; `create` makes `<name>_new`.

    Columns that only the new one has get their default. Indexes and triggers go with the old one.
    """
    _refuse_foreign_keys(tx, table)
    spare = f"{table}_new"
    tx.run(Sql(f'DROP TABLE IF EXISTS "{spare}"'))
    tx.script(create)
    new = tx.columns(spare)
    both = ", ".join(f'"{name}"' for name in tx.columns(table) if name in new)
    tx.run(Sql(f'INSERT INTO "{spare}" ({both}) SELECT {both} FROM "{table}"'))  # noqa: S608
    tx.run(Sql(f'DROP TABLE "{table}"'))
    # Somebody's view of the table would stop the rename: for a moment no such table exists.
    tx.run(Sql("PRAGMA legacy_alter_table = ON"))
    try:
        tx.run(Sql(f'ALTER TABLE "{spare}" RENAME TO "{table}"'))
    finally:
        tx.run(Sql("PRAGMA legacy_alter_table = OFF"))


def _refuse_foreign_keys(tx: Tx, table: str) -> None:
    """With foreign keys on, dropping the old table would delete what refers to it."""
    if tx.value(Sql("PRAGMA foreign_keys")):
        msg = f"{table} cannot be rebuilt in a transaction that enforces foreign keys"
        raise Invalid(msg, hint="begin it with `database.write(foreign_keys=False)`")


def allowed_harnesses(create: str) -> tuple[str, ...] | None:
    """Read the harnesses that a CREATE TABLE allows; None if it allows any."""
    found = _LIST.search(create)
    return None if found is None else tuple(re.findall(r"'([^']*)'", found[2]))


def widen_check(create: str, more: Iterable[str] = ()) -> str:
    """Rewrite a CREATE TABLE of agentic_sessions: under a spare name, with every harness."""
    known = allowed_harnesses(create) or ()
    listed = ", ".join(f"'{name}'" for name in dict.fromkeys((*known, *HARNESSES, *more)))
    widened = _LIST.sub(rf"\g<1>{listed}", create, count=1)
    return _NAME.sub(rf"\1{_TABLE}_new", widened, count=1)


def is_agent_name(name: str) -> bool:
    """Tell whether a name may be an agent's: it is written into the schema."""
    return _PLAIN.fullmatch(name) is not None


def harness_is_allowed(tx: Tx, harness: str) -> bool:
    """Tell whether the file takes conversations of this agent; on a server any may come."""
    if tx.engine != "sqlite":
        return True
    allowed = allowed_harnesses(_created_by(tx))
    return allowed is None or harness in allowed


def widen_harness(tx: Tx, more: Iterable[str] = ()) -> bool:
    """Let a file take every agent that it was made for, and these; False if it does already.

    Rows, their numbers and all that refers to them stay. The transaction must have been begun with
    `foreign_keys=False`.
    """
    create = _created_by(tx)
    allowed = allowed_harnesses(create)
    wanted = sorted(more)
    if allowed is None or {*HARNESSES, *wanted} <= set(allowed):
        return False
    odd = [name for name in wanted if not is_agent_name(name)]
    if odd:
        msg = f"{odd[0]!r} is not a valid agent name"
        raise Invalid(msg, hint="use lower-case letters, digits and dashes")
    sql = "SELECT sql FROM sqlite_master WHERE tbl_name = ? AND type IN ('index', 'trigger')"
    beside = [row[0] for row in tx.all(Sql(sql), (_TABLE,)) if row[0] is not None]
    rebuild(tx, _TABLE, widen_check(create, wanted))
    for statement in beside:
        tx.script(statement)
    return True


def _created_by(tx: Tx) -> str:
    made = definitions(tx, "table").get(_TABLE)
    if made is None:
        msg = f"the file has no table {_TABLE}"
        raise Damaged(msg, hint="open it for writing once, which creates what is missing")
    return made


# ------------------------------------------------------------------------------
# Rows whose parent is gone: found, told, and set aside without a loss.
#
# Programs that write with foreign keys off leave such rows behind, and a later version refuses to
# start forever because of one. Here a row that cannot stay goes as JSON to `tk_orphans`. Where the
# reference may be empty the row stays and only the reference goes.

TABLE: Final = "tk_orphans"
_SCRIPT: Final = load_text(PACKAGE, "orphans.sql")


class Orphan(msgspec.Struct, frozen=True):
    """A row that refers to a row that is not there."""

    table: str
    rowid: int
    column: str
    parent: str
    missing: Any
    """What the column says."""

    @property
    def reason(self) -> str:
        """Say what is missing, for people."""
        return f"{self.column} {self.missing} is not in {self.parent}"


def find_orphans(tx: Tx, tables: Iterable[str] | None = None) -> list[Orphan]:
    """Find the rows without a parent, in some tables of the contract or in all."""
    chosen = present_tables(tx) if tables is None else tables
    return [orphan for table in chosen for orphan in _orphans_of(tx, table)]


def set_aside_orphans(tx: Tx, now: int, tables: Iterable[str] | None = None) -> int:
    """Take out every row without a parent, and those that lose theirs by that; give how many.

    The transaction must have foreign keys off: nothing but what is found here may go.
    """
    chosen = present_tables(tx) if tables is None else list(tables)
    count = 0
    while found := find_orphans(tx, chosen):
        tx.script(_SCRIPT)
        for orphan in found:
            count += _set_aside(tx, orphan, now)
    return count


def list_set_aside(tx: Tx, first: int = 1) -> list[OrphanRow]:
    """Return what was set aside, from a place in that list on."""
    if TABLE not in tx.tables():
        return []
    sql = "SELECT table_name, row_json, reason, found_at FROM tk_orphans WHERE rowid >= ?"
    rows = tx.all(Sql(sql), (first,))
    return [OrphanRow(row[0], msgspec.json.decode(row[1]), row[2], row[3]) for row in rows]


def count_set_aside(tx: Tx) -> int:
    """Count the rows that were ever set aside in this file."""
    if TABLE not in tx.tables():
        return 0
    return int(tx.value(Sql("SELECT coalesce(max(rowid), 0) FROM tk_orphans")))


def _orphans_of(tx: Tx, table: str) -> Iterator[Orphan]:
    found = broken_references(tx, table)
    if not found:
        return
    columns = {one.number: one.column for one in foreign_keys(tx, table)}
    for _, rowid, parent, key in found:
        row = read_whole(tx, table, rowid) or {}
        yield Orphan(table, rowid, columns[key], parent, row.get(columns[key]))


def _set_aside(tx: Tx, orphan: Orphan, now: int) -> int:
    """Move one row, or empty its reference; 0 if it went already for another of its references."""
    row = read_whole(tx, orphan.table, orphan.rowid)
    if row is None:
        return 0
    keep = _may_be_empty(tx, orphan.table, orphan.column)
    reason = orphan.reason + (": the reference was emptied" if keep else "")
    sql = "INSERT INTO tk_orphans (table_name, row_json, reason, found_at) VALUES (?, ?, ?, ?)"
    tx.run(Sql(sql), (orphan.table, encode(row), reason, now))
    emptied = f'UPDATE "{orphan.table}" SET "{orphan.column}" = NULL'  # noqa: S608
    change = emptied if keep else f'DELETE FROM "{orphan.table}"'  # noqa: S608
    tx.run(Sql(f"{change} WHERE rowid = ?"), (orphan.rowid,))
    return 1


def _may_be_empty(tx: Tx, table: str, column: str) -> bool:
    """Tell whether a column takes NULL; one of the key never does, whatever the table says."""
    facts = column_facts(tx, table)
    return any(one.name == column and not one.never_null and not one.key for one in facts)


def read_whole(tx: Tx, table: str, rowid: int) -> dict[str, Any] | None:
    """Read a row by column, whatever bytes are in it; None if there is none."""
    columns = tx.columns(table)
    # As bytes, since another program's text need not be valid UTF-8.
    shown = ", ".join(
        f"""typeof("{c}"), iif(typeof("{c}") = 'text', CAST("{c}" AS BLOB), "{c}")"""
        for c in columns
    )
    sql = f'SELECT {shown} FROM "{table}" WHERE rowid = ?'  # noqa: S608
    row = tx.one(Sql(sql), (rowid,))
    if row is None:
        return None
    return {c: _plain(row[2 * i], row[2 * i + 1]) for i, c in enumerate(columns)}


def _plain(kind: str, value: Any) -> Any:
    if isinstance(value, float) and math.isinf(value):  # JSON has no such number
        return {"real": str(value)}
    if not isinstance(value, bytes):
        return value
    if kind == "text":
        try:
            return value.decode()
        except UnicodeDecodeError:
            pass
    return {"blob": value.hex()}
