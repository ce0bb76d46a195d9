"""Hippo's file comes into ours: every row once, whatever its number, and no secret with it."""

import json
import sqlite3
from collections import Counter
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.knowledge.sqlite.test_golden_rows import golden as golden  # noqa: PLC0414
from tests.faults.old_knowledge_files import make_old_knowledge
from tests.support.knowledge import ask, assert_sound, bring_up, do, everything
from threadkeep import Home
from threadkeep.knowledge import merge as merging
from threadkeep.knowledge.merge import WAYS, MergeCounts
from threadkeep.knowledge.schema import contract_tables, known_tables
from threadkeep.transfer.adopt import adopt

SEEDS = (1, 3, 5, 7, 9, 11, 13, 15, 17)
NOT_TAKEN = {"claude_session_offsets", "agentic_session_offsets", "agentic_cursor"}
SECRET = "AKIA" + "QWERTYUIOP123456"
EVENT = (
    "INSERT INTO events (id, session_id, timestamp, command, duration_ms, cwd, hostname, shell,"
    " created_at) VALUES ({id}, {session}, {at}, '{command}', 1, '/', 'h', 'zsh', 1)"
)
NODE = (
    "INSERT INTO knowledge_nodes (id, uuid, content, embed_text, created_at, updated_at)"
    " VALUES ({id}, '{uuid}', '{content}', '{text}', 1, 1)"
)
SEGMENT = (
    "INSERT INTO agentic_sessions (id, session_id, harness, project_dir, cwd, summary_text,"
    " start_time, end_time, created_at, content_hash) VALUES"
    " ({id}, '{name}', '{harness}', 'p', '/', '{text}', 1, 2, 1, 'h1')"
)
# Rows of our own under the numbers that a file of Hippo's has, too.
OURS = (
    *(
        "INSERT INTO sessions (id, start_time, terminal, shell, hostname, username, created_at)"
        f" VALUES ({n}, {n}, 'ours', 'fish', 'here', 'me', 1)"
        for n in range(1, 4)
    ),
    *(EVENT.format(id=n, session=1, at=n, command="true") for n in range(1, 8)),
    *(NODE.format(id=n, uuid=f"our-{n}", content="{}", text="ours") for n in range(1, 6)),
    *(SEGMENT.format(id=n, name=f"o{n}", harness="pi", text="") for n in range(1, 9)),
    (
        "INSERT INTO entities (id, type, name, canonical, first_seen, last_seen, created_at)"
        " VALUES (1, 'tool', 'Ours', 'ours', 1, 1, 1), (2, 'tool', 'Two', 'two', 1, 1, 1)"
    ),
    (
        "INSERT INTO lessons (id, repo, summary, first_seen_at, last_seen_at)"
        " VALUES (1, 'our/repo', 'ours', 1, 1)"
    ),
    "INSERT INTO env_snapshots VALUES (1, 'our hash', '{}', 1)",
    (
        "INSERT INTO browser_events (id, timestamp, url, domain, dwell_ms, created_at)"
        " VALUES (1, 1, 'https://our.example/', 'our.example', 1, 1)"
    ),
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "ours")


@pytest.fixture
def store(home: Home) -> Path:
    """Return the file of a home that has rows of its own."""
    home.knowledge().close()
    do(home.knowledge_path(), *OURS)
    return home.knowledge_path()


@pytest.fixture
def hippo(tmp_path: Path) -> Path:
    path = tmp_path / "hippo.db"
    make_old_knowledge(path, 17)
    bring_up(path)
    return path


def facts(path: Path) -> dict[str, Counter[Any]]:
    """Return the rows of each table without their numbers: a reference is the row it leads to."""
    with closing(sqlite3.connect(path)) as file:
        file.row_factory = sqlite3.Row
        tables = [way.table for way in WAYS if way.table in contract_tables()]
        parents = {
            table: {row["from"]: row["table"] for row in file.execute(_keys_of(table))}
            for table in tables
        }

        @cache
        def parent(table: str, number: int) -> Any:
            row = file.execute(f"SELECT * FROM {table} WHERE rowid = ?", (number,)).fetchone()
            return fact(table, row)

        def fact(table: str, row: sqlite3.Row) -> Any:
            refs = parents[table]
            return tuple(
                (name, parent(refs[name], row[name]) if refs.get(name) and row[name] else row[name])
                for name in sorted(row.keys())
                if name != "id" or table in ("workflow_runs", "workflow_jobs")
            )

        return {
            table: Counter(fact(table, row) for row in file.execute(f"SELECT * FROM {table}"))
            for table in tables
        }


def _keys_of(table: str) -> str:
    return f"PRAGMA foreign_key_list({table})"


def assert_all_of(original: Path, store: Path) -> None:
    """See that every row of a file at version 18 is in another, with all that it refers to."""
    here = facts(store)
    for table, rows in facts(original).items():
        if table != "source_health":
            assert rows - here[table] == Counter(), table


def unlock(path: Path) -> None:
    """Do what a merge does to tickets that somebody works on."""
    for (table,) in ask(path, "SELECT name FROM sqlite_master WHERE name LIKE '%_queue'"):
        do(
            path,
            f"UPDATE {table} SET status = 'pending' WHERE status = 'processing'",
            f"UPDATE {table} SET locked_at = NULL, locked_by = NULL",
        )


def drop_orphans(path: Path) -> int:
    """Take out the rows without a parent, as one of the seeds has one."""
    orphans = ask(path, "PRAGMA foreign_key_check")
    do(path, *(f"DELETE FROM {table} WHERE rowid = {row}" for table, row, *_ in orphans))
    return len(orphans)


# ---------------------------------------------------------------------- every row, once


def test_every_table_is_merged_or_left_on_purpose() -> None:
    assert {way.table for way in WAYS} - {"tk_orphans"} == known_tables().keys() - NOT_TAKEN


@pytest.mark.parametrize("version", SEEDS)
def test_a_file_that_hippo_wrote_is_merged_whole(
    home: Home, store: Path, shared_data: Path, tmp_path: Path, version: int
) -> None:
    path = tmp_path / "hippo.db"
    path.write_bytes((shared_data / f"data/knowledge/migrations/seed_v{version}.db").read_bytes())
    before, ours = path.read_bytes(), facts(store)
    planned = adopt(home, "hippo", path, dry_run=True)
    assert facts(store) == ours
    done = adopt(home, "hippo", path)
    assert path.read_bytes() == before
    assert (planned.tables, planned.notes, planned.added) == (done.tables, done.notes, done.added)
    assert (planned.dry_run, planned.target, done.copied) == (True, store, False)
    assert all(rows.left == 0 for rows in done.tables.values())
    bring_up(path)
    unlock(path)
    assert drop_orphans(path) == done.tables.get("tk_orphans", MergeCounts()).new
    assert_all_of(path, store)
    assert_sound(store)


@pytest.mark.parametrize("version", [1, 4, 9, 17])
def test_a_second_merge_changes_nothing(
    home: Home, store: Path, tmp_path: Path, version: int
) -> None:
    path = tmp_path / "old.db"
    make_old_knowledge(path, version)
    first = adopt(home, "hippo", path)
    once = everything(store)
    again = adopt(home, "hippo", path)
    assert everything(store) == once
    for table, rows in first.tables.items():
        assert again.tables[table] == MergeCounts(there=rows.new + rows.there)
    assert (again.added, again.skipped) == (0, first.added + first.skipped)


def test_a_copy_and_a_merge_hold_the_same(home: Home, hippo: Path, tmp_path: Path) -> None:
    planned = adopt(home, "hippo", hippo, dry_run=True)
    assert not home.paths().data.exists()
    copied = adopt(home, "hippo", hippo)
    assert (copied.copied, planned.copied) == (True, True)
    assert planned.tables == copied.tables
    other = tmp_path / "other.db"
    home.knowledge(other).close()
    merged = adopt(home, "hippo", hippo, target=other)
    unlock(copied.target)
    copy, merge = facts(copied.target), facts(other)
    for held in (copy, merge):
        del held["source_health"]
    assert copy == merge
    assert merged.added == copied.added > 0
    again = adopt(home, "hippo", hippo)
    assert sum(rows.new for rows in again.tables.values()) == 0


def test_rows_that_are_alike_are_as_many_here_as_there(
    home: Home, store: Path, hippo: Path
) -> None:
    do(hippo, *(EVENT.format(id=900 + n, session=1, at=5, command="make") for n in range(3)))
    adopt(home, "hippo", hippo)
    count = "SELECT count(*) FROM events WHERE command = 'make' AND timestamp = 5"
    assert ask(store, count) == [(3,)]
    do(hippo, EVENT.format(id=950, session=1, at=5, command="make"))
    assert adopt(home, "hippo", hippo).tables["events"].new == 1
    assert ask(store, count) == [(4,)]


def test_words_of_merged_nodes_are_found(home: Home, store: Path, hippo: Path) -> None:
    content = '{"summary": "a axolotl was seen"}'
    do(hippo, NODE.format(id=900, uuid="u-900", content=content, text="amphibian"))
    adopt(home, "hippo", hippo)
    (found,) = ask(store, "SELECT rowid FROM knowledge_fts WHERE knowledge_fts MATCH 'axolotl'")
    assert ask(store, "SELECT uuid FROM knowledge_nodes WHERE id = ?", *found) == [("u-900",)]


# ---------------------------------------------------------------------- tickets, learning, health


def test_only_new_rows_bring_their_tickets(home: Home, store: Path, hippo: Path) -> None:
    do(
        hippo,
        *(SEGMENT.format(id=900 + n, name=f"o{n}", harness="codex", text="") for n in (1, 2)),
        "INSERT INTO agentic_enrichment_queue (session_id, status, locked_at, locked_by,"
        " enqueued_at, updated_at) VALUES (901, 'processing', 5, 'brain', 1, 1),"
        " (902, 'failed', NULL, NULL, 1, 1)",
    )
    do(store, SEGMENT.format(id=20, name="o2", harness="codex", text="ours"))
    adopt(home, "hippo", hippo)
    tickets = (
        "SELECT a.session_id, q.status, q.locked_at, q.locked_by FROM agentic_enrichment_queue q"
        " JOIN agentic_sessions a ON a.id = q.session_id WHERE a.session_id IN ('o1', 'o2')"
    )
    assert ask(store, tickets) == [("o1", "pending", None, None)]


@pytest.mark.parametrize(
    "hashed, learned, expected",
    [
        ("h1", "h1", ("h1", 1, "ours")),
        ("h1", "h0", ("h0", 1, "ours")),
        ("h2", "h2", (None, 0, "ours")),
    ],
)
def test_what_was_learned_from_the_same_text_counts_here(
    home: Home, store: Path, hippo: Path, hashed: str, learned: str, expected: object
) -> None:
    do(
        hippo,
        SEGMENT.format(id=900, name="same", harness="codex", text="theirs"),
        f"UPDATE agentic_sessions SET enriched = 1, content_hash = '{hashed}',"
        f" last_enriched_content_hash = '{learned}' WHERE id = 900",
    )
    do(store, SEGMENT.format(id=20, name="same", harness="codex", text="ours"))
    adopt(home, "hippo", hippo)
    row = (
        "SELECT last_enriched_content_hash, enriched, summary_text FROM agentic_sessions"
        " WHERE session_id = 'same'"
    )
    assert ask(store, row) == [expected]


def test_health_keeps_the_later_times_and_our_words(home: Home, store: Path, hippo: Path) -> None:
    sql = (
        "UPDATE source_health SET last_event_ts = {}, last_success_ts = {}, last_error_msg = '{}'"
        " WHERE source = 'shell'"
    )
    do(hippo, sql.format(500, "NULL", "theirs"))
    do(store, sql.format(100, 900, "ours"))
    adopt(home, "hippo", hippo)
    row = (
        "SELECT last_event_ts, last_success_ts, last_error_msg FROM source_health WHERE source = ?"
    )
    assert ask(store, row, "shell") == [(500, 900, "ours")]


def test_how_far_hippo_has_read_is_not_taken(home: Home, store: Path, hippo: Path) -> None:
    do(
        hippo,
        "INSERT INTO claude_session_offsets (path, byte_offset, updated_at) VALUES ('/l', 9, 1)",
        "INSERT INTO agentic_cursor (source_key, updated_at) VALUES ('k', 1)",
    )
    done = adopt(home, "hippo", hippo)
    assert "how far Hippo has read 3 logs stays in the original" in done.notes
    for table in NOT_TAKEN & contract_tables().keys():
        assert ask(store, f"SELECT * FROM {table}") == []


# ---------------------------------------------------------------------- what we captured ourselves


def test_what_was_captured_from_the_same_logs_is_there_already(
    golden: tuple[dict[str, list[dict[str, Any]]], Home, Path], tmp_path: Path
) -> None:
    rows, home, user = golden
    path = tmp_path / "hippo.db"
    bring_up(path)
    fill(path, rows, user)
    captured = home.knowledge_path()
    before = {table: ask(captured, f"SELECT count(*) FROM {table}") for table in ("tk_entries",)}
    segments = ask(captured, "SELECT id, session_id, summary_text FROM agentic_sessions")
    done = adopt(home, "hippo", path)
    claude = [row for row in rows["agentic_sessions"] if row["harness"] == "claude-code"]
    tools = [row for row in rows["events"] if row["source_kind"] == "claude-tool"]
    assert done.tables["agentic_sessions"].there >= len(claude) > 0
    assert done.tables["events"].there == len(tools) > 0
    assert done.tables["events"].new == len(rows["events"]) - len(tools)
    assert set(segments) <= set(
        ask(captured, "SELECT id, session_id, summary_text FROM agentic_sessions")
    )
    assert {t: ask(captured, f"SELECT count(*) FROM {t}") for t in before} == before
    assert_sound(captured)
    again = adopt(home, "hippo", path)
    assert sum(table.new for table in again.tables.values()) == 0


def fill(path: Path, rows: dict[str, list[dict[str, Any]]], user: Path) -> None:
    """Write the rows that Hippo made of the golden logs into a file of its own."""
    with closing(sqlite3.connect(path)) as file, file:
        for table in ("sessions", "events", "enrichment_queue", "agentic_sessions"):
            for row in rows[table]:
                text = json.dumps(row).replace("$HOME", str(user))
                named = json.loads(text)
                marks = ", ".join(f":{name}" for name in named)
                file.execute(f"INSERT INTO {table} ({', '.join(named)}) VALUES ({marks})", named)


# ---------------------------------------------------------------------- secrets, forgotten, orphans


def plant(path: Path) -> None:
    """Put a secret wherever people and agents leave them."""
    content = json.dumps({"summary": f"the key is {SECRET}"})
    do(
        path,
        EVENT.format(id=900, session=1, at=900, command=f"export KEY={SECRET}"),
        f"UPDATE events SET stdout = 'got {SECRET}', stderr = '{SECRET}' WHERE id = 900",
        NODE.format(id=900, uuid="u-900", content=content, text=f"key {SECRET}"),
        "INSERT INTO knowledge_node_events VALUES (900, 900)",
        SEGMENT.format(id=900, name="s900", harness="codex", text=f"use {SECRET}"),
        f"UPDATE agentic_sessions SET user_prompts_json = '[\"{SECRET}\"]', title = '{SECRET}'"
        " WHERE id = 900",
        "INSERT INTO browser_events (id, timestamp, url, domain, dwell_ms, extracted_text,"
        f" created_at) VALUES (900, 1, 'https://x.example/?k={SECRET}', 'x', 1, '{SECRET}', 1)",
        "INSERT INTO entities (id, type, name, canonical, first_seen, last_seen, created_at)"
        f" VALUES (900, 'env_var', '{SECRET}', '{SECRET.lower()}', 1, 1, 1)",
        "INSERT INTO knowledge_node_entities VALUES (900, 900)",
        "INSERT INTO workflow_runs (id, repo, head_sha, event, status, html_url, raw_json,"
        f" first_seen_at, last_seen_at) VALUES (900, 'r', 's', 'e', 'x', 'h', '{content}', 1, 1)",
        "INSERT INTO workflow_jobs (id, run_id, name, status, raw_json)"
        " VALUES (900, 900, 'j', 'x', '')",
        f"INSERT INTO workflow_log_excerpts (job_id, excerpt) VALUES (900, 'AWS={SECRET}')",
    )


@pytest.mark.parametrize("merged", [False, True])
def test_no_secret_comes_along(home: Home, hippo: Path, merged: bool) -> None:  # noqa: FBT001
    plant(hippo)
    if merged:
        home.knowledge().close()
    done = adopt(home, "hippo", hippo)
    assert done.copied is not merged
    assert any("masked" in note for note in done.notes)
    held = b"".join(path.read_bytes() for path in home.paths().data.iterdir() if path.is_file())
    assert SECRET.encode() not in held
    assert SECRET.lower().encode() not in held
    events = "SELECT command FROM events WHERE timestamp = 900"
    assert ask(done.target, events) == [("export KEY=[REDACTED]",)]
    assert ask(done.target, "SELECT count(*) FROM entities WHERE type = 'env_var'") == [(0,)]
    assert_sound(done.target)
    again = adopt(home, "hippo", hippo)
    assert sum(table.new for table in again.tables.values()) == 0


def test_a_copy_with_vectors_loses_its_secrets_too(home: Home, hippo: Path) -> None:
    plant(hippo)
    with closing(sqlite3.connect(hippo)) as file, file:
        file.execute("CREATE TABLE knowledge_vectors_rowids (rowid INTEGER PRIMARY KEY, id)")
        file.execute("PRAGMA writable_schema = ON")
        file.execute(
            "INSERT INTO sqlite_master VALUES ('table', 'knowledge_vectors', 'knowledge_vectors',"
            " 0, 'CREATE VIRTUAL TABLE knowledge_vectors USING vec0(v FLOAT[768])')"
        )
    done = adopt(home, "hippo", hippo)
    assert done.copied
    assert SECRET.encode() not in done.target.read_bytes()
    vectors = "SELECT count(*) FROM sqlite_master WHERE name LIKE 'knowledge_vectors%'"
    assert ask(done.target, vectors) == [(2,)]


def test_what_was_forgotten_here_does_not_come_back(home: Home, store: Path, hippo: Path) -> None:
    do(
        hippo,
        *(SEGMENT.format(id=n, name=f"s{n}", harness="codex", text="t") for n in (901, 902)),
        *(NODE.format(id=n, uuid=f"u{n}", content="{}", text="of it") for n in (901, 902)),
        "INSERT INTO knowledge_node_agentic_sessions VALUES (901, 901), (902, 901), (902, 902)",
        "INSERT INTO sessions (id, start_time, terminal, shell, hostname, username, created_at)"
        " VALUES (901, 1, 's901', 'bash', 'h', 'u', 1)",
        EVENT.format(id=901, session=901, at=1, command="of it"),
    )
    do(store, "INSERT INTO tk_forgotten VALUES ('codex', 's901', 1)")
    done = adopt(home, "hippo", hippo)
    assert "rows of forgotten conversations that were left out: 2" in done.notes
    assert ask(store, "SELECT id FROM sessions WHERE terminal = 's901'") == []
    assert ask(store, "SELECT id FROM events WHERE command = 'of it'") == []
    names = "SELECT session_id FROM agentic_sessions WHERE session_id IN ('s901', 's902')"
    assert ask(store, names) == [("s902",)]
    assert ask(store, "SELECT uuid FROM knowledge_nodes WHERE uuid LIKE 'u90%'") == []


def test_rows_without_their_parent_are_set_aside_once(home: Home, store: Path, hippo: Path) -> None:
    do(
        hippo,
        "INSERT INTO knowledge_node_events VALUES (999, 1)",
        EVENT.format(id=901, session=4711, at=1, command="lost"),
        EVENT.format(id=902, session=1, at=77, command="kept"),
        "UPDATE events SET env_snapshot_id = 4711 WHERE id = 902",
    )
    for _ in range(2):
        done = adopt(home, "hippo", hippo)
        assert "rows without their parent, now in tk_orphans: 3" in done.notes
        aside = ask(store, "SELECT table_name, row_json FROM tk_orphans ORDER BY table_name")
        assert [table for table, _ in aside] == ["events", "events", "knowledge_node_events"]
    assert ask(store, "SELECT env_snapshot_id FROM events WHERE command = 'kept'") == [(None,)]
    assert_sound(store)


def test_vectors_stay_behind_and_that_is_said(home: Home, store: Path, hippo: Path) -> None:
    do(hippo, "CREATE TABLE embed_model_meta (id INTEGER PRIMARY KEY, model TEXT)")
    assert any("vectors stay" in note for note in adopt(home, "hippo", hippo).notes)
    assert ask(store, "SELECT name FROM sqlite_master WHERE name = 'embed_model_meta'") == []


# ---------------------------------------------------------------------- newer files, crashes


@pytest.mark.parametrize("begun", [False, True])
def test_a_newer_file_is_merged_as_far_as_we_know_it(
    home: Home,
    hippo: Path,
    begun: bool,  # noqa: FBT001
) -> None:
    if begun:
        home.knowledge().close()
    do(
        hippo,
        "ALTER TABLE claude_session_offsets RENAME TO agentic_session_offsets",
        "DROP TABLE knowledge_node_claude_sessions",
        "DROP TABLE claude_enrichment_queue",
        "DROP TABLE claude_sessions",
        "DROP TABLE claude_session_parity",
        "ALTER TABLE knowledge_nodes ADD COLUMN mood TEXT",
        "INSERT INTO source_health (source, updated_at) VALUES ('auto-memory-watcher', 1)",
        "PRAGMA user_version = 23",
    )
    before = hippo.read_bytes()
    done = adopt(home, "hippo", hippo)
    assert hippo.read_bytes() == before
    assert (done.copied, done.original.version) == (not begun, 23)
    for table in ("events", "agentic_sessions", "knowledge_nodes", "knowledge_node_events"):
        assert ask(done.target, f"SELECT count(*) FROM {table}") == ask(
            hippo, f"SELECT count(*) FROM {table}"
        )
    assert ask(done.target, "PRAGMA user_version") == [(18 if begun else 23,)]
    assert_sound(done.target)


def test_of_a_version_that_nobody_knows_comes_what_is_known(home: Home, hippo: Path) -> None:
    unlock(hippo)
    do(hippo, "PRAGMA user_version = 24")
    for dry_run in (True, False):
        done = adopt(home, "hippo", hippo, dry_run=dry_run)
        assert (done.copied, done.original.version) == (False, 24)
    assert ask(done.target, "PRAGMA user_version") == [(18,)]
    assert_all_of(hippo, done.target)


def test_an_agent_that_the_schema_does_not_know_is_left_out(
    home: Home, store: Path, hippo: Path
) -> None:
    do(hippo, SEGMENT.format(id=900, name="new", harness="codex", text="t"))
    with closing(sqlite3.connect(hippo)) as file, file:
        file.execute("PRAGMA ignore_check_constraints = ON")
        file.execute("UPDATE agentic_sessions SET harness = 'tomorrow' WHERE id = 900")
        file.execute(
            "INSERT INTO agentic_enrichment_queue (session_id, enqueued_at, updated_at)"
            " VALUES (900, 1, 1)"
        )
    done = adopt(home, "hippo", hippo)
    assert done.tables["agentic_sessions"].left == 1
    assert done.tables["agentic_enrichment_queue"].left == 1
    assert_sound(store)


def test_a_file_that_hippo_made_takes_our_agents(home: Home, hippo: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.db"
    make_old_knowledge(target, 17)
    do(hippo, SEGMENT.format(id=900, name="new", harness="codex", text="t"))
    with closing(sqlite3.connect(hippo)) as file, file:
        file.execute("PRAGMA ignore_check_constraints = ON")
        file.execute("UPDATE agentic_sessions SET harness = 'pi' WHERE id = 900")
    adopt(home, "hippo", hippo, target=target)
    found = "SELECT harness FROM agentic_sessions WHERE session_id = 'new'"
    assert ask(target, found) == [("pi",)]


class Crash(BaseException):
    """A power cut, as far as Python can play one."""


@pytest.mark.parametrize("table", ["events", "knowledge_node_events", "enrichment_queue"])
def test_a_merge_that_was_cut_off_is_simply_repeated(
    home: Home, store: Path, hippo: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    before = everything(store)
    merge = merging._merge_table

    def cut(*args: Any) -> MergeCounts:
        if args[2].table == table:
            raise Crash
        return merge(*args)

    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr(merging, "_merge_table", cut)
        adopt(home, "hippo", hippo)
    assert everything(store) == before
    adopt(home, "hippo", hippo)
    unlock(hippo)
    assert_all_of(hippo, store)
    assert [path.name for path in store.parent.iterdir() if "importing" in path.name] == []


def test_a_merge_tells_how_far_it_is(home: Home, store: Path, hippo: Path) -> None:
    with closing(sqlite3.connect(hippo)) as file, file:
        for n in range(1200):
            file.execute(EVENT.format(id=1000 + n, session=1, at=n, command=f"echo {n}"))
    heard: list[tuple[int, int]] = []
    adopt(home, "hippo", hippo, progress=lambda done, total: heard.append((done, total)))
    assert [done for done, _ in heard[:-1]] == [500 * n for n in range(1, len(heard))]
    assert heard[-1][0] == heard[-1][1] >= 1200
