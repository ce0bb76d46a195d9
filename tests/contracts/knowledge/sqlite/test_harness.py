"""More agents than Hippo knows: the CHECK of a file that Hippo made is widened when needed."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.faults.old_knowledge_files import THEN, make_old_knowledge
from tests.support.knowledge import ask, assert_sound, bring_up, clock, do, objects, rows
from threadkeep.base.sqlite.upkeep import sqlite_file
from threadkeep.errors import Invalid
from threadkeep.knowledge.opening import open_knowledge
from threadkeep.knowledge.repair import (
    HARNESSES,
    allowed_harnesses,
    harness_is_allowed,
    widen_check,
    widen_harness,
)

STORED = (
    "INSERT INTO agentic_sessions (session_id, harness, project_dir, cwd, summary_text, start_time,"
    f" end_time, created_at) VALUES ('new', ?, '/', '/', 's', 1, 2, {THEN})"
)
KEPT = ("agentic_sessions", "knowledge_node_agentic_sessions", "agentic_enrichment_queue")


@pytest.fixture
def hippos(tmp_path: Path) -> Path:
    """A file of version 18 with Hippo's own CHECK, rows, and a view that somebody made."""
    path = tmp_path / "knowledge.db"
    make_old_knowledge(path, 17)
    do(path, "CREATE VIEW mine AS SELECT id, harness FROM agentic_sessions")
    bring_up(path)
    return path


def widen(path: Path) -> bool:
    opened = open_knowledge(path, lambda _: {}, clock=clock)
    with (
        closing(opened.database) as database,
        sqlite_file(database).write(foreign_keys=False) as tx,
    ):
        return widen_harness(tx)


def allowed(path: Path, harness: str) -> bool:
    opened = open_knowledge(path, lambda _: {}, read_only=True)
    with closing(opened.database) as database, database.read() as tx:
        return harness_is_allowed(tx, harness)


def test_a_file_of_hippos_takes_every_agent_afterwards(hippos: Path) -> None:
    assert allowed(hippos, "cursor")
    assert not allowed(hippos, "gemini-cli")
    assert widen(hippos)
    for harness in HARNESSES:
        assert allowed(hippos, harness)
        assert len(ask(hippos, f"{STORED} RETURNING id", harness)) == 1
    assert not allowed(hippos, "nobody")
    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        ask(hippos, STORED, "nobody")


def test_rows_numbers_links_tickets_indexes_and_views_stay(hippos: Path) -> None:
    before = {table: rows(hippos, table) for table in KEPT}
    made = objects(hippos)
    assert len(before["agentic_sessions"]) == 6
    widen(hippos)
    assert {table: rows(hippos, table) for table in KEPT} == before
    after = objects(hippos)
    assert {name for name in made if after[name] != made[name]} == {"table:agentic_sessions"}
    assert after.keys() == made.keys()
    assert len(ask(hippos, "SELECT * FROM mine")) == 6
    assert_sound(hippos)


def test_a_second_time_changes_nothing(hippos: Path) -> None:
    assert widen(hippos)
    made = objects(hippos)
    assert not widen(hippos)
    assert objects(hippos) == made


def test_a_fresh_file_need_not_be_widened(tmp_path: Path) -> None:
    bring_up(tmp_path / "fresh.db")
    assert not widen(tmp_path / "fresh.db")


def test_a_widened_file_has_the_check_of_a_fresh_one(hippos: Path, tmp_path: Path) -> None:
    widen(hippos)
    bring_up(tmp_path / "fresh.db")
    name = "table:agentic_sessions"
    assert objects(hippos)[name] == objects(tmp_path / "fresh.db")[name]


def test_agents_that_a_later_hippo_allows_stay_allowed(hippos: Path) -> None:
    with closing(sqlite3.connect(hippos)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = replace(sql, '''cursor''', '''cursor'', ''zed''')"
            " WHERE name = 'agentic_sessions'"
        )
        connection.commit()
    assert allowed(hippos, "zed")
    widen(hippos)
    assert allowed(hippos, "zed")
    assert allowed(hippos, "gemini-cli")


def test_with_foreign_keys_on_it_is_refused_and_nothing_is_lost(hippos: Path) -> None:
    before = {table: rows(hippos, table) for table in KEPT}
    opened = open_knowledge(hippos, lambda _: {}, clock=clock)
    refused = pytest.raises(Invalid, match="enforces foreign keys")
    with closing(opened.database) as database, refused, database.write() as tx:
        widen_harness(tx)
    assert {table: rows(hippos, table) for table in KEPT} == before


NAMES = st.lists(st.from_regex(r"[a-z][a-z-]{0,9}", fullmatch=True), min_size=1, unique=True)
SPELLINGS = st.sampled_from(
    [
        "CREATE TABLE agentic_sessions (id INTEGER, harness TEXT CHECK (harness IN ({})), x TEXT)",
        'CREATE TABLE "agentic_sessions"(id,"harness" TEXT CHECK("harness"  in({})))',
        "create table if not exists [agentic_sessions] (harness CHECK (harness IN (\n {} )))",
    ]
)


@given(SPELLINGS, NAMES)
def test_widening_keeps_what_was_allowed_and_adds_ours(spelling: str, names: list[str]) -> None:
    create = spelling.format(", ".join(f"'{name}'" for name in names))
    assert allowed_harnesses(create) == tuple(names)
    wide = widen_check(create)
    assert set(allowed_harnesses(wide) or ()) == {*names, *HARNESSES}
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(wide)
        (table,) = connection.execute("SELECT name FROM sqlite_master").fetchone()
        assert table == "agentic_sessions_new"


def test_a_table_without_a_check_allows_any() -> None:
    assert allowed_harnesses("CREATE TABLE agentic_sessions (harness TEXT)") is None
