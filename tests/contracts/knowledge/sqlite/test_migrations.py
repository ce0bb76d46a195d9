"""Files of every version are brought to 18, as Hippo would, and where Hippo would stop for ever."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.faults.old_knowledge_files import (
    NOW,
    THEN,
    VERSIONS,
    insert,
    make_old_knowledge,
    step_to,
)
from tests.lengths import at_length
from tests.support.knowledge import (
    ask,
    assert_sound,
    bring_up,
    clock,
    do,
    everything,
    objects,
    rows,
    shape,
)
from threadkeep.base.sqlite.backup import list_backups
from threadkeep.base.sqlite.tx import SqliteTx
from threadkeep.knowledge.opening import open_knowledge
from threadkeep.knowledge.repair import merge_health
from threadkeep.knowledge.schema import contract_tables

RECORDED = (1, 3, 5, 7, 9, 11, 13, 15, 17)
KIND_INDEX = (
    "CREATE INDEX idx_events_source_kind ON events (source_kind) WHERE source_kind != 'shell'"
)
UNRECORDED = tuple(version for version in VERSIONS if version not in RECORDED)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "knowledge.db"


@pytest.fixture
def samples(shared_data: Path) -> Path:
    folder = shared_data / "data" / "knowledge" / "migrations"
    if not folder.is_dir():
        pytest.skip("needs the recorded migrations")
    return folder


def seed(samples: Path, version: int, path: Path) -> dict[str, Any]:
    """Copy a sample file of a version; give what Hippo made of it."""
    shutil.copyfile(samples / f"seed_v{version}.db", path)
    found: dict[str, Any] = json.loads(
        (samples / f"after_v{version}_to_18.json").read_text("utf-8")
    )
    return found


def as_recorded(path: Path, table: str, columns: list[str]) -> list[list[str]]:
    found = ask(path, f"SELECT {', '.join(columns)} FROM {table}")
    return sorted([str(value) for value in row] for row in found)


# ------------------------------------------------------------ against what Hippo made


@pytest.mark.parametrize("version", RECORDED)
def test_the_result_is_what_hippo_made(path: Path, samples: Path, version: int) -> None:
    recorded = seed(samples, version, path)
    assert len(bring_up(path)) == 18 - version
    assert set(objects(path)) == set(recorded["objects"])
    assert ask(path, "PRAGMA user_version") == [(recorded["user_version"],)]
    for table, found in recorded["tables"].items():
        columns = [column[0] for column in found["columns"]]
        ours = shape(path, table)
        assert ours["columns"] == sorted(map(tuple, found["columns"])), table
        indexes = {name: tuple(facts) for name, *facts in found["indexes"]}
        made = ours["indexes"].items()
        assert {k: (*v[:2], [part[0] for part in v[2]]) for k, v in made} == indexes, table
        if table != "source_health":
            assert as_recorded(path, table, columns) == sorted(found["rows"]), table
    words = ask(path, "SELECT rowid, summary, embed_text, content FROM knowledge_fts")
    assert [list(row) for row in words] == recorded["fts"]
    match = "SELECT rowid FROM knowledge_fts WHERE knowledge_fts MATCH 'quokka'"
    assert [row[0] for row in ask(path, match)] == recorded["fts_match"]
    broken = [[str(value) for value in row] for row in ask(path, "PRAGMA foreign_key_check")]
    assert broken == recorded["fk_check"]


@pytest.mark.parametrize("version", RECORDED)
def test_health_is_what_hippo_made_and_none_is_missing(
    path: Path, samples: Path, version: int
) -> None:
    """Hippo adds the row `brain-preflight` at the second opening only: here it is there at once."""
    found = seed(samples, version, path)["tables"]["source_health"]
    bring_up(path)
    columns = [column[0] for column in found["columns"]]
    ours = as_recorded(path, "source_health", columns)
    old = {row[0] for row in found["rows"] if row[-1] == str(THEN)}
    assert all(row[-1] == (str(THEN) if row[0] in old else str(NOW)) for row in ours)
    assert [row[:-1] for row in ours if row[0] != "brain-preflight"] == sorted(
        row[:-1] for row in found["rows"] if row[0] != "brain-preflight"
    )
    assert len(ours) == 8


@pytest.mark.parametrize("version", UNRECORDED)
def test_versions_between_end_as_the_one_below(path: Path, samples: Path, version: int) -> None:
    recorded = seed(samples, version - 1, path)
    step_to(path, version)
    assert ask(path, "PRAGMA user_version") == [(version,)]
    bring_up(path)
    for table, found in recorded["tables"].items():
        if table != "source_health":
            columns = [column[0] for column in found["columns"]]
            assert as_recorded(path, table, columns) == sorted(found["rows"]), table


# ------------------------------------------------------------ on files of our own


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_loses_no_row(path: Path, version: int) -> None:
    make_old_knowledge(path, version)
    tables = [name for (name,) in ask(path, "SELECT name FROM sqlite_master WHERE type = 'table'")]
    kept = [
        t
        for t in contract_tables()
        if t in tables and t not in ("agentic_sessions", "source_health")
    ]
    before = {table: rows(path, table) for table in kept}
    bring_up(path)
    assert_sound(path)
    for table, old in before.items():
        new = rows(path, table)
        for row in old:
            assert any(row.items() <= found.items() for found in new), (table, row)
    assert bring_up(path) == ()


def test_a_backup_of_the_old_file_is_made_first(path: Path) -> None:
    make_old_knowledge(path, 9)
    bring_up(path)
    (backup,) = list_backups(path)
    assert backup.name.endswith("-before-knowledge-18.db")
    assert ask(backup, "PRAGMA user_version") == [(9,)]


def test_the_frozen_family_is_copied(path: Path) -> None:
    make_old_knowledge(path, 17)
    bring_up(path)
    columns = (
        "session_id, segment_index, harness, token_count, enriched, model, snapshot_diffs_json"
    )
    found = ask(path, f"SELECT {columns} FROM agentic_sessions WHERE id != 40 ORDER BY id")
    assert found == [
        ("s0", 0, "claude-code", 7, 0, "", "null"),
        ("s1", 1, "codex", 0, 0, "", "null"),
        ("s2", 2, "cursor", 7, 0, "", "null"),
        ("s3", 3, "codex", 7, 1, "", "null"),
        ("s4", 4, "claude-code", 7, 1, "", "null"),
    ]
    tickets = ask(
        path,
        "SELECT s.session_id, q.status, q.locked_at, q.retry_count, q.enqueued_at"
        " FROM agentic_enrichment_queue q JOIN agentic_sessions s ON s.id = q.session_id"
        " WHERE s.id != 40 ORDER BY s.session_id",
    )
    # What is enriched or done is not enriched again; nobody works on what was being worked on.
    assert tickets == [
        ("s0", "pending", None, 1, THEN),
        ("s1", "pending", None, 1, THEN),
        ("s2", "failed", None, 1, THEN),
    ]
    links = ask(
        path,
        "SELECT knowledge_node_id, s.session_id FROM knowledge_node_agentic_sessions l"
        " JOIN agentic_sessions s ON s.id = l.agentic_session_id ORDER BY 1",
    )
    assert links == [(2, "s3"), (3, "oc")]


def test_a_live_row_wins_over_the_copy_of_a_frozen_one(path: Path) -> None:
    make_old_knowledge(path, 17)
    with closing(sqlite3.connect(path)) as connection, connection:
        insert(
            connection, "agentic_sessions",
            id=50, session_id="s0", harness="claude-code", segment_index=0, project_dir="live",
            cwd="/", summary_text="live", created_at=THEN, start_time=1, end_time=2,
        )  # fmt: skip
    bring_up(path)
    found = ask(path, "SELECT id, summary_text FROM agentic_sessions WHERE session_id = 's0'")
    assert found == [(50, "live")]


# ------------------------------------------------------------ files that stopped half-way


def stopped(path: Path, version: int, *done: str) -> dict[str, Any]:
    """Bring up a file of a version, and one in which some statements ran before a crash."""
    whole = path.with_name("whole.db")
    for file in (path, whole):
        make_old_knowledge(file, version)
    do(path, *done)
    for file in (path, whole):
        bring_up(file)
    return everything(whole)


@pytest.mark.parametrize(
    "version, done",
    [
        (1, ["ALTER TABLE events ADD COLUMN envelope_id TEXT"]),
        (6, ["ALTER TABLE events ADD COLUMN source_kind TEXT NOT NULL DEFAULT 'shell'"]),
        (
            6,
            [
                "ALTER TABLE events ADD COLUMN source_kind TEXT NOT NULL DEFAULT 'shell'",
                "ALTER TABLE events ADD COLUMN tool_name TEXT",
                KIND_INDEX,
            ],
        ),
        (10, ["DROP INDEX idx_capture_alarms_invariant_active"]),
        (10, ["ALTER TABLE capture_alarms ADD COLUMN resolved_at INTEGER"]),
        (11, ["ALTER TABLE claude_sessions ADD COLUMN content_hash TEXT"]),
        (12, ["CREATE TABLE entities_new (id INTEGER PRIMARY KEY, half TEXT)"]),
        (16, ["CREATE TABLE agentic_sessions_new (id INTEGER PRIMARY KEY, half TEXT)"]),
    ],
)
def test_a_file_in_which_hippo_stopped_half_way(path: Path, version: int, done: list[str]) -> None:
    assert stopped(path, version, *done) == everything(path)
    assert_sound(path)


class Crash(BaseException):
    """A power cut, as far as Python can play one."""


class Fuse:
    """Lets so many statements of a transaction run, and then no more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left: float = float("inf")
        execute = SqliteTx._execute

        def burn(tx: SqliteTx, sql: str, params: Any = ()) -> sqlite3.Cursor:
            if self.left <= 0:
                raise Crash
            self.left -= 1
            return execute(tx, sql, params)

        monkeypatch.setattr(SqliteTx, "_execute", burn)


def open_and_close(path: Path) -> None:
    open_knowledge(path, lambda _: {}, backup=lambda *_: None, clock=clock).database.close()


def crash_after(fuse: Fuse, statements: int, path: Path) -> bool:
    """Open a file; True if that ended by a crash before so many statements had run."""
    fuse.left = statements
    try:
        open_and_close(path)
    except Crash:
        return True
    finally:
        fuse.left = float("inf")
    return False


@pytest.mark.slow
def test_a_crash_at_any_statement_leaves_one_version_or_the_next(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each version every statement (or every third) is once the last one of its step."""
    stride = at_length(1, 3)
    whole = path.with_name("whole.db")
    for file in (path, whole):
        make_old_knowledge(file, 1)
    open_and_close(whole)
    fuse = Fuse(monkeypatch)
    made = "SELECT type, name, sql FROM sqlite_master"
    reached, left, crashes = {1: ask(path, made)}, 0, 0
    while crash_after(fuse, left, path):
        crashes, left = crashes + 1, left + stride
        version = ask(path, "PRAGMA user_version")[0][0]
        if version not in reached:
            assert version == max(reached) + 1
            reached[version], left = ask(path, made), 0
        assert ask(path, made) == reached[version] or version == 18
    assert list(reached) == list(range(1, 19))
    assert crashes > 400 // stride
    assert everything(path) == everything(whole)
    assert_sound(path)


# ------------------------------------------------------------ what every opening puts right


def test_late_columns_are_added_and_the_legacy_cursor_is_kept(path: Path) -> None:
    bring_up(path)
    do(
        path,
        "ALTER TABLE agentic_sessions DROP COLUMN probe_tag",
        "DROP TABLE agentic_cursor",
        "CREATE TABLE agentic_cursor (source_key TEXT PRIMARY KEY,"
        " last_time_created INTEGER NOT NULL DEFAULT 0, last_id TEXT NOT NULL DEFAULT '',"
        " updated_at INTEGER NOT NULL)",
        "INSERT INTO agentic_cursor VALUES ('opencode', 77, 'x', 1)",
        "DELETE FROM source_health WHERE source LIKE 'agentic-%'",
        "DROP INDEX idx_events_session",
    )
    bring_up(path)
    assert ask(path, "SELECT source_key, last_seen_updated_at FROM agentic_cursor") == [
        ("opencode", 77)
    ]
    assert "probe_tag" in [row[1] for row in ask(path, "PRAGMA table_info(agentic_sessions)")]
    assert len(rows(path, "source_health")) == 8
    assert "index:idx_events_session" in objects(path)


def test_a_lost_index_of_words_is_made_and_filled_again(path: Path) -> None:
    make_old_knowledge(path, 17)
    bring_up(path)
    words = ask(path, "SELECT rowid, * FROM knowledge_fts")
    do(path, "DROP TABLE knowledge_fts")
    bring_up(path)
    assert ask(path, "SELECT rowid, * FROM knowledge_fts") == words
    assert len(words) == 3


def test_a_whole_file_is_not_written_when_it_is_opened(path: Path) -> None:
    bring_up(path)
    changes = ask(path, "PRAGMA data_version"), path.read_bytes()
    bring_up(path)
    assert (ask(path, "PRAGMA data_version"), path.read_bytes()) == changes


def test_the_old_name_of_a_source_is_merged_into_the_new_one(path: Path) -> None:
    bring_up(path)
    do(
        path,
        "INSERT INTO source_health (source, last_event_ts, last_error_ts, last_error_msg,"
        " consecutive_failures, probe_ok, probe_lag_ms, probe_last_run_ts, updated_at)"
        " VALUES ('claude-session', 50, 9, 'old error', 3, 1, 20, 60, 1)",
        "UPDATE source_health SET last_event_ts = 40, last_error_ts = 10, last_error_msg = 'new',"
        " probe_ok = 0, probe_lag_ms = 99, probe_last_run_ts = 55"
        " WHERE source = 'agentic-session-claude'",
    )
    bring_up(path)
    columns = "last_event_ts, last_error_msg, consecutive_failures, probe_ok, probe_lag_ms"
    sql = f"SELECT {columns} FROM source_health WHERE source = ?"
    assert ask(path, sql, "agentic-session-claude") == [(50, "new", 3, 1, 20)]
    assert ask(path, sql, "claude-session") == []


TIMES = st.none() | st.integers(0, 5)
COUNTED = (
    *("last_event_ts", "last_success_ts", "last_heartbeat_ts", "consecutive_failures"),
    *("events_last_1h", "events_last_24h", "expected_min_per_hour"),
)
SAID = ("last_error_ts", "last_error_msg", "probe_last_run_ts", "probe_ok", "probe_lag_ms")
HEALTH = st.fixed_dictionaries(dict.fromkeys((*COUNTED, *SAID), TIMES))


@given(HEALTH, HEALTH)
def test_merged_health_has_the_largest_and_the_latest(
    old: dict[str, int | None], new: dict[str, int | None]
) -> None:
    merged = merge_health(old, new)
    for column in COUNTED:
        known = [value for row in (old, new) if (value := row[column]) is not None]
        assert merged[column] == max(known, default=None)
    for when, *others in (SAID[:2], SAID[2:]):
        said = [tuple(row[c] for c in (when, *others)) for row in (new, old)]
        assert tuple(merged[c] for c in (when, *others)) in said
        assert merged[when] == max((s[0] for s in said if s[0] is not None), default=None)


@given(HEALTH)
def test_merging_health_with_itself_changes_nothing(row: dict[str, int | None]) -> None:
    assert merge_health(row, row) == row
