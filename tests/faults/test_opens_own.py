"""Nobody but SQLite opens a live database: closing it would drop this process's locks on it."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import need_tool
from tests.faults.tools import CHAT, STATE, Store

pytestmark = pytest.mark.faults

# The database and its sidecars, but neither the lock file nor a backup.
LIVE = re.compile(r'open(?:at)?\(.*"[^"]*/live\.db(?:-wal|-shm|-journal)?", (\S+)')
STORES = {"chat": CHAT, "state": STATE}
WRITTEN = ("write", "--n", "1", "--iter", "1")
OLD = ("old", "--version", "2")


def run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True)


@pytest.mark.parametrize("store", STORES.values(), ids=STORES)
@pytest.mark.parametrize("before", [WRITTEN, OLD], ids=["of today", "old"])
@pytest.mark.parametrize("words", [("write", "--n", "2"), ("verify",), ("migrate",)], ids=" ".join)
def test_every_open_of_a_live_database_is_sqlite_s_own(
    tmp_path: Path, store: Store, before: tuple[str, ...], words: tuple[str, ...]
) -> None:
    database, trace = str(tmp_path / "live.db"), tmp_path / "trace"
    watched = [need_tool("strace"), "-f", "-qq", "-o", str(trace), "-e", "trace=open,openat"]
    run(store.command(*before, "--db", database))
    run([*watched, *store.command(*words, "--iter", "2", "--db", database)])
    flags = LIVE.findall(trace.read_text(errors="replace"))
    assert len(flags) >= 3  # the database, its log and the index of the log
    assert [found for found in flags if "O_NOFOLLOW" not in found] == []
