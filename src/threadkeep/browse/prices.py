"""What tokens cost, from the price list of a package that need not be installed.

Prices are counted in picodollars, a millionth of a microdollar: whole numbers for every list price,
so that sums are exact and do not depend on their order.
"""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple

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
        """Give what tokens cost, in picodollars."""
        short = counts.cache_write - counts.cache_write_1h
        kept = short * self.cache_write + counts.cache_write_1h * self.cache_write_1h
        read = counts.input * self.input + counts.cache_read * self.cache_read
        return read + kept + counts.output * self.output


def is_priced() -> bool:
    """Tell whether a price list is installed."""
    return _library() is not None


def step_of(size: int) -> int:
    """Give the largest step that a request of so many tokens is over; 0 if it is over none."""
    return max((step for step in STEPS if size > step), default=0)


def cost_of(model: str, harness: str, counts: TokenCounts, at: int | None = None) -> int | None:
    """Give what one answer cost, in microdollars; None if its model has no known price."""
    size = counts.input + counts.cache_read + counts.cache_write
    found = rates_of(model, harness, step_of(size), at)
    return None if found is None else round(found.of(counts) / PICO)


def rates_of(model: str, harness: str, step: int = 0, at: int | None = None) -> Rates | None:
    """Give what a model's tokens cost in requests over a step, at a time in epoch milliseconds."""
    if not model or not is_priced():
        return None
    day = None if at is None or not _changes(model, harness) else at // 86_400_000
    return _rates(model, harness, step, day)


@lru_cache(maxsize=1)
def _library() -> Any:
    try:
        import genai_prices  # noqa: PLC0415  (0.2 s and 30 MB: only where a price is asked for)
    except ImportError:
        return None
    return genai_prices


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
def _changes(model: str, harness: str) -> bool:
    """Tell whether a model's price depends on the day."""
    found = _price(model, harness, None, input_tokens=_PROBE)
    return found is not None and isinstance(found.model.prices, list)


def _price(model: str, harness: str, day: int | None, **tokens: int) -> Any:
    library = _library()
    usage = library.Usage(**tokens)
    when = None if day is None else datetime.fromtimestamp(day * 86_400 + 43_200, UTC)
    for name, provider in _names(model, harness):
        try:
            return library.calc_price(
                usage, name, provider_id=provider, genai_request_timestamp=when
            )
        except (LookupError, ValueError):
            continue
    return None


def _names(model: str, harness: str) -> list[tuple[str, str | None]]:
    """Give the names under which a model may stand in the list, with their providers.

    Programs write `provider/model` or `model`; what a program is known to use goes last.
    """
    provider, slash, rest = model.partition("/")
    names: list[tuple[str, str | None]] = [(model, None)]
    if slash and rest:
        names += [(rest, provider), (rest, None)]
    if harness in _PROVIDERS:
        names.append((model, _PROVIDERS[harness]))
    return [*names, (f"{model}-preview", None)]
