"""Codex: what the answers cost, from two kinds of records that say the same.

Newer logs have a `token_usage_record` for each answer, with an id. Older ones have `token_count`
events with running totals; they come again and again without new spending, so only those whose
total has moved count. In a log that has both, the records count from the first of them on.
"""

from typing import Any, Final, NamedTuple

import msgspec

from threadkeep.knowledge.records import Usage
from threadkeep.sources.common import number, table, text

_BEYOND_BELIEF: Final = 2**40


class CodexTokenCounts(NamedTuple):
    """The numbers of one usage object."""

    input: int = 0  # with everything that came from or went to the cache
    cached: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0
    total: int = 0


class CodexUsageState(msgspec.Struct):
    """What a parser remembers about spending."""

    totals: CodexTokenCounts = CodexTokenCounts()
    has_records: bool = False


def counts_of(given: object) -> CodexTokenCounts:
    """Read a usage object; what is missing is 0."""
    found = table(given)
    came, went = _count(found.get("input_tokens")), _count(found.get("output_tokens"))
    return CodexTokenCounts(
        came,
        _count(found.get("cached_input_tokens")),
        _count(found.get("cache_write_input_tokens")),
        went,
        _count(found.get("reasoning_output_tokens")),
        _count(found.get("total_tokens")) or came + went,
    )


def _count(value: object) -> int:
    found = number(value)
    return found if 0 <= found < _BEYOND_BELIEF else 0


def from_token_count(body: dict[str, Any], spent: CodexUsageState, origin: str) -> Usage | None:
    """Read a `token_count` event; None if it tells of no new spending.

    The key is the running total of the thread that the count began in: a fork of the older kind
    starts with a copy of its parent's records, and goes on with its parent's total.
    """
    info = table(body.get("info"))
    totals = counts_of(info.get("total_token_usage"))
    if spent.has_records or totals == spent.totals or not any(totals):
        return None
    last = counts_of(info.get("last_token_usage"))
    if not any(last):
        last = CodexTokenCounts(
            *(max(0, new - old) for new, old in zip(totals, spent.totals, strict=True))
        )
    spent.totals = totals
    return _usage(f"{origin}:{totals.total}:{last.total}", last)


def from_record(body: dict[str, Any], spent: CodexUsageState, session_id: str) -> Usage | None:
    """Read a `token_usage_record`; None if the count before it has told the same."""
    thread = text(body.get("thread_id")) or session_id
    totals = counts_of(body.get("thread_token_usage"))
    told = not spent.has_records and any(totals) and totals == spent.totals
    spent.has_records, spent.totals = True, totals
    now = counts_of(body.get("usage"))
    if told or not any(now):
        return None
    usage = _usage(text(body.get("response_id")) or f"{thread}:{totals.total}:{now.total}", now)
    usage.session_id = thread
    return usage


def _usage(key: str, now: CodexTokenCounts) -> Usage:
    return Usage(
        key=key,
        at=None,
        model="",
        input=max(0, now.input - now.cached - now.cache_write),
        output=now.output,
        cache_read=now.cached,
        cache_write=now.cache_write,
        reasoning=now.reasoning,
    )
