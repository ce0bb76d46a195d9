"""A store at version 23: made so, brought there from 18, and never half-way."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.knowledge import NOW, ask, assert_sound, clock, do, objects, rows
from threadkeep.base.sqlite.upkeep import sqlite_file
from threadkeep.errors import Conflict, Invalid, SchemaMismatch, ThreadkeepError
from threadkeep.knowledge.opening import open_knowledge
from threadkeep.knowledge.queues import claim, depths, release
from threadkeep.knowledge.repair import HARNESSES, HIPPOS
from threadkeep.knowledge.schema import CHANGES, NEWEST, SEEDED, WRITTEN, VersionChange, target_of
from threadkeep.knowledge.segments import enqueue
from threadkeep.knowledge.store import QUERIES, KnowledgeStore
from threadkeep.knowledge.upgrade import migrate_file, plan_migration

VERSION = "PRAGMA user_version"
FROZEN = CHANGES[-1].dropped
OFFSET = "INSERT INTO claude_session_offsets VALUES ('/log', 's', 7, 1, 2, 7, 3)"
OLD_SEGMENT = """INSERT INTO claude_sessions (session_id, project_dir, cwd, segment_index,
  start_time, end_time, summary_text, message_count, source_file, created_at)
VALUES ('s', '/p', '/p', {}, 1, 2, 'a quokka', 1, '/log', 1)"""
SEGMENT = """INSERT INTO agentic_sessions (session_id, harness, segment_index, project_dir, cwd,
  summary_text, start_time, end_time, created_at)
VALUES ('s', '{}', {}, '/p', '/p', 'a quokka', 1, 2, 1)"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "knowledge.db"


def make(path: Path, schema: int = 18) -> Path:
    open_knowledge(path, lambda _: {}, schema=schema, clock=clock).database.close()
    return path


@pytest.fixture
def old(path: Path) -> Path:
    """A store at 18, with a row in each table that 23 does not have, or under another name."""
    make(path)
    do(path, OFFSET, OLD_SEGMENT.format(0), SEGMENT.format("claude-code", 0))
    do(path, "INSERT INTO claude_session_parity VALUES (1, '/log', 1, 1, 0, 1, 2)")
    return path


def test_a_fresh_file_and_one_that_was_brought_up_are_alike(tmp_path: Path) -> None:
    fresh, raised = make(tmp_path / "fresh.db", 23), make(tmp_path / "raised.db")
    done = migrate_file(raised, to=23, clock=clock)
    assert (done.version_before, done.version_after) == (18, 23)
    assert len(done.steps) == len(CHANGES)
    assert objects(fresh) == objects(raised)
    for file in (fresh, raised):
        assert ask(file, VERSION) == [(23,)]
        sources = {row["source"] for row in rows(file, "source_health")}
        assert sources == {*SEEDED, "claude-auto-memory", "auto-memory-watcher"}
        assert_sound(file)


def test_resume_places_move_and_the_frozen_family_goes(old: Path) -> None:
    planned = plan_migration(old, to=23, clock=clock)
    assert ask(old, VERSION) == [(18,)]
    done = migrate_file(old, to=23, clock=clock)
    assert planned.rows == done.rows
    assert done.rows["claude_sessions"].after is None
    assert ask(old, "SELECT * FROM agentic_session_offsets") == [("/log", "s", 7, 1, 2, 7, 3)]
    names = {row[0] for row in ask(old, "SELECT name FROM sqlite_master")}
    assert not names.intersection(FROZEN)
    assert migrate_file(old, to=23, clock=clock).steps == ()


def test_what_was_read_there_already_wins_over_the_older_place(old: Path) -> None:
    script = "CREATE TABLE agentic_session_offsets (path TEXT PRIMARY KEY, session_id TEXT,"
    columns = "byte_offset, inode, device, size_at_last_read, updated_at)"
    do(old, f"{script} {columns}", "INSERT INTO agentic_session_offsets (path) VALUES ('/log')")
    migrate_file(old, to=23, clock=clock)
    assert ask(old, "SELECT session_id FROM agentic_session_offsets") == [(None,)]


@pytest.mark.parametrize("harness", ["claude-code", "gemini-cli"])
def test_nothing_is_dropped_that_was_never_copied(old: Path, harness: str) -> None:
    do(old, OLD_SEGMENT.format(1), SEGMENT.format(harness, 1))
    if harness == "claude-code":
        migrate_file(old, to=23, clock=clock)
        return
    with pytest.raises(Conflict, match="never copied"):
        migrate_file(old, to=23, clock=clock)
    assert ask(old, VERSION) == [(22,)]
    assert ask(old, "SELECT count(*) FROM claude_sessions") == [(2,)]


def test_a_drop_that_hippo_did_not_finish_is_finished(old: Path) -> None:
    do(old, "PRAGMA foreign_keys = OFF", "DROP TABLE claude_enrichment_queue")
    do(old, OLD_SEGMENT.format(1), "PRAGMA user_version = 22")
    make(old)
    assert ask(old, VERSION) == [(23,)]
    assert_sound(old)


@pytest.mark.parametrize("change", [c for c in CHANGES if c.health], ids=lambda c: c.name)
def test_a_step_that_fails_leaves_the_version_before_it(old: Path, change: VersionChange) -> None:
    """Each step is one transaction: what it made before it failed is gone with it."""
    stop = "CREATE TRIGGER stop BEFORE INSERT ON source_health"
    do(old, f"{stop} BEGIN SELECT raise(ABORT, 'stopped'); END")
    do(old, f"PRAGMA user_version = {change.number - 1}")
    with pytest.raises(ThreadkeepError, match="stopped"):
        migrate_file(old, to=23, clock=clock)
    assert ask(old, VERSION) == [(change.number - 1,)]
    names = {row[0] for row in ask(old, "SELECT name FROM sqlite_master")}
    assert not names.intersection(change.tables)


def test_there_is_no_way_back(path: Path) -> None:
    make(path, 23)
    before = path.read_bytes()
    with pytest.raises(SchemaMismatch, match="no way back"):
        migrate_file(path, to=18, clock=clock)
    assert path.read_bytes() == before
    assert migrate_file(path, clock=clock).version_after == 23
    with pytest.raises(Invalid, match="18 or 23"):
        migrate_file(path, to=20, clock=clock)


def test_who_has_it_open_at_18_writes_no_more_once_it_is_at_23(path: Path) -> None:
    with closing(open_knowledge(path, lambda _: {}, clock=clock).database) as database:
        migrate_file(path, to=23, clock=clock)
        with pytest.raises(SchemaMismatch, match="schema version 23"), database.write():
            pass


@pytest.mark.parametrize("version", [None, *range(25)])
@pytest.mark.parametrize("wanted", WRITTEN)
def test_a_store_never_goes_back_and_only_to_what_is_written(
    version: int | None, wanted: int
) -> None:
    target = target_of(version, wanted)
    assert target in WRITTEN
    assert target >= min(max(version or 0, wanted), NEWEST)


TICKETS = "SELECT status, locked_by FROM agentic_enrichment_queue ORDER BY session_id"


def test_no_ticket_waits_for_the_brain_that_it_never_takes(path: Path) -> None:
    make(path)
    for number, harness in enumerate(HARNESSES):
        do(path, SEGMENT.format(harness, number))
    queue = "INSERT INTO agentic_enrichment_queue (session_id, enqueued_at, updated_at)"
    do(path, f"{queue} SELECT id, 1, 1 FROM agentic_sessions")
    own = len(HARNESSES) - len(HIPPOS)
    with KnowledgeStore.open(path, schema=23, clock=clock) as store:
        db = store.context.db
        assert ask(path, TICKETS) == [("pending", None)] * 4 + [("skipped", "threadkeep")] * own
        with db.write() as tx:
            assert depths(tx)["agentic"] == {"pending": len(HARNESSES)}
            taken = claim(tx, "agentic", worker="w", now=NOW, limit=100, at_once=True)
            assert len(taken) == len(HARNESSES)
        with db.write() as tx:
            assert release(tx, "w") == len(HARNESSES)
        assert ask(path, TICKETS) == [("pending", None)] * 4 + [("skipped", "threadkeep")] * own
        with db.write() as tx:
            enqueue(tx, len(HARNESSES), NOW)
        assert ask(path, TICKETS)[-1] == ("skipped", "threadkeep")


@pytest.mark.parametrize("schema", WRITTEN)
def test_every_query_can_be_prepared_in_every_version(path: Path, schema: int) -> None:
    with KnowledgeStore.open(path, schema=schema, clock=clock) as store:
        queries = sqlite_file(store.context.db).queries
    with closing(sqlite3.connect(path)) as file:
        for name, sql in QUERIES.items():
            fitted = queries[name]
            assert (fitted == sql) == (not set(re.findall(r"\w+", sql)) & _lacking(file)), name
            if not re.search(r"knowledge_vectors|embed_model_meta|tk_orphans|\?", sql):
                values = dict.fromkeys(re.findall(r":(\w+)", fitted))
                file.execute(f"EXPLAIN {fitted}", values)


def _lacking(file: sqlite3.Connection) -> set[str]:
    there = {row[0] for row in file.execute("SELECT name FROM sqlite_master")}
    return {t for change in CHANGES for t in (*change.tables, *change.dropped)} - there
