"""The fault tools against capture, in a form short enough for every test run.

`make faults` runs the long form. The tools are no part of this project: without them these tests
skip, and those in the other test_capture_*.py remain.
"""

import re

import pytest

from tests.faults import tools
from tests.faults.conftest import Check
from tests.faults.tools import CAPTURE

pytestmark = [pytest.mark.faults, pytest.mark.slow]


@pytest.mark.parametrize(
    "run",
    [
        tools.kill9(3, mode="own", seed=511, store=CAPTURE),
        tools.kill9(2, writers=4, mode="shared", seed=512, store=CAPTURE),
    ],
    ids=["one writer", "one of four"],
)
def test_kill_loses_nothing_that_was_acknowledged(run: tools.Run, check: Check) -> None:
    check(run)


def test_power_cut_loses_nothing_that_was_acknowledged(check: Check) -> None:
    check(tools.powerloss(2, mode="own", longest=1500, seed=513, store=CAPTURE))


@pytest.mark.parametrize("limit", [False, True], ids=["tmpfs", "file-size limit"])
def test_full_disk_refuses_stays_readable_and_goes_on_with_room(
    check: Check, *, limit: bool
) -> None:
    run = tools.diskfull(1, limit=limit, mode="own", kilobytes=2048, seed=514, store=CAPTURE)
    output = check(run)
    assert re.search(r"disk really filled in 1", output), output
    assert re.search(r"unreadable while full +0$", output, re.MULTILINE), output


@pytest.mark.parametrize("mode", ["own", "shared"])
def test_eight_processes_from_a_cold_start(check: Check, mode: str) -> None:
    check(tools.concurrency(mode, "--each", "5", "--outsider", store=CAPTURE))


def test_hostile_logs_are_kept_as_they_are(check: Check) -> None:
    check(tools.hostile(CAPTURE))


def test_damaged_files_are_never_read_as_sound(check: Check) -> None:
    check(tools.tear(9, mode="own", seed=515, store=CAPTURE))
