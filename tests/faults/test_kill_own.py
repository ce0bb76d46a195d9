"""A process dies at an exact chunk; whoever opens the store next finds what was acknowledged."""

from pathlib import Path

import pytest

from tests.faults.children import SESSION
from tests.faults.family import Child, new_store, record_and_kill
from tests.faults.replies import digest, moments, story
from tests.lengths import at_length
from threadkeep.chat.store import ChatStore

pytestmark = pytest.mark.faults

# Keys whose replies are long, have an approval in the middle, a reset step, or a dynamic tool.
KEYS = ("k1", "k4", "k16", "k18", "k55")


def seen_after_crash(path: Path, key: str) -> str | None:
    """Open the store as the next process does, check it, and give the digest of the reply."""
    with ChatStore.open(path) as store:
        assert store.verify().problems == []
        found = store.ui_messages(SESSION)
        assert [run.end_reason for run in store.runs(SESSION)] == ["crash"] * len(found)
        return digest(found[0]) if found else None


def first_of_each_kind(key: str) -> list[int]:
    """Where the first and the second chunk of each kind stand: every kind of state change."""
    kinds = [chunk["type"] for segment in story(key).segments for chunk in segment]
    places = {kind: [n for n, other in enumerate(kinds, 1) if other == kind][:2] for kind in kinds}
    return sorted({place for found in places.values() for place in found})


@pytest.mark.parametrize("key", KEYS)
def test_killed_after_an_acknowledgement_the_state_is_exactly_that_of_the_chunk(
    tmp_path: Path, key: str
) -> None:
    expected = [moment.digest for moment in moments(story(key))]
    chosen = first_of_each_kind(key)
    for count in chosen[:: max(1, len(chosen) // at_length(8, 4))]:
        path = new_store(tmp_path / f"{count}.db")
        record_and_kill(path, key, count)
        assert seen_after_crash(path, key) == expected[count - 1]


@pytest.mark.parametrize("key", KEYS)
def test_killed_in_full_flow_nothing_acknowledged_is_lost(tmp_path: Path, key: str) -> None:
    expected = [moment.digest for moment in moments(story(key))]
    total = sum(map(len, story(key).segments))
    for count in (1, total // 3, total - 2)[at_length(0, 1) :]:
        path = new_store(tmp_path / f"{count}.db")
        with Child("record", path, key) as child:
            child.tell(total)
            for _ in range(count):
                child.hear()
            child.kill()
            acknowledged = count + len(child.answers())
        allowed = expected[acknowledged - 1 : acknowledged + 1]
        assert seen_after_crash(path, key) in allowed


def test_killed_again_and_again_while_others_are_left_behind(tmp_path: Path) -> None:
    path = new_store(tmp_path / "many.db")
    wanted: dict[str, str] = {}
    for key in KEYS:
        count = sum(map(len, story(key).segments)) // 2
        record_and_kill(path, key, count)
        wanted[key] = [moment.digest for moment in moments(story(key))][count - 1]
    with ChatStore.open(path) as store:
        assert {m["id"]: digest(m) for m in store.ui_messages(SESSION)} == wanted
        assert store.verify().problems == []


def test_a_reader_of_a_crashed_store_needs_no_recovery(tmp_path: Path) -> None:
    path = new_store(tmp_path / "readonly.db")
    key = KEYS[0]
    count = sum(map(len, story(key).segments)) // 2
    record_and_kill(path, key, count)
    expected = [moment.digest for moment in moments(story(key))][count - 1]
    with ChatStore.open(path, read_only=True) as store:
        assert digest(store.message(SESSION, key)) == expected
