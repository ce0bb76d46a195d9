"""Rows without their parent never stop a file from coming up; they are set aside, whole."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.faults.old_knowledge_files import NOW, THEN, make_old_knowledge
from tests.support.knowledge import ask, assert_sound, bring_up, clock, do, rows
from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.base.sqlite.upkeep import sqlite_file
from threadkeep.knowledge.opening import open_knowledge
from threadkeep.knowledge.records import OrphanRow
from threadkeep.knowledge.repair import (
    find_orphans,
    list_set_aside,
    read_whole,
    set_aside_orphans,
)
from threadkeep.knowledge.schema import contract_tables

QUEUE = (
    f"INSERT INTO enrichment_queue (event_id, created_at, updated_at) VALUES (4711, {THEN}, {THEN})"
)
EVENT = (
    "INSERT INTO events (id, session_id, timestamp, command, duration_ms, cwd, hostname, shell,"
    " created_at{more}) VALUES ({id}, {session}, 1, 'ls', 1, '/', 'h', 'zsh', 1{values})"
)
# One row for each way to lose a parent, and the column that tells.
ORPHANS = {
    "link to no node": (
        "knowledge_node_events",
        "INSERT INTO knowledge_node_events VALUES (999, 1)",
    ),
    "link to no event": (
        "knowledge_node_events",
        "INSERT INTO knowledge_node_events VALUES (1, 99)",
    ),
    "no entity": ("event_entities", f"INSERT INTO event_entities VALUES (9, 1, 77, 'r', {THEN})"),
    "no target": (
        "relationships",
        f"INSERT INTO relationships VALUES (9, 1, 99, 'r', 1, 1, {THEN}, {THEN})",
    ),
    "ticket of no event": ("enrichment_queue", QUEUE),
    "ticket of no run": (
        "workflow_enrichment_queue",
        "INSERT INTO workflow_enrichment_queue (run_id, enqueued_at, updated_at) VALUES (9, 1, 1)",
    ),
    "legacy link": (
        "knowledge_node_claude_sessions",
        "INSERT INTO knowledge_node_claude_sessions VALUES (999, 100)",
    ),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "knowledge.db"


def set_aside(path: Path) -> list[OrphanRow]:
    with SqliteDatabase(path, {}, read_only=True) as database, database.read() as tx:
        return list_set_aside(tx)


@pytest.mark.parametrize("version", [12, 16])
@pytest.mark.parametrize("kind", ORPHANS)
def test_one_orphan_stops_no_file(path: Path, version: int, kind: str) -> None:
    table, sql = ORPHANS[kind]
    make_old_knowledge(path, version)
    before = rows(path, table)
    do(path, "PRAGMA foreign_keys = OFF", sql)
    (orphan,) = [row for row in rows(path, table) if row not in before]
    bring_up(path)
    assert_sound(path)
    (found,) = set_aside(path)
    assert (found.table_name, found.row, found.found_at) == (table, orphan, NOW)
    assert "is not in" in found.reason
    kept = [{k: v for k, v in row.items() if k in before[0]} for row in rows(path, table)]
    assert kept == before


def test_what_loses_its_parent_by_that_goes_too(path: Path) -> None:
    make_old_knowledge(path, 12)
    do(
        path,
        "PRAGMA foreign_keys = OFF",
        "INSERT INTO workflow_jobs VALUES (60, 99, 'n', 's', NULL, NULL, NULL, NULL, '')",
        "INSERT INTO workflow_annotations (job_id, level, message) VALUES (60, 'failure', 'm')",
        EVENT.format(id=70, session=99, more="", values=""),
        "INSERT INTO knowledge_node_events VALUES (1, 70)",
    )
    bring_up(path)
    assert_sound(path)
    gone = sorted(found.table_name for found in set_aside(path))
    assert gone == ["events", "knowledge_node_events", "workflow_annotations", "workflow_jobs"]


def test_a_reference_that_may_be_empty_is_emptied_and_its_row_stays(path: Path) -> None:
    make_old_knowledge(path, 16)
    values = {"more": ", env_snapshot_id", "values": ", 55"}
    do(path, "PRAGMA foreign_keys = OFF", EVENT.format(id=70, session=1, **values))
    bring_up(path)
    assert ask(path, "SELECT command, env_snapshot_id FROM events WHERE id = 70") == [("ls", None)]
    (found,) = set_aside(path)
    assert found.row["env_snapshot_id"] == 55
    assert found.reason == "env_snapshot_id 55 is not in env_snapshots: the reference was emptied"


def test_orphans_that_are_in_nobodys_way_stay_as_hippo_leaves_them(path: Path) -> None:
    """Step 18 looks at the agentic tables only, so a file of version 17 keeps the others."""
    make_old_knowledge(path, 17)
    do(
        path,
        "PRAGMA foreign_keys = OFF",
        ORPHANS["legacy link"][1],
        "INSERT INTO knowledge_node_agentic_sessions VALUES (1, 999)",
    )
    opened = open_knowledge(path, lambda _: {}, clock=clock)
    with closing(opened.database) as database, database.read() as tx:
        (left,) = find_orphans(tx)
    assert (left.table, left.missing) == ("knowledge_node_claude_sessions", 999)
    (aside,) = opened.access.brought_up.set_aside
    assert aside.table_name == "knowledge_node_agentic_sessions"
    assert ask(path, "SELECT count(*) FROM knowledge_node_agentic_sessions") == [(2,)]


def test_a_file_without_orphans_gets_no_table_for_them(path: Path) -> None:
    make_old_knowledge(path, 12)
    bring_up(path)
    assert ask(path, "SELECT name FROM sqlite_master WHERE name = 'tk_orphans'") == []


def test_a_file_of_today_can_be_rid_of_them_on_demand(path: Path) -> None:
    bring_up(path)
    do(path, "PRAGMA foreign_keys = OFF", QUEUE)
    with closing(open_knowledge(path, lambda _: {}, clock=clock).database) as database:
        with sqlite_file(database).write(foreign_keys=False) as tx:
            assert set_aside_orphans(tx, NOW) == 1
        with sqlite_file(database).write(foreign_keys=False) as tx:
            assert set_aside_orphans(tx, NOW) == 0
    assert_sound(path)


# What SQLite may hold in any column, bytes that are no text among it.
VALUES = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary(max_size=20),
)


@given(VALUES)
def test_a_row_is_kept_whole_whatever_is_in_it(tmp_path_factory: Any, value: Any) -> None:
    path = tmp_path_factory.mktemp("rows") / "a.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, odd)")
        connection.execute("INSERT INTO t VALUES (1, ?)", (value,))
    with SqliteDatabase(path, {}) as database, database.read() as tx:
        found = read_whole(tx, "t", 1)
    assert found is not None
    match found["odd"]:
        case {"blob": text}:
            assert bytes.fromhex(text) == value
        case {"real": text}:
            assert float(text) == value
        case plain:
            assert plain == value


def test_text_that_is_no_utf8_is_kept_too(path: Path) -> None:
    make_old_knowledge(path, 12)
    do(
        path,
        "PRAGMA foreign_keys = OFF",
        "INSERT INTO event_entities VALUES (9, 1, 77, CAST(x'fffe41' AS TEXT), 1)",
    )
    bring_up(path)
    (found,) = set_aside(path)
    assert found.row["role"] == {"blob": "fffe41"}


def test_every_table_that_refers_to_another_is_looked_at(path: Path) -> None:
    bring_up(path)
    referring = {t for t in contract_tables() if ask(path, f"PRAGMA foreign_key_list({t})")}
    assert len(referring) == 18
