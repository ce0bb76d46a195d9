"""User homes full of agents' logs: our own made-up ones, and the real ones of the optional data."""

import gzip
import json
import os
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.conftest import REPO
from threadkeep.base.engines import is_url
from threadkeep.capture.capture import History
from threadkeep.home.home import Home
from threadkeep.knowledge.archive import digest
from threadkeep.testing import KnowledgeFactory

FIXTURES = REPO / "tests" / "fixtures" / "sources"
# Older than the minute in which a last line may still be written to.
LONG_AGO_NS = 1_760_000_000 * 10**9
CHAT = "0c0ffee0-0000-4000-8000-000000000001"

_OPENCODE = """
CREATE TABLE session (id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, slug TEXT,
  directory TEXT, title TEXT, version TEXT, time_created INTEGER, time_updated INTEGER);
CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER,
  time_updated INTEGER, data TEXT);
CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER,
  time_updated INTEGER, data TEXT);
"""


def home_of(folder: Path, factory: KnowledgeFactory) -> Home:
    """Return a home in a folder, with its knowledge store on the engine of a factory."""
    place = factory.place()
    if not is_url(place):
        return Home(folder, environ={})
    return Home(place, environ={"HOME": str(folder), "THREADKEEP_HOME": str(folder)})


def open_history(home: Path, user: Path) -> History:
    """Open the history that a home keeps of the agents below a folder."""
    return Home(home, environ={}).history(user_home=user)


def made_up_home(user: Path) -> Path:
    """Put a log of every program below a folder, where the program would write it."""
    places = {
        "claude-code/projects": ".claude/projects",
        "codex/home": ".",
        "copilot-cli": ".",
        "gemini-cli": ".",
        "pi": ".",
        "aider/projects": "projects",
        "cursor/transcript.jsonl": f".cursor/projects/u-app/agent-transcripts/{CHAT}/{CHAT}.jsonl",
        "cursor/old.txt": ".cursor/projects/u-app/agent-transcripts/old1.txt",
        "cursor/old.json": ".cursor/projects/u-app/agent-transcripts/old2.json",
    }
    for source, target in places.items():
        _copy(FIXTURES / source, user / target)
    exported = json.loads((FIXTURES / "opencode" / "session.json").read_text())
    opencode_database(user, exported)
    settle(user)
    return user


def real_home(shared: Path, user: Path) -> Path:
    """Put every real transcript below a folder, where its program would have written it."""
    data = shared / "data" / "harness"
    if not data.is_dir():
        pytest.skip("needs real transcripts in the optional test data (data/harness)")
    for repository in data.glob("claude/*"):
        _copy(repository / "projects", user / ".claude" / "projects")
    for repository in data.glob("codex/*"):
        _copy(repository / "sessions", user / ".codex" / "sessions")
    for repository in data.glob("copilot/*"):
        _copy(repository / "session-state", user / ".copilot" / "session-state")
    for repository in data.glob("gemini/*"):
        _copy(repository / "chats", user / ".gemini" / "tmp" / repository.name / "chats")
    for repository in data.glob("pi/*"):
        _copy(repository, user / ".pi" / "agent" / "sessions" / repository.name)
    for repository in data.glob("aider/*"):
        _copy(repository, user / "projects" / repository.name)
    database = user / ".local" / "share" / "opencode" / "opencode.db"
    database.parent.mkdir(parents=True)
    database.write_bytes(gzip.decompress((data / "opencode/db/opencode.db.gz").read_bytes()))
    settle(user)
    return user


def real_sample(shared: Path, user: Path, most: int = 400_000) -> Path:
    """Put the smaller ones of the real transcripts below a folder."""
    real_home(shared, user)
    for path in user.rglob("*"):
        if path.is_file() and path.stat().st_size > most:
            path.unlink()
    return user


# How the ids in our made-up logs begin; other digits there make other sessions.
_IDS = ("5e550000", "0199aaaa", "0c000000", "6e000000", "019e44d4")


def multiply(user: Path, times: int) -> Path:
    """Copy every line log below a folder so often, with other ids of the sessions."""
    logs = [path for path in user.rglob("*.jsonl") if any(name in str(path) for name in _IDS)]
    for path in logs:
        name, data = str(path.relative_to(user)), path.read_bytes()
        for number in range(1, times):
            copied, changed = name, data
            for old in _IDS:
                new = f"{old[:4]}{number:04x}"
                copied = copied.replace(old, new)
                changed = changed.replace(old.encode(), new.encode())
            target = user / copied
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(changed)
    settle(user)
    return user


def add_edge_cases(shared: Path, user: Path) -> None:
    """Add the odd Claude sessions: teammates, agents in the background, workflows."""
    for case in (shared / "data" / "harness").glob("claude-edge/*/*"):
        _copy(case, user / ".claude" / "projects" / case.name)
    settle(user)


def opencode_database(user: Path, exported: dict[str, Any]) -> Path:
    """Write a session as OpenCode exports it into a database as OpenCode has it."""
    path = user / ".local" / "share" / "opencode" / "opencode.db"
    path.parent.mkdir(parents=True, exist_ok=True)
    info = exported["info"]
    about = [info.get(name) for name in ("projectID", "parentID", "slug", "directory", "title")]
    times = (info["time"]["created"], info["time"]["updated"])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(_OPENCODE)
        row = (info["id"], *about, info.get("version"), *times)
        connection.execute("INSERT INTO session VALUES (?,?,?,?,?,?,?,?,?)", row)
        for message in exported["messages"]:
            name = message["info"]["id"]
            row = (name, info["id"], *times, json.dumps(message["info"]))
            connection.execute("INSERT INTO message VALUES (?,?,?,?,?)", row)
            for part in message["parts"]:
                row = (part["id"], name, info["id"], *times, json.dumps(part))
                connection.execute("INSERT INTO part VALUES (?,?,?,?,?,?)", row)
    return path


_GOOSE = """
CREATE TABLE IF NOT EXISTS sessions (
  id TEXT PRIMARY KEY, name TEXT, session_type TEXT, working_dir TEXT, created_at TIMESTAMP);
CREATE TABLE IF NOT EXISTS messages (
  id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, session_id TEXT, role TEXT,
  content_json TEXT, created_timestamp INTEGER, metadata_json TEXT);
"""


def goose_name(session_id: str) -> str:
    """Name a session as it is captured: goose gives a number of its own to what it imports."""
    begun = int(datetime(2026, 11, 19, 22, 29, 22, tzinfo=UTC).timestamp())
    return f"20261119_{session_id[-4:]}@{begun:x}"


def goose_database(user: Path, exported: dict[str, Any]) -> Path:
    """Write a session as goose exports it into a database as goose has it."""
    path = user / ".local" / "share" / "goose" / "sessions" / "sessions.db"
    path.parent.mkdir(parents=True, exist_ok=True)
    own = goose_name(exported["id"]).partition("@")[0]
    about = [exported[name] for name in ("name", "session_type", "working_dir")]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(_GOOSE)
        row = (own, *about, "2026-11-19 22:29:22")
        connection.execute("INSERT INTO sessions VALUES (?,?,?,?,?)", row)
        for message in exported["conversation"]:
            content, seen = json.dumps(message["content"]), json.dumps(message["metadata"])
            row = (message["id"], own, message["role"], content, message["created"], seen)
            connection.execute("INSERT INTO messages VALUES (NULL,?,?,?,?,?,?)", row)
    return path


# What programs make of a session that they take in by a command of theirs.
IMPORTS = {"opencode": opencode_database, "goose": goose_database}


def settle(user: Path) -> None:
    """Make everything below a folder look as if it was written long ago."""
    for path in user.rglob("*"):
        if path.is_file():
            os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))


def _copy(source: Path, target: Path) -> None:
    """Copy a file or a tree; unlike the original the copy can be written."""
    for path in [source] if source.is_file() else source.rglob("*"):
        if path.is_file():
            place = target / path.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)


# -- what a store holds ----------------------------------------------------------------------------

Rows = list[tuple[Any, ...]]

# Everything capture writes, by names that two runs share: numbers of rows and times of writing
# are left out, and so is how often a log had been looked at.
_CONTENT = {
    "logs": "SELECT reader, harness, path, item, session_id, size, mtime_ns, fingerprint, read_to,"
    " head, head_size, tail, lines, bad_lines, source_bytes, excluded, gone_at IS NULL, error,"
    " parser FROM tk_logs",
    "blocks": "SELECT l.reader, l.path, l.item, b.first_line, b.lines, k.digest, k.size"
    " FROM tk_log_blocks b JOIN tk_logs l ON l.id = b.log_id JOIN tk_blocks k ON k.id = b.block_id",
    "all blocks": "SELECT digest, size, data FROM tk_blocks",
    "records": "SELECT l.reader, l.path, l.item, r.key, r.digest, r.line"
    " FROM tk_records r JOIN tk_logs l ON l.id = r.log_id",
    "sessions": "SELECT * FROM tk_sessions",
    "entries": "SELECT s.harness, s.session_id, e.key, l.path, l.item, e.line, e.part, e.role,"
    " e.kind, e.at, e.tool, e.error, e.hash FROM tk_entries e"
    " JOIN tk_sessions s ON s.id = e.session JOIN tk_logs l ON l.id = e.log_id",
    "usage": "SELECT u.harness, u.key, s.session_id, u.at, u.model, u.input, u.output,"
    " u.cache_read, u.cache_write, u.cache_write_1h, u.reasoning, u.final"
    " FROM tk_usage u JOIN tk_sessions s ON s.id = u.session",
    "unknown": "SELECT u.harness, u.kind, u.count, l.path"
    " FROM tk_unknown u JOIN tk_logs l ON l.id = u.log_id",
    "segments": "SELECT * FROM agentic_sessions",
    "tickets": "SELECT s.harness, s.session_id, s.segment_index, q.status, q.retry_count"
    " FROM agentic_enrichment_queue q JOIN agentic_sessions s ON s.id = q.session_id",
    "events": "SELECT e.*, s.terminal FROM events e JOIN sessions s ON s.id = e.session_id",
    "event tickets": "SELECT e.envelope_id, q.status FROM enrichment_queue q"
    " JOIN events e ON e.id = q.event_id",
}
_NOT_CONTENT = {"id", "session_id", "created_at", "updated_at", "probe_tag"}


def content(database: Path) -> dict[str, Rows]:
    """Return all that capture wrote into a store that nobody has open."""
    with closing(sqlite3.connect(database)) as connection:
        connection.text_factory = lambda value: value.decode("utf-8", "backslashreplace")
        found = {}
        for name, sql in _CONTENT.items():
            cursor = connection.execute(sql)
            kept = [
                place
                for place, column in enumerate(cursor.description)
                if "*" not in sql or column[0] not in _left_out(name)
            ]
            rows = [tuple(row[place] for place in kept) for row in cursor]
            found[name] = sorted(rows, key=repr)
    return found


def _left_out(name: str) -> set[str]:
    # The session of an event is a row number; that of a segment is its own id.
    return _NOT_CONTENT if name == "events" else _NOT_CONTENT - {"session_id"}


def archived(database: Path) -> dict[tuple[str, str], list[bytes]]:
    """Return the archived lines of every log, by its path and item, read with plain SQL."""
    sql = (
        "SELECT l.path, l.item, k.data, k.size, k.digest FROM tk_logs l"
        " LEFT JOIN tk_log_blocks b ON b.log_id = l.id LEFT JOIN tk_blocks k ON k.id = b.block_id"
        " ORDER BY l.path, l.item, b.first_line"
    )
    found: dict[tuple[str, str], list[bytes]] = {}
    with closing(sqlite3.connect(database)) as connection:
        for path, item, data, size, name in connection.execute(sql):
            lines = found.setdefault((os.fsdecode(path), item), [])
            if data is not None:
                text = zstandard.ZstdDecompressor().decompress(data, max_output_size=size)
                assert digest(text) == name
                lines += text.split(b"\n")[:-1]
    return found


def assert_sound(database: Path) -> None:
    """Check a store that nobody has open: pages, references, and its index of words."""
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        for index in ("tk_entry_words", "knowledge_fts"):
            connection.execute(f"INSERT INTO {index} ({index}) VALUES ('integrity-check')")
        loose = connection.execute(
            "SELECT count(*) FROM tk_blocks WHERE id NOT IN (SELECT block_id FROM tk_log_blocks)"
        )
        assert loose.fetchone() == (0,)


def lines_of(path: Path) -> list[bytes]:
    """Return the lines of a file; the last one counts with or without its line feed."""
    lines = path.read_bytes().split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines
