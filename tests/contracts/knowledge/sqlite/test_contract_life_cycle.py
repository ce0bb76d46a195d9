"""Two programs work on one file: their tickets, nodes and numbers never get in each other's way.

The other program is played by plain statements on the contract's tables. It knows none of ours.
"""

from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from tests.lengths import examples
from tests.support.tickets import (
    NOW,
    Factory,
    column,
    insert,
    status_of,
    ticket_row,
    undone,
    waiting,
)
from threadkeep.base.tx import Sql, Tx
from threadkeep.knowledge.forget import erase_nodes
from threadkeep.knowledge.kinds import Queue
from threadkeep.knowledge.nodes import write_node
from threadkeep.knowledge.queues import (
    LOCK_TIMEOUT_MS,
    QUEUES,
    Ticket,
    claim,
    give_back,
    held,
    reap,
    requeue,
    skip,
)
from threadkeep.knowledge.records import Evidence, NodeDraft
from threadkeep.knowledge.store import KnowledgeStore

DRAFT = NodeDraft(summary="Fixed the build", intent="debugging", embed_text="make")
FIELDS: dict[Queue, str] = {
    "shell": "events",
    "agentic": "segments",
    "browser": "visits",
    "workflow": "runs",
}
every_queue = pytest.mark.parametrize("queue", list(FIELDS))
_uuids = iter(range(10**9))


def write(tx: Tx, queue: Queue, target: int, draft: NodeDraft = DRAFT, **options: Any) -> int:
    evidence = Evidence(**{FIELDS[queue]: (target,)})
    given = {"model": "m", "now": NOW, "uuid": f"uuid {next(_uuids)}", **options}
    return write_node(tx, queue, draft, evidence, **given)


def source_row(tx: Tx, queue: Queue, target: int) -> tuple[int, str | None]:
    """Return whether a row is enriched, and the hash that was last learned from."""
    learned = "last_enriched_content_hash" if queue == "agentic" else "NULL"
    sql = f"SELECT enriched, {learned} FROM {QUEUES[queue].rows} WHERE id = ?"
    ((enriched, hashed),) = tx.all(Sql(sql), (target,))
    return enriched, hashed


# ---------------------------------------------------------------------- the life of a ticket

Step = Literal["claim", "fail", "skip", "done", "reap", "requeue"]
STEPS: tuple[Step, ...] = ("claim", "fail", "skip", "done", "reap", "requeue")


class State(msgspec.Struct, frozen=True):
    """What the contract says of a ticket and its row."""

    status: str = "pending"
    retry_count: int = 0
    error_message: str | None = None
    locked_at: int | None = None
    locked_by: str | None = None
    enriched: int = 0
    learned: bool = False


def ended(state: State, status: str, message: str | None = None, **changes: Any) -> State:
    return msgspec.structs.replace(
        *(state,), status=status, error_message=message, locked_at=None, locked_by=None, **changes
    )


def tried(state: State, message: str) -> State:
    tries = state.retry_count + 1
    lost = tries >= 5
    return ended(
        *(state, "failed" if lost else "pending", message),
        retry_count=tries,
        learned=state.learned or lost,
    )


def after(state: State, step: Step, now: int) -> State:
    """Say what becomes of a ticket; a step for which it is in the wrong state changes nothing."""
    in_hand = state.status == "processing"
    stale = in_hand and (state.locked_at or 0) <= now - LOCK_TIMEOUT_MS
    taken = msgspec.structs.replace(state, status="processing", locked_at=now, locked_by="w")
    steps: dict[Step, tuple[bool, State]] = {
        "claim": (stale or state.status == "pending", taken),
        "reap": (stale, tried(state, "stale lock reaped (>=600s)")),
        "requeue": (not in_hand, ended(state, "pending", retry_count=0, learned=False)),
        "fail": (in_hand, tried(state, "boom")),
        "skip": (in_hand, ended(state, "skipped", "dull", enriched=1, learned=True)),
        "done": (in_hand, ended(state, "done", enriched=1, learned=True)),
    }
    allowed, following = steps[step]
    return following if allowed else state


def take(tx: Tx, queue: Queue, step: Step, held_now: Ticket | None, now: int) -> Ticket | None:
    """Do with a ticket what a step says; give it if it is in hand afterwards."""
    target = column(tx, f"SELECT {QUEUES[queue].target} FROM {QUEUES[queue].name}")[0]
    if step == "claim":
        return next(iter(claim(tx, queue, worker="w", now=now)), held_now)
    if step == "reap":
        reap(tx, now)
    elif step == "requeue":
        requeue(tx, queue, [target], now)
    elif held_now is not None and step == "fail":
        give_back(tx, held_now, "boom", now)
    elif held_now is not None and step == "skip":
        skip(tx, held_now, "dull", now)
    elif held_now is not None and held(tx, [held_now]):
        write(tx, queue, target, now=now, hashes={target: held_now.content_hash})
    return held_now


def state_of(tx: Tx, queue: Queue, target: int) -> State:
    row = ticket_row(tx, queue, target)
    enriched, learned = source_row(tx, queue, target)
    same = {name: row[name] for name in State.__struct_fields__ if name in row}
    return State(**same, enriched=enriched, learned=learned is not None)


@every_queue
@settings(max_examples=examples(40), deadline=None)
@given(
    steps=st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from([1, 400_000])), max_size=14)
)
def test_every_step_leaves_the_columns_that_the_contract_says(
    store: KnowledgeStore, queue: Queue, steps: list[tuple[Step, int]]
) -> None:
    with undone(store) as tx:
        target, now, expected = waiting(tx, queue), NOW, State()
        ticket: Ticket | None = None
        for step, passed in steps:
            now += passed
            expected = after(expected, step, now)
            if queue != "agentic":  # only segments are known by what was learned from them
                expected = msgspec.structs.replace(expected, learned=False)
            ticket = take(tx, queue, step, ticket, now)
            assert state_of(tx, queue, target) == expected, (step, steps)


@every_queue
def test_every_change_of_a_ticket_is_dated(tx: Tx, queue: Queue) -> None:
    target = waiting(tx, queue)
    steps: list[Step] = ["claim", "fail", "claim", "skip", "requeue", "claim", "done"]
    ticket: Ticket | None = None
    for now, step in enumerate(steps, NOW):
        ticket = take(tx, queue, step, ticket, now)
        assert ticket_row(tx, queue, target)["updated_at"] == now, step


# ---------------------------------------------------------------------- segments


def test_a_segment_without_news_is_done_and_marked_as_enriched(tx: Tx) -> None:
    target = waiting(tx, "agentic", content_hash="h", last_enriched_content_hash="h")
    assert claim(tx, "agentic", worker="w", now=NOW) == []
    assert status_of(tx, "agentic", target) == "done"
    assert source_row(tx, "agentic", target) == (1, "h")


@pytest.mark.parametrize("step", ["skip", "done", "fail"])
def test_a_segment_without_a_hash_keeps_the_last_one(tx: Tx, step: Step) -> None:
    target = waiting(tx, "agentic", content_hash=None, last_enriched_content_hash="older")
    tx.run(Sql("UPDATE agentic_enrichment_queue SET max_retries = 1"))
    (ticket,) = claim(tx, "agentic", worker="w", now=NOW)
    take(tx, "agentic", step, ticket, NOW)
    assert status_of(tx, "agentic", target) in ("skipped", "done", "failed")
    assert source_row(tx, "agentic", target)[1] == "older"


def test_what_grew_in_the_hands_of_a_lost_worker_is_still_to_be_told(tx: Tx) -> None:
    same, grown = waiting(tx, "agentic"), waiting(tx, "agentic")
    tx.run(Sql("UPDATE agentic_enrichment_queue SET max_retries = 1"))
    assert len(claim(tx, "agentic", worker="w", now=NOW)) == 2
    change = "UPDATE agentic_sessions SET content_hash = 'more', end_time = ? WHERE id = ?"
    tx.run(Sql(change), (NOW + 1, grown))
    assert reap(tx, NOW + LOCK_TIMEOUT_MS) == 2
    assert {status_of(tx, "agentic", one) for one in (same, grown)} == {"failed"}
    assert source_row(tx, "agentic", same)[1] is not None
    assert source_row(tx, "agentic", grown)[1] is None


# ---------------------------------------------------------------------- beside another program


def their_claim(tx: Tx, queue: Queue, now: int, limit: int) -> list[int]:
    """Take tickets as the other program does; give the rows."""
    table = QUEUES[queue]
    free = f"SELECT {table.id} FROM {table.name} WHERE status = 'pending' LIMIT {limit}"
    sql = (
        f"UPDATE {table.name} SET status = 'processing', locked_at = ?, locked_by = 'brain',"
        f" updated_at = ? WHERE {table.id} IN ({free}) RETURNING {table.target}"
    )
    return [row[0] for row in tx.all(Sql(sql), (now, now))]


def their_end(tx: Tx, queue: Queue, target: int, now: int) -> None:
    """Finish as the other program does: it leaves its lock in a ticket that is done."""
    table = QUEUES[queue]
    tx.run(Sql(f"UPDATE {table.rows} SET enriched = 1 WHERE id = ?"), (target,))
    sql = f"UPDATE {table.name} SET status = 'done', updated_at = ? WHERE {table.target} = ?"
    tx.run(Sql(sql), (now, target))


@every_queue
def test_two_programs_share_a_queue_and_each_row_is_told_of_once(tx: Tx, queue: Queue) -> None:
    rows = [waiting(tx, queue) for _ in range(30)]
    done: list[int] = []
    for now in range(NOW, NOW + 20):
        theirs = their_claim(tx, queue, now, 2)
        ours = claim(tx, queue, worker="w", now=now, limit=2)
        assert not {ticket.target for ticket in ours} & set(theirs)
        for ticket in ours:
            write(tx, queue, ticket.target, DRAFT, now=now)
        for target in theirs:
            their_end(tx, queue, target, now)
        done += [ticket.target for ticket in ours] + theirs
    assert sorted(done) == sorted(rows)
    assert {status_of(tx, queue, row) for row in rows} == {"done"}


@every_queue
def test_a_lock_of_another_program_is_kept_until_it_is_too_old(tx: Tx, queue: Queue) -> None:
    target = waiting(tx, queue)
    assert their_claim(tx, queue, NOW, 1) == [target]
    late = NOW + LOCK_TIMEOUT_MS
    assert claim(tx, queue, worker="w", now=late - 1) == []
    assert requeue(tx, queue, [target], late - 1) == 0
    assert [ticket.target for ticket in claim(tx, queue, worker="w", now=late)] == [target]


@every_queue
def test_what_another_program_finished_can_be_queued_again(tx: Tx, queue: Queue) -> None:
    target = waiting(tx, queue)
    their_claim(tx, queue, NOW, 1)
    their_end(tx, queue, target, NOW)
    assert requeue(tx, queue, [target], NOW + 1) == 1
    row = ticket_row(tx, queue, target)
    assert (row["status"], row["locked_at"], row["locked_by"]) == ("pending", None, None)
    assert their_claim(tx, queue, NOW + 2, 1) == [target]


def test_another_program_can_take_our_nodes_out(tx: Tx) -> None:
    """It finds the tables of links by their names; nothing else of ours may hold a node fast."""
    target = waiting(tx, "agentic")
    node = write(tx, "agentic", target, msgspec.structs.replace(DRAFT, tags=("a",)))
    named = (
        r"SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'knowledge\_node\_%'"
    )
    for table in column(tx, named + r" ESCAPE '\'"):
        assert len(tx.columns(table)) == 2, table
        tx.run(Sql(f"DELETE FROM {table} WHERE knowledge_node_id = ?"), (node,))
    tx.run(Sql("DELETE FROM knowledge_nodes WHERE id = ?"), (node,))
    assert column(tx, "SELECT count(*) FROM pragma_foreign_key_check") == [0]
    assert column(tx, "SELECT count(*) FROM knowledge_fts WHERE rowid = :node", node=node) == [0]


def test_a_vector_that_outlives_its_node_never_becomes_that_of_another(factory: Factory) -> None:
    with factory.open() as store, store.context.db.write() as tx:
        node = write(tx, "shell", waiting(tx, "shell"))
        tx.run(Sql("CREATE TABLE knowledge_vectors_rowids (rowid INTEGER PRIMARY KEY, id)"))
        insert(tx, "knowledge_vectors_rowids", rowid=node)
        tx.run(Sql("PRAGMA writable_schema = ON"))
        tx.run(
            Sql(
                "INSERT INTO sqlite_master VALUES ('table', 'knowledge_vectors',"
                " 'knowledge_vectors', 0,"
                " 'CREATE VIRTUAL TABLE knowledge_vectors USING vec0(v FLOAT[768])')"
            )
        )
        erase_nodes(tx, [node])
        assert write(tx, "shell", waiting(tx, "shell", session=2)) > node
