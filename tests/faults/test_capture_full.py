"""A disk that fills up in the middle of a capture, and gets room again."""

import os
from pathlib import Path

import pytest

from tests.faults.capture_kills import DATABASE, compare, working
from tests.lengths import AT_LENGTH, at_length
from tests.support.disks import fill, small_disk
from tests.support.user_homes import (
    archived,
    lines_of,
    made_up_home,
    multiply,
    open_history,
    real_sample,
)
from threadkeep.capture import intake
from threadkeep.errors import StorageFull

pytestmark = pytest.mark.faults

KILOBYTE = 1024


def fill_but(disk: Path, room: int) -> Path:
    """Use up a disk but for some bytes; give the file that does."""
    filler = fill(disk)
    os.truncate(filler, max(0, filler.stat().st_size - room))
    return filler


def assert_no_half_log(home: Path) -> None:
    """Whatever was committed of a log is a beginning of it."""
    for (path, item), stored in archived(home / DATABASE).items():
        if not item and path.endswith(".jsonl"):
            assert lines_of(Path(path))[: len(stored)] == stored


# In kilobytes: from the first write to one in the middle.
@pytest.mark.parametrize("room", [0, 40, 200, 600] if AT_LENGTH else [0, 200])
def test_a_full_disk_stops_the_run_and_the_next_one_completes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    monkeypatch.setattr(intake, "BATCH_BYTES", 64 * KILOBYTE)
    user = multiply(made_up_home(tmp_path / "user"), at_length(20, 12))
    with small_disk(tmp_path / "disk", "48m") as disk:
        home = disk / "home"
        with open_history(home, user) as history:
            filler = fill_but(disk, room * KILOBYTE)
            with pytest.raises(StorageFull, match=r"disk is full|free space"):
                history.capture()
            assert_no_half_log(home)
            for session in history.sessions(everything=True, limit=1000):
                assert len(list(history.transcript(session))) == session.entries
            history.search("basket")
            filler.unlink()
            assert history.capture().errors == 0
        with working("capture", home, user) as worker:
            worker.wait_for("done 0")
        compare(_moved(home, tmp_path / "home"), user)


@pytest.mark.slow
def test_the_same_with_real_transcripts(shared_data: Path, tmp_path: Path) -> None:
    user = real_sample(shared_data, tmp_path / "user")
    with small_disk(tmp_path / "disk", "24m") as disk:
        home = disk / "home"
        with open_history(home, user) as history:
            filler = fill_but(disk, 900 * KILOBYTE)
            with pytest.raises(StorageFull):
                history.capture()
            with pytest.raises(StorageFull):
                history.capture()
            assert_no_half_log(home)
            filler.unlink()
            assert history.capture().errors == 0
        compare(_moved(home, tmp_path / "home"), user)


def _moved(home: Path, target: Path) -> Path:
    """Copy a closed store to where there is room for its checks."""
    target.mkdir()
    (target / DATABASE).write_bytes((home / DATABASE).read_bytes())
    return target
