"""A file of Hippo's that is used where it is: listed, searched, recalled and opened."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.knowledge import ask, do
from tests.support.memory_rows import remember
from threadkeep.home.home import Home
from threadkeep.home.opening import open_browse, open_history_to_list, open_memory_to_ask
from threadkeep.knowledge.schema import head_of

SEGMENT = """INSERT INTO agentic_sessions (session_id, harness, segment_index, project_dir, cwd,
  summary_text, user_prompts_json, title, start_time, end_time, content_hash, created_at)
VALUES ('{}', 'codex', 0, '/p', '/p', 'a quokka', '["feed the quokka"]', 'Zoo', 1, 2, 'h', 1)"""
NODE = """INSERT INTO knowledge_nodes (uuid, content, embed_text, created_at, updated_at)
VALUES ('{0}', '{{"summary": "{0}"}}', '{0}', 1, 1)"""


@pytest.fixture(params=[18, 23])
def hippo(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A file that Hippo has made: none of our tables are in it."""
    path = tmp_path / "hippo.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(head_of(request.param))
    do(path, f"PRAGMA user_version = {request.param}", SEGMENT.format("first"))
    do(path, NODE.format("a quokka eats leaves"))
    return path


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def names_in(home: Home, path: Path) -> set[str]:
    with open_history_to_list(home, path) as history:
        return {session.session_id for session in history.sessions()}


def recalled(home: Home, path: Path, words: str) -> list[str]:
    with home.memory(path, must_exist=True) as memory:
        memory.index()
        return [hit.ref for hit in memory.recall(words).hits]


@pytest.mark.parametrize("recall_first", [False, True])
def test_its_conversations_are_listed_and_searched(
    home: Home, hippo: Path, *, recall_first: bool
) -> None:
    if recall_first:
        assert "node:1" in recalled(home, hippo, "quokka leaves")
    assert names_in(home, hippo) == {"first"}
    with home.history(hippo, read_only=True) as history:
        assert {hit.session.session_id for hit in history.search("quokka")} == {"first"}
    with closing(open_browse(home, hippo)) as browse:
        assert [one.session.session_id for one in browse.sessions().items] == ["first"]
    do(hippo, SEGMENT.format("second"))
    assert names_in(home, hippo) == {"first", "second"}


def test_what_the_brain_writes_is_found_at_once(home: Home, hippo: Path) -> None:
    names_in(home, hippo)
    assert recalled(home, hippo, "wombat") == []
    do(hippo, NODE.format("a wombat digs"))
    assert recalled(home, hippo, "wombat") == ["node:2"]
    do(hippo, "DELETE FROM knowledge_nodes WHERE id = 2")
    assert recalled(home, hippo, "wombat") == []


@pytest.mark.parametrize("hippo", [23], indirect=True)
def test_a_memory_that_is_replaced_is_found_in_its_new_words(home: Home, hippo: Path) -> None:
    remember(hippo, "project_zoo.md", "the kookaburra laughs", 1)
    first = recalled(home, hippo, "kookaburra")
    remember(hippo, "project_zoo.md", "the bandicoot digs", 2)
    assert len(first) == len(recalled(home, hippo, "bandicoot")) == 1
    assert recalled(home, hippo, "kookaburra") == []


def test_a_look_brings_no_file_to_another_version(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "hippo.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(head_of(20))
    do(path, "PRAGMA user_version = 20", SEGMENT.format("first"), NODE.format("a quokka"))
    before = path.read_bytes()
    with closing(open_browse(home, path)) as browse:
        assert browse.sessions().items == ()
    with open_memory_to_ask(home, path) as memory:
        assert memory.store.access.finding.kind == "between"
    assert path.read_bytes() == before


def test_one_of_a_version_that_nobody_knows_stays_as_it_is(home: Home, hippo: Path) -> None:
    do(hippo, "PRAGMA user_version = 24", "DROP TABLE agentic_cursor")
    before = hippo.read_bytes()
    with open_history_to_list(home, hippo) as history:
        assert history.store.access.finding.kind == "unknown"
    assert hippo.read_bytes() == before


def test_golden_file_answers_all(home: Home, shared_data: Path, tmp_path: Path) -> None:
    golden = shared_data / "data" / "knowledge_new" / "v23.db"
    if not golden.is_file():
        pytest.skip("needs the golden files of version 23")
    path = tmp_path / "v23.db"
    shutil.copyfile(golden, path)
    assert names_in(home, path) == {f"s-ada-{number}" for number in (0, 2, 3, 4, 5)}
    assert "node:17" in recalled(home, path, "glaze")
    assert ask(path, "PRAGMA user_version") == [(23,)]
