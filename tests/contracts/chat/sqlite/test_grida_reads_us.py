"""The guide author's own store and ours on one file: its queries work here, its writes are seen.

Nothing of that store runs in this test. Its queries are stated again, from what its tables and
columns are called: plain SQLite, its order of rows, its way to write.
"""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.chats import (
    new_session,
    open_store,
    record,
    reply,
    text_chunks,
    texts,
    tool_chunks,
    turn,
)
from threadkeep.chat.records import Session
from threadkeep.chat.store import ChatStore
from threadkeep.testing import NOON, raw

Json = dict[str, Any]
LATER = NOON + 10**9


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ChatStore]:
    with open_store(tmp_path / "sessions.db") as opened:
        yield opened


@pytest.fixture
def session(store: ChatStore) -> Session:
    return new_session(store, title="Ours", workspace_id="w1", workspace_root="/w")


@pytest.fixture
def author(store: ChatStore) -> Iterator[sqlite3.Connection]:
    """The connection of the other store, opened the way it opens a file."""
    with raw(store) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA busy_timeout = 5000")
        yield connection


# ---------------------------------------------------------------------- it reads us


SESSION_COLUMNS = (
    "id, title, agent, workspace_id, workspace_root, model_json, mode, parent_id,"
    " parent_message_id, permissions_json, metadata_json, prompt_tokens, completion_tokens,"
    " reasoning_tokens, cache_read, cache_write, total_tokens, cost_usd, created_at, updated_at,"
    " archived_at"
)
MESSAGE_COLUMNS = "id, session_id, role, metadata_json, hidden_at, created_at, updated_at"
PART_COLUMNS = (
    'id, message_id, session_id, "index", type, data_json, tool_call_id, tool_state,'
    " continuation_run_id, created_at, updated_at"
)


def test_opening_creates_nothing_and_needs_no_migration(
    store: ChatStore, author: sqlite3.Connection
) -> None:
    schema = author.execute("SELECT * FROM sqlite_master ORDER BY name").fetchall()
    for table, columns in {
        "chat_sessions": SESSION_COLUMNS,
        "chat_messages": MESSAGE_COLUMNS,
        "chat_parts": PART_COLUMNS,
    }.items():
        author.execute(f"CREATE TABLE IF NOT EXISTS {table} (id TEXT PRIMARY KEY)")
        author.execute(f"SELECT {columns} FROM {table}").fetchall()
    for name, place in {
        "sessions_agent_updated": "chat_sessions(agent, updated_at)",
        "sessions_workspace_updated": "chat_sessions(workspace_id, updated_at)",
        "sessions_parent": "chat_sessions(parent_id)",
        "sessions_archived": "chat_sessions(archived_at)",
        "messages_session_created": "chat_messages(session_id, created_at)",
        "messages_hidden": "chat_messages(hidden_at)",
        "parts_message_index": 'chat_parts(message_id, "index")',
        "parts_session": "chat_parts(session_id)",
        "parts_tool_call": "chat_parts(tool_call_id)",
    }.items():
        author.execute(f"CREATE INDEX IF NOT EXISTS idx_chat_{name} ON {place}")
    assert author.execute("SELECT * FROM sqlite_master ORDER BY name").fetchall() == schema
    # It migrates anything below its own number, and refuses anything above.
    assert author.execute("PRAGMA user_version").fetchone()[0] == 3


def test_its_session_list_pages_through_ours(store: ChatStore, author: sqlite3.Connection) -> None:
    made = [new_session(store, agent="coder").id for _ in range(5)]
    store.say(made[1], "up")
    store.archive(made[4])
    first = author.execute(
        f"SELECT {SESSION_COLUMNS} FROM chat_sessions WHERE agent = ? AND archived_at IS NULL"
        " ORDER BY updated_at DESC, id DESC LIMIT 2",
        ("coder",),
    ).fetchall()
    last = first[-1]
    rest = author.execute(
        f"SELECT {SESSION_COLUMNS} FROM chat_sessions WHERE agent = ? AND archived_at IS NULL"
        " AND (updated_at < ? OR (updated_at = ? AND id < ?))"
        " ORDER BY updated_at DESC, id DESC LIMIT 10",
        ("coder", last["updated_at"], last["updated_at"], last["id"]),
    ).fetchall()
    theirs = [row["id"] for row in (*first, *rest)]
    assert theirs == [made[1], made[3], made[2], made[0]]
    page = store.sessions(limit=2)
    assert page.next_cursor == f"{last['updated_at']}:{last['id']}"
    assert [session.id for session in page.items] == theirs[:2]


def test_its_transcript_is_ours(
    store: ChatStore, session: Session, author: sqlite3.Connection
) -> None:
    asked, _ = turn(store, session, "q1", "a1")
    turn(store, session, "q2", "a2")
    record(store, session, [{"type": "start"}, *tool_chunks("c1"), {"type": "abort"}])
    store.rewind(session, asked)
    reply(store, session, "b1")
    store.enqueue(session, "later")
    messages = author.execute(
        f"SELECT {MESSAGE_COLUMNS} FROM chat_messages WHERE session_id = ?"
        " AND hidden_at IS NULL ORDER BY created_at, id",
        (session.id,),
    ).fetchall()
    shown = [row for row in messages if "queued_at" not in json.loads(row["metadata_json"])]
    ours = store.ui_messages(session)
    assert [row["id"] for row in shown] == [message["id"] for message in ours]
    for row, message in zip(shown, ours, strict=True):
        parts = author.execute(
            f'SELECT {PART_COLUMNS} FROM chat_parts WHERE message_id = ? ORDER BY "index"',
            (row["id"],),
        ).fetchall()
        assert [json.loads(part["data_json"]) for part in parts] == message["parts"]
        assert [part["index"] for part in parts] == list(range(len(parts)))


def test_its_queries_into_the_json_work(
    store: ChatStore, session: Session, author: sqlite3.Connection
) -> None:
    waiting = store.enqueue(session, "later")
    gone = store.enqueue(session, "never")
    store.cancel(session, gone)
    store.compact(session, "sum", summary_tokens=5)
    queued = author.execute(
        "SELECT id FROM chat_messages WHERE role = 'user' AND hidden_at IS NULL"
        " AND json_type(metadata_json, '$.queued_at') IN ('integer', 'real')"
    ).fetchall()
    assert [row["id"] for row in queued] == [waiting.id]
    cancelled = author.execute(
        "SELECT id FROM chat_messages"
        " WHERE json_extract(metadata_json, '$.queue_canceled_at') IS NOT NULL"
    ).fetchall()
    assert [row["id"] for row in cancelled] == [gone.id]
    marker = author.execute(
        "SELECT json_extract(data_json, '$.data.summary'), json_extract(data_json, '$.type')"
        " FROM chat_parts WHERE type = 'data-compaction'"
    ).fetchone()
    assert tuple(marker) == ("sum", "data-compaction")


def test_tool_calls_are_found_by_their_id_and_state(
    store: ChatStore, session: Session, author: sqlite3.Connection
) -> None:
    answer = record(store, session, [{"type": "start"}, *tool_chunks("c1", "read")])
    row = author.execute(
        f"SELECT {PART_COLUMNS} FROM chat_parts WHERE session_id = ? AND tool_call_id = ?",
        (session.id, "c1"),
    ).fetchone()
    assert (row["message_id"], row["type"], row["tool_state"]) == (
        answer,
        "tool-read",
        "input-available",
    )
    data = json.loads(row["data_json"])
    assert data["toolCallId"] == "c1"
    assert "tool_call_id" not in data


def test_it_reads_while_we_write_and_we_write_while_it_reads(
    store: ChatStore, session: Session, author: sqlite3.Connection
) -> None:
    author.execute("BEGIN")
    seen = author.execute("SELECT count(*) FROM chat_messages").fetchone()[0]
    turn(store, session, "q", "a")
    assert author.execute("SELECT count(*) FROM chat_messages").fetchone()[0] == seen
    author.execute("COMMIT")
    assert author.execute("SELECT count(*) FROM chat_messages").fetchone()[0] == seen + 2


# ---------------------------------------------------------------------- we read it


def insert_session(author: sqlite3.Connection, session_id: str = "ses_theirs") -> None:
    author.execute(
        f"INSERT INTO chat_sessions({SESSION_COLUMNS}) VALUES (?, 'New Chat', 'grida', NULL, NULL,"
        " NULL, NULL, NULL, NULL, '[]', '{}', 0, 0, 0, 0, 0, 0, 0, ?, ?, NULL)",
        (session_id, LATER, LATER),
    )


def insert_message(
    author: sqlite3.Connection, name: str, role: str, at: int, metadata: Json | None = None
) -> None:
    author.execute(
        f"INSERT INTO chat_messages({MESSAGE_COLUMNS}) VALUES (?, 'ses_theirs', ?, ?, NULL, ?, ?)",
        (name, role, json.dumps(metadata or {}), at, at),
    )


def upsert_part(author: sqlite3.Connection, message: str, index: int, part: Json) -> None:
    """Write a part the way that store does for every chunk: by message and position."""
    author.execute(
        f"INSERT INTO chat_parts({PART_COLUMNS}) VALUES (?, ?, 'ses_theirs', ?, ?, ?, ?, ?, NULL,"
        ' ?, ?) ON CONFLICT(message_id, "index") DO UPDATE SET type = excluded.type,'
        " data_json = excluded.data_json,"
        " tool_call_id = coalesce(excluded.tool_call_id, tool_call_id),"
        " tool_state = coalesce(excluded.tool_state, tool_state), updated_at = excluded.updated_at",
        (
            f"prt_{message}_{index}",
            message,
            index,
            part["type"],
            json.dumps(part, ensure_ascii=False, separators=(",", ":")),
            part.get("toolCallId"),
            part.get("state") if "toolCallId" in part else None,
            LATER,
            LATER,
        ),
    )


def write_turn(author: sqlite3.Connection) -> None:
    insert_session(author)
    insert_message(author, "u1", "user", LATER + 1)
    upsert_part(author, "u1", 0, {"type": "text", "text": "where is the numbat"})
    insert_message(author, "a1", "assistant", LATER + 2, {"model": {"provider_id": "acme"}})
    for text in ("the ", "the numbat ", "the numbat sleeps"):
        upsert_part(author, "a1", 0, {"type": "text", "text": text})
    call = {"type": "tool-read", "toolCallId": "c1", "state": "input-streaming"}
    upsert_part(author, "a1", 1, call)
    upsert_part(author, "a1", 1, {**call, "state": "input-available", "input": {"p": "é"}})


def test_its_session_without_a_model_is_taken(store: ChatStore, author: sqlite3.Connection) -> None:
    insert_session(author)
    session = store.session("ses_theirs")
    assert session.model == {}
    assert session.title is None
    assert session.workspace_root == ""
    store.say("ses_theirs", "hi", model="acme/large")
    author.execute("UPDATE chat_sessions SET model_json = NULL WHERE id = 'ses_theirs'")
    assert store.session("ses_theirs").model == {}
    assert store.verify().problems == []


def test_its_turn_is_read_found_and_no_alarm(store: ChatStore, author: sqlite3.Connection) -> None:
    write_turn(author)
    assert texts(store, "ses_theirs") == ["where is the numbat", "the numbat sleeps"]
    part = store.message("ses_theirs", "a1")["parts"][1]
    assert part["input"] == {"p": "é"}
    assert {hit.message_id for hit in store.search("numbat")} == {"u1", "a1"}
    assert len(store.search("sleeps")) == 1
    report = store.verify()
    assert report.problems == []
    assert report.unhashed == 6  # a session, two messages, three parts
    assert [session.id for session in store.sessions(agent="grida").items] == ["ses_theirs"]


def test_its_changes_to_our_rows_are_seen_and_no_alarm(
    store: ChatStore, session: Session, author: sqlite3.Connection
) -> None:
    _, answer = turn(store, session, "q", "the old words", usage={"input": 5})
    store.search("old")
    assert store.verify().unhashed == 0
    author.execute(
        "UPDATE chat_parts SET data_json = ?, updated_at = ?"
        " WHERE message_id = ? AND type = 'text'",
        (json.dumps({"type": "text", "text": "some new words"}), LATER, answer),
    )
    author.execute("UPDATE chat_sessions SET title = 'Renamed', updated_at = ?", (LATER,))
    author.execute("UPDATE chat_messages SET updated_at = ? WHERE id = ?", (LATER, answer))
    assert texts(store, session) == ["q", "some new words"]
    assert store.session(session).title == "Renamed"
    assert store.search("old") == []
    assert len(store.search("new")) == 1
    assert store.verify().problems == []


def test_we_go_on_with_its_conversation(store: ChatStore, author: sqlite3.Connection) -> None:
    write_turn(author)
    record(
        store,
        "ses_theirs",
        [
            {"type": "start", "messageId": "a1"},
            {"type": "tool-output-available", "toolCallId": "c1", "output": "found"},
            *text_chunks("it woke up")[2:],
        ],
    )
    parts = store.message("ses_theirs", "a1")["parts"]
    assert [part.get("state") for part in parts] == [None, "output-available", "done"]
    assert store.say("ses_theirs", "thanks").created_at > LATER + 2
    assert store.fork("ses_theirs").title is None
    assert store.verify().problems == []


def test_it_goes_on_with_ours(
    store: ChatStore, session: Session, author: sqlite3.Connection
) -> None:
    """It appends after the highest position, and answers a call that waits for an approval."""
    answer = record(
        store,
        session,
        [
            {"type": "start"},
            *tool_chunks("c1"),
            {"type": "tool-approval-request", "approvalId": "ap1", "toolCallId": "c1"},
        ],
    )
    waiting = author.execute(
        "SELECT id, data_json FROM chat_parts WHERE tool_state = 'approval-requested'"
    ).fetchone()
    data = json.loads(waiting["data_json"])
    assert data["approval"] == {"id": "ap1"}
    answered = {**data, "state": "approval-responded", "approval": {"id": "ap1", "approved": True}}
    changed = author.execute(
        "UPDATE chat_parts SET data_json = ?, tool_state = 'approval-responded',"
        " continuation_run_id = 'run1', updated_at = ? WHERE id = ? AND data_json = ?",
        (json.dumps(answered), LATER, waiting["id"], waiting["data_json"]),
    )
    assert changed.rowcount == 1
    following = author.execute(
        'SELECT max("index") + 1 FROM chat_parts WHERE message_id = ?', (answer,)
    ).fetchone()[0]
    author.execute(
        f"INSERT INTO chat_parts({PART_COLUMNS}) VALUES ('prt_x', ?, ?, ?, 'text', ?, NULL, NULL,"
        " NULL, ?, ?)",
        (answer, session.id, following, '{"type":"text","text":"go"}', LATER, LATER),
    )
    parts = store.message(session, answer)["parts"]
    assert [part.get("state") for part in parts] == ["approval-responded", None]
    record(
        store,
        session,
        [
            {"type": "start", "messageId": answer},
            {"type": "tool-output-available", "toolCallId": "c1", "output": 1},
        ],
    )
    row = author.execute("SELECT * FROM chat_parts WHERE tool_call_id = 'c1'").fetchone()
    assert row["tool_state"] == "output-available"
    assert row["continuation_run_id"] == "run1"
    assert store.verify().problems == []


def test_its_rewind_and_its_undoing_are_seen(
    store: ChatStore, session: Session, author: sqlite3.Connection
) -> None:
    _, answer = turn(store, session, "q", "a")
    author.execute("UPDATE chat_messages SET hidden_at = ? WHERE id = ?", (LATER, answer))
    assert texts(store, session) == ["q"]
    author.execute("UPDATE chat_messages SET hidden_at = NULL WHERE id = ?", (answer,))
    assert texts(store, session) == ["q", "a"]
    author.execute("UPDATE chat_messages SET hidden_at = ? WHERE id = ?", (LATER, answer))
    assert store.unrewind(session) == [answer]
    assert store.verify().problems == []


def test_its_undoing_of_our_rewind_is_seen(
    store: ChatStore, session: Session, author: sqlite3.Connection
) -> None:
    """It clears the column and knows nothing of the copy in the metadata."""
    asked, answer = turn(store, session, "q", "a")
    store.rewind(session, asked)
    author.execute(
        "UPDATE chat_messages SET hidden_at = NULL, updated_at = ? WHERE id = ?", (LATER, answer)
    )
    assert texts(store, session) == ["q", "a"]
    assert "metadata" not in store.message(session, answer)
    assert store.verify().problems == []


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_undoing_a_rewind_changes_nothing_but_the_key_that_hid(
    store: ChatStore, session: Session, author: sqlite3.Connection, separators: tuple[str, str]
) -> None:
    """Whoever wrote the metadata in between: it is read as JSON, not as the text of ours."""
    asked, answer = turn(store, session, "q", "a")
    store.rewind(session, asked)
    (hidden,) = author.execute("SELECT hidden_at FROM chat_messages WHERE id = ?", (answer,))
    inside = {"hidden_at": hidden[0], "said": f'"hidden_at":{hidden[0]}'}
    metadata = {"of": inside, "hidden_at": hidden[0], "half": 0.1, "big": 2**60}
    author.execute(
        "UPDATE chat_messages SET metadata_json = ? WHERE id = ?",
        (json.dumps(metadata, separators=separators), answer),
    )
    author.execute("UPDATE chat_messages SET hidden_at = NULL WHERE id = ?", (answer,))
    assert texts(store, session) == ["q", "a"]
    assert store.message(session, answer)["metadata"] == {
        "of": inside,
        "half": 0.1,
        "big": 2**60,
    }


def test_metadata_that_is_no_json_is_in_nobodys_way(
    store: ChatStore, session: Session, author: sqlite3.Connection
) -> None:
    asked, answer = turn(store, session, "q", "a")
    store.rewind(session, asked)
    sql = "UPDATE chat_messages SET metadata_json = '{\"hidden_at\":' WHERE id = ?"
    author.execute(sql, (answer,))
    author.execute("UPDATE chat_messages SET hidden_at = NULL WHERE id = ?", (answer,))
    (row,) = author.execute("SELECT * FROM chat_messages WHERE id = ?", (answer,))
    assert (row["hidden_at"], row["metadata_json"]) == (None, '{"hidden_at":')


def test_untitled_session_has_the_title_that_it_takes_for_none(
    store: ChatStore, author: sqlite3.Connection
) -> None:
    untitled, named = new_session(store), new_session(store, title="Newest")
    store.set_title(store.fork(named), None)
    found = author.execute("SELECT DISTINCT title FROM chat_sessions ORDER BY title").fetchall()
    assert [row["title"] for row in found] == ["New Chat", "Newest"]
    assert [one.id for one in store.sessions(title="New").items] == [named.id]
    reply(store, untitled, "wombat")
    (hit,) = store.search("wombat")
    assert hit.title is None
    assert {entry["title"] for entry in store.prune(keep=0, dry_run=True).sessions} == {
        *(None, "Newest"),
    }
    # A program that writes no title at all gets one, and so does one that takes it away.
    author.execute(
        "INSERT INTO chat_sessions(id, agent, created_at, updated_at) VALUES ('theirs', 'x', 1, 1)"
    )
    (row,) = author.execute("SELECT title FROM chat_sessions WHERE id = 'theirs'")
    assert row["title"] == "New Chat"
    for title in ("Theirs", None):
        author.execute("UPDATE chat_sessions SET title = ? WHERE id = 'theirs'", (title,))
        (row,) = author.execute("SELECT title FROM chat_sessions WHERE id = 'theirs'")
        assert row["title"] == (title or "New Chat")


def test_its_queue_and_ours_are_one(
    store: ChatStore, session: Session, author: sqlite3.Connection
) -> None:
    ours = store.enqueue(session, "ours")
    author.execute(
        f"INSERT INTO chat_messages({MESSAGE_COLUMNS}) VALUES ('q1', ?, 'user', ?, NULL, 1, 1)",
        (session.id, json.dumps({"queued_at": 1, "queue_enqueued_at": 1})),
    )
    assert [message.id for message in store.queued(session)] == ["q1", ours.id]
    row = author.execute("SELECT * FROM chat_messages WHERE id = ?", (ours.id,)).fetchone()
    metadata = json.loads(row["metadata_json"])
    del metadata["queued_at"]
    claimed = author.execute(
        "UPDATE chat_messages SET metadata_json = ?, created_at = ?, updated_at = ? WHERE id = ?"
        " AND hidden_at IS NULL AND metadata_json = ?",
        (json.dumps(metadata), LATER, LATER, ours.id, row["metadata_json"]),
    )
    assert claimed.rowcount == 1
    assert not store.cancel(session, ours)
    assert texts(store, session) == ["ours"]
    fired = store.fire(session)
    assert fired is not None
    assert [message["id"] for message in store.ui_messages(session)] == [ours.id, "q1"]


def test_its_usage_is_in_our_sums(store: ChatStore, author: sqlite3.Connection) -> None:
    write_turn(author)
    author.execute(
        "UPDATE chat_messages SET metadata_json = ? WHERE id = 'a1'",
        (json.dumps({"usage": {"input": 7, "output": 3}}),),
    )
    reply(store, "ses_theirs", "more", usage={"input": 100})
    assert store.session("ses_theirs").usage["input"] == 107
    assert store.session("ses_theirs").total_tokens == 110
    author.execute(
        "UPDATE chat_messages SET metadata_json = ? WHERE id = 'a1'",
        (json.dumps({"usage": {"input": 9, "output": 3}}),),
    )
    reply(store, "ses_theirs", "even more", usage={"input": 1000})
    assert store.session("ses_theirs").total_tokens == 1112


def test_its_compaction_is_ours(store: ChatStore, author: sqlite3.Connection) -> None:
    write_turn(author)
    insert_message(
        author, "c1", "assistant", LATER + 3, {"compaction": True, "usage": {"input": 4}}
    )
    payload = {"summary": "about a numbat", "tail_start_id": "a1", "auto": True}
    upsert_part(author, "c1", 0, {"type": "data-compaction", "data": payload})
    assert texts(store, "ses_theirs", "model") == ["about a numbat", "the numbat sleeps"]
    branch = store.fork("ses_theirs")
    assert texts(store, branch, "model") == ["about a numbat", "the numbat sleeps"]
    assert branch.total_tokens == 4


def test_its_deletion_takes_everything(
    store: ChatStore, session: Session, author: sqlite3.Connection
) -> None:
    write_turn(author)
    turn(store, session, "q", "a", usage={"input": 1})
    author.execute("DELETE FROM chat_sessions WHERE id IN ('ses_theirs', ?)", (session.id,))
    assert store.sessions().items == []
    for table in ("chat_messages", "chat_parts", "tk_runs", "tk_usage", "tk_hashes"):
        assert author.execute(f"SELECT count(*) FROM {table}").fetchone()[0] == 0, table
    assert store.search("numbat") == []
    assert store.verify().problems == []


def test_it_cannot_write_two_parts_at_one_place(
    store: ChatStore, session: Session, author: sqlite3.Connection
) -> None:
    message = store.say(session, "x")
    with pytest.raises(sqlite3.IntegrityError):
        author.execute(
            f"INSERT INTO chat_parts({PART_COLUMNS}) VALUES ('p', ?, ?, 0, 'text', '{{}}', NULL,"
            " NULL, NULL, 1, 1)",
            (message.id, session.id),
        )
