"""Queries that must use an index, however large the store is."""

from threadkeep.base.tx import Sql
from threadkeep.chat.records import Session
from threadkeep.chat.schema import QUERIES
from threadkeep.chat.store import ChatStore


def test_latest_run_is_found_without_reading_all_runs(store: ChatStore, session: Session) -> None:
    params = {"session_id": session.id, "message_id": "m"}
    with store.context.db.read() as tx:
        plan = tx.all(Sql("EXPLAIN QUERY PLAN " + QUERIES["latest_run_of_message"]), params)
        steps = [row[3] for row in plan]
    assert len(steps) == 1, steps
    assert "tk_runs_session" in steps[0]


def test_whether_a_reply_was_recorded_is_looked_up_by_its_id(store: ChatStore) -> None:
    with store.context.db.read() as tx:
        plan = tx.all(Sql("EXPLAIN QUERY PLAN " + QUERIES["is_recorded"]), {"message_id": "m"})
        steps = [str(row[3]) for row in plan]
    assert not [step for step in steps if step.startswith("SCAN")]
    assert any("tk_finished_message" in step for step in steps)
