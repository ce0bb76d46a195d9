"""Blocks of five hours: where they begin, what is between them, and how the present one ends."""

from itertools import pairwise
from random import Random

from hypothesis import given, strategies as st

from threadkeep.knowledge.prices import LENGTH, AnswerUsage, make_blocks, tokens_of

HOUR, MINUTE = 3_600_000, 60_000
START = 500_000 * HOUR


def answer(at: int, tokens: int = 100, pico: int | None = 5_000_000) -> AnswerUsage:
    return AnswerUsage(at, "m", (1, tokens, 0, 0, 0, 0, 0), pico)


def test_a_block_begins_at_the_full_hour_and_lasts_five() -> None:
    late, next_one = START + 5 * HOUR, START + 5 * HOUR + 1
    blocks = make_blocks([answer(START + 40 * MINUTE), answer(late), answer(next_one)], START)
    assert [(one.start, one.total.answers) for one in blocks] == [
        (START, 2),
        (START + 5 * HOUR, 1),
    ]
    assert blocks[0].end == START + LENGTH
    assert not any(one.gap for one in blocks)


def test_a_long_pause_is_a_gap() -> None:
    blocks = make_blocks([answer(START), answer(START + 20 * HOUR)], START)
    assert [one.gap for one in blocks] == [False, True, False]
    assert (blocks[1].start, blocks[1].end) == (START + 5 * HOUR, START + 20 * HOUR)
    assert blocks[1].total.answers == 0


def test_the_active_block_is_projected_to_its_end() -> None:
    told = [answer(START, 600), answer(START + HOUR, 600)]
    (block,) = make_blocks(told, START + 2 * HOUR)
    assert block.active
    assert block.tokens_per_minute == 20
    assert block.cost_per_hour == 10
    assert (block.minutes_left, block.projected_tokens) == (180, 1200 + 3600)
    assert block.projected_cost == 10 + 30


def test_a_block_that_is_over_is_not_projected() -> None:
    (block,) = make_blocks([answer(START), answer(START + HOUR)], START + 6 * HOUR)
    assert (block.active, block.projected_tokens) == (False, None)


def test_answers_without_a_price_are_counted() -> None:
    (block,) = make_blocks([answer(START), answer(START + 1, pico=None)], START)
    assert (block.total.unpriced, block.total.cost) == (1, 5)


@given(st.lists(st.integers(0, 100 * HOUR), max_size=30), st.randoms())
def test_every_answer_is_in_one_block_in_whatever_order_they_come(
    times: list[int], random: Random
) -> None:
    answers = [answer(at) for at in times]
    blocks = make_blocks(answers, 0)
    random.shuffle(answers)
    assert make_blocks(answers, 0) == blocks
    assert sum(tokens_of(one.total) for one in blocks) == 100 * len(times)
    real = [one for one in blocks if not one.gap]
    assert all(a.end <= b.start for a, b in pairwise(real))
    assert all(one.end > one.start for one in blocks)
    for one in blocks:
        if one.first is not None and one.last is not None:
            assert one.start <= one.first <= one.last <= one.end
