"""The recorded files of versions 18 and 23: brought up, used and imported as they are recorded."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.knowledge import ask, assert_sound, normal
from threadkeep.home.home import Home
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.knowledge.upgrade import migrate_file
from threadkeep.transfer.adopt import adopt

TIMED = {"source_health": "updated_at"}  # what bears the time of the step itself


@pytest.fixture(scope="session")
def golden(shared_data: Path) -> Path:
    folder = shared_data / "data" / "knowledge_new"
    if not (folder / "expected.json").is_file():
        pytest.skip("needs the recorded files of version 23 (THREADKEEP_SHARED)")
    return folder


@pytest.fixture(scope="session")
def expected(golden: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((golden / "expected.json").read_text("utf-8"))
    return found


def rows_of(path: Path) -> dict[str, list[Any]]:
    with closing(sqlite3.connect(path)) as db:
        db.row_factory = sqlite3.Row
        sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        names = [row["name"] for row in db.execute(sql)]
        kept = [n for n in names if not n.startswith(("tk_", "knowledge_fts_"))]
        return {
            name: sorted(
                (
                    [row[k] for k in row.keys() if k != TIMED.get(name)]  # noqa: SIM118
                    for row in db.execute(f"SELECT * FROM {name}")
                ),
                key=repr,
            )
            for name in kept
        }


def objects_of(path: Path) -> dict[str, str]:
    sql = "SELECT type || ':' || name, sql FROM sqlite_master WHERE sql IS NOT NULL"
    left_out = ("tk_", "sqlite_", "knowledge_fts_")
    return {
        name: normal(text)
        for name, text in ask(path, sql)
        if not name.partition(":")[2].startswith(left_out)
    }


def test_18_brought_to_23_is_the_recorded_file(golden: Path, tmp_path: Path) -> None:
    path, recorded = tmp_path / "v18.db", golden / "v23_migrated.db"
    shutil.copyfile(golden / "v18.db", path)
    done = migrate_file(path, to=23)
    assert (done.version_before, done.version_after) == (18, 23)
    assert objects_of(path) == objects_of(recorded)
    assert rows_of(path) == rows_of(recorded)
    assert_sound(path)


def test_resume_places_are_where_23_looks_for_them(
    golden: Path, expected: dict[str, Any], tmp_path: Path
) -> None:
    sql = "SELECT path, session_id, byte_offset FROM agentic_session_offsets ORDER BY path"
    for name in ("v18.db", "v23.db"):
        path = tmp_path / name
        shutil.copyfile(golden / name, path)
        migrate_file(path, to=23)
        assert [list(row) for row in ask(path, sql)] == expected["facts"]["offsets"]


@pytest.mark.parametrize("schema", [None, 18, 23])
def test_the_recorded_file_is_imported_whole_and_once(
    golden: Path, expected: dict[str, Any], tmp_path: Path, schema: int | None
) -> None:
    home = Home(tmp_path / "home")
    if schema is not None:
        KnowledgeStore.open(home.knowledge_path(), schema=schema).close()
    for _ in range(2):
        done = adopt(home, "hippo", golden / "v23.db")
    counts = expected["files"]["v23.db"]["rows"]
    for table in ("knowledge_nodes", "agentic_sessions", *(t for t in counts if "memory" in t)):
        assert ask(done.target, f"SELECT count(*) FROM {table}") == [(counts[table],)], table
    told = "SELECT logical_path, state, projection_status, last_error FROM memory_documents"
    assert sorted(ask(done.target, told)) == sorted(ask(golden / "v23.db", told))
    nodes = """SELECT d.logical_path, d.state, r.revision_number FROM memory_documents AS d
      JOIN memory_revisions AS r ON r.document_id = d.id
      JOIN memory_chunks AS c ON c.revision_id = r.id
      JOIN knowledge_node_memory_chunks AS l ON l.memory_chunk_id = c.id
      GROUP BY l.knowledge_node_id ORDER BY 1"""
    assert [list(row) for row in ask(done.target, nodes)] == [
        node[:3] for node in sorted(expected["facts"]["memory_nodes"])
    ]
    assert_sound(done.target)
