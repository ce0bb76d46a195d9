"""The spool: what is left in it is taken once, whole, and not removed while somebody may write."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from threadkeep.base.spool import APPENDED, WHOLE, Spool, SpoolFile
from threadkeep.errors import ThreadkeepError


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool")


def append(spool: Spool, name: str, data: bytes) -> Path:
    spool.folder.mkdir(mode=0o700, exist_ok=True)
    path = spool.folder / name
    with path.open("ab") as file:
        file.write(data)
    return path


def settle(taken: SpoolFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let so much time pass that no shell can still be writing."""
    later = taken.path.stat().st_ctime + 60
    monkeypatch.setattr("threadkeep.base.spool.time.time", lambda: later)


def test_what_was_put_is_there_whole_and_for_the_owner_alone(spool: Spool) -> None:
    path = spool.put(b"one\ntwo\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(spool.folder.stat().st_mode) == 0o700
    (taken,) = spool.take()
    assert (taken.kind, spool.read(taken, 0, 100)) == (WHOLE, b"one\ntwo\n")
    assert spool.done(taken, 8)
    assert list(spool.folder.iterdir()) == []


def test_an_empty_or_missing_folder_has_nothing(spool: Spool) -> None:
    assert not [*spool.take(), *spool.waiting()]


def test_what_comes_after_the_taking_is_in_a_new_file(spool: Spool) -> None:
    append(spool, "zsh-1-2.tk", b"one")
    (first,) = spool.take()
    append(spool, "zsh-1-2.tk", b"two")
    assert {t.name for t in spool.take()} > {first.name}
    assert sorted(spool.read(t, 0, 9) for t in spool.take()) == [b"one", b"two"]


def test_a_shell_that_had_the_file_open_still_reaches_us(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = append(spool, "zsh-1-2.tk", b"one")
    with path.open("ab") as shell:
        (taken,) = spool.take()
        assert not spool.done(taken, 3)  # somebody may be writing
        shell.write(b"two")
    settle(taken, monkeypatch)
    assert not spool.done(taken, 3)  # somebody was
    assert spool.read(taken, 3, 9) == b"two"
    assert spool.done(taken, 6)


def test_reading_goes_on_from_a_place(spool: Spool) -> None:
    append(spool, "zsh-1-2.tk", b"0123456789")
    (taken,) = spool.take()
    assert taken.kind == APPENDED
    assert spool.read(taken, 4, 3) == b"456"
    assert spool.read(taken, 10, 3) == b""


def test_a_file_that_another_collector_removed_is_empty_and_done(spool: Spool) -> None:
    append(spool, "zsh-1-2.tk", b"one")
    (taken,) = spool.take()
    taken.path.unlink()
    assert spool.read(taken, 0, 9) == b""
    assert spool.done(taken, 0)


def test_only_plain_files_of_known_names_are_taken(spool: Spool, tmp_path: Path) -> None:
    spool.put(b"x")
    secret = tmp_path / "secret.jsonl"
    secret.write_bytes(b"outside")
    (spool.folder / "link.jsonl").symlink_to(secret)
    (spool.folder / "folder.tk").mkdir()
    os.mkfifo(spool.folder / "pipe.tk")
    append(spool, ".bash-scratch.tk", b"x")
    append(spool, "notes.txt", b"x")
    (taken,) = spool.take()
    assert spool.read(taken, 0, 9) == b"x"
    assert secret.read_bytes() == b"outside"


def test_a_link_put_in_the_place_of_a_taken_file_is_not_followed(
    spool: Spool, tmp_path: Path
) -> None:
    append(spool, "zsh-1-2.tk", b"one")
    (taken,) = spool.take()
    secret = tmp_path / "secret"
    secret.write_bytes(b"outside")
    taken.path.unlink()
    taken.path.symlink_to(secret)
    with pytest.raises(ThreadkeepError):
        spool.read(taken, 0, 9)


def test_a_file_can_be_kept_under_its_name_with_an_ending(spool: Spool) -> None:
    append(spool, "2026-11-16.jsonl", b"x\n")
    for _ in range(2):
        append(spool, "2026-11-16.jsonl", b"x\n")
        taken = next(t for t in spool.take() if t.original == "2026-11-16.jsonl")
        assert spool.done(taken, 9, ".done")
    names = [path.name for path in spool.folder.iterdir()]
    assert len(names) == 2
    assert all(name.startswith("2026-11-16.jsonl.done") for name in names)
    assert spool.take() == []


def test_what_nobody_understood_is_kept_aside(spool: Spool) -> None:
    path = spool.set_aside("a-0", b"{broken\n")
    assert spool.set_aside("a-0", b"{broken\n") == path
    assert path.read_bytes() == b"{broken\n"
    assert len(list(path.parent.iterdir())) == 1
    assert spool.take() == []


def test_what_dead_programs_left_behind_is_swept_away(spool: Spool) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    names = {
        f"bash-{dead.pid}.scratch": False,
        f"bash-{os.getpid()}.scratch": True,
        ".abc.part": False,
        "zsh-1-2.tk": True,
    }
    for name in names:
        os.utime(append(spool, name, b"x"), (1e9, 1e9))
    append(spool, ".new.part", b"x")  # somebody writes it right now
    spool.sweep()
    left = {path.name for path in spool.folder.iterdir()}
    assert left == {name for name, stays in names.items() if stays} | {".new.part"}
