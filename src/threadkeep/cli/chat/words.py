"""Short words for what people look at: models, money, tokens, lengths of time."""

import time
from typing import Any

from threadkeep.cli.output import one_line

Json = dict[str, Any]

_NAMES = {"cache_read": "cache read", "cache_write": "cache write"}


def model_name(model: Json) -> str:
    """Write a model as provider/model."""
    known = [model.get(key) for key in ("provider_id", "model_id")]
    return one_line("/".join(str(value) for value in known if value))


def model_text(model: Json) -> str:
    """Write a model with its variant and temperature, where they are known."""
    extra = [f"{key} {model[key]}" for key in ("variant", "temperature") if key in model]
    return one_line(" ".join([model_name(model), *extra]))


def money(cost: float) -> str:
    """Write an amount of US dollars; nothing when nobody reported one."""
    if not cost:
        return ""
    return f"${cost:.2f}" if cost >= 1 else f"${cost:.4f}"


def tokens(usage: dict[str, int]) -> str:
    """Write the usage of a reply, leaving out what is zero."""
    used = [f"{_NAMES.get(name, name)} {n:,}" for name, n in usage.items() if n]
    return " · ".join(used)


def local_time(ms: int) -> str:
    """Write a time as the clock on the wall shows it: 2026-01-15 10:30."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(ms / 1000))


def duration(ms: int) -> str:
    """Write a length of time: 340 ms, 12.3 s, 4 min."""
    if ms < 1000:  # noqa: PLR2004
        return f"{ms} ms"
    return f"{ms / 1000:.1f} s" if ms < 120_000 else f"{ms / 60_000:.0f} min"  # noqa: PLR2004
