"""Files of memory are imported whole, once, and with one node for each."""

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.faults.old_knowledge_files import make_old_knowledge
from tests.support.knowledge import ask, assert_sound, do
from tests.support.memory_rows import remember
from threadkeep.home.home import Home
from threadkeep.knowledge.memory_documents import node_uuid
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.schema import MEMORY
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.transfer.adopt import adopt

SECRET = "AKIA" + "QWERTYUIOP123456"
LINK = "INSERT INTO memory_document_links VALUES ({}, 1, 1, {}, '{}', '{}', '{}', 1, 1)"
NODES = """SELECT d.logical_path, r.revision_number, json_extract(n.content, '$.summary')
FROM knowledge_nodes AS n JOIN knowledge_node_memory_chunks AS l ON l.knowledge_node_id = n.id
JOIN memory_chunks AS c ON c.id = l.memory_chunk_id
JOIN memory_revisions AS r ON r.id = c.revision_id
JOIN memory_documents AS d ON d.id = r.document_id ORDER BY 1, 2"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "ours")


@pytest.fixture
def hippo(tmp_path: Path) -> Path:
    path = tmp_path / "hippo.db"
    KnowledgeStore.open(path, schema=23).close()
    remember(path, "project_glaze.md", "fire at cone 6", 1000)
    remember(path, "user_ada.md", "a potter", 1100)
    return path


def begin(home: Home, schema: int) -> Path:
    path = home.knowledge_path()
    KnowledgeStore.open(path, schema=schema).close()
    return path


def told(path: Path) -> dict[str, Counter[Any]]:
    """Return the rows of memory without their numbers, and without what refers to numbers."""
    with closing(sqlite3.connect(path)) as db:
        db.row_factory = sqlite3.Row
        tables = sorted(MEMORY - {"knowledge_node_memory_chunks"})
        return {
            table: Counter(
                tuple((k, row[k]) for k in row.keys() if k != "id" and not k.endswith("_id"))  # noqa: SIM118
                for row in db.execute(f"SELECT * FROM {table}")
            )
            for table in tables
        }


@pytest.mark.parametrize("schema", [None, 18, 23])
def test_memory_comes_whole_and_once(home: Home, hippo: Path, schema: int | None) -> None:
    if schema:
        begin(home, schema)
    for _ in range(2):
        done = adopt(home, "hippo", hippo)
    assert told(done.target) == told(hippo)
    assert ask(done.target, NODES) == ask(hippo, NODES)
    assert ask(done.target, "PRAGMA user_version") == [(schema or 23,)]
    assert_sound(done.target)


@pytest.mark.parametrize("schema", [18, 23])
def test_after_a_replacement_there_is_one_node(home: Home, hippo: Path, schema: int) -> None:
    ours = begin(home, schema)
    remember_elsewhere(hippo)
    adopt(home, "hippo", hippo)
    remember(hippo, "project_glaze.md", "fire at cone 10", 2000)
    done = adopt(home, "hippo", hippo)
    assert done.tables["memory_documents"].changed == 1
    assert ask(ours, NODES) == ask(hippo, NODES)
    assert told(ours) == told(hippo)
    found = "SELECT count(*) FROM knowledge_fts WHERE knowledge_fts MATCH ?"
    assert [ask(ours, found, word) for word in ('"cone 6"', '"cone 10"')] == [[(0,)], [(1,)]]
    for name, revision, uuid in ask(
        ours,
        "SELECT d.uuid, d.active_revision_id, n.uuid FROM memory_documents AS d"
        " JOIN memory_chunks AS c ON c.revision_id = d.active_revision_id"
        " JOIN knowledge_node_memory_chunks ON memory_chunk_id = c.id"
        " JOIN knowledge_nodes AS n ON n.id = knowledge_node_id",
    ):
        assert uuid == node_uuid(name, revision)
    assert_sound(ours)


def remember_elsewhere(hippo: Path) -> None:
    """Let the numbers of rows differ in the two files."""
    remember(hippo, "project_old.md", "gone soon", 900)
    do(hippo, "DELETE FROM knowledge_nodes WHERE embed_text = 'gone soon'")
    do(hippo, "PRAGMA foreign_keys = ON", "DELETE FROM memory_documents WHERE updated_at = 900")


def test_what_is_older_there_changes_nothing(home: Home, hippo: Path, tmp_path: Path) -> None:
    ours = begin(home, 23)
    older = tmp_path / "older.db"
    older.write_bytes(hippo.read_bytes())
    remember(hippo, "project_glaze.md", "fire at cone 10", 2000)
    adopt(home, "hippo", hippo)
    before = told(ours), ask(ours, NODES)
    adopt(home, "hippo", older)
    assert (told(ours), ask(ours, NODES)) == before


def test_two_histories_of_one_file_are_both_kept(home: Home, hippo: Path, tmp_path: Path) -> None:
    ours = begin(home, 23)
    other = tmp_path / "other.db"
    other.write_bytes(hippo.read_bytes())
    remember(other, "project_glaze.md", "fire at cone 04", 1500)
    remember(hippo, "project_glaze.md", "fire at cone 10", 2000)
    for _ in range(2):
        for file in (other, hippo):
            adopt(home, "hippo", file)
    numbers = "SELECT revision_number FROM memory_revisions WHERE document_id = 1 ORDER BY 1"
    assert ask(ours, numbers) == [(1,), (2,), (3,)]
    assert [row[2] for row in ask(ours, NODES)] == ["fire at cone 10", "a potter"]


def test_a_memory_that_is_gone_there_is_gone_here(home: Home, hippo: Path) -> None:
    ours = begin(home, 18)
    adopt(home, "hippo", hippo)
    do(
        hippo,
        "DELETE FROM knowledge_nodes WHERE embed_text = 'a potter'",
        "DELETE FROM knowledge_node_memory_chunks WHERE knowledge_node_id NOT IN"
        " (SELECT id FROM knowledge_nodes)",
        "UPDATE memory_documents SET state = 'tombstoned', tombstoned_at = 3000, updated_at = 3000,"
        " active_revision_id = NULL WHERE logical_path = 'user_ada.md'",
    )
    adopt(home, "hippo", hippo)
    assert [row[0] for row in ask(ours, NODES)] == ["project_glaze.md"]
    state = "SELECT state FROM memory_documents WHERE logical_path = 'user_ada.md'"
    assert ask(ours, state) == [("tombstoned",)]


@pytest.mark.parametrize("what", [Query(pattern="cone 6"), Query(project=("kiln",))])
@pytest.mark.parametrize("schema", [18, 23])
def test_what_was_forgotten_does_not_come_back(
    home: Home, hippo: Path, what: Query, schema: int
) -> None:
    ours = begin(home, schema)
    adopt(home, "hippo", hippo)
    with home.history() as history:
        history.forget(what)
    for _ in range(2):
        assert b"cone 6" not in ours.read_bytes()
        assert not [row for row in ask(ours, NODES) if row[0] == "project_glaze.md"]
        assert ask(ours, "PRAGMA foreign_key_check") == []
        adopt(home, "hippo", hippo)
    left = {row[0] for row in ask(ours, "SELECT logical_path FROM memory_documents")}
    assert left == ({"user_ada.md"} if what.pattern else set())


@pytest.mark.parametrize("schema", [None, 18, 23])
def test_secrets_are_masked_in_every_text(home: Home, hippo: Path, schema: int | None) -> None:
    if schema:
        begin(home, schema)
    remember(hippo, "feedback_keys.md", f"# {SECRET}\nkey {SECRET}", 1200)
    do(
        hippo,
        f"UPDATE memory_documents SET last_error = 'no {SECRET}' WHERE logical_path LIKE 'user%'",
        f"UPDATE memory_enrichment_queue SET error_message = 'no {SECRET}'",
        f"UPDATE memory_revisions SET summary = '{SECRET}', diff_text = '+{SECRET}'",
        f"UPDATE memory_chunks SET heading_path = 'a > {SECRET}'",
        LINK.format(1, "NULL", SECRET, "x", "external"),
        LINK.format(2, 2, "y", SECRET, "resolved"),
    )
    done = adopt(home, "hippo", hippo)
    assert SECRET.encode() not in done.target.read_bytes()
    links = ask(done.target, "SELECT target_logical_path FROM memory_document_links")
    assert links == [("y",)]
    assert_sound(done.target)


def test_what_nobody_knows_is_told_and_stays(home: Home, hippo: Path) -> None:
    begin(home, 23)
    do(hippo, "CREATE TABLE dreams (id INTEGER)", "INSERT INTO dreams VALUES (1)")
    do(hippo, "ALTER TABLE knowledge_nodes ADD COLUMN mood TEXT", "PRAGMA user_version = 24")
    done = adopt(home, "hippo", hippo)
    assert any("dreams (rows: 1), knowledge_nodes.mood" in note for note in done.notes)
    assert any("24" in note for note in done.notes)
    assert ask(done.target, NODES) == ask(hippo, NODES)


def test_a_file_at_18_comes_into_a_store_at_23(home: Home, tmp_path: Path) -> None:
    """The frozen family has no place there: since 18 it is in the other tables, too."""
    path = tmp_path / "old.db"
    make_old_knowledge(path, 17)
    KnowledgeStore.open(path).close()
    begin(home, 23)
    done = adopt(home, "hippo", path)
    assert not any("does not know" in note for note in done.notes)
    for table in ("agentic_sessions", "events", "knowledge_nodes"):
        sql = f"SELECT count(*) FROM {table}"
        assert ask(done.target, sql) == ask(path, sql)
    assert_sound(done.target)
