"""Tokens and money as they are spent: added to the session, and to the model that was asked."""

import logging
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Lock
from typing import Any, Final

from threadkeep.base.tx import Row, Sql, Tx
from threadkeep.errors import Invalid
from threadkeep.state.context import Json, StateContext
from threadkeep.state.messages import find_key, remember_key
from threadkeep.state.rows import insert_row, refresh_session_hash, update_rows
from threadkeep.state.side_values import keep, to_column

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
    """Add tokens and costs to a session and its model; `absolute` sets the session's sums.

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
    if not insert_row(ctx, tx, "sessions", values, unless_there=True):
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
    """Return the local day of a time."""
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
    """Count the usage of a side task (vision, titles, …), apart from its session's sums."""
    if not session_id or not task:
        return
    ctx.widen(tx)
    if not ctx.form.tasks:
        ctx.notices.warn(
            "task", "%s counts by model, not by task: side tasks are not counted", ctx.db.name
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
        *(f"{name} = {name} + :{name}" for name in numbers),
        *(f"{name} = :{name}" for name in (*new, "last_seen")),
    ]
    where = " AND ".join(f"{name} = :{name}" for name in key)
    sql = f"UPDATE {_BY_MODEL} SET {', '.join(sets)} WHERE {where}"  # noqa: S608
    if not tx.count(Sql(sql), {**key, **numbers, **new, "last_seen": now}):
        insert_row(
            ctx, tx, _BY_MODEL, {**key, **numbers, **new, "first_seen": now, "last_seen": now}
        )


def get_dominant_session_model_route(_ctx: StateContext, tx: Tx, session_id: str) -> Json | None:
    """Return the model and route that a session used most often, None if unknown."""
    return next(iter(tx.dicts("dominant_route", {"id": session_id})), None)


# ------------------------------------------------------------------------------
# Usage that is written behind the caller's back, in the order in which it came.

log = logging.getLogger(__name__)

# What a usage is written with, and what a reader is willing to wait for it, in seconds.
Apply = Callable[..., None]
PATIENCE = 5.0


class UsageQueue:
    """One thread that writes usage for a store; a process that is forked off begins an empty one.

    The interpreter waits for the thread when it ends, so nothing that was queued is lost.
    """

    def __init__(self, apply: Apply) -> None:
        self._apply = apply
        self._lock = Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._last: Future[None] | None = None
        self._pid = os.getpid()
        self._closed = False

    def put(self, session_id: str, **values: Any) -> None:
        """Write a usage soon; at once, and raising what goes wrong, when the store is closed."""
        self._begin_anew_after_fork()
        with self._lock:
            if not self._closed:
                pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="threadkeep-usage")
                self._pool = pool
                try:
                    self._last = pool.submit(self._write, session_id, values)
                except RuntimeError:  # the interpreter is about to end, and takes no more work
                    log.debug("usage of %s is written at once", session_id)
                else:
                    return
        self._apply(session_id, **values)

    def _write(self, session_id: str, values: dict[str, Any]) -> None:
        try:
            self._apply(session_id, **values)
        except Exception as error:  # noqa: BLE001  (the caller went on long ago: it is told here)
            log.warning("usage of session %s was not counted: %s", session_id, error)

    def flush(self, timeout: float = PATIENCE) -> bool:
        """Wait until all that was queued is written; False if that takes longer."""
        self._begin_anew_after_fork()
        last = self._last
        return last is None or last.done() or not wait([last], timeout).not_done

    def close(self) -> None:
        """Write what is queued, then take nothing more."""
        self._begin_anew_after_fork()
        with self._lock:
            self._closed = True
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True)

    def _begin_anew_after_fork(self) -> None:
        """What was queued before a fork is written by the process that queued it."""
        if self._pid != os.getpid():
            self._lock, self._pool, self._last = Lock(), None, None
            self._pid = os.getpid()


# ------------------------------------------------------------------------------
# What was total: by model, source, day or session, whoever counted it.

GROUPS: Final = ("model", "source", "day", "session")
_AMOUNTS: Final = (*TOKENS, *COSTS)
_HAIR: Final = 1e-9


def usage(
    ctx: StateContext,
    tx: Tx,
    by: str = "model",
    *,
    since: float | None = None,
    until: float | None = None,
    source: str | None = None,
) -> list[Json]:
    """Sum tokens and costs by model, source, day or session; the costliest first, days in order.

    What another program counted has no day of its own: it counts on the day it was first seen, or
    its session began. Deleted sessions stay counted in a store that threadkeep made. `since` and
    `until` are Unix seconds; whole local days count.
    """
    if by not in GROUPS:
        msg = f"usage cannot be summed by {by!r}"
        raise Invalid(msg, hint=f"use one of {', '.join(GROUPS)}")
    first = "" if since is None else day_of(since)
    last = None if until is None else day_of(until)
    noted = tx.all("noted_usage") if ctx.side else []
    sums: dict[str, Json] = {}
    for piece in spent(noted, tx.all("model_usage"), tx.all("session_usage")):
        session_id, day, model, row_source, *amounts = piece
        if (source is not None and row_source != source) or not any(
            abs(amount) > _HAIR for amount in amounts
        ):
            continue
        if (day or "") < first or (last is not None and (day is None or day > last)):
            continue
        keys = {"model": model or "unknown", "source": row_source, "day": day or "unknown"}
        key = str(keys.get(by, session_id))
        total = sums.setdefault(key, _nothing(by, key))
        total["ids"].add(session_id)
        for name, amount in zip(_AMOUNTS, amounts, strict=True):
            total[name] += amount
    return _ordered(sums, by)


def spent(noted: Iterable[Row], counted: Iterable[Row], sessions: Iterable[Row]) -> Iterator[Row]:
    """Return every piece of usage once: session, day, model, source, then the amounts.

    First what we noted by day; then what the table by model has beyond that, and all side tasks;
    then what a session has beyond both, which was counted in its sums alone.
    """
    ours: dict[tuple[str, str], list[Any]] = defaultdict(lambda: [0] * len(_AMOUNTS))
    known: dict[str, list[Any]] = defaultdict(lambda: [0] * len(_AMOUNTS))
    by_model: dict[str, list[Any]] = defaultdict(lambda: [0] * len(_AMOUNTS))
    for row in noted:
        yield row
        _usage_sums_add(ours[row[0], row[2]], row[4:])
        _usage_sums_add(known[row[0]], row[4:])
    for session_id, day, model, source, task, *amounts in counted:
        if task:
            yield (session_id, day, model, source, *amounts)
            continue
        _usage_sums_add(by_model[session_id], amounts)
        had = ours[session_id, model]
        yield (session_id, day, model, source, *map(_beyond, amounts, had))
        ours[session_id, model] = list(map(_beyond, had, amounts))
    for session_id, day, model, source, *amounts in sessions:
        rest = [amount - had for amount, had in zip(amounts, known[session_id], strict=True)]
        if session_id in by_model:  # a total that was set does not take back what models counted
            rest = list(map(_beyond, rest, map(_beyond, by_model[session_id], known[session_id])))
        yield (session_id, day, model, source, *rest)


def _usage_sums_add(total: list[Any], amounts: Iterable[Any]) -> None:
    for place, amount in enumerate(amounts):
        total[place] += amount


def _beyond(amount: Any, had: Any) -> Any:
    return max(amount - had, 0)


def _nothing(by: str, key: str) -> Json:
    counters = dict.fromkeys(TOKENS, 0)
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


def usage_totals(
    _ctx: StateContext, tx: Tx, *, min_message_count: int = 1, include_archived: bool = False
) -> dict[str, float]:
    """Return tokens and cost of all sessions without a parent."""
    params = {"least": min_message_count, "archived": bool(include_archived)}
    tokens, cost = tx.one("usage_totals", params) or (0, 0)
    return {"tokens": int(tokens), "cost_usd": float(cost)}
