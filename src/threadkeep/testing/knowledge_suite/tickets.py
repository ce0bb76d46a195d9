"""Tickets: every captured row queued of its kind to be made into knowledge."""

import pytest

from threadkeep.testing.clock import NOON
from threadkeep.testing.knowledge_suite.rows import KINDS, Factory, RowWriter

every_kind = pytest.mark.parametrize("kind", sorted(KINDS))


@every_kind
def test_a_ticket_begins_as_nobodys(knowledge_factory: Factory, kind: str) -> None:
    """Table map: a ticket has status, priority, retry_count, locked_at and locked_by."""
    writer = RowWriter(knowledge_factory)
    target = writer.of_kind(kind)
    writer.ticket(kind, target)
    (row,) = writer.table(KINDS[kind].queue)
    assert (row[KINDS[kind].queued], row["status"], row["retry_count"]) == (target, "pending", 0)
    assert (row["priority"], row["max_retries"]) == (5, 5)
    assert row["locked_at"] is row["locked_by"] is row["error_message"] is None


@every_kind
def test_a_row_has_one_ticket(knowledge_factory: Factory, kind: str) -> None:
    """Table map: the queue has one claim ticket for each row."""
    writer = RowWriter(knowledge_factory)
    target = writer.of_kind(kind)
    writer.ticket(kind, target)
    with pytest.raises(knowledge_factory.refused):
        writer.ticket(kind, target)


@every_kind
def test_a_ticket_references_its_row(knowledge_factory: Factory, kind: str) -> None:
    """Foreign keys: each queue references the table of what it is for."""
    writer = RowWriter(knowledge_factory)
    with pytest.raises(knowledge_factory.refused):
        writer.ticket(kind, 77)


@pytest.mark.parametrize("status", ["pending", "processing", "done", "failed", "skipped"])
@every_kind
def test_a_ticket_goes_through_its_states(
    knowledge_factory: Factory, kind: str, status: str
) -> None:
    """Table map: daemon, brain and reaper set the status; a ticket has one of five."""
    writer = RowWriter(knowledge_factory)
    number = writer.ticket(kind, writer.of_kind(kind))
    queue = KINDS[kind].queue
    knowledge_factory.update(writer.store, queue, number, status=status)
    assert [row["status"] for row in writer.table(queue)] == [status]


@every_kind
def test_another_status_is_refused(knowledge_factory: Factory, kind: str) -> None:
    """Table map: a status that no program knows is refused."""
    writer = RowWriter(knowledge_factory)
    with pytest.raises(knowledge_factory.refused):
        writer.ticket(kind, writer.of_kind(kind), status="lost")


@every_kind
def test_a_claim_says_who_and_since_when(knowledge_factory: Factory, kind: str) -> None:
    """Table map: a claim is a lock with its owner and its time, for the reaper to judge."""
    writer = RowWriter(knowledge_factory)
    number = writer.ticket(kind, writer.of_kind(kind))
    queue = KINDS[kind].queue
    claim = {"status": "processing", "locked_at": NOON, "locked_by": "brain-1"}
    knowledge_factory.update(writer.store, queue, number, **claim)
    again = RowWriter(knowledge_factory, knowledge_factory.reopen(writer.store))
    (row,) = again.table(queue)
    assert {name: row[name] for name in claim} == claim
