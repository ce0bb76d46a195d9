"""What users of Hermes complain about: migrations, copies of a file, secrets in it."""

import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from threadkeep.base.sqlite.backup import restore_backup
from threadkeep.errors import Conflict, ReadOnly
from threadkeep.state.hermes_state import SessionDB

Make = Callable[..., list[int]]


# ---------------------------------------------------------------------- migrations


def old_file(path: Path, version: int | None, *, drop: tuple[str, ...] = ()) -> None:
    """Make a file as a program left it that counts differently from what it did."""
    sessions = ["id TEXT PRIMARY KEY", "source TEXT NOT NULL", "model TEXT", "started_at REAL"]
    sessions += ["ended_at REAL", "message_count INTEGER DEFAULT 0", "title TEXT"]
    messages = ["id INTEGER PRIMARY KEY AUTOINCREMENT", "session_id TEXT NOT NULL"]
    messages += ["role TEXT NOT NULL", "content TEXT", "timestamp REAL NOT NULL"]
    with closing(sqlite3.connect(path)) as made:
        for table, columns in (("sessions", sessions), ("messages", messages)):
            kept = [column for column in columns if column.split()[0] not in drop]
            made.execute(f"CREATE TABLE {table} ({', '.join(kept)})")
        if version is not None:
            made.execute("CREATE TABLE schema_version (version INTEGER NOT NULL)")
            made.execute("INSERT INTO schema_version VALUES (?)", (version,))
        made.execute("INSERT INTO sessions(id, source, started_at) VALUES ('old', 'cli', 5.0)")
        made.execute(
            "INSERT INTO messages(session_id, role, content, timestamp)"
            " VALUES ('old', 'user', 'the walrus', 5.0)"
        )
        made.commit()


@pytest.mark.parametrize("version", [None, 1, 2, 3, 4, 5, 6])
def test_migration_heals_missing_columns_whatever_the_version_says(
    tmp_path: Path, version: int | None
) -> None:
    """#14097, #79531, #80037; omnigent#2774: 'no such column', 'all sessions gone'."""
    path = tmp_path / "state.db"
    old_file(path, version, drop=("title", "ended_at"))
    for _ in range(2):
        with SessionDB(path) as db:
            assert [row["id"] for row in db.list_sessions_rich()] == ["old"]
            assert [hit["session_id"] for hit in db.search_messages("walrus")] == ["old"]
            db.update_token_counts("old", input_tokens=2, reasoning_tokens=3)
            db.append_message("old", "assistant", "hi", reasoning="r", finish_reason="stop")
            db.set_session_title("old", "Found")
    with SessionDB(path) as db:
        session = db.get_session("old")
        assert session is not None
        assert (session["input_tokens"], session["reasoning_tokens"]) == (4, 6)
        assert (len(db.get_messages("old")), session["title"]) == (3, "Found")
        assert db.check() == []


@pytest.mark.parametrize("version", [None, 1, 3, 6, 7, 26])
def test_migration_is_not_needed_to_read(tmp_path: Path, version: int | None) -> None:
    """#73823, #80037: a read-only open tolerates any schema and changes nothing."""
    path = tmp_path / "state.db"
    old_file(path, version)
    before = path.read_bytes()
    with SessionDB(path, read_only=True) as db:
        session = db.get_session("old")
        assert session is not None
        assert (session["title"], session["cache_read_tokens"]) == (None, 0)
        assert [message["content"] for message in db.get_messages("old")] == ["the walrus"]
        assert db.list_sessions_rich()[0]["preview"] == "the walrus"
        assert [hit["session_id"] for hit in db.search_messages("walrus")] == ["old"]
        with pytest.raises(ReadOnly, match=r"state\.db is open read-only"):
            db.append_message("old", "user", "x")
    assert path.read_bytes() == before


def test_migration_newer_file_is_read_and_left_alone(tmp_path: Path) -> None:
    """#79531."""
    path = tmp_path / "state.db"
    old_file(path, 12)
    before = path.read_bytes()
    with SessionDB(path) as db:
        assert len(db.export_all()) == 1
        with pytest.raises(ReadOnly):
            db.create_session("new", "cli")
    assert path.read_bytes() == before


@pytest.fixture
def s(db: SessionDB) -> SessionDB:
    db.create_session("s", "cli")
    return db


# ---------------------------------------------------------------------- backups


def test_backup_is_whole_while_others_write(db: SessionDB, make: Make, tmp_path: Path) -> None:
    """#8971, #35376, #89737: copies of a live file were unsafe."""
    make("s", "one", "two")
    with closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("UPDATE sessions SET title = 'not committed'")
        copy = db.backup(tmp_path / "copy" / "state.db")
        other.execute("ROLLBACK")
    assert copy == tmp_path / "copy" / "state.db"
    with SessionDB(copy) as restored:
        assert restored.export_all() == db.export_all()
        assert restored.check() == []
        assert len(restored.search_messages("two")) == 1
        restored.append_message("s", "user", "three")
    assert db.message_count() == 2


def test_backup_never_overwrites(db: SessionDB, tmp_path: Path) -> None:
    """#101734."""
    target = tmp_path / "precious.db"
    target.write_text("mine")
    with pytest.raises(Conflict, match=r"precious\.db already exists"):
        db.backup(target)
    assert target.read_text() == "mine"


def test_backup_is_restored_under_a_live_store(db: SessionDB, make: Make, tmp_path: Path) -> None:
    """#89737, #101734: same inode, and programs that have it open go on."""
    make("s", "one")
    copy = db.backup(tmp_path / "copy.db")
    make("s", "two, a mistake")
    inode = (tmp_path / "state.db").stat().st_ino
    restore_backup(copy, tmp_path / "state.db")
    assert (tmp_path / "state.db").stat().st_ino == inode
    assert [message["content"] for message in db.get_messages("s")] == ["one"]
    db.append_message("s", "user", "three")
    assert {hit["id"] for hit in db.search_messages("three")} == {2}
    assert db.check() == []


# ---------------------------------------------------------------------- secrets


def test_secrets_files_are_for_the_owner_alone(tmp_path: Path) -> None:
    """#39095, #54027, #43666, #110416: 0644 files."""
    folder = tmp_path / "new"
    with SessionDB(folder / "state.db") as db:
        db.create_session("s", "cli")
        db.append_message("s", "user", "hello")
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
    assert "state.db-wal" in modes
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_secrets_can_be_kept_out_of_the_file(tmp_path: Path) -> None:
    """#77470, #30917: plain secrets in the store and in its index."""
    secret = "sk-verysecretvalue"
    path = tmp_path / "state.db"
    with SessionDB(path, redact=lambda text: text.replace(secret, "[gone]")) as db:
        db.create_session("s", "cli", system_prompt=f"key {secret}", model_config={"key": [secret]})
        db.append_message(
            "s",
            "assistant",
            f"the key is {secret}",
            tool_calls=[{"function": {"name": "f", "arguments": f'{{"k": "{secret}"}}'}}],
            reasoning=f"use {secret}",
            reasoning_details=[{"text": secret}],
            codex_reasoning_items=[{"text": secret}],
        )
        db.append_messages("s", [{"role": "user", "content": [{"type": "text", "text": secret}]}])
        db.update_system_prompt("s", f"still {secret}")
        db.set_session_title("s", f"title {secret}")
        db.import_sessions(
            [{"id": "i", "source": "cli", "messages": [{"role": "user", "content": secret}]}]
        )
        db.set_auto_title("i", f"another {secret}")
        db.compress_session("s", "t", [{"role": "user", "content": f"summary {secret}"}])
        assert db.search_messages("verysecretvalue") == []
        assert db.get_messages("s")[0]["content"] == "the key is [gone]"
    for file in tmp_path.iterdir():
        if file.is_file():
            assert secret.encode() not in file.read_bytes(), file.name


def test_secrets_of_deleted_messages_are_overwritten(tmp_path: Path) -> None:
    """#77470: deleted means gone from the file, once the log is emptied."""
    path = tmp_path / "state.db"
    with SessionDB(path) as db:
        db.create_session("s", "cli")
        db.append_message("s", "user", "sk-verysecretvalue " * 20)
        db.append_message("s", "user", "stays")
        db.delete_session("s")
        db.vacuum()
    for file in tmp_path.iterdir():
        if file.is_file():
            assert b"sk-verysecretvalue" not in file.read_bytes(), file.name
