"""Memory, asked: conversations, filters, explanations, odd questions."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.lengths import examples
from tests.memory.test_finding import NODE, SESSION, event
from tests.support.knowledge import NOW, do
from tests.support.toy_sources import line
from tests.support.worlds import World
from threadkeep.base.config import RecallSettings
from threadkeep.base.tx import Tx
from threadkeep.knowledge import archive
from threadkeep.knowledge.query import Query
from threadkeep.memory.memory import Memory
from threadkeep.memory.records import Meaning, Owner, RecallResult
from threadkeep.testing import KnowledgeFactory

DAY = 86_400_000
TALK = (
    ("prompt", "the camping trip to the fjord was planned"),
    ("text", "when did you get back?"),
    ("prompt", "on the third of June, and it rained"),
    ("text", "I bought a tent called FooBar in src/fjord_map.py"),
    ("tool_call", "cargo build failed with error[E0425]"),
    ("prompt", "数据库锁定了，怎么修复"),
)


class Told:
    """Vectors by hand: what is near a question is told beforehand."""

    model, dimensions = "told", 1

    def __init__(self, near: dict[int, float]) -> None:
        self.near = near

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        return [b"\0\0\0\0" for _ in texts]

    def close(self) -> None:
        return

    def nearest(
        self, _: Tx, __: bytes, *, kinds: Iterable[Owner], limit: int
    ) -> list[tuple[Owner, int, float]]:
        found = sorted(self.near.items(), key=lambda pair: -pair[1])[:limit]
        return [("message", number, near) for number, near in found if "message" in kinds]

    def similarities(self, _: Tx, __: bytes, kind: Owner, ids: Iterable[int]) -> dict[int, float]:
        return {n: self.near[n] for n in ids if n in self.near and kind == "message"}


def talk(texts: Iterable[tuple[str, str]], start: int = 0, **more: Any) -> bytes:
    return b"".join(
        line(id=f"m{n}", kind=kind, text=text, at=NOW - 9 * DAY + n, **more)
        for n, (kind, text) in enumerate(texts, start)
    )


@pytest.fixture(scope="module")
def memory(
    tmp_path_factory: pytest.TempPathFactory, lasting_factory: KnowledgeFactory
) -> Iterator[Memory]:
    world = World(tmp_path_factory.mktemp("recall"), lasting_factory)
    world.write(talk(TALK, cwd="/u/quay"), "one")
    world.write(talk([("prompt", "a walrus in another folder")], cwd="/u/harbour"), "two")
    world.capture()
    world.do(
        SESSION.format(1, "t-1"),
        event(1, "walrus --deploy", cwd="/u/quay/src", at=NOW - 400 * DAY, code=1),
        event(2, "walrus --status", cwd="/u/harbour", at=NOW),
        NODE.format(1, "walrus knowledge"),
        "INSERT INTO entities (id, type, name, canonical, first_seen, last_seen, created_at) "
        "VALUES (1, 'tool', 'Walrus', 'walrus', 1, 1, 1)",
        "INSERT INTO knowledge_node_entities (knowledge_node_id, entity_id) VALUES (1, 1)",
    )
    with world.history() as history:
        yield Memory(history.store, history.sources, clock=lambda: NOW)


def keys(found: RecallResult) -> list[str | None]:
    return [hit.key for hit in found.hits]


def refs(found: RecallResult) -> list[str]:
    return [hit.ref for hit in found.hits]


def test_an_answer_is_found_by_the_words_around_it(memory: Memory) -> None:
    found = memory.recall("when was the camping trip rained on?", explain=True)
    assert keys(found)[0] == "m0"
    assert "m2" in keys(found)[:3]
    hit = next(hit for hit in found.hits if hit.key == "m2")
    assert hit.why is not None
    assert hit.why.around > 0
    assert "rained" in hit.why.terms
    assert found.hits[0].score == 1.0


@pytest.mark.parametrize(
    "question,key",
    [
        ("how did you buy a tent", "m3"),
        ("fjord_map", "m3"),
        ("src/fjord_map.py", "m3"),
        ("foo bar tent", "m3"),
        ("E0425", "m4"),
        ("carg*", "m4"),
        ("数据库怎么修复", "m5"),
        ('"camping trip" NOT walrus', "m0"),
        ("what did I use cargo and E0425 for?", "m4"),
    ],
)
def test_plain_questions_names_and_phrases_find_their_message(
    memory: Memory, question: str, key: str
) -> None:
    found = memory.recall(question)
    assert keys(found)[0] == key
    assert ">>>" in found.hits[0].snippet


def test_a_quoted_phrase_is_needed_and_an_excluded_word_is_not_shown(memory: Memory) -> None:
    assert keys(memory.recall('"trip camping"')) == []
    assert refs(memory.recall("walrus NOT deploy NOT knowledge NOT folder")) == ["command:2"]


@pytest.mark.parametrize(
    "within,expected",
    [
        (Query(), {"command:1", "command:2", "message:7", "node:1"}),
        (Query(project=("/u/harbour",)), {"command:2", "message:7"}),
        (Query(project=("quay",)), {"command:1"}),
        (Query(kind=("command",)), {"command:1", "command:2"}),
        (Query(agent=("PI",)), {"message:7"}),
        (Query(since=NOW - 30 * DAY), {"command:2", "message:7"}),
        (Query(until=NOW - 300 * DAY), {"command:1", "node:1"}),
        (Query(role=("user",)), {"message:7"}),
        (Query(outcome=("failure",)), {"command:1"}),
        (Query(entity="walrus"), {"node:1"}),
        (Query(kind=("node",)), {"node:1"}),
        (Query(branch=("nowhere",)), set()),
    ],
)
def test_filters_narrow(memory: Memory, within: Query, expected: set[str]) -> None:
    assert set(refs(memory.recall("walrus", within))) == expected


def test_the_newer_of_two_alike_comes_first(memory: Memory) -> None:
    found = refs(memory.recall("walrus", Query(kind=("command",))))
    assert found == ["command:2", "command:1"]


def test_without_words_the_newest_is_given_and_signs_alone_find_nothing(memory: Memory) -> None:
    assert memory.recall("", limit=3).hits[0].ref == "command:2"
    nothing = memory.recall("👍 !!")
    assert nothing.hits == ()
    assert nothing.notes


def test_meaning_finds_what_words_do_not_and_never_overrides_them(memory: Memory) -> None:
    told = Told({1: 0.1, 3: 0.9})
    meant = Memory(memory.store, memory.sources, clock=lambda: NOW, meaning=Meaning(told, told))
    found = meant.recall("precipitation walrus", explain=True)
    assert found.by_meaning
    assert "message:3" in refs(found)
    assert refs(found)[0] != "message:3"
    near = meant.recall("precipitation", Query(project=("/u/quay",)), explain=True)
    assert refs(near)[0] == "message:3"
    assert near.hits[0].why is not None
    assert near.hits[0].why.meaning == 0.9


def test_weights_and_limits_are_obeyed(memory: Memory) -> None:
    settings_ = RecallSettings(weights={"node": 9.0})
    weighed = Memory(memory.store, memory.sources, settings_, clock=lambda: NOW)
    assert refs(weighed.recall("walrus", limit=1)) == ["node:1"]
    assert memory.recall("walrus", limit=0).hits == ()


def test_damaged_blocks_hide_no_hit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "BLOCK_BYTES", 10)
    world = World(tmp_path)
    world.write(talk([("text", "walrus one"), ("text", "walrus two")]))
    world.capture()
    do(world.database, "UPDATE tk_blocks SET data = x'00' WHERE id = 1")
    with world.history() as history:
        found = Memory(history.store, history.sources, clock=lambda: NOW).recall("walrus")
    assert {hit.key for hit in found.hits} == {"m0", "m1"}
    assert any("cannot be read" in note for note in found.notes)


def test_the_same_text_is_shown_once(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.write(talk([("text", "walrus again")] * 5))
    world.capture()
    with world.history() as history:
        found = Memory(history.store, history.sources, clock=lambda: NOW).recall("walrus")
    assert [hit.same for hit in found.hits] == [4]


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from(["walrus", '"', "*", "NOT", "(", "数"])).map(" ".join)
)
def test_no_question_is_too_odd(memory: Memory, text: str) -> None:
    found = memory.recall(text, explain=True)
    assert all(0 <= hit.score <= 1 for hit in found.hits)
    assert len(set(refs(found))) == len(found.hits)


def test_a_name_is_a_better_answer_than_its_parts(tmp_path: Path) -> None:
    world = World(tmp_path)
    said = ["the kanban board has a card", "a card", "see KanbanCard.tsx", "nothing", "kanban card"]
    world.write(talk([("text", text) for text in said]))
    world.capture()
    with world.history() as history:
        found = Memory(history.store, history.sources, clock=lambda: NOW).recall("KanbanCard")
    assert found.hits[0].key in {"m2", "m4"}  # as it stands, or with a space in it
    assert {hit.key for hit in found.hits[:2]} == {"m2", "m4"}
