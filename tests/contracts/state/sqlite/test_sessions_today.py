"""Sessions in files of newer Hermes programs, and of one that nobody has heard of yet."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.support.newer_states import make_newer_state, objects_of
from tests.support.states import Clock
from threadkeep.state.rows import shape_preview
from threadkeep.state.session_config import read_config
from threadkeep.state.session_db import SessionDB


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=[26, 999])
def db(tmp_path: Path, request: pytest.FixtureRequest, clock: Clock) -> Iterator[SessionDB]:
    path = tmp_path / "state.db"
    make_newer_state(path, request.param)
    before = objects_of(path)
    with SessionDB(path, clock=clock) as store:
        yield store
    heartbeats = ("gateway_heartbeats", "sqlite_autoindex_gateway_heartbeats_1")
    assert [one for one in objects_of(path) if one[1] not in heartbeats] == before


def row(db: SessionDB, session_id: str) -> dict[str, Any]:
    return db.get_session(session_id) or {}


def ask(db: SessionDB, sql: str, *values: object) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(db.db_path)) as connection:
        rows = connection.execute(sql, values).fetchall()
        connection.commit()
        return rows


def listed(db: SessionDB, **options: Any) -> list[str]:
    return [one["id"] for one in db.list_sessions_rich(**options)]


def begin(db: SessionDB, session_id: str, parent: str | None = None, **given: Any) -> None:
    source = given.pop("source", "cli")
    db.create_session(session_id, source, parent_session_id=parent, **given)
    db.append_message(session_id, "user", f"hello from {session_id}")


# ---------------------------------------------------------------------- begin, fill, inherit


def test_a_session_that_exists_gets_what_it_lacks(db: SessionDB) -> None:
    db.create_session("s", "telegram", model="first", user_id="u")
    db.create_session("s", "cli", model="second", cwd="/w", system_prompt="be brief", user_id="v")
    assert db.ensure_session("s", "unknown", chat_id="7", cwd="/other") == "s"
    found = row(db, "s")
    names = ("source", "model", "user_id", "cwd", "system_prompt", "chat_id")
    told = tuple(found[name] for name in names)
    assert told == ("telegram", "first", "u", "/w", "be brief", "7")


def test_a_reset_mark_survives_the_settings_that_come_later(db: SessionDB) -> None:
    db.create_session("s", "cli", model_config={"_reset_from": "p"})
    db.create_session("s", "cli", model_config={"temperature": 1})
    db.create_session("s", "cli", model_config={"temperature": 2})
    assert json.loads(row(db, "s")["model_config"]) == {"temperature": 1, "_reset_from": "p"}


def test_a_child_has_its_folder_and_a_continuation_its_place_from_the_parent(db: SessionDB) -> None:
    db.create_session("p", "telegram", user_id="u", session_key="k", cwd="/w", profile_name="x")
    db.create_session("helper", "cli", parent_session_id="p")
    db.end_session("p", "compression")
    db.create_session("next", "telegram", parent_session_id="p", cwd="/own")
    told = [row(db, one) for one in ("helper", "next")]
    assert [(one["cwd"], one["profile_name"]) for one in told] == [("/w", "x"), ("/own", "x")]
    assert [(one["user_id"], one["session_key"]) for one in told] == [(None, None), ("u", "k")]


def test_prompts_are_stored_once_by_their_hash(db: SessionDB) -> None:
    for session_id in ("a", "b"):
        db.create_session(session_id, "cli", system_prompt="the same")
    db.update_system_prompt("b", "another")
    ask(db, "UPDATE sessions SET system_prompt = 'old', system_prompt_hash = NULL WHERE id = 'a'")
    assert [row(db, one)["system_prompt"] for one in ("a", "b")] == ["old", "another"]
    db.update_session_model("b", "m", "provider")
    assert row(db, "b")["system_prompt"] is None
    assert ask(db, "SELECT prompt FROM system_prompts") == []


def test_columns_that_nobody_knows_come_along(db: SessionDB) -> None:
    begin(db, "s")
    if "mood" in row(db, "s"):
        ask(db, "UPDATE sessions SET mood = 'wild'")
        db.set_session_title("s", "Titled")
        db.update_session_cwd("s", "/w")
        assert (row(db, "s")["mood"], db.list_sessions_rich()[0]["mood"]) == ("wild", "wild")
        assert ask(db, "SELECT mood FROM moods") == [("calm",)]


# ---------------------------------------------------------------------- lineage


def test_the_conversation_is_resumed_and_not_its_delegate(db: SessionDB, clock: Clock) -> None:
    begin(db, "root")
    db.end_session("root", "compression")
    begin(db, "tip", "root")
    begin(db, "branch", "root", model_config={"_branched_from": "root"})
    begin(db, "delegate", "tip", model_config={"_delegate_from": "tip"})
    begin(db, "tool", "tip", source="tool")
    ask(db, "UPDATE sessions SET started_at = started_at - 1000 WHERE id = 'tip'")
    clock.now += 1
    assert db.get_compression_tip("root") == "tip"
    assert db.resolve_resume_session_id("root") == "tip"
    assert db.get_compression_lineage("tip") == ["root", "tip"]
    assert db.get_compression_lineage("delegate") == ["delegate"]
    assert db.get_conversation_root("delegate") == "root"
    assert listed(db) == ["branch", "tip"]
    relations = {one["id"]: one["relation"] for one in db.get_lineage("root")}
    assert (relations["branch"], relations["delegate"]) == ("branch", "delegate")


def test_what_is_begun_after_a_reset_is_listed_and_not_resumed(db: SessionDB) -> None:
    begin(db, "old", session_key="k")
    assert db.promote_to_session_reset("old", "idle")
    assert not db.promote_to_session_reset("old")
    begin(db, "new", "old", session_key="k")
    assert listed(db) == ["new", "old"]
    assert db.resolve_resume_session_id("old") == "old"
    db.reopen_session("old")
    assert read_config(row(db, "new")["model_config"]) == {"_reset_from": "old"}
    assert listed(db) == ["new", "old"]


def test_our_own_branches_and_continuations_have_hermes_marks(db: SessionDB) -> None:
    begin(db, "a", model_config={"x": 1})
    db.branch_session("a", "b")
    db.compress_session("b", "c", [{"role": "user", "content": "summary"}])
    marks = [read_config(row(db, one)["model_config"]) for one in ("b", "c")]
    assert marks == [{"x": 1, "_branched_from": "a"}, {"x": 1}]
    assert (db.get_compression_tip("b"), listed(db)) == ("c", ["c", "a"])


def test_broken_settings_are_nobodys_mark(db: SessionDB) -> None:
    begin(db, "s")
    ask(db, "UPDATE sessions SET model_config = '{not json' WHERE id = 's'")
    assert (listed(db), db.get_compression_lineage("s")) == (["s"], ["s"])
    db.patch_session_model_config("s", {"a": 1, "b": None})
    assert db.get_session_model_config_value("s", "a") == 1


# ---------------------------------------------------------------------- lists and marks


def test_marks_hold_for_a_whole_chain(db: SessionDB) -> None:
    begin(db, "root")
    db.end_session("root", "compression")
    begin(db, "tip", "root")
    begin(db, "other")
    assert db.set_session_hidden("tip", hidden=True)
    assert (listed(db), listed(db, include_hidden=True)) == (["other"], ["other", "tip"])
    assert db.set_session_hidden("root", hidden=False)
    assert db.set_session_archived("root", archived=True)
    assert (listed(db), listed(db, archived_only=True)) == (["other"], ["tip"])
    assert (db.session_count(), db.session_count(include_archived=True)) == (1, 3)
    assert db.set_session_archived("tip", archived=False)
    assert db.set_session_pinned("tip", pinned=True)
    assert listed(db, limit=1, include_pinned=True) == ["other", "tip"]
    assert not db.set_session_pinned("nobody", pinned=True)


def test_a_chain_stands_where_its_latest_member_does(db: SessionDB) -> None:
    begin(db, "root")
    db.end_session("root", "compression")
    begin(db, "other")
    begin(db, "tip", "root")
    [first, second] = db.list_sessions_rich(order_by_last_active=True)
    assert (first["id"], first["_lineage_root_id"], second["id"]) == ("tip", "root", "other")
    db.touch_session_activity("other", description="busy", provenance="made up")
    assert listed(db, order_by_last_active=True) == ["other", "tip"]
    assert listed(db, order_by_last_active=True, id_query="ROO") == ["tip"]
    assert [one["id"] for one in db.search_sessions_by_id("root")] == ["tip"]


def test_lists_are_narrowed(db: SessionDB) -> None:
    begin(db, "a", cwd="/home/ada/my_app")
    begin(db, "b", cwd="/home/ada/myXapp/src", source="web")
    begin(db, "c", session_key="k", source="telegram")
    assert listed(db, cwd_prefix="/home/ada/my_app/") == ["a"]
    assert listed(db, sources=["web", "telegram"]) == ["c", "b"]
    assert listed(db, exclude_sources=["web"]) == ["c", "a"]
    assert listed(db, session_key="k") == ["c"]
    assert "system_prompt" not in db.list_sessions_rich(compact_rows=True)[0]
    assert [one["cwd"] for one in db.distinct_session_cwds()] == [
        "/home/ada/myXapp/src",
        "/home/ada/my_app",
    ]


def test_what_was_read_is_unread_again_when_something_happens(db: SessionDB) -> None:
    begin(db, "s")
    assert not db.list_sessions_rich()[0]["unread"]
    db.set_session_read("s")
    assert not db.list_sessions_rich()[0]["unread"]
    db.append_message("s", "assistant", "more")
    assert db.list_sessions_rich()[0]["unread"]
    db.set_session_read("s")
    db.set_session_read("s", read=False)
    assert db.list_sessions_rich()[0]["unread"]


def test_titles_know_who_gave_them(db: SessionDB) -> None:
    begin(db, "root")
    db.end_session("root", "compression")
    begin(db, "tip", "root")
    begin(db, "other")
    assert db.set_auto_title("root", "Derived", source="derived") is True
    assert db.set_auto_title("root", "Model", source="llm") is True
    assert db.set_auto_title("root", "Again", source="llm") is False
    assert db.get_session_title_source("root") == "llm"
    assert db.set_session_title("tip", "Model")
    assert (db.get_session_title("root"), db.get_session_title("tip")) == (None, "Model")
    with pytest.raises(ValueError, match="already in use"):
        db.set_session_title("other", "Model")
    with pytest.raises(ValueError, match="does not come from"):
        db.set_auto_title("other", "x", source="nobody")
    assert db.set_session_title_source("tip", "derived")
    assert not db.set_session_title_source("other", "user")


# ---------------------------------------------------------------------- folders, heartbeat


def test_late_facts_about_a_folder_do_not_replace_newer_ones(db: SessionDB) -> None:
    db.create_session("s", "cli")
    first = db.update_session_cwd("s", "/a", "main", "/a")
    second = db.update_session_cwd("s", "/b")
    assert (first, second) == (1, 2)
    assert not db.publish_session_git_metadata("s", "/a", 1, "late", "/late")
    assert db.publish_session_git_metadata("s", "/b", 2, "dev")
    found = row(db, "s")
    assert (found["git_branch"], found["git_repo_root"]) == ("dev", None)
    db.backfill_repo_roots({"/b": "/root", "/a": "/nowhere"})
    assert row(db, "s")["git_repo_root"] == "/root"
    assert [one["id"] for one in db.search_sessions(workspace_key="/root")] == ["s"]
    assert db.update_session_cwd("nobody", "/x") is None


def test_a_sign_of_life_never_goes_back(db: SessionDB, clock: Clock) -> None:
    db.create_session("s", "cli")
    db.touch_session_activity("s", 2_000.0, description="x" * 200, provenance="agent.compression")
    db.touch_session_activity("s", 1_000.0, description="earlier")
    found = db.get_session_activity("s") or {}
    assert (found["last_activity_at"], len(found["description"])) == (2_000.0, 120)
    db.clear_session_activity_labels("s")
    told = db.get_session_activity("s") or {}
    assert (told["last_activity_at"], told["description"], told["provenance"]) == (
        2_000.0,
        "",
        "unknown",
    )
    assert db.get_session_activity("nobody") is None


def test_how_sessions_stand(db: SessionDB) -> None:
    for session_id in ("done", "asked", "called", "failed", "empty"):
        db.create_session(session_id, "cli")
    db.append_message("done", "assistant", "bye", finish_reason="stop")
    db.append_message("asked", "user", "and?")
    db.append_message("called", "assistant", tool_calls=[{"id": "c"}])
    db.append_message("failed", "assistant", "oh", finish_reason="error")
    assert db.session_lifecycle_statuses(["done", "asked", "called", "failed", "empty"]) == {
        "done": "complete",
        "asked": "interrupted",
        "called": "interrupted",
        "failed": "error",
        "empty": "empty",
    }


def test_sessions_of_processes_that_died_are_ended(db: SessionDB, clock: Clock) -> None:
    for session_id, source in (("lost", "tui"), ("held", "tui"), ("chat", "telegram")):
        db.create_session(session_id, source)
    clock.now += 100
    assert db.sweep_orphaned_sessions(max_idle_seconds=50, exclude_ids=["held"]) == ["lost"]
    assert row(db, "lost")["end_reason"] == "startup_orphan_reap"
    assert db.try_acquire_session_turn_lease("held", "pid=1 turn", ttl_seconds=300)
    assert db.sweep_orphaned_sessions(max_idle_seconds=50) == []
    clock.now += 1_000
    started = clock.now - 5_000
    db.register_backend_heartbeat(backend_id="b", pid=1, started_at=started)
    assert [one["backend_id"] for one in db.list_backend_heartbeats()] == ["b"]
    assert db.sweep_orphaned_sessions(max_idle_seconds=500) == []
    clock.now += 2_000
    assert db.sweep_orphaned_sessions(max_idle_seconds=500) == ["held"]
    assert db.prune_stale_heartbeats(max_age_seconds=100) == ["b"]
    assert not db.clear_backend_heartbeat("b")


def test_a_host_takes_back_only_a_deliberate_end(db: SessionDB) -> None:
    reasons = {"closed": "tui_close", "reset": "session_reset", "gone": "ws_disconnect"}
    for session_id, reason in reasons.items():
        db.create_session(session_id, "tui")
        db.end_session(session_id, reason)
    told = [db.reopen_if_explicitly_closed(each, provenance="a test") for each in reasons]
    assert told == ["tui_close", None, None]
    assert row(db, "closed")["ended_at"] is None


# ---------------------------------------------------------------------- pure


def test_a_skill_is_shown_as_it_was_called() -> None:
    begun = '[IMPORTANT: The user has invoked the "work" skill. '
    begun += "The full skill content is loaded below.]"
    typed = "The user has provided the following instruction alongside the skill invocation: "
    assert shape_preview(f"{begun}\nBody\n{typed}fix\nit") == "/work — fix it"
    assert shape_preview(begun) == "/work"
    assert shape_preview(begun + "x" * 400, "…" + typed + "the end") == "/work — the end"


@given(st.text(max_size=200), st.none() | st.text(max_size=50))
def test_a_preview_is_one_short_line(head: str, tail: str | None) -> None:
    preview = shape_preview(head, tail)
    assert len(preview) <= 63
    assert "\n" not in preview
    assert "\r" not in preview


def test_pins_survive_when_hermes_brings_our_file_further(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with SessionDB(path) as db:
        for session_id in ("pinned", "archived", "titled"):
            db.create_session(session_id, "cli")
        db.set_session_pinned("pinned")
        db.set_session_archived("archived")
        db.set_auto_title("titled", "By a model", source="llm")
    with closing(sqlite3.connect(path)) as connection:
        for column in ("pinned", "archived"):
            connection.execute(f"ALTER TABLE sessions ADD COLUMN {column} INTEGER DEFAULT 0")
        connection.execute("ALTER TABLE sessions ADD COLUMN title_source TEXT")
        connection.execute("ALTER TABLE messages ADD COLUMN active INTEGER NOT NULL DEFAULT 1")
        connection.execute("UPDATE schema_version SET version = 26")
        connection.commit()
    for left in (1, 0):
        with SessionDB(path) as db:
            assert row(db, "pinned")["pinned"] == left
            assert row(db, "archived")["archived"] == 1
            assert row(db, "titled")["title_source"] == "llm"
            ask(db, "UPDATE sessions SET pinned = 0")
