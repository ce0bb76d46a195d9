"""Retention: a file shrinks, and its sizes are told."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.states import Clock, open_state, talk
from threadkeep.base.sqlite.catalogue import pages
from threadkeep.base.sqlite.upkeep import sqlite_file
from threadkeep.state import check as sizes, retention
from threadkeep.state.check import check
from threadkeep.state.session_db import SessionDB


def candidates(db: SessionDB, *args: Any, **options: Any) -> list[dict[str, Any]]:
    with db.context.db.read() as tx:
        return retention.prune_candidates(db.context, tx, *args, **options)


def prune(db: SessionDB, *args: Any, **options: Any) -> int:
    return retention.prune_sessions(db.context, *args, **options)


# ---------------------------------------------------------------------- space


def fill(db: SessionDB, sessions: int = 40, messages: int = 20) -> None:
    for number in range(sessions):
        db.ensure_session(f"old{number}", "cli")
        texts = [f"{number} {place} " + os.urandom(1500).hex() for place in range(messages)]
        db.append_messages(f"old{number}", [{"role": "user", "content": text} for text in texts])


def on_disk(path: Path) -> int:
    return sum(os.stat(file).st_size for file in (path, Path(f"{path}-wal")) if file.exists())


def test_file_on_disk_shrinks_after_pruning(db: SessionDB, clock: Clock) -> None:
    fill(db)
    clock.pass_days(100)
    talk(db, "young", "stays")
    before = on_disk(db.db_path)
    assert before > 2_000_000
    assert prune(db) == 40
    assert on_disk(db.db_path) < before / 4
    assert [m["content"] for m in db.get_messages("young")] == ["stays"]
    assert check(db.context) == []


def foreign(path: Path, clock: Clock) -> SessionDB:
    """A file as another program makes it: without incremental vacuum."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA auto_vacuum = NONE")
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("CREATE TABLE started (x)")
        other.execute("DROP TABLE started")
    return open_state(path, clock)


def test_file_of_another_program_shrinks_when_much_of_it_is_free(
    tmp_path: Path, clock: Clock
) -> None:
    with foreign(tmp_path / "foreign.db", clock) as db:
        with db.context.db.read() as tx:
            assert pages(tx).auto_vacuum == 0
        fill(db)
        clock.pass_days(100)
        fill(db, 1)
        before = on_disk(db.db_path)
        assert prune(db) == 39
        assert on_disk(db.db_path) < before / 4
        assert check(db.context) == []


def test_file_of_another_program_is_not_written_anew_for_little(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with foreign(tmp_path / "foreign.db", clock) as db:
        fill(db)
        calls: list[int] = []
        monkeypatch.setattr(db.context.db, "vacuum", lambda: calls.append(1))
        assert retention.delete_sessions(db.context, ["old0", "old1"]) == 2
        assert calls == []


def test_vacuum_gives_back_what_is_free(tmp_path: Path, clock: Clock) -> None:
    with foreign(tmp_path / "foreign.db", clock) as db:
        fill(db)
        for number in range(30):
            db.delete_session(f"old{number}")
        sqlite_file(db.context.db).truncate_log()
        before = db.logical_size_bytes()
        assert db.vacuum() == 1
        assert db.logical_size_bytes() < before / 2


def test_compact_gives_back_what_single_deletes_left(db: SessionDB) -> None:
    fill(db)
    for number in range(30):
        db.delete_session(f"old{number}")
    before = on_disk(db.db_path)
    report = retention.compact(db.context)
    assert report["bytes_before"] == before
    assert report["bytes_after"] == on_disk(db.db_path) < before / 2
    assert report["bytes_gained"] == before - report["bytes_after"]
    assert report["moved"] is None
    assert db.message_count() == 200


# ---------------------------------------------------------------------- sizes


def report_of(db: SessionDB) -> dict[str, Any]:
    with db.context.db.read() as tx:
        return sizes.size_report(db.context, tx)


def test_size_report_adds_up(db: SessionDB) -> None:
    fill(db, 12, 5)
    db.create_session("prompted", "cron", None, {"t": 1}, "p" * 500)
    db.append_message("prompted", "assistant", "é", tool_calls=[{"id": "c"}], reasoning="r" * 90)
    sqlite_file(db.context.db).truncate_log()
    report = report_of(db)
    assert report["file_bytes"] == os.stat(db.db_path).st_size
    assert report["measured"]
    used = sum(report["by_group"].values()) + report["free_bytes"]
    assert 0.95 * report["file_bytes"] <= used <= report["file_bytes"]
    assert all(size > 0 for name, size in report["by_group"].items() if name != "other")
    payload = report["payload_bytes"]
    assert payload["content"] == sum(len(m["content"]) for m in messages_of(db)) + 1
    assert (payload["system_prompt"], payload["reasoning"]) == (500, 90)
    counts = {"sessions": 13, "messages": 61}
    assert counts.items() <= report["counts"].items()
    assert len(report["largest"]) == 10
    assert report["largest"][0]["bytes"] >= report["largest"][-1]["bytes"] > 10_000
    assert report["largest"][0]["messages"] == 5


def messages_of(db: SessionDB) -> Iterator[dict[str, Any]]:
    for session in db.search_sessions(limit=100):
        yield from db.get_messages(session["id"])


def test_size_report_is_estimated_where_sqlite_cannot_measure(
    db: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(db, 5, 5)
    exact = report_of(db)["by_group"]
    queries = {**sqlite_file(db.context.db).queries, "has_dbstat": "SELECT 0"}
    monkeypatch.setattr(db.context.db, "queries", queries)
    report = report_of(db)
    assert not report["measured"]
    assert set(report["by_group"]) == set(exact)
    assert exact["messages"] / 2 < report["by_group"]["messages"] <= exact["messages"]
    assert sum(report["by_group"].values()) == report["file_bytes"] - report["free_bytes"]


def test_size_report_of_a_file_that_is_only_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT, started_at REAL)")
        other.execute(
            "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT,"
            " content TEXT, timestamp REAL)"
        )
        other.execute("INSERT INTO sessions VALUES ('s', 'cli', 1.0)")
        other.execute("INSERT INTO messages VALUES (1, 's', 'user', 'hello', 1.0)")
        other.commit()
    with open_state(path, read_only=True) as db:
        report = report_of(db)
        assert report["counts"] == {"sessions": 1, "messages": 1}
        assert report["payload_bytes"]["content"] == 5
        assert [each["id"] for each in candidates(db, 1)] == ["s"]
        assert check(db.context) == []
