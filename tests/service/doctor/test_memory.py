"""What the watchdog remembers: when the machine slept, and which drops are new."""

import pytest
from hypothesis import given, strategies as st

from threadkeep.knowledge.health import Drop
from threadkeep.service.doctor.watchdog_memory import (
    DoctorState,
    awake_since,
    lost_lately,
    read_memory,
    sample_drops,
    unclear_lately,
    write_memory,
)

NOW = 1_800_000_000_000
MINUTE = 60_000
HOUR = 60 * MINUTE


def after(passed: int, counted: int, up_since: int | None = None, awake: int = 0) -> int:
    """Look again after so many milliseconds, of which the machine counted so many."""
    memory = DoctorState(at=NOW, monotonic_ms=5 * HOUR, awake_since=awake)
    resident = up_since is not None
    return awake_since(memory, NOW + passed, 5 * HOUR + counted, up_since, resident=resident)


def test_a_night_asleep_is_a_new_beginning() -> None:
    assert after(8 * HOUR, 2_000) == NOW + 8 * HOUR


def test_a_restart_of_the_machine_is_one_too() -> None:
    assert after(MINUTE, -4 * HOUR) == NOW + MINUTE


def test_who_is_awake_all_the_time_keeps_the_beginning() -> None:
    assert after(30_000, 30_000, awake=NOW - HOUR) == NOW - HOUR
    assert after(8 * HOUR, 8 * HOUR) == 0  # nobody looked, but everybody was awake


@pytest.mark.parametrize("passed", [HOUR, MINUTE])
def test_a_process_that_was_stopped_begins_anew(passed: int) -> None:
    """What changed while it was stopped is older than our patience, and nobody is to blame."""
    assert after(passed, passed, up_since=NOW - HOUR) == NOW + passed


def test_a_look_that_is_a_little_late_is_no_standstill() -> None:
    assert after(40_000, 40_000, up_since=NOW - HOUR) == NOW - HOUR


@given(st.integers(-HOUR, 100 * HOUR), st.integers(-HOUR, 100 * HOUR))
def test_nobody_is_awake_only_from_the_future_on(passed: int, counted: int) -> None:
    assert after(passed, counted, awake=NOW) <= NOW + passed


def test_the_first_look_of_all_knows_what_it_is_told() -> None:
    assert awake_since(DoctorState(), NOW, 0, None) == 0
    assert awake_since(DoctorState(), NOW, 0, NOW - 5) == NOW - 5


@given(st.text())
def test_any_memory_can_be_read(text: str) -> None:
    assert isinstance(read_memory(text, NOW), DoctorState)


def test_memory_survives_being_written() -> None:
    memory = DoctorState(at=NOW, logs={}, drops=sample_drops(DoctorState(), [drop("x", 1)], NOW))
    assert read_memory(write_memory(memory), NOW) == memory
    assert read_memory(write_memory(memory), NOW - 1000) == memory
    assert read_memory(write_memory(memory), NOW - 2 * 86_400_000) == DoctorState()  # it was ahead
    assert read_memory(None, NOW) == DoctorState()


def test_a_service_that_began_later_than_now_has_been_awake() -> None:
    before = DoctorState(at=NOW - 1000, monotonic_ms=0, awake_since=NOW - 5000)
    assert awake_since(before, NOW, 1000, NOW + 86_400_000) == NOW - 5000


# ---------------------------------------------------------------------- drops


def drop(reason: str, count: int, source: str = "socket") -> Drop:
    return Drop(source, reason, count, NOW)


def remembering(*drops: Drop, at: int = NOW) -> DoctorState:
    return DoctorState(at=at, drops=sample_drops(DoctorState(), drops, at))


def test_only_what_is_lost_since_then_counts() -> None:
    memory = remembering(drop("spool", 5))
    assert lost_lately(memory, [drop("spool", 5)], NOW + MINUTE) == ()
    (lost,) = lost_lately(memory, [drop("spool", 7)], NOW + MINUTE)
    assert (lost.source, lost.reason, lost.count) == ("socket", "spool", 2)


def test_a_new_reason_counts_from_zero_and_a_first_look_counts_nothing() -> None:
    (lost,) = lost_lately(remembering(), [drop("unreadable", 3)], NOW + MINUTE)
    assert lost.count == 3
    assert lost_lately(DoctorState(), [drop("unreadable", 3)], NOW) == ()


def test_what_the_user_keeps_out_is_not_lost() -> None:
    assert lost_lately(remembering(), [drop("excluded", 99, "shell")], NOW + MINUTE) == ()


def test_a_loss_is_over_after_five_minutes_without_another() -> None:
    memory = remembering(drop("spool", 5))
    for minute in range(1, 8):
        now = NOW + minute * MINUTE
        drops = [drop("spool", 6)]
        lost = lost_lately(memory, drops, now)
        assert bool(lost) == (minute <= 5)
        memory = DoctorState(at=now, drops=sample_drops(memory, drops, now))


def test_what_was_not_understood_is_counted_by_the_hour() -> None:
    memory = remembering(drop("not understood", 1, "spool"))
    drops = [drop("not understood", 5, "spool"), drop("excluded", 99, "shell")]
    unclear = unclear_lately(memory, drops, 100, NOW + MINUTE)
    assert unclear is not None
    assert (unclear.refused, unclear.stored) == (4, 100)
    assert unclear_lately(memory, [drop("excluded", 99)], 100, NOW + MINUTE) is None


@given(st.lists(st.integers(1, 20 * MINUTE), max_size=200))
def test_little_is_remembered_of_drops(steps: list[int]) -> None:
    memory, now = DoctorState(), NOW
    for step in steps:
        now += step
        memory = DoctorState(at=now, drops=sample_drops(memory, [drop("spool", 1)], now))
    assert len(memory.drops) <= 62
    assert all(now - one.at <= HOUR + MINUTE for one in memory.drops)
