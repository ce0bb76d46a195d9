"""The fault tools against the mailbox, in a form short enough for every test run.

`make faults` runs the long form. The tools are no part of this project: without them these tests
skip, and those in test_mail_exchange.py remain.
"""

import re

import pytest

from tests.faults import tools
from tests.faults.conftest import Check
from tests.faults.mail_old_files import INBOUND_VERSIONS, OUTBOUND_VERSIONS
from tests.faults.tools import MAIL

pytestmark = [pytest.mark.faults, pytest.mark.slow]


@pytest.mark.parametrize(
    "run",
    [
        tools.kill9(4, mode="both", seed=301, store=MAIL),
        tools.kill9(2, writers=4, mode="both", seed=302, store=MAIL),
    ],
    ids=["one writer", "one of four"],
)
def test_kill_loses_nothing_that_was_acknowledged(run: tools.Run, check: Check) -> None:
    check(run)


def test_power_cut_loses_nothing_that_was_acknowledged(check: Check) -> None:
    check(tools.powerloss(3, mode="both", seed=303, store=MAIL))


@pytest.mark.parametrize("limit", [False, True], ids=["tmpfs", "file-size limit"])
def test_full_disk_refuses_stays_readable_and_goes_on_with_room(
    check: Check, *, limit: bool
) -> None:
    run = tools.diskfull(1, limit=limit, mode="both", kilobytes=1024, seed=304, store=MAIL)
    output = check(run)
    assert re.search(r"disk really filled in 1", output), output
    assert re.search(r"unreadable while full +0$", output, re.MULTILINE), output


@pytest.mark.parametrize("mode", ["send", "both"])
def test_eight_processes_from_a_cold_start(check: Check, mode: str) -> None:
    check(tools.concurrency(mode, "--each", "8", "--outsider", store=MAIL))


# Two points of some versions here, every point of every version in the long form.
@pytest.mark.parametrize("version", [INBOUND_VERSIONS[0], OUTBOUND_VERSIONS[0]])
def test_upgrade_survives_two_kills_at_any_system_call(check: Check, version: int) -> None:
    words = ("--twice", "--max-points", "2")
    check(tools.migcrash((version,), "syscall", *words, store=MAIL))


def test_hostile_input_comes_back_unchanged_or_is_refused(check: Check) -> None:
    check(tools.hostile(MAIL))


@pytest.mark.parametrize("mode", ["ordered", "ordered-in"])
def test_damaged_files_are_never_read_as_sound(check: Check, mode: str) -> None:
    output = check(tools.tear(9, mode=mode, seed=305, store=MAIL))
    assert "main flip" in output, output
