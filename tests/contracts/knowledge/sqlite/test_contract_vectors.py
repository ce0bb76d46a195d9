"""The contract's own table of vectors, where sqlite-vec can be loaded."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPO, cannot_run

_IN_A_PYTHON_THAT_CAN = """
import sys
from pathlib import Path
from tests.contracts.knowledge.sqlite.contract_vectors import run
run(Path(sys.argv[1]))
print("done")
"""


def python_that_loads_extensions() -> str:
    asks = "import sqlite3, sys; print(sys.version_info[:2], sqlite3.Connection.load_extension)"
    for python in (sys.executable, "/usr/bin/python3"):
        if Path(python).exists():
            shown = subprocess.run(
                [python, "-c", asks], capture_output=True, text=True, check=False
            )
            if shown.stdout.startswith(str(sys.version_info[:2])):
                return python
    return cannot_run("no Python of this version here can load SQLite's extensions")


def test_nodes_get_the_contracts_own_vectors_where_sqlite_vec_can_be_loaded(tmp_path: Path) -> None:
    pytest.importorskip("sqlite_vec", reason="needs the package sqlite-vec")
    packages = [path for path in sys.path if path.endswith("site-packages")]
    path = os.pathsep.join([str(REPO / "src"), str(REPO), *packages])
    shown = subprocess.run(
        [python_that_loads_extensions(), "-c", _IN_A_PYTHON_THAT_CAN, str(tmp_path / "k.db")],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (shown.stdout, shown.stderr) == ("done\n", "")
