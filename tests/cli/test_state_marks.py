"""state title, pin, unpin, archive, rewind and undo."""

import pytest

from tests.cli.conftest import Run, document
from tests.support.states import talk
from threadkeep import SessionDB


def test_a_title_is_given_read_and_taken_away(run: Run, state: SessionDB) -> None:
    talk(state, "one", "hello")
    assert "has no title" in run("state", "title", "one").stderr
    assert run("state", "title", "one", " Fix\tit ").stdout == "Fix it\n"
    assert run("state", "title", "one").stdout == "Fix it\n"
    assert document(run("state", "title", "one", "--json"))["title"] == "Fix it"
    run("state", "title", "one", "--clear")
    assert state.get_session_title("one") is None


def test_a_clash_of_titles_says_who_has_it(run: Run, state: SessionDB) -> None:
    talk(state, "one", "hello")
    talk(state, "two", "hello")
    state.set_session_title("one", "Mine")
    assert "in use by session one" in run("state", "title", "two", "Mine", code=1).stderr
    assert "too long" in run("state", "title", "two", "x" * 101, code=2).stderr


@pytest.mark.parametrize("words", [["one", "x", "--clear"], ["one", " "]])
def test_a_title_that_is_unclear(words: list[str], run: Run, state: SessionDB) -> None:
    talk(state, "one", "hello")
    assert "hint: " in run("state", "title", *words, code=2).stderr


def test_pins_and_archive(run: Run, state: SessionDB) -> None:
    talk(state, "one", "hello")
    talk(state, "two", "hello")
    assert run("state", "pin", "one", "two").stdout == "one\ntwo\n"
    assert run("state", "ls").stdout.count("[pinned]") == 2
    assert document(run("state", "unpin", "one", "--json"))["sessions"] == ["one"]
    run("state", "archive", "two")
    assert "two" not in run("state", "ls").stdout
    assert "[pinned] [archived]" in run("state", "ls", "--archived").stdout
    run("state", "archive", "two", "--undo")
    assert "two" in run("state", "ls").stdout


def test_one_wrong_name_leaves_all_as_they_are(run: Run, state: SessionDB) -> None:
    talk(state, "one", "hello")
    run("state", "archive", "one", "nobody", code=3)
    assert "one" in run("state", "ls").stdout


def test_rewind_and_undo(run: Run, state: SessionDB) -> None:
    ids = talk(state, "one", "a", "b", "c", "d")
    assert "2 messages of one taken back" in run("state", "rewind", "one", str(ids[2])).stderr
    assert [one["id"] for one in state.get_messages("one")] == ids[:2]
    assert document(run("state", "undo", "one", "--json"))["messages"] == 2
    assert [one["id"] for one in state.get_messages("one")] == ids
    assert "has no message 999" in run("state", "rewind", "one", "999", code=3).stderr
