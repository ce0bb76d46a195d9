"""Tokens and money as they are spent: added to the session, and to the model that was asked."""

import time
from collections.abc import Mapping
from typing import Any, Final

from threadkeep.base.tx import Row, Tx
from threadkeep.state.columns import insert_row, update_rows
from threadkeep.state.context import Json, StateContext
from threadkeep.state.exact import keep, to_column
from threadkeep.state.messages import find_key, remember_key
from threadkeep.state.rows import refresh_session_hash

TOKENS: Final = (
    *("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"),
    "reasoning_tokens",
)
COSTS: Final = ("estimated_cost_usd", "actual_cost_usd")
_ROUTE: Final = ("model", "billing_provider", "billing_base_url", "billing_mode")
_BY_MODEL: Final = "session_model_usage"


def update_token_counts(
    ctx: StateContext,
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
    api_call_count: int = 0,
    absolute: bool = False,  # noqa: FBT001, FBT002
    *,
    idempotency_key: str | None = None,
) -> None:
    """Add tokens and costs to a session and its model, or with `absolute` set the session's sums.

    A second call with the same `idempotency_key` in the session counts nothing.
    """
    if api_call_count:
        ctx.widen(tx)
    amounts: Json = {
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "cache_read_tokens": cache_read_tokens,
        "cache_write_tokens": cache_write_tokens,
        "reasoning_tokens": reasoning_tokens,
        "estimated_cost_usd": estimated_cost_usd,
        "actual_cost_usd": actual_cost_usd,
    }
    texts = {
        "cost_status": to_column(cost_status, "cost_status"),
        "cost_source": to_column(cost_source, "cost_source"),
        "pricing_version": to_column(pricing_version, "pricing_version"),
        "billing_provider": to_column(billing_provider, "billing_provider"),
        "billing_base_url": to_column(billing_base_url, "billing_base_url"),
        "billing_mode": to_column(billing_mode, "billing_mode"),
        "model": to_column(model, "model"),
    }
    values = {name: stored.column for name, stored in texts.items()}
    if ctx.form.answers.usage_makes_session:
        _make_session(ctx, tx, session_id, values["model"])
    if idempotency_key is not None and not _is_first(tx, session_id, idempotency_key):
        return
    before = tx.one("usage_of", {"id": session_id})
    if before is None:
        return
    counts = any(amounts.values()) or bool(api_call_count)
    if ctx.form.answers.usage_makes_session:
        _choose_route(tx, session_id, values, counts=counts)
    tx.run("set_usage" if absolute else "add_usage", {"id": session_id, **amounts, **values})
    calls = 0 if absolute else int(tx.value("calls_of", {"id": session_id}) or 0)
    update_rows(ctx, tx, "sessions", {"id": session_id}, {"api_call_count": calls + api_call_count})
    if ctx.side:
        keep(tx, "session", session_id, texts)
        after = tx.one("usage_of", {"id": session_id}) or before
        _note_change(ctx, tx, session_id, values["model"], before, after)
    if counts and not absolute and _BY_MODEL in ctx.form.tables:
        row = tx.one("route_of", {"id": session_id}) or ()
        own = dict(zip(_ROUTE, row, strict=False))
        route = {name: values[name] or own.get(name) for name in _ROUTE}
        told = {name: values[name] for name in ("cost_status", "cost_source")}
        _add(ctx, tx, session_id, "", route, {**amounts, "api_call_count": api_call_count}, told)


def _make_session(ctx: StateContext, tx: Tx, session_id: str, model: str | None) -> None:
    """Begin the session of a usage that came before it; an existing one gets the model it lacks."""
    values = {"id": session_id, "source": "unknown", "model": model, "started_at": ctx.clock()}
    if not insert_row(ctx, tx, "sessions", values, or_ignore=True):
        tx.run("fill_model", {"id": session_id, "model": model})
    elif ctx.side:
        refresh_session_hash(tx, session_id)


def _is_first(tx: Tx, session_id: str, key: str) -> bool:
    if find_key(tx, session_id, "usage", key) is not None:
        return False
    if tx.one("session_exists", {"id": session_id}) is not None:
        remember_key(tx, session_id, "usage", key, None)
    return True


def _choose_route(tx: Tx, session_id: str, values: dict[str, Any], *, counts: bool) -> None:
    """The first usage that counts tells the route: the one that was asked for may have failed."""
    if not counts:
        values.update(dict.fromkeys(_ROUTE))
    elif values["model"] and values["billing_provider"]:
        route = {name: values[name] for name in _ROUTE}
        tx.run("set_first_route", {"id": session_id, **route})


def _note_change(
    ctx: StateContext, tx: Tx, session_id: str, model: str | None, before: Row, after: Row
) -> None:
    """Write the difference to the day's account of the model that made it."""
    width = len(TOKENS) + len(COSTS)
    pairs = zip(before[:width], after[:width], strict=True)
    change = [new - old for old, new in pairs]
    if not any(change):
        return
    values: Json = dict(zip((*TOKENS, *COSTS), change, strict=True))
    values |= {
        "session_id": session_id,
        "day": day_of(ctx.clock()),
        "model": model or after[width] or "",
        "source": after[width + 1],
    }
    tx.run("note_usage", values)


def day_of(at: float) -> str:
    """Give the local day of a time."""
    return time.strftime("%Y-%m-%d", time.localtime(at))


# ---------------------------------------------------------------------- by model and task


def record_auxiliary_usage(
    ctx: StateContext,
    tx: Tx,
    session_id: str,
    task: str,
    *,
    model: str | None = None,
    billing_provider: str | None = None,
    billing_base_url: str | None = None,
    input_tokens: int = 0,
    output_tokens: int = 0,
    cache_read_tokens: int = 0,
    cache_write_tokens: int = 0,
    reasoning_tokens: int = 0,
    estimated_cost_usd: float | None = None,
    api_call_count: int | None = 1,
) -> None:
    """Count what a side task spent (vision, titles, …), apart from the sums of its session."""
    if not session_id or not task:
        return
    ctx.widen(tx)
    if not _has_tasks(tx):
        ctx.notices.warn(
            "task", "%s counts by model, not by task: side tasks are not counted", ctx.db.path
        )
        return
    _make_session(ctx, tx, session_id, None)
    route = {
        "model": model,
        "billing_provider": billing_provider,
        "billing_base_url": billing_base_url,
    }
    amounts = {
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "cache_read_tokens": cache_read_tokens,
        "cache_write_tokens": cache_write_tokens,
        "reasoning_tokens": reasoning_tokens,
        "estimated_cost_usd": estimated_cost_usd,
        "api_call_count": 1 if api_call_count is None else int(api_call_count),
    }
    _add(ctx, tx, session_id, task, route, amounts, {})


def _has_tasks(tx: Tx) -> bool:
    """The key of versions 20 and 21 has no task: a side task would fall on the model's own row."""
    return any(row[1] == "task" and row[5] for row in tx.execute(f"PRAGMA table_info({_BY_MODEL})"))


def _add(
    ctx: StateContext,
    tx: Tx,
    session_id: str,
    task: str,
    route: Mapping[str, Any],
    amounts: Mapping[str, Any],
    told: Mapping[str, Any],
) -> None:
    """Add amounts to the row of a session, model, route and task, and make it if it is missing."""
    now = ctx.clock()
    key = {
        "session_id": session_id,
        **{name: route.get(name) or "" for name in _ROUTE},
        "model": route.get("model") or "unknown",
        "task": task,
    }
    numbers = {name: amount or 0 for name, amount in amounts.items()}
    present = ctx.form.tables[_BY_MODEL]
    key = {name: value for name, value in key.items() if name in present}
    new = {name: value for name, value in told.items() if value is not None}
    sets = [
        *(f"{name} = {name} + ?" for name in numbers),
        *(f"{name} = ?" for name in (*new, "last_seen")),
    ]
    where = " AND ".join(f"{name} = ?" for name in key)
    sql = f"UPDATE {_BY_MODEL} SET {', '.join(sets)} WHERE {where}"  # noqa: S608
    values = (*numbers.values(), *new.values(), now, *key.values())
    if not tx.execute(sql, values).rowcount:
        insert_row(
            ctx, tx, _BY_MODEL, {**key, **numbers, **new, "first_seen": now, "last_seen": now}
        )


def get_dominant_session_model_route(_ctx: StateContext, tx: Tx, session_id: str) -> Json | None:
    """Give the model and route that a session asked most often, None if that is not known."""
    return next(iter(tx.dicts("dominant_route", {"id": session_id})), None)
