"""Lists, titles and sums stay right while another program writes the file with SQL of its own."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.states import Clock, Factory
from threadkeep.state.search.index_fill import write_down
from threadkeep.state.session_db import SessionDB

Make = Callable[..., list[int]]


def do(factory: Factory, db: SessionDB, sql: str, *values: Any) -> None:
    """Write as Hermes does: from another connection, with plain SQL."""
    with factory.raw(db) as other:
        other.execute(sql, values)


def by_activity(db: SessionDB, **options: Any) -> list[str]:
    return [one["id"] for one in db.list_sessions_rich(order_by_last_active=True, **options)]


def settle(db: SessionDB) -> None:
    with db.context.db.write() as tx:
        write_down(tx)


# ---------------------------------------------------------------------- activity


def test_an_undone_rewind_brings_the_activity_back(db: SessionDB, make: Make) -> None:
    make("a", "first")
    make("b", "between")
    last = make("a", "last")
    settle(db)
    db.rewind_to_message("a", last[0], any_role=True)
    assert by_activity(db) == ["b", "a"]
    db.undo_rewind("a")
    assert by_activity(db) == ["a", "b"]


def test_a_session_whose_messages_moved_away_is_as_old_as_its_start(
    db: SessionDB, make: Make, factory: Factory
) -> None:
    for name in ("a", "b", "c"):
        db.create_session(name, "cli")
    make("b", "said")
    make("a", "said later")
    settle(db)
    do(factory, db, "UPDATE messages SET session_id = 'c' WHERE session_id = 'a'")
    assert by_activity(db) == ["c", "b", "a"]


def test_times_written_as_text_refuse_no_row(db: SessionDB, factory: Factory) -> None:
    do(
        factory,
        db,
        "INSERT INTO sessions(id, source, started_at) VALUES ('t', 'x', '2026-01-15T10:00')",
    )
    sql = "INSERT INTO messages(session_id, role, content, timestamp) VALUES ('t', 'user', 'a', ?)"
    do(factory, db, sql, "yesterday")
    settle(db)
    assert by_activity(db) == ["t"]
    do(factory, db, "DELETE FROM messages")
    do(factory, db, "UPDATE sessions SET started_at = 'later'")
    assert by_activity(db) == ["t"]


def test_by_activity_a_compressed_session_stands_where_it_goes_on(
    db: SessionDB, make: Make
) -> None:
    make("old", "begin")
    make("other", "between")
    db.compress_session("old", "new", [{"role": "user", "content": "summary"}])
    listed = db.list_sessions_rich(order_by_last_active=True)
    assert [one["id"] for one in listed] == ["new", "other"]
    assert listed[0]["_lineage_root_id"] == "old"
    make("other", "again")
    assert by_activity(db) == ["other", "new"]
    assert by_activity(db, source="cli") == ["other", "new"]
    assert by_activity(db, project_compression_tips=False) == ["other", "old"]


def test_a_few_sessions_of_a_source_are_found_behind_many_others(
    db: SessionDB, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("r1", "r2"):
        make(name, "rare", source="rare")
    for place in range(5):
        make(f"c{place}", "common")
    asked: list[str] = []
    sound = SessionDB.list_sessions_rich
    monkeypatch.setattr(
        "threadkeep.state.session_list.newest_first", lambda *_: asked.append("all")
    )
    assert [s["id"] for s in sound(db, "rare", order_by_last_active=True)] == ["r2", "r1"]
    assert asked == []


# ---------------------------------------------------------------------- what a list shows


def test_archiving_the_shown_session_archives_its_line(db: SessionDB, make: Make) -> None:
    make("old", "begin")
    db.compress_session("old", "new", [{"role": "user", "content": "summary"}])
    (shown,) = db.list_sessions_rich()
    db.set_session_archived(shown["id"])
    assert db.list_sessions_rich() == []
    assert by_activity(db) == []
    assert [one["id"] for one in db.list_sessions_rich(include_archived=True)] == ["new"]


def test_a_pin_on_the_shown_session_keeps_its_whole_chain(
    db: SessionDB, make: Make, clock: Clock
) -> None:
    make("old", "begin")
    db.compress_session("old", "new", [{"role": "user", "content": "summary"}])
    db.set_session_pinned("new")
    clock.pass_days(200)
    assert db.prune_candidates() == []
    assert db.prune_sessions() == 0
    db.set_session_pinned("new", pinned=False)
    assert db.prune_sessions() == 2


# ---------------------------------------------------------------------- lineage


def test_a_clock_that_stepped_back_hides_no_continuation(
    db: SessionDB, make: Make, clock: Clock
) -> None:
    make("a", "begin")
    db.end_session("a", "done")
    clock.now -= 100
    db.compress_session("a", "b", [{"role": "user", "content": "summary"}])
    assert db.get_compression_tip("a") == "b"
    db.end_session("b", "compression")
    clock.now -= 100
    db.create_session("c", "cli", parent_session_id="b", relation="compression")
    assert db.get_compression_lineage("b") == ["a", "b", "c"]


def test_a_branch_has_the_exact_prompt(db: SessionDB) -> None:
    db.create_session("a", "cli", system_prompt="half \ud800")
    db.branch_session("a", "b")
    session = db.get_session("b")
    assert session is not None
    assert session["system_prompt"] == "half \ud800"


def test_a_branch_at_a_message_of_another_session_is_refused(db: SessionDB, make: Make) -> None:
    make("a", "one")
    (other,) = make("b", "two")
    with pytest.raises(Exception, match=f"'a' has no message {other}"):
        db.branch_session("a", "c", up_to_id=other)
    assert db.get_session("c") is None


def test_a_relation_is_between_sessions_that_exist(db: SessionDB, make: Make) -> None:
    make("a", "one")
    make("b", "two")
    with pytest.raises(Exception, match="no session 'x'"):
        db.set_relation("x", "a", "branch")
    with pytest.raises(Exception, match="no session 'x'"):
        db.set_relation("a", "x", "branch")
    db.set_relation("b", "a", "branch")
    assert [(n["id"], n["relation"]) for n in db.get_lineage("b")] == [("a", None), ("b", "branch")]
    with pytest.raises(Exception, match="cannot be its parent"):
        db.set_relation("a", "b", "branch")
    assert db.check() == []


# ---------------------------------------------------------------------- titles


def test_an_automatic_title_leaves_a_name_that_hermes_gave(
    db: SessionDB, make: Make, factory: Factory
) -> None:
    make("a", "one")
    db.set_auto_title("a", "guess")
    do(factory, db, "UPDATE sessions SET title = 'mine' WHERE id = 'a'")
    assert db.set_auto_title("a", "better guess") == "mine"


@pytest.mark.parametrize("base", ["foo  bar", " foo bar ", "foo\u200b bar", "foo\tbar #2"])
def test_the_next_title_is_one_the_setter_takes(db: SessionDB, make: Make, base: str) -> None:
    make("a", "one")
    make("b", "two")
    db.set_session_title("a", "foo bar")
    following = db.get_next_title_in_lineage(base)
    assert following == "foo bar #2"
    assert db.set_session_title("b", following)


# ---------------------------------------------------------------------- usage


def test_what_hermes_counted_stays_counted_when_the_session_goes(
    db: SessionDB, make: Make, factory: Factory
) -> None:
    make("a", "one")
    db.update_token_counts("a", input_tokens=5, model="m")
    do(factory, db, "UPDATE sessions SET input_tokens = 50, actual_cost_usd = 1.5 WHERE id = 'a'")
    before = db.usage("session")
    assert [(one["input_tokens"], one["actual_cost_usd"]) for one in before] == [(50, 1.5)]
    settle(db)
    assert db.usage("session") == before
    do(factory, db, "DELETE FROM messages")
    do(factory, db, "DELETE FROM sessions")
    assert db.usage("session") == before
    assert sum(one["input_tokens"] for one in db.usage("day")) == 50


def test_counters_take_fractions_nothing_and_nulls(
    db: SessionDB, make: Make, factory: Factory
) -> None:
    make("a", "one")
    db.update_token_counts("a", input_tokens=10.5)  # type: ignore[arg-type]
    db.update_token_counts("a", input_tokens=None)  # type: ignore[arg-type]
    assert [one["input_tokens"] for one in db.usage()] == [10.5]
    do(factory, db, "UPDATE sessions SET output_tokens = NULL, message_count = NULL")
    db.update_token_counts("a", output_tokens=3)
    make("a", "two")
    session = db.get_session("a")
    assert session is not None
    assert (session["output_tokens"], session["message_count"]) == (3, 1)
