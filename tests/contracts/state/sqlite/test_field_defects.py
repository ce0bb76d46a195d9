"""What people met in the field with files, each as one test."""

import sqlite3
from pathlib import Path

import pytest

from tests.support.states import open_state, talk
from threadkeep.errors import Busy, Closed, Damaged


def test_a_file_of_zeros_is_set_aside_and_the_store_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(bytes(40_960))
    with pytest.raises(Damaged), open_state(path, read_only=True):
        pass
    assert path.read_bytes() == bytes(40_960)
    with open_state(path) as db:
        talk(db, "s", "hello")
    (aside,) = tmp_path.glob("state.db.zeroed-*")
    assert aside.read_bytes() == bytes(40_960)
    assert "nothing but zeros" in caplog.text


def test_errors_of_ours_are_errors_of_sqlite_too(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with open_state(path, timeout=0.05) as db:
        db.create_session("a", "cli")
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked") as locked:
            db.append_message("a", "user", "x")
        assert isinstance(locked.value, Busy)
        other.close()
        with db.context.db.write(), pytest.raises(RuntimeError):
            db.append_message("a", "user", "x")
    with pytest.raises(sqlite3.ProgrammingError) as closed:
        db.get_session("a")
    assert isinstance(closed.value, Closed)
    (tmp_path / "no.db").write_bytes(b"no database at all" * 1000)
    with pytest.raises(sqlite3.DatabaseError) as damaged:
        open_state(tmp_path / "no.db")
    assert isinstance(damaged.value, Damaged)
