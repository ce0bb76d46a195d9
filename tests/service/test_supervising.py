"""Parts that crash, wait and end: reported, started again, and none of them hurts another."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from threadkeep.base.database import Database
from threadkeep.errors import Busy, Closed, StorageFull
from threadkeep.knowledge.health import ServicePartState, part_states
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.service.supervisor import (
    Bell,
    Books,
    ServicePart,
    pause_after,
    regularly,
    slept_for,
    start_all,
    supervise,
)

SECONDS = st.floats(0, 1e9)


class FakeTime:
    """A clock that moves when somebody waits, and a bell that stops after so many waits."""

    def __init__(self, waits: int) -> None:
        self.now = 1000.0
        self.waited: list[float] = []
        self.stop = threading.Event()
        self._left = waits

    def wait(self, seconds: float | None) -> bool:
        assert seconds is not None
        self.waited.append(round(seconds, 3))
        self.now += seconds
        self._left -= 1
        if self._left <= 0:
            self.stop.set()
        return not self.stop.is_set()

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with KnowledgeStore.open(tmp_path / "knowledge.db") as store:
        yield store.context.db


def states(database: Database) -> dict[str, ServicePartState]:
    with database.read() as tx:
        return {state.part: state for state in part_states(tx)}


def failing(error: Exception) -> Callable[[object], None]:
    def run(_: object) -> None:
        raise error

    return run


def watch_over(part: ServicePart, database: Database, waits: int) -> tuple[FakeTime, list[str]]:
    said: list[str] = []
    fake, books = FakeTime(waits), Books(database, lambda: 5000, said.append)
    supervise(part, fake, books, monotonic=fake.monotonic)  # type: ignore[arg-type]
    books.save()
    return fake, said


# ---------------------------------------------------------------------- pure


@given(st.integers(-3, 5000), st.floats(0.001, 1e4), st.floats(0.001, 1e6))
def test_pauses_grow_and_have_an_end(failures: int, first: float, longest: float) -> None:
    pause = pause_after(failures, first, longest)
    assert min(first, longest) <= pause <= longest
    assert pause <= pause_after(failures + 1, first, longest)


@given(SECONDS, SECONDS)
def test_sleep_is_what_only_the_wall_clock_saw(awake: float, asleep: float) -> None:
    assert slept_for(awake + asleep, awake) == pytest.approx(asleep, abs=1e-3)
    assert slept_for(-asleep, awake) == 0


# ---------------------------------------------------------------------- one part


def test_a_crash_is_reported_kept_and_followed_by_a_new_start(database: Database) -> None:
    part = ServicePart("enrich", failing(ValueError("no such\n  thing")))
    fake, said = watch_over(part, database, waits=4)
    assert said == ["enrich: ValueError: no such thing"] * 4
    assert fake.waited == [1.0, 2.0, 4.0, 8.0]
    state = states(database)["enrich"]
    assert (state.crashes, state.restarts, state.last_crash_at) == (4, 3, 5000)
    assert state.last_error == "ValueError: no such thing"


def test_pauses_stop_growing_and_begin_anew_after_a_long_time(database: Database) -> None:
    fake = FakeTime(12)

    def run(_: object) -> None:
        if len(fake.waited) == 10:
            fake.now += 3600  # this time it worked for an hour
        raise OSError("broken")

    books = Books(database, lambda: 1, lambda _: None)
    part = ServicePart("ci", run, first_pause=2.0, longest_pause=30.0)
    supervise(part, fake, books, monotonic=fake.monotonic)  # type: ignore[arg-type]
    assert fake.waited == [2, 4, 8, 16, 30, 30, 30, 30, 30, 30, 2, 4]


@pytest.mark.parametrize("error", [Busy("locked by p"), StorageFull("no room on the disk")])
def test_a_lock_or_a_full_disk_is_waited_out_and_is_no_crash(
    database: Database, error: Exception
) -> None:
    _, said = watch_over(ServicePart("capture", failing(error)), database, waits=5)
    assert said == [f"capture waits: {error}"]
    state = states(database)["capture"]
    assert (state.crashes, state.waits_for) == (0, str(error))


def test_what_was_waited_for_is_forgotten_once_the_part_works(database: Database) -> None:
    now = 1_000_000
    books = Books(database, lambda: now, lambda _: None)
    books.starts("capture", 0)
    books.waits("capture", Busy("locked"))
    now += 3_600_000
    books.settle()
    books.save()
    assert states(database)["capture"].waits_for == "locked"  # it rests, it does not work
    books.starts("capture", 1)
    now += 61_000
    books.settle()
    books.save()
    assert states(database)["capture"].waits_for is None


def test_a_part_that_ends_by_itself_is_started_again(database: Database) -> None:
    _, said = watch_over(ServicePart("odd", lambda _: None), database, waits=2)
    assert said == ["odd: it stopped unexpectedly"] * 2


def test_counts_of_crashes_survive_the_process(database: Database) -> None:
    watch_over(ServicePart("x", failing(KeyError("k"))), database, waits=2)
    watch_over(ServicePart("x", failing(KeyError("k"))), database, waits=1)
    state = states(database)["x"]
    assert (state.crashes, state.restarts) == (3, 0)


def test_a_store_that_is_closed_at_the_end_is_no_crash(database: Database) -> None:
    said: list[str] = []
    bell = Bell(threading.Event())
    books = Books(database, lambda: 1, said.append)

    def run(given: Bell) -> None:
        given.stop.set()
        raise Closed("it was closed")

    supervise(ServicePart("late", run), bell, books)
    assert said == []


def test_a_store_that_takes_nothing_hears_of_the_crash_later(database: Database) -> None:
    said: list[str] = []
    books = Books(database, lambda: 7, said.append)
    books.starts("p", 0)
    holding, go = threading.Event(), threading.Event()

    def hold() -> None:
        with database.write():
            holding.set()
            go.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    holding.wait()
    books.crashed("p", ValueError("v"))
    with pytest.raises(Busy):
        books.save()
    go.set()
    holder.join()
    books.save()
    assert states(database)["p"].crashes == 1


# ---------------------------------------------------------------------- side by side


def test_one_that_always_crashes_does_not_disturb_the_others(database: Database) -> None:
    stop = threading.Event()
    bell, rounds = Bell(stop), []

    def work() -> None:
        rounds.append(1)
        if len(rounds) == 50:
            stop.set()

    parts = [
        ServicePart("bad", failing(MemoryError()), first_pause=0.0, longest_pause=0.0),
        ServicePart("good", regularly(0.0, work)),
    ]
    for thread in start_all(parts, bell, Books(database, lambda: 1, lambda _: None)):
        thread.join()
    assert len(rounds) == 50


def test_the_bell_wakes_everybody_before_their_time() -> None:
    stop = threading.Event()
    bell, looks = Bell(stop), threading.Semaphore(0)
    run = regularly(3600.0, looks.release)
    threads = [threading.Thread(target=run, args=(bell,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        assert looks.acquire(timeout=60)
    for _ in range(3):  # whoever does not wait yet hears the next one
        bell.ring()
        while not looks.acquire(timeout=0.01):
            bell.ring()
    stop.set()
    bell.ring()
    for thread in threads:
        thread.join()
