"""The names that Hermes's own modules take from `hermes_state` beside SessionDB."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.disks import read_only
from tests.support.newer_states import make_newer_state
from threadkeep.errors import Busy, Damaged, StorageFull, ThreadkeepError
from threadkeep.state import hermes_state
from threadkeep.state.hermes_state import AsyncSessionDB, SessionDB

# What is imported, and what is taken from the object.
NAMES = (
    "SessionDB format_session_db_unavailable apply_wal_with_fallback _default_db_path"
    " is_disk_full_error classify_persistence_error _db_opens_cleanly repair_state_db_schema"
    " CompressionSessionClosedError is_malformed_db_error is_sqlite_wal_reset_vulnerable"
    " DEFAULT_DB_PATH SessionExportTooLargeError SessionResumeTooLargeError AsyncSessionDB"
    " resolved_max_resume_messages get_hermes_home PERSISTENCE_ERROR_CAUSES FTS_STORAGE_VERSION"
    " SCHEMA_VERSION preflight_db_writability schema_read_probe_statements sqlite_source_id"
    " _wal_reset_repair_hint collect_state_db_stats count_db_holders workspace_key"
    " resolved_max_export_messages _BARE_BILLING_PROVIDERS _RESET_END_REASONS"
)
ON_THE_OBJECT = "_conn _lock _insert_session_row _execute_write _foreign_state_db_holders"


def test_every_name_is_there(tmp_path: Path) -> None:
    assert [name for name in NAMES.split() if not hasattr(hermes_state, name)] == []
    with SessionDB(tmp_path / "state.db") as db:
        assert [name for name in ON_THE_OBJECT.split() if not hasattr(db, name)] == []


def test_the_default_is_looked_up_when_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    assert hermes_state.get_hermes_home() == tmp_path
    assert hermes_state._default_db_path() == tmp_path / "state.db"
    monkeypatch.setattr(hermes_state, "DEFAULT_DB_PATH", tmp_path / "other.db")
    assert hermes_state._default_db_path() == tmp_path / "other.db"


def test_an_async_face_offers_every_verb(tmp_path: Path) -> None:
    async def talk() -> int:
        db = AsyncSessionDB(SessionDB(tmp_path / "state.db"))
        await db.create_session("s", "cli")
        await db.append_message("s", "user", "hello")
        assert db.db_path == tmp_path / "state.db"
        count: int = await db.message_count("s")
        await db.close()
        return count

    assert asyncio.run(talk()) == 1


def test_a_writer_of_its_own_is_one_transaction(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "state.db") as db:
        db._insert_session_row("s", "cli", model="m")

        def act(connection: Any) -> str:
            connection.execute("UPDATE sessions SET model = 'n'")
            return "done"

        def fail(connection: Any) -> None:
            connection.execute("UPDATE sessions SET model = 'o'")
            raise KeyError

        assert db._execute_write(act) == "done"
        with pytest.raises(KeyError):
            db._execute_write(fail)
        assert (db.get_session("s") or {})["model"] == "n"
        db.append_message("s", "user", "others go on")


@pytest.mark.parametrize(
    "error, cause",
    [
        (None, "unknown"),
        ("database is locked", "locked"),
        ("database disk image is malformed", "corrupt"),
        ("attempt to write a readonly database", "disk"),
        ("No space left on device", "disk"),
        (OSError(28, "full"), "disk"),
        (hermes_state.CompressionSessionClosedError("s"), "compression_closed"),
        ("Session 's' is being compressed", "compression"),
        ("turn lease lost", "turn_lease"),
        (Busy("x", hint="y"), "locked"),
        (StorageFull("x", hint="y"), "disk"),
        (ValueError("else"), "unknown"),
    ],
)
def test_errors_are_told_by_their_cause(error: object, cause: str) -> None:
    assert hermes_state.classify_persistence_error(error) == cause  # type: ignore[arg-type]
    assert cause in hermes_state.PERSISTENCE_ERROR_CAUSES


def test_damage_and_a_full_disk_are_recognised() -> None:
    assert hermes_state.is_malformed_db_error(
        sqlite3.DatabaseError("database disk image is malformed")
    )
    assert hermes_state.is_malformed_db_error(
        Damaged("malformed database schema (x)", hint="restore")
    )
    assert not hermes_state.is_malformed_db_error(ValueError("malformed database schema"))
    assert hermes_state.is_disk_full_error("database or disk is full")
    assert not hermes_state.is_disk_full_error(None)


def test_the_last_refusal_is_told(tmp_path: Path) -> None:
    path = tmp_path / "none.db"
    path.write_bytes(b"no database at all, but longer than a header " * 40)
    with pytest.raises(ThreadkeepError):
        SessionDB(path)
    told = hermes_state.format_session_db_unavailable("No store")
    assert told.startswith("No store: ")
    assert hermes_state.get_last_init_error() in told  # type: ignore[operator]


@pytest.mark.parametrize("number", [26, 999])
def test_a_file_is_described_from_outside(tmp_path: Path, number: int) -> None:
    path = tmp_path / "state.db"
    make_newer_state(path, number)
    with SessionDB(path) as db:
        db.create_session("s", "cli")
        stats = hermes_state.collect_state_db_stats(path)
        assert (stats["sessions"], stats["messages"]) == (1, 0)
        assert stats["fts_tables"]["messages_fts"] is True
        assert stats["logical_size_bytes"] == db.logical_size_bytes()
        assert stats["fts_rebuild_pending"] is False
        assert hermes_state._db_opens_cleanly(path) is None
        assert db.session_count() == 1
        if Path("/proc/self/fd").exists():
            assert (hermes_state.count_db_holders(path) or 0) >= 1
            assert db._foreign_state_db_holders() == []
    with closing(sqlite3.connect(path)) as connection:
        for statement in hermes_state.schema_read_probe_statements():
            connection.execute(statement)
    assert hermes_state.collect_state_db_stats(tmp_path / "no.db")["sessions"] is None


def test_damaged_full_text_tables_are_repaired(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with SessionDB(path) as db:
        db.create_session("s", "cli")
        db.append_message("s", "user", "findable")
    assert hermes_state.repair_state_db_schema(path)["strategy"] == "none_needed"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE messages_fts_data SET block = x'00ff00ff' WHERE id > 1")
        connection.commit()
    report = hermes_state.repair_state_db_schema(path)
    assert report["error"] is None
    assert report["repaired"]
    with SessionDB(path) as db:
        assert len(db.search_messages("findable")) == 1
    assert hermes_state.repair_state_db_schema(tmp_path / "no.db")["error"]


def test_a_log_is_switched_on_only_where_that_is_safe(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        safe = not hermes_state.is_sqlite_wal_reset_vulnerable()
        mode = hermes_state.apply_wal_with_fallback(connection)
        assert mode == ("wal" if safe else "delete")
        connection.execute("PRAGMA journal_mode = WAL")
        assert hermes_state.apply_wal_with_fallback(connection) == "wal"
    assert hermes_state.is_sqlite_wal_reset_vulnerable((3, 51, 2))
    assert not hermes_state.is_sqlite_wal_reset_vulnerable((3, 51, 3))
    assert not hermes_state.is_sqlite_wal_reset_vulnerable((3, 6, 9))
    assert hermes_state.sqlite_source_id()


def test_a_file_that_cannot_be_written_is_named_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.touch(mode=0o400)
    with read_only(tmp_path), pytest.raises(sqlite3.OperationalError, match="chmod"):
        hermes_state.preflight_db_writability(path)
