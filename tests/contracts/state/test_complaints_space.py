"""What users of Hermes complain about: files that grow for ever, pruning that takes too much.

Issue numbers are those of NousResearch/hermes-agent unless a test says otherwise.
"""

import base64
import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.states import Clock, Factory
from threadkeep.state.hermes_state import SessionDB

Make = Callable[..., list[int]]


def one(factory: Factory, db: SessionDB, statement: str, *parameters: object) -> Any:
    (value,) = factory.rows(db, statement, *parameters)[0].values()
    return value


def noise(size: int, seed: int = 1) -> str:
    return base64.b64encode(random.Random(seed).randbytes(size)).decode()


def picture(seed: int = 1, size: int = 60_000) -> str:
    return f"see data:image/png;base64,{noise(size, seed)} of the walrus"


def ids(db: SessionDB) -> set[str]:
    return {session["id"] for session in db.search_sessions(limit=-1)}


def test_growth_never_ended_sessions_are_pruned(db: SessionDB, make: Make, clock: Clock) -> None:
    """#54189, #57752: a gateway that was killed ends no session."""
    make("abandoned", "hello", "anybody?")
    db.create_session("empty", "cli")
    clock.pass_days(100)
    make("active", "hello")
    assert db.prune_sessions(90) == 1
    assert ids(db) == {"empty", "active"}
    assert db.prune_sessions(90, include_active=True) == 1
    assert ids(db) == {"active"}


def test_growth_size_report_says_what_is_large(db: SessionDB, make: Make) -> None:
    """#13861: which sessions take the space."""
    make("small", "hello")
    make("large", noise(50_000))
    text = str(db.size_report())
    assert "large" in text
    assert isinstance(db.size_report(), dict)


# ---------------------------------------------------------------------- blobs


def index_bytes(factory: Factory, db: SessionDB) -> int:
    tables = ("messages_fts_data", "tk_search_data")
    return sum(
        one(factory, db, f"SELECT coalesce(sum(length(block)), 0) FROM {name}") for name in tables
    )


def test_blobs_are_stored_but_not_indexed(db: SessionDB, make: Make, factory: Factory) -> None:
    """#22478, #43690, #55233, #69672: screenshots were indexed up to six times."""
    texts = [picture(seed) for seed in range(5)]
    make("s", *texts)
    assert [message["content"] for message in db.get_messages("s")] == texts
    assert {hit["id"] for hit in db.search_messages("walrus")} == {1, 2, 3, 4, 5}
    assert index_bytes(factory, db) < sum(map(len, texts)) / 20


def test_blobs_huge_tool_output_is_indexed_at_its_ends(db: SessionDB, factory: Factory) -> None:
    """#43690: the 8 K cap."""
    words = [f"w{number:06}" for number in range(60_000)]
    db.create_session("s", "cli")
    db.append_message("s", "tool", " ".join(["firstword", *words, "lastword"]))
    assert len(db.search_messages("firstword")) == 1
    assert len(db.search_messages("lastword")) == 1
    assert index_bytes(factory, db) < 60_000


def test_blobs_stay_inline_until_asked(db: SessionDB, make: Make, factory: Factory) -> None:
    """#55233: Hermes must be able to replay them."""
    text = picture()
    make("s", text)
    db.end_session("s", "done")
    db.compact()
    assert one(factory, db, "SELECT content FROM messages") == text


def test_replay_columns_of_settled_sessions_are_compressed(db: SessionDB, factory: Factory) -> None:
    """#54189: reasoning details dominated one user's file."""
    details = [{"type": "text", "text": "thinking about it again and again " * 500}]
    db.create_session("s", "cli")
    db.append_message(
        "s",
        "assistant",
        "short answer",
        reasoning="a long thought " * 1000,
        reasoning_details=details,
        codex_reasoning_items=details,
    )
    db.end_session("s", "done")
    before = db.get_messages("s")
    turn = db.get_messages_as_conversation("s")
    db.offload_blobs()
    columns = ("reasoning", "reasoning_details", "codex_reasoning_items")
    left = " + ".join(f"coalesce(length({name}), 0)" for name in columns)
    assert one(factory, db, f"SELECT {left} FROM messages") < 1000
    assert one(factory, db, "SELECT sum(length(data)) FROM tk_blobs") < 5_000
    assert db.get_messages("s") == before
    assert db.get_messages_as_conversation("s") == turn
    assert turn[0]["reasoning_details"] == details


# ---------------------------------------------------------------------- what pruning spares


def test_pruning_spares_pinned_sessions(db: SessionDB, make: Make, clock: Clock) -> None:
    """#90617."""
    for session_id in ("pinned", "loose"):
        make(session_id, "hello")
        db.end_session(session_id, "done")
    assert db.set_session_pinned("pinned") is True
    clock.pass_days(100)
    assert db.prune_sessions() == 1
    assert ids(db) == {"pinned"}
    db.set_session_pinned("pinned", pinned=False)
    assert db.prune_sessions() == 1
    assert db.set_session_pinned("nobody") is False


def test_pruning_spares_active_sessions(db: SessionDB, make: Make, clock: Clock) -> None:
    """#95868: begun long ago, talked to today."""
    make("s", "long ago")
    clock.pass_days(200)
    make("s", "today")
    assert db.prune_sessions(90) == 0
    assert db.prune_sessions(90, include_active=True) == 0


def test_pruning_can_be_tried_first(db: SessionDB, make: Make, clock: Clock) -> None:
    """#90617, #95868."""
    make("old", "hello", source="telegram")
    db.end_session("old", "done")
    clock.pass_days(100)
    make("new", "hello")
    before = db.export_all()
    assert db.prune_sessions(dry_run=True) == 1
    candidates = db.prune_candidates()
    assert [candidate["id"] for candidate in candidates] == ["old"]
    assert candidates[0]["source"] == "telegram"
    assert db.export_all() == before
    assert db.prune_sessions(source="cli", dry_run=True) == 0
    assert db.prune_sessions() == 1


def test_pruning_happens_only_when_asked(db: SessionDB, factory: Factory, clock: Clock) -> None:
    """#90617: opening, writing and closing never remove anything."""
    for _ in range(3):
        db.ensure_session(f"s{clock.now}", "cli")
        db.append_message(db.search_sessions()[0]["id"], "user", "hello")
        db.end_session(db.search_sessions()[0]["id"], "done")
        db.close()
        clock.pass_days(400)
        db = factory.reopen(db, clock=clock)
    assert (db.session_count(), db.message_count()) == (3, 3)


@pytest.mark.parametrize("days", [0, 1])
def test_pruning_by_days(db: SessionDB, make: Make, clock: Clock, days: int) -> None:
    """#95868."""
    make("s", "hello")
    db.end_session("s", "done")
    clock.pass_days(0.5)
    assert db.prune_sessions(days) == (1 if days == 0 else 0)
