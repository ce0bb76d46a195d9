"""state export and import."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import HOSTILE, Run, document
from tests.support.states import talk
from threadkeep import SessionDB


def fill(state: SessionDB) -> None:
    talk(state, "one", "hello", HOSTILE)
    state.append_message("one", "user", ["a list", "\ud800"], tool_calls=[{"id": "x"}])
    state.set_session_title("one", "First")
    state.set_session_pinned("one")
    talk(state, "two", "bye", source="telegram")
    state.compress_session("two", "three", [{"role": "user", "content": "short"}])


@pytest.mark.parametrize("kind", ["jsonl", "sessions"])
def test_everything_goes_out_and_comes_in(
    kind: str, run: Run, state: SessionDB, tmp_path: Path
) -> None:
    fill(state)
    out = tmp_path / "out.jsonl"
    told = document(run("state", "export", "--all", "--format", kind, "-o", str(out), "--json"))
    assert told["lines"] == (8 if kind == "jsonl" else 3)
    assert out.stat().st_mode & 0o777 == 0o600
    copy = tmp_path / "copy.db"
    counts = document(run("state", "--db", str(copy), "import", str(out), "--json"))["import"]
    assert (counts["added"], counts["messages"]) == (3, 5)
    with SessionDB(copy, read_only=True) as found:
        for session_id in ("one", "two", "three"):
            mine, theirs = state.export_session(session_id), found.export_session(session_id)
            assert mine is not None
            assert theirs is not None
            for message in (*mine["messages"], *theirs["messages"]):
                del message["id"]
            assert mine == theirs
    assert "3 sessions skipped" in run("state", "--db", str(copy), "import", str(out)).stderr


def test_one_session_and_its_lineage(run: Run, state: SessionDB) -> None:
    fill(state)
    first, second = run("state", "export", "three").stdout.splitlines()
    assert json.loads(first)["session"]["id"] == "three"
    assert json.loads(second)["message"]["content"] == "short"
    whole = run("state", "export", "three", "--lineage", "--format", "sessions").stdout
    assert [json.loads(line)["id"] for line in whole.splitlines()] == ["two", "three"]
    some = run("state", "export", "--all", "--source", "cli", "--format", "sessions").stdout
    assert [json.loads(line)["id"] for line in some.splitlines()] == ["one"]


@pytest.mark.parametrize(
    "words", [[], ["one", "--all"], ["--all", "--lineage"], ["one", "--source", "cli"]]
)
def test_an_export_of_what(words: list[str], run: Run, state: SessionDB) -> None:
    talk(state, "one", "hello")
    assert "hint: " in run("state", "export", *words, code=2).stderr


def test_an_export_overwrites_nothing_unasked(run: Run, state: SessionDB, tmp_path: Path) -> None:
    talk(state, "one", "hello")
    out = tmp_path / "out"
    out.write_text("mine")
    run("state", "export", "one", "-o", str(out), code=1)
    assert out.read_text() == "mine"
    run("state", "export", "one", "-o", str(out), "--force")
    assert out.read_text() != "mine"
    assert (
        "the store itself"
        in run("state", "export", "one", "-o", str(state.db_path), "--force", code=1).stderr
    )


@pytest.mark.parametrize("indent", [None, 2])
def test_a_list_of_sessions_is_taken(indent: int | None, run: Run, home: Path) -> None:
    sessions = [
        {"id": f"s{n}", "source": "cli", "messages": [{"role": "user", "content": "hi"}]}
        for n in range(3)
    ]
    run("state", "import", "-", stdin=json.dumps(sessions, indent=indent))
    assert document(run("state", "ls", "--json"))["sessions"][0]["message_count"] == 1
    run("state", "import", "-", stdin=json.dumps({"id": "s9", "messages": []}, indent=indent))
    assert len(document(run("state", "ls", "--json"))["sessions"]) == 4
    assert (home / "state.db").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "given", ["", "\n\n", "no json", "[1]", '{"no": "id"}', '"text"', "SQLite format 3\0 x"]
)
def test_wrong_input_begins_no_store(given: str, run: Run, home: Path) -> None:
    assert "hint: " in run("state", "import", "-", stdin=given, code=2).stderr
    assert not home.exists()


def test_a_session_that_is_there(run: Run, state: SessionDB) -> None:
    talk(state, "one", "mine")
    new = json.dumps({"id": "one", "messages": [{"role": "user", "content": "new"}]})
    run("state", "import", "-", stdin=new)
    assert state.get_messages("one")[0]["content"] == "mine"
    refused = run("state", "import", "-", "--on-conflict", "error", stdin=new, code=1)
    assert "already" in refused.stderr
    run("state", "import", "-", "--on-conflict", "replace", stdin=new)
    assert [one["content"] for one in state.get_messages("one")] == ["new"]


def test_a_file_that_is_not_there(run: Run, home: Path) -> None:
    run("state", "import", "nowhere.jsonl", code=3)
    assert not home.exists()
