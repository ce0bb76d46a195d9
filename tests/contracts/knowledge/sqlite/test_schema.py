"""The schema of a fresh knowledge file: the contract's, name by name; one CHECK has more agents."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.faults.old_knowledge_files import make_old_knowledge
from tests.support.knowledge import (
    NOW,
    ask,
    assert_sound,
    bring_up,
    clock,
    do,
    normal,
    objects,
    rows,
    shape,
)
from threadkeep.knowledge.opening import open_knowledge
from threadkeep.knowledge.repair import HARNESSES, allowed_harnesses
from threadkeep.knowledge.schema import SEEDED, contract_tables, is_begun, write_version

AGENTS = "agentic_sessions"
HIPPO, LISTED = (",".join(f"'{name}'" for name in some) for some in (HARNESSES[:4], HARNESSES))


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    path = tmp_path / "knowledge.db"
    assert bring_up(path) == ()
    return path


@pytest.fixture(scope="session")
def recorded(shared_data: Path) -> dict[str, Any]:
    """What Hippo made of a file that was new at version 17: its columns stand in order."""
    file = shared_data / "data" / "knowledge" / "migrations" / "after_v17_to_18.json"
    if not file.is_file():
        pytest.skip(f"needs the recorded migrations, {file.name}")
    found: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return found


def test_a_fresh_file_has_the_objects_of_the_contract(
    fresh: Path, recorded: dict[str, Any]
) -> None:
    assert set(objects(fresh)) == set(recorded["objects"])
    assert ask(fresh, "PRAGMA user_version") == [(18,)]
    assert_sound(fresh)


def test_columns_stand_as_the_contract_has_them(fresh: Path, recorded: dict[str, Any]) -> None:
    for table, found in recorded["tables"].items():
        columns = [list(row[1:]) for row in ask(fresh, f"PRAGMA table_info({table})")]
        assert columns == found["columns"], table
        indexes = [
            [row[1], row[2], row[4], [r[2] for r in ask(fresh, f"PRAGMA index_info({row[1]})")]]
            for row in ask(fresh, f"PRAGMA index_list({table})")
            if not row[1].startswith("tk_")  # ours, as its name says
        ]
        assert sorted(indexes) == sorted(found["indexes"]), table


def test_the_sql_is_the_contracts_but_for_the_agents(fresh: Path, recorded: dict[str, Any]) -> None:
    ours, theirs = objects(fresh), recorded["objects"]
    # The record has each statement on one line: behind a comment there is nothing to compare.
    plain = {name for name, sql in theirs.items() if "--" not in sql}
    assert {name: ours[name] for name in plain} == {name: normal(theirs[name]) for name in plain}
    commented = ("events", "claude_sessions", "browser_events", "capture_alarms", AGENTS)
    assert theirs.keys() - plain == {f"table:{name}" for name in commented}
    for name in theirs.keys() - plain:
        start = normal(theirs[name])
        assert ours[name].replace(LISTED, HIPPO).startswith(start), name
        assert ours[name].count("CHECK") == theirs[name].count("CHECK(") + theirs[name].count(
            "CHECK ("
        )


def test_every_harness_of_the_list_may_be_stored_and_no_other(fresh: Path) -> None:
    (sql,) = ask(fresh, "SELECT sql FROM sqlite_master WHERE name = 'agentic_sessions'")[0]
    assert allowed_harnesses(sql) == HARNESSES


def test_the_health_rows_bear_the_time_of_the_clock(fresh: Path) -> None:
    found = {row["source"]: row["updated_at"] for row in rows(fresh, "source_health")}
    assert found == dict.fromkeys(SEEDED, NOW)
    assert len(SEEDED) == 8


def test_the_list_of_columns_is_what_sqlite_makes_of_the_head(fresh: Path) -> None:
    for table, columns in contract_tables().items():
        assert tuple(row[1] for row in ask(fresh, f"PRAGMA table_info({table})")) == columns
    plain = [name for name in objects(fresh) if name.startswith("table:")]
    assert set(plain) == {f"table:{name}" for name in (*contract_tables(), "knowledge_fts")}


def test_a_file_from_version_1_ends_as_a_fresh_one(fresh: Path, tmp_path: Path) -> None:
    old = tmp_path / "old.db"
    make_old_knowledge(old, 1)
    bring_up(old)
    assert set(objects(old)) == set(objects(fresh))
    for table in contract_tables():
        new, migrated = shape(fresh, table), shape(old, table)
        if table == "enrichment_queue":  # born at version 1, which had 3
            migrated["columns"] = [
                (*row[:3], "5", *row[4:]) if row[0] == "max_retries" else row
                for row in migrated["columns"]
            ]
        assert migrated == new, table
    same = {name for name, sql in objects(old).items() if sql == objects(fresh)[name]}
    # The order of columns, the default above, and the agents are all that differs.
    assert set(objects(fresh)) - same == {
        f"table:{name}"
        for name in (
            *("events", "claude_sessions", "browser_events", "enrichment_queue"),
            "agentic_sessions",
        )
    }


@pytest.mark.parametrize("made", [1, 7, 20, len(contract_tables()) - 1])
def test_a_file_that_hippo_began_is_finished(fresh: Path, tmp_path: Path, made: int) -> None:
    begun = tmp_path / "begun.db"
    sql = "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?"
    do(begun, *(ask(fresh, sql, table)[0][0] for table in list(contract_tables())[:made]))
    bring_up(begun)
    assert objects(begun) == objects(fresh)
    assert ask(begun, "PRAGMA user_version") == [(18,)]
    assert rows(begun, "source_health") == rows(fresh, "source_health")


def test_a_file_whose_version_was_wiped_is_whole_again(fresh: Path) -> None:
    with closing(open_knowledge(fresh, lambda _: {}, clock=clock).database) as database:
        with database.write() as tx:
            write_version(tx, 0)
        with database.read() as tx:
            assert is_begun(tx)
    bring_up(fresh)
    assert ask(fresh, "PRAGMA user_version") == [(18,)]
