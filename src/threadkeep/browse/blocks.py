"""Five-hour blocks: how subscriptions count what is used, and how the present one will end."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from threadkeep.browse.records import BillingBlock, Sum
from threadkeep.browse.sums import SumBuilder, tokens_of

_HOUR: Final = 3_600_000
LENGTH: Final = 5 * _HOUR


class AnswerUsage(msgspec.Struct, frozen=True):
    """What one answer took, and when it came."""

    at: int
    model: str
    spent: Sequence[int]  # as `Adding.add` takes it
    pico: int | None  # its cost in picodollars, if known


def make_blocks(answers: Iterable[AnswerUsage], now: int) -> list[BillingBlock]:
    """Cut answers into blocks and the gaps between them; any order of them gives the same."""
    blocks: list[BillingBlock] = []
    for group in _groups(sorted(answers, key=lambda one: one.at)):
        if blocks and group[0].at - (blocks[-1].last or 0) > LENGTH:
            blocks.append(_gap((blocks[-1].last or 0) + LENGTH, group[0].at))
        blocks.append(_block(group, now))
    return blocks


def _groups(answers: Sequence[AnswerUsage]) -> Iterator[list[AnswerUsage]]:
    """Begin anew when the block is over, or when nothing came for as long as one lasts."""
    group: list[AnswerUsage] = []
    for one in answers:
        if group and (one.at - _start(group) > LENGTH or one.at - group[-1].at > LENGTH):
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def _start(group: Sequence[AnswerUsage]) -> int:
    return group[0].at - group[0].at % _HOUR


def _gap(start: int, end: int) -> BillingBlock:
    return BillingBlock(start, end, None, None, gap=True, active=False, total=Sum())


def _block(group: Sequence[AnswerUsage], now: int) -> BillingBlock:
    adding = SumBuilder()
    for one in group:
        adding.add(one.spent, one.pico)
    start, first, last = _start(group), group[0].at, group[-1].at
    block = BillingBlock(
        start=start,
        end=start + LENGTH,
        first=first,
        last=last,
        gap=False,
        active=now - last < LENGTH and start <= now < start + LENGTH,
        total=adding.done(),
        models=tuple(sorted({one.model for one in group})),
    )
    return _projected(block, now) if last > first else block


def _projected(block: BillingBlock, now: int) -> BillingBlock:
    """Say how quickly a block is used up, and of an active one how it ends if it goes on so."""
    minutes = ((block.last or 0) - (block.first or 0)) / 60_000
    tokens, cost = tokens_of(block.total), block.total.cost
    paced = msgspec.structs.replace(
        block, tokens_per_minute=tokens / minutes, cost_per_hour=round(cost / minutes * 60)
    )
    if not block.active:
        return paced
    left = max(0.0, (block.end - now) / 60_000)
    return msgspec.structs.replace(
        paced,
        projected_tokens=round(tokens + tokens / minutes * left),
        projected_cost=round(cost + cost / minutes * left),
        minutes_left=round(left),
    )
