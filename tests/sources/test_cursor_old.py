"""Cursor's older transcripts: texts and JSON files, read as if they were lines of today."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.sources.cursor_support import CHAT, FIXTURES, ChatStore, transcript, user
from tests.sources.source_support import any_json, broken, document, feed, only
from threadkeep.errors import NotFound
from threadkeep.sources.cursor import agent_transcripts
from threadkeep.sources.cursor.old_transcripts import SOURCE
from threadkeep.sources.records import Log


def old(tmp_path: Path, name: str, content: str) -> Log:
    transcript(tmp_path, "home-ann-my-app", name, content)
    return only(SOURCE.find(user(tmp_path)))


def test_a_text_is_cut_at_its_marks(tmp_path: Path) -> None:
    log = old(tmp_path, f"{CHAT}.txt", (FIXTURES / "old.txt").read_text())
    result = feed(SOURCE, log, document(SOURCE, log, CHAT))
    assert result.of("prompt") == ["Rename the flag\nand keep the old name working", "Thanks!"]
    thought = "Two places use it.\nThey are in cli/.\nI will look for the flag first."
    assert result.of("reasoning") == [thought]
    assert result.of("tool_result") == ["cli/main.py:12: old_flag"]
    assert result.of("text") == ["The flag is renamed."]
    assert [(entry.tool, entry.text) for entry in result.entries if entry.kind == "tool_call"] == [
        ("Grep", "pattern: old_flag\npath: /home/ann/my-app/cli\nnote: first\n    second line"),
        ("Edit", "file_path: /home/ann/my-app/cli/main.py"),
    ]
    assert result.facts[CHAT].cwd == "/home/ann/my-app"
    assert result.segments[CHAT, 0].prompts == result.of("prompt")


def test_a_json_file_is_read_message_by_message(tmp_path: Path) -> None:
    log = old(tmp_path, f"{CHAT}/{CHAT}.json", (FIXTURES / "old.json").read_text())
    result = feed(SOURCE, log, document(SOURCE, log, CHAT))
    assert [(entry.key, entry.kind, entry.text) for entry in result.entries] == [
        ("0", "prompt", "List the files"),
        ("1", "reasoning", "ls will do"),
        ("1#1", "text", "Listing."),
        ("1#2", "tool_call", "ls"),
        ("2", "tool_result", "a.py\nb.py"),
        ("3", "text", "Two files."),
    ]


def test_messages_may_lie_in_an_object(tmp_path: Path) -> None:
    inside = {"messages": [{"role": "user", "message": {"content": "hi"}}, 7, {"role": ["odd"]}]}
    log = old(tmp_path, f"{CHAT}.json", json.dumps(inside))
    result = feed(SOURCE, log, document(SOURCE, log, CHAT))
    assert result.of("prompt") == ["hi"]
    assert result.unknown == {"role/unknown": 2}


@pytest.mark.parametrize("content", ["{", "[1, 2", "7", "user:", "no marks at all"])
def test_what_is_no_transcript_gives_nothing(tmp_path: Path, content: str) -> None:
    for name in ("a.json", "b.txt"):
        transcript(tmp_path, "p", name, content)
    for log in SOURCE.find(user(tmp_path)):
        assert feed(SOURCE, log, document(SOURCE, log, log.session_id)).entries == []


def test_the_newest_form_of_a_conversation_is_read(tmp_path: Path) -> None:
    for name in ("a.txt", "a.json", "b/b.txt", "b/b.jsonl", "c.txt", "c/tool-output.txt"):
        transcript(tmp_path, "p", name)
    ChatStore(tmp_path, "/p", "c").close()
    assert [Path(log.path).name for log in SOURCE.find(user(tmp_path))] == ["a.json"]
    assert [log.session_id for log in agent_transcripts.SOURCE.find(user(tmp_path))] == ["b"]


def test_the_fingerprint_changes_with_the_file(tmp_path: Path) -> None:
    log = old(tmp_path, "a.txt", "user:\nhi\n")
    before = list(SOURCE.items(log))
    assert before == list(SOURCE.items(log))
    after = list(SOURCE.items(old(tmp_path, "a.txt", "user:\nhi there\n")))
    assert [item.item for item in after] == ["a"]
    assert before != after


def test_a_file_that_went_away_is_told(tmp_path: Path) -> None:
    log = old(tmp_path, "a.txt", "user:\nhi\n")
    Path(log.path).unlink()
    with pytest.raises(NotFound):
        list(SOURCE.records(log, "a"))


MARKS = ["user:", "assistant:", "[Thinking] t", "[Tool call] X", "  a: b", "", "text"]


@given(st.lists(st.sampled_from(MARKS) | st.text(max_size=5), max_size=20))
def test_any_text_can_be_read(tmp_path_factory: pytest.TempPathFactory, pieces: list[str]) -> None:
    home = tmp_path_factory.mktemp("any")
    log = old(home, "a.txt", "user:\nhi\n" + "\n".join(pieces))
    assert feed(SOURCE, log, document(SOURCE, log, "a")).entries[0].kind == "prompt"


@given(st.lists(any_json | broken(json.loads((FIXTURES / "old.json").read_text())), max_size=3))
def test_any_json_can_be_read(tmp_path_factory: pytest.TempPathFactory, values: list[Any]) -> None:
    home = tmp_path_factory.mktemp("any")
    log = old(home, "a.json", json.dumps(values))
    records = document(SOURCE, log, "a")
    feed(SOURCE, log, records)
    assert len(records) == len(values)
