"""Messages in files of today's form, and of forms that nobody knows yet."""

import json
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.hermes_today import index_problems, make_hermes_state, run
from threadkeep.state.hermes_state import (
    CompressionSessionBusyError,
    CompressionSessionClosedError,
    SessionCompressionInProgressError,
    SessionDB,
    SessionResumeTooLargeError,
    SessionTurnLeaseLostError,
)

PICTURE = [{"type": "text", "text": "集装箱"}, {"type": "image_url", "image_url": {"url": "x"}}]
BEGUN = "INSERT INTO sessions(id, source, started_at) VALUES ('s', 'cli', 1), ('t', 'cli', 2)"
# A form of a number far ahead: columns, tables and triggers that no program has.
AHEAD = (
    "ALTER TABLE messages ADD COLUMN mood TEXT DEFAULT 'calm'",
    "ALTER TABLE messages ADD COLUMN message_uid TEXT",
    "ALTER TABLE messages ADD COLUMN display_order INTEGER",
    "ALTER TABLE sessions ADD COLUMN planet TEXT",
    "CREATE TABLE comets(id INTEGER PRIMARY KEY, seen TEXT)",
    (
        "CREATE TRIGGER stamp AFTER INSERT ON messages WHEN new.message_uid IS NULL BEGIN"
        " UPDATE messages SET message_uid = 'u' || new.id WHERE id = new.id; END"
    ),
    (
        "CREATE TRIGGER placed AFTER INSERT ON messages WHEN new.display_order IS NULL BEGIN"
        " UPDATE messages SET display_order = new.id WHERE id = new.id; END"
    ),
)


@pytest.fixture(params=[26, 999])
def path(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    file = tmp_path / "state.db"
    more = AHEAD if request.param == 999 else ()
    make_hermes_state(file, *more, BEGUN, number=request.param)
    return file


@pytest.fixture
def db(path: Path) -> Iterator[SessionDB]:
    with SessionDB(path) as opened:
        yield opened


def ask(path: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def contents(db: SessionDB, session_id: str = "s", **wanted: Any) -> list[Any]:
    return [message["content"] for message in db.get_messages(session_id, **wanted)]


def objects(path: Path) -> list[Any]:
    return ask(path, "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'tk_%'")


# ---------------------------------------------------------------------- writing and reading


def test_a_message_is_stored_with_every_column_and_nothing_of_the_file_changes(
    db: SessionDB, path: Path
) -> None:
    before = objects(path)
    number = db.append_message(
        "s",
        "assistant",
        PICTURE,
        tool_calls='[{"id": "c"}]',
        reasoning_content="",
        codex_message_items=[{"a": 1}],
        platform_message_id="m-1",
        observed=True,
        effect_disposition="none",
        api_content="sent",
        display_kind="hidden",
        display_metadata='{"a": 1}',
    )
    [message] = db.get_messages("s")
    assert message["content"] == PICTURE
    assert message["tool_calls"] == [{"id": "c"}]
    assert message["display_metadata"] == {"a": 1}
    assert (message["reasoning_content"], message["observed"], message["active"]) == ("", 1, 1)
    column = ask(path, "SELECT content FROM messages")[0][0]
    assert column == "\0json:" + json.dumps(PICTURE)
    assert column.isascii()
    assert db.has_platform_message_id("s", "m-1")
    assert db.get_message_role("s", number) == "assistant"
    assert db.append_messages_batch("s", [{"role": "user", "content": "lone \ud83d"}]) == 1
    assert contents(db)[-1] == "lone \ufffd"
    assert index_problems(path) == []
    assert objects(path) == before


def test_a_key_makes_a_retry_harmless_also_in_a_file_of_hermes(db: SessionDB, path: Path) -> None:
    first = db.append_message("s", "user", "once", idempotency_key="k")
    assert db.append_message("s", "user", "once", idempotency_key="k") == first
    given = [{"role": "user", "content": "twice", "idempotency_key": key} for key in ("k", "l")]
    assert db.append_messages("s", given) == [first, first + 1]
    assert ask(path, "SELECT message_count FROM sessions WHERE id = 's'") == [(2,)]
    assert [name for (name,) in ask(path, "SELECT name FROM sqlite_master WHERE name LIKE 'tk_%'")]


def test_closing_leaves_the_tables_of_a_file_of_hermes_as_they_were(path: Path) -> None:
    before = objects(path)
    with SessionDB(path) as db:
        for number in range(300):
            db.append_message("s", "user", f"{number}")
        db.get_messages("s")
    assert objects(path) == before


def test_a_conversation_has_all_that_a_model_needs_and_nothing_of_a_harness(db: SessionDB) -> None:
    said = "<memory-context>old</memory-context> hello "
    db.append_message("s", "user", said, timestamp=1.5, platform_message_id="p")
    db.append_message("s", "user", "Review the conversation above and update the skill library")
    db.append_message("s", "assistant", "as a curator")
    db.append_message(
        "s", "assistant", "[memory]", tool_calls=[{"id": "c"}], finish_reason="tool_calls"
    )
    db.append_message("s", "tool", " raw ", tool_call_id="c", tool_name="memory", timestamp=2)
    turns = db.get_messages_as_conversation("s", include_row_ids=True)
    assert turns[0] == {
        "role": "user",
        "content": "hello",
        "_row_id": 1,
        "timestamp": 1.5,
        "message_id": "p",
    }
    assert [turn["content"] for turn in turns] == ["hello", "", " raw "]
    assert turns[1]["tool_calls"] == [{"id": "c"}]
    assert "_row_id" not in db.get_messages_as_conversation("s")[0]


def test_sides_take_turns_when_asked(db: SessionDB) -> None:
    for role, text in (("user", "a"), ("user", "b"), ("assistant", "c"), ("assistant", "d")):
        db.append_message("s", role, text)
    db.append_message("s", "tool", "nobody asked", tool_call_id="x")
    turns = db.get_messages_as_conversation("s", repair_alternation=True)
    assert [turn["content"] for turn in turns] == ["a\n\nb", "c\nd"]
    assert len(db.get_messages_as_conversation("s")) == 5


def test_a_resume_shows_the_ancestors_and_gives_the_model_its_own(
    db: SessionDB, path: Path
) -> None:
    run(path, ["UPDATE sessions SET parent_session_id = 's' WHERE id = 't'"])
    db.append_message("s", "user", "first")
    db.append_message("t", "user", "first")
    db.append_message("t", "assistant", "answer")
    model, shown = db.get_resume_conversations("t")
    assert [turn["content"] for turn in model] == ["first", "answer"]
    assert [turn["content"] for turn in shown] == ["first", "answer"]
    assert [turn["content"] for turn in db.get_ancestor_display_prefix("t")] == ["first"]
    assert db.get_resume_message_count("t") == 3
    with pytest.raises(SessionResumeTooLargeError):
        db.assert_resume_safe("t", max_messages=2)
    assert db.assert_export_safe("t", max_messages=2) == 2
    run(path, ["""UPDATE sessions SET model_config = '{"_branched_from": "s"}' WHERE id = 't'"""])
    assert db.get_ancestor_display_prefix("t") == []


def test_pages_and_windows(db: SessionDB) -> None:
    ids = [db.append_message("s", "user" if n % 2 else "tool", f"{n}") for n in range(9)]
    around = db.get_messages_around("s", ids[1], 2)
    assert [message["content"] for message in around["window"]] == ["0", "1", "2", "3"]
    assert (around["messages_before"], around["messages_after"]) == (1, 2)
    view = db.get_anchored_view("s", ids[4], window=1, bookend=1)
    assert [message["content"] for message in view["window"]] == ["3", "4", "5"]
    assert [message["content"] for message in view["bookend_start"]] == ["1"]
    assert [message["content"] for message in view["bookend_end"]] == ["7"]
    with pytest.raises(ValueError, match="after_id"):
        db.get_messages("s", after_id=1, offset=1)
    assert contents(db, limit=2, offset=1, latest=True) == ["6", "7"]
    assert db.latest_user_message_row_id("s") == ids[7]
    assert db.latest_message_row_id("s", role="user", offset=1) == ids[5]


# ---------------------------------------------------------------------- taking back, compacting


def test_a_rewind_marks_rows_and_is_undone_step_by_step(db: SessionDB, path: Path) -> None:
    ids = [db.append_message("s", "user", text) for text in ("one", "two", "three")]
    done = db.rewind_to_message("s", ids[1])
    assert (done["rewound_count"], done["new_head_id"]) == (2, ids[0])
    assert done["target_message"]["content"] == "two"
    assert (contents(db), contents(db, include_inactive=True)) == (["one"], ["one", "two", "three"])
    assert contents(db, include_compacted=True) == ["one"]
    assert db.get_session("s")["rewind_count"] == 1  # type: ignore[index]
    db.append_message("s", "user", "four")
    assert db.rewind_to_message("s", ids[0])["rewound_count"] == 2
    assert db.undo_rewind("s") == 2
    assert contents(db) == ["one", "four"]
    assert db.undo_rewind("s") == 2
    assert contents(db) == ["one", "two", "three"]
    assert db.undo_rewind("s") == 1
    assert contents(db) == ["one", "four"]
    assert db.restore_rewound("s", ids[0]) == 2
    assert contents(db) == ["one", "two", "three", "four"]
    assert index_problems(path) == []


def test_a_rewind_of_another_program_is_undone_too(db: SessionDB, path: Path) -> None:
    for text in ("one", "two", "three"):
        db.append_message("s", "user", text)
    run(path, ["UPDATE messages SET active = 0 WHERE id >= 2"])
    assert db.undo_rewind("s") == 2
    assert contents(db) == ["one", "two", "three"]


def test_what_cannot_be_rewound_is_refused(db: SessionDB) -> None:
    question = db.append_message("s", "user", "q")
    answer = db.append_message("s", "assistant", "a")
    with pytest.raises(ValueError, match="not by the user"):
        db.rewind_to_message("s", answer)
    with pytest.raises(ValueError, match="no message"):
        db.rewind_to_message("t", question)
    with pytest.raises(RuntimeError, match="changed"):
        db.rewind_to_message("s", question, expected_active_ids=[question])
    with pytest.raises(RuntimeError, match="changed"):
        db.rewind_to_message("s", question, expected_target_content="other")
    assert db.get_active_message_ids("s") == [question, answer]


def test_going_back_by_what_the_user_said(db: SessionDB) -> None:
    for role, text in (("user", "one"), ("assistant", "1"), ("user", "two"), ("assistant", "2")):
        db.append_message("s", role, text)
    own = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "1"}]
    own.append({"role": "user", "content": "other"})
    with pytest.raises(RuntimeError, match="in memory"):
        db.rewind_user_turn("s", -1, warm_history=own)
    with pytest.raises(ValueError, match="has fewer than"):
        db.rewind_user_turn("s", 2)
    own[-1]["content"] = "two"
    done = db.rewind_user_turn("s", -1, warm_history=own, adopt_row_ids=True)
    assert (done.live_text, done.rewound_count, done.turns_undone) == ("two", 2, 1)
    assert [(turn["content"], turn["_row_id"]) for turn in done.prefix] == [("one", 1), ("1", 2)]
    assert db.try_acquire_session_turn_lease("s", "somebody")
    with pytest.raises(SessionTurnLeaseLostError):
        db.rewind_user_turn("s", -5)
    assert contents(db) == ["one", "1"]


def test_a_compaction_keeps_what_came_in_meanwhile(db: SessionDB, path: Path) -> None:
    db.append_message("s", "user", "old")
    mark = db.get_active_message_watermark("s")
    late = db.append_message("s", "assistant", "late", tool_calls=[{"id": "c"}])
    if "mood" in db.context.form.tables["messages"]:
        run(path, [f"UPDATE messages SET mood = 'wild' WHERE id = {late}"])
    assert not db.has_archived_messages("s")
    patch = {"note": 1, "gone": None}
    summary = [{"role": "user", "content": "summary"}]
    with pytest.raises(SessionCompressionInProgressError):
        db.archive_and_compact("s", list(summary), lock_holder="me")
    assert db.try_acquire_compression_lock("s", "me")
    assert db.archive_and_compact("s", summary, patch, mark, "me") == 2
    assert contents(db) == ["summary", "late"]
    assert contents(db, include_compacted=True) == ["old", "summary", "late"]
    copy = db.get_messages("s")[-1]
    assert copy["id"] > late
    assert copy.get("mood") in (None, "wild")
    session = db.get_session("s") or {}
    assert (session["message_count"], session["tool_call_count"]) == (2, 1)
    assert json.loads(session["model_config"]) == {"note": 1}
    assert [hit["id"] for hit in db.search_messages("old")] == [1]
    assert index_problems(path) == []


def test_a_compaction_goes_on_in_a_child(db: SessionDB, path: Path) -> None:
    run(path, ["UPDATE sessions SET cwd = '/w', user_id = 'u' WHERE id = 's'"])
    db.append_message("s", "user", "old")
    wanted: dict[str, Any] = {
        "parent_session_id": "s",
        "child_session_id": "child",
        "source": "cli",
        "messages": [{"role": "user", "content": "summary"}],
        "system_prompt": "be brief",
        "watermark": 0,
    }
    with pytest.raises(CompressionSessionBusyError):
        db.publish_compression_child(**wanted, compression_lock_holder="me")
    assert db.try_acquire_compression_lock("s", "me")
    db.publish_compression_child(**wanted, compression_lock_holder="me")
    assert contents(db, "child") == ["summary", "old"]
    child = db.find_live_compression_child("s") or {}
    assert (child["id"], child["cwd"], child["user_id"]) == ("child", "/w", "u")
    assert child["system_prompt"] == "be brief"
    for write in (
        lambda: db.append_message("s", "user", "too late"),
        lambda: db.append_messages("s", [{"role": "user"}]),
        lambda: db.append_messages_batch("s", [{"role": "user"}]),
        lambda: db.replace_messages("s", []),
    ):
        with pytest.raises(CompressionSessionClosedError):
            write()
    assert not db.reopen_orphaned_compression_session("s")
    db.append_message("child", "user", "on time")


def test_replaced_messages_may_stay_as_taken_back(db: SessionDB, path: Path) -> None:
    db.append_message("s", "user", "one")
    db.replace_messages("s", [{"role": "user", "content": "two"}], archive_dropped=True)
    assert (contents(db), contents(db, include_inactive=True)) == (["two"], ["one", "two"])
    db.replace_messages("s", [{"role": "user", "content": "three"}], active_only=True)
    assert contents(db, include_inactive=True) == ["one", "three"]
    db.replace_messages("s", [{"role": "user", "content": "four"}])
    assert contents(db, include_inactive=True) == ["four"]
    assert index_problems(path) == []


# ---------------------------------------------------------------------- leases


def test_one_turn_at_a_time_for_the_whole_conversation(db: SessionDB, path: Path) -> None:
    run(
        path,
        [
            "UPDATE sessions SET ended_at = 2, end_reason = 'compression' WHERE id = 's'",
            "UPDATE sessions SET parent_session_id = 's' WHERE id = 't'",
        ],
    )
    assert db.try_acquire_session_turn_lease("s", "one")
    assert not db.try_acquire_session_turn_lease("t", "two")
    assert db.has_live_session_turn_lease("t")
    db.append_message("t", "user", "mine", turn_lease_holder="one")
    with pytest.raises(SessionTurnLeaseLostError):
        db.append_message("t", "user", "stale", turn_lease_holder="two")
    waits: list[float] = []
    assert not db.acquire_session_turn_lease(
        "t", "two", wait_seconds=5, on_wait=waits.append, should_abort=lambda: len(waits) > 0
    )
    assert db.refresh_session_turn_lease("t", "one")
    db.release_session_turn_lease("t", "one")
    assert db.acquire_session_turn_lease("t", "two", wait_seconds=0)


def test_a_lock_of_a_process_that_is_gone_is_taken_over(db: SessionDB) -> None:
    gone = f"pid={(1 << 22) + 7}:x"
    assert db.try_acquire_compression_lock("s", gone)
    assert not db.refresh_compression_lock("s", "me")
    assert db.try_acquire_compression_lock("s", "me")
    assert db.get_compression_lock_holder("s") == "me"
    assert not db.try_acquire_compression_lock("s", "other")
    db.release_compression_lock("s", "other")
    db.release_compression_lock("s", "me")
    assert db.get_compression_lock_holder("s") is None


def test_cool_downs_and_streaks(db: SessionDB, path: Path) -> None:
    until = db.context.clock() + 60
    before = db.get_compression_failure_cooldown_row("s")
    db.record_compression_failure_cooldown("s", until, "why")
    assert (db.get_compression_failure_cooldown("s") or {})["error"] == "why"
    db.restore_compression_failure_cooldown_row("s", before)
    assert db.get_compression_failure_cooldown("s") is None
    with pytest.raises(RuntimeError):
        db.restore_compression_failure_cooldown_row("nobody", {"session_exists": True})
    db.set_compression_fallback_streak("s", -3)
    db.set_compression_ineffective_count("s", 2)
    assert db.get_compression_fallback_streak("s") == 0
    assert db.get_compression_ineffective_count("s") == 2
    assert db.increment_hygiene_failure_streak("chat") == 1
    assert db.increment_hygiene_failure_streak("chat") == 2
    db.reset_hygiene_failure_streak("chat")
    assert db.increment_hygiene_failure_streak("chat") == 1
    assert db.get_compression_overload_streak("s") == 0
    assert db.increment_compression_overload_streak("s") == 1
    assert db.increment_compression_overload_streak("nobody") is None
    db.set_compression_recovery_deadline("s", until)
    assert db.get_compression_recovery_deadline("s") == until
    assert ("s", 1) in ask(path, "SELECT id, compression_overload_streak FROM sessions")


# ---------------------------------------------------------------------- what is noted on a message


def test_reactions_are_one_for_each_and_told_once(db: SessionDB) -> None:
    number = db.append_message("s", "user", "hello", display_metadata={"a": 1})
    [reaction] = db.set_message_reaction("s", number, "+1") or []
    assert (reaction["emoji"], reaction["author"]) == ("+1", "user")
    assert [one["emoji"] for one in db.set_message_reaction("s", number, "-1") or []] == ["-1"]
    told = [{"row_id": number, "role": "user", "emoji": "-1", "text": "hello"}]
    assert db.take_unseen_reactions("s") == told
    assert db.take_unseen_reactions("s") == []
    assert db.set_message_reaction("s", number, "-1") == []
    assert db.get_message_reactions("s", number) == []
    assert db.get_messages("s")[0]["display_metadata"] == {"a": 1}
    assert db.set_message_reaction("t", number, "+1") is None


def test_what_was_sent_and_how_it_is_shown(db: SessionDB) -> None:
    number = db.append_message("s", "user", "hello")
    assert db.set_latest_user_api_content("s", "other", "x") == 0
    assert db.set_latest_user_api_content("s", "hello", "sent") == 1
    assert db.set_message_api_content("s", number, "hello", "sent again") == 1
    wanted: dict[str, str] = {"role": "user", "content": "hello", "display_kind": "note"}
    assert db.set_latest_matching_message_display_kind("s", **wanted)
    [message] = db.get_messages("s")
    assert (message["api_content"], message["display_kind"]) == ("sent again", "note")
    assert db.list_recent_user_messages("s") == []


def test_what_the_user_said_last(db: SessionDB) -> None:
    for text in ("[CONTEXT SUMMARY]: old", "first\nline", PICTURE, "x" * 100):
        db.append_message("s", "user", text)
    found = [one["preview"] for one in db.list_recent_user_messages("s", limit=3)]
    assert found == ["x" * 77 + "...", "集装箱", "first line"]


def test_bare_marks_are_cleared_after_a_backup(db: SessionDB, path: Path) -> None:
    number = db.append_message("s", "assistant", " [memory] ", tool_calls=[{"id": "c"}])
    db.append_message("s", "assistant", "[memory]")
    assert db.purge_stale_tool_call_markers(dry_run=True)["row_ids"] == [number]
    done = db.purge_stale_tool_call_markers()
    assert (done["rows_affected"], Path(done["backup_path"]).is_file()) == (1, True)
    assert contents(db) == ["", "[memory]"]
    assert index_problems(path) == []


# ---------------------------------------------------------------------- files that surprise


def test_a_trigger_that_doubles_rows_is_told_once(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    doubled = (
        "CREATE TRIGGER doubled AFTER INSERT ON messages WHEN new.role = 'user' BEGIN INSERT INTO"
        " messages(session_id, role, content, timestamp) VALUES ('t', 'echo', 'x', 1); END"
    )
    run(path, [doubled])
    with SessionDB(path) as db, caplog.at_level(logging.WARNING):
        db.append_message("s", "user", "one")
        db.append_message("s", "user", "two")
    assert caplog.text.count("one message was inserted, 2 came into the table") == 1


def test_an_index_that_does_not_follow_is_told(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run(path, ["DROP TRIGGER messages_fts_insert"])
    with SessionDB(path) as db, caplog.at_level(logging.WARNING):
        db.append_message("s", "user", "one")
    assert "1 came into the table and 0 into its index" in caplog.text


def test_rows_without_a_mark_are_live(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    make_hermes_state(path, BEGUN)
    with SessionDB(path) as db:
        db.append_message("s", "user", "old")
    run(
        path,
        [
            "PRAGMA writable_schema = ON",
            (
                "UPDATE sqlite_master SET sql = replace(sql, 'active INTEGER NOT NULL DEFAULT 1',"
                " 'active INTEGER') WHERE name = 'messages'"
            ),
        ],
    )
    run(path, ["UPDATE messages SET active = NULL"])
    with SessionDB(path) as db:
        assert contents(db) == ["old"]
        assert db.get_active_message_watermark("s") == 1


def test_a_newer_word_widens_a_file_of_ours(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "state.db") as db:
        db.create_session("s", "cli")
        db.append_message("s", "user", "plain")
        assert db.get_messages("s")[0]["active"] == 1
        db.append_message("s", "assistant", PICTURE, reasoning_content="")
        assert db.context.form.answers.whole_turns
        assert contents(db) == ["plain", PICTURE]
        db.rewind_to_message("s", 1)
        assert contents(db) == []
        assert db.undo_rewind("s") == 2
        assert db.check() == []


def test_a_batch_follows_todays_rules_in_a_new_file(tmp_path: Path) -> None:
    calls = [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]
    with SessionDB(tmp_path / "state.db") as db:
        db.create_session("s", "cli")
        turns = [
            {"role": "assistant", "content": "x", "tool_calls": json.dumps(calls)},
            {"role": "tool", "content": "y", "reasoning_content": "not its own"},
        ]
        assert db.append_messages_batch("s", turns) == 2
        first, second = db.get_messages("s")
        assert first["tool_calls"] == calls
        assert second["reasoning_content"] is None
        db.end_session("s", "compression")
        with pytest.raises(CompressionSessionClosedError):
            db.append_messages_batch("s", [{"role": "user", "content": "late"}])
