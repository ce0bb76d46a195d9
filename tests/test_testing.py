"""threadkeep.testing, as others use it: its page is true, and it needs no pytest to be imported."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPO
from tests.test_docs import output_of, python_blocks
from threadkeep.testing import FACTORIES, ManualClock, contents, raw

PAGE = REPO / "docs" / "testing.md"
FACTORY, PLUGIN, TEST, HERMES, ENGINE = python_blocks(PAGE)
SUITES = REPO / "src" / "threadkeep" / "testing"
CONTRACTS = sorted(path.name for path in SUITES.glob("*_suite"))
# What the example of the page imports, where Hermes is not installed: our own session store, whose
# clock can be turned as Hermes's can.
OUR_HERMES = """
import time
from threadkeep.state import hermes_state


def SessionDB(db_path):
    return hermes_state.SessionDB(db_path, clock=lambda: time.time())
"""


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
    shown = run_pytest(
        REPO, "-o", where, "-p", "my_engine", str(suite), "-k", "fork_shares and small"
    )
    assert "1 passed" in shown


def test_the_example_runs_the_contract_of_session_stores(tmp_path: Path) -> None:
    (tmp_path / "hermes_state.py").write_text(OUR_HERMES)
    (tmp_path / "test_hermes.py").write_text(HERMES)
    assert len(HERMES.strip().splitlines()) <= 22
    where = f"pythonpath={REPO / 'src'} {tmp_path}"
    shown = run_pytest(tmp_path, "-o", where, "-p", "threadkeep.testing", "test_hermes.py")
    assert re.search(r"1\d\d passed", shown)


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


# ---------------------------------------------------------------------- the suites


def clauses(suite: str) -> dict[str, ast.FunctionDef]:
    """Return the tests of all modules of a suite, which must not share a name."""
    found: dict[str, ast.FunctionDef] = {}
    for path in sorted((SUITES / suite).glob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                assert node.name not in found
                found[node.name] = node
    return found


@pytest.mark.parametrize("suite", CONTRACTS)
def test_a_suite_gives_all_its_tests_to_whoever_imports_it(suite: str) -> None:
    module = importlib.import_module(f"threadkeep.testing.{suite}")
    given = {name for name, _ in inspect.getmembers(module, inspect.isfunction)}
    assert {name for name in given if name.startswith("test_")} == set(clauses(suite))
    assert f"threadkeep.testing.{suite}" in PAGE.read_text("utf-8")


@pytest.mark.parametrize("suite", CONTRACTS)
def test_every_test_of_a_suite_names_its_clause(suite: str) -> None:
    for name, node in clauses(suite).items():
        said = ast.get_docstring(node) or ""
        assert re.match(r"[A-Z§c][^:]+: \S.+\.$", said), f"{name}: which section says what?"


@pytest.mark.parametrize("suite", CONTRACTS)
def test_a_suite_knows_its_stores_by_a_factory_alone(suite: str) -> None:
    code = "".join(path.read_text("utf-8") for path in (SUITES / suite).glob("*.py"))
    parameters = set(re.findall(r"\w+", " ".join(re.findall(r'parametrize\(\s*"(.+?)"', code))))
    for name, node in clauses(suite).items():
        factory, *given = [argument.arg for argument in node.args.args]
        assert factory == suite.replace("_suite", "_factory"), name
        assert set(given) <= parameters, name
