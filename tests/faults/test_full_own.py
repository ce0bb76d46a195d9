"""A disk that fills up in the middle of a reply, and gets room again."""

from pathlib import Path
from typing import Any

import pytest

from tests.faults.children import SESSION
from tests.faults.family import Child, new_store
from tests.faults.replies import digest, moments, story
from threadkeep.chat.store import ChatStore

pytestmark = pytest.mark.faults

KEYS = ("k1", "k4", "k18")


def record_on_a_full_disk(path: Path, key: str, save_on: str) -> list[dict[str, Any]]:
    with Child("fill", new_store(path), f"{key} {save_on}") as child:
        return child.answers()


def assert_complete(path: Path, key: str) -> None:
    with ChatStore.open(path) as store:
        last = list(moments(story(key)._replace(late=None)))[-1]
        assert digest(store.message(SESSION, key)) == last.digest
        assert [run.ended_at is not None for run in store.runs(SESSION)] == [True]
        assert store.verify().problems == []


@pytest.mark.parametrize("key", KEYS)
def test_a_refused_chunk_is_not_stored_and_the_same_recorder_goes_on(
    tmp_path: Path, key: str
) -> None:
    path = tmp_path / "full.db"
    expected = [moment.digest for moment in moments(story(key))]
    heard = record_on_a_full_disk(path, key, "chunk")
    assert {line["refused"] for line in heard[:-1]} == {"StorageFull"}
    for line in heard:  # reading works while the disk is full, and gives what was acknowledged
        assert digest(line["message"]) == expected[line["chunks"] - 1]
    assert_complete(path, key)


@pytest.mark.parametrize("save_on", ["step", "turn"])
@pytest.mark.parametrize("key", KEYS)
def test_a_refused_step_is_kept_in_memory_until_there_is_room(
    tmp_path: Path, key: str, save_on: str
) -> None:
    path = tmp_path / "full.db"
    record_on_a_full_disk(path, key, save_on)
    assert_complete(path, key)
