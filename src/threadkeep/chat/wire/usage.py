"""Token counts: from the AI SDK's shape to the five buckets of the contract."""

from collections.abc import Mapping
from typing import Any, Final

from threadkeep.errors import Invalid

BUCKETS: Final = ("input", "output", "reasoning", "cache_read", "cache_write")
_LARGEST: Final = 2**53 - 1


def from_ai_sdk(usage: Mapping[str, Any]) -> dict[str, int]:
    """Sort an AI SDK `usage` (v5 to v7) into the five buckets, so that they add up to its total.

    The SDK's input count includes what came from and went to the cache, and its output count
    includes reasoning: both are taken out, and no bucket goes below zero.
    """
    if not isinstance(usage, Mapping):
        raise Invalid(f"usage must be an object, not {type(usage).__name__}")
    into = _details(usage, "inputTokenDetails")
    out = _details(usage, "outputTokenDetails")
    cache_read = _first((into, "cacheReadTokens"), (usage, "cachedInputTokens"))
    cache_write = _first((into, "cacheWriteTokens"))
    reasoning = _first((out, "reasoningTokens"), (usage, "reasoningTokens"))
    total_in, total_out = _count(usage, "inputTokens"), _count(usage, "outputTokens")
    if total_in is None:
        total_in = _first((into, "noCacheTokens")) + cache_read + cache_write
    if total_out is None:
        total_out = _first((out, "textTokens")) + reasoning
    return {
        "input": max(0, total_in - cache_read - cache_write),
        "output": max(0, total_out - reasoning),
        "reasoning": reasoning,
        "cache_read": cache_read,
        "cache_write": cache_write,
    }


def validate_usage(obj: object) -> dict[str, int]:
    """Check the five buckets; one that is missing counts as zero, any other name is refused."""
    if not isinstance(obj, Mapping):
        raise Invalid(
            f"usage must be an object, not {type(obj).__name__}",
            hint=f"pass a dict with some of {', '.join(BUCKETS)}",
        )
    unknown = [name for name in obj if name not in BUCKETS]
    if unknown:
        raise Invalid(
            f"usage has no bucket {ascii(unknown[0])[:80]}",
            hint=f"the buckets are {', '.join(BUCKETS)}; from_ai_sdk() converts the AI SDK's shape",
        )
    return {name: _count(obj, name, missing=0) or 0 for name in BUCKETS}


def _details(usage: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    details = usage.get(name)
    if details is None:
        return {}
    if not isinstance(details, Mapping):
        raise Invalid(f"usage: {name!r} must be an object, not {type(details).__name__}")
    return details


def _first(*places: tuple[Mapping[str, Any], str]) -> int:
    """The first count that is there; the SDK leaves out what a provider did not report."""
    counts = (_count(record, name) for record, name in places)
    return next((count for count in counts if count is not None), 0)


def _count(record: Mapping[str, Any], name: str, missing: int | None = None) -> int | None:
    value = record.get(name, missing)
    if value is None and missing is None:
        return None
    if type(value) is not int or not 0 <= value <= _LARGEST:
        raise Invalid(
            f"usage: {name!r} must be a whole number from 0 to 2**53 - 1",
            hint="count tokens; leave out what the provider did not report",
        )
    return value
