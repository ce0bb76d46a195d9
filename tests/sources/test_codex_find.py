"""Codex: which files are found, and which thread each belongs to."""

import os
from pathlib import Path

import pytest

from tests.sources.codex_support import THREADS, USER
from threadkeep.sources.codex.rollouts import SOURCE
from threadkeep.sources.codex.threads import thread_of
from threadkeep.sources.records import Log, UserHome

POND = f"{THREADS}1"
LAKE = f"{THREADS}2"


def test_find_gives_each_rollout_once_and_the_live_one() -> None:
    logs = list(SOURCE.find(USER))
    assert [log.path for log in logs] == sorted(log.path for log in logs)
    assert sorted(log.session_id[-1] for log in logs) == [*"1223456", "7", "a"]
    [pond] = [log for log in logs if log.session_id == POND]
    assert "/sessions/" in pond.path
    status = Path(pond.path).stat()
    assert (pond.stamp.size, pond.stamp.inode) == (status.st_size, status.st_ino)


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    return path


def found(home: Path, **env: str) -> list[Log]:
    return list(SOURCE.find(UserHome(home, env)))


def test_the_variable_moves_everything(tmp_path: Path) -> None:
    touch(tmp_path / "home" / ".codex" / "sessions" / "rollout-a.jsonl")
    moved = touch(tmp_path / "other" / "sessions" / "rollout-b.jsonl")
    logs = found(tmp_path / "home", CODEX_HOME=str(tmp_path / "other"))
    assert [log.path for log in logs] == [str(moved)]
    roots = SOURCE.roots(UserHome(tmp_path, {"CODEX_HOME": "/elsewhere"}))
    assert roots[:2] == [Path("/elsewhere/sessions"), Path("/elsewhere/archived_sessions")]


@pytest.mark.parametrize("live", ["sessions/2026/09/01", "archived_sessions"])
def test_plain_comes_before_compressed(tmp_path: Path, live: str) -> None:
    name = f"rollout-2026-09-01T12-00-00-{POND}.jsonl"
    plain = touch(tmp_path / ".codex" / live / name)
    packed = touch(tmp_path / ".codex" / live / f"{name}.zst")
    assert [log.path for log in found(tmp_path)] == [str(plain)]
    plain.unlink()
    assert [(log.path, log.session_id) for log in found(tmp_path)] == [(str(packed), POND)]
    touch(tmp_path / ".codex" / "archived_sessions" / name)
    [log] = found(tmp_path)
    assert ("archived" in log.path) is (live == "archived_sessions")


def test_odd_things_on_the_disk_are_survived(tmp_path: Path) -> None:
    sessions = tmp_path / ".codex" / "sessions"
    touch(sessions / "rollout-one\ntwo.jsonl")
    touch(sessions / "notes.jsonl")
    touch(sessions / "rollout-x.json")
    (sessions / "loop").symlink_to(sessions)
    (sessions / "rollout-broken.jsonl").symlink_to(tmp_path / "nowhere")
    (sessions / "rollout-folder.jsonl").mkdir()
    with open(os.fsencode(sessions) + b"/rollout-\xff.jsonl", "wb"):  # noqa: PTH123
        pass
    names = sorted(log.session_id for log in found(tmp_path))
    assert names == ["rollout-one\ntwo", "rollout-\ufffd"]
    assert found(tmp_path / "nobody") == []


@pytest.mark.parametrize(
    "name, thread",
    [
        (f"rollout-2026-09-01T12-00-00-{POND}.jsonl", POND),
        (f"rollout-2026-09-01T12-00-00-{POND}.jsonl.zst", POND),
        (f"rollout-2026-09-01T12-00-00-{POND}_{LAKE}.jsonl", POND),
        ("rollout-2026-05-01T10-00-00-cccc.jsonl", "rollout-2026-05-01T10-00-00-cccc"),
        ("rollout-.jsonl", "rollout-"),
    ],
)
def test_names_of_files_name_threads(name: str, thread: str) -> None:
    assert thread_of(name) == thread
