"""The rows of a usage table: sums by day, week, month, model, project, agent or session."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from threadkeep.cli.output import is_terminal
from threadkeep.cli.words import when

if TYPE_CHECKING:
    from threadkeep.knowledge.results import BillingBlock, Sum, UsageReport


Json = dict[str, Any]

PERIODS: Final = {"daily": "day", "weekly": "week", "monthly": "month"}
KEYS: Final = ("model", "project", "day", "week", "month", "agent", "session")
UNKNOWN: Final = "unknown"
COLUMNS: Final = (
    "responses",
    "input",
    "output",
    "cache read",
    "cache write",
    "reasoning",
    "tokens",
)
_MICRO: Final = 1_000_000


class Row(NamedTuple):
    """A sum with its name, and of what it is made, by model."""

    name: str
    sum: "Sum"
    parts: Mapping[str, "Sum"]
    part: str = ""  # of a row for one part alone: which


def rows_of(report: "UsageReport", by: str, split: str = "") -> list[Row]:
    """Return the rows of a table, in the order of its key: time, or the largest first.

    With `split` each day, week or month has a row for each of its parts.
    """
    if by in PERIODS.values():
        rows = list(_periods(report.by_day, by))
        parts = [(row.name, row.parts) for row in rows] if split else []
        return [
            Row(name, one, {}, part) for name, sums in parts for part, one in sums.items()
        ] or rows
    sums = {
        "model": report.by_model,
        "project": report.by_project,
        "agent": report.by_agent,
        "session": report.by_session,
    }[by]
    return [Row(name, one, {}) for name, one in sums.items() if tokens_of(one)]


def _periods(days: Mapping[str, Mapping[str, "Sum"]], by: str) -> Iterable[Row]:
    models: dict[str, dict[str, list[Sum]]] = defaultdict(lambda: defaultdict(list))
    for day, sums in sorted(days.items()):
        for model, one in sums.items():
            models[period_of(day, by)][model].append(one)
    for name, found in models.items():
        parts = {model: added(sums) for model, sums in found.items()}
        whole = added(parts.values())
        if tokens_of(whole):
            yield Row(name, whole, parts)


def period_of(day: str, by: str) -> str:
    """Name the day, week or month that a day is in; a week by its Monday: 2026-03-02, 2026-03."""
    if by == "day" or day == UNKNOWN:
        return day
    if by == "month":
        return day[:7]
    whole = date.fromisoformat(day)
    return str(whole - timedelta(days=whole.weekday()))


def added(sums: Iterable["Sum"]) -> "Sum":
    """Add sums up; of none, an empty one."""
    from threadkeep.knowledge.results import Sum

    fields = [msgspec.structs.astuple(one) for one in sums]
    return Sum(*(sum(column) for column in zip(*fields, strict=True))) if fields else Sum()


def tokens_of(one: "Sum") -> int:
    """Return all tokens of a sum; reasoning is a part of the output."""
    return one.input + one.output + one.cache_read + one.cache_write


def cells(name: str, one: "Sum", *, cost: bool) -> tuple[str, ...]:
    """Write a sum as the cells of a table."""
    counts = (
        *(one.answers, one.input, one.output, one.cache_read, one.cache_write),
        *(one.reasoning, tokens_of(one)),
    )
    return (name, *(f"{count:,}" for count in counts), *((cost_text(one),) if cost else ()))


def cost_text(one: "Sum") -> str:
    """Write what a sum cost; a plus says that some of it has no known price."""
    if one.answers and one.unpriced == one.answers:
        return "?"
    return dollars(one.cost) + ("+" if one.unpriced else "")


def dollars(micro: int | None) -> str:
    """Write microdollars as people write money."""
    return "" if micro is None else f"${micro / _MICRO:,.2f}"


def row_json(by: str, row: Row, split: str = "") -> Json:
    """Shape a row for `--json`."""
    parts = {model: sum_json(one) for model, one in row.parts.items()}
    named = {by: row.name, **({split: row.part} if split else {})}
    return {**named, **sum_json(row.sum), **({"models": parts} if parts else {})}


def sum_json(one: "Sum") -> Json:
    """Shape a sum for `--json`; money is in microdollars."""
    shown: Json = msgspec.structs.asdict(one)
    return {**shown, "tokens": tokens_of(one), "cost_microdollars": shown.pop("cost")}


def own_words(agent: str, spent: "Sum") -> Json:
    """Name the tokens of an agent as it names them itself; Codex's input has the cached part."""
    if agent == "codex":
        return {
            "input_tokens": spent.input + spent.cache_read + spent.cache_write,
            "cached_input_tokens": spent.cache_read,
            "output_tokens": spent.output,
            "reasoning_output_tokens": spent.reasoning,
        }
    return {
        "api_messages": spent.answers,
        "input_tokens": spent.input,
        "output_tokens": spent.output,
        "cache_creation_input_tokens": spent.cache_write,
        "cache_read_input_tokens": spent.cache_read,
    }


# ------------------------------------------------------------------------------
# `threadkeep usage blocks`: five hours from a first answer on, as subscriptions count them.

BLOCK_COLUMNS: Final = ("begins", "state", "responses", "tokens", "tokens/min", "cost", "models")
SPARE: Final = ("models", "tokens/min", "responses", "state")


def block_row(block: "BillingBlock") -> tuple[str, ...]:
    """Describe a block; the active one with the time that is left."""
    pace = "" if block.tokens_per_minute is None else f"{block.tokens_per_minute:,.0f}"
    return (
        when(block.start),
        _state(block),
        f"{block.total.answers:,}",
        f"{tokens_of(block.total):,}",
        pace,
        cost_text(block.total),
        ", ".join(block.models),
    )


def projected_row(block: "BillingBlock") -> tuple[str, ...]:
    """Describe how the active block will end if it continues like this."""
    tokens = f"{block.projected_tokens or 0:,}"
    return (when(block.end), "projected", "", tokens, "", dollars(block.projected_cost), "")


def _state(block: "BillingBlock") -> str:
    if block.gap:
        return f"gap of {hours_text((block.end - block.start) // 60_000)}"
    if not block.active:
        return "" if is_terminal() else "over"
    return f"active, {hours_text(block.minutes_left)} left"


def hours_text(minutes: int | None) -> str:
    """Write a length of time: 2h 10m."""
    hours, rest = divmod(minutes or 0, 60)
    return f"{hours}h {rest:02}m" if hours else f"{rest}m"


def block_json(block: "BillingBlock") -> dict[str, Any]:
    """Shape a block for `--json`; money is in microdollars."""
    return {**msgspec.structs.asdict(block), "total": sum_json(block.total)}
