"""What Claude Code's answers cost: one line per block repeats the count of the whole answer."""

from typing import Any, Final

import msgspec

from threadkeep.knowledge.records import Usage
from threadkeep.sources.common import iso_ms

_MOST: Final = 2**40  # what a log may claim; the sum of many must fit a database


def keep_larger(found: dict[str, Usage], usage: Usage) -> None:
    """Keep of two counts of one answer the one with more output, and rather a last one.

    The time stays that of the first, as it does in the store: the two counts may come in two looks.
    """
    known = found.get(usage.key)
    if known is None:
        found[usage.key] = usage
    elif (usage.output, usage.final) > (known.output, known.final):
        at = usage.at if known.at is None else known.at
        found[usage.key] = msgspec.structs.replace(usage, at=at)


def is_spent(usage: Usage) -> bool:
    """Tell whether an answer cost anything."""
    return any((usage.input, usage.output, usage.cache_read, usage.cache_write))


def usage_of(record: dict[str, Any], at: int | None, session_id: str, number: int) -> Usage | None:
    """Read the count of an `assistant` record; None if there is none."""
    message = record.get("message")
    counts = message.get("usage") if isinstance(message, dict) else None
    if not isinstance(message, dict) or not isinstance(counts, dict):
        return None
    model = message.get("model")
    usage = Usage(
        key=_key(message, record) or f"{session_id}:{number}",
        at=at,
        model=model if isinstance(model, str) else "",
        input=_count(counts, "input_tokens"),
        output=_count(counts, "output_tokens"),
        cache_read=_count(counts, "cache_read_input_tokens"),
        cache_write=_count(counts, "cache_creation_input_tokens"),
        final=message.get("stop_reason") is not None,
        session_id=session_id,
    )
    written, details = counts.get("cache_creation"), counts.get("output_tokens_details")
    if isinstance(written, dict):
        usage.cache_write_1h = _count(written, "ephemeral_1h_input_tokens")
    if isinstance(details, dict):
        usage.reasoning = _count(details, "thinking_tokens")
    return usage


def relayed_usage(
    record: dict[str, Any], at: int | None, session_id: str, number: int
) -> Usage | None:
    """Read the count of a subagent's answer from its parent's `agent_progress` record.

    It is the only trace of what the subagent spent if its own file is gone.
    """
    data = record.get("data")
    relayed = data.get("message") if isinstance(data, dict) else None
    if not isinstance(relayed, dict):
        return None
    own = iso_ms(relayed.get("timestamp"))
    return usage_of(relayed, at if own is None else own, session_id, number)


def _key(message: dict[str, Any], record: dict[str, Any]) -> str:
    """Name an answer over all files: a fork repeats both ids, some answers have no request id."""
    answer, request = message.get("id"), record.get("requestId")
    if not isinstance(answer, str) or not answer:
        uuid = record.get("uuid")
        return uuid if isinstance(uuid, str) else ""
    return f"{answer}|{request}" if isinstance(request, str) and request else answer


def _count(counts: dict[str, Any], key: str) -> int:
    found = counts.get(key)
    return found if type(found) is int and 0 <= found < _MOST else 0
