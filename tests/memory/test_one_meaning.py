"""One meaning of words: what has all of them comes first, and what is missing is said."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.memory.test_recalling import talk
from tests.support.knowledge import NOW
from tests.support.worlds import World
from threadkeep.home.home import Home
from threadkeep.knowledge.query import Query
from threadkeep.memory.memory import Memory
from threadkeep.service.learn import enrich, learn_all
from threadkeep.testing import KnowledgeFactory

DEMO = Path(__file__).parents[2] / "src" / "threadkeep" / "demo" / "history"


@pytest.fixture(scope="module")
def memory(
    tmp_path_factory: pytest.TempPathFactory, lasting_factory: KnowledgeFactory
) -> Iterator[Memory]:
    world = World(tmp_path_factory.mktemp("words"), lasting_factory)
    apart = [("prompt", "a quagga"), ("text", "quagga quagga quagga"), ("text", "and parrots")]
    world.write(talk(apart), "apart")
    filler = " ".join(f"word{n}" for n in range(60))
    world.write(talk([("text", f"{filler} a quagga and two parrots"), ("text", "no")]), "both")
    for n in range(4):
        world.write(talk([("prompt", "the very same words"), ("text", f"other {n}")]), f"same{n}")
    world.capture()
    with world.history() as history:
        opened = Memory(history.store, history.sources, clock=lambda: NOW)
        opened.index()
        yield opened


def test_what_has_all_words_comes_first(memory: Memory) -> None:
    found = memory.recall("quagga parrots")
    assert found.hits[0].session_id == "both"
    assert {hit.session_id for hit in found.hits} == {"apart", "both"}
    assert found.missing == ()


def test_words_that_nothing_has_are_named(memory: Memory) -> None:
    found = memory.recall("quagga unicorn")
    assert found.hits
    assert found.missing == ("unicorn",)
    assert memory.recall("quagga").missing == ()


def test_a_session_is_shown_once_with_the_number_of_its_other_hits(memory: Memory) -> None:
    every = memory.recall("quagga", fold="nothing").hits
    folded = memory.recall("quagga", fold="session").hits
    assert len({hit.session_id for hit in folded}) == len(folded) == 2
    assert sum(1 + hit.more for hit in folded) == len(every)


def test_inside_one_session_every_hit_counts(memory: Memory) -> None:
    within = Query(session=("apart",))
    hits = memory.recall("quagga", within, fold="session").hits
    assert len(hits) > 1
    assert {hit.session_id for hit in hits} == {"apart"}


def test_equal_texts_are_counted_and_can_all_be_seen(memory: Memory) -> None:
    within = Query(part=("prompt",))
    (once,) = memory.recall("very same words", within, fold="session").hits
    assert once.same == 3
    every = memory.recall("very same words", within, fold="nothing").hits
    assert {hit.session_id for hit in every} == {f"same{n}" for n in range(4)}


def test_the_newest_first(memory: Memory) -> None:
    hits = memory.recall("quagga", newest=True, fold="nothing").hits
    times = [hit.at or 0 for hit in hits]
    assert times == sorted(times, reverse=True)
    assert all("quagga" in hit.snippet for hit in hits)


def test_every_hit_that_an_agent_left_leads_to_its_session(tmp_path: Path) -> None:
    home = Home(tmp_path, environ={})
    with home.history(user_home=DEMO) as history:
        history.capture()
        enrich(home, history, at_once=True, with_model=False)
        learn_all(home, history)
        known = {(one.agent, one.session_id) for one in history.sessions(everything=True)}
    with home.memory() as memory:
        memory.index()
        for words in ("test", "departures", "mosquitto", "tide"):
            hits = memory.recall(words, limit=50).hits
            assert {hit.kind for hit in hits} > {"message"} or words == "tide"
            for hit in hits:
                assert (hit.agent, hit.session_id) in known, hit
