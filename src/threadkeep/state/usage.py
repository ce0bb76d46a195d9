"""Tokens and money: added up per session as the contract has it, and by day and model beside."""

import time
from typing import Final

from threadkeep.base.sqlite import Row, Tx
from threadkeep.errors import Invalid
from threadkeep.state.context import Context, Json
from threadkeep.state.exact import keep, to_column
from threadkeep.state.messages import find_key, remember_key

COUNTERS: Final = (
    *("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"),
    "reasoning_tokens",
)
COSTS: Final = ("estimated_cost_usd", "actual_cost_usd")
GROUPS: Final = ("model", "source", "day", "session")


def update_token_counts(
    ctx: Context,
    tx: Tx,
    session_id: str,
    input_tokens: int = 0,
    output_tokens: int = 0,
    model: str | None = None,
    cache_read_tokens: int = 0,
    cache_write_tokens: int = 0,
    reasoning_tokens: int = 0,
    estimated_cost_usd: float | None = None,
    actual_cost_usd: float | None = None,
    cost_status: str | None = None,
    cost_source: str | None = None,
    pricing_version: str | None = None,
    billing_provider: str | None = None,
    billing_base_url: str | None = None,
    billing_mode: str | None = None,
    absolute: bool = False,  # noqa: FBT001, FBT002
    *,
    idempotency_key: str | None = None,
) -> None:
    """Add tokens and costs to a session, or with `absolute` set its totals.

    A second call with the same `idempotency_key` in the session counts nothing.
    """
    if idempotency_key is not None:
        if find_key(tx, session_id, "usage", idempotency_key) is not None:
            return
        if tx.one("session_exists", {"id": session_id}) is not None:
            remember_key(tx, session_id, "usage", idempotency_key, None)
    before = tx.one("usage_of", {"id": session_id})
    if before is None:
        return
    texts = {
        "cost_status": to_column(cost_status, "cost_status"),
        "cost_source": to_column(cost_source, "cost_source"),
        "pricing_version": to_column(pricing_version, "pricing_version"),
        "billing_provider": to_column(billing_provider, "billing_provider"),
        "billing_base_url": to_column(billing_base_url, "billing_base_url"),
        "billing_mode": to_column(billing_mode, "billing_mode"),
        "model": to_column(model, "model"),
    }
    values: Json = {
        **{field: stored.column for field, stored in texts.items()},
        "id": session_id,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "cache_read_tokens": cache_read_tokens,
        "cache_write_tokens": cache_write_tokens,
        "reasoning_tokens": reasoning_tokens,
        "estimated_cost_usd": estimated_cost_usd,
        "actual_cost_usd": actual_cost_usd,
    }
    tx.run("set_usage" if absolute else "add_usage", values)
    keep(tx, "session", session_id, texts)
    after = tx.one("usage_of", {"id": session_id}) or before
    _note_change(ctx, tx, session_id, values["model"], before, after)


def _note_change(
    ctx: Context, tx: Tx, session_id: str, model: str | None, before: Row, after: Row
) -> None:
    """Write the difference to the day's account of the model that made it."""
    width = len(COUNTERS) + len(COSTS)
    pairs = zip(before[:width], after[:width], strict=True)
    change = [new - old for old, new in pairs]
    if not any(change):
        return
    values: Json = dict(zip((*COUNTERS, *COSTS), change, strict=True))
    values |= {
        "session_id": session_id,
        "day": _day(ctx.clock()),
        "model": model or after[width] or "",
        "source": after[width + 1],
    }
    tx.run("note_usage", values)


def usage(
    ctx: Context,
    tx: Tx,
    by: str = "model",
    *,
    since: float | None = None,
    until: float | None = None,
    source: str | None = None,
) -> list[Json]:
    """Sum tokens and costs by model, source, day or session; the costliest first, days in order.

    What another program counted has no day of its own: it counts on the day its session began.
    Deleted sessions stay counted. `since` and `until` are Unix seconds; whole local days count.
    """
    if by not in GROUPS:
        msg = f"usage cannot be summed by {by!r}"
        raise Invalid(msg, hint=f"use one of {', '.join(GROUPS)}")
    params = {
        "first": None if since is None else _day(since),
        "last": None if until is None else _day(until),
        "source": source,
    }
    rows = tx.all("usage_rows" if ctx.side else "usage_rows_plain", params)
    sums: dict[str, Json] = {}
    for session_id, day, model, row_source, *amounts in rows:
        keys = {"model": model or "unknown", "source": row_source, "day": day or "unknown"}
        key = str(keys.get(by, session_id))
        total = sums.setdefault(key, _nothing(by, key))
        total["ids"].add(session_id)
        for name, amount in zip((*COUNTERS, *COSTS), amounts, strict=True):
            total[name] += amount
    return _ordered(sums, by)


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at))


def _nothing(by: str, key: str) -> Json:
    counters = dict.fromkeys(COUNTERS, 0)
    return {by: key, "ids": set(), **counters, **dict.fromkeys(COSTS, 0.0)}


def _ordered(sums: dict[str, Json], by: str) -> list[Json]:
    totals = []
    for total in sums.values():
        ids = total.pop("ids")
        total["sessions"] = len(ids)
        total["total_tokens"] = total["input_tokens"] + total["output_tokens"]
        totals.append(total)
    if by == "day":
        return sorted(totals, key=lambda total: str(total["day"]))

    def weight(total: Json) -> tuple[float, int, str]:
        cost = total["actual_cost_usd"] or total["estimated_cost_usd"]
        return (-cost, -total["total_tokens"], str(total[by]))

    return sorted(totals, key=weight)
