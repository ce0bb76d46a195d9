"""A disk that fills up in the middle of a reply, and gets room again."""

from pathlib import Path

import pytest

from tests.faults.family import Child, new_store
from tests.faults.replies import digest, moments, story

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("key", ["k1", "k4", "k18"])
def test_a_refused_chunk_is_not_stored_and_the_same_recorder_goes_on(
    tmp_path: Path, key: str
) -> None:
    told = story(key)
    expected = [moment.digest for moment in moments(told)]
    with Child("fill", new_store(tmp_path / "full.db"), key) as child:
        assert child.hear() == "ready"
        heard = child.answers()
    refused = [line["refused"] for line in heard if "refused" in line]
    states = {line["stored"]: line["message"] for line in heard if "stored" in line}
    total = sum(map(len, told.segments))
    assert refused == ["StorageFull"] * (total // 10)
    assert list(states)[-1] == total
    for stored, message in states.items():
        assert digest(message) == expected[stored - 1]
