"""`threadkeep usage blocks`: five hours from a first answer on, as subscriptions count them."""

from typing import TYPE_CHECKING, Any, Final

import msgspec

from threadkeep.cli.history.words import when
from threadkeep.cli.output import is_terminal
from threadkeep.cli.usage.rows import cost_text, dollars, sum_json, tokens_of

if TYPE_CHECKING:
    from threadkeep.knowledge.results import BillingBlock

COLUMNS: Final = ("begins", "state", "answers", "tokens", "tokens/min", "cost", "models")
SPARE: Final = ("models", "tokens/min", "answers", "state")


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
    """Describe how the active block will end if it goes on like this."""
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
