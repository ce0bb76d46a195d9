"""What tokens cost, from the price list of a package that need not be installed.

Prices are counted in picodollars, a millionth of a microdollar: whole numbers for every list price,
so that sums are exact and do not depend on their order.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from threadkeep.base.tx import Tx
from threadkeep.knowledge.results import BillingBlock, Sum

PICO: Final = 1_000_000  # picodollars in a microdollar
# From which size of a request on providers charge more; between two of them prices are the same.
STEPS: Final = (32_000, 100_000, 128_000, 199_999, 200_000, 256_000, 272_000, 512_000, 524_288)
_PROBE: Final = 1_000
_PROVIDERS: Final = {"claude-code": "anthropic", "gemini-cli": "google", "codex": "openai"}


class TokenCounts(NamedTuple):
    """Tokens of one answer, or of several of the same kind."""

    input: int  # without what came from or went to the cache
    output: int
    cache_read: int = 0
    cache_write: int = 0  # all of it
    cache_write_1h: int = 0  # the part that is kept for an hour


class Rates(NamedTuple):
    """What one token costs, in picodollars."""

    input: int
    output: int
    cache_read: int
    cache_write: int
    cache_write_1h: int

    def of(self, counts: TokenCounts) -> int:
        """Return what tokens cost, in picodollars."""
        short = counts.cache_write - counts.cache_write_1h
        kept = short * self.cache_write + counts.cache_write_1h * self.cache_write_1h
        read = counts.input * self.input + counts.cache_read * self.cache_read
        return read + kept + counts.output * self.output


# Gives what a model's tokens cost, as `rates_of` does: model, agent, step, time.
FindRates = Callable[[str, str, int, int | None], Rates | None]
# What opens prices for a while.
Prices = Callable[[], AbstractContextManager[FindRates]]


@contextmanager
def listed_prices() -> Iterator[FindRates]:
    """Look prices up in the list itself."""
    yield rates_of


def is_priced() -> bool:
    """Tell whether a price list is installed."""
    return bool(list_version())


@lru_cache(maxsize=1)
def list_version() -> str:
    """Name the price list that is installed, without loading it; empty where there is none."""
    found = PathFinder.find_spec("genai_prices")
    if found is None or found.origin is None:
        return ""
    about = Path(found.origin).with_name("data.py").stat()
    return f"{about.st_size} {about.st_mtime_ns}"


def step_of(size: int) -> int:
    """Return the largest step that a request of so many tokens is over; 0 if it is over none."""
    return max((step for step in STEPS if size > step), default=0)


def cost_of(model: str, harness: str, counts: TokenCounts, at: int | None = None) -> int | None:
    """Return what one answer cost, in microdollars; None if its model has no known price."""
    size = counts.input + counts.cache_read + counts.cache_write
    found = rates_of(model, harness, step_of(size), at)
    return None if found is None else round(found.of(counts) / PICO)


def rates_of(model: str, harness: str, step: int = 0, at: int | None = None) -> Rates | None:
    """Give what a model's tokens cost in requests over a step, at a time in epoch milliseconds."""
    if not model or not is_priced():
        return None
    day = None if at is None or not rates_change(model, harness) else at // 86_400_000
    return _rates(model, harness, step, day)


@lru_cache(maxsize=4096)
def _rates(model: str, harness: str, step: int, day: int | None) -> Rates | None:
    """Find the prices by asking what a request costs whose tokens are partly of one kind."""
    size = max(step + 1, 2 * _PROBE)  # just over the step: the next one may be one token further
    plain = _price(model, harness, day, input_tokens=size)
    if plain is None:
        return None
    each = plain.input_price / size

    def priced(**kinds: int) -> int:
        part = _price(model, harness, day, input_tokens=size, **kinds)
        return _pico((part.input_price - each * (size - _PROBE)) / _PROBE)

    spoken = _price(model, harness, day, input_tokens=size, output_tokens=_PROBE)
    write = priced(cache_write_tokens=_PROBE)
    kept = priced(cache_write_tokens=_PROBE, cache_write_1h_tokens=_PROBE)
    return Rates(
        input=_pico(each),
        output=_pico(spoken.output_price / _PROBE),
        cache_read=priced(cache_read_tokens=_PROBE),
        cache_write=write,
        cache_write_1h=max(write, kept),
    )


def _pico(dollars: Any) -> int:
    picodollars: int = round(dollars * 1_000_000 * PICO)
    return picodollars


@lru_cache(maxsize=1024)
def rates_change(model: str, harness: str) -> bool:
    """Tell whether a model's price depends on the day."""
    found = _price(model, harness, None, input_tokens=_PROBE)
    return found is not None and isinstance(found.model.prices, list)


def _price(model: str, harness: str, day: int | None, **tokens: int) -> Any:
    import genai_prices  # noqa: PLC0415  (0.2 s and 30 MB: only where a price is asked for)

    usage = genai_prices.Usage(**tokens)
    when = None if day is None else datetime.fromtimestamp(day * 86_400 + 43_200, UTC)
    for name, provider in _names(model, harness):
        try:
            return genai_prices.calc_price(
                usage, name, provider_id=provider, genai_request_timestamp=when
            )
        except (LookupError, ValueError):
            continue
    return None


def _names(model: str, harness: str) -> list[tuple[str, str | None]]:
    """Return the names under which a model may stand in the list, with their providers.

    Programs write `provider/model` or `model`; what a program is known to use goes last.
    """
    provider, slash, rest = model.partition("/")
    names: list[tuple[str, str | None]] = [(model, None)]
    if slash and rest:
        names += [(rest, provider), (rest, None)]
    if harness in _PROVIDERS:
        names.append((model, _PROVIDERS[harness]))
    return [*names, (f"{model}-preview", None)]


# ------------------------------------------------------------------------------
# Sums over the answers of models: tokens, and what they cost as far as prices are known.


class SumBuilder(msgspec.Struct):
    """A sum while it is made; the cost is in picodollars, so that parts add up exactly."""

    answers: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    pico: int = 0
    unpriced: int = 0

    def add(self, spent: Sequence[int], pico: int | None) -> None:
        """Add answers: their number and tokens as `Spent` has them, and their price if known."""
        answers, input_, output, read, write, _hour, reasoning = spent
        self.answers += answers
        self.input += input_
        self.output += output
        self.cache_read += read
        self.cache_write += write
        self.reasoning += reasoning
        if pico is None:
            self.unpriced += answers
        else:
            self.pico += pico

    def done(self) -> Sum:
        """Return the finished sum, its cost in microdollars."""
        return Sum(
            answers=self.answers,
            input=self.input,
            output=self.output,
            cache_read=self.cache_read,
            cache_write=self.cache_write,
            reasoning=self.reasoning,
            cost=round(self.pico / PICO),
            unpriced=self.unpriced,
        )


def pico_of(
    harness: str,
    model: str,
    step: int,
    at: int | None,
    spent: Sequence[int],
    find: FindRates = rates_of,
) -> int | None:
    """Return what answers of one model cost, in picodollars; what has no tokens costs nothing."""
    _answers, input_, output, read, write, hour, _reasoning = spent
    if not (input_ or output or read or write):
        return 0
    rates = find(model, harness, step, at)
    return None if rates is None else rates.of(TokenCounts(input_, output, read, write, hour))


def tokens_of(total: Sum) -> int:
    """Return all tokens of a sum."""
    return total.input + total.output + total.cache_read + total.cache_write


def cost_known(total: Sum) -> int | None:
    """Return the cost of a sum; None if something in it has no known price."""
    return None if total.unpriced else total.cost


def sums_of(tx: Tx, ids: Iterable[int], find: FindRates = rates_of) -> dict[int, Sum]:
    """Sum up sessions by their numbers; one without an answer has no sum."""
    sums: dict[int, SumBuilder] = {}
    values = {"ids": msgspec.json.encode(list(ids)).decode()}
    for row in tx.all("browse_sums", values):
        session, harness, model, step, at, *spent = row
        adding = sums.setdefault(session, SumBuilder())
        adding.add(spent, pico_of(harness, model, step, at, spent, find))
    return {session: adding.done() for session, adding in sums.items()}


# ------------------------------------------------------------------------------
# Five-hour blocks: how subscriptions count what is used, and how the present one will end.

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
    """Start over when the block is over, or when nothing came for as long as one lasts."""
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
    """Say how quickly a block is used up, and of an active one how it ends if it continues so."""
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


# ---------------------------------------------------------------------- what was used


class RecentAnswer(NamedTuple):
    """What one answer used, in tokens."""

    at: int | None
    harness: str
    model: str
    input: int
    output: int
    cache_read: int
    cache_write: int
    cache_write_1h: int
    reasoning: int


def recent_answers(tx: Tx, since: int) -> list[RecentAnswer]:
    """Return what the answers since then used; none in a file that counts nothing."""
    rows = tx.all("tail_spent", {"since": since}) if "tk_usage" in tx.tables() else []
    return [RecentAnswer(*row) for row in rows]


def answers_of(tx: Tx, session_id: str) -> list[RecentAnswer]:
    """Return what the answers of one session used; none in a file that counts nothing."""
    known = "tk_usage" in tx.tables()
    rows = tx.all("tail_spent_in", {"session_id": session_id}) if known else []
    return [RecentAnswer(*row) for row in rows]


def unfinished_answers(tx: Tx, since: int | None, until: int | None) -> int:
    """Count the answers of a time whose last count is missing from their log."""
    return int(tx.value("tail_unfinished", {"since": since, "until": until}) or 0)
