"""Fifty writers at once on a server: nobody is refused, nothing is lost, cursors miss nothing."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.postgres_stores import PostgresStateFactory, use_server
from tests.support.states import Clock, Factory
from threadkeep.state.search.index_fill import drain
from threadkeep.state.session_db import SessionDB

WRITERS = 50
OWN, COMMON = 3, 2  # messages of each writer, in its session and in that of all


@pytest.fixture
def factory(server_url: str) -> Iterator[Factory]:
    use_server(server_url)
    with PostgresStateFactory() as factory:
        yield factory


@pytest.mark.slow
def test_fifty_writers_lose_nothing(factory: Factory) -> None:
    db = factory.open(clock=Clock())
    other = factory.reopen(db, clock=Clock())  # as on another host
    db.create_session("common", "cli")

    def work(number: int) -> list[int]:
        store: SessionDB = db if number % 10 else other
        own = f"own {number}"
        store.create_session(own, "cli")
        ids = []
        for turn in range(OWN):
            store.append_message(
                own, "user", f"writer{number} turn{turn}", idempotency_key=str(turn)
            )
            store.append_message(own, "user", "said twice", idempotency_key=str(turn))
            store.update_token_counts(own, input_tokens=1, model=f"m{turn % 2}")
        for _ in range(COMMON):
            turns = [
                {"role": "user", "content": f"common{number}"},
                {"role": "assistant", "content": "部署"},
            ]
            ids += store.append_messages("common", turns)
            store.update_token_counts("common", output_tokens=2, estimated_cost_usd=0.5)
        return ids

    def follow(_: int) -> None:
        drain(other.context)

    with ThreadPoolExecutor(WRITERS + 1) as pool:
        indexing = [pool.submit(follow, 0)]
        found = list(pool.map(work, range(WRITERS)))
        indexing.append(pool.submit(follow, 1))
        for one in indexing:
            one.result()
    common = db.get_session("common") or {}
    assert common["message_count"] == WRITERS * COMMON * 2 == len(db.get_messages("common"))
    assert (common["output_tokens"], common["estimated_cost_usd"]) == (
        WRITERS * COMMON * 2,
        WRITERS * COMMON * 0.5,
    )
    stored = [message["id"] for message in db.get_messages("common")]
    for ids in found:  # a turn stays in one piece
        places = [stored.index(each) for each in ids]
        assert places == sorted(places)
        assert all(places[at + 1] == places[at] + 1 for at in range(0, len(places), 2))
    for number in range(WRITERS):
        own = db.get_session(f"own {number}") or {}
        assert (own["message_count"], own["input_tokens"]) == (OWN, OWN)
    usage = db.usage("model")
    assert sum(row["input_tokens"] for row in usage) == WRITERS * OWN
    for number in range(0, WRITERS, 7):
        assert len(db.search_messages(f"writer{number}", limit=-1)) == OWN
        assert len(db.search_messages(f"common{number}", limit=-1)) == COMMON
    assert len(db.search_messages("部署", limit=-1)) == WRITERS * COMMON
    assert db.check() == []
