"""Filling in what is missing: complete, once, in whole batches, whoever else is at it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.memory.vectors.embedders import HashEmbedder, vector_of
from tests.support.tickets import insert
from tests.support.toy_sources import conversation
from tests.support.worlds import World
from threadkeep.base.sqlite import database
from threadkeep.base.tx import Sql, Tx
from threadkeep.errors import ThreadkeepError
from threadkeep.knowledge.records import EntryRow
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.knowledge.vector_rows import VectorCounts, count_vectors, missing, vector_model
from threadkeep.knowledge.vectors import VectorIndex
from threadkeep.memory.vectors import backfill
from threadkeep.memory.vectors.backfill import (
    EmbedReport,
    archived_texts,
    embed_anew,
    embed_pending,
)
from threadkeep.testing import KnowledgeFactory


@pytest.fixture
def store(knowledge_factory: KnowledgeFactory) -> Iterator[KnowledgeStore]:
    with knowledge_factory.open() as opened:
        with opened.context.db.write() as tx:
            insert(tx, "tk_sessions", id=1, harness="toy", session_id="s")
            for number in range(1, 21):
                add_entry(tx, number)
            for number in (1, 2):
                said = {"uuid": f"u{number}", "content": "{}", "embed_text": f"node {number}"}
                times = {"created_at": opened.context.clock(), "updated_at": 1}
                insert(tx, "knowledge_nodes", id=number, **said, **times)
        yield opened


def add_entry(tx: Tx, number: int) -> None:
    place = {"session": 1, "log_id": 1, "line": number, "part": 0}
    said = {"key": f"k{number}", "role": "user", "kind": "prompt", "hash": 0}
    insert(tx, "tk_entries", id=number, **place, **said)


def texts(_: Tx, rows: Sequence[EntryRow]) -> list[str]:
    return [f"message {row.id}" if row.id != 7 else "" for row in rows]


def test_everything_gets_its_vector_once(
    store: KnowledgeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfill, "BATCH", 6)
    embedder, seen = HashEmbedder(), list[tuple[int, int]]()
    done = embed_pending(store, embedder, texts, show=lambda d: seen.append((d.nodes, d.messages)))
    assert (done.nodes, done.messages, done.complete, done.drift) == (2, 20, True, "")
    assert seen == [(2, 0), (2, 6), (2, 12), (2, 18), (2, 20)]
    with store.context.db.read() as tx:
        assert count_vectors(tx) == {"node": VectorCounts(2, 2), "message": VectorCounts(19, 20)}
        near = VectorIndex("hash-8").nearest(tx, vector_of("message 12"))
        assert near[0][:2] == ("message", 12)
    asked = len(embedder.asked)
    again = embed_pending(store, embedder, texts)
    assert (again.nodes, again.messages, again.complete) == (0, 0, True)
    assert len(embedder.asked) == asked


def test_what_was_done_before_is_not_looked_at_again_but_for_the_asking(
    store: KnowledgeStore,
) -> None:
    embed_pending(store, HashEmbedder(), texts)
    with store.context.db.write() as tx:
        known = vector_model(tx)
        assert known is not None
        assert known.entries_done == 20
        tx.run(Sql("DELETE FROM tk_vectors WHERE kind = 'message' AND id = 3"))
        add_entry(tx, 21)
    assert embed_pending(store, HashEmbedder(), texts).messages == 1
    assert embed_pending(store, HashEmbedder(), texts, whole=True).messages == 1
    with store.context.db.read() as tx:
        assert missing(tx, 9, whole=True).messages == ()


def test_a_limit_and_a_stop_leave_the_rest_for_later(
    store: KnowledgeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfill, "BATCH", 6)
    some = embed_pending(store, HashEmbedder(), texts, limit=9)
    assert (some.nodes, some.messages, some.complete) == (2, 7, False)
    seen: list[EmbedReport] = []
    stopped = embed_pending(store, HashEmbedder(), texts, show=seen.append, stop=lambda: bool(seen))
    assert (stopped.messages, stopped.complete) == (6, False)
    rest = embed_pending(store, HashEmbedder(), texts)
    assert (rest.messages, rest.complete) == (7, True)


def test_an_embedder_that_fails_leaves_whole_batches(
    store: KnowledgeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfill, "BATCH", 6)

    class Failing(HashEmbedder):
        def embed(self, texts: Sequence[str]) -> list[bytes]:
            if "message 10" in texts:
                raise ThreadkeepError("no answer")
            return super().embed(texts)

    with pytest.raises(ThreadkeepError, match="no answer"):
        embed_pending(store, Failing(), texts)
    with store.context.db.read() as tx:
        assert count_vectors(tx) == {"node": VectorCounts(2, 2), "message": VectorCounts(6, 6)}
    rest = embed_pending(store, HashEmbedder(), texts)
    assert (rest.messages, rest.complete) == (14, True)


def test_two_at_once_store_everything_once(
    store: KnowledgeStore, knowledge_factory: KnowledgeFactory
) -> None:
    with knowledge_factory.reopen(store) as other:

        class Overtaken(HashEmbedder):
            def embed(self, texts_: Sequence[str]) -> list[bytes]:
                embed_pending(other, HashEmbedder(), texts)
                return super().embed(texts_)

        done = embed_pending(store, Overtaken(), texts)
    assert (done.nodes, done.messages, done.complete) == (0, 0, True)
    with store.context.db.read() as tx:
        assert count_vectors(tx) == {"node": VectorCounts(2, 2), "message": VectorCounts(19, 20)}
        assert VectorIndex("hash-8").count(tx) == 21


def test_with_another_model_nothing_is_made_until_all_is_made_anew(store: KnowledgeStore) -> None:
    embed_pending(store, HashEmbedder(), texts)
    other = HashEmbedder("hash-16", 16)
    refused = embed_pending(store, other, texts)
    assert (refused.nodes, refused.messages, refused.complete) == (0, 0, False)
    assert "hash-8" in refused.drift
    assert other.asked == []
    embed_anew(store, other)
    done = embed_pending(store, other, texts)
    assert (done.nodes, done.messages, done.complete) == (2, 20, True)
    with store.context.db.read() as tx:
        assert VectorIndex("hash-8").nearest(tx, vector_of("message 12")) == []
        near = VectorIndex("hash-16").nearest(tx, vector_of("message 12", 16))
        assert near[0][:2] == ("message", 12)


def test_young_nodes_are_left_to_who_made_them_and_old_vectors_go(store: KnowledgeStore) -> None:
    waits = embed_pending(store, HashEmbedder(), texts, settle_ms=900_000)
    assert (waits.nodes, waits.messages) == (0, 20)
    assert embed_pending(store, HashEmbedder(), texts).nodes == 2
    with store.context.db.write() as tx:
        tx.run(Sql("DELETE FROM tk_entries WHERE id < 4"))
        tx.run(Sql("UPDATE knowledge_nodes SET updated_at = 2 WHERE id = 1"))
    done = embed_pending(store, HashEmbedder(), texts)
    assert (done.removed, done.nodes, done.messages) == (4, 1, 0)


def test_where_no_extension_can_be_loaded_our_own_tables_have_the_vectors(
    store: KnowledgeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "load_extension", lambda *_: False)
    embedder = HashEmbedder("nomic", 768)
    done = embed_pending(store, embedder, texts)
    assert (done.nodes, done.contract_nodes, done.complete) == (2, 0, True)
    assert "knowledge_vectors is left alone" in done.note
    with store.context.db.read() as tx:
        near = VectorIndex("nomic").nearest(tx, vector_of("node 2", 768), limit=1)
    assert near[0][:2] == ("node", 2)


def test_the_contracts_own_table_is_for_768_numbers_only(store: KnowledgeStore) -> None:
    assert embed_pending(store, HashEmbedder(), texts).note == ""
    with store.context.db.read() as tx:
        assert "knowledge_vectors" not in tx.tables()


def test_texts_are_read_from_the_archive(
    tmp_path: Path, knowledge_factory: KnowledgeFactory
) -> None:
    world = World(tmp_path, knowledge_factory)
    world.write(conversation(30), "a")
    world.write(conversation(5), "b")
    world.capture()
    with world.store() as store:
        embedder = HashEmbedder()
        done = embed_pending(store, embedder, archived_texts(world.sources))
        assert done.messages == len(embedder.asked) > 0
        assert "" not in embedder.asked
        with store.context.db.read() as tx:
            text = embedder.asked[3]
            near = VectorIndex("hash-8").nearest(tx, vector_of(text), limit=1)
            line = tx.value(Sql("SELECT line FROM tk_entries WHERE id = :id"), {"id": near[0][1]})
            assert str(line) in text
