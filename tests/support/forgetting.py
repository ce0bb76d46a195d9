"""Small histories to forget parts of, and a look at every byte that a store left on the disk."""

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import zstandard

from tests.support.user_homes import LONG_AGO_NS, open_history
from threadkeep.base.clock import now_ms
from threadkeep.base.sqlite.upkeep import sqlite_file
from threadkeep.capture.capture import History
from threadkeep.capture.intake import CaptureContext, MachineUser, Mask
from threadkeep.capture.records import Exclusion
from threadkeep.capture.redact.engine import Redactor
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.sources.records import UserHome
from threadkeep.sources.registry import foreign_sources

NOON = 1_788_264_000_000  # 2026-09-01T12:00:00Z
MINUTE = 60_000
Record = dict[str, Any]


def stamp(minute: int) -> str:
    return f"2026-09-01T12:{minute:02d}:00.000Z"


def said(session: str, minute: int, text: str, **more: Any) -> Record:
    """A prompt of a person, so many minutes after noon."""
    about = {"sessionId": session, "timestamp": stamp(minute), "cwd": "/u/pond", "version": "2"}
    message = {"role": "user", "content": text}
    return {"type": "user", "uuid": f"{session}-{minute}", **about, "message": message, **more}


def ran(session: str, minute: int, command: str, output: str) -> list[Record]:
    """A command of the agent, and what it printed."""
    about = {"sessionId": session, "timestamp": stamp(minute), "cwd": "/u/pond"}
    call = {"type": "tool_use", "id": f"toolu_{session}_{minute}", "name": "Bash"}
    usage = {"input_tokens": 10, "output_tokens": minute + 1}
    answer = {
        "id": f"msg_{session}_{minute}",
        "role": "assistant",
        "model": "m-1",
        "content": [{**call, "input": {"command": command}}],
        "usage": usage,
    }
    came = {"type": "tool_result", "tool_use_id": call["id"], "content": output}
    return [
        {"type": "assistant", "uuid": f"{session}-{minute}a", **about, "message": answer},
        {
            "type": "user",
            "uuid": f"{session}-{minute}b",
            **about,
            "message": {"role": "user", "content": [came]},
        },
    ]


def write_claude(user: Path, session: str, records: list[Record], project: str = "-u-pond") -> Path:
    """Write a session of Claude Code, or rewrite it."""
    path = user / ".claude" / "projects" / project / f"{session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS + path.stat().st_size))
    return path


def knowledge_file(home: Path, user: Path) -> Path:
    with open_history(home, user) as history:
        return sqlite_file(history.store.context.db).path


@contextmanager
def masked_history(file: Path, user: Path, mask: Mask | None = None) -> Iterator[History]:
    """Open a history with a mask of its own; without one, the rules of threadkeep."""
    store = KnowledgeStore.open(file)
    redactor = Redactor.default()
    around = CaptureContext(
        store=store,
        user=UserHome(user),
        mask=mask or redactor.piece,
        clock=now_ms,
        who=MachineUser("here", "me"),
        exclusion=Exclusion(),
        redactor=redactor,
    )
    with History(around, foreign_sources()) as history:
        yield history


def texts(history: History, session: str) -> list[str]:
    return [shown.entry.text for shown in history.transcript(history.find(session))]


def all_sessions(history: History) -> dict[str, tuple[list[bytes], list[str]]]:
    """Return the raw lines and the transcript of every session."""
    return {
        one.session_id: (
            list(history.raw(one)),
            [shown.entry.text for shown in history.transcript(one)],
        )
        for one in history.sessions(everything=True, limit=1000)
    }


def rows(database: Path, sql: str, *params: object) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(database)) as connection, connection:
        return connection.execute(sql, params).fetchall()


def add_node(database: Path, text: str, **links: int) -> int:
    """Make a node that rests on some rows: segment=, event=, legacy=, visit=; and an entity."""
    tables = {
        "segment": ("knowledge_node_agentic_sessions", "agentic_session_id"),
        "event": ("knowledge_node_events", "event_id"),
        "legacy": ("knowledge_node_claude_sessions", "claude_session_id"),
        "visit": ("knowledge_node_browser_events", "browser_event_id"),
    }
    with closing(sqlite3.connect(database)) as connection, connection:
        times = "first_seen, last_seen, created_at"
        node = connection.execute(
            "INSERT INTO knowledge_nodes (uuid, content, embed_text, created_at, updated_at)"
            " VALUES (hex(randomblob(8)), ?, ?, 1, 1)",
            (json.dumps({"summary": text}), text),
        ).lastrowid
        assert node is not None
        entity = connection.execute(
            f"INSERT INTO entities (type, name, canonical, {times}) VALUES ('file', ?, ?, 1, 1, 1)",
            (text, text.lower()),
        ).lastrowid
        connection.execute("INSERT INTO knowledge_node_entities VALUES (?, ?)", (node, entity))
        for kind, number in links.items():
            table, column = tables[kind]
            sql = f"INSERT INTO {table} (knowledge_node_id, {column}) VALUES (?, ?)"
            connection.execute(sql, (node, number))
    return node


def bytes_left(database: Path) -> bytes:
    """Return every byte of a store that nobody has open: its files, and its blocks as text."""
    files = (Path(f"{database}{suffix}") for suffix in ("", "-wal", "-shm", "-journal"))
    found = [path.read_bytes() for path in files if path.exists()]
    for data, size in rows(database, "SELECT data, size FROM tk_blocks"):
        found.append(zstandard.ZstdDecompressor().decompress(data, max_output_size=size))
    return b"\n".join(found)


_ROWS = """
INSERT INTO sessions (id, start_time, terminal, shell, hostname, username, summary, created_at)
VALUES (90, 1, 't', 'zsh', 'h', 'u', 'of @', 1);
INSERT INTO env_snapshots (id, content_hash, env_json, created_at)
VALUES (1, 'h', '{"PLACE": "@"}', 1);
INSERT INTO events (session_id, timestamp, command, stdout, duration_ms, cwd, hostname, shell,
  env_snapshot_id, created_at)
VALUES (90, 1, 'ls', 'a', 1, '/', 'h', 'zsh', 1, 1),
  (90, 2, 'cd', 'at @', 1, '/', 'h', 'zsh', NULL, 1);
INSERT INTO enrichment_queue (event_id, error_message, created_at, updated_at)
SELECT id, 'no @', 1, 1 FROM events WHERE source_kind = 'shell';
INSERT INTO browser_events (timestamp, url, title, domain, dwell_ms, created_at)
VALUES (1, 'https://a.b/', 'b', 'a.b', 1, 1), (2, 'https://a.b/c', 'on @', 'a.b', 1, 1);
INSERT INTO claude_sessions (session_id, project_dir, cwd, segment_index, start_time, end_time,
  summary_text, message_count, source_file, created_at)
VALUES ('x', '', '', 0, 1, 2, 'of @', 3, '', 1);
INSERT INTO agentic_sessions (session_id, harness, project_dir, cwd, summary_text, start_time,
  end_time, created_at)
VALUES ('x', 'codex', '', '', 'of @', 1, 2, 1);
INSERT INTO workflow_runs (id, repo, head_sha, event, status, html_url, raw_json, first_seen_at,
  last_seen_at)
VALUES (1, 'r', 's', 'push', 'ok', 'u', '{}', 1, 1),
  (2, 'r', 's', 'push', 'ok', 'u', '{"a": "@"}', 1, 1);
INSERT INTO workflow_jobs (id, run_id, name, status, raw_json)
VALUES (1, 1, 'j', 'ok', '{}'), (2, 2, 'k', 'ok', '{}');
INSERT INTO workflow_annotations (job_id, level, message) VALUES (1, 'failure', 'of @');
INSERT INTO workflow_log_excerpts (job_id, excerpt) VALUES (1, 'of @');
INSERT INTO lessons (repo, summary, first_seen_at, last_seen_at) VALUES ('r', 'of @', 1, 1);
INSERT INTO capture_alarms (invariant_id, raised_at, details_json) VALUES ('i', 1, '{"a": "@"}');
UPDATE source_health SET last_error_msg = 'in @';
INSERT INTO entities (type, name, canonical, first_seen, last_seen, created_at)
VALUES ('file', '@', '@', 1, 1, 1);
INSERT INTO tk_unknown VALUES ('codex', 'KeyError: @', 1, 1, 1);
CREATE TABLE tk_orphans (table_name TEXT, row_json TEXT, reason TEXT, found_at INTEGER);
INSERT INTO tk_orphans VALUES ('t', '{"a": "@"}', '', 1);
"""


def plant_rows(database: Path, word: str) -> None:
    """Put a word into rows that came from no log, one in each place that can hold text."""
    with closing(sqlite3.connect(database)) as connection:
        connection.executescript(_ROWS.replace("@", word))
