"""Signs of life: links are not followed, one holder at a time, the dead hold nothing."""

import fcntl
import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.children import Child, exit_code, fork
from threadkeep.base import presence
from threadkeep.base.presence import ExclusiveLock, forget, is_held, touch, touched_ms
from threadkeep.errors import Conflict, Damaged, ReadOnly, ThreadkeepError

HOLDER = """
from threadkeep.base.presence import ExclusiveLock as Alone
lock = Alone(Path(sys.argv[1]), "an agent")
say("held")
hear()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".heartbeat"


# ---------------------------------------------------------------------- touching


def test_a_touch_makes_a_private_file_and_later_ones_move_its_time(path: Path) -> None:
    assert touched_ms(path) is None
    touch(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    os.utime(path, (1000, 1000))
    assert touched_ms(path) == 1_000_000
    touch(path)
    assert (touched_ms(path) or 0) > 1_000_000


def test_a_touch_keeps_what_is_in_the_file(path: Path) -> None:
    path.write_text("kept")
    touch(path)
    assert path.read_text() == "kept"


def test_a_link_is_neither_touched_nor_read(path: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    os.utime(victim, (1000, 1000))
    path.symlink_to(victim)
    with pytest.raises(ReadOnly, match="cannot touch"):
        touch(path)
    assert touched_ms(path) is None
    assert victim.stat().st_mtime == 1000


def test_a_dangling_link_makes_no_file_elsewhere(path: Path, tmp_path: Path) -> None:
    path.symlink_to(tmp_path / "new")
    with pytest.raises(ReadOnly):
        touch(path)
    assert not (tmp_path / "new").exists()


def test_a_pipe_in_the_place_of_the_file_holds_nobody_up(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(ReadOnly):
        touch(path)
    assert touched_ms(path) is None
    forget(path)
    assert not os.path.lexists(path)


def test_forgetting_removes_the_link_and_not_what_it_names(path: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    path.symlink_to(victim)
    forget(path)
    forget(path)
    assert not os.path.lexists(path)
    assert victim.read_text() == "mine"


def test_a_folder_in_the_place_of_the_file_is_an_error_of_ours(path: Path) -> None:
    path.mkdir()
    assert touched_ms(path) is None
    for act in (touch, forget):
        with pytest.raises(ThreadkeepError, match="heartbeat"):
            act(path)


# ---------------------------------------------------------------------- one at a time


def test_the_second_holder_is_refused_until_the_first_lets_go(path: Path) -> None:
    assert not is_held(path)
    with ExclusiveLock(path, "an agent"):
        assert is_held(path)
        with pytest.raises(Conflict, match="an agent is already working"):
            ExclusiveLock(path, "an agent")
    assert not is_held(path)
    ExclusiveLock(path, "an agent").close()


def test_a_refused_holder_takes_nothing_from_the_first(path: Path) -> None:
    with ExclusiveLock(path, "an agent"):
        for _ in range(2):
            with pytest.raises(Conflict):
                ExclusiveLock(path, "another")
        assert is_held(path)


def test_letting_go_twice_is_fine(path: Path) -> None:
    lock = ExclusiveLock(path, "an agent")
    lock.close()
    lock.close()
    assert not is_held(path)


def test_a_forgotten_lock_is_free(path: Path) -> None:
    ExclusiveLock(path, "an agent")
    assert not is_held(path)


def test_the_lock_of_a_killed_process_is_free(path: Path) -> None:
    with Child(HOLDER, path) as child:
        child.expect("held")
        assert is_held(path)
        with pytest.raises(Conflict):
            ExclusiveLock(path, "an agent")
        child.kill()
        assert not is_held(path)
        ExclusiveLock(path, "an agent").close()


def test_a_child_that_closes_its_copy_leaves_the_lock_to_the_parent(path: Path) -> None:
    with ExclusiveLock(path, "an agent") as lock:
        assert exit_code(fork(lock.close)) == 0
        # The child's copy shares our lock; closing a copy does not release it.
        assert is_held(path)


def test_two_who_look_do_not_take_each_other_for_the_holder(path: Path) -> None:
    path.touch()
    with path.open() as looker:
        fcntl.flock(looker, fcntl.LOCK_SH)  # as `is_held` has it for a moment
        assert not is_held(path)


def test_somebody_who_only_looks_does_not_keep_a_holder_out(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.touch()
    with path.open() as looker:
        fcntl.flock(looker, fcntl.LOCK_SH)

        def pause(_: float) -> None:
            fcntl.flock(looker, fcntl.LOCK_UN)

        monkeypatch.setattr(presence, "time", SimpleNamespace(sleep=pause))
        with ExclusiveLock(path, "an agent"):
            assert is_held(path)


def test_a_pipe_in_the_place_of_the_lock_is_refused_at_once(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(Damaged, match="not a regular file"):
        ExclusiveLock(path, "an agent")


@pytest.mark.parametrize("kind", ["link", "folder"])
def test_other_things_in_the_place_of_the_lock_are_refused(path: Path, kind: str) -> None:
    target = path.with_name("target")
    if kind == "link":
        path.symlink_to(target)
    else:
        path.mkdir()
    with pytest.raises(ReadOnly, match="lock file"):
        ExclusiveLock(path, "an agent")
    assert not is_held(path)
    assert not target.exists()


def test_a_lock_whose_holder_died_is_known_from_one_that_was_given_back(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    assert not presence.was_left(path)
    with ExclusiveLock(path, "an agent"):
        assert not presence.was_left(path)
        with pytest.raises(Conflict):
            ExclusiveLock(path, "another")
        assert path.stat().st_size > 0
    assert not presence.was_left(path)
    with Child(HOLDER, path) as child:
        child.expect("held")
        child.kill()
    assert presence.was_left(path)
    ExclusiveLock(path, "the next").close()
    assert not presence.was_left(path)
