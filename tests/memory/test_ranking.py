"""Scores by words, and what neighbours add."""

import pytest
from hypothesis import given, strategies as st

from threadkeep.memory.ranking import CluePostings, enough, rarity, score, share

places = st.dictionaries(st.integers(-40, 40).filter(bool), st.integers(0, 5_000), max_size=12)


def evidence(weight: float, having: dict[int, int]) -> CluePostings:
    return CluePostings("w", weight, [(abs(p), p, words) for p, words in having.items()])


def best(*clues: CluePostings, limit: int = 10) -> list[int]:
    return score(clues, 50.0).best(limit)


def test_the_message_between_two_that_know_one_half_each_knows_both() -> None:
    first, second = evidence(1.0, {1: 50, 100: 50}), evidence(1.0, {3: 50, 200: 50})
    found = best(first, second)
    assert found.index(2) < found.index(100)
    assert found.index(2) < found.index(200)


def test_having_every_clue_beats_having_one_of_them_next_to_many_of_the_same() -> None:
    both = [evidence(1.0, {1: 50, 2: 50, 3: 50, 9: 50}), evidence(1.0, {9: 50})]
    assert best(*both)[0] == 9


def test_what_tools_did_has_no_neighbours() -> None:
    assert best(evidence(1.0, {-7: 50})) == [-7]


def test_a_long_text_counts_less_and_the_newer_of_two_equals_comes_first() -> None:
    assert best(evidence(1.0, {-5: 5_000, -3: 50, -4: 50}))[0] == -4
    assert best(evidence(1.0, {-5: 5_000, -3: 50}))[-1] == -5


@given(st.lists(st.tuples(st.floats(0.01, 9), places), min_size=1, max_size=5))
def test_scores_are_sums_of_what_each_clue_gives(clues: list[tuple[float, dict[int, int]]]) -> None:
    together = score([evidence(*clue) for clue in clues], 50.0)
    apart = [score([evidence(*clue)], 50.0).totals for clue in clues]
    for place, total in together.totals.items():
        assert total == pytest.approx(sum(one.get(place, 0.0) for one in apart))
        assert 0 < total <= sum(weight for weight, _ in clues) * 1.5
    for place in together.best(1_000):
        one = together.scored(place)
        assert -1e-9 <= one.around <= one.total + 1e-9
        assert one.clues == sum(1 << n for n, (_, having) in enumerate(clues) if place in having)


@given(st.integers(1, 10**7), st.integers(1, 10**7))
def test_rarer_weighs_more_and_nothing_weighs_less_than_nothing(one: int, two: int) -> None:
    low, high = sorted((one, two))
    assert rarity(low, high) >= rarity(high, high) >= 0


@given(st.floats(0, 100), st.floats(0, 100))
def test_more_is_never_less_but_never_much(one: float, two: float) -> None:
    low, high = sorted((one, two))
    assert enough(low) <= enough(high) + 1e-12 < 1.6
    assert enough(1.0) == pytest.approx(1.0)


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_longer_is_never_better(one: int, two: int) -> None:
    low, high = sorted((one, two))
    assert share(low, 50.0) >= share(high, 50.0) > 0


@given(places, st.integers(1, 20))
def test_the_best_are_the_highest(having: dict[int, int], limit: int) -> None:
    scores = score([evidence(2.0, having)], 50.0)
    found = scores.best(limit)
    expected = sorted(scores.totals.values(), reverse=True)[:limit]
    assert [scores.totals[place] for place in found] == expected
