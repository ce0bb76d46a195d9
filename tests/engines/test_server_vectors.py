"""Vectors on a server with pgvector: the server compares them, and the answers are the same."""

from collections.abc import Iterator
from contextlib import closing

import numpy as np
import psycopg
import pytest

from tests.engines.test_written_sql import Statements, writers
from tests.support.postgres import fresh_database
from threadkeep.base.sql import fill_pieces
from threadkeep.base.tx import Sql, Tx
from threadkeep.knowledge import server_vectors
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.knowledge.vector_rows import KINDS, tidy
from threadkeep.knowledge.vectors import Near, VectorIndex, store_vectors

MODEL, WIDTH, MANY = "m", 256, 700
ENTRIES = """INSERT INTO tk_entries (id, session, key, log_id, line, part, role, kind, hash)
SELECT n, 1, 'k' || n, 1, n, 0, 'user', 'prompt', 0 FROM generate_series(1, 700) AS n"""
SESSION = "INSERT INTO tk_sessions (id, harness, session_id) VALUES (1, 'toy', 's')"


def vectors(seed: int, count: int) -> list[bytes]:
    made = np.random.default_rng(seed).standard_normal((count, WIDTH)).astype("<f4")
    return [row.tobytes() for row in made]


@pytest.fixture(scope="module")
def place(server_place: str) -> str:
    """Return the URL of a home whose database had no extension when its store was made."""
    url = fresh_database(server_place, "with_vector")
    with closing(KnowledgeStore.open(f"{url}&home=v")) as store, store.write() as tx:
        assert server_vectors.chunks_to_fill(tx) == []
        tx.run(Sql(SESSION))
        tx.run(Sql(ENTRIES))
        put(tx, range(1, MANY + 1), 1)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
    return f"{url}&home=v"


def put(tx: Tx, ids: range, seed: int) -> None:
    rows = [(n, "", v) for n, v in zip(ids, vectors(seed, len(ids)), strict=True)]
    store_vectors(tx, "message", rows, model=MODEL, dimensions=WIDTH, now=1)


@pytest.fixture
def store(place: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[KnowledgeStore]:
    monkeypatch.setattr(server_vectors, "_FEW", 0)
    monkeypatch.setattr("threadkeep.knowledge.vectors._CHUNK_BYTES", 1 << 16)
    with closing(KnowledgeStore.open(place)) as store:
        yield store


def answers(index: VectorIndex, tx: Tx) -> tuple[list[Near], dict[int, float], int]:
    query = np.random.default_rng(9).standard_normal(WIDTH).astype("<f4").tobytes()
    near = index.nearest(tx, query, kinds=KINDS, limit=40)
    some = index.similarities(tx, query, "message", range(1, MANY, 3))
    return near, some, index.count(tx)


def check_both(store: KnowledgeStore) -> None:
    """The first transaction of an index asks the server, the second one compares by itself."""
    index = VectorIndex(MODEL)
    with store.read() as tx:
        first = answers(index, tx)
        there = server_vectors.chunks_there(tx)
        assert there
    with store.read() as tx:
        second = answers(index, tx)
    assert [one[:2] for one in first[0]] == [one[:2] for one in second[0]]
    assert [one[2] for one in first[0]] == pytest.approx([one[2] for one in second[0]], abs=2e-6)
    assert first[1].keys() == second[1].keys()
    assert first[1] == pytest.approx(second[1], abs=2e-6)
    assert first[2] == second[2]


def fill(store: KnowledgeStore, most: int = 1000) -> int:
    with store.write() as tx:
        chunks = server_vectors.chunks_to_fill(tx)[:most]
        for number in chunks:
            server_vectors.fill(tx, number)
        return len(chunks)


def rows(store: KnowledgeStore) -> int:
    with store.read() as tx:
        return int(tx.value(Sql("SELECT count(*) FROM tk_vector_rows")))


def test_the_server_gives_the_hits_that_we_would_find(store: KnowledgeStore) -> None:
    assert fill(store) == 1
    check_both(store)
    with store.write() as tx:
        tx.run(Sql("DELETE FROM tk_vectors WHERE id > 400"))
        put(tx, range(401, MANY + 1), 2)
    assert fill(store, most=1) == 1  # some are compared there, some here
    check_both(store)
    assert fill(store)
    check_both(store)


def test_what_is_forgotten_is_nowhere(store: KnowledgeStore) -> None:
    fill(store)
    with store.write() as tx:
        tx.run(Sql("DELETE FROM tk_entries WHERE id <= 10"))
    with store.read() as tx:
        assert not {one[1] for one in answers(VectorIndex(MODEL), tx)[0]} & set(range(1, 11))
    with store.write() as tx:
        tidy(tx, 5)
        old = "SELECT count(*) FROM tk_vector_rows WHERE id <= 10"
        assert tx.value(Sql(old)) == 0
    assert fill(store)
    assert rows(store) == MANY - 10
    check_both(store)


def test_few_vectors_are_compared_here(
    store: KnowledgeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store)
    monkeypatch.setattr(server_vectors, "_FEW", MANY)
    with store.read() as tx:
        assert server_vectors.chunks_there(tx) == {}
        assert answers(VectorIndex(MODEL), tx)[0]


def test_the_server_runs_every_statement_that_is_written_for_it(
    store: KnowledgeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.write() as tx:
        tx.run(Sql("DELETE FROM tk_vector_rows"))
    found = Statements(fill_pieces)
    monkeypatch.setattr("threadkeep.base.postgres.tx.fill_pieces", found)
    assert fill(store)
    check_both(store)
    written = {one for one in writers() if one[0] == "knowledge/server_vectors.py"}
    assert written
    assert written <= found.callers
    asked = (server_vectors._FILL, server_vectors._NEAREST, server_vectors._SOME)
    assert {one.replace("{vector}", "public") for one in asked} <= found.texts
