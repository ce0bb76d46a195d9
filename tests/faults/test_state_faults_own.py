"""The session store in trouble, without the fault tools: kills, forks, a full disk."""

import os
import re
from pathlib import Path

import pytest

from tests.conftest import need_tool
from tests.faults.old_state_files import make_old_state
from tests.faults.programs import acknowledged, run_python, writing
from tests.faults.tools import STATE
from tests.support.disks import fill, small_disk
from tests.support.states import open_state, talk
from threadkeep.errors import StorageFull
from threadkeep.state.session_db import SessionDB

pytestmark = pytest.mark.faults

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that can fork")


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
        with writing(STATE, path, "--mode", mode, "--iter", str(iteration)) as process:
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
