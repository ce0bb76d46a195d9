"""Nobody but SQLite opens a live database: closing it would drop this process's locks on it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import need_tool
from tests.faults import tools

pytestmark = pytest.mark.faults

ADAPTER = str(tools.HERE / "chat_adapter.py")
# The database and its sidecars, but neither the lock file nor a backup.
LIVE = re.compile(r'open(?:at)?\(.*"[^"]*/live\.db(?:-wal|-shm|-journal)?", (\S+)')


@pytest.mark.parametrize(
    "command", [("write", "--n", "2"), ("verify",), ("migrate",)], ids=" ".join
)
def test_every_open_of_a_live_database_is_sqlite_s_own(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    strace = need_tool("strace")
    database, trace = tmp_path / "live.db", tmp_path / "trace"
    subprocess.run(
        [sys.executable, ADAPTER, "write", "--n", "1", "--iter", "1", "--db", str(database)],
        check=True,
        capture_output=True,
    )
    subprocess.run(
        [
            *(strace, "-f", "-qq", "-o", str(trace), "-e", "trace=open,openat"),
            *(sys.executable, ADAPTER, *command, "--iter", "2", "--db", str(database)),
        ],
        check=True,
        capture_output=True,
    )
    flags = LIVE.findall(trace.read_text(errors="replace"))
    assert len(flags) >= 3  # the database, its log and the index of the log
    assert [found for found in flags if "O_NOFOLLOW" not in found] == []
