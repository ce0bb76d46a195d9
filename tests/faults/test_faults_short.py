"""The fault tools against the chat store, in a form short enough for every test run.

`make faults` runs the long form. The tools are no part of this project: without them these tests
skip, and those in test_*_own.py remain.
"""

import pytest

from tests.faults import tools
from tests.faults.conftest import Check

pytestmark = [pytest.mark.faults, pytest.mark.slow]


@pytest.mark.parametrize(
    "run",
    [tools.kill9(5, seed=101), tools.kill9(3, writers=4, seed=102)],
    ids=["one writer", "one of four"],
)
def test_kill_loses_nothing_that_was_acknowledged(run: tools.Run, check: Check) -> None:
    check(run)


def test_power_cut_loses_nothing_before_the_last_durable_boundary(check: Check) -> None:
    check(tools.powerloss(3, seed=103))


@pytest.mark.parametrize("limit", [False, True], ids=["tmpfs", "file-size limit"])
def test_full_disk_refuses_loses_nothing_and_goes_on_with_room(
    check: Check, *, limit: bool
) -> None:
    check(tools.diskfull(1, limit=limit, kilobytes=1024, seed=104))


@pytest.mark.parametrize(
    "words",
    [
        ("--outsider",),
        ("--long-reader", "--peak-wal-mb", "64"),
        ("--checkpointer", "TRUNCATE"),
    ],
    ids=["outsider", "long reader", "checkpointer"],
)
def test_eight_processes_from_a_cold_start(check: Check, words: tuple[str, ...]) -> None:
    check(tools.concurrency("say", "--each", "20", *words))


@pytest.mark.parametrize(
    "run",
    [
        tools.migcrash((0,), "syscall", "--twice", "--max-points", "2"),
        tools.migcrash((3,), "error", "--errno", "ENOSPC", "--max-points", "2"),
    ],
    ids=["killed twice", "disk full"],
)
def test_upgrade_survives_a_stop_at_any_system_call(run: tools.Run, check: Check) -> None:
    check(run)


def test_hostile_input_comes_back_unchanged_or_is_refused(check: Check) -> None:
    check(tools.hostile())


def test_damaged_files_are_never_read_as_sound(check: Check) -> None:
    check(tools.tear(18, seed=105))
