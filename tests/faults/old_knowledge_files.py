"""Knowledge files as they were at each version from 1 to 17, with rows that are hard to carry over.

Version 1 is written down here (the head without what came later). The versions behind it are made
by the steps, with rows put in when their table was new.
"""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.base.sqlite.schema import prepare
from threadkeep.base.sqlite.statements import split_statements
from threadkeep.knowledge.migrations import knowledge_schema
from threadkeep.knowledge.schema import SCHEMA_VERSION, TUNING, created, head_of

VERSIONS: Final = tuple(range(1, 18))
THEN: Final = 1_700_000_000_000
NOW: Final = 1_800_000_000_000

_FIRST_TABLES: Final = (
    *("sessions", "env_snapshots", "events", "entities", "relationships", "event_entities"),
    *("knowledge_nodes", "knowledge_node_entities", "knowledge_node_events", "enrichment_queue"),
)
_LATER: Final = ("envelope_id", "source_kind", "tool_name", "probe_tag")

Connection = sqlite3.Connection


def now() -> int:
    """A clock that stands still."""
    return NOW


def first_version() -> list[str]:
    """Return the statements that make a file of version 1."""
    kept = []
    for statement in split_statements(head_of(SCHEMA_VERSION)):
        code = "\n".join(line for line in statement.splitlines() if not _is_later(line))
        code = code.replace("'concept', 'domain', 'env_var'", "'concept'")
        code = code.replace(
            "max_retries INTEGER NOT NULL DEFAULT 5", "max_retries INTEGER NOT NULL DEFAULT 3"
        )
        kind, name = created(code)
        on = code.partition(" ON ")[2].split(" ")[0]
        if (name if kind == "TABLE" else on) in _FIRST_TABLES and not _is_late_index(kind, code):
            kept.append(code)
    return kept


def _is_later(line: str) -> bool:
    return line.startswith(tuple(f"  {column} " for column in _LATER))


def _is_late_index(kind: str, code: str) -> bool:
    return kind == "TRIGGER" or (kind == "INDEX" and any(column in code for column in _LATER))


def make_old_knowledge(path: Path, version: int, *, journal: str = "WAL") -> None:
    """Make a file of a version, 1 to 17."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA journal_mode = {journal}").fetchone()
        connection.execute("BEGIN")
        for statement in first_version():
            connection.execute(statement)
        connection.execute("PRAGMA user_version = 1")
        connection.execute("COMMIT")
    for reached in (number for number in _FILL if number <= version):
        step_to(path, reached)
        with closing(sqlite3.connect(path)) as connection, connection:
            _FILL[reached](connection)
    step_to(path, version)


def step_to(path: Path, version: int) -> list[str]:
    """Bring a file up to a version by our own steps, and no further; name those that ran."""
    whole = knowledge_schema(now)
    steps = tuple(step for step in whole.steps if step.number <= version)
    with SqliteDatabase(path, {}, tuning=TUNING) as database:
        return prepare(database, whole._replace(version=version, steps=steps), lambda _reason: None)


def insert(connection: Connection, table: str, **values: Any) -> None:
    """Put one row into a table."""
    marks = ", ".join("?" * len(values))
    sql = f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})"
    connection.execute(sql, tuple(values.values()))


def _fill_first(c: Connection) -> None:
    insert(
        c,
        "sessions",
        id=1,
        start_time=THEN,
        shell="zsh",
        hostname="h",
        username="u",
        created_at=THEN,
    )
    insert(c, "env_snapshots", id=1, content_hash="e" * 64, env_json="{}", created_at=THEN)
    for number in range(1, 6):
        insert(
            c, "events", id=number, session_id=1, timestamp=THEN + number, command=f"cmd {number}",
            duration_ms=5, cwd="/p", hostname="h", shell="zsh", env_snapshot_id=1, created_at=THEN,
        )  # fmt: skip
        insert(c, "enrichment_queue", event_id=number, created_at=THEN, updated_at=THEN)
    for number, kind in ((1, "project"), (2, "file")):
        insert(
            c, "entities", id=number, type=kind, name=f"e{number}", canonical=f"e{number}",
            first_seen=THEN, last_seen=THEN, created_at=THEN,
        )  # fmt: skip
    insert(
        c, "relationships", from_entity_id=1, to_entity_id=2, relationship="contains",
        first_seen=THEN, last_seen=THEN,
    )  # fmt: skip
    insert(c, "event_entities", event_id=1, entity_id=1, role="cwd", created_at=THEN)
    for number, content in enumerate((json.dumps({"summary": "a quokka"}), "no json", "{}"), 1):
        insert(
            c, "knowledge_nodes", id=number, uuid=f"node-{number}", content=content,
            embed_text=f"embed {number}", created_at=THEN, updated_at=THEN,
        )  # fmt: skip
    insert(c, "knowledge_node_entities", knowledge_node_id=1, entity_id=1)
    insert(c, "knowledge_node_events", knowledge_node_id=1, event_id=1)


_LOGS: Final = (
    "/u/.claude/projects/-p/a.jsonl",
    "/u/.codex/sessions/b.jsonl",
    "/u/.cursor/projects/c.jsonl",
    "/u/Library/CodingAssistant/codex/d.jsonl",
    "/u/.claude/projects/-p/e.jsonl",
)
_STATES: Final = ("pending", "processing", "failed", "pending", "done")


def _fill_claude(c: Connection) -> None:
    for place, (log, state) in enumerate(zip(_LOGS, _STATES, strict=True)):
        number = 100 + place
        insert(
            c, "claude_sessions", id=number, session_id=f"s{place}", project_dir="-p", cwd="/p",
            segment_index=place, start_time=THEN + place, end_time=THEN + 9,
            summary_text=f"sum {place}", message_count=2, token_count=None if place == 1 else 7,
            source_file=log, enriched=int(place >= 3), created_at=THEN,
        )  # fmt: skip
        insert(
            c, "claude_enrichment_queue", claude_session_id=number, status=state, retry_count=1,
            locked_at=THEN if state == "processing" else None, created_at=THEN, updated_at=THEN,
        )  # fmt: skip
    insert(c, "knowledge_node_claude_sessions", knowledge_node_id=2, claude_session_id=103)


def _fill_browser(c: Connection) -> None:
    insert(
        c, "browser_events", id=1, timestamp=THEN, url="https://docs.example/x",
        domain="docs.example", dwell_ms=5, envelope_id="b-1", created_at=THEN,
    )  # fmt: skip
    insert(c, "browser_enrichment_queue", browser_event_id=1, created_at=THEN, updated_at=THEN)
    insert(c, "knowledge_node_browser_events", knowledge_node_id=1, browser_event_id=1)


def _fill_workflows(c: Connection) -> None:
    insert(
        c, "workflow_runs", id=7, repo="o/r", head_sha="abc", event="push", status="completed",
        html_url="u", raw_json="{}", first_seen_at=THEN, last_seen_at=THEN,
    )  # fmt: skip
    insert(c, "workflow_jobs", id=8, run_id=7, name="lint", status="completed", raw_json="{}")
    insert(c, "workflow_annotations", job_id=8, level="failure", message="m")
    insert(c, "workflow_log_excerpts", job_id=8, excerpt="x")
    insert(c, "workflow_enrichment_queue", run_id=7, enqueued_at=THEN, updated_at=THEN)
    insert(c, "lessons", id=1, repo="o/r", summary="s", first_seen_at=THEN, last_seen_at=THEN)
    insert(c, "knowledge_node_workflow_runs", knowledge_node_id=1, run_id=7)
    insert(c, "knowledge_node_lessons", knowledge_node_id=1, lesson_id=1)


def _fill_alarms(c: Connection) -> None:
    insert(c, "capture_alarms", invariant_id="I-1", raised_at=THEN, details_json="{}")


def _fill_agentic(c: Connection) -> None:
    insert(
        c, "agentic_sessions", id=40, session_id="oc", harness="opencode", project_dir="/p",
        cwd="/p", summary_text="oc", start_time=THEN, end_time=THEN, created_at=THEN,
    )  # fmt: skip
    insert(c, "agentic_enrichment_queue", session_id=40, enqueued_at=THEN, updated_at=THEN)
    insert(c, "knowledge_node_agentic_sessions", knowledge_node_id=3, agentic_session_id=40)
    insert(c, "agentic_cursor", source_key="opencode", last_seen_updated_at=5, updated_at=THEN)


_FILL: Final[dict[int, Callable[[Connection], None]]] = {
    1: _fill_first,
    3: _fill_claude,
    4: _fill_browser,
    5: _fill_workflows,
    9: _fill_alarms,
    14: _fill_agentic,
}
