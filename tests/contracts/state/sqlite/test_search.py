"""Searching files: a locked one, one of a later version, rows that are no text."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.states import open_state
from threadkeep.state.schema import HEAD
from threadkeep.state.session_db import SessionDB

Make = Callable[..., list[int]]


def ids(db: SessionDB, query: str, **options: Any) -> list[int]:
    return [hit["id"] for hit in db.search_messages(query, **options)]


def test_a_search_does_not_wait_for_a_writer(db: SessionDB, make: Make, tmp_path: Path) -> None:
    make("s")
    db.append_messages("s", [{"role": "user", "content": "部署 now"}] * 100)
    with closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert len(ids(db, "部署", limit=-1)) == 100
        other.execute("ROLLBACK")


INDEXES = {
    "none": "",
    "theirs": "CREATE VIRTUAL TABLE messages_fts USING fts5(content, content=messages,"
    " content_rowid=id); INSERT INTO messages_fts(messages_fts) VALUES ('rebuild');",
    "another": "CREATE VIRTUAL TABLE messages_fts USING fts5(content, tool_name,"
    " tokenize='porter'); INSERT INTO messages_fts(rowid, content, tool_name)"
    " SELECT id, content, tool_name FROM messages;",
    "a plain table": "CREATE TABLE messages_fts (content)",
}


@pytest.fixture(params=INDEXES)
def newer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SessionDB]:
    """A file of a later version, in which nothing is ours."""
    path = tmp_path / "newer.db"
    with closing(sqlite3.connect(path)) as other, other:
        other.executescript(f"{HEAD} INSERT INTO schema_version VALUES (9);")
        other.execute("INSERT INTO sessions(id, source, started_at) VALUES ('s', 'cli', 1)")
        other.executemany(
            "INSERT INTO messages(session_id, role, content, tool_name, tool_calls, timestamp)"
            " VALUES ('s', 'user', ?, ?, ?, 1)",
            [
                ("the walrus swims", None, None),
                ("今天天气很好", None, None),
                ("done", "run_terminal", None),
                (
                    None,
                    None,
                    '[{"function": {"name": "go", "arguments": "{\\"at\\": \\"noon\\"}"}}]',
                ),
            ],
        )
        other.executescript(INDEXES[str(request.param)])
    with open_state(path) as db:
        yield db


@pytest.mark.parametrize(
    "query, wanted",
    [
        ("walrus", {1}),
        ("天气", {2}),
        ("terminal", {3}),
        ("noon", {4}),
        ("swims OR 很好", {1, 2}),
        ("walrus NOT swims", set()),
        ("a:b'c\"(", set()),
        ("👍", set()),
    ],
)
def test_a_newer_file_is_searched_as_it_is(newer: SessionDB, query: str, wanted: set[int]) -> None:
    assert set(ids(newer, query)) == wanted


# ---------------------------------------------------------------------- odd rows


def test_text_that_is_no_utf8_hides_nothing_else(db: SessionDB, make: Make, tmp_path: Path) -> None:
    make("s", "the walrus", "between", "部署 walrus")
    with closing(sqlite3.connect(tmp_path / "state.db")) as other, other:
        other.execute(
            "INSERT INTO messages(session_id, role, content, timestamp)"
            " VALUES ('s', 'user', CAST(x'77616c72757320ff' AS TEXT), 1)"
        )
    assert set(ids(db, "walrus")) == {1, 3, 4}
    db.reindex()
    assert set(ids(db, "walrus")) == {1, 3, 4}
    [hit] = [hit for hit in db.search_messages("walrus") if hit["id"] == 4]
    assert hit["snippet"] == ">>>walrus<<< \ufffd"


def test_a_time_that_is_none_hides_no_message(db: SessionDB, make: Make, tmp_path: Path) -> None:
    make("s", "the walrus")
    with closing(sqlite3.connect(tmp_path / "state.db")) as other, other:
        other.execute(
            "INSERT INTO messages(session_id, role, content, timestamp)"
            " VALUES ('s', 'user', 'walrus', 'yesterday')"
        )
    for sort in ("rank", "newest", "oldest"):
        assert set(ids(db, "walrus", sort=sort)) == {1, 2}
