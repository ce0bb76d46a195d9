"""threadkeep.testing, as others use it: its page is true, and it needs no pytest to be imported."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPO
from tests.test_docs import output_of, python_blocks
from threadkeep.testing import FACTORIES, ManualClock, contents, raw

FACTORY, PLUGIN, TEST, ENGINE = python_blocks(REPO / "docs" / "testing.md")


def run_pytest(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_example_of_the_factories_runs(tmp_path: Path) -> None:
    assert output_of(FACTORY, tmp_path) == ["1 message", "True", "[{'parts': 1}]"]


def test_the_plugin_gives_its_fixtures_to_a_test_of_others(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(PLUGIN)
    (tmp_path / "test_agent.py").write_text(TEST)
    assert "1 passed" in run_pytest(tmp_path)


def test_an_engine_that_is_added_is_one_more_run_of_a_suite(tmp_path: Path) -> None:
    (tmp_path / "my_engine.py").write_text(ENGINE)
    suite = REPO / "tests" / "contracts" / "chat" / "test_diff.py"
    where = f"pythonpath={REPO / 'src'} {REPO} {tmp_path}"
    shown = run_pytest(REPO, "-o", where, "-p", "my_engine", str(suite), "-k", "fork_shares")
    assert "2 passed" in shown


def test_importing_it_does_not_load_pytest() -> None:
    code = "import sys, threadkeep.testing; sys.exit('pytest' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("contract", sorted(FACTORIES["sqlite"]))
def test_every_factory_opens_reopens_and_takes_away(contract: str) -> None:
    with FACTORIES["sqlite"][contract](ManualClock(step=0)) as factory:
        first, second = factory.open(), factory.open()
        assert factory.place(first) != factory.place(second)
        again = factory.reopen(first)
        assert factory.place(again) == factory.place(first)
        assert contents(first) == contents(again)
        with raw(first) as other:
            assert other.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        place = Path(factory.place(first))
    assert not place.exists()


def test_time_goes_by_when_told_to() -> None:
    clock = ManualClock(1000, step=0)
    clock.forward(2, days=1)
    assert (clock(), clock.seconds()) == (86_403_000, 86_403.0)
