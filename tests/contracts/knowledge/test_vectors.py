"""Vectors beside the contract: whose they are, of which model, what is near, what is old."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tests.memory.vectors.embedders import floats, vector_of
from tests.support.knowledge import NOW, clock
from tests.support.tickets import Factory, insert
from threadkeep.base.tx import Sql, Tx
from threadkeep.errors import Conflict, Invalid
from threadkeep.knowledge import vectors
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.knowledge.vector_rows import (
    Kind,
    Tidied,
    VectorChunk,
    count_vectors,
    drift,
    is_tidy,
    missing,
    start_over,
    tidy,
    vector_model,
)
from threadkeep.knowledge.vectors import VectorIndex, quantise, store_vectors

MODEL = "hash-8"


@pytest.fixture
def store(factory: Factory) -> Iterator[KnowledgeStore]:
    with factory.open(clock=clock) as opened:
        with opened.context.db.write() as tx:
            insert(tx, "tk_sessions", id=1, harness="toy", session_id="s")
        yield opened


def add_entry(tx: Tx, number: int, kind: str = "prompt") -> None:
    place = {"session": 1, "log_id": 1, "line": number, "part": 0}
    said = {"key": f"k{number}", "role": "user", "kind": kind, "hash": 0}
    insert(tx, "tk_entries", id=number, **place, **said)


def add_node(tx: Tx, number: int, text: str = "text", created: int = NOW) -> str:
    times = {"created_at": created, "updated_at": created}
    said = {"uuid": f"u{number}-{text}", "content": "{}", "embed_text": text}
    insert(tx, "knowledge_nodes", id=number, **said, **times)
    return f"u{number}-{text}/{created}"


def put(tx: Tx, kind: Kind, *owners: tuple[int, str, bytes], model: str = MODEL) -> int:
    return store_vectors(tx, kind, owners, model=model, dimensions=8, now=NOW)


def messages(tx: Tx, *numbers: int) -> None:
    """Add entries with vectors of their own."""
    for number in numbers:
        add_entry(tx, number)
    put(tx, "message", *((n, "", vector_of(str(n))) for n in numbers))


# ---------------------------------------------------------------------- rounding


unit = st.lists(st.floats(-1, 1, width=32), min_size=6, max_size=6).filter(
    lambda v: math.hypot(*v) > 0.01
)


@given(unit, unit)
def test_rounding_hardly_changes_a_cosine(first: list[float], second: list[float]) -> None:
    scales, numbers = quantise([floats(first), floats(second)], 6)
    rows = np.frombuffer(numbers, np.int8).reshape(2, 6).astype(np.float64)
    one, other = rows * np.frombuffer(scales, "<f4")[:, None]
    exact = np.dot(first, second) / (math.hypot(*first) * math.hypot(*second))
    assert one @ one == pytest.approx(1, abs=1e-5)
    assert one @ other == pytest.approx(exact, abs=0.03)


@given(st.lists(unit, min_size=2, max_size=8), unit)
def test_rounding_keeps_an_order_that_is_clear(rows: list[list[float]], query: list[float]) -> None:
    scales, numbers = quantise([floats(row) for row in rows], 6)
    found = np.frombuffer(numbers, np.int8).reshape(-1, 6) @ np.array(query)
    found *= np.frombuffer(scales, "<f4") / math.hypot(*query)
    exact = [np.dot(r, query) / (math.hypot(*r) * math.hypot(*query)) for r in rows]
    for i, j in ((i, j) for i in range(len(rows)) for j in range(len(rows))):
        assert exact[i] < exact[j] + 0.03 or found[i] > found[j]


@pytest.mark.parametrize(
    "bad", [[0.0] * 8, [math.nan] * 8, [math.inf] + [0.0] * 7, [1.0] * 7, [1.0] * 9]
)
def test_a_vector_that_is_none_is_refused_whole(store: KnowledgeStore, bad: list[float]) -> None:
    with pytest.raises(Invalid), store.context.db.write() as tx:
        for number in (1, 2):
            add_entry(tx, number)
        put(tx, "message", (1, "", vector_of("1")), (2, "", floats(bad)))
    with store.context.db.read() as tx:
        assert count_vectors(tx) == {}
        assert VectorIndex(MODEL).nearest(tx, vector_of("1")) == []


def test_a_question_that_is_no_vector_is_near_nothing(store: KnowledgeStore) -> None:
    index = VectorIndex(MODEL)
    with store.context.db.write() as tx:
        messages(tx, 1, 2)
        hostile = [b"", b"xyz", floats([0.0] * 8), floats([math.nan] * 8), floats([1.0] * 9)]
        for vector in hostile:
            assert index.nearest(tx, vector) == []
            assert index.similarities(tx, vector, "message", [1]) == {}


# ---------------------------------------------------------------------- what is near


def test_the_nearest_come_first_in_either_kind(store: KnowledgeStore) -> None:
    index = VectorIndex(MODEL)
    with store.context.db.write() as tx:
        messages(tx, *range(1, 40))
        mark = add_node(tx, 7)
        put(tx, "node", (7, mark, vector_of("9")))
        found = index.nearest(tx, vector_of("9"), limit=5)
        assert {found[0][:2], found[1][:2]} == {("message", 9), ("node", 7)}
        assert found[0][2] == pytest.approx(1, abs=0.01)
        near = index.nearest(tx, vector_of("9"), kinds=["message"], limit=39)
        exact = {n: cosine(vector_of(str(n)), vector_of("9")) for n in range(1, 40)}
        assert {n: similarity for _, n, similarity in near} == pytest.approx(exact, abs=0.02)
        assert [similarity for *_, similarity in near] == sorted(
            (s for *_, s in near), reverse=True
        )
        some = index.similarities(tx, vector_of("9"), "message", [9, 3, 4711])
        assert some == pytest.approx({9: near[0][2], 3: dict(n[1:] for n in near)[3]})
        assert index.similarities(tx, vector_of("9"), "node", [9, 7]).keys() == {7}


def cosine(one: bytes, other: bytes) -> float:
    return float(np.frombuffer(one, "<f4") @ np.frombuffer(other, "<f4"))


def test_many_vectors_fill_several_chunks(
    store: KnowledgeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "_CHUNK_BYTES", 8 * 64)
    index = VectorIndex(MODEL)
    with store.context.db.write() as tx:
        for first in range(1, 400, 40):
            messages(tx, *range(first, first + 40))
        assert tx.value(Sql("SELECT max(count) FROM tk_vector_chunks")) <= 64
        assert index.count(tx) == 400
        for number in (1, 64, 65, 399):
            assert index.nearest(tx, vector_of(str(number)), limit=1)[0][1] == number


def test_what_another_process_stores_is_seen_at_once(
    store: KnowledgeStore, factory: Factory
) -> None:
    index = VectorIndex(MODEL)
    with store.context.db.write() as tx:
        messages(tx, 1)
    with store.context.db.read() as tx:
        assert index.count(tx) == 1
    other = factory.reopen(store, clock=clock)
    with other.context.db.write() as tx:
        messages(tx, 2)
    with store.context.db.read() as tx:
        assert index.nearest(tx, vector_of("2"), limit=1)[0][1] == 2


# ---------------------------------------------------------------------- what is old


def test_the_vector_of_what_is_gone_is_never_found_and_is_taken_out(store: KnowledgeStore) -> None:
    index = VectorIndex(MODEL)
    with store.context.db.write() as tx:
        messages(tx, *range(1, 100))
        mark = add_node(tx, 5)
        put(tx, "node", (5, mark, vector_of("n")))
        assert is_tidy(tx)
        assert tidy(tx, NOW) == Tidied()
        tx.run(Sql("DELETE FROM tk_entries WHERE id BETWEEN 2 AND 98"))
        tx.run(Sql("DELETE FROM knowledge_nodes"))
        assert {n for _, n, _ in index.nearest(tx, vector_of("50"), limit=99)} == {1, 99}
        assert index.similarities(tx, vector_of("50"), "message", [1, 50]).keys() == {1}
        assert not is_tidy(tx)
        assert tidy(tx, NOW) == Tidied(98, nodes=(5,))
        assert is_tidy(tx)
        assert index.count(tx) == 2
        [[ids]] = tx.all(Sql("SELECT ids FROM tk_vector_chunks"))
        assert VectorChunk(ids, b"", b"").owners() == [1, 99]
        assert index.nearest(tx, vector_of("99"), limit=1)[0][1] == 99


def test_a_node_that_changed_or_took_an_old_number_has_no_vector(store: KnowledgeStore) -> None:
    index = VectorIndex(MODEL)
    with store.context.db.write() as tx:
        for number in (1, 2, 3):
            put(tx, "node", (number, add_node(tx, number), vector_of(str(number))))
        tx.run(Sql("UPDATE knowledge_nodes SET updated_at = updated_at + 1 WHERE id = 1"))
        tx.run(Sql("DELETE FROM knowledge_nodes WHERE id = 2"))
        add_node(tx, 2, "another")
        assert [n for _, n, _ in index.nearest(tx, vector_of("1"), limit=9)] == [3]
        lacking = missing(tx, 9).nodes
        assert [(node.id, node.text) for node in lacking] == [(2, "another"), (1, "text")]
        for node in lacking:
            put(tx, "node", (node.id, node.mark, vector_of(f"new {node.id}")))
        assert index.nearest(tx, vector_of("new 2"), limit=9)[0][1] == 2
        assert len(index.nearest(tx, vector_of("1"), limit=9)) == 3
        assert missing(tx, 9).nodes == ()


def test_who_is_late_with_a_vector_is_passed_over(store: KnowledgeStore) -> None:
    with store.context.db.write() as tx:
        add_entry(tx, 1)
        old = add_node(tx, 1)
        tx.run(Sql("UPDATE knowledge_nodes SET updated_at = 5, embed_text = 'newer'"))
        assert put(tx, "node", (1, old, vector_of("old"))) == 0
        assert put(tx, "message", (1, "", vector_of("a")), (2, "", vector_of("gone"))) == 1
        assert put(tx, "message", (1, "", vector_of("b"))) == 0
        near = VectorIndex(MODEL).nearest(tx, vector_of("a"))
        assert [(kind, n) for kind, n, _ in near] == [("message", 1)]
        assert near[0][2] > 0.99


@pytest.mark.parametrize(
    "column, spoilt", [("ids", b""), ("scales", b"\0"), ("numbers", b"\0\1\2")]
)
def test_a_chunk_that_is_spoiled_is_left_out(
    store: KnowledgeStore, column: str, spoilt: bytes
) -> None:
    with store.context.db.write() as tx:
        messages(tx, 1, 2)
        put(tx, "node", (1, add_node(tx, 1), vector_of("n")))
        sql = f"UPDATE tk_vector_chunks SET {column} = :spoilt WHERE kind = 'message'"
        tx.run(Sql(sql), {"spoilt": spoilt})
        index = VectorIndex(MODEL)
        assert [near[:2] for near in index.nearest(tx, vector_of("1"))] == [("node", 1)]
        assert index.similarities(tx, vector_of("1"), "message", [1, 2]) == {}


# ---------------------------------------------------------------------- what is missing


def test_prompts_answers_and_summaries_are_missing_the_newest_first(store: KnowledgeStore) -> None:
    kinds = ("prompt", "text", "summary", "tool_call", "tool_result", "reasoning", "note")
    with store.context.db.write() as tx:
        for number, kind in enumerate(kinds, 1):
            add_entry(tx, number, kind)
        assert [row.id for row in missing(tx, 9).messages] == [3, 2, 1]
        assert [row.id for row in missing(tx, 9, below_message=3).messages] == [2, 1]
        put(tx, "message", (2, "", b""))  # nothing in it
        assert [row.id for row in missing(tx, 9).messages] == [3, 1]
        tx.run("set_entries_done", {"done": 2})
        assert [row.id for row in missing(tx, 9).messages] == [3]
        assert [row.id for row in missing(tx, 9, whole=True).messages] == [3, 1]


def test_young_nodes_may_be_left_to_who_made_them(store: KnowledgeStore) -> None:
    with store.context.db.write() as tx:
        add_node(tx, 1, created=NOW - 900_001)
        add_node(tx, 2, created=NOW - 10)
        assert [n.id for n in missing(tx, 9, made_before=NOW - 900_000).nodes] == [1]
        assert [n.id for n in missing(tx, 9).nodes] == [2, 1]


# ---------------------------------------------------------------------- another model


def test_vectors_of_two_models_are_never_mixed(store: KnowledgeStore) -> None:
    index, other = VectorIndex(MODEL), VectorIndex("other")
    with store.context.db.write() as tx:
        assert drift(tx, "any", 5) == ""
        messages(tx, 1)
        assert drift(tx, MODEL, 8) == ""
        assert MODEL in drift(tx, "other", 8)
        assert "8 numbers" in drift(tx, MODEL, 9)
        add_entry(tx, 2)
        with pytest.raises(Conflict, match="other"):
            put(tx, "message", (2, "", vector_of("2")), model="other")
        assert other.nearest(tx, vector_of("1")) == []
        assert index.count(tx) == 1
        start_over(tx, "other", 8, NOW)
        assert index.nearest(tx, vector_of("1")) == []
        put(tx, "message", (1, "", vector_of("1")), model="other")
        assert other.nearest(tx, vector_of("1"))[0][1] == 1
        known = vector_model(tx)
        assert known is not None
        assert (known.model, known.entries_done) == ("other", 0)


def test_a_file_without_our_tables_has_no_vectors(store: KnowledgeStore) -> None:
    with store.context.db.write() as tx:
        for table in ("tk_vector_model", "tk_vector_chunks", "tk_vectors", "tk_vector_old"):
            tx.run(Sql(f"DROP TABLE {table}"))
    with store.context.db.read() as tx:
        assert VectorIndex(MODEL).nearest(tx, vector_of("1")) == []
        assert VectorIndex(MODEL).similarities(tx, vector_of("1"), "node", [1]) == {}
        assert (vector_model(tx), drift(tx, MODEL, 8), count_vectors(tx)) == (None, "", {})
    with store.context.db.write() as tx:
        assert tidy(tx, NOW) == Tidied()


# ---------------------------------------------------------------------- the contract's own table
