"""The writer lock: first come, first served, whoever dies, forks or is interrupted."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import cannot_run
from tests.support.children import Child, exit_code, fork, time_with_sleep, wait_until
from threadkeep.base.processes import lock_holders
from threadkeep.base.sqlite import lock as lock_module
from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.base.sqlite.lock import LockClaim, LockHeld, WriterLock, all_locks, let_go, lock_for
from threadkeep.errors import Busy, Closed, ReadOnly

PATIENT = 60.0

# Takes the lock when told, says when it stands in the queue, writes its name to a pipe when it
# has the lock, and lets go at once.
WAITER = """
from threadkeep.base.sqlite.lock import LockHeld, WriterLock, lock_for

def told(lock):
    place = enqueue(lock)
    say("queued")
    return place

enqueue, WriterLock._enqueue = WriterLock._enqueue, told
lock = lock_for(Path(sys.argv[1]))
say("ready")
hear()
with LockHeld(lock, 60.0):
    with open(sys.argv[2], "a") as order:
        order.write(sys.argv[3])
say("done")
"""

HOLDER = """
from threadkeep.base.sqlite.lock import LockClaim as Turn, lock_for
lock, turn = lock_for(Path(sys.argv[1])), Turn()
lock.acquire(turn, 60.0)
say("held")
hear()
lock.release(turn)
say("released")
hear()
"""

FOLLOWER = """
from threadkeep.base.sqlite.lock import lock_for
lock = lock_for(Path(sys.argv[1]))
while (word := hear()):
    getattr(lock, word)()
    say(word)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


@pytest.fixture
def lock(path: Path) -> Iterator[WriterLock]:
    lock = lock_for(path)
    yield lock
    let_go(lock)


def bytes_held(lock: WriterLock) -> list[int]:
    """Who holds or waits for the lock, as the kernel sees it; followers do not count."""
    return lock_holders(lock.path, "WRITE", 0, 2**62 - 1)


def assert_free(lock: WriterLock) -> None:
    assert lock._threads.owner is None
    assert not lock._threads._waiting
    assert bytes_held(lock) == []


def queue_up(child: Child) -> None:
    child.expect("ready")
    child.tell()
    child.expect("queued")


def test_processes_get_the_lock_in_the_order_they_came(lock: WriterLock, path: Path) -> None:
    order = path.with_name("order")
    children = [Child(WAITER, path, order, name) for name in "abcd"]
    try:
        with LockHeld(lock, PATIENT):
            for child in children:
                queue_up(child)
        for child in children:
            child.expect("done")
        assert order.read_text() == "abcd"
    finally:
        for child in children:
            child.__exit__()


def test_a_newcomer_does_not_pass_those_who_wait(lock: WriterLock, path: Path) -> None:
    order = path.with_name("order")
    with Child(WAITER, path, order, "1") as first, Child(WAITER, path, order, "2") as second:
        with LockHeld(lock, PATIENT):
            queue_up(first)
            os.kill(first.pid, signal.SIGSTOP)
            os.waitid(os.P_PID, first.pid, os.WSTOPPED)
        queue_up(second)  # the lock is free, but the one before it stands still
        os.kill(first.pid, signal.SIGCONT)
        first.expect("done")
        second.expect("done")
        assert order.read_text() == "12"


def test_threads_get_the_lock_in_the_order_they_came(lock: WriterLock) -> None:
    order: list[int] = []

    def take(number: int) -> None:
        with LockHeld(lock, PATIENT):
            order.append(number)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(8)]
    with LockHeld(lock, PATIENT):
        for waiting, thread in enumerate(threads, 1):
            thread.start()
            wait_until(lambda waiting=waiting: len(lock._threads._waiting) == waiting)  # type: ignore[misc]
    for thread in threads:
        thread.join()
    assert order == list(range(8))
    assert_free(lock)


def test_a_killed_holder_frees_the_lock(lock: WriterLock, path: Path) -> None:
    with Child(HOLDER, path) as holder:
        holder.expect("held")
        with pytest.raises(Busy):
            lock.acquire(LockClaim(), 0)
        holder.kill()
        with LockHeld(lock, 0):
            assert bytes_held(lock) == [os.getpid()]


def test_a_killed_waiter_leaves_the_queue(lock: WriterLock, path: Path) -> None:
    order = path.with_name("order")
    with Child(WAITER, path, order, "1") as first, Child(WAITER, path, order, "2") as second:
        with LockHeld(lock, PATIENT):
            queue_up(first)
            queue_up(second)
            first.kill()
        second.expect("done")
        assert order.read_text() == "2"


def test_busy_names_the_process_that_holds_the_lock(lock: WriterLock, path: Path) -> None:
    with Child(HOLDER, path) as holder:
        holder.expect("held")
        with pytest.raises(Busy) as caught:
            lock.acquire(LockClaim(), 0.01)
        assert f"process {holder.pid} (" in caught.value.message
        assert "python" in caught.value.message
        assert str(path) in caught.value.message
        assert caught.value.hint
        assert bytes_held(lock) == [holder.pid]
        assert lock._threads.owner is None
        holder.tell()
        holder.expect("released")
        assert lock.holder() is None


def test_busy_says_when_it_is_another_thread(lock: WriterLock) -> None:
    refused: list[Busy] = []

    def try_it() -> None:
        try:
            lock.acquire(LockClaim(), 0.01)
        except Busy as error:
            refused.append(error)

    with LockHeld(lock, PATIENT):
        thread = threading.Thread(target=try_it)
        thread.start()
        thread.join()
    assert "another thread of this process" in refused[0].message
    assert_free(lock)


def test_a_budget_without_end_is_a_budget(lock: WriterLock) -> None:
    with LockHeld(lock, float("inf")):
        thread = threading.Thread(target=lambda: LockHeld(lock, float("inf")).__enter__())
        thread.start()
        wait_until(lambda: len(lock._threads._waiting) == 1)
    thread.join()  # its LockHeld is gone, and the lock with it
    assert_free(lock)


def test_one_thread_cannot_take_the_lock_twice(lock: WriterLock) -> None:
    turn = LockClaim()
    lock.acquire(turn, PATIENT)
    with pytest.raises(RuntimeError, match="twice by one thread"):
        lock.acquire(LockClaim(), PATIENT)
    assert lock.held_by(turn)
    lock.release(turn)
    assert_free(lock)


def test_letting_go_twice_takes_nothing_from_the_next(lock: WriterLock) -> None:
    first, second = LockClaim(), LockClaim()
    lock.acquire(first, PATIENT)
    lock.release(first)
    lock.acquire(second, PATIENT)
    lock.release(first)
    assert lock.held_by(second)
    assert bytes_held(lock) == [os.getpid()]
    lock.release(second)


# ---------------------------------------------------------------------- interrupts


def interrupted(_seconds: float) -> None:
    raise KeyboardInterrupt


def test_an_interrupt_while_waiting_for_a_process_leaves_the_queue(
    lock: WriterLock, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Child(HOLDER, path) as holder:
        holder.expect("held")
        monkeypatch.setattr(lock_module, "time", time_with_sleep(interrupted))
        with pytest.raises(KeyboardInterrupt):
            lock.acquire(LockClaim(), PATIENT)
        assert bytes_held(lock) == [holder.pid]
        assert lock._threads.owner is None


def test_an_interrupt_while_waiting_for_a_thread_leaves_the_queue(
    lock: WriterLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Gate:
        def acquire(self, timeout: float | None = None) -> bool:
            if timeout is not None:
                raise KeyboardInterrupt
            return True

    holding, letting_go = threading.Event(), threading.Event()

    def hold() -> None:
        with LockHeld(lock, PATIENT):
            holding.set()
            letting_go.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    holding.wait()
    with monkeypatch.context() as patched:
        patched.setattr("threadkeep.base.sqlite.lock.threading.Lock", Gate)
        with pytest.raises(KeyboardInterrupt):
            lock.acquire(LockClaim(), PATIENT)
    assert not lock._threads._waiting
    letting_go.set()
    thread.join()
    assert_free(lock)


@pytest.mark.parametrize("step", ["_join_threads", "_look_after_file", "_try_lock", "_enqueue"])
def test_an_interrupt_at_any_step_leaves_the_lock_free(
    lock: WriterLock, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    original: Callable[..., object] = getattr(lock, step)

    def run_then_interrupt(*args: object) -> None:
        original(*args)
        raise KeyboardInterrupt

    lock._until_look = 0
    with monkeypatch.context() as patched:
        if step == "_enqueue":
            patched.setattr(lock_module, "_in_the_way", lambda *_: 1)
        patched.setattr(lock, step, run_then_interrupt)
        with pytest.raises(KeyboardInterrupt):
            lock.acquire(LockClaim(), PATIENT)
    assert_free(lock)


def test_a_handover_to_a_thread_that_gives_up_is_kept(
    lock: WriterLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder lets go in the moment between the time-out and the waiter's last look."""
    first, second = LockClaim(), LockClaim()
    lock._threads.acquire(first, PATIENT)

    class Gate:
        def acquire(self, timeout: float | None = None) -> bool:
            if timeout is not None:
                lock._threads.release(first)
                return False
            return True

        def release(self) -> None:
            pass

    with monkeypatch.context() as patched:
        patched.setattr("threadkeep.base.sqlite.lock.threading.Lock", Gate)
        assert lock._threads.acquire(second, 0)
    assert lock._threads.owner is second
    lock._threads.release(second)


# ---------------------------------------------------------------------- followers


def test_followers_are_seen_across_processes_until_they_leave(lock: WriterLock, path: Path) -> None:
    with Child(FOLLOWER, path) as child:
        assert not lock.followed()
        for word, seen in [("follow", True), ("follow", True), ("unfollow", True)]:
            child.tell(word)
            child.expect(word)
            assert lock.followed() is seen
        child.tell("unfollow")
        child.expect("unfollow")
        assert not lock.followed()
        child.tell("follow")
        child.expect("follow")
        assert lock.followed()
        child.kill()
        assert not lock.followed()


def test_followers_of_this_process_are_counted(lock: WriterLock, path: Path) -> None:
    lock.follow()
    lock.follow()
    lock.unfollow()
    assert lock.followed()
    lock.unfollow()
    assert not lock.followed()
    lock.unfollow()  # one too many, as after a fork
    lock.follow()
    assert lock.followed()
    lock.unfollow()


def test_following_does_not_keep_writers_out(lock: WriterLock, path: Path) -> None:
    with Child(FOLLOWER, path) as child:
        child.tell("follow")
        child.expect("follow")
        lock.follow()
        with LockHeld(lock, 0):
            assert lock.followed()
        assert lock.followed()
        lock.unfollow()


# ---------------------------------------------------------------------- forks


def test_a_forked_child_does_not_hold_its_parents_lock(lock: WriterLock, path: Path) -> None:
    def try_it() -> None:
        own = lock_for(path)
        assert own is not lock
        assert own.holder() is not None
        with pytest.raises(Busy, match=f"process {parent} "):
            own.acquire(LockClaim(), 0)

    parent = os.getpid()
    turn = LockClaim()
    lock.acquire(turn, PATIENT)
    assert exit_code(fork(try_it)) == 0
    assert lock.held_by(turn)
    assert bytes_held(lock) == [parent]
    lock.release(turn)


def test_a_forked_child_can_take_the_lock_that_is_free(lock: WriterLock, path: Path) -> None:
    def take_it() -> None:
        with LockHeld(lock_for(path), 0):
            assert lock_holders(lock.path, "WRITE", 0, 0) == [os.getpid()]

    assert exit_code(fork(take_it)) == 0
    with LockHeld(lock, 0):
        pass


# ---------------------------------------------------------------------- the lock file


def test_writers_meet_again_after_the_lock_file_was_removed(lock: WriterLock, path: Path) -> None:
    with LockHeld(lock, 0):
        pass
    lock.path.unlink()
    with Child(HOLDER, path) as holder:
        holder.expect("held")
        refused = 0
        for _ in range(lock_module._LOOK_EVERY + 1):
            turn = LockClaim()
            try:
                lock.acquire(turn, 0)
            except Busy:
                refused += 1
            lock.release(turn)
        assert refused == 1
        assert holder.pid in bytes_held(lock)


def test_followers_move_to_the_new_lock_file(lock: WriterLock, path: Path) -> None:
    script = FOLLOWER.replace("getattr(lock, word)()\n    say(word)", "say(str(lock.followed()))")
    lock.follow()
    lock.path.unlink()
    with Child(script, path) as child:
        child.tell("followed")
        child.expect("False")
        lock._until_look = 0
        with LockHeld(lock, 0):
            pass
        child.tell("followed")
        child.expect("True")
    lock.unfollow()


def test_a_lock_in_a_folder_that_is_gone_is_refused(lock: WriterLock, path: Path) -> None:
    lock.path.unlink()
    path.parent.rmdir()
    lock._until_look = 0
    with pytest.raises(ReadOnly, match="cannot create the lock file"):
        lock.acquire(LockClaim(), 0)
    path.parent.mkdir()
    with LockHeld(lock, 0):
        assert lock.path.exists()


def test_one_process_has_one_lock_for_a_file_by_whatever_name(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    (tmp_path / "folder" / "b.db").symlink_to("a.db")
    names = ["folder/a.db", "link/a.db", "folder/b.db"]
    locks = [lock_for(tmp_path / name) for name in names]
    assert len({id(lock) for lock in locks}) == 1
    for lock in locks:
        let_go(lock)
    assert locks[0] not in all_locks()


def test_closed_databases_leave_no_descriptor_open(tmp_path: Path) -> None:
    if not Path("/proc/self/fd").exists():
        cannot_run("needs Linux's /proc")
    for number in range(20):
        with (
            SqliteDatabase(tmp_path / f"{number}.db", {}) as one,
            SqliteDatabase(one.path, {}) as two,
        ):
            two.follow()
    open_files = [os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()]
    assert [name for name in open_files if str(tmp_path) in name] == []
    assert [lock for lock in all_locks() if lock.path.parent == tmp_path] == []


def test_a_lock_that_was_closed_is_refused(path: Path) -> None:
    lock = lock_for(path)
    let_go(lock)
    with pytest.raises(Closed, match=r"a\.db was closed"):
        lock.acquire(LockClaim(), 0)
    assert lock._threads.owner is None
    again = lock_for(path)
    assert again is not lock
    let_go(again)


def test_a_lock_that_another_thread_still_has_is_not_closed(path: Path) -> None:
    lock = lock_for(path)
    holding, letting_go = threading.Event(), threading.Event()

    def hold() -> None:
        with LockHeld(lock, PATIENT):
            holding.set()
            letting_go.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    holding.wait()
    let_go(lock)
    assert lock_for(path) is lock
    letting_go.set()
    thread.join()
    let_go(lock)
    assert lock not in all_locks()
