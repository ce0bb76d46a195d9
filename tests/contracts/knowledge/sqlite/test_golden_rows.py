"""Rows that Hippo itself wrote for the same logs: ours are equal, column by column."""

import hashlib
import json
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from threadkeep.home.home import Home

OURS = {"id", "created_at"}  # numbers and times of writing
MTIME = 1_777_632_000  # what Hippo found the files to be from

Rows = list[dict[str, Any]]


def rows_of(home: Home, sql: str) -> Rows:
    with sqlite3.connect(home.knowledge_path()) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(sql)]


def captured(tmp_path: Path, user: Path) -> Home:
    home = Home(tmp_path / "keep")
    with home.history(user_home=user) as history:
        assert history.capture().errors == 0
    return home


@pytest.fixture
def golden(shared_data: Path, tmp_path: Path) -> tuple[dict[str, Rows], Home, Path]:
    folder = shared_data / "data" / "knowledge" / "golden"
    user = tmp_path / "user"
    shutil.copytree(folder / "home", user)
    for path in user.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
        os.utime(path, (MTIME, MTIME))
    rows = json.loads((folder / "golden_rows.json").read_text("utf-8"))
    return rows, captured(tmp_path, user), user


def without(row: dict[str, Any], user: Path) -> dict[str, Any]:
    row = {name: value for name, value in row.items() if name not in OURS}
    return {k: v.replace("$HOME", str(user)) if isinstance(v, str) else v for k, v in row.items()}


def test_claude_segments(golden: tuple[dict[str, Rows], Home, Path]) -> None:
    rows, home, user = golden
    theirs = [row for row in rows["agentic_sessions"] if row["harness"] == "claude-code"]
    ours = rows_of(home, "SELECT * FROM agentic_sessions WHERE harness = 'claude-code'")
    key = ("session_id", "segment_index")
    expected = {tuple(row[name] for name in key): without(row, user) for row in theirs}
    assert {tuple(row[name] for name in key): without(row, user) for row in ours} == expected
    tickets = rows_of(
        home,
        "SELECT q.status, q.priority, q.retry_count, q.max_retries, q.error_message, q.locked_at"
        " FROM agentic_enrichment_queue AS q JOIN agentic_sessions AS a ON a.id = q.session_id"
        " WHERE a.harness = 'claude-code'",
    )
    fresh = {"status": "pending", "priority": 5, "retry_count": 0, "max_retries": 5}
    assert tickets == [fresh | {"error_message": None, "locked_at": None}] * len(theirs)


def test_claude_tool_events(golden: tuple[dict[str, Rows], Home, Path]) -> None:
    rows, home, user = golden
    theirs = [row for row in rows["events"] if row["source_kind"] == "claude-tool"]
    ours = rows_of(home, "SELECT * FROM events")
    # Where it ran, and the number of its session, are ours.
    other = {"hostname", "session_id"}
    expected = {row["envelope_id"]: without(row, user) for row in theirs}
    found = {row["envelope_id"]: without(row, user) for row in ours}
    for envelope, row in expected.items():
        same = {name: value for name, value in found[envelope].items() if name not in other}
        assert same == {name: value for name, value in row.items() if name not in other}
    sessions = rows_of(home, "SELECT terminal, shell, end_time, summary FROM sessions")
    assert {row["terminal"] for row in sessions} >= {
        row["terminal"] for row in rows["sessions"] if row["shell"] == "claude-code"
    }
    (queued,) = rows_of(home, "SELECT count(*) AS n FROM enrichment_queue WHERE status = 'pending'")
    assert queued["n"] == len(ours)


def test_health_and_cursors(golden: tuple[dict[str, Rows], Home, Path]) -> None:
    rows, home, _ = golden
    health = {row["source"]: row for row in rows_of(home, "SELECT * FROM source_health")}
    for row in rows["source_health"]:
        if row["source"] in {"agentic-session-claude", "claude-tool"}:
            ours = health[row["source"]]
            same = ("last_event_ts", "consecutive_failures", "events_last_24h", "last_error_msg")
            assert [ours[name] for name in same] == [row[name] for name in same], row["source"]
    cursors = rows_of(home, "SELECT last_id, last_seen_updated_at FROM agentic_cursor")
    theirs = {(row["last_id"], row["last_seen_updated_at"]) for row in rows["agentic_cursor"]}
    assert {(row["last_id"], row["last_seen_updated_at"]) for row in cursors} == theirs


def test_real_claude_logs(shared_data: Path, tmp_path: Path) -> None:
    golden = shared_data / "data" / "knowledge" / "golden"
    recorded = json.loads((golden / "real_rows.json").read_text("utf-8"))
    user = tmp_path / "user"
    inputs = {one["home_path"] for one in recorded["inputs"] if one["harness"] == "claude-code"}
    for one in recorded["inputs"]:
        if one["home_path"] in inputs:
            target = user / one["home_path"]
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(shared_data / "data" / "harness" / one["sample"], target)
    home = captured(tmp_path, user)
    ours = {
        (row["source_file"], row["segment_index"]): row
        for row in rows_of(home, "SELECT * FROM agentic_sessions")
    }
    theirs = [row for row in recorded["rows"] if row["input"] in inputs]
    assert len(theirs) == len(ours)
    different = []
    for row in theirs:
        mine = ours[str(user / row["input"]), row["segment_index"]]
        masked = "[REDACTED]" in mine["summary_text"]
        for name, value in row.items():
            got = _same_form(name, mine)
            if got != value and name not in {"input", "source_file", "queue_status"}:
                different.append((row["input"], row["segment_index"], name, masked))
    # Only where our rules mask what Hippo's six do not know may anything differ.
    assert [one for one in different if not one[3]] == []


def _same_form(name: str, mine: dict[str, Any]) -> object:
    if name.endswith("_sha256"):
        text = mine[name.removesuffix("_sha256")]
        return hashlib.sha256(text.encode()).hexdigest()
    if name.endswith("_len"):
        column = {"tool_calls_len": "tool_calls_json", "user_prompts_len": "user_prompts_json"}
        return len(json.loads(mine[column[name]]))
    if name == "summary_text_chars":
        return len(mine["summary_text"])
    return mine.get(name)
