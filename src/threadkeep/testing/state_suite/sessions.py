"""Sessions: begun, ended, linked, listed, counted, exported, deleted."""

import json
from typing import Any

import pytest

from threadkeep.testing.state_suite.talk import CALL, Factory, found_in, ids_of, session_of, talk

COUNTERS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
)
SESSION_COLUMNS = {
    *("id", "source", "user_id", "model", "model_config", "system_prompt", "parent_session_id"),
    *("started_at", "ended_at", "end_reason", "message_count", "tool_call_count", *COUNTERS),
    *("billing_provider", "billing_base_url", "billing_mode", "estimated_cost_usd"),
    *("actual_cost_usd", "cost_status", "cost_source", "pricing_version", "title"),
}


def test_a_session_has_the_columns_of_the_table(state_factory: Factory) -> None:
    """Sessions table: a session is read with every column, counters at 0, what is unset NULL."""
    db = state_factory.open()
    before = state_factory.clock.now / 1000
    db.create_session("s", "cli", model="acme/large", user_id="u", parent_session_id=None)
    session = session_of(db, "s")
    assert set(session) >= SESSION_COLUMNS
    assert (session["source"], session["model"], session["user_id"]) == ("cli", "acme/large", "u")
    assert before < session["started_at"] <= state_factory.clock.now / 1000
    counters = ("message_count", "tool_call_count", *COUNTERS)
    assert [session[name] for name in counters] == [0] * 7
    unset = ("parent_session_id", "ended_at", "end_reason", "title", "actual_cost_usd")
    assert {session[name] for name in unset} == {None}


def test_the_table_has_a_row_for_each_session(state_factory: Factory) -> None:
    """Sessions table: rows stand in `sessions`, under the names of the schema."""
    db = state_factory.open()
    db.create_session("a", "cli")
    db.create_session("b", "telegram")
    rows = state_factory.contents(db)["sessions"]
    assert set(rows[0]) >= SESSION_COLUMNS
    assert {(row["id"], row["source"]) for row in rows} == {("a", "cli"), ("b", "telegram")}


def test_the_schema_has_a_version(state_factory: Factory) -> None:
    """Schema version: a table with a single integer, 6 or later."""
    (row,) = state_factory.contents(state_factory.open())["schema_version"]
    assert row["version"] >= 6


def test_creating_gives_the_id_and_keeps_the_settings(state_factory: Factory) -> None:
    """Create and manage sessions: the id is given back; the settings of the model are JSON text."""
    db = state_factory.open()
    settings = {"temperature": 0.2}
    given = db.create_session("s", "cli", model_config=settings, system_prompt="be brief")
    assert given == "s"
    session = session_of(db, "s")
    assert json.loads(session["model_config"]) == {"temperature": 0.2}
    assert session["system_prompt"] == "be brief"


def test_an_unknown_session_is_none(state_factory: Factory) -> None:
    """Create and manage sessions: asking for a session that is not there is no error."""
    assert state_factory.open().get_session("nobody") is None


def test_an_unknown_parent_is_refused(state_factory: Factory) -> None:
    """Sessions table: `parent_session_id` references a session."""
    db = state_factory.open()
    with pytest.raises(state_factory.refused):
        db.create_session("s", "cli", parent_session_id="nobody")
    assert db.get_session("s") is None


def test_a_session_ends_once(state_factory: Factory) -> None:
    """Create and manage sessions: the end has a time and a reason, and the first one counts."""
    db = state_factory.open()
    db.create_session("s", "cli")
    db.end_session("s", end_reason="user_exit")
    first = session_of(db, "s")
    assert first["end_reason"] == "user_exit"
    assert first["ended_at"] > first["started_at"]
    db.end_session("s", end_reason="timeout")
    assert session_of(db, "s") == first


def test_a_reopened_session_has_no_end(state_factory: Factory) -> None:
    """Create and manage sessions: to reopen clears `ended_at` and `end_reason`."""
    db = state_factory.open()
    db.create_session("s", "cli")
    db.end_session("s", "user_exit")
    db.reopen_session("s")
    assert (session_of(db, "s")["ended_at"], session_of(db, "s")["end_reason"]) == (None, None)
    db.end_session("s", "timeout")
    assert session_of(db, "s")["end_reason"] == "timeout"


@pytest.mark.parametrize("verb", ["end_session", "reopen_session", "clear_messages"])
def test_an_unknown_id_makes_nothing(state_factory: Factory, verb: str) -> None:
    """Create and manage sessions: a change of a session that is not there changes nothing."""
    db = state_factory.open()
    getattr(db, verb)("nobody", *(["x"] if verb == "end_session" else []))
    assert db.session_count() == 0


def test_what_is_written_is_there_when_it_is_opened_again(state_factory: Factory) -> None:
    """Architecture: sessions, messages and settings last beyond the program that wrote them."""
    db = state_factory.open()
    talk(db, "s", "remember the walrus")
    db.set_session_title("s", "Walrus")
    before = db.export_session("s")
    db.close()
    again = state_factory.reopen(db)
    assert again.export_session("s") == before
    assert found_in(again, "walrus") == {"s"}


def test_several_connections_share_one_store(state_factory: Factory) -> None:
    """Write contention: several processes write to one store, and each sees what others wrote."""
    one = state_factory.open()
    two = state_factory.reopen(one)
    talk(one, "s", "from one")
    two.append_message("s", "assistant", "from two")
    one.append_message("s", "user", "from one again")
    said = ["from one", "from two", "from one again"]
    assert [message["content"] for message in two.get_messages("s")] == said
    assert session_of(one, "s")["message_count"] == 3


def test_a_session_knows_its_parent(state_factory: Factory) -> None:
    """Session lineage: sessions form chains by `parent_session_id`."""
    db = state_factory.open()
    db.create_session("one", "cli")
    db.create_session("two", "cli", parent_session_id="one")
    db.create_session("three", "cli", parent_session_id="two")
    chain = ["three"]
    while parent := session_of(db, chain[-1])["parent_session_id"]:
        chain.append(parent)
    assert chain == ["three", "two", "one"]


@pytest.mark.parametrize("start", ["root", "middle", "tip"])
def test_the_newest_of_a_compressed_chain_is_found(state_factory: Factory, start: str) -> None:
    """Session lineage: compression splits a session, and the chain leads to its newest part."""
    db = state_factory.open()
    talk(db, "root", "the first question")
    db.end_session("root", "compression")
    db.create_session("middle", "cli", parent_session_id="root")
    db.end_session("middle", "compression")
    db.create_session("tip", "cli", parent_session_id="middle")
    assert db.get_compression_tip(start) == "tip"


def test_a_session_that_was_not_compressed_is_its_own_tip(state_factory: Factory) -> None:
    """Session lineage: a child of a session that ended in another way does not continue it."""
    db = state_factory.open()
    db.create_session("p", "cli")
    db.end_session("p", "user_exit")
    db.create_session("c", "cli", parent_session_id="p")
    assert db.get_compression_tip("p") == "p"


def test_recent_sessions_come_newest_first(state_factory: Factory) -> None:
    """Recent sessions: the newest begun comes first, twenty unless a limit is given."""
    db = state_factory.open()
    for number in range(25):
        db.create_session(f"s{number:02}", "cli")
    names = [f"s{number:02}" for number in range(24, -1, -1)]
    assert ids_of(db.list_sessions_rich()) == names[:20]
    assert ids_of(db.list_sessions_rich(limit=5, offset=3)) == names[3:8]


def test_recent_sessions_have_a_preview(state_factory: Factory) -> None:
    """Recent sessions: the preview is the beginning of the first user message with content."""
    db = state_factory.open()
    db.create_session("s", "cli")
    db.append_message("s", "system", "rules")
    db.append_message("s", "user", None)
    db.append_message("s", "user", "the question " + "x" * 100)
    db.append_message("s", "user", "another")
    (row,) = db.list_sessions_rich()
    assert row["preview"].startswith("the question xxx")
    assert len(row["preview"]) <= 63


def test_recent_sessions_say_when_something_was_said(state_factory: Factory) -> None:
    """Recent sessions: `last_active` is the latest time of a message, else the start."""
    db = state_factory.open()
    db.create_session("silent", "cli")
    talk(db, "s", "hello", "hi")
    newest = db.get_messages("s")[-1]["timestamp"]
    state_factory.clock.forward(days=-3)
    talk(db, "s", "said while the clock was wrong")
    rows = {row["id"]: row for row in db.list_sessions_rich()}
    assert rows["s"]["last_active"] == newest
    assert rows["silent"]["last_active"] == rows["silent"]["started_at"]
    assert rows["silent"]["preview"] == ""


def test_recent_sessions_are_chosen_by_source(state_factory: Factory) -> None:
    """Architecture: sessions are tagged with their source, to filter by platform."""
    db = state_factory.open()
    for session_id, source in (("a", "cli"), ("b", "telegram"), ("c", "cron"), ("d", "cli")):
        db.create_session(session_id, source)
    assert ids_of(db.list_sessions_rich(source="cli")) == ["d", "a"]
    assert ids_of(db.list_sessions_rich(exclude_sources=["cron", "telegram"])) == ["d", "a"]
    assert ids_of(db.list_sessions_rich(source="cli", exclude_sources=["cli"])) == []
    assert (db.session_count(), db.session_count(source="cli")) == (4, 2)


def test_tokens_are_added(state_factory: Factory) -> None:
    """Token usage: the five counters of a session grow with each report."""
    db = state_factory.open()
    db.create_session("s", "cli")
    report: dict[str, Any] = dict(zip(COUNTERS, (10, 5, 3, 2, 1), strict=True))
    db.update_token_counts("s", **report)
    db.update_token_counts("s", **report)
    assert [session_of(db, "s")[name] for name in COUNTERS] == [20, 10, 6, 4, 2]


def test_absolute_counts_are_set(state_factory: Factory) -> None:
    """Token usage: a report of totals takes the place of what was counted."""
    db = state_factory.open()
    db.create_session("s", "cli")
    db.update_token_counts("s", input_tokens=9, output_tokens=9, estimated_cost_usd=0.5)
    db.update_token_counts(
        "s", input_tokens=3, output_tokens=4, estimated_cost_usd=0.25, absolute=True
    )
    session = session_of(db, "s")
    assert (session["input_tokens"], session["output_tokens"]) == (3, 4)
    assert session["estimated_cost_usd"] == 0.25


def test_costs_are_added(state_factory: Factory) -> None:
    """Token usage: estimated and actual costs add up; what was never reported stays NULL."""
    db = state_factory.open()
    db.create_session("s", "cli")
    db.update_token_counts("s", input_tokens=1)
    assert session_of(db, "s")["actual_cost_usd"] is None
    for cost in (0.5, 0.25):
        db.update_token_counts("s", estimated_cost_usd=cost, actual_cost_usd=cost)
    session = session_of(db, "s")
    assert (session["estimated_cost_usd"], session["actual_cost_usd"]) == (0.75, 0.75)


def test_an_export_is_the_session_with_its_messages(state_factory: Factory) -> None:
    """Export and cleanup: one session with its messages, None if there is none."""
    db = state_factory.open()
    talk(db, "s", "one", "two")
    assert db.export_session("s") == {**session_of(db, "s"), "messages": db.get_messages("s")}
    assert db.export_session("nobody") is None


def test_all_sessions_are_exported_by_source(state_factory: Factory) -> None:
    """Export and cleanup: all sessions of a source, as a list of dicts with messages."""
    db = state_factory.open()
    talk(db, "a", "one")
    talk(db, "b", "two", source="telegram")
    talk(db, "c")
    assert ids_of(db.export_all()) == ["c", "b", "a"]
    assert [len(session["messages"]) for session in db.export_all()] == [0, 1, 1]
    assert ids_of(db.export_all(source="telegram")) == ["b"]


def test_clearing_keeps_the_session(state_factory: Factory) -> None:
    """Export and cleanup: to clear takes the messages and keeps the record of the session."""
    db = state_factory.open()
    db.create_session("s", "cli")
    db.append_message("s", "assistant", "x", tool_calls=[CALL])
    db.update_token_counts("s", input_tokens=5)
    db.clear_messages("s")
    session = session_of(db, "s")
    assert db.get_messages("s") == []
    assert (session["message_count"], session["tool_call_count"]) == (0, 0)
    assert session["input_tokens"] == 5


def test_deleting_takes_the_session_and_its_messages(state_factory: Factory) -> None:
    """Export and cleanup: to delete takes the messages, too; children lose only their parent."""
    db = state_factory.open()
    talk(db, "p", "gone soon")
    db.create_session("c", "cli", parent_session_id="p")
    talk(db, "c", "stays here")
    assert db.delete_session("p") is True
    assert db.get_session("p") is None
    assert (db.message_count("p"), db.message_count("c")) == (0, 1)
    assert session_of(db, "c")["parent_session_id"] is None
    assert db.delete_session("p") is False


def test_pruning_takes_ended_sessions_that_are_old(state_factory: Factory) -> None:
    """Export and cleanup: only ended sessions older than so many days go, of one source or all."""
    db = state_factory.open()
    for session_id, source in (("old", "cli"), ("other", "telegram")):
        talk(db, session_id, "x", source=source)
        db.end_session(session_id, "done")
    db.create_session("running", "cli")
    state_factory.clock.forward(days=100)
    talk(db, "new", "x")
    db.end_session("new", "done")
    assert db.prune_sessions(older_than_days=200) == 0
    assert db.prune_sessions(older_than_days=30, source="telegram") == 1
    assert db.prune_sessions() == 1
    assert sorted(ids_of(db.export_all())) == ["new", "running"]
    assert db.message_count() == 1


def test_pruning_spares_the_children(state_factory: Factory) -> None:
    """Export and cleanup: a child of a pruned session stays, without its parent."""
    db = state_factory.open()
    talk(db, "p", "x")
    db.end_session("p", "compression")
    state_factory.clock.forward(days=100)
    db.create_session("c", "cli", parent_session_id="p")
    assert db.prune_sessions(older_than_days=90) == 1
    assert session_of(db, "c")["parent_session_id"] is None
