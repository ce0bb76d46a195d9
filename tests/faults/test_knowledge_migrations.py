"""The fault tools against the upgrade of knowledge files, in a form short enough for every run.

Every step is stopped in turn: by a kill at some system call, twice, and by a full disk. What needs
no tool is in tests/contracts/knowledge/sqlite/test_migrations.py: a crash at every statement.
"""

import pytest

from tests.faults import tools
from tests.faults.conftest import Check
from tests.faults.tools import KNOWLEDGE, NEWEST_KNOWLEDGE

pytestmark = [pytest.mark.faults, pytest.mark.slow]


# Two points of some versions here, every point in the long form.
@pytest.mark.parametrize("version", [1, 16])
def test_upgrade_survives_two_kills_at_any_system_call(check: Check, version: int) -> None:
    words = ("--twice", "--max-points", "2")
    check(tools.migcrash((version,), "syscall", *words, store=KNOWLEDGE))


@pytest.mark.parametrize("version", [6, 17])
def test_upgrade_survives_a_full_disk_at_any_system_call(check: Check, version: int) -> None:
    words = ("--errno", "ENOSPC", "--max-points", "2")
    check(tools.migcrash((version,), "error", *words, store=KNOWLEDGE))


def test_the_way_from_18_to_23_survives_two_kills(check: Check) -> None:
    words = ("--twice", "--max-points", "2")
    check(tools.migcrash((18,), "syscall", *words, store=NEWEST_KNOWLEDGE))
