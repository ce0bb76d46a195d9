"""The socket's place: one owner at a time, the dead make way, everything else is left alone."""

import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from threadkeep.base.local_socket import LONGEST_PATH, LocalSocket, connect, peer_uid, place_of
from threadkeep.errors import Busy, Conflict, Invalid, NotFound, ReadOnly


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name: pytest's own may be too long for a socket."""
    with tempfile.TemporaryDirectory(prefix="tk-") as name:
        yield Path(name)


def leave_dead_socket(path: Path) -> None:
    """Leave what a killed program leaves: a socket without a listener."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))


def test_a_missing_socket_is_bound_for_the_owner_alone(folder: Path) -> None:
    with LocalSocket(folder / "a" / "d.sock") as ours:
        found = os.lstat(ours.path)
        assert stat.S_ISSOCK(found.st_mode)
        assert stat.S_IMODE(found.st_mode) == 0o600
        assert stat.S_IMODE(os.lstat(folder / "a").st_mode) == 0o700
        with connect(ours.path) as link, ours.socket.accept()[0] as other:
            assert peer_uid(other) == os.getuid()
            assert peer_uid(link) == os.getuid()
    assert not ours.path.exists()


def test_a_dead_socket_makes_way(folder: Path) -> None:
    leave_dead_socket(folder / "d.sock")
    with LocalSocket(folder / "d.sock") as ours, connect(ours.path):
        pass


def test_a_killed_owner_leaves_a_socket_that_the_next_one_takes(folder: Path) -> None:
    code = (
        "import os, sys, signal; from pathlib import Path\n"
        "from threadkeep.base.local_socket import LocalSocket\n"
        "ours = LocalSocket(Path(sys.argv[1])); os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", code, folder / "d.sock"], check=False)
    assert killed.returncode == -9
    assert (folder / "d.sock").exists()
    with LocalSocket(folder / "d.sock") as ours, connect(ours.path):
        pass


def test_a_second_owner_is_refused_and_the_first_keeps_its_socket(folder: Path) -> None:
    with LocalSocket(folder / "d.sock") as ours:
        with pytest.raises(Conflict, match="already in use") as caught:
            LocalSocket(folder / "d.sock")
        assert "[socket] path" in caught.value.hint
        with connect(ours.path):
            pass
    with LocalSocket(folder / "d.sock"):
        pass


def test_a_stranger_who_answers_is_refused_also_without_our_lock(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as hippo:
        hippo.bind(str(folder / "d.sock"))
        hippo.listen()
        with pytest.raises(Conflict, match="already in use"):
            LocalSocket(folder / "d.sock")
        with connect(folder / "d.sock"):
            pass


@pytest.mark.skipif(sys.platform != "linux", reason="other systems queue differently")
def test_a_stranger_who_does_not_answer_is_refused(folder: Path) -> None:
    path = folder / "d.sock"
    with socket.socket(socket.AF_UNIX) as hung, socket.socket(socket.AF_UNIX) as waiting:
        hung.bind(str(path))
        hung.listen(0)
        waiting.connect(str(path))  # the queue is full now, and nobody accepts
        with pytest.raises(Conflict, match="does not answer"):
            LocalSocket(path)
        with pytest.raises(Busy, match="does not answer"):
            connect(path)
    assert path.exists()


@pytest.mark.parametrize("kind", ["file", "folder", "link", "dangling link", "pipe"])
def test_what_is_no_socket_is_never_removed(folder: Path, kind: str) -> None:
    path, real = folder / "d.sock", folder / "real"
    leave_dead_socket(real)
    make: dict[str, Callable[[], object]] = {
        "file": lambda: path.write_text("mine"),
        "folder": path.mkdir,
        "link": lambda: path.symlink_to(real),
        "dangling link": lambda: path.symlink_to(folder / "nothing"),
        "pipe": lambda: os.mkfifo(path),
    }
    make[kind]()
    before = os.lstat(path)
    with pytest.raises(Conflict, match="not a socket"):
        LocalSocket(path)
    assert os.lstat(path).st_ino == before.st_ino
    assert real.is_socket()
    path.rmdir() if kind == "folder" else path.unlink()
    with LocalSocket(path):  # the lock was let go
        pass


def test_a_datagram_socket_of_another_program_is_left_alone(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(str(folder / "d.sock"))
        with pytest.raises(ReadOnly, match="cannot connect"):
            LocalSocket(folder / "d.sock")
    assert (folder / "d.sock").is_socket()


def test_the_socket_of_a_later_owner_stays_when_the_earlier_one_ends(folder: Path) -> None:
    path = folder / "d.sock"
    with LocalSocket(path):
        path.unlink()
        leave_dead_socket(path)
        later = os.lstat(path).st_ino
    assert os.lstat(path).st_ino == later


def test_of_many_who_start_at_once_one_listens(folder: Path) -> None:
    leave_dead_socket(folder / "d.sock")
    ready, won, lost = threading.Barrier(8), [], []

    def begin() -> None:
        ready.wait()
        try:
            won.append(LocalSocket(folder / "d.sock"))
        except Conflict as error:
            lost.append(error)

    threads = [threading.Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 7)
    with won[0], connect(folder / "d.sock"):
        pass


def test_a_long_path_gets_a_short_one_in_a_folder_of_the_user(folder: Path) -> None:
    wanted = folder / ("x" * 120) / "daemon.sock"
    with LocalSocket(wanted, temporary=folder) as ours:
        assert ours.path.parent == folder / f"threadkeep-{os.getuid()}"
        assert len(os.fsencode(ours.path)) <= LONGEST_PATH
        assert stat.S_IMODE(os.lstat(ours.path.parent).st_mode) == 0o700
    others = place_of(folder / ("y" * 120) / "daemon.sock", uid=7, temporary=folder)
    assert others.parent.name == "threadkeep-7"
    assert others.name != ours.path.name


def test_a_folder_of_others_is_not_trusted_with_a_socket(folder: Path) -> None:
    wanted, ours = folder / ("x" * 120), folder / f"threadkeep-{os.getuid()}"
    ours.mkdir(mode=0o700)
    ours.chmod(0o777)
    with pytest.raises(Conflict, match="private"):
        LocalSocket(wanted, temporary=folder)
    ours.rmdir()
    (folder / "real").mkdir(mode=0o700)
    ours.symlink_to(folder / "real")
    with pytest.raises(Conflict, match="private"):
        LocalSocket(wanted, temporary=folder)
    assert list((folder / "real").iterdir()) == []


def test_a_short_path_stays_and_two_long_ones_are_refused(folder: Path) -> None:
    edge = Path("/" + "p" * (LONGEST_PATH - 1))
    assert place_of(edge, uid=1, temporary=folder) == edge
    with pytest.raises(Invalid, match="too long"):
        place_of(Path(f"{edge}x"), uid=1, temporary=Path("/" + "t" * 90))


def test_nobody_to_connect_to_is_told_with_the_next_step(folder: Path) -> None:
    leave_dead_socket(folder / "dead.sock")
    for name in ("missing.sock", "dead.sock", "dead.sock/below"):
        with pytest.raises(NotFound, match="nothing is listening") as caught:
            connect(folder / name)
        assert "threadkeep watch" in caught.value.hint
