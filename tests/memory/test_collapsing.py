"""Saying things once."""

from hypothesis import given, strategies as st

from threadkeep.memory.ranking import Candidate, RankedCandidate
from threadkeep.memory.recall import MOST, are_alike, collapse, words_in


def ranked(number: int, hashed: int, *, clues: int = 1, words: float = 0.5) -> RankedCandidate:
    return RankedCandidate(
        Candidate("entry", number, "text", None, hashed, words, clues=clues), 1.0, 1.0, 1.0
    )


def no_text(_: RankedCandidate) -> str:
    return ""


def test_the_same_text_is_shown_once_with_the_number_of_the_others() -> None:
    found = collapse([ranked(1, 7), ranked(2, 8, clues=2), ranked(3, 7)], 10, no_text)
    assert [(one.ranked.candidate.id, one.same) for one in found] == [(1, 1), (2, 0)]


def test_texts_that_differ_in_numbers_alone_are_the_same() -> None:
    texts = {1: "run 17 failed at step 3 of the build", 2: "run 18 failed at step 4 of the build"}
    pair = [ranked(1, 1), ranked(2, 2)]
    assert len(collapse(pair, 10, lambda one: texts[one.candidate.id])) == 1


def test_what_has_other_words_of_the_question_is_not_even_read() -> None:
    def never(_: RankedCandidate) -> str:
        raise AssertionError

    assert len(collapse([ranked(1, 1, clues=1), ranked(2, 2, clues=2)], 10, never)) == 2


def test_only_the_first_fifty_are_compared_by_their_words() -> None:
    read: list[int] = []

    def text_of(one: RankedCandidate) -> str:
        read.append(one.candidate.id)
        return f"word{one.candidate.id}"

    many = [ranked(number, number) for number in range(MOST + 20)]
    assert len(collapse(many, MOST + 20, text_of)) == MOST + 20
    assert max(read) < MOST


@given(st.text(), st.text())
def test_alike_is_mutual_and_of_itself(one: str, two: str) -> None:
    first, second = words_in(one), words_in(two)
    assert are_alike(first, first)
    assert are_alike(first, second) == are_alike(second, first)


@given(st.lists(st.integers(0, 5), max_size=30), st.integers(0, 10))
def test_nothing_is_lost_but_repeats(hashes: list[int], limit: int) -> None:
    many = [ranked(n, hashed, clues=1 << n) for n, hashed in enumerate(hashes)]
    found = collapse(many, limit, no_text)
    kept = [one.ranked.candidate.hash for one in found]
    assert kept == list(dict.fromkeys(hashes))[:limit]
    if limit >= len(set(hashes)):
        assert sum(one.same + 1 for one in found) == len(hashes)
