"""The day's tokens: set aside before a call, set right after it, by several processes at once."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.support.knowledge import NOW
from threadkeep.base.tx import Sql
from threadkeep.knowledge.ledger import ModelUsage, day_of, spent, troubles
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.memory.learn.model import (
    LEAST_OUTPUT,
    BudgetSpent,
    Message,
    Purse,
    count_unusable,
    has_room,
    pay,
    prompt_tokens,
    room_for_output,
    tokens_of,
)
from threadkeep.memory.learn.model_client import ModelFailed, ModelReply

DAY = day_of(NOW)
ASKED = [{"role": "user", "content": "x" * 300}]
PROMPT = prompt_tokens(ASKED)


class Toy:
    """A client that does what a test says, in place of a server."""

    endpoint = "http://toy:80/v1"

    def __init__(
        self, store: KnowledgeStore, *does: ModelReply | BaseException, sent: int = 1
    ) -> None:
        self.store = store
        self.does = list(does)
        self.sent = sent
        self.requests = 0
        self.seen: list[list[ModelUsage]] = []
        self.meanwhile: Callable[[], None] = lambda: None

    def chat(self, model: str, messages: Sequence[Message], max_tokens: int) -> ModelReply:
        self.requests += self.sent
        self.seen.append(ledger(self.store))
        self.meanwhile()
        done = self.does.pop(0)
        if isinstance(done, BaseException):
            raise done
        return done


@pytest.fixture
def store(tmp_path: Path) -> Iterator[KnowledgeStore]:
    with KnowledgeStore.open(tmp_path / "knowledge.db", clock=lambda: NOW) as opened:
        yield opened


def ledger(store: KnowledgeStore) -> list[ModelUsage]:
    with store.context.db.read() as tx:
        return spent(tx, DAY)


def purse(store: KnowledgeStore, client: Toy, daily: int = 10_000) -> Purse:
    return Purse(store, client, "toy", daily, "enrich")


def test_what_a_call_may_use_is_set_aside_and_then_set_right(store: KnowledgeStore) -> None:
    client = Toy(store, ModelReply("answer", 90, 40))
    assert pay(purse(store, client), ASKED, 1_000).text == "answer"
    assert client.seen == [[ModelUsage(DAY, "toy", "enrich", 1, 0, PROMPT, 1_000)]]
    assert ledger(store) == [ModelUsage(DAY, "toy", "enrich", 1, 0, 90, 40)]


@pytest.mark.parametrize("asked, answered", [(None, None), (0, 0)])
def test_a_server_that_counts_nothing_is_counted_for(
    store: KnowledgeStore, asked: int | None, answered: int | None
) -> None:
    pay(purse(store, Toy(store, ModelReply("y" * 30, asked, answered))), ASKED, 1_000)
    assert ledger(store) == [ModelUsage(DAY, "toy", "enrich", 1, 0, PROMPT, 10)]


def test_a_failed_call_is_paid_for_each_time_it_was_sent(store: KnowledgeStore) -> None:
    client = Toy(store, ModelFailed("HTTP 500"), sent=3)
    with pytest.raises(ModelFailed):
        pay(purse(store, client), ASKED, 1_000)
    assert ledger(store) == [ModelUsage(DAY, "toy", "enrich", 3, 3, 3 * PROMPT, 0)]
    with store.context.db.read() as tx:
        assert [one.failures for one in troubles(tx, client.endpoint)] == [1]


def test_a_call_that_reached_nobody_costs_nothing(store: KnowledgeStore) -> None:
    with pytest.raises(ModelFailed):
        pay(purse(store, Toy(store, ModelFailed("refused"), sent=0)), ASKED, 1_000)
    assert ledger(store) == [ModelUsage(DAY, "toy", "enrich", 0, 0, 0, 0)]


def test_an_interrupted_call_is_paid_and_no_trouble_of_the_server(store: KnowledgeStore) -> None:
    client = Toy(store, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        pay(purse(store, client), ASKED, 1_000)
    assert ledger(store) == [ModelUsage(DAY, "toy", "enrich", 1, 1, PROMPT, 0)]
    with store.context.db.read() as tx:
        assert troubles(tx, client.endpoint) == []


def test_an_answer_ends_the_trouble(store: KnowledgeStore) -> None:
    client = Toy(store, ModelFailed("a"), ModelFailed("b"), ModelReply("ok", 1, 1))
    for _ in range(2):
        with pytest.raises(ModelFailed):
            pay(purse(store, client), ASKED, 100)
    with store.context.db.read() as tx:
        assert [(one.failures, one.message) for one in troubles(tx, client.endpoint)] == [(2, "b")]
    pay(purse(store, client), ASKED, 100)
    with store.context.db.read() as tx:
        assert troubles(tx, client.endpoint) == []


def test_a_call_is_refused_before_it_is_made_when_the_day_is_used_up(store: KnowledgeStore) -> None:
    client = Toy(store, ModelReply("a", 5_000, 4_800), ModelReply("never", 1, 1))
    pay(purse(store, client), ASKED, 1_000)
    with pytest.raises(BudgetSpent, match="10,000 tokens"):
        pay(purse(store, client), ASKED, 1_000)
    assert client.requests == 1
    assert ledger(store)[0].tokens == 9_800
    assert not has_room(store, 9_800)
    assert has_room(store, 20_000)


def test_all_models_and_purposes_share_the_day(store: KnowledgeStore) -> None:
    pay(purse(store, Toy(store, ModelReply("a", 9_000, 900))), ASKED, 1_000)
    other = Purse(store, Toy(store), "other", 10_000, "answer")
    with pytest.raises(BudgetSpent):
        pay(other, ASKED, 1_000)


def test_another_worker_sees_what_is_set_aside(store: KnowledgeStore) -> None:
    client = Toy(store, ModelReply("a", 1, 1))
    with KnowledgeStore.open(store.access.path, clock=lambda: NOW) as second:
        late = Toy(second)

        def meanwhile() -> None:
            with pytest.raises(BudgetSpent):
                pay(purse(second, late, 1_300), ASKED, 1_000)

        client.meanwhile = meanwhile
        pay(purse(store, client, 1_300), ASKED, 1_000)
        assert late.requests == 0
        assert ledger(second) == [ModelUsage(DAY, "toy", "enrich", 1, 0, 1, 1)]


def test_many_workers_together_never_spend_more_than_the_day_has(store: KnowledgeStore) -> None:
    def work(_: int) -> int:
        refused = 0
        with KnowledgeStore.open(store.access.path, clock=lambda: NOW) as own:
            for _ in range(5):
                try:
                    pay(purse(own, Toy(own, ModelReply("a", PROMPT, 300)), 3_000), ASKED, 300)
                except BudgetSpent:
                    refused += 1
        return refused

    with ThreadPoolExecutor(4) as pool:
        refused = sum(pool.map(work, range(4)))
    (row,) = ledger(store)
    assert row.calls == 20 - refused
    assert row.tokens == row.calls * (PROMPT + 300)
    assert row.calls == 3_000 // (PROMPT + 300)


def test_a_new_day_has_new_tokens(tmp_path: Path) -> None:
    now = [NOW]
    with KnowledgeStore.open(tmp_path / "k.db", clock=lambda: now[0]) as store:
        client = Toy(store, ModelReply("a", 9_900, 90), ModelReply("b", 1, 1))
        pay(purse(store, client), ASKED, 1_000)
        now[0] += 86_400_000
        pay(purse(store, client), ASKED, 1_000)
        with store.context.db.read() as tx:
            assert len(spent(tx, DAY, day_of(now[0]))) == 2


def test_no_limit_is_still_counted(store: KnowledgeStore) -> None:
    pay(purse(store, Toy(store, ModelReply("a", 10**9, 5)), daily=0), ASKED, 1_000)
    assert has_room(store, 0)
    assert ledger(store)[0].tokens == 10**9 + 5


def test_answers_that_could_not_be_used_are_counted(store: KnowledgeStore) -> None:
    one = purse(store, Toy(store, ModelReply("a", 5, 5)))
    pay(one, ASKED, 100)
    count_unusable(one)
    assert ledger(store) == [ModelUsage(DAY, "toy", "enrich", 1, 1, 5, 5)]


def test_a_file_without_a_ledger_has_spent_nothing(store: KnowledgeStore) -> None:
    with store.context.db.write() as tx:
        tx.run(Sql("DROP TABLE tk_model_days"))
        tx.run(Sql("DROP TABLE tk_model_troubles"))
        assert spent(tx, DAY) == []
        assert troubles(tx, "x") == []


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.integers(0, 10**5), st.integers(1, 10**5))
def test_room_never_exceeds_what_is_left(daily: int, used: int, prompt: int, wanted: int) -> None:
    room = room_for_output(daily, used, prompt, wanted)
    assert 0 <= room <= wanted
    if room:
        assert used + prompt + room <= daily
        assert room >= min(wanted, LEAST_OUTPUT)


@given(st.text(max_size=200), st.text(max_size=200))
def test_more_text_has_no_fewer_tokens(first: str, second: str) -> None:
    assert 0 <= tokens_of(first) <= tokens_of(first + second)
    assert tokens_of("漢字" * 10) == 20
