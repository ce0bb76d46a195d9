"""Segments as rows: what an update touches, and when a ticket is given."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from tests.lengths import examples
from threadkeep.base.tx import Sql, Tx
from threadkeep.knowledge.records import Segment
from threadkeep.knowledge.segments import content_hash, settle, write_segment
from threadkeep.testing import KnowledgeFactory

NOW = 1_800_000_000_000
MINUTE = 60_000

SEGMENT = Segment(
    session_id="s",
    index=0,
    start=100,
    end=200,
    project_dir="app",
    cwd="/u/app",
    summary="what was done",
    prompts=["do it"],
    tools=[("Bash", "ls")],
    texts=["done"],
    messages=3,
)
GROWN = msgspec.structs.replace(SEGMENT, end=300, texts=["done", "more"], messages=5)


@pytest.fixture
def tx(knowledge_factory: KnowledgeFactory) -> Iterator[Tx]:
    store = knowledge_factory.open(clock=lambda: NOW)
    with store, store.context.db.write() as tx:
        yield tx


def write(tx: Tx, segment: Segment = SEGMENT, *, now: int = NOW, file: str = "/h/s.jsonl") -> bool:
    return write_segment(tx, "codex", segment, file, now)


def row(tx: Tx, *columns: str) -> tuple[Any, ...]:
    return tx.one(Sql(f"SELECT {', '.join(columns)} FROM agentic_sessions")) or ()


def ticket(tx: Tx) -> tuple[Any, ...] | None:
    sql = "SELECT status, retry_count, error_message, enqueued_at, updated_at FROM "
    found: tuple[Any, ...] | None = tx.one(Sql(sql + "agentic_enrichment_queue"))
    return found


def set_ticket(tx: Tx, **columns: Any) -> None:
    values = ", ".join(f"{name} = :{name}" for name in columns)
    tx.run(Sql(f"UPDATE agentic_enrichment_queue SET {values}"), columns)


def test_a_new_segment_gets_a_row_and_a_ticket(tx: Tx) -> None:
    assert write(tx)
    assert row(tx, "session_id", "harness", "segment_index") == ("s", "codex", 0)
    assert row(tx, "start_time", "end_time", "created_at") == (100, 200, NOW)
    assert row(tx, "message_count", "content_hash") == (3, content_hash(SEGMENT))
    assert row(tx, "enriched", "last_enriched_content_hash", "probe_tag") == (0, None, None)
    assert ticket(tx) == ("pending", 0, None, NOW, NOW)


def test_the_same_again_changes_nothing(tx: Tx) -> None:
    write(tx)
    assert not write(tx, now=NOW + 60 * MINUTE)
    assert ticket(tx) == ("pending", 0, None, NOW, NOW)


def test_an_update_never_touches_what_others_rely_on(tx: Tx) -> None:
    write(tx)
    tx.run(Sql("UPDATE agentic_sessions SET last_enriched_content_hash = 'old', enriched = 1"))
    moved = msgspec.structs.replace(GROWN, start=999, summary="now more")
    assert write(tx, moved, now=NOW + MINUTE, file="/elsewhere/s.jsonl")
    assert row(tx, "start_time", "source_file", "created_at") == (100, "/h/s.jsonl", NOW)
    assert row(tx, "last_enriched_content_hash", "enriched") == ("old", 1)
    assert row(tx, "end_time", "summary_text", "message_count") == (300, "now more", 5)
    assert row(tx, "content_hash") == (content_hash(GROWN),)


@pytest.mark.parametrize(
    "change",
    [
        {"title": "named"},
        {"tokens": 7},
        {"cwd": "/u/other"},
        {"model": "m-2"},
        {"git_branch": "main"},
        {"summary": "in other words"},
        {"end": 201},
        {"messages": 4},
        {"parent_session_id": "p", "is_subagent": True},
    ],
)
def test_whatever_changes_is_written(tx: Tx, change: dict[str, Any]) -> None:
    write(tx)
    assert write(tx, msgspec.structs.replace(SEGMENT, **change))
    assert not write(tx, msgspec.structs.replace(SEGMENT, **change))


def test_the_hash_leaves_out_the_summary_and_the_times() -> None:
    other = msgspec.structs.replace(SEGMENT, summary="x", end=999, messages=9, title="t")
    assert content_hash(other) == content_hash(SEGMENT)
    assert content_hash(GROWN) != content_hash(SEGMENT)


def test_a_segment_in_work_keeps_its_ticket(tx: Tx) -> None:
    write(tx)
    set_ticket(tx, status="processing", retry_count=2)
    write(tx, GROWN, now=NOW + 60 * MINUTE)
    assert ticket(tx) == ("processing", 2, None, NOW, NOW)


def test_a_ticket_of_a_clock_that_was_ahead_is_renewed_once_it_is_right(tx: Tx) -> None:
    write(tx, now=NOW + 2 * 1440 * MINUTE)
    set_ticket(tx, status="done")
    write(tx, GROWN, now=NOW)
    found = ticket(tx)
    assert found is not None
    assert found[0] == "pending"


def test_what_was_learned_already_gets_no_ticket(tx: Tx) -> None:
    write(tx)
    set_ticket(tx, status="done")
    tx.run(
        Sql("UPDATE agentic_sessions SET last_enriched_content_hash = :hash"),
        {"hash": content_hash(GROWN)},
    )
    write(tx, GROWN, now=NOW + 60 * MINUTE)
    assert ticket(tx) == ("done", 0, None, NOW, NOW)


@pytest.mark.parametrize("status", ["pending", "done", "failed", "skipped"])
def test_a_young_ticket_is_left_alone_and_an_old_one_renewed(tx: Tx, status: str) -> None:
    write(tx)
    set_ticket(tx, status=status, retry_count=3, error_message="before")
    write(tx, GROWN, now=NOW + 5 * MINUTE - 1)
    assert ticket(tx) == (status, 3, "before", NOW, NOW)
    later = NOW + 5 * MINUTE
    write(tx, msgspec.structs.replace(GROWN, messages=6), now=later)
    assert ticket(tx) == ("pending", 0, None, NOW, later)


def test_a_row_of_another_program_without_a_ticket_gets_one_when_it_grows(tx: Tx) -> None:
    write(tx)
    tx.run(Sql("DELETE FROM agentic_enrichment_queue"))
    write(tx, GROWN, now=NOW + 1)
    assert ticket(tx) == ("pending", 0, None, NOW + 1, NOW + 1)


def test_segments_of_one_session_are_rows_by_harness_and_number(tx: Tx) -> None:
    write(tx)
    write(tx, msgspec.structs.replace(SEGMENT, index=1))
    write_segment(tx, "claude-code", SEGMENT, "f", NOW)
    assert tx.one(Sql("SELECT count(*) FROM agentic_sessions")) == (3,)


def test_a_segment_that_came_to_rest_behind_the_gate_gets_its_ticket(tx: Tx) -> None:
    late = msgspec.structs.replace(SEGMENT, end=NOW)
    write(tx, late)
    set_ticket(tx, status="done")
    assert settle(tx, NOW + 30 * MINUTE) == 0
    after = NOW + 30 * MINUTE + 1
    assert settle(tx, after) == 1
    assert ticket(tx) == ("pending", 0, None, NOW, after)
    assert settle(tx, after) == 0


def test_what_was_learned_from_is_at_rest_for_good(tx: Tx) -> None:
    write(tx)
    set_ticket(tx, status="done")
    tx.run(Sql("UPDATE agentic_sessions SET last_enriched_content_hash = content_hash"))
    assert settle(tx, NOW) == 0


texts = st.lists(st.text(), max_size=3)


@settings(max_examples=examples(40))
@given(prompts=texts, tools=st.lists(st.tuples(st.text(), st.text()), max_size=2), said=texts)
def test_any_text_is_hashed_and_equal_texts_equally(
    prompts: list[str], tools: list[tuple[str, str]], said: list[str]
) -> None:
    one = msgspec.structs.replace(SEGMENT, prompts=prompts, tools=tools, texts=said)
    two = msgspec.structs.replace(one, prompts=list(prompts), cwd="/other")
    assert content_hash(one) == content_hash(two)
    more = msgspec.structs.replace(one, prompts=[*prompts, "one more"])
    assert content_hash(more) != content_hash(one)
