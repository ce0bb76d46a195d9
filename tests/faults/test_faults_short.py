"""The fault tools against the chat store, in a form short enough for every test run.

`make faults` runs the long form. The tools are no part of this project: without them these tests
skip, and those in test_*_own.py remain.
"""

from pathlib import Path

import pytest

from tests.conftest import need_tool
from tests.faults import tools

pytestmark = [pytest.mark.faults, pytest.mark.slow]


@pytest.fixture(autouse=True)
def fault_tools(shared_data: Path) -> Path:
    folder = shared_data / "faults"
    if not folder.is_dir():
        pytest.skip(f"needs the fault tools in {folder}; set THREADKEEP_SHARED to their parent")
    return folder


def check(run: tools.Run, tmp_path: Path) -> None:
    outcome = tools.run(run, tmp_path / "work")
    print(outcome.line())
    assert outcome.passed, f"{run.name}\n{outcome.output}"


@pytest.mark.parametrize(
    "run",
    [tools.kill9(25, seed=101), tools.kill9(15, writers=4, seed=102)],
    ids=["one writer", "one of four"],
)
def test_kill_loses_nothing_that_was_acknowledged(run: tools.Run, tmp_path: Path) -> None:
    check(run, tmp_path)


def test_power_cut_loses_nothing_before_the_last_durable_boundary(tmp_path: Path) -> None:
    if not tools.can_mount(tmp_path, "ext4"):
        pytest.skip("needs root and loop mounts to cut the power of a file system")
    check(tools.powerloss(8, seed=103), tmp_path)


@pytest.mark.parametrize("limit", [False, True], ids=["tmpfs", "file-size limit"])
def test_full_disk_refuses_loses_nothing_and_goes_on_with_room(
    tmp_path: Path, *, limit: bool
) -> None:
    if not limit and not tools.can_mount(tmp_path, "tmpfs"):
        pytest.skip("needs root to mount a small tmpfs")
    check(tools.diskfull(4, limit=limit, kilobytes=2048, seed=104), tmp_path)


@pytest.mark.parametrize(
    "words",
    [
        ("--outsider",),
        ("--long-reader", "--peak-wal-mb", "64"),
        ("--checkpointer", "TRUNCATE"),
    ],
    ids=["outsider", "long reader", "checkpointer"],
)
def test_eight_processes_from_a_cold_start(tmp_path: Path, words: tuple[str, ...]) -> None:
    check(tools.concurrency("say", "--each", "40", *words), tmp_path)


@pytest.mark.parametrize(
    "run",
    [
        tools.migcrash((0, 3), "syscall", "--twice", "--max-points", "5"),
        tools.migcrash((0,), "error", "--errno", "ENOSPC", "--max-points", "6"),
    ],
    ids=["killed twice", "disk full"],
)
def test_upgrade_survives_a_stop_at_any_system_call(run: tools.Run, tmp_path: Path) -> None:
    need_tool("strace")
    check(run, tmp_path)


def test_hostile_input_comes_back_unchanged_or_is_refused(tmp_path: Path) -> None:
    check(tools.hostile(), tmp_path)


def test_damaged_files_are_never_read_as_sound(tmp_path: Path) -> None:
    check(tools.tear(90, seed=105), tmp_path)
