"""The session store in trouble, without the fault tools: kills, forks, a full disk, live files."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import need_tool
from tests.faults import tools
from tests.faults.old_state_files import make_old_state
from tests.support.disks import fill, small_disk
from tests.support.states import open_state, talk
from threadkeep.errors import StorageFull
from threadkeep.state.session_db import SessionDB

pytestmark = pytest.mark.faults

ADAPTER = str(tools.HERE / "state_adapter.py")
# The database and its sidecars, but neither the lock file nor a backup.
LIVE = re.compile(r'open(?:at)?\(.*"[^"]*/live\.db(?:-wal|-shm|-journal)?", (\S+)')

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that can fork")


@contextmanager
def writing(path: Path, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """Start a writer; it is killed at the end of the block."""
    command = [sys.executable, ADAPTER, "write", "--db", str(path), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def acknowledged(process: "subprocess.Popen[str]", count: int) -> set[str]:
    """Listen until so many messages were acknowledged; give their keys."""
    keys: set[str] = set()
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("ACK "):
            keys.add(line.split()[1])
        if len(keys) >= count:
            break
    return keys


def run_python(script: str, path: Path, *before: str) -> None:
    """Run a script on a file, in a process of its own."""
    done = subprocess.run(
        [*before, sys.executable, "-c", script, str(path)],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tools.REPO / "src")},
    )
    assert done.returncode == 0, done.stderr


def keys_of(db: SessionDB) -> set[str]:
    return {
        message["tool_call_id"]
        for session in db.search_sessions(limit=-1)
        for message in db.iter_messages(session["id"])
        if message["tool_call_id"]
    }


@pytest.mark.parametrize("mode", ["turns", "say"])
def test_killed_in_full_flow_nothing_acknowledged_is_lost(tmp_path: Path, mode: str) -> None:
    path, said = tmp_path / "state.db", set[str]()
    for iteration in range(3):
        with writing(path, "--mode", mode, "--iter", str(iteration)) as process:
            said |= acknowledged(process, 5 + 20 * iteration)
        with open_state(path) as db:
            assert said <= keys_of(db)
            assert db.check() == []


def test_a_turn_is_stored_with_one_sync(tmp_path: Path) -> None:
    strace, trace = need_tool("strace"), tmp_path / "trace"
    script = (
        "import sys; from threadkeep.state.session_db import SessionDB\n"
        "with SessionDB(sys.argv[1]) as db:\n"
        "    db.create_session('s', 'cli')\n"
        "    print('begin', file=sys.stderr, flush=True)\n"
        "    db.append_messages('s', [{'role': 'user', 'content': str(n)} for n in range(9)])\n"
        "    print('end', file=sys.stderr, flush=True)\n"
    )
    watched = (strace, "-f", "-qq", "-o", str(trace), "-e", "trace=fsync,fdatasync,write")
    run_python(script, tmp_path / "state.db", *watched)
    calls = trace.read_text(errors="replace")
    between = calls[calls.index('"begin') : calls.index('"end')]
    assert len(re.findall(r"f(?:data)?sync\(", between)) == 1


def test_a_full_disk_refuses_whole_turns_and_takes_them_when_there_is_room(
    tmp_path: Path,
) -> None:
    with small_disk(tmp_path / "disk") as disk, open_state(disk / "state.db") as db:
        talk(db, "s", "before")
        filler = fill(disk)
        turn = [{"role": "user", "content": f"{n} " + "long " * 4000} for n in range(40)]
        with pytest.raises(StorageFull):
            db.append_messages("s", turn)
        assert [m["content"] for m in db.get_messages("s")] == ["before"]
        assert (db.get_session("s") or {})["message_count"] == 1
        filler.unlink()
        assert len(db.append_messages("s", turn)) == 40
        assert db.message_count("s") == 41
        assert db.check() == []


def test_an_upgrade_that_finds_the_disk_full_changes_nothing(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        path = disk / "state.db"
        make_old_state(path, 2, journal="DELETE")
        before = path.read_bytes()
        filler = fill(disk)
        with pytest.raises(StorageFull):
            open_state(path)
        assert path.read_bytes() == before
        filler.unlink()
        with open_state(path) as db:
            assert db.message_count() == 72
            assert db.check() == []


@needs_fork
def test_both_sides_of_a_fork_write_and_nothing_is_lost(tmp_path: Path) -> None:
    script = (
        "import os, sys; from threadkeep.state.session_db import SessionDB\n"
        "with SessionDB(sys.argv[1]) as db:\n"
        "    db.create_session('s', 'cli')\n"
        "    child = os.fork()\n"
        "    for n in range(10):\n"
        "        db.append_message('s', 'user', f'{\"parent\" if child else \"child\"} {n}')\n"
        "if child and os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):\n"
        "    sys.exit('the forked child failed')\n"
    )
    run_python(script, tmp_path / "state.db")
    with open_state(tmp_path / "state.db") as db:
        said = [message["content"] for message in db.get_messages("s")]
        for side in ("parent", "child"):
            assert [text for text in said if side in text] == [f"{side} {n}" for n in range(10)]
        assert len(said) == (db.get_session("s") or {})["message_count"] == 20
        assert db.check() == []


@pytest.mark.parametrize(
    "command", [("write", "--n", "2"), ("verify",), ("migrate",)], ids=" ".join
)
def test_every_open_of_a_live_database_is_sqlite_s_own(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    strace = need_tool("strace")
    database, trace = tmp_path / "live.db", tmp_path / "trace"
    make_old_state(database, 2)
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
