"""Processes: the living are told from the dead, and from others with the same number."""

import fcntl
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.support.children import Child, exit_code, fork, wait_until
from threadkeep.base.processes import (
    describe_process,
    find_holders,
    is_alive,
    is_running,
    is_stopped,
    lock_holders,
    my_mark,
)

needs_proc = pytest.mark.skipif(not Path("/proc/locks").exists(), reason="needs Linux's /proc")


def test_this_process_is_alive() -> None:
    assert is_alive(my_mark())
    assert my_mark().startswith(f"{os.getpid()}:")


def test_another_process_is_alive_until_it_ends() -> None:
    script = "from threadkeep.base.processes import my_mark\nsay(my_mark())\nhear()"
    with Child(script) as child:
        mark = child.hear()
        assert is_alive(mark)
        child.kill()
        assert not is_alive(mark)


@needs_proc
def test_a_zombie_is_dead() -> None:
    script = "from threadkeep.base.processes import my_mark\nsay(my_mark())"
    child = Child(script)
    mark = child.hear()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    try:
        os.kill(child.pid, 0)  # its number is still taken
        assert not is_alive(mark)
        assert not is_running(child.pid)
    finally:
        child.__exit__()


def test_a_forked_child_has_a_mark_of_its_own() -> None:
    mark = my_mark()

    def check() -> None:
        assert my_mark() != mark
        assert is_alive(my_mark())
        assert is_alive(mark)

    assert exit_code(fork(check)) == 0


@needs_proc
def test_a_later_process_with_the_same_number_is_another_one() -> None:
    pid, started, boot = my_mark().split(":", 2)
    assert not is_alive(f"{pid}:{int(started) - 1}:{boot}")
    assert not is_alive(f"{pid}:{started}:another-boot")


@given(st.one_of(st.text(max_size=40), st.from_regex(r"[0-9]{1,30}:[0-9]*:.*", fullmatch=True)))
def test_any_other_text_is_nobody(mark: str) -> None:
    assert not is_alive(mark)


def test_processes_are_described() -> None:
    assert f"process {os.getpid()}" in describe_process(os.getpid())
    assert describe_process(0) == "a process outside this container"
    assert describe_process(-1) == "a process outside this container"
    assert describe_process(2**22 + 1) == f"process {2**22 + 1}"


@needs_proc
def test_a_description_holds_the_command_cut_to_length() -> None:
    with Child("say('here')\nhear()", "x" * 500) as child:
        child.expect("here")
        described = describe_process(child.pid)
    assert sys.executable in described
    assert len(described) < 160


LOCKS = """\
1: POSIX  ADVISORY  READ  100 fe:00:77 123 123
1: -> POSIX  ADVISORY  WRITE 101 fe:00:77 120 120
2: POSIX  ADVISORY  WRITE 102 fe:00:77 120 120
3: FLOCK  ADVISORY  WRITE 103 fe:00:78 0 EOF
4: POSIX  ADVISORY  READ  104 fe:00:77 124 124
5: POSIX  ADVISORY  READ  105 fe:00:7 0 EOF
6: OFDLCK ADVISORY  READ  -1 fe:00:77 0 EOF
garbage
"""


@pytest.mark.parametrize(
    "file, kind, first, last, pids",
    [
        ("fe:00:77", "WRITE", 120, 120, [102]),
        ("fe:00:77", "READ", 123, 127, [100, 104, -1]),
        ("fe:00:77", "READ", 124, 127, [104, -1]),
        ("fe:00:7", "READ", 500, 600, [105]),
        ("fe:00:9", "READ", 0, 600, []),
    ],
)
def test_holders_are_found_in_the_lock_table(
    file: str, kind: str, first: int, last: int, pids: list[int]
) -> None:
    assert find_holders(LOCKS, file, kind, first, last) == pids


@needs_proc
def test_the_holder_of_a_real_lock_is_found_without_opening_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        fcntl.lockf(file, fcntl.LOCK_EX, 10, 100)
        assert lock_holders(path, "WRITE", 105, 105) == [os.getpid()]
        assert lock_holders(path, "WRITE", 0, 99) == []
        assert lock_holders(path, "READ", 105, 105) == []
    assert lock_holders(path, "WRITE", 105, 105) == []
    assert lock_holders(tmp_path / "missing", "WRITE", 0, 1) == []


@needs_proc
def test_a_stopped_process_is_told_from_one_that_runs() -> None:
    with Child("say('here')\nhear()") as child:
        child.expect("here")
        assert not is_stopped(child.pid)
        os.kill(child.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
        assert is_stopped(child.pid)
        os.kill(child.pid, signal.SIGCONT)
        wait_until(lambda: not is_stopped(child.pid))
    assert not is_stopped(child.pid)
