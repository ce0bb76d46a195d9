"""What the short fault tests of every store share: a run of a fault tool that must pass."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import cannot_run
from tests.faults import tools

Check = Callable[[tools.Run], str]


@pytest.fixture
def fault_tools(shared_data: Path) -> Path:
    """Return the folder of the fault tools, which are optional data."""
    folder = shared_data / "faults"
    if not folder.is_dir():
        pytest.skip(f"needs the fault tools in {folder}; set THREADKEEP_SHARED to their parent")
    return folder


@pytest.fixture
def check(fault_tools: Path, tmp_path: Path) -> Check:
    """Return the function that makes a run, which must pass, and gives what the tool printed."""

    def make(run: tools.Run) -> str:
        reason = tools.missing(run, tmp_path)
        if reason:
            cannot_run(reason)
        outcome = tools.run(run, tmp_path / "work")
        print(outcome.line())
        assert outcome.passed, f"{run.name}\n{outcome.output}"
        return outcome.output

    return make
