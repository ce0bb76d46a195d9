"""Checking: damage that SQLite cannot see is found and named, other programs' writes are none."""

from collections.abc import Callable

import pytest

from threadkeep.base.tx import Sql
from threadkeep.state import retention
from threadkeep.state.blob_migration import offload_blobs
from threadkeep.state.check import check
from threadkeep.state.session_db import SessionDB

Make = Callable[..., list[int]]


@pytest.fixture
def used(db: SessionDB, make: Make) -> SessionDB:
    """A store in which most verbs were used."""
    make("s", "pay 100 to Ann", "done", "thanks")
    db.create_session("child", "cli", "m", {"t": 1}, "prompt \ud800", "u", "s", relation="branch")
    db.append_message("child", "user", ["a", {"text": "list"}], reasoning="half \udc00")
    db.append_message("child", "assistant", "x", tool_calls=[{"id": "c"}], token_count=3)
    db.set_session_title("s", "a title")
    db.update_system_prompt("s", "prompt")
    db.append_message("s", "tool", "line\n" * 4_000, tool_name="sh")
    db.rewind_to_message("s", 3, any_role=True)
    db.undo_rewind("s")
    db.end_session("s", "done")
    offload_blobs(db.context)
    return db


def test_every_verb_leaves_a_store_without_problems(used: SessionDB) -> None:
    assert check(used.context) == []
    assert check(used.context, quick=True) == []
    retention.delete_sessions(used.context, ["s"])
    assert check(used.context) == []


@pytest.mark.parametrize(
    "damaged", ['"\\ud8', "[1", '{"text": 1}', '{"pieces": []}', '{"text": "1", "pieces": [[1]]}']
)
def test_damaged_exact_values_leave_the_text_and_are_found(db: SessionDB, damaged: str) -> None:
    db.create_session("s", "cli", user_id="half \ud800")
    db.append_message("s", "user", [{"type": "text", "text": "see"}, "A" * 9999])
    before = [message["content"] for message in db.get_messages("s")]
    with db.context.db.write() as tx:
        tx.run(Sql("UPDATE tk_exact SET value = ?"), (damaged,))
    after = [message["content"] for message in db.get_messages("s")]
    assert after == ["see\n" + "A" * 9999]
    assert before != after
    assert (db.get_session("s") or {})["user_id"] == "half \ufffd"
    assert len(db.check()) == 2
