"""One file, two programs: Hermes at schema 6 and SessionDB read, search and write it both ways."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.faults.old_state_files import make_old_state
from tests.support.hermes_v6 import HermesV6
from tests.support.states import Clock, open_state, talk
from threadkeep.state.session_db import SessionDB

HERMES = Path(__file__).parents[3] / "support" / "hermes_v6.py"
OURS = Path(__file__).parents[3] / "faults" / "state_adapter.py"
BLOB = f"see data:image/png;base64,{'iVBORw0KGgo' * 200}"
CALL = {"id": "c1", "function": {"name": "terminal", "arguments": '{"cmd": "ls"}'}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def hermes(path: Path, db: SessionDB) -> Iterator[HermesV6]:
    """Hermes in the file that `db`, still open, has made."""
    with HermesV6(path) as opened:
        yield opened


def ask(path: Path, sql: str, *params: object) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return connection.execute(sql, params).fetchall()


def assert_sound(path: Path) -> None:
    """Check pages, references, both indexes against the messages, and our fingerprints."""
    assert ask(path, "PRAGMA integrity_check") == [("ok",)]
    assert ask(path, "PRAGMA foreign_key_check") == []
    for index in ("messages_fts", "tk_search"):
        ask(path, f"INSERT INTO {index}({index}, rank) VALUES ('integrity-check', 1)")
    with open_state(path) as db:
        assert db.check() == []


def found(db: SessionDB, query: str) -> list[str]:
    return [hit["session_id"] for hit in db.search_messages(query)]


# ---------------------------------------------------------------------- Hermes in our file


def test_hermes_lists_searches_and_replays_what_we_wrote(db: SessionDB, hermes: HermesV6) -> None:
    talk(db, "s1", "deploy the docker container\nnow", "done with chat-send")
    db.append_message("s1", "assistant", None, tool_calls=[CALL], reasoning="hm")
    db.append_message("s1", "tool", "total 0", tool_name="terminal", tool_call_id="c1")
    (listed,) = hermes.list_sessions()
    assert listed["preview"] == "deploy the docker container now"
    assert (listed["message_count"], listed["tool_call_count"]) == (4, 1)
    (hit,) = hermes.search("docker container")
    assert hit["snippet"] == "deploy the >>>docker<<< >>>container<<<\nnow"
    assert hermes.search('"chat-send"')[0]["role"] == "assistant"
    assert hermes.search("deploy* NOT nothing")
    replayed = hermes.messages("s1")
    assert [m["role"] for m in replayed] == ["user", "assistant", "assistant", "tool"]
    assert json.loads(replayed[2]["tool_calls"]) == [CALL]
    assert replayed[2]["reasoning"] == "hm"


def test_hermes_reads_readable_text_where_ours_is_exact(db: SessionDB, hermes: HermesV6) -> None:
    parts = [{"type": "text", "text": "look at this"}, {"type": "image_url", "image_url": "x"}]
    db.ensure_session("s")
    db.append_message("s", "user", parts)
    db.append_message("s", "user", "half \ud83d of it")
    assert [m["content"] for m in hermes.messages("s")] == [
        "look at this\n[image]",
        "half \ufffd of it",
    ]
    assert [m["content"] for m in db.get_messages("s")] == [parts, "half \ud83d of it"]
    assert hermes.search("look")


def test_we_find_list_and_replay_at_once_what_hermes_appends(
    db: SessionDB, hermes: HermesV6, clock: Clock
) -> None:
    talk(db, "ours", "hello")
    hermes.create_session("theirs", "telegram")
    hermes.append("theirs", "user", "kubernetes is down")
    hermes.append("theirs", "assistant", "部署容器失败 again", tool_calls=[CALL])
    hermes.append("theirs", "tool", "x" * 9000 + " needleafter", tool_name="browser")
    assert found(db, "kubernetes") == ["theirs"]
    assert found(db, "容器") == ["theirs"]
    assert found(db, "browser") == ["theirs"]
    assert found(db, "terminal") == ["theirs"]
    listed = {row["id"]: row for row in db.list_sessions_rich()}
    assert listed["theirs"]["preview"] == "kubernetes is down"
    assert [m["role"] for m in db.get_messages_as_conversation("theirs")] == [
        *("user", "assistant", "tool"),
    ]
    assert (db.get_session("theirs") or {})["message_count"] == 3


def test_writing_by_turns_keeps_one_order_and_both_counts(
    path: Path, db: SessionDB, hermes: HermesV6
) -> None:
    db.ensure_session("s")
    for turn in range(60):  # Hermes folds the log into the file after its fiftieth write
        hermes.append("s", "user", f"question{turn}")
        db.append_message("s", "assistant", f"answer{turn}")
    said = [m["content"] for m in db.get_messages("s")]
    assert said == [f"{word}{turn}" for turn in range(60) for word in ("question", "answer")]
    assert (db.get_session("s") or {})["message_count"] == 120
    assert found(db, "question59") == found(db, "answer0") == ["s"]
    assert [hit["content"] for hit in hermes.search("answer59")] == ["answer59"]
    hermes.close()
    db.close()
    assert_sound(path)


def test_what_hermes_deletes_leaves_nothing_beside_it(
    path: Path, db: SessionDB, hermes: HermesV6
) -> None:
    talk(db, "parent", "first", "second")
    db.create_session("child", "cli", parent_session_id="parent", relation="branch")
    db.append_message("parent", "user", ["a", "list"], idempotency_key="k")
    db.append_message("parent", "user", BLOB)
    db.append_message("parent", "user", "搜索这个")
    db.set_session_pinned("parent")
    assert found(db, "搜索") == ["parent"]
    last = db.get_messages("parent")[-1]["id"]
    db.rewind_to_message("parent", last, any_role=True)
    hermes.delete_session("parent")
    assert db.get_session("parent") is None
    assert (db.get_session("child") or {})["parent_session_id"] is None
    assert found(db, "second") == found(db, "搜索") == []
    db.close()
    hermes.close()
    for table in ("tk_exact", "tk_keys", "tk_flags", "tk_rewound", "tk_hashes", "tk_docs"):
        assert ask(path, f"SELECT count(*) FROM {table}") == [(0,)], table
    assert_sound(path)


def test_messages_cleared_by_hermes_are_gone_from_both_indexes(
    path: Path, db: SessionDB, hermes: HermesV6
) -> None:
    talk(db, "s", "docker", "容器 stays", "x" * 40_000, BLOB)
    assert found(db, "容器") == ["s"]
    hermes.clear_messages("s")
    assert found(db, "docker") == found(db, "容器") == []
    assert hermes.search("docker") == []
    assert db.list_sessions_rich()[0]["preview"] == ""
    hermes.append("s", "user", "new docker")
    assert found(db, "docker") == ["s"]
    db.close()
    hermes.close()
    assert_sound(path)


def test_what_hermes_changes_is_no_longer_ours_to_vouch_for(
    path: Path, db: SessionDB, hermes: HermesV6
) -> None:
    talk(db, "s", "before")
    db.append_message("s", "user", ["exact", 1])
    last = db.get_messages("s")[-1]["id"]
    change = "UPDATE messages SET content = ? WHERE id = ?"
    hermes.write(lambda c: c.execute(change, ("replaced 容器", last)))
    hermes.set_title("s", "Named by Hermes")
    assert db.get_messages("s")[-1]["content"] == "replaced 容器"
    assert db.get_session_title("s") == "Named by Hermes"
    assert found(db, "exact") == []
    assert found(db, "容器") == ["s"]
    db.close()
    hermes.close()
    assert_sound(path)


def test_what_we_leave_out_of_the_index_can_be_changed_and_deleted_by_hermes(
    path: Path, db: SessionDB, hermes: HermesV6
) -> None:
    long = "long " * 8000
    ids = talk(db, "s", BLOB, long, "short")
    db.append_message("s", "tool", "out " * 3000, tool_name="terminal")
    hermes.append("s", "user", BLOB)
    change = "UPDATE messages SET content = ? WHERE id = ?"
    for message, content in ((ids[0], "now short"), (ids[1], None), (ids[2], BLOB)):
        hermes.write(lambda c, row=(content, message): c.execute(change, row))  # type: ignore[misc]
    assert [hit["id"] for hit in hermes.search("short")] == [ids[0]]
    hermes.write(lambda c: c.execute("UPDATE messages SET role = 'tool' WHERE id = ?", ids[:1]))
    hermes.write(lambda c: c.execute("DELETE FROM messages WHERE id <> ?", ids[:1]))
    assert [hit["id"] for hit in hermes.search("short")] == [ids[0]]
    db.close()
    hermes.close()
    assert_sound(path)


def test_ids_are_never_used_twice_whoever_deleted_the_last(db: SessionDB, hermes: HermesV6) -> None:
    (first,) = talk(db, "s", "only")
    hermes.clear_messages("s")
    assert hermes.append("s", "user", "next") == first + 1
    db.clear_messages("s")
    assert db.append_message("s", "user", "and next") == first + 2


# ---------------------------------------------------------------------- we in Hermes's file


def test_we_work_in_a_file_that_hermes_made_and_hermes_goes_on(path: Path) -> None:
    with HermesV6(path) as hermes:
        hermes.create_session("s", "cli")
        hermes.append("s", "user", "made by hermes 容器")
        hermes.append("s", "user", BLOB)
        with open_state(path) as db:
            assert found(db, "hermes") == found(db, "容器") == ["s"]
            db.append_message("s", "assistant", "answered by us")
            db.append_message("s", "tool", "output " * 2000, tool_name="terminal")
            assert [hit["content"] for hit in hermes.search("answered")] == ["answered by us"]
            hermes.append("s", "user", "and on")
            assert found(db, '"and on"') == ["s"]
        hermes.add_tokens("s", 7)
        hermes.end_session("s", "user_exit")
    assert_sound(path)


def test_hermes_may_switch_the_journal_under_us(path: Path) -> None:
    make_old_state(path, 6, journal="DELETE")
    with open_state(path) as db:
        db.append_message("old2", "user", "before")
        with HermesV6(path) as hermes:  # it asks for a write-ahead log whenever it opens
            for turn in range(60):
                hermes.append("old2", "user", f"question{turn}")
                db.append_message("old2", "assistant", f"answer{turn}")
        db.append_message("old2", "user", "after")
        assert db.message_count("old2") == 12 + 122
        assert found(db, "answer59") == found(db, "question0") == ["old2"]
    assert ask(path, "PRAGMA journal_mode") == [("wal",)]
    assert_sound(path)


@pytest.mark.parametrize("version", [6, 2])
def test_reindex_makes_hermess_index_ours_and_hermes_still_finds(path: Path, version: int) -> None:
    make_old_state(path, version)
    with open_state(path) as db:
        db.append_message("old2", "user", BLOB)
        db.reindex()
        assert found(db, "needle4x2") == ["old4"]
        assert found(db, "容器")
    assert "tk_indexed_messages" in ask(
        path, "SELECT sql FROM sqlite_master WHERE name = 'messages_fts'"
    )[0][0]  # fmt: skip
    with HermesV6(path) as hermes:
        assert hermes.search("needle4x2")[0]["session_id"] == "old4"
        hermes.append("old2", "user", "after needle7x7")
        assert hermes.search("needle7x7")
        hermes.delete_session("old4")
        assert hermes.search("needle4x2") == []
    assert_sound(path)


def test_columns_and_tables_of_others_survive(path: Path) -> None:
    make_old_state(path, 6)
    ask(path, "ALTER TABLE sessions ADD COLUMN mood TEXT DEFAULT 'calm'")
    ask(path, "ALTER TABLE messages ADD COLUMN stars INTEGER")
    ask(path, "CREATE TABLE plugin(key TEXT PRIMARY KEY, value)")
    ask(path, "INSERT INTO plugin VALUES ('a', 1)")
    ask(path, "UPDATE sessions SET mood = 'wild' WHERE id = 'old2'")
    ask(path, "UPDATE messages SET stars = id")
    with open_state(path) as db:
        db.append_message("old2", "user", "more")
        db.set_session_title("old2", "Titled")
        db.end_session("old2", "done")
        assert (db.get_session("old2") or {})["mood"] == "wild"
        first = db.get_messages("old2")[0]
        assert first["stars"] == first["id"]
        db.reindex()
    assert ask(path, "SELECT mood, title FROM sessions WHERE id = 'old2'") == [("wild", "Titled")]
    assert ask(path, "SELECT count(*) FROM messages WHERE stars = id") == [(72,)]
    assert ask(path, "SELECT * FROM plugin") == [("a", 1)]
    assert_sound(path)


# ---------------------------------------------------------------------- at the same time


def start(*words: object) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: "subprocess.Popen[str]") -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


@pytest.mark.faults
def test_processes_of_both_programs_write_at_once_and_nothing_is_lost(path: Path) -> None:
    open_state(path).close()
    theirs = [start(HERMES, "append", path, f"h{number}", 60) for number in range(2)]
    ours = [
        start(OURS, "write", "--db", path, "--mode", "say", "--w", number, "--n", 60)
        for number in range(2)
    ]
    passing = start(HERMES, "replace", path, "passing", 15)
    said = [finish(process) for process in ours]
    for process in (*theirs, passing):
        finish(process)
    with open_state(path) as db:
        for number in range(2):
            contents = [m["content"] for m in db.get_messages(f"h{number}")]
            assert contents == [f"hermes{n} said in h{number}" for n in range(60)]
            assert len(db.get_messages(f"w{number}")) == 30
        assert len(db.get_messages("shared")) == 60
        assert db.message_count("passing") == 15
        assert (db.get_session("shared") or {})["message_count"] == 60
        assert sorted(found(db, "hermes59")) == ["h0", "h1"]
    assert [text.count("ACK") for text in said] == [60, 60]
    assert_sound(path)


@pytest.mark.faults
def test_both_programs_may_create_the_file_at_the_same_moment(tmp_path: Path) -> None:
    for number in range(4):
        path = tmp_path / f"race{number}.db"
        theirs = start(HERMES, "append", path, "h", 5)
        ours = start(OURS, "write", "--db", path, "--mode", "say", "--w", 0, "--n", 6)
        assert finish(ours).count("ACK") == 6
        finish(theirs)
        with open_state(path) as db:
            assert db.message_count() == 11
        assert_sound(path)
