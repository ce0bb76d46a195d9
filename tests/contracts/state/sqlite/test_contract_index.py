"""A file that is Hermes's own is searched through the indexes that Hermes keeps."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.hermes_today import index_problems, make_hermes_state, run
from threadkeep.base.sqlite.upkeep import sqlite_file
from threadkeep.errors import Invalid
from threadkeep.state.hermes_state import SessionDB
from threadkeep.state.search import candidates

MESSAGES: list[tuple[int, str, str, str | None, str | None, int, int]] = [
    (1, "user", "the walrus swims at noon", None, None, 1, 0),
    (2, "assistant", "gateway/run.py waits; 集装箱号 is there, 港口 too", None, None, 1, 0),
    (3, "tool", "walrus log, 港口 as well", "list_berths", None, 1, 0),
    (4, "assistant", "", None, '[{"name": "open_dock", "arguments": "{}"}]', 1, 0),
    (5, "user", "taken back: walrus", None, None, 0, 0),
    (6, "user", "summarised: barnacle", None, None, 0, 1),
    (7, "user", '\0json:[{"type": "text", "text": "\\u6e2f\\u53e3 pictured"}]', None, None, 1, 0),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "state.db"
    make_hermes_state(path, "INSERT INTO sessions(id, source, started_at) VALUES ('s', 'cli', 1)")
    with closing(sqlite3.connect(path)) as connection:
        connection.executemany(
            "INSERT INTO messages(id, session_id, role, content, tool_name, tool_calls, active,"
            " compacted, timestamp) VALUES (?, 's', ?, ?, ?, ?, ?, ?, 10)",
            MESSAGES,
        )
        connection.commit()
    assert index_problems(path) == []
    return path


def found(path: Path, query: str, **options: Any) -> set[int]:
    before = path.read_bytes()
    with SessionDB(path) as db:
        hits = {hit["id"] for hit in db.search_messages(query, limit=100, **options)}
    assert path.read_bytes() == before
    return hits


QUESTIONS = [
    ("walrus", {1, 3}),
    ("walrus NOT noon", {3}),
    ("swims noon", {1}),
    ('"waits; 集装箱号"', {2}),
    ("run.py", {2}),
    ("list_berths", {3}),
    ("open_dock", {4}),
    ("barnacle", {6}),
    ("alrus", {1}),  # a part of a word, only where no word is like it; not in results of tools
    ("集装箱号", {2}),
    ("港口", {2, 3, 7}),
    ("港口 OR swims", {1, 2, 3, 7}),
    ("waits 港口", {2}),
    ("absent", set()),
]


@pytest.mark.parametrize("query, wanted", QUESTIONS)
def test_words_parts_and_scripts_without_spaces_are_found(
    path: Path, query: str, wanted: set[int]
) -> None:
    assert found(path, query) == wanted


@pytest.mark.parametrize("query, wanted", QUESTIONS)
def test_reading_in_small_steps_finds_the_same(
    path: Path, query: str, wanted: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "_CHUNK", 2)
    run(path, ["INSERT INTO state_meta VALUES ('fts_stale', '1')"])
    assert found(path, query) == (set() if query == "alrus" else wanted)


def test_what_was_taken_back_is_found_on_demand(path: Path) -> None:
    assert found(path, "walrus", include_inactive=True) == {1, 3, 5}


def test_messages_that_an_unfinished_index_lacks_are_read(path: Path) -> None:
    run(
        path,
        [
            (
                "INSERT INTO state_meta VALUES ('fts_rebuild_high_water', '9'),"
                " ('fts_rebuild_progress', '7')"
            ),
            (
                "INSERT INTO messages(id, session_id, role, content, timestamp)"
                " VALUES (8, 's', 'user', 'a walrus in the gap', 11)"
            ),
            (
                "INSERT INTO messages(id, session_id, role, content, timestamp)"
                " VALUES (10, 's', 'user', 'a walrus behind it', 11)"
            ),
        ],
    )
    assert found(path, "walrus") == {1, 3, 8, 10}
    assert found(path, "gap") == {8}


@pytest.mark.parametrize("broken", ["DROP TABLE messages_fts_data", "DROP TABLE messages_fts"])
def test_a_damaged_or_missing_index_is_read_past(path: Path, broken: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(broken)
    assert found(path, "walrus") == {1, 3}


def test_fields_pick_keys_of_a_hit(path: Path) -> None:
    with SessionDB(path) as db:
        hits = db.search_messages("barnacle", fields=["role", "id"])
        assert hits == [{"id": 6, "role": "user"}]
        assert list(hits[0]) == ["id", "role"]
        with pytest.raises(Invalid, match="no field colour"):
            db.search_messages("barnacle", fields=["colour"])
        with pytest.raises(TypeError):
            db.search_messages("barnacle", fields="id")


def test_the_file_keeps_its_journal_mode(path: Path) -> None:
    with SessionDB(path) as db:
        db.search_messages("walrus")
        assert sqlite_file(db.context.db).journal_mode == "delete"
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_a_word_that_only_filtered_messages_have_is_looked_for_within_words(path: Path) -> None:
    added = (
        "INSERT INTO messages(session_id, role, content, timestamp) VALUES"
        " ('s', 'user', 'mistaken', 11), ('s', 'assistant', 'noonday', 12)"
    )
    run(path, [added])
    assert found(path, "taken") == {8}  # the word itself was taken back
    assert found(path, "noon", role_filter=["assistant"]) == {9}
    assert found(path, "noon") == {1}


def test_an_index_that_was_cut_off_is_marked_so_that_hermes_builds_it_anew(path: Path) -> None:
    run(path, ["DROP TABLE messages_fts_trigram"])  # its triggers refuse every message now
    with SessionDB(path) as db:
        kept = db.append_message("s", "user", "a late walrus")
        assert db.get_meta("fts_stale") == "1"
        assert kept in {hit["id"] for hit in db.search_messages("walrus")}
