"""The file: the contract's tables exactly, older files brought up, others untouched."""

import sqlite3
import stat
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.faults.old_state_files import (
    FULL_TEXT,
    MESSAGES_EACH,
    SESSION_COUNT,
    TITLE_INDEX,
    UNNUMBERED,
    VERSIONS,
    WITHOUT_INDEX,
    insert,
    make_old_state,
    old_message,
    tables,
)
from tests.support.disks import read_only
from tests.support.states import open_state, talk
from threadkeep.errors import Damaged, Invalid, NotFound, ReadOnly, ThreadkeepError
from threadkeep.state.context import MESSAGE_COLUMNS, SESSION_COLUMNS
from threadkeep.state.session_db import SessionDB

ODD = (UNNUMBERED, *VERSIONS, WITHOUT_INDEX)
CONTRACT = ("schema_version", "sessions", "messages", "messages_fts")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def ask(path: Path, sql: str, *params: object) -> list[tuple[Any, ...]]:
    """Ask a file that nobody has open, with plain sqlite3."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return connection.execute(sql, params).fetchall()


def do(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def columns(path: Path, table: str) -> list[tuple[Any, ...]]:
    """Return name, type, NOT NULL, default and key of each column."""
    return [row[1:] for row in ask(path, f"PRAGMA table_info({table})")]


def objects(path: Path) -> dict[str, str]:
    """Give everything in the schema but what SQLite and FTS5 keep for themselves."""
    rows = ask(path, "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    own = ("messages_fts_", "tk_search_")
    return {
        name: sql
        for name, sql in rows
        if not name.startswith(("sqlite_", *own)) or "TRIGGER" in sql
    }


def contents(path: Path, table: str) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(f"SELECT * FROM {table} ORDER BY 1")]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def assert_sound(path: Path) -> None:
    """Check pages, references and that both indexes agree with the messages."""
    assert ask(path, "PRAGMA integrity_check") == [("ok",)]
    assert ask(path, "PRAGMA foreign_key_check") == []
    do(path, "INSERT INTO messages_fts(messages_fts, rank) VALUES ('integrity-check', 1)")
    do(path, "INSERT INTO tk_search(tk_search, rank) VALUES ('integrity-check', 1)")


# ---------------------------------------------------------------------- a fresh file


@pytest.fixture
def hermes_file(tmp_path: Path) -> Path:
    """An empty file with the schema that Hermes's manual gives."""
    file = tmp_path / "hermes.db"
    do(file, *tables(6), TITLE_INDEX, *FULL_TEXT)
    return file


def test_fresh_file_has_the_contracts_tables_column_by_column(
    path: Path, hermes_file: Path
) -> None:
    open_state(path).close()
    for table in ("schema_version", "sessions", "messages"):
        assert columns(path, table) == columns(hermes_file, table)
        keys = f"PRAGMA foreign_key_list({table})"
        assert ask(path, keys) == ask(hermes_file, keys)
    assert ask(path, "PRAGMA table_info(messages_fts)") == ask(
        hermes_file, "PRAGMA table_info(messages_fts)"
    )
    assert "AUTOINCREMENT" in objects(path)["messages"]
    assert ask(path, "SELECT version FROM schema_version") == [(6,)]


def test_fresh_file_has_the_contracts_indexes_and_triggers(path: Path, hermes_file: Path) -> None:
    open_state(path).close()
    ours, theirs = objects(path), objects(hermes_file)
    assert theirs.keys() <= ours.keys()
    for name in (name for name in theirs if name.startswith("idx_")):
        assert " ".join(ours[name].split()) == " ".join(theirs[name].split())


def test_everything_beyond_the_contract_is_named_as_ours(path: Path, hermes_file: Path) -> None:
    open_state(path).close()
    beyond = objects(path).keys() - objects(hermes_file).keys()
    assert beyond
    assert [name for name in beyond if not name.startswith("tk_")] == []


def test_the_connection_for_callers_shows_what_consumers_look_for(path: Path) -> None:
    with open_state(path) as db:
        connection = db._conn
        assert connection is not None
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert connection.execute("PRAGMA foreign_keys").fetchone()[0] == 1
        assert connection.execute("SELECT version FROM schema_version").fetchone()[0] == 6


def test_a_fresh_file_can_shrink_in_small_steps(path: Path) -> None:
    open_state(path).close()
    assert ask(path, "PRAGMA auto_vacuum") == [(2,)]
    assert ask(path, "PRAGMA page_size") == [(8192,)]


def test_files_and_new_folders_are_for_the_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "deep" / "state.db"
    with open_state(path) as db:
        talk(db, "s", "hello")
        files = [file for file in path.parent.iterdir() if file.is_file()]
        assert {f"{path.name}{suffix}" for suffix in ("", "-wal", "-shm")} <= {
            file.name for file in files
        }
        assert {file.name: mode(file) for file in files} == {file.name: 0o600 for file in files}
    assert mode(tmp_path / "new") == mode(path.parent) == 0o700


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    with open_state(path) as db:
        talk(db, "s", "hello")
    assert ask(path, "SELECT content FROM messages") == [("hello",)]
    assert ask(path, "SELECT version FROM schema_version") == [(6,)]


def test_two_opens_change_nothing(path: Path) -> None:
    with open_state(path) as db:
        talk(db, "s", "hello")
    before = path.read_bytes()
    open_state(path).close()
    assert path.read_bytes() == before


# ---------------------------------------------------------------------- older files


@pytest.mark.parametrize("version", ODD)
def test_an_older_file_gets_exactly_the_columns_of_a_fresh_one(
    tmp_path: Path, path: Path, version: int
) -> None:
    open_state(tmp_path / "fresh.db").close()
    make_old_state(path, version)
    open_state(path).close()
    for table in ("schema_version", "sessions", "messages"):
        assert sorted(columns(path, table)) == sorted(columns(tmp_path / "fresh.db", table))
    assert ask(path, "SELECT version FROM schema_version") == [(6,)]
    assert_sound(path)


@pytest.mark.parametrize("version", ODD)
def test_an_older_file_gets_every_index_trigger_and_side_table(
    tmp_path: Path, path: Path, version: int
) -> None:
    open_state(tmp_path / "fresh.db").close()
    make_old_state(path, version)
    open_state(path).close()
    fresh, brought_up = objects(tmp_path / "fresh.db"), objects(path)
    index = {name for name in fresh if name.startswith("messages_fts")}
    assert fresh.keys() - brought_up.keys() <= {"tk_indexed_messages"}
    for name in fresh.keys() - {*index, "tk_indexed_messages", *CONTRACT}:
        assert " ".join(brought_up[name].split()) == " ".join(fresh[name].split())


@pytest.mark.parametrize("version", ODD)
def test_no_row_of_an_older_file_changes(path: Path, version: int) -> None:
    make_old_state(path, version)
    before = {table: contents(path, table) for table in ("sessions", "messages")}
    open_state(path).close()
    for table, rows in before.items():
        after = contents(path, table)
        assert len(after) == len(rows)
        for old, new in zip(rows, after, strict=True):
            kept = {name: new[name] for name in old}
            if version == 3 and old.get("title") == "Fix the build" and old["id"] == "old1":
                old["title"] = "Fix the build #2"  # version 3 allowed two of a title
            assert kept == old
            assert not any(value for name, value in new.items() if name not in old)


@pytest.mark.parametrize("version", ODD)
def test_opening_a_second_time_changes_nothing(path: Path, version: int) -> None:
    make_old_state(path, version)
    open_state(path).close()
    before = path.read_bytes()
    open_state(path).close()
    assert path.read_bytes() == before


@pytest.mark.parametrize("version", ODD)
def test_an_older_file_is_read_searched_and_written(path: Path, version: int) -> None:
    make_old_state(path, version)
    with open_state(path) as db:
        assert db.session_count() == SESSION_COUNT
        messages = db.get_messages("old2")
        assert [m["content"] for m in messages] == [
            old_message(2, number, version)["content"] for number in range(MESSAGES_EACH)
        ]
        assert [hit["session_id"] for hit in db.search_messages("needle4x2")] == ["old4"]
        assert db.search_messages("容器 失败")[0]["role"] == "user"
        db.append_message("old2", "user", "a new needle9x9", reasoning="because")
        assert db.search_messages("needle9x9")[0]["session_id"] == "old2"
        assert (db.get_session("old2") or {})["message_count"] == MESSAGES_EACH + 1
    assert_sound(path)


def test_an_older_file_is_backed_up_before_it_is_changed(path: Path) -> None:
    make_old_state(path, 2)
    before = contents(path, "messages")
    open_state(path).close()
    (kept,) = (path.parent / "backups").glob("**/*.db")
    assert contents(kept, "messages") == before
    assert ask(kept, "SELECT version FROM schema_version") == [(2,)]
    assert mode(kept) == 0o600


def test_equal_titles_of_version_3_are_told_apart(path: Path) -> None:
    make_old_state(path, 3)
    do(path, "UPDATE sessions SET title = 'Same' WHERE id IN ('old2', 'old3', 'old4')")
    do(path, "UPDATE sessions SET title = 'Same #2' WHERE id = 'old5'")
    open_state(path).close()
    titles = dict(ask(path, "SELECT id, title FROM sessions"))
    assert [titles[f"old{n}"] for n in range(2, 6)] == ["Same", "Same #3", "Same #4", "Same #2"]


# ---------------------------------------------------------------------- healing


@pytest.mark.parametrize("really", [1, 2, 3, 4, 5])
def test_columns_that_are_missing_although_it_says_6_are_added(
    tmp_path: Path, path: Path, really: int
) -> None:
    make_old_state(path, really)
    do(path, "UPDATE schema_version SET version = 6")
    with open_state(path) as db:
        assert db.session_count() == SESSION_COUNT
        db.append_message("old1", "assistant", "x", finish_reason="stop", reasoning="y")
    open_state(tmp_path / "fresh.db").close()
    for table in ("sessions", "messages"):
        assert sorted(columns(path, table)) == sorted(columns(tmp_path / "fresh.db", table))
    assert "idx_sessions_title_unique" in objects(path)
    assert_sound(path)


@pytest.mark.parametrize(
    "missing",
    [
        "INDEX tk_sessions_roots",
        "INDEX idx_messages_session",
        "TRIGGER tk_message_gone",
        "TRIGGER tk_session_changed",
        "TABLE tk_exact",
        "TABLE tk_dirty",
        "TABLE schema_version",
    ],
)
def test_what_is_missing_of_the_schema_comes_back(path: Path, missing: str) -> None:
    with open_state(path) as db:
        talk(db, "s", "hello")
    whole = objects(path)
    do(path, f"DROP {missing}")
    with open_state(path) as db:
        talk(db, "t", "world")
    assert objects(path).keys() == whole.keys()
    assert ask(path, "SELECT version FROM schema_version") == [(6,)]
    assert_sound(path)


def test_an_index_and_a_side_table_that_are_both_missing_come_back(path: Path) -> None:
    with open_state(path) as db:
        talk(db, "s", "hello")
    do(path, "DROP TABLE messages_fts", "DROP TABLE tk_dirty")
    with open_state(path) as db:
        talk(db, "s", "world")
        assert len(db.search_messages("hello OR world")) == 2
    assert_sound(path)


def test_rows_without_a_parent_are_no_reason_to_refuse_an_older_file(path: Path) -> None:
    make_old_state(path, 5)
    do(
        path,
        "INSERT INTO messages(session_id, role, timestamp, content) VALUES ('gone', 'u', 1, 'x')",
        "UPDATE sessions SET parent_session_id = 'gone' WHERE id = 'old3'",
    )
    with open_state(path) as db:
        assert [message["content"] for message in db.get_messages("gone")] == ["x"]
        db.append_message("old3", "user", "more")
        assert (db.get_session("old3") or {})["parent_session_id"] == "gone"


@pytest.mark.parametrize("rows", [(), (6, 6), (5, 6)], ids=str)
def test_a_version_without_or_with_too_many_rows_is_settled(
    path: Path, rows: tuple[int, ...]
) -> None:
    make_old_state(path, 6)
    do(path, "DELETE FROM schema_version")
    do(path, *(f"INSERT INTO schema_version VALUES ({row})" for row in rows))
    with open_state(path) as db:
        assert db.session_count() == SESSION_COUNT
    assert max(ask(path, "SELECT version FROM schema_version")) == (6,)


# ---------------------------------------------------------------------- not ours


def assert_refused_and_untouched(path: Path, kind: type[ThreadkeepError]) -> ThreadkeepError:
    before = path.read_bytes()
    with pytest.raises(kind) as caught:
        open_state(path)
    assert path.read_bytes() == before
    assert str(path) in str(caught.value) or caught.value.hint
    return caught.value


@pytest.mark.parametrize("looking", [False, True])
def test_another_programs_database_is_refused_and_untouched(path: Path, *, looking: bool) -> None:
    do(path, "CREATE TABLE bookmarks(url)", "INSERT INTO bookmarks VALUES ('x')")
    before = path.read_bytes()
    with pytest.raises(Invalid, match="not a state store") as caught:
        open_state(path, read_only=looking)
    assert "not touched" in caught.value.hint
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused_and_untouched(path: Path) -> None:
    path.write_bytes(b"Dear diary, " * 1000)
    assert_refused_and_untouched(path, Damaged)


def test_a_file_whose_header_is_damaged_is_refused_and_untouched(path: Path) -> None:
    make_old_state(path, 6, journal="DELETE")
    path.write_bytes(b"\0" * 100 + path.read_bytes()[100:])
    assert_refused_and_untouched(path, Damaged)


def test_a_file_cut_short_is_refused_and_untouched(path: Path) -> None:
    make_old_state(path, 2, journal="DELETE")
    path.write_bytes(path.read_bytes()[: 2 * 4096])
    assert_refused_and_untouched(path, ThreadkeepError)


@pytest.mark.parametrize("version", ["'six'", "-1"])
def test_a_version_that_is_none_is_refused_and_untouched(path: Path, version: str) -> None:
    make_old_state(path, 6, journal="DELETE")
    do(path, f"UPDATE schema_version SET version = {version}")
    assert_refused_and_untouched(path, Damaged)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="folder"):
        open_state(tmp_path)


@pytest.mark.parametrize("version", [2, 6])
def test_a_rollback_journal_file_keeps_its_mode(path: Path, version: int) -> None:
    make_old_state(path, version, journal="DELETE")
    with open_state(path) as db:
        talk(db, "s", "hello")
        assert db.get_messages("s")[0]["content"] == "hello"
    assert ask(path, "PRAGMA journal_mode") == [("delete",)]
    assert_sound(path)


# ---------------------------------------------------------------------- looking only


def make_newer(path: Path) -> None:
    """Make a file as no Hermes left it yet: a column that we rely on is gone."""
    make_old_state(path, 6)
    do(
        path,
        "UPDATE schema_version SET version = 11",
        "ALTER TABLE sessions ADD COLUMN api_call_count INTEGER DEFAULT 0",
        "ALTER TABLE messages ADD COLUMN reasoning_content TEXT",
        "ALTER TABLE messages DROP COLUMN codex_reasoning_items",
        *(f"DROP TRIGGER messages_fts_{name}" for name in ("insert", "delete", "update")),
        "DROP TABLE messages_fts",
        "CREATE VIRTUAL TABLE messages_words USING fts5(content)",
        "CREATE TABLE state_meta(key TEXT PRIMARY KEY, value TEXT)",
    )


def look_around(db: SessionDB) -> None:
    """Use every kind of reading verb."""
    assert db.session_count() == SESSION_COUNT
    assert db.message_count() == SESSION_COUNT * MESSAGES_EACH
    session = db.get_session("old2")
    assert session is not None
    assert set(SESSION_COLUMNS) <= set(session)
    assert session["message_count"] == MESSAGES_EACH
    assert session["cache_read_tokens"] in (0, 3)
    messages = db.get_messages("old2")
    assert set(MESSAGE_COLUMNS) <= set(messages[0])
    assert [m["id"] for m in messages] == sorted(m["id"] for m in messages)
    assert db.get_messages_as_conversation("old2")[1]["tool_calls"][0]["id"] == "call1"
    assert {row["id"] for row in db.list_sessions_rich()} >= {"old2", "old3", "old4", "old5"}
    assert len(db.export_all()) == SESSION_COUNT
    assert db.get_compression_tip("old0") == "old1"
    assert [hit["session_id"] for hit in db.search_messages("needle4x2")] == ["old4"]
    assert db.search_messages("docker 容器")[0]["role"] == "user"
    assert db.search_messages('needle4x2 OR "部署"')


def assert_every_write_is_refused(db: SessionDB) -> None:
    for write in (
        lambda: db.create_session("new", "cli"),
        lambda: db.append_message("old2", "user", "x"),
        lambda: db.append_messages("old2", [{"role": "user", "content": "x"}]),
        lambda: db.delete_session("old2"),
        lambda: db.set_session_title("old2", "new title"),
        lambda: db.update_token_counts("old2", 1, 1),
        lambda: db.prune_sessions(0),
        db.reindex,
        lambda: db.rewind_to_message("old2", 30, any_role=True),
    ):
        with pytest.raises(ReadOnly, match="read-only") as caught:
            write()
        assert caught.value.hint


def test_a_file_without_a_column_we_rely_on_is_only_read_and_keeps_every_byte(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_newer(path)
    before = path.read_bytes()
    with open_state(path) as db:
        look_around(db)
        assert_every_write_is_refused(db)
    assert path.read_bytes() == before
    assert "messages has no column codex_reasoning_items" in caplog.text
    assert "read-only" in caplog.text


def test_side_tables_of_a_newer_threadkeep_are_not_turned_back(path: Path) -> None:
    open_state(path).close()
    do(path, "UPDATE tk_meta SET value = '99' WHERE key = 'side_version'")
    before = path.read_bytes()
    with suppress(ThreadkeepError), open_state(path) as db:
        talk(db, "s", "hello")
    assert path.read_bytes() == before


@pytest.mark.parametrize("version", ODD)
def test_read_only_reads_any_version_and_keeps_every_byte(path: Path, version: int) -> None:
    make_old_state(path, version)
    before = path.read_bytes()
    with open_state(path, read_only=True) as db:
        look_around(db)
        assert_every_write_is_refused(db)
        connection = db._conn
        assert connection is not None
        assert connection.execute("SELECT count(*) FROM sessions").fetchone()[0] == SESSION_COUNT
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            connection.execute("DELETE FROM main.sessions")
    assert path.read_bytes() == before
    assert not (path.parent / "backups").exists()


def test_read_only_sees_what_is_written_meanwhile(path: Path) -> None:
    with open_state(path) as db, open_state(path, read_only=True) as reader:
        talk(db, "s", "hello")
        assert [m["content"] for m in reader.get_messages("s")] == ["hello"]
        talk(db, "s", "again")
        assert reader.message_count() == 2


@pytest.mark.parametrize("version", [2, 6])
def test_read_only_reads_in_a_folder_that_cannot_be_written(path: Path, version: int) -> None:
    make_old_state(path, version)
    with read_only(path.parent):
        with open_state(path, read_only=True) as db:
            look_around(db)
        with pytest.raises(ReadOnly):
            open_state(path)


def test_read_only_does_not_make_a_file(path: Path) -> None:
    with pytest.raises(NotFound, match=r"state\.db"):
        open_state(path, read_only=True)
    assert not path.exists()


def test_a_file_without_one_of_the_tables_is_not_a_store(path: Path) -> None:
    do(path, *tables(6)[:2], TITLE_INDEX)
    with closing(sqlite3.connect(path)) as connection:
        insert(connection, "sessions", {"id": "s", "source": "cli", "started_at": 1.0})
        connection.commit()
    assert_refused_and_untouched(path, Invalid)
