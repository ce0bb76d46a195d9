"""export, import and diff."""

import csv
from pathlib import Path

import pytest

from tests.cli.conftest import HOSTILE, Run, answer, document, talk, text_reply, tool_reply
from threadkeep import ChatStore
from threadkeep.base import json


def test_an_export_goes_to_stdout_as_json_lines(run: Run, store: ChatStore) -> None:
    session = talk(store)
    lines = [json.decode(line) for line in run("chat", "export", "last").stdout.splitlines()]
    kinds = [line["type"] for line in lines]
    assert kinds == ["session", "message", "part", "message", "part"]
    assert lines[0]["data"]["id"] == session.id


@pytest.mark.parametrize("words", [["--format", "json"], ["--json"]])
def test_an_export_as_one_document(words: list[str], run: Run, store: ChatStore) -> None:
    session = talk(store)
    found = json.decode(run("chat", "export", session.id, *words).stdout)
    assert found["session"]["id"] == session.id
    assert len(found["messages"]) == 2


def test_an_export_for_spreadsheets(run: Run, store: ChatStore) -> None:
    session = talk(store)
    rows = list(
        csv.DictReader(run("chat", "export", "last", "--format", "csv").stdout.splitlines())
    )
    assert [row["session.id"] for row in rows] == [session.id] * 2


def test_an_export_for_people(run: Run, store: ChatStore) -> None:
    talk(store, "A title")
    shown = run("chat", "export", "last", "--format", "markdown").stdout
    assert "A title" in shown
    assert "an answer" in shown


def test_an_export_into_a_file_is_private_and_overwrites_nothing(
    run: Run, store: ChatStore, tmp_path: Path
) -> None:
    talk(store)
    target = tmp_path / "out.jsonl"
    result = run("chat", "export", "last", "-o", str(target))
    assert result.stdout == ""
    assert target.stat().st_mode & 0o777 == 0o600
    before = target.read_bytes()
    talk(store, "newer")
    assert "--force" in run("chat", "export", "last", "-o", str(target), code=1).stderr
    assert target.read_bytes() == before
    words = ["chat", "export", "last", "-o", str(target), "--force", "--json"]
    told = document(run(*words))
    assert told == {
        "schema_version": 1,
        "file": str(target),
        "format": "jsonl",
        "bytes": target.stat().st_size,
    }
    assert target.read_bytes() != before
    assert list(tmp_path.glob(".*")) == []  # nothing half-written is left


def test_an_export_never_overwrites_the_store(run: Run, store: ChatStore) -> None:
    talk(store)
    words = ["chat", "export", "last", "-o", str(store.path), "--force"]
    assert "the store itself" in run(*words, code=1).stderr
    assert store.verify().ok


@pytest.mark.parametrize("words", [[], ["last", "--all"]])
def test_an_export_is_of_one_session_or_of_all(
    words: list[str], run: Run, store: ChatStore
) -> None:
    assert "--all" in run("chat", "export", *words, code=2).stderr


@pytest.mark.parametrize("kind", ["jsonl", "json"])
def test_all_sessions_move_to_another_store_exactly(
    kind: str, run: Run, store: ChatStore, tmp_path: Path
) -> None:
    session = talk(store, HOSTILE + "\udc80")
    answer(store, session, tool_reply())
    store.archive(talk(store))
    dump, other = str(tmp_path / "dump"), str(tmp_path / "other.db")
    run("chat", "export", "--all", "--format", kind, "-o", dump)
    told = document(run("chat", "--db", other, "import", dump, "--json"))
    assert (told["ok"], len(told["import"]["imported"])) == (True, 2)
    again = run("chat", "--db", other, "import", dump)
    assert "2 unchanged" in again.stderr
    mine = run("chat", "export", "--all").stdout_bytes
    assert run("chat", "--db", other, "export", "--all").stdout_bytes == mine


def test_an_import_from_stdin(run: Run, store: ChatStore, tmp_path: Path) -> None:
    talk(store)
    dump = run("chat", "export", "last").stdout_bytes
    result = run("chat", "--db", str(tmp_path / "b.db"), "import", "-", stdin=dump)
    assert result.stderr == "1 imported\n"


def test_a_session_with_other_content_is_left_alone_unless_replaced(
    run: Run, store: ChatStore, tmp_path: Path
) -> None:
    session = talk(store)
    dump = tmp_path / "dump.jsonl"
    dump.write_bytes(run("chat", "export", "last").stdout_bytes)
    store.set_title(session, "changed since")
    assert "exists with other content" in run("chat", "import", str(dump), code=1).stderr
    assert store.session(session).title == "changed since"
    assert run("chat", "import", str(dump), "--replace").stderr == "1 replaced\n"
    assert store.session(session).title == "A talk"


def test_an_import_of_nonsense_is_refused(run: Run, store: ChatStore, tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("not a dump\n")
    assert "line 1" in run("chat", "import", str(tmp_path / "bad"), code=2).stderr
    assert "No such file" in run("chat", "import", str(tmp_path / "gone"), code=3).stderr


def test_diff_shows_where_two_sessions_part(run: Run, store: ChatStore) -> None:
    session = talk(store)
    branch = store.fork(session)
    store.say(session, f"one way {HOSTILE}")
    answer(store, session, text_reply(f"this\n{HOSTILE}"))
    store.say(branch, f"one way {HOSTILE}")
    answer(store, branch, text_reply(f"that\n{HOSTILE}"))
    shown = run("chat", "diff", session.id, branch.id).stdout
    assert "= turn 1/1  a question" in shown
    assert "~ turn 2/2  one way red" in shown
    assert "-this" in shown
    assert "+that" in shown
    assert not set(shown) & {"\x1b", "\x07", "\u202e"}
    told = document(run("chat", "diff", session.id, branch.id, "--json"))
    assert told["same"] is False
    assert told["counts"] == {"same": 1, "changed": 1, "left": 0, "right": 0}


def test_diff_of_a_session_with_itself(run: Run, store: ChatStore) -> None:
    session = talk(store)
    assert run("chat", "diff", session.id, "last").stderr == "turns: 1 same\n"
    assert document(run("chat", "diff", session.id, "last", "--json"))["same"] is True


@pytest.mark.parametrize("body", [b"", b"not json", b'{"type":"message","data":{}}'])
def test_an_import_that_fails_begins_no_store(body: bytes, run: Run, home: Path) -> None:
    assert "hint: " in run("chat", "import", "-", stdin=body, code=2).stderr
    assert not (home / "chat.db").exists()


def test_an_import_from_a_pipe_begins_a_store(run: Run, store: ChatStore, tmp_path: Path) -> None:
    first, second = talk(store), talk(store)
    body = run("chat", "export", "--all").stdout
    other = tmp_path / "other.db"
    assert "2 imported" in run("chat", "--db", str(other), "import", "-", stdin=body).stderr
    with ChatStore.open(other, read_only=True) as opened:
        assert {one.id for one in opened.sessions().items} == {first.id, second.id}


def test_a_session_that_differs_says_which_option_replaces_it(run: Run, store: ChatStore) -> None:
    session = talk(store)
    body = run("chat", "export", session.id).stdout
    store.set_title(session, "another")
    assert "--replace" in run("chat", "import", "-", stdin=body, code=1).stderr
