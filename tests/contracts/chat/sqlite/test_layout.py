"""The file: the contract's tables exactly, files of other programs brought up, others untouched."""

import json
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.chats import (
    column_names,
    new_session,
    open_store,
    record,
    text_chunks,
    texts,
    tool_chunks,
    turn,
)
from threadkeep.base.tx import Sql
from threadkeep.chat import schema as layout
from threadkeep.chat.rows import SESSION, rehash
from threadkeep.chat.store import ChatStore
from threadkeep.errors import Damaged, Invalid, NotFound, SchemaMismatch, ThreadkeepError
from threadkeep.testing import contents, raw, rows

SEED = {
    "chat_sessions": [
        *("id", "agent", "workspace_root", "model_json", "parent_id", "parent_message_id"),
        *("permissions_json", "metadata_json", "prompt_tokens", "completion_tokens"),
        *("reasoning_tokens", "cache_read", "cache_write", "total_tokens", "cost_usd"),
        *("created_at", "updated_at", "archived_at"),
    ],
    "chat_messages": ["id", "session_id", "role", "metadata_json", "created_at", "updated_at"],
    "chat_parts": [
        *("id", "message_id", "session_id", "index", "type", "data_json", "tool_call_id"),
        *("tool_state", "created_at", "updated_at"),
    ],
}
ADDED = {
    "chat_sessions": ["title", "workspace_id", "mode"],
    "chat_messages": ["hidden_at"],
    "chat_parts": ["continuation_run_id"],
}
INTEGERS = {
    *("prompt_tokens", "completion_tokens", "reasoning_tokens", "cache_read", "cache_write"),
    *("total_tokens", "created_at", "updated_at", "archived_at", "index", "hidden_at"),
}
OPTIONAL = {
    *("workspace_root", "parent_id", "parent_message_id", "archived_at", "tool_call_id"),
    *("tool_state", "title", "workspace_id", "mode", "hidden_at", "continuation_run_id"),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chat.db"


# ---------------------------------------------------------------------- a fresh file


def test_fresh_file_has_the_columns_of_the_contract_and_five_more(path: Path) -> None:
    open_store(path).close()
    for table, names in SEED.items():
        columns = rows(path, f"PRAGMA table_info({table})")
        assert [column["name"] for column in columns] == names + ADDED[table]
        for column in columns:
            name = column["name"]
            kind = "INTEGER" if name in INTEGERS else "REAL" if name == "cost_usd" else "TEXT"
            assert column["type"] == kind, name
            required = name not in OPTIONAL and name != "id"
            assert bool(column["notnull"]) == required, name
            assert bool(column["pk"]) == (name == "id")
    defaults = {
        column["name"]: column["dflt_value"]
        for column in rows(path, "PRAGMA table_info(chat_sessions)")
    }
    assert defaults["permissions_json"] == "'[]'"
    assert defaults["metadata_json"] == "'{}'"
    assert {defaults[name] for name in SEED["chat_sessions"][8:15]} == {"0"}


def indexes(path: Path, table: str) -> dict[tuple[str, ...], bool]:
    """Return the columns of every index of a table, and whether it is unique."""
    return {
        tuple(row["name"] for row in rows(path, f'PRAGMA index_info("{index["name"]}")')): bool(
            index["unique"]
        )
        for index in rows(path, f"PRAGMA index_list({table})")
    }


def test_required_indexes_are_there(path: Path) -> None:
    open_store(path).close()
    sessions = indexes(path, "chat_sessions")
    for columns in (
        ("agent", "updated_at"),
        ("workspace_root", "updated_at"),
        ("parent_id",),
        ("archived_at",),
        ("workspace_id", "updated_at"),
    ):
        assert columns in sessions
    assert ("session_id", "created_at") in indexes(path, "chat_messages")
    parts = indexes(path, "chat_parts")
    assert parts["message_id", "index"] is True
    assert ("session_id",) in parts
    assert ("tool_call_id",) in parts


def test_messages_and_parts_go_with_what_they_belong_to(path: Path) -> None:
    open_store(path).close()
    for table, parent in (("chat_messages", "chat_sessions"), ("chat_parts", "chat_messages")):
        (key,) = rows(path, f"PRAGMA foreign_key_list({table})")
        assert (key["table"], key["to"], key["on_delete"]) == (parent, "id", "CASCADE")


def reader_setting(store: ChatStore, pragma: str) -> int:
    with store.context.db.read() as tx:
        return int(tx.value(Sql(f"PRAGMA {pragma}")))


def test_settings_of_the_contract_are_in_force(path: Path) -> None:
    with open_store(path) as store:
        assert rows(path, "PRAGMA journal_mode") == [{"journal_mode": "wal"}]
        assert rows(path, "PRAGMA user_version") == [{"user_version": 3}]
        for begin in (store.context.db.read, store.context.db.write):
            with begin() as tx:
                found = {
                    name: tx.value(Sql(f"PRAGMA {name}"))
                    for name in ("foreign_keys", "synchronous")
                }
            assert found["foreign_keys"] == 1
            assert found["synchronous"] >= 1
        # A writer waits by itself, in the queue of the fair lock, as long as its budget says.
        assert reader_setting(store, "busy_timeout") == 5000


def test_file_and_its_companions_are_the_owners_alone(path: Path) -> None:
    with open_store(path) as store:
        new_session(store)
        for file in path.parent.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file.name


def test_tables_of_ours_have_a_prefix(path: Path) -> None:
    open_store(path).close()
    found = {row["name"] for row in rows(path, "SELECT name FROM sqlite_master")}
    contract = {"chat_sessions", "chat_messages", "chat_parts", "chat_events", "system_prompts"}
    others = {
        name for name in found - contract if not name.startswith(("tk_", "idx_chat_", "sqlite_"))
    }
    assert others == set()


def test_opening_again_changes_nothing(path: Path) -> None:
    with open_store(path) as store:
        turn(store, new_session(store), "q", "a")
    before, schema = contents(path), rows(path, "SELECT * FROM sqlite_master")
    open_store(path).close()
    assert contents(path) == before
    assert rows(path, "SELECT * FROM sqlite_master") == schema
    assert not (path.parent / "backups").exists()


# ---------------------------------------------------------------------- files of other programs


Maker = Callable[[sqlite3.Connection], None]


def make_seed_tables(connection: sqlite3.Connection) -> None:
    """Make the three tables with the columns of the contract and no other."""
    for table, names in SEED.items():
        columns = []
        for name in names:
            kind = "INTEGER" if name in INTEGERS else "REAL" if name == "cost_usd" else "TEXT"
            if name == "id":
                kind += " PRIMARY KEY"
            elif name in ("session_id", "message_id"):
                parent = "chat_sessions" if name == "session_id" else "chat_messages"
                kind += f" NOT NULL REFERENCES {parent}(id) ON DELETE CASCADE"
            elif name in SEED["chat_sessions"][6:15]:
                default = {"permissions_json": "'[]'", "metadata_json": "'{}'"}.get(name, "0")
                kind += f" NOT NULL DEFAULT {default}"
            elif name not in OPTIONAL:
                kind += " NOT NULL"
            columns.append(f'"{name}" {kind}')
        connection.execute(f"CREATE TABLE {table} ({', '.join(columns)})")


def make_authors_tables(version: int) -> Maker:
    """Make the tables as the guide author's store does: another order, a title that has to be."""

    def make(connection: sqlite3.Connection) -> None:
        sums = ("prompt", "completion", "reasoning")
        connection.execute(
            "CREATE TABLE chat_sessions (id TEXT PRIMARY KEY,"
            " title TEXT NOT NULL DEFAULT 'New Chat', agent TEXT NOT NULL, workspace_id TEXT,"
            " workspace_root TEXT, model_json TEXT, parent_id TEXT, parent_message_id TEXT,"
            " permissions_json TEXT NOT NULL DEFAULT '[]',"
            " metadata_json TEXT NOT NULL DEFAULT '{}',"
            + "".join(f" {name}_tokens INTEGER NOT NULL DEFAULT 0," for name in sums)
            + " cache_read INTEGER NOT NULL DEFAULT 0, cache_write INTEGER NOT NULL DEFAULT 0,"
            " total_tokens INTEGER NOT NULL DEFAULT 0, cost_usd REAL NOT NULL DEFAULT 0,"
            " created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, archived_at INTEGER)"
        )
        connection.execute(
            "CREATE TABLE chat_messages (id TEXT PRIMARY KEY, session_id TEXT NOT NULL"
            " REFERENCES chat_sessions(id) ON DELETE CASCADE, role TEXT NOT NULL,"
            " metadata_json TEXT NOT NULL DEFAULT '{}', hidden_at INTEGER,"
            " created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL)"
        )
        connection.execute(
            "CREATE TABLE chat_parts (id TEXT PRIMARY KEY, message_id TEXT NOT NULL"
            " REFERENCES chat_messages(id) ON DELETE CASCADE, session_id TEXT NOT NULL,"
            ' "index" INTEGER NOT NULL, type TEXT NOT NULL, data_json TEXT NOT NULL,'
            " tool_call_id TEXT, tool_state TEXT, created_at INTEGER NOT NULL,"
            " updated_at INTEGER NOT NULL)"
        )
        if version >= 2:
            connection.execute("ALTER TABLE chat_sessions ADD COLUMN mode TEXT")
        if version >= 3:
            connection.execute("ALTER TABLE chat_parts ADD COLUMN continuation_run_id TEXT")
        connection.execute(
            'CREATE UNIQUE INDEX idx_chat_parts_message_index ON chat_parts(message_id, "index")'
        )
        connection.execute("CREATE INDEX idx_chat_sessions_archived ON chat_sessions(archived_at)")
        connection.execute(f"PRAGMA user_version = {version}")

    return make


MAKERS: dict[str, Maker] = {
    "the contract's columns": make_seed_tables,
    "the author's version 1": make_authors_tables(1),
    "the author's version 2": make_authors_tables(2),
    "the author's version 3": make_authors_tables(3),
}


def fill(connection: sqlite3.Connection) -> None:
    """Write a conversation with a hidden reply, usage, a queued turn and two kinds of parts."""
    connection.execute(
        "INSERT INTO chat_sessions(id, agent, model_json, total_tokens, created_at, updated_at)"
        ' VALUES (\'ses_old\', \'coder\', \'{"provider_id":"acme","tier":"pro"}\', 7, 1, 9)'
    )
    usage = {"usage": {"input": 3, "output": 4}, "model": {"provider_id": "acme"}}
    for place, (name, role, metadata) in enumerate(
        [
            ("m1", "user", {"schema_version": 1}),
            ("m2", "assistant", usage),
            ("m3", "user", {"hidden_at": 8}),
            ("m4", "user", {"queued_at": 5}),
        ]
    ):
        connection.execute(
            "INSERT INTO chat_messages(id, session_id, role, metadata_json, created_at, updated_at)"
            " VALUES (?, 'ses_old', ?, ?, ?, ?)",
            (name, role, json.dumps(metadata), place, place),
        )
    call = {"type": "tool-x", "tool_call_id": "c1", "state": "input-available", "input": {}}
    parts: list[tuple[str, str, int, dict[str, Any]]] = [
        ("p1", "m1", 0, {"type": "text", "text": "find the wombat"}),
        ("p2", "m2", 0, {"type": "text", "text": "here it is"}),
        ("p3", "m2", 1, call),
        ("p4", "m3", 0, {"type": "text", "text": "hidden"}),
        ("p5", "m4", 0, {"type": "text", "text": "queued"}),
    ]
    for name, message, index, part in parts:
        connection.execute(
            'INSERT INTO chat_parts(id, message_id, session_id, "index", type, data_json,'
            " tool_call_id, tool_state, created_at, updated_at)"
            " VALUES (?, ?, 'ses_old', ?, ?, ?, ?, ?, 1, 1)",
            (
                name,
                message,
                index,
                part["type"],
                json.dumps(part),
                part.get("tool_call_id"),
                part.get("state"),
            ),
        )


@pytest.fixture(params=MAKERS, ids=list(MAKERS))
def foreign(request: pytest.FixtureRequest, path: Path) -> Path:
    """A file of another program, with a conversation in it."""
    with raw(path) as connection:
        MAKERS[request.param](connection)
        fill(connection)
    return path


def test_file_of_another_program_is_brought_up_and_nothing_in_it_is_lost(foreign: Path) -> None:
    tables = {table: column_names(foreign, table) for table in SEED}
    before = {
        table: {row["id"]: row for row in rows(foreign, f"SELECT * FROM {table}")} for table in SEED
    }
    with open_store(foreign) as store:
        assert store.verify().problems == []
    for table, names in tables.items():
        now = column_names(foreign, table)
        assert now[: len(names)] == names
        assert set(now) == set(SEED[table]) | set(ADDED[table])
        for row in rows(foreign, f"SELECT * FROM {table}"):
            old = before[table][row["id"]]
            expected = {**dict.fromkeys(now), **old}
            if row["id"] == "m3":
                expected["hidden_at"] = 8
            if table == "chat_sessions" and expected["title"] is None:
                expected["title"] = "New Chat"
            assert row == expected
    assert rows(foreign, "PRAGMA user_version") == [{"user_version": 3}]


def test_conversation_of_another_program_reads_as_ours(foreign: Path) -> None:
    with open_store(foreign) as store:
        (session,) = store.sessions().items
        assert session.model == {"provider_id": "acme", "tier": "pro"}
        assert session.total_tokens == 7
        assert texts(store, "ses_old") == ["find the wombat", "here it is"]
        assert texts(store, "ses_old", "all") == [
            "find the wombat",
            "here it is",
            "hidden",
            "queued",
        ]
        assert [message.id for message in store.queued("ses_old")] == ["m4"]
        assert [hit.message_id for hit in store.search("wombat")] == ["m1"]
        part = store.message("ses_old", "m2")["parts"][1]
        assert part["toolCallId"] == "c1"
        assert store.spend("ses_old")[0]["input"] == 3


def test_every_verb_works_on_a_file_of_another_program(foreign: Path) -> None:
    with open_store(foreign) as store:
        session = store.create_session(agent="coder", model="acme/large")
        assert session.title is None
        assert store.set_title(session, "Named").title == "Named"
        assert store.set_title(session, None).title == session.title
        asked, answer = turn(store, session, "q", "a", usage={"input": 5})
        record(store, session, [{"type": "start"}, *tool_chunks("t"), {"type": "abort"}])
        assert len(store.repair_orphans()) == 2
        store.put_message(session, {"id": "put", "role": "assistant", "parts": []})
        store.compact(session, "sum", tail_start=asked)
        branch = store.fork(session, answer)
        assert branch.title == session.title
        store.rewind(session, asked)
        store.unrewind(session)
        store.fire("ses_old")
        store.archive(session)
        store.unarchive(session)
        assert store.verify().problems == []
        store.delete("ses_old")
        assert rows(foreign, "SELECT id FROM chat_parts WHERE session_id = 'ses_old'") == []


def test_usage_of_another_program_stays_in_the_sums(foreign: Path) -> None:
    with open_store(foreign) as store:
        record(store, "ses_old", text_chunks("more"))
        store.record_usage("ses_old", {"input": 100})
        assert store.session("ses_old").total_tokens == 107


def test_backup_is_made_before_a_file_is_brought_up_and_only_then(foreign: Path) -> None:
    before = {table: rows(foreign, f"SELECT * FROM {table}") for table in SEED}
    open_store(foreign).close()
    open_store(foreign).close()
    (backup,) = (foreign.parent / "backups").iterdir()
    assert {table: rows(backup, f"SELECT * FROM {table}") for table in SEED} == before


def test_file_of_another_program_is_not_brought_up_by_a_reader(foreign: Path) -> None:
    before = foreign.read_bytes()
    with pytest.raises(Invalid, match="chat store") as caught:
        open_store(foreign, read_only=True)
    assert caught.value.hint
    assert foreign.read_bytes() == before


def test_columns_and_tables_that_nobody_knows_are_kept(path: Path) -> None:
    with raw(path) as connection:
        make_authors_tables(3)(connection)
        connection.execute("ALTER TABLE chat_parts ADD COLUMN colour TEXT DEFAULT 'red'")
        connection.execute("CREATE TABLE their_own (x)")
        connection.execute("INSERT INTO their_own VALUES ('kept')")
        fill(connection)
    with open_store(path) as store:
        store.repair_orphans()
        record(store, "ses_old", text_chunks("more"))
        assert store.verify().problems == []
    assert {row["colour"] for row in rows(path, "SELECT colour FROM chat_parts")} == {"red"}
    assert rows(path, "SELECT x FROM their_own") == [{"x": "kept"}]


def test_parts_at_one_place_are_put_one_after_the_other(path: Path) -> None:
    with raw(path) as connection:
        make_seed_tables(connection)
        fill(connection)
        for name in ("p2b", "p2c"):
            connection.execute(
                f"INSERT INTO chat_parts SELECT '{name}', message_id, session_id, \"index\", type,"
                f" json_set(data_json, '$.text', '{name}'), tool_call_id, tool_state, created_at,"
                " updated_at FROM chat_parts WHERE id = 'p2'"
            )
    with open_store(path) as store:
        parts = store.message("ses_old", "m2")["parts"]
        assert [part.get("text") for part in parts] == ["here it is", "p2b", "p2c", None]
        assert store.verify().problems == []
    found = rows(path, "SELECT id, \"index\" FROM chat_parts WHERE message_id = 'm2' ORDER BY 2")
    assert [(row["id"], row["index"]) for row in found] == [
        ("p2", 0),
        ("p2b", 1),
        ("p2c", 2),
        ("p3", 3),
    ]


def test_prompts_that_another_program_keeps_by_digest_are_shared(path: Path) -> None:
    """The contract suggests a table of this name, so a file may well have one."""
    with raw(path) as connection:
        make_seed_tables(connection)
        connection.execute("CREATE TABLE system_prompts (digest TEXT PRIMARY KEY, body TEXT)")
        connection.execute("INSERT INTO system_prompts VALUES ('d1', 'theirs')")
    with open_store(path) as store:
        assert store.system_prompt("d1") == "theirs"
        assert store.system_prompt(store.put_system_prompt("ours")) == "ours"


@pytest.mark.parametrize(
    "obstacle",
    [
        "CREATE TABLE chat_events (x)",
        "CREATE TABLE system_prompts (x)",
        "CREATE VIEW tk_runs AS SELECT 1",
    ],
)
def test_file_whose_tables_are_in_the_way_is_refused_as_it_was(path: Path, obstacle: str) -> None:
    with raw(path) as connection:
        make_seed_tables(connection)
        fill(connection)
        connection.execute(obstacle)
    before = (rows(path, "SELECT * FROM sqlite_master"), contents(path))
    with pytest.raises(SchemaMismatch, match=obstacle.split()[2]) as caught:
        open_store(path)
    assert caught.value.hint
    assert (rows(path, "SELECT * FROM sqlite_master"), contents(path)) == before


def test_metadata_that_is_no_json_does_not_stop_the_opening(path: Path) -> None:
    with raw(path) as connection:
        make_seed_tables(connection)
        fill(connection)
        connection.execute("UPDATE chat_messages SET metadata_json = '{hidden_at usage' ")
        connection.execute("UPDATE chat_parts SET data_json = '[broken' WHERE id = 'p1'")
    with open_store(path) as store:
        assert len(store.ui_messages("ses_old")) == 4
        assert store.verify().problems == []
    (row,) = rows(path, "SELECT data_json FROM chat_parts WHERE id = 'p1'")
    assert row["data_json"] == "[broken"


def test_file_with_a_rollback_journal_keeps_it(path: Path) -> None:
    with raw(path) as connection:
        make_seed_tables(connection)
        fill(connection)
    with open_store(path) as store:
        store.say("ses_old", "more")
    assert rows(path, "PRAGMA journal_mode") == [{"journal_mode": "delete"}]


# ---------------------------------------------------------------------- files that are refused


def newer_author(path: Path) -> None:
    with raw(path) as connection:
        make_authors_tables(3)(connection)
        fill(connection)
        connection.execute("PRAGMA user_version = 4")


def newer_program(path: Path) -> None:
    with open_store(path) as store:
        turn(store, new_session(store), "q", "a")
    with raw(path) as connection:
        connection.execute("UPDATE tk_meta SET value = '999' WHERE key = 'schema_version'")


def newer_program_and_author(path: Path) -> None:
    newer_program(path)
    with raw(path) as connection:
        connection.execute("PRAGMA user_version = 4")


def other_database(path: Path) -> None:
    with raw(path) as connection:
        connection.execute("CREATE TABLE moz_places (url)")
        connection.execute("INSERT INTO moz_places VALUES ('x')")


def other_database_with_a_log(path: Path) -> None:
    with raw(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    other_database(path)


def some_of_the_tables(path: Path) -> None:
    with raw(path) as connection:
        connection.execute("CREATE TABLE chat_sessions (id TEXT PRIMARY KEY)")


def no_database(path: Path) -> None:
    path.write_bytes(b"%PDF-1.7 this is no database at all\n" * 400)


def short_text(path: Path) -> None:
    path.write_bytes(b"hello\n")


REFUSED: list[tuple[Callable[[Path], None], type[ThreadkeepError]]] = [
    (newer_author, SchemaMismatch),
    (newer_program, SchemaMismatch),
    (newer_program_and_author, SchemaMismatch),
    (other_database, Invalid),
    (other_database_with_a_log, Invalid),
    (some_of_the_tables, Invalid),
    (no_database, Damaged),
    (short_text, Damaged),
]


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("make,error", REFUSED, ids=[make.__name__ for make, _ in REFUSED])
def test_file_that_must_not_be_written_is_left_byte_for_byte(
    path: Path,
    make: Callable[[Path], None],
    error: type[ThreadkeepError],
    read_only: bool,  # noqa: FBT001
) -> None:
    make(path)
    before = path.read_bytes()
    with pytest.raises(error, match=r"chat\.db|user_version") as caught:
        open_store(path, read_only=read_only)
    assert caught.value.hint
    assert path.read_bytes() == before
    assert not (path.parent / "backups").exists()
    # SQLite leaves an empty log behind when a reader was the last to close a file that has one.
    log = path.with_name("chat.db-wal")
    assert not log.exists() or log.stat().st_size == 0


OLD_TRIGGER = """CREATE TRIGGER tk_message_shown AFTER UPDATE OF hidden_at ON chat_messages
WHEN new.hidden_at IS NULL AND instr(new.metadata_json, '"hidden_at":' || old.hidden_at)
BEGIN
  UPDATE chat_messages
  SET metadata_json = replace(metadata_json, '"hidden_at":' || old.hidden_at, '"hidden_at":null')
  WHERE id = new.id;
END"""


def of_version_1(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Make a file of ours as it was: untitled sessions without a title; give their ids."""
    first = layout.SCHEMA._replace(version=1, steps=layout.SCHEMA.steps[:1])
    with monkeypatch.context() as patched:
        patched.setattr("threadkeep.chat.store.SCHEMA", first)
        with open_store(path) as store:
            made = [new_session(store).id for _ in range(3)]
            store.set_title(made[0], "Named")
    with raw(path) as connection:
        for name in ("message_shown", "session_untitled", "session_title_gone"):
            connection.execute(f"DROP TRIGGER tk_{name}")
        connection.execute(OLD_TRIGGER)
    with monkeypatch.context() as patched:
        patched.setattr("threadkeep.chat.store.SCHEMA", first)
        with open_store(path) as store, store.context.db.write() as tx:
            for session_id in made[1:]:
                tx.run(Sql("UPDATE chat_sessions SET title = NULL WHERE id = ?"), (session_id,))
                rehash(tx, SESSION, session_id)
    return made


def test_file_of_version_1_gets_titles_that_its_other_program_can_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = of_version_1(path, monkeypatch)
    with open_store(path) as store:
        assert [store.session(one).title for one in made] == ["Named", None, None]
        untitled = new_session(store)
        assert store.set_title(made[0], None).title is None
        assert store.fork(made[1]).title is None
        text = "".join(store.export(untitled)).replace('"New Chat"', "null")
        assert store.import_sessions(text.replace(untitled.id, "s")).ok
        assert store.session("s").title is None
        assert '"title":null' in "".join(store.export("s"))  # as it was given
        assert store.verify().problems == []
    titles = {row["title"] for row in rows(path, "SELECT title FROM chat_sessions")}
    assert titles == {"New Chat"}
    with open_store(path.with_name("fresh.db")) as store:
        own = "name NOT LIKE 'sqlite_stat%'"
        schema = f"SELECT name, sql FROM sqlite_master WHERE {own} ORDER BY name"
        assert rows(path, schema) == rows(store, schema)
    assert list((path.parent / "backups").iterdir())


def test_damaged_session_is_not_hashed_anew(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = of_version_1(path, monkeypatch)
    with raw(path) as connection:
        (row,) = connection.execute("SELECT * FROM tk_hashes WHERE id = ?", (made[1],))
        connection.execute("UPDATE chat_sessions SET agent = 'other' WHERE id = ?", (made[1],))
        connection.execute("INSERT INTO tk_hashes VALUES (?, ?, ?)", tuple(row))
    with open_store(path) as store:
        assert store.session(made[1]).title is None
        (problem,) = store.verify().problems
        assert made[1] in problem


def test_error_says_which_version_and_which_are_known(path: Path) -> None:
    newer_program(path)
    with pytest.raises(SchemaMismatch, match=r"999.*2") as caught:
        open_store(path)
    assert "upgrade" in caught.value.hint


def test_version_that_is_no_number_is_damage(path: Path) -> None:
    newer_program(path)
    with raw(path) as connection:
        connection.execute("UPDATE tk_meta SET value = 'x' WHERE key = 'schema_version'")
    with pytest.raises(Damaged, match="schema_version"):
        open_store(path)


def test_what_a_crashed_newer_program_left_in_its_log_stays_there(path: Path) -> None:
    newer_author(path)
    writer = sqlite3.connect(path, isolation_level=None)
    with closing(writer):
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("PRAGMA wal_autocheckpoint = 0")
        writer.execute("UPDATE chat_sessions SET title = 'only in the log'")
        log = path.with_name("chat.db-wal")
        # The copies are what the disk holds when the program dies now.
        main, left = path.read_bytes(), log.read_bytes()
    crashed = path.with_name("crashed.db")
    crashed.write_bytes(main)
    crashed.with_name("crashed.db-wal").write_bytes(left)
    with pytest.raises(SchemaMismatch):
        open_store(crashed)
    assert rows(crashed, "SELECT title FROM chat_sessions") == [{"title": "only in the log"}]


def test_empty_file_becomes_a_store(path: Path) -> None:
    path.touch(mode=0o600)
    with open_store(path) as store:
        new_session(store)
        assert store.verify().ok


def test_folder_and_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="folder"):
        ChatStore.open(tmp_path)
    with pytest.raises(NotFound, match=r"missing\.db"):
        ChatStore.open(tmp_path / "missing.db", read_only=True)
    assert not (tmp_path / "missing.db").exists()


def test_two_stores_bring_one_file_up_once(path: Path) -> None:
    with raw(path) as connection:
        make_authors_tables(2)(connection)
        fill(connection)
    with open_store(path) as first, open_store(path) as second:
        first.say("ses_old", "one")
        second.say("ses_old", "two")
        assert texts(first, "ses_old")[-2:] == ["one", "two"]


def test_rows_made_by_hand_with_any_types_can_be_read(path: Path) -> None:
    values: list[Any] = ["ses_x", "coder", "5", 1.5, "3", "7"]
    with open_store(path) as store, raw(path) as other:
        other.execute(
            "INSERT INTO chat_sessions(id, agent, prompt_tokens, cost_usd, created_at, updated_at)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            values,
        )
        session = store.session("ses_x")
        assert (session.usage["input"], session.cost_usd, session.created_at) == (5, 1.5, 3)
        assert session.model == {}


def test_absurd_numbers_in_metadata_do_not_stop_the_adoption(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    with ChatStore.open(path) as store:
        session = store.create_session(agent="a", model={})
        metadata = {"hidden_at": 2**70, "usage": {"input": 2**70, "output": 3}}
        store.put_message(session, {"id": "m", "role": "assistant", "parts": [], "metadata": {}})
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("UPDATE chat_messages SET metadata_json = ?", (json.dumps(metadata),))
    names = "SELECT name, type FROM sqlite_master WHERE name LIKE 'tk_%' AND sql IS NOT NULL"
    for name, kind in sorted(connection.execute(names), key=lambda row: row[1] == "table"):
        if (
            not name.startswith("tk_search_")
            or kind != "table"
            or name
            in {
                "tk_search_docs",
                "tk_search_dirty",
            }
        ):
            connection.execute(f"DROP {kind} IF EXISTS {name}")
    connection.execute("DROP TABLE chat_events")
    connection.close()
    with ChatStore.open(path) as store:
        assert [message["id"] for message in store.ui_messages(session, "all")] == ["m"]
        assert store.spend(session)[0]["output"] == 3
