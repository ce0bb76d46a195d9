"""Health: what is known of each source, the ledger of alarms, and what outlives a program."""

import pytest

from threadkeep.testing.clock import NOON
from threadkeep.testing.knowledge_suite.rows import Factory, RowWriter


@pytest.mark.parametrize(
    "source",
    [
        *("shell", "claude-tool", "browser", "brain-preflight", "agentic-session-claude"),
        *("agentic-session-opencode", "agentic-session-codex", "agentic-session-cursor"),
    ],
)
def test_every_source_has_a_row_from_the_start(knowledge_factory: Factory, source: str) -> None:
    """Changelog v8, v14 to v16: without its row an update of a source's health is lost."""
    writer = RowWriter(knowledge_factory)
    rows = {row["source"]: row for row in writer.table("source_health")}
    assert (rows[source]["last_event_ts"], rows[source]["consecutive_failures"]) == (None, 0)
    assert rows[source]["probe_ok"] is rows[source]["probe_lag_ms"] is None


def test_a_source_has_one_row(knowledge_factory: Factory) -> None:
    """Foreign keys: source_health has one row for each logical source."""
    writer = RowWriter(knowledge_factory)
    with pytest.raises(knowledge_factory.refused):
        writer.insert("source_health", source="shell", updated_at=NOON)


def _alarm(writer: RowWriter, **values: int) -> int:
    given = {"invariant_id": "I-8", "raised_at": NOON, "details_json": "{}"}
    return writer.insert("capture_alarms", **given, **values)


def test_an_alarm_begins_unseen(knowledge_factory: Factory) -> None:
    """Changelog v9, v11: an alarm is not acknowledged, not resolved, and has no clean tick."""
    writer = RowWriter(knowledge_factory)
    _alarm(writer)
    (row,) = writer.table("capture_alarms")
    assert (row["invariant_id"], row["raised_at"], row["clean_ticks"]) == ("I-8", NOON, 0)
    assert row["acked_at"] is row["ack_note"] is row["resolved_at"] is None


def test_the_same_alarm_may_be_raised_again(knowledge_factory: Factory) -> None:
    """Table map: capture_alarms is a ledger; a violation that comes back is a new row."""
    writer = RowWriter(knowledge_factory)
    first = _alarm(writer, resolved_at=NOON + 1, clean_ticks=2)
    assert _alarm(writer) > first
    assert len(writer.table("capture_alarms")) == 2


def test_numbers_of_alarms_are_never_used_again(knowledge_factory: Factory) -> None:
    """Table map: the ledger is append-only: a number means one alarm forever."""
    writer = RowWriter(knowledge_factory)
    gone = _alarm(writer)
    knowledge_factory.delete(writer.store, "capture_alarms", gone)
    assert _alarm(writer) > gone


def test_clean_ticks_are_not_negative(knowledge_factory: Factory) -> None:
    """Changelog v11: `clean_ticks` is checked."""
    writer = RowWriter(knowledge_factory)
    with pytest.raises(knowledge_factory.refused):
        _alarm(writer, clean_ticks=-1)
    assert writer.table("capture_alarms") == []


# ---------------------------------------------------------------------- lasting


def test_a_store_that_is_opened_again_is_the_same(knowledge_factory: Factory) -> None:
    """Migration guarantees: a store of its version is opened without a change to its rows."""
    writer = RowWriter(knowledge_factory)
    for kind in ("shell", "agentic", "browser", "workflow"):
        writer.ticket(kind, writer.of_kind(kind))
    writer.node(embed_text="quokka")
    _alarm(writer)
    before = knowledge_factory.contents(writer.store)
    writer.store.close()
    again = knowledge_factory.reopen(writer.store)
    assert knowledge_factory.contents(again) == before
    assert knowledge_factory.find(again, "quokka")


def test_every_program_sees_what_others_wrote(knowledge_factory: Factory) -> None:
    """At a glance: daemon and brain have one file open, and write to it by turns."""
    one = RowWriter(knowledge_factory)
    two = RowWriter(knowledge_factory, knowledge_factory.reopen(one.store))
    one.event(envelope_id="e1")
    two.event(envelope_id="e2")
    assert [row["envelope_id"] for row in one.table("events")] == ["e1", "e2"]
    assert one.table("events") == two.table("events")
