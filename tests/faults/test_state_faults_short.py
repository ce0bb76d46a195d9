"""The fault tools against the session store, in a form short enough for every test run.

`make faults` runs the long form. The tools are no part of this project: without them these tests
skip, and those in test_state_faults_own.py remain.
"""

import re

import pytest

from tests.faults import tools
from tests.faults.conftest import Check
from tests.faults.old_state_files import WITHOUT_INDEX
from tests.faults.tools import STATE

pytestmark = [pytest.mark.faults, pytest.mark.slow]


@pytest.mark.parametrize(
    "run",
    [
        tools.kill9(4, mode="turns", seed=201, store=STATE),
        tools.kill9(2, writers=4, mode="turns", seed=202, store=STATE),
    ],
    ids=["one writer", "one of four"],
)
def test_kill_loses_nothing_that_was_acknowledged(run: tools.Run, check: Check) -> None:
    check(run)


def test_power_cut_loses_nothing_that_was_acknowledged(check: Check) -> None:
    check(tools.powerloss(3, mode="turns", seed=203, store=STATE))


@pytest.mark.parametrize("limit", [False, True], ids=["tmpfs", "file-size limit"])
def test_full_disk_refuses_stays_readable_and_goes_on_with_room(
    check: Check, *, limit: bool
) -> None:
    run = tools.diskfull(1, limit=limit, mode="turns", kilobytes=1024, seed=204, store=STATE)
    output = check(run)
    assert re.search(r"disk really filled in 1", output), output
    assert re.search(r"unreadable while full +0$", output, re.MULTILINE), output


@pytest.mark.parametrize(
    "run",
    [
        tools.concurrency("say", "--each", "15", "--outsider", store=STATE),
        tools.concurrency(
            *("turns", "--each", "6", "--long-reader", "--peak-wal-mb", "64"), store=STATE
        ),
    ],
    ids=["outsider", "long reader"],
)
def test_eight_processes_from_a_cold_start(run: tools.Run, check: Check) -> None:
    check(run)


# Two points of some versions here, every point of every version in the long form.
@pytest.mark.parametrize("version", [1, 6])
def test_upgrade_survives_two_kills_at_any_system_call(check: Check, version: int) -> None:
    run = tools.migcrash((version,), "syscall", "--twice", "--max-points", "2", store=STATE)
    check(run)


@pytest.mark.parametrize("version", [3, WITHOUT_INDEX])
def test_upgrade_survives_a_full_disk_at_any_system_call(check: Check, version: int) -> None:
    words = ("--errno", "ENOSPC", "--max-points", "2")
    check(tools.migcrash((version,), "error", *words, store=STATE))


def test_hostile_input_comes_back_unchanged_or_is_refused(check: Check) -> None:
    check(tools.hostile(STATE))


def test_damaged_files_are_never_read_as_sound(check: Check) -> None:
    check(tools.tear(9, mode="say", seed=205, store=STATE))
