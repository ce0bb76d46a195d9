"""Checking a file: damage that SQLite cannot see is found, other programs' writes are none."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.states import Clock, open_state, talk
from threadkeep.base.sqlite.backup import check_file, make_backup
from threadkeep.base.tx import Sql
from threadkeep.errors import Damaged
from threadkeep.state import check as check_, retention
from threadkeep.state.blob_migration import offload_blobs
from threadkeep.state.check import check, problems_of
from threadkeep.state.session_db import SessionDB

Make = Callable[..., list[int]]


def other_program(path: Path, *statements: str) -> list[tuple[Any, ...]]:
    """Run SQL as a program that knows nothing of us; give the rows of the last statement."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA trusted_schema = ON")
        return [other.execute(sql).fetchall() for sql in statements][-1]


def quietly(path: Path, change: str) -> None:
    """Change rows as a broken disk does: no trigger notices, no reference is looked after."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        triggers = other.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        kept = triggers.fetchall()
        for name, _ in kept:
            other.execute(f'DROP TRIGGER "{name}"')
        other.execute(change)
        for _, sql in kept:
            other.execute(sql)


@pytest.fixture
def used(db: SessionDB, make: Make) -> SessionDB:
    """A store in which most verbs were used."""
    make("s", "pay 100 to Ann", "done", "thanks")
    db.create_session("child", "cli", "m", {"t": 1}, "prompt \ud800", "u", "s", relation="branch")
    db.append_message("child", "user", ["a", {"text": "list"}], reasoning="half \udc00")
    db.append_message("child", "assistant", "x", tool_calls=[{"id": "c"}], token_count=3)
    db.set_session_title("s", "a title")
    db.update_system_prompt("s", "prompt")
    db.append_message("s", "tool", "line\n" * 4_000, tool_name="sh")
    db.rewind_to_message("s", 3, any_role=True)
    db.undo_rewind("s")
    db.end_session("s", "done")
    offload_blobs(db.context)
    return db


CHANGES = {
    "a letter of a message": ("message 1 ", "messages SET content = 'pay 900 to Ann' WHERE id = 1"),
    "a role": ("message 1 ", "messages SET role = 'system' WHERE id = 1"),
    "a time": ("message 2 ", "messages SET timestamp = timestamp + 1 WHERE id = 2"),
    "the session of a message": ("message 2 ", "messages SET session_id = 'child' WHERE id = 2"),
    "tool calls": ("message 5 ", "messages SET tool_calls = '[]' WHERE id = 5"),
    "a count of tokens": ("message 5 ", "messages SET token_count = 4 WHERE id = 5"),
    "a title": ("session 's'", "sessions SET title = 'another' WHERE id = 's'"),
    "a prompt": ("session 's'", "sessions SET system_prompt = 'pr0mpt' WHERE id = 's'"),
    "an exact value": ("message 4 ", "tk_exact SET value = '[1]' WHERE field = 'content'"),
    "what is no value": ("message 4 ", "tk_exact SET value = '{' WHERE field = 'content'"),
    "a blob": ("b2:", "tk_blobs SET data = zeroblob(9)"),
    "a note on a blob": ("message 6", "tk_offloaded SET message_id = message_id + 1000"),
    "text that is none": (
        "message 1 ",
        "messages SET content = CAST(x'fffe' AS TEXT) WHERE id = 1",
    ),
    "a prompt that is none": (
        "session 's'",
        "sessions SET system_prompt = CAST(x'fffe' AS TEXT) WHERE id = 's'",
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_change_that_no_program_made_is_found_and_named(used: SessionDB, what: str) -> None:
    named, change = CHANGES[what]
    if what == "a note on a blob":
        named = "message 1006"
    quietly(used.db_path, f"UPDATE {change}")
    assert other_program(used.db_path, "PRAGMA integrity_check") == [("ok",)]
    problems = check(used.context)
    assert any(named in f"{problem} " for problem in problems)
    assert check(used.context) == problems, "looking at the damage must not bless it"
    assert check(used.context, quick=True) == []


def test_flipped_bit_in_the_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with open_state(path) as db:
        talk(db, "s", "the account is 4711", "noted")
    data = bytearray(path.read_bytes())
    data[data.rindex(b"the account is 4711") + 15] ^= 1
    path.write_bytes(data)
    assert other_program(path, "PRAGMA integrity_check") == [("ok",)]
    with open_state(path) as db:
        assert check(db.context) == ["message 1 has changed since it was written"]


@pytest.mark.parametrize("table, named", [("messages", "message 2"), ("sessions", "session 's'")])
def test_row_that_vanished_is_missed(used: SessionDB, table: str, named: str) -> None:
    quietly(used.db_path, f"DELETE FROM {table} WHERE id IN (2, 's')")
    assert any(named in problem and "missing" in problem for problem in check(used.context))


def test_rows_without_their_session_are_named(used: SessionDB) -> None:
    other_program(
        used.db_path,
        "INSERT INTO messages(session_id, role, timestamp) VALUES ('ghost', 'user', 1.0)",
        "INSERT INTO sessions(id, source, started_at, parent_session_id)"
        " VALUES ('lonely', 'cli', 1.0, 'nobody')",
    )
    assert check(used.context) == [
        "message 7 is of a session 'ghost' that does not exist",
        "session 'lonely' has a parent 'nobody' that does not exist",
    ]


# ---------------------------------------------------------------------- other programs


def unhashed(db: SessionDB) -> tuple[int, int]:
    with db.context.db.read() as tx:
        count = "SELECT count(*) FROM {} WHERE id NOT IN (SELECT {} FROM {})"
        messages = tx.value(Sql(count.format("messages", "id", "tk_hashes")))
        sessions = tx.value(Sql(count.format("sessions", "session_id", "tk_session_hashes")))
        return messages, sessions


def write_as_hermes(path: Path) -> None:
    other_program(
        path,
        "INSERT INTO sessions(id, source, started_at) VALUES ('h', 'cli', 5.0)",
        "INSERT INTO messages(session_id, role, content, timestamp) VALUES ('h', 'user', 'hi', 6)",
        "UPDATE messages SET content = 'changed' WHERE id = 1",
        "UPDATE sessions SET title = 'changed' WHERE id = 's'",
        "DELETE FROM messages WHERE id = 2",
    )


def test_writes_of_other_programs_are_no_damage_and_are_watched_from_then_on(
    used: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_, "_PAGE", 2)
    assert check(used.context) == []
    write_as_hermes(used.db_path)
    assert unhashed(used) == (2, 2)
    assert check(used.context, quick=True) == []
    assert unhashed(used) == (2, 2)
    assert check(used.context) == []
    assert unhashed(used) == (0, 0)
    quietly(used.db_path, "UPDATE messages SET content = 'hi!' WHERE session_id = 'h'")
    assert check(used.context) == ["message 7 has changed since it was written"]


def test_damaged_store_adopts_nothing(used: SessionDB) -> None:
    write_as_hermes(used.db_path)
    quietly(used.db_path, "UPDATE messages SET role = 'x' WHERE id = 3")
    assert check(used.context) == ["message 3 has changed since it was written"]
    assert unhashed(used) == (2, 2)


def test_read_only_check_changes_nothing(used: SessionDB) -> None:
    write_as_hermes(used.db_path)
    with open_state(used.db_path, read_only=True) as looking:
        assert check(looking.context) == []
        assert unhashed(looking) == (2, 2)


def test_all_rows_are_looked_at_page_by_page(
    db: SessionDB, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_, "_PAGE", 3)
    make("s", *(f"text {number}" for number in range(10)))
    quietly(db.db_path, "UPDATE messages SET content = CAST(x'ff' AS TEXT) WHERE id IN (1, 5, 10)")
    quietly(db.db_path, "UPDATE messages SET content = 'other' WHERE id IN (2, 9)")
    found = [int(problem.split()[1]) for problem in check(db.context)]
    assert found == [1, 2, 5, 9, 10]


def test_problem_says_nothing_of_what_was_written(db: SessionDB, make: Make) -> None:
    make("s", "x")
    quietly(db.db_path, "UPDATE messages SET content = CAST('secret' || x'ff' AS TEXT)")
    [problem] = check(db.context)
    assert "secret" not in problem


def test_missing_parts_of_the_schema_are_named(db: SessionDB) -> None:
    other_program(db.db_path, "DROP TRIGGER tk_message_gone", "DROP INDEX idx_sessions_source")
    problems = check(db.context)
    assert any("trigger tk_message_gone is missing" in problem for problem in problems)
    assert any("index idx_sessions_source is missing" in problem for problem in problems)
    with open_state(db.db_path) as again:
        assert check(again.context) == []


# ---------------------------------------------------------------------- copies


def test_backup_is_judged_by_its_fingerprints(used: SessionDB, tmp_path: Path) -> None:
    copy = make_backup(used.context.db, tmp_path / "good.db", check=problems_of)
    assert check_file(copy, problems_of) == []
    quietly(copy, "UPDATE messages SET content = 'x' WHERE id = 1")
    assert check_file(copy, problems_of) == ["message 1 has changed since it was written"]
    quietly(used.db_path, "UPDATE messages SET content = 'x' WHERE id = 1")
    with pytest.raises(Damaged, match="message 1 has changed since it was written"):
        make_backup(used.context.db, tmp_path / "bad.db", check=problems_of)


def test_copy_of_an_older_version_is_no_damaged_one(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    other_program(
        path,
        "CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT, started_at REAL)",
        "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, content TEXT)",
    )
    assert check_file(path, problems_of) == []


def test_copy_with_rows_without_parents_is_no_damaged_one(used: SessionDB, tmp_path: Path) -> None:
    write_as_hermes(used.db_path)
    other_program(
        used.db_path,
        "INSERT INTO messages(session_id, role, timestamp) VALUES ('ghost', 'user', 1.0)",
    )
    assert make_backup(used.context.db, tmp_path / "copy.db", check=problems_of).exists()


# ---------------------------------------------------------------------- a damaged index

INDEX_DAMAGE = {
    "contract's gone": "DROP TABLE messages_fts_data",
    "contract's overwritten": "UPDATE messages_fts_data SET block = x'deadbeefdeadbeef'",
    "ours gone": "DROP TABLE tk_search",
}


@pytest.mark.parametrize("what", INDEX_DAMAGE)
def test_damaged_index_stands_in_nobodys_way(db: SessionDB, clock: Clock, what: str) -> None:
    talk(db, "old", "a question", "an answer")
    clock.pass_days(100)
    talk(db, "young", "a question")
    other_program(db.db_path, INDEX_DAMAGE[what])
    check(db.context)
    assert retention.prune_sessions(db.context) == 1
    assert retention.compact(db.context)["bytes_after"] > 0
    assert db.session_count() == 1
