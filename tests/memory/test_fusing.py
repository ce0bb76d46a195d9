"""The order of hits: words, meaning, time, age, kind."""

from datetime import UTC, datetime

from hypothesis import given, strategies as st

from threadkeep.base.config import RecallSettings
from threadkeep.knowledge.search_scope import Side
from threadkeep.memory.question import times_in
from threadkeep.memory.ranking import Candidate, fuse, recency, weight_of

NOW = int(datetime(2024, 3, 15, tzinfo=UTC).timestamp() * 1000)
DAY = 86_400_000
SETTINGS = RecallSettings()


def one(
    number: int,
    words: float = 0.5,
    *,
    kind: str = "text",
    age: int = 0,
    meaning: float | None = None,
) -> Candidate:
    side: Side = "entry" if kind == "text" else "thing"
    return Candidate(side, number, kind, NOW - age * DAY, number, words, meaning=meaning)


def order(*candidates: Candidate, text: str = "") -> list[int]:
    return [r.candidate.id for r in fuse(candidates, SETTINGS, NOW, times_in(text, NOW))]


def test_words_decide_first_then_meaning_then_age() -> None:
    assert order(one(1, 0.2), one(2, 0.9)) == [2, 1]
    assert order(one(1, 0.5), one(2, 0.5, meaning=0.8)) == [2, 1]
    assert order(one(1, 0.5, age=300), one(2, 0.5)) == [2, 1]


def test_meaning_is_no_equal_of_the_words() -> None:
    assert order(one(1, 0.9, meaning=0.0), one(2, 0.0, meaning=1.0)) == [1, 2]


def test_the_time_that_was_asked_about_counts_more_than_being_new() -> None:
    asked = order(one(1, 0.5), one(2, 0.5, age=60), text="in January 2024")
    assert asked == [2, 1]


def test_the_user_may_weigh_kinds() -> None:
    settings = RecallSettings(weights={"page": 3.0, "message": 0.1})
    assert weight_of("page", settings) > weight_of("node", settings) > weight_of("text", settings)


@given(st.integers(0, 4_000), st.integers(0, 4_000), st.floats(0, 1))
def test_age_lowers_but_never_below_the_floor(young: int, old: int, floor: float) -> None:
    settings = RecallSettings(floor=floor)
    low, high = sorted((young, old))
    newer = recency(NOW - low * DAY, NOW, settings)
    assert floor <= recency(NOW - high * DAY, NOW, settings) <= newer <= 1
    assert recency(NOW + DAY, NOW, settings) == 1
    assert recency(None, NOW, settings) == floor


@given(st.lists(st.tuples(st.floats(0, 2), st.integers(0, 900), st.floats(-1, 1)), max_size=20))
def test_the_order_is_that_of_the_totals(given_: list[tuple[float, int, float]]) -> None:
    made = [one(n, words, age=age, meaning=near) for n, (words, age, near) in enumerate(given_)]
    totals = [ranked.total for ranked in fuse(made, SETTINGS, NOW)]
    assert totals == sorted(totals, reverse=True)
    assert len(totals) == len(made)
