"""Several processes at one store: races, forks, and readers that know nothing but sqlite3."""

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.faults.children import SESSION
from tests.faults.family import Child, new_store, race_for_queue, record_and_kill
from tests.faults.replies import story
from threadkeep.chat.store import ChatStore
from threadkeep.chat.wire.reduce import StreamState

pytestmark = pytest.mark.faults

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that can fork")
SIDES = ("parent", "child")


def test_of_cancel_and_fire_exactly_one_wins(tmp_path: Path) -> None:
    wins = race_for_queue(new_store(tmp_path / "race.db"), 50)
    assert wins["both"] == wins["none"] == 0
    assert wins["fire"] + wins["cancel"] == 50


def texts(path: Path) -> list[str]:
    with ChatStore.open(path) as store:
        assert store.verify().problems == []
        return [message["parts"][0]["text"] for message in store.ui_messages(SESSION)]


def some(what: str) -> list[str]:
    return [f"{what} {number}" for number in range(10)]


@needs_fork
@pytest.mark.parametrize("first", SIDES)
def test_both_sides_of_a_fork_write_and_nothing_is_lost(tmp_path: Path, first: str) -> None:
    path = new_store(tmp_path / "fork.db")
    with Child("fork", path, first) as child:
        assert child.hear() == 0, "the forked child failed"
    last = next(side for side in SIDES if side != first)
    expected = {"before", *some("parent early"), *some("child early"), *some(f"{last} late")}
    found = texts(path)
    assert set(found) == expected
    assert len(found) == len(expected)
    assert [text for text in found if "child early" in text] == some("child early")


@needs_fork
def test_a_forked_child_may_open_the_store_anew(tmp_path: Path) -> None:
    path = new_store(tmp_path / "reopen.db")
    with Child("reopen", path) as child:
        assert child.hear() == 0, "the forked child failed"
    assert set(texts(path)) == {"before", *some("child early"), *some("child late")}


# Readers of the three tables -----------------------------------------------------------------


def grown_text(part: dict[str, Any]) -> str:
    text = part.get("rawInput", "") if "toolCallId" in part else part.get("text", "")
    return str(text)


@pytest.mark.parametrize("key", ["k4", "k18"])
def test_a_plain_reader_is_never_far_behind_and_exact_at_every_part_end(
    tmp_path: Path, key: str
) -> None:
    path = new_store(tmp_path / "lag.db")
    state = StreamState(message_id=key)
    with ChatStore.open(path) as store, Child("look", path) as reader:
        recorder = store.record(SESSION, key)
        for chunk in story(key).segments[0]:
            grows = state.target_of(chunk)
            recorder.feed(chunk)
            state.apply(chunk)
            seen = [json.loads(data) for _, data in reader.ask(key)]
            exact = state.message()["parts"]
            for index, part in enumerate(exact):
                if index == grows:
                    assert_little_behind(seen[index], part, chunk)
                elif part.get("state") not in ("streaming", "input-streaming"):
                    assert seen[index] == part
            assert len(seen) == len(exact)
        recorder.close()
        assert [json.loads(data) for _, data in reader.ask(key)] == state.message()["parts"]


def assert_little_behind(seen: Any, exact: Any, chunk: dict[str, Any]) -> None:
    delta = chunk.get("delta", chunk.get("inputTextDelta", ""))
    old, new = grown_text(seen), grown_text(exact)
    # Half of a character may wait for its other half: it is compared when that has come.
    assert new.startswith(old.rstrip("\ud83d"))
    assert len(new) - len(old) <= len(new) / 8 + len(delta)


def test_the_tables_are_complete_for_plain_sqlite_after_a_crash_was_settled(
    tmp_path: Path,
) -> None:
    path, key = new_store(tmp_path / "plain.db"), "k18"
    count = len(story(key).segments[0]) // 2
    state = StreamState(message_id=key)
    for chunk in story(key).segments[0][:count]:
        state.apply(chunk)
    record_and_kill(path, key, count)
    ChatStore.open(path).close()
    with closing(sqlite3.connect(path)) as plain:
        rows = plain.execute('SELECT data_json FROM chat_parts ORDER BY "index"').fetchall()
    assert [json.loads(data) for (data,) in rows] == state.message()["parts"]
