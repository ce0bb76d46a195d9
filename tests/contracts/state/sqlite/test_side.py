"""What is ours in a file: it stands in nobody's way, is brought forward, and can be taken out."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.hermes_v6 import HermesV6
from tests.support.states import open_state, talk
from threadkeep.state.context import MESSAGE_COLUMNS, SESSION_COLUMNS
from threadkeep.state.search.index_fill import drain
from threadkeep.state.session_db import SessionDB

SIDE_1 = Path(__file__).parents[3] / "fixtures" / "state" / "side_1.sql"
PICTURE = f"look: data:image/png;base64,{'iVBORw0KGgo' * 400}"
# What the contract's own indexes, keys and triggers name: not even Hermes can drop it.
NEEDED = {
    "messages": {"id", "session_id", "timestamp", "content"},
    "sessions": {"id", "source", "parent_session_id", "started_at", "title"},
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def fill(path: Path) -> None:
    with open_state(path) as db:
        talk(db, "a", "hello docker", PICTURE, "东京很好", "x " * 10_000)
        db.append_message("a", "user", ["a", "list"])
        db.append_message("a", "tool", "out", tool_name="terminal")
        db.set_session_title("a", "named")
        db.update_token_counts("a", input_tokens=5)
        talk(db, "b", "other docker")
        db.search_messages("docker")


def run(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        for statement in statements:
            other.execute(statement)


def ask(path: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as other:
        return other.execute(sql).fetchall()


def schema(path: Path) -> dict[str, str]:
    found = ask(path, "SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_stat%'")
    return {name: " ".join((sql or "").split()) for name, sql in found}


def dropping() -> list[tuple[str, str]]:
    columns = {"messages": MESSAGE_COLUMNS, "sessions": SESSION_COLUMNS}
    return [(t, c) for t, names in columns.items() for c in names if c not in NEEDED[t]]


# ---------------------------------------------------------------------- in nobody's way


def test_every_column_that_hermes_could_drop_in_its_own_file_it_can_drop_in_ours(
    tmp_path: Path, path: Path
) -> None:
    fill(path)
    for table, column in dropping():
        copy = Path(shutil.copy(path, tmp_path / "copy.db"))
        run(copy, f"ALTER TABLE {table} DROP COLUMN {column}")
        run(
            copy,
            "UPDATE messages SET content = 'walrus' WHERE id = 1",
            "UPDATE sessions SET title = 'other' WHERE id = 'a'",
            "DELETE FROM messages WHERE session_id = 'b'",
            "DELETE FROM sessions WHERE id = 'b'",
            "INSERT INTO messages_fts(messages_fts, rank) VALUES ('integrity-check', 1)",
        )


def test_hermes_makes_its_sessions_anew_and_we_go_on(path: Path) -> None:
    fill(path)
    columns = ", ".join(SESSION_COLUMNS)
    run(
        path,
        f"CREATE TABLE made ({columns.replace('id,', 'id TEXT PRIMARY KEY,', 1)}, extra)",
        f"INSERT INTO made({columns}) SELECT {columns} FROM sessions",
        "DROP TABLE sessions",
        "ALTER TABLE made RENAME TO sessions",
        "UPDATE sessions SET started_at = started_at + 1e6 WHERE id = 'a'",
        "DELETE FROM messages WHERE session_id = 'b'",
        "DELETE FROM sessions WHERE id = 'b'",
    )
    with open_state(path) as db:
        assert [one["id"] for one in db.list_sessions_rich(order_by_last_active=True)] == ["a"]
        talk(db, "c", "new docker")
        assert {hit["session_id"] for hit in db.search_messages("docker")} == {"a", "c"}


def test_an_index_whose_triggers_hermes_made_is_built_anew(path: Path) -> None:
    fill(path)
    plain = "INSERT INTO messages_fts(rowid, content) VALUES (new.id, new.content)"
    run(
        path,
        "DROP TRIGGER messages_fts_insert",
        f"CREATE TRIGGER messages_fts_insert AFTER INSERT ON messages BEGIN {plain}; END",
    )
    with open_state(path) as db:
        talk(db, "c", PICTURE)
        assert db.check() == []
        assert [hit["session_id"] for hit in db.search_messages("look")] == ["c", "a"]


def test_what_another_program_changed_is_no_longer_exact_or_offloaded(path: Path) -> None:
    with open_state(path) as db:
        talk(db, "a", PICTURE)
        db.append_message("a", "user", [{"type": "text", "text": "list"}])
        db.end_session("a", "done")
        assert db.offload_blobs(min_chars=256)["messages"] == 1
        db.set_auto_title("a", "proposed")
    run(
        path,
        "UPDATE messages SET content = 'short now' WHERE id = 1",
        "UPDATE messages SET content = 'plain now' WHERE id = 2",
        "UPDATE sessions SET title = 'by hand' WHERE id = 'a'",
    )
    with open_state(path) as db:
        said = [message["content"] for message in db.get_messages("a")]
        assert said == ["short now", "plain now"]
        assert db.set_auto_title("a", "proposed again") == "by hand"
        drain(db.context)
        assert db.check() == []
    assert ask(path, "SELECT count(*) FROM tk_offloaded") == [(0,)]
    assert ask(path, "SELECT count(*) FROM tk_exact") == [(0,)]


# ---------------------------------------------------------------------- brought forward


def make_side_1(path: Path) -> None:
    """Make a file of side version 1 as its program would have: with its triggers at work."""
    calls = json.dumps([{"function": {"name": "grep", "arguments": "{}"}}])
    with closing(sqlite3.connect(path)) as old, old:
        old.executescript(SIDE_1.read_text())
        old.executemany(
            "INSERT INTO sessions(id, source, started_at, title, input_tokens)"
            " VALUES (?, 'cli', ?, ?, 7)",
            [("a", 1.0, "mine"), ("b", 2.0, "auto")],
        )
        old.executemany(
            "INSERT INTO messages(session_id, role, content, tool_calls, timestamp)"
            " VALUES (?, ?, ?, ?, ?)",
            [
                ("a", "user", "hello docker", None, 3.0),
                ("a", "assistant", None, calls, 4.0),
                ("b", "user", PICTURE, None, 5.0),
                ("b", "tool", "word " * 3_000, None, 6.0),
            ],
        )
        old.execute("INSERT INTO tk_flags(session_id, title_source) VALUES ('a', 'user')")
        old.execute("INSERT INTO tk_flags(session_id, title_source) VALUES ('b', 'auto')")


def test_side_version_1_is_brought_forward_with_all_it_knows(tmp_path: Path, path: Path) -> None:
    make_side_1(path)
    with open_state(path) as db:
        assert [one["id"] for one in db.list_sessions_rich(order_by_last_active=True)] == ["b", "a"]
        assert db.set_auto_title("a", "no") == "mine"
        assert db.set_auto_title("b", "yes") == "yes"
        assert len(db.search_messages("docker")) == len(db.search_messages("grep")) == 1
        assert len(db.search_messages("look")) == len(db.search_messages("word")) == 1
        assert db.check() == []
    open_state(tmp_path / "fresh.db").close()
    assert schema(path).keys() == schema(tmp_path / "fresh.db").keys()
    triggers = {name: sql for name, sql in schema(path).items() if "CREATE TRIGGER" in sql}
    fresh = schema(tmp_path / "fresh.db")
    assert {name: fresh[name] for name in triggers} == triggers
    before = path.read_bytes()
    open_state(path).close()
    assert path.read_bytes() == before


# ---------------------------------------------------------------------- taken out


def test_release_leaves_exactly_what_hermes_makes(tmp_path: Path, path: Path) -> None:
    fill(path)
    rows = ask(path, "SELECT * FROM messages"), ask(path, "SELECT * FROM sessions")
    with open_state(path) as db:
        report = db.release()
    HermesV6(tmp_path / "theirs.db").close()
    theirs = schema(tmp_path / "theirs.db")
    assert schema(path).keys() == theirs.keys()
    assert (ask(path, "SELECT * FROM messages"), ask(path, "SELECT * FROM sessions")) == rows
    run(path, "INSERT INTO messages_fts(messages_fts, rank) VALUES ('integrity-check', 1)")
    hermes = HermesV6(path)
    assert {hit["id"] for hit in hermes.search("docker")} == {1, 7}
    assert len(hermes.search("look")) == 1
    hermes.append("a", "user", "later docker")
    assert len(hermes.search("docker")) == 3
    hermes.close()
    assert "tk_hashes" in report["removed"]
    with open_state(Path(report["backup"])) as kept:
        assert kept.get_messages("a")[4]["content"] == ["a", "list"]


def test_release_puts_offloaded_values_back(path: Path) -> None:
    with open_state(path) as db:
        talk(db, "a", PICTURE)
        db.end_session("a", "done")
        assert db.offload_blobs(min_chars=256)["messages"] == 1
    with open_state(path) as db:
        db.release()
    assert ask(path, "SELECT content FROM messages") == [(PICTURE,)]


def test_a_released_file_is_taken_in_again(path: Path) -> None:
    fill(path)
    with open_state(path) as db:
        db.release()
    with open_state(path) as db:
        assert len(db.search_messages("docker")) == 2
        assert db.search_messages("东京")[0]["session_id"] == "a"
        assert db.check() == []


def test_release_of_a_file_that_hermes_made_leaves_its_index_alone(path: Path) -> None:
    hermes = HermesV6(path)
    hermes.create_session("a")
    hermes.append("a", "user", "hello docker")
    hermes.close()
    before = schema(path)
    with SessionDB(path) as db:
        talk(db, "a", "more docker")
        db.release()
    assert schema(path) == before
    run(path, "INSERT INTO messages_fts(messages_fts, rank) VALUES ('integrity-check', 1)")


def test_a_released_file_lets_hermes_make_its_messages_anew(path: Path) -> None:
    fill(path)
    with open_state(path) as db:
        db.release()
    columns = ", ".join(MESSAGE_COLUMNS)
    run(
        path,
        f"CREATE TABLE made ({columns.replace('id,', 'id INTEGER PRIMARY KEY,', 1)})",
        f"INSERT INTO made SELECT {columns} FROM messages",
        "DROP TABLE messages",
        "ALTER TABLE made RENAME TO messages",
    )
    assert ask(path, "SELECT count(*) FROM messages") == [(7,)]


def test_release_hands_over_what_hermes_has_columns_for(path: Path) -> None:
    with open_state(path) as db:
        talk(db, "a", "first", "second", "third")
        parts = db.append_message("a", "user", [{"type": "text", "text": "seen"}])
        talk(db, "b", "kept", "answer", "taken")
        taken = db.get_messages("b")[2]["id"]
        db.rewind_to_message("b", taken)
        db.set_session_pinned("a")
        db.set_session_hidden("b", hidden=False)  # needs a newer column, so the file is widened
        db.release()
    stored = ask(path, f"SELECT content FROM messages WHERE id = {parts}")
    assert stored == [('\0json:[{"type": "text", "text": "seen"}]',)]
    assert ask(path, f"SELECT content, active FROM messages WHERE id = {taken}") == [("taken", 0)]
    assert ask(path, "SELECT pinned FROM sessions WHERE id = 'a'") == [(1,)]
    assert ask(path, "SELECT message_count FROM sessions WHERE id = 'b'") == [(2,)]
    run(path, "INSERT INTO messages_fts(messages_fts, rank) VALUES ('integrity-check', 1)")
