"""Token usage: recorded per message by the host, summed per session over what the model sees.

It never comes from chunks: a finish-step has no fields, and what a stream puts into its metadata
is the stream's own. Cost is kept only where a writer reports it.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from threadkeep.base import json
from threadkeep.base.text import from_sql
from threadkeep.base.tx import Row, Tx
from threadkeep.chat import journal
from threadkeep.chat.context import ChatContext
from threadkeep.chat.raw_rows import unknown_chunks
from threadkeep.chat.records import (
    USAGE_BUCKETS,
    Json,
    Message,
    MessageRef,
    Run,
    Session,
    SessionRef,
    is_number,
    message_of,
    ref_id,
    usage_in,
)
from threadkeep.chat.rows import (
    MESSAGE,
    SESSION,
    need_message,
    need_session,
    rehash,
    set_message_metadata,
)
from threadkeep.chat.runs import add_run_usage, session_runs
from threadkeep.chat.views import View, check_view, counts, load, model_start, read_part, select
from threadkeep.errors import Invalid, NotFound

# ------------------------------------------------------------------------------
# Token counts: from the AI SDK's shape to the five buckets of the contract.

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


Buckets = dict[str, int]
NOTHING: Buckets = dict.fromkeys(USAGE_BUCKETS, 0)


def record_usage(
    ctx: ChatContext,
    tx: Tx,
    session: SessionRef,
    usage: Json,
    *,
    message: MessageRef | None = None,
    cost_usd: float | None = None,
    replace: bool = False,
) -> Buckets:
    """Add a step's usage to a reply (the latest unless named) and to the session's sums.

    With `replace` it takes the place of what was recorded before. Gives the reply's total.
    """
    step = validate_usage(usage)
    cost = _checked_cost(cost_usd)
    session_id = need_session(tx, ref_id(session, "session")).id
    named = None if message is None else ref_id(message, "message")
    reply = _assistant_message(tx, session_id, named)
    noted = tx.one("decided_usage", {"message_id": reply.id})
    old_cost = 0.0 if noted is None else float(noted[5])
    before = _said_before(tx, reply) if noted is None else _buckets(noted)
    may_grow = _may_grow(tx, reply, decided=noted is not None)
    base, base_cost = (NOTHING, 0.0) if replace else (before, old_cost)
    total = {name: base[name] + step[name] for name in USAGE_BUCKETS}
    new_cost = base_cost + cost
    params = {"message_id": reply.id, "session_id": session_id, "cost_usd": new_cost, **total}
    tx.run("put_usage", params)
    now = ctx.clock()
    set_message_metadata(tx, reply.id, {**reply.metadata, "usage": total}, now)
    if may_grow:
        grown = {name: total[name] - before[name] for name in USAGE_BUCKETS}
        _grow_sums(tx, session_id, grown, now, more_cost=new_cost - old_cost)
    else:
        write_sums(tx, session_id, now, more_cost=new_cost - old_cost)
    add_run_usage(tx, reply, step, cost, replace=replace)
    journal.note(ctx, tx, session_id, "usage", [(MESSAGE, reply.id), (SESSION, session_id)])
    return total


def _said_before(tx: Tx, reply: Message) -> Buckets:
    """What a message that this store did not record says of its usage."""
    return NOTHING if _is_recorded(tx, reply.id) else usage_in(reply.metadata.get("usage"))


def _may_grow(tx: Tx, reply: Message, *, decided: bool) -> bool:
    """Tell whether the session's sums hold without this step, so that it is only added."""
    ours = decided or (_is_recorded(tx, reply.id) and _sums_are_ours(tx, reply.session_id))
    return ours and _is_newer_than_compaction(tx, reply)


def _is_recorded(tx: Tx, message_id: str) -> bool:
    return tx.one("is_recorded", {"message_id": message_id}) is not None


def _sums_are_ours(tx: Tx, session_id: str) -> bool:
    """We counted before, and no reply of another program is in between.

    This look takes 8 ms at 20,000 messages, a recount 250.
    """
    params = {"session_id": session_id}
    counted = tx.one("any_counted_recording", params) is not None
    return counted and tx.one("any_uncounted_reply", params) is None


def _buckets(row: Row) -> Buckets:
    return dict(zip(USAGE_BUCKETS, row[:5], strict=True))


def _is_newer_than_compaction(tx: Tx, reply: Message) -> bool:
    """A visible reply after the last compaction counts, whatever else the session holds."""
    newest = tx.value("newest_compaction", {"session_id": reply.session_id})
    return counts(reply) and (newest is None or reply.created_at > newest)


def _grow_sums(tx: Tx, session_id: str, grown: Buckets, now: int, *, more_cost: float) -> None:
    """The usual case, a step of the newest reply: add it, without reading the rest."""
    known = need_session(tx, session_id).usage
    sums = {name: known[name] + grown[name] for name in USAGE_BUCKETS}
    tx.run("set_session_usage", {"id": session_id, "now": now, "cost_usd": more_cost, **sums})
    rehash(tx, SESSION, session_id)


def _checked_cost(cost: object) -> float:
    if cost is None:
        return 0.0
    if not is_number(cost) or not 0 <= float(cost) < float("inf"):
        msg = f"a cost must be a non-negative number of US dollars, not {cost!r}"
        raise Invalid(msg, hint="leave cost_usd out if you do not know it")
    return float(cost)


def _assistant_message(tx: Tx, session_id: str, message_id: str | None) -> Message:
    if message_id is not None:
        message = need_message(tx, session_id, message_id)
        if message.role == "assistant":
            return message
        msg = f"message {message_id!r} is of role {message.role!r}; usage belongs to a reply"
        raise Invalid(msg, hint="pass the id of the assistant message")
    for row in tx.all("newest_replies", {"session_id": session_id}):
        message = message_of(row)
        if counts(message) and message.metadata.get("compaction") is not True:
            return message
    msg = f"session {session_id!r} has no assistant message yet"
    raise NotFound(msg, hint="record usage after the first chunk of the reply")


def write_sums(tx: Tx, session_id: str, now: int, *, more_cost: float = 0.0) -> None:
    """Bring the session's sums up to what the model sees now."""
    params: dict[str, Any] = {"id": session_id, "now": now, "cost_usd": more_cost}
    tx.run("set_session_usage", params | context_usage(tx, session_id))
    rehash(tx, SESSION, session_id)


def context_usage(tx: Tx, session_id: str) -> Buckets:
    """Sum the usage of the assistant messages that count toward the model's context.

    Hidden messages, queued ones and the summarised head are out; the marker of the newest
    compaction is in.
    """
    used = usage_by_message(tx, session_id)
    total = dict(NOTHING)
    for message_id in _context_ids(tx, session_id):
        for name, amount in used.get(message_id, NOTHING).items():
            total[name] += amount
    return total


def usage_by_message(tx: Tx, session_id: str) -> dict[str, Buckets]:
    """Return the usage of each assistant message of a session.

    A message of another program carries its usage in the metadata; a recorded one that nobody
    recorded usage for is left out.
    """
    params = {"session_id": session_id}
    noted = {
        from_sql(row[0]): dict(zip(USAGE_BUCKETS, row[1:6], strict=True))
        for row in tx.all("session_usage", params)
    }
    recorded = {from_sql(row[0]) for row in tx.all("recorded_messages", params)}
    for row in tx.all("session_messages", params):
        message = message_of(row)
        if message.role == "assistant" and message.id not in noted and message.id not in recorded:
            noted[message.id] = usage_in(message.metadata.get("usage"))
    return noted


def is_counted(tx: Tx, message_id: str) -> bool:
    """Tell whether usage was recorded for a message, so that no message put in takes it away."""
    return tx.one("get_usage", {"message_id": message_id}) is not None


def decide_usage(tx: Tx, session_id: str, message_id: str, said: object) -> None:
    """Let a message that was put in say its usage, unless this store knows better.

    Decided here once: whoever continues recording the message does not make it forgotten.
    """
    noted = tx.one("decided_usage", {"message_id": message_id})
    if noted is None:
        decides = isinstance(said, dict) and not _is_recorded(tx, message_id)
    else:
        decides = bool(noted[6])
    if decides:
        put_said_usage(tx, session_id, message_id, said)


def put_said_usage(tx: Tx, session_id: str, message_id: str, said: object) -> None:
    """Write down what a whole message says of its usage."""
    ids = {"message_id": message_id, "session_id": session_id}
    tx.run("put_said_usage", {**usage_in(said), **ids})


def copy_usage(tx: Tx, session_id: str, message_id: str, used: Buckets | None) -> None:
    """Give a copied reply the usage of its original; None, of a recorded one, stays nothing.

    A stream's own metadata is copied too and would count as another program's without a row.
    """
    if used is not None and not any(used.values()):
        put_said_usage(tx, session_id, message_id, used)
        return
    ids = {"message_id": message_id, "session_id": session_id, "cost_usd": 0.0}
    tx.run("put_usage", {**(used or NOTHING), **ids})


def _context_ids(tx: Tx, session_id: str) -> list[str]:
    params = {"session_id": session_id}
    markers: dict[str, list[Json]] = {}
    for message_id, data_json, kind in tx.all("session_compactions", params):
        markers.setdefault(from_sql(message_id), []).append(read_part(data_json, kind))
    shown: list[Json] = [
        {"id": message.id, "role": message.role, "parts": markers.get(message.id, [])}
        for message in map(message_of, tx.all("session_messages", params))
        if counts(message)
    ]
    found = model_start(shown)
    if found is not None:
        start, place = found
        older = [m for m in shown[start:place] if m["id"] not in markers]
        shown = [*older, *shown[place:]]
    return [message["id"] for message in shown if message["role"] == "assistant"]


def spend(_ctx: ChatContext, tx: Tx, session: SessionRef) -> tuple[Buckets, float]:
    """Return the total usage and cost of a session, including hidden and summarised turns."""
    session_id = ref_id(session, "session")
    total = dict(NOTHING)
    for used in usage_by_message(tx, session_id).values():
        for name, amount in used.items():
            total[name] += amount
    return total, need_session(tx, session_id).cost_usd


# ------------------------------------------------------------------------------
# The inspector's view of a session: every turn with its usage, cost and runs, in one snapshot.


class Turn(msgspec.Struct, frozen=True):
    """One message of a timeline, with what it used and the runs that made it."""

    message: Message
    role: str
    parts: list[Json]
    usage: dict[str, int] | None
    cost_usd: float
    runs: list[Run]
    chunks: list[Json] = []
    """Chunks of its stream that are of unknown types, and so in none of the parts."""


class Timeline(msgspec.Struct, frozen=True):
    """A session as an inspector shows it; `runs` are those that left no message."""

    session: Session
    view: str
    turns: list[Turn]
    runs: list[Run]
    used: dict[str, int]
    cost_usd: float


def timeline(ctx: ChatContext, tx: Tx, session: SessionRef, view: View = "transcript") -> Timeline:
    """Return what happened in a session, turn by turn."""
    check_view(view)
    known = need_session(tx, ref_id(session, "session"))
    loaded = load(tx, known.id)
    used = usage_by_message(tx, known.id)
    costs = {
        from_sql(row[0]): float(row[6]) for row in tx.all("session_usage", {"session_id": known.id})
    }
    runs = session_runs(ctx, tx, known.id)
    rows = tx.all("session_messages", {"session_id": known.id})
    messages = {message.id: message for message in map(message_of, rows)}
    unknown = unknown_chunks(tx, known.id)
    turns = [
        Turn(
            message=messages[shaped["id"]],
            role=shaped["role"],
            parts=shaped["parts"],
            usage=used.get(shaped["id"]),
            cost_usd=costs.get(shaped["id"], 0.0),
            runs=[run for run in runs if run.message_id == shaped["id"]],
            chunks=[json.decode(row["data_json"]) for row in unknown.get(shaped["id"], ())],
        )
        for shaped in select(loaded, view)
    ]
    lost = [run for run in runs if run.message_id not in messages]
    spent, cost = spend(ctx, tx, known.id)
    return Timeline(known, view, turns, lost, spent, cost)
