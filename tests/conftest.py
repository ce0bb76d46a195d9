"""What all tests share: the report header, the hypothesis profile, optional tools and data."""

import gc
import os
import platform
import shutil
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import HealthCheck, settings

from tests.lengths import at_length
from threadkeep.testing import FACTORIES, StoreFactory

pytest_plugins = ["threadkeep.testing"]

REPO = Path(__file__).resolve().parent.parent
IN_CI = os.environ.get("CI", "").lower() in {"1", "true", "yes"}

# Timing never decides a test: no deadlines, and a slow machine is not an unhealthy strategy.
# Fifteen examples: what hundreds of properties get in one run is new in the next.
settings.register_profile(
    "threadkeep",
    max_examples=at_length(100, 15),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile("threadkeep")

# A shell that starts the tests in the background has them ignore Ctrl-C, and so would every program
# that they start; xdist runs tests in the main thread of each worker, which imports this file.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> str:
    """Name the two versions that explain most differences between machines."""
    return f"threadkeep: Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file without a fault test when these alone are asked for: thirty of hundreds."""
    if config.getoption("markexpr") != "faults" or collection_path.suffix != ".py":
        return None
    return None if "mark.faults" in collection_path.read_text(encoding="utf-8") else True


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give every test that asks for a store each engine that there is."""
    if "store_engine" in metafunc.fixturenames:
        from tests.support.engines import engines_of  # loads half of what there is

        engines = engines_of(metafunc.definition.path)
        metafunc.parametrize("store_engine", engines, scope="session", indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what an engine cannot have."""
    if any("store_engine" in getattr(item, "fixturenames", ()) for item in items):
        from tests.support.engines import leave_out

        leave_out(items)


def pytest_collection_finish() -> None:
    """Keep ten thousand collected tests out of the garbage collector's rounds."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests measured: `record_property("figure", …)` puts a line here."""
    reports = terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
    found = [text for one in reports for name, text in one.user_properties if name == "figure"]
    if found:
        terminalreporter.section("figures")
    for text in found:
        terminalreporter.write_line(str(text))


def need_tool(name: str) -> str:
    """Return the path of a program; without it skip the test, or fail it when CI=true."""
    path = shutil.which(name)
    if path is None:
        cannot_run(f"needs {name}, which is not here (`make test` as root on Debian installs it)")
    return path


def cannot_run(reason: str) -> NoReturn:
    """Skip the test with a reason, or fail it when CI=true: there nothing is skipped."""
    if IN_CI:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of optional test data: THREADKEEP_SHARED, else `shared` beside the repo."""
    named = os.environ.get("THREADKEEP_SHARED")
    folder = Path(named) if named else REPO.parent / "shared"
    if folder.is_dir():
        return folder
    if named:
        pytest.fail(f"THREADKEEP_SHARED names {folder}, which is not a folder", pytrace=False)
    pytest.skip("needs the optional test data; set THREADKEEP_SHARED to its folder")


@pytest.fixture(scope="session")
def store_engine(request: pytest.FixtureRequest) -> str:
    """Name the engine whose stores are made; a server is started for the first that needs it."""
    engine = str(request.param)
    if engine == "postgres":
        from tests.support.postgres_stores import use_server

        use_server(request.getfixturevalue("server_url"))
    return engine


@pytest.fixture(scope="module")
def lasting_factory(store_engine: str) -> Iterator[StoreFactory[Any]]:
    """Make knowledge stores that last for a whole file of tests."""
    with FACTORIES[store_engine]["knowledge"]() as factory:
        yield factory


@pytest.fixture(scope="session")
def server_place(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[str]:
    """Give the connection string of the PostgreSQL server of the run, started when it is needed."""
    from tests.support.postgres import running_server

    folder = tmp_path_factory.getbasetemp()
    with running_server(folder if worker_id == "master" else folder.parent) as place:
        yield place


@pytest.fixture(scope="session")
def server_url(server_place: str, worker_id: str) -> str:
    """Return the URL of a database of its own for each process of the run; add `home=` to it."""
    from tests.support.postgres import fresh_database

    return fresh_database(server_place, f"tests_{worker_id}")
