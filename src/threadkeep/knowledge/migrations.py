"""The way from every older version to 18 and on to 23, step by step.

A step is one transaction with its version in it (see base/sqlite/schema.py). Each also ends well
on a file in which Hippo stopped half-way: it changes columns first and the version later.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from threadkeep.base.clock import Clock
from threadkeep.base.sql import load_text, parse_queries
from threadkeep.base.sqlite.schema import Schema, SchemaStep, add_missing_columns
from threadkeep.base.sqlite.statements import split_statements
from threadkeep.base.tx import Sql, Tx
from threadkeep.errors import Conflict
from threadkeep.knowledge.repair import HIPPOS, rebuild, set_aside_orphans
from threadkeep.knowledge.schema import (
    CHANGES,
    FILL_INDEX,
    PACKAGE,
    SCHEMA_VERSION,
    VersionChange,
    create_missing,
    head_with_rows,
    read_version,
    script_of,
    seed_health,
    write_version,
)

Columns = Mapping[str, Mapping[str, str]]
Code = Callable[[Tx, int], None]

AGENTIC: Final = (
    *("agentic_sessions", "knowledge_node_agentic_sessions", "agentic_enrichment_queue"),
)
_LEGACY: Final = {
    *("claude_sessions", "knowledge_node_claude_sessions", "claude_enrichment_queue"),
}
_PROBE_TAG: Final = {"probe_tag": "TEXT"}
_HASHES: Final = {"content_hash": "TEXT", "last_enriched_content_hash": "TEXT"}
_RESOLVED: Final = {
    "resolved_at": "INTEGER",
    "clean_ticks": "INTEGER NOT NULL DEFAULT 0 CHECK (clean_ticks >= 0)",
}
_SOURCE_KIND: Final = {"source_kind": "TEXT NOT NULL DEFAULT 'shell'", "tool_name": "TEXT"}
# What the first health rows know: the newest event of each source.
_NEWEST: Final = {
    "shell": "SELECT max(timestamp) FROM events WHERE source_kind = 'shell'",
    "claude-tool": "SELECT max(timestamp) FROM events WHERE source_kind = 'claude-tool'",
    "agentic-session-claude": "SELECT max(start_time) FROM claude_sessions",
    "browser": "SELECT max(timestamp) FROM browser_events",
}


def knowledge_schema(clock: Clock, version: int = SCHEMA_VERSION) -> Schema:
    """Return the schema of a knowledge file; what it writes by itself bears the clock's time."""
    return Schema(
        name="knowledge",
        version=version,
        head=head_with_rows(version, clock()),
        steps=tuple(step for step in _steps(clock) if step.number <= version),
        read_version=read_version,
        write_version=write_version,
    )


def _steps(clock: Clock) -> Iterator[SchemaStep]:
    yield _step(2, "envelopes", {"events": {"envelope_id": "TEXT"}})
    yield _step(3, "claude_sessions")
    yield _step(4, "browser")
    yield _step(5, "workflows")
    yield SchemaStep(6, "0006_full_text", code=_index_nodes)
    yield _step(7, "source_kinds", {"events": _SOURCE_KIND})
    yield _timed(8, "source_health", _begin_health, clock)
    yield _step(9, "alarms")
    yield _step(10, "offsets")
    yield _step(11, "resolved_alarms", {"capture_alarms": _RESOLVED})
    yield SchemaStep(
        12, "0012_content_hashes", code=partial(_add_columns, {"claude_sessions": _HASHES})
    )
    yield _timed(13, "env_vars", _rebuild_entities, clock, rebuilds=("entities",))
    yield _timed(14, "agentic_sessions", _begin_agentic, clock)
    yield _timed(15, "codex", partial(_seed, "agentic-session-codex"), clock)
    yield _timed(16, "cursor", partial(_seed, "agentic-session-cursor"), clock)
    yield _timed(17, "segments", _rebuild_agentic, clock, rebuilds=AGENTIC[:1])
    yield _timed(18, "one_family", _join_families, clock, rebuilds=AGENTIC[:1])
    for change in CHANGES:
        yield _timed(
            *(change.number, change.name, partial(_change, change), clock),
            rebuilds=change.dropped,  # nobody's reference may stop a drop
        )


def _step(number: int, name: str, columns: Columns | None = None) -> SchemaStep:
    """Make a step that adds columns, then runs its script: indexes need the columns first."""
    full = f"{number:04d}_{name}"

    def code(tx: Tx) -> None:
        _add_columns(columns or {}, tx)
        tx.script(_sql(full))

    return SchemaStep(number, full, code=code)


def _timed(
    number: int, name: str, code: Code, clock: Clock, rebuilds: tuple[str, ...] = ()
) -> SchemaStep:
    def at_its_time(tx: Tx) -> None:
        code(tx, clock())

    return SchemaStep(number, f"{number:04d}_{name}", code=at_its_time, rebuilds=rebuilds)


def _sql(name: str) -> str:
    return load_text(PACKAGE, f"{name}.sql")  # when it is needed: most files need no step


def _add_columns(columns: Columns, tx: Tx) -> None:
    present = tx.tables()
    for table in columns:
        if table in present:
            add_missing_columns(tx, table, dict(columns[table]))


def _index_nodes(tx: Tx) -> None:
    tx.script(_sql("0006_full_text"))
    tx.script(FILL_INDEX)


def _seed(source: str, tx: Tx, now: int) -> None:
    seed_health(tx, (source,), now)


def _begin_health(tx: Tx, now: int) -> None:
    tx.script(_sql("0008_source_health"))
    tables = ("events", "claude_sessions", "browser_events")
    _add_columns(dict.fromkeys(tables, _PROBE_TAG), tx)
    for source, newest in _NEWEST.items():
        sql = "INSERT OR IGNORE INTO source_health (source, last_event_ts, updated_at)"
        tx.run(Sql(f"{sql} VALUES (?, ({newest}), ?)"), (source, now))


def _rebuild_entities(tx: Tx, now: int) -> None:
    set_aside_orphans(tx, now)  # one of them, anywhere, stops Hippo here forever
    create, *after = split_statements(_sql("0013_env_vars"))
    rebuild(tx, "entities", create)
    for statement in after:
        tx.run(Sql(statement))


def _begin_agentic(tx: Tx, now: int) -> None:
    tx.script(_sql("0014_agentic_sessions"))
    seed_health(tx, ("agentic-session-claude", "agentic-session-opencode"), now)


def _rebuild_agentic(tx: Tx, now: int) -> None:
    set_aside_orphans(tx, now)  # as in step 13
    tx.script(_sql("0014_agentic_sessions"))  # no file is without them after this
    create, *after = split_statements(_sql("0017_segments"))
    rebuild(tx, "agentic_sessions", create)
    for statement in after:
        tx.run(Sql(statement))


def _join_families(tx: Tx, now: int) -> None:
    """Copy the frozen family; what was there before keeps its rows, whatever they refer to."""
    if not tx.tables().issuperset(AGENTIC):
        _rebuild_agentic(tx, now)
    set_aside_orphans(tx, now, AGENTIC)
    if tx.tables() >= _LEGACY:
        queries = parse_queries(_sql("0018_one_family"))
        for name in ("copy_sessions", "copy_links", "copy_queue"):
            tx.run(Sql(queries[name]))


# ---------------------------------------------------------------------- after 18


def _change(change: VersionChange, tx: Tx, now: int) -> None:
    """Do what a version changed, as its row in the table of versions says."""
    if change.dropped:
        _refuse_uncopied(tx)
    create_missing(tx, script_of(change))
    for new, old in change.renamed.items():
        if old in tx.tables():
            listed = ", ".join(f'"{c}"' for c in tx.columns(new) if c in tx.columns(old))
            tx.run(Sql(f'INSERT OR IGNORE INTO "{new}" ({listed}) SELECT {listed} FROM "{old}"'))  # noqa: S608
    seed_health(tx, change.health, now)
    for table in change.dropped:
        tx.run(Sql(f'DROP TABLE IF EXISTS "{table}"'))


def _refuse_uncopied(tx: Tx) -> None:
    """Stop if the frozen family may hold what step 18 did not copy: it would be lost."""
    if not tx.tables() >= _LEGACY:
        return
    there = int(tx.value(Sql("SELECT count(*) FROM claude_sessions")))
    known = ", ".join(f"'{name}'" for name in HIPPOS)
    copied = f"SELECT count(*) FROM agentic_sessions WHERE harness IN ({known})"  # noqa: S608
    kept = int(tx.value(Sql(copied)))
    if there > kept:
        msg = (
            f"claude_sessions has {there:,} rows, agentic_sessions only {kept:,} of the programs"
            " that it tells of: some were never copied, and would be lost"
        )
        hint = "nothing was dropped; go back with the backup that was made before the first step"
        raise Conflict(msg, hint=hint)
