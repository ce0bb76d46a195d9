"""rm, prune and verify."""

import sqlite3
from importlib.resources import files
from pathlib import Path

import pytest

from tests.cli.conftest import HOSTILE, Run, document, talk
from threadkeep import ChatStore


def test_rm_needs_a_yes(run: Run, store: ChatStore) -> None:
    session = talk(store, HOSTILE)
    result = run("chat", "rm", session.id, code=2)
    assert "--yes" in result.stderr
    assert "\x1b" not in result.stderr
    assert store.session(session).id == session.id


def test_rm_in_a_dry_run_deletes_nothing(run: Run, store: ChatStore) -> None:
    session = talk(store)
    told = document(run("chat", "rm", session.id, "--dry-run", "--json"))
    assert (told["dry_run"], told["deleted"][0]["id"]) == (True, session.id)
    assert store.sessions().items == [session]


def test_an_empty_name_is_no_session(run: Run, store: ChatStore) -> None:
    session = talk(store)
    for words in (["rm", "", "--yes"], ["archive", ""], ["show", ""], ["rewind", session.id, ""]):
        assert "is empty" in run("chat", *words, code=2).stderr
    run("chat", "record", "--session", "", stdin=b'{"type":"start"}\n', code=2)
    assert store.sessions().items == [session]


def test_rm_deletes_what_is_named(run: Run, store: ChatStore) -> None:
    first, second, third = (talk(store, f"session {n}") for n in range(3))
    assert run("chat", "rm", first.id, second.id, "--yes").stdout == f"{first.id}\n{second.id}\n"
    assert [one.id for one in store.sessions().items] == [third.id]


def test_rm_of_something_unknown_deletes_nothing(run: Run, store: ChatStore) -> None:
    session = talk(store)
    run("chat", "rm", session.id, "ses_unknown", "--yes", code=3)
    assert store.sessions().items == [session]


def test_prune_by_number(run: Run, store: ChatStore) -> None:
    old, new = talk(store, "old"), talk(store, "new")
    dry = run("chat", "prune", "--keep", "1", "--dry-run")
    assert old.id in dry.stdout
    assert "would delete 1 session with" in dry.stderr
    assert "--yes" in run("chat", "prune", "--keep", "1", code=2).stderr
    assert len(store.sessions().items) == 2
    told = document(run("chat", "prune", "--keep", "1", "--vacuum", "--json", "--yes"))
    assert [one["id"] for one in told["prune"]["sessions"]] == [old.id]
    assert isinstance(told["vacuum_bytes"], int)
    assert [one.id for one in store.sessions().items] == [new.id]


def test_prune_by_age_takes_only_what_is_old(run: Run, store: ChatStore) -> None:
    session = talk(store)
    run("chat", "prune", "--older-than", "30d")
    assert store.sessions().items == [session]


def test_prune_of_archived_sessions_only(run: Run, store: ChatStore) -> None:
    kept, gone = talk(store), talk(store)
    store.archive(gone)
    run("chat", "prune", "--keep", "0", "--archived", "--yes")
    assert [one.id for one in store.sessions(archived=None).items] == [kept.id]


@pytest.mark.parametrize("words", [[], ["--older-than", "soon"], ["--keep", "-1"]])
def test_prune_says_what_it_needs(words: list[str], run: Run, store: ChatStore) -> None:
    assert "hint: " in run("chat", "prune", *words, code=2).stderr


def test_verify_of_a_sound_store(run: Run, store: ChatStore) -> None:
    talk(store)
    told = document(run("chat", "verify", "--json"))
    assert told["ok"] is True
    assert told["verify"]["problems"] == []
    assert "0 problems" in run("chat", "verify").stderr


def test_verify_finds_a_changed_row_and_exits_with_1(run: Run, store: ChatStore) -> None:
    talk(store)
    with sqlite3.connect(store.path) as database:
        database.execute("DROP TRIGGER tk_message_changed")
        database.execute("UPDATE chat_messages SET role = 'system' WHERE role = 'user'")
    database.close()
    assert "has changed since it was written" in run("chat", "verify", code=1).stdout
    assert document(run("chat", "verify", "--json", code=1))["ok"] is False


def test_verify_adopts_rows_of_another_program_only_when_asked(run: Run, store: ChatStore) -> None:
    session = talk(store)
    with sqlite3.connect(store.path) as database:
        database.execute("UPDATE chat_sessions SET title = 'by another program'")
    database.close()
    assert "--adopt" in run("chat", "verify").stderr
    assert document(run("chat", "verify", "--adopt", "--json"))["verify"]["unhashed"] == 1
    assert "--adopt" not in run("chat", "verify").stderr
    assert store.session(session).title == "by another program"


def test_a_file_of_another_program_is_taken_in_only_when_asked(run: Run, home: Path) -> None:
    home.mkdir()
    path = home / "chat.db"
    head = files("threadkeep.chat").joinpath("sql", "head.sql").read_text("utf-8")
    with sqlite3.connect(path) as database:
        database.executescript(head)
        database.execute(
            "INSERT INTO chat_sessions(id, agent, title, created_at, updated_at)"
            " VALUES ('theirs', 'build', 'of another program', 1, 1)"
        )
    database.close()
    before = path.read_bytes()
    for words in (["ls"], ["show", "theirs"], ["search", "x"], ["tail", "theirs"], ["verify"]):
        assert "verify --adopt" in run("chat", *words, code=2).stderr
    assert path.read_bytes() == before
    run("chat", "verify", "--adopt")
    assert "of another program" in run("chat", "ls").stdout
    assert document(run("backup", "--list", "--json"))["backups"] != []
