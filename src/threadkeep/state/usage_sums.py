"""What was spent in all: by model, source, day or session, whoever counted it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final

from threadkeep.base.tx import Row, Tx
from threadkeep.errors import Invalid
from threadkeep.state.context import Json, StateContext
from threadkeep.state.usage import COSTS, TOKENS, day_of

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
    """Give every piece of usage once: session, day, model, source, then the amounts.

    First what we noted by day; then what the table by model has beyond that, and all side tasks;
    then what a session has beyond both, which was counted in its sums alone.
    """
    ours: dict[tuple[str, str], list[Any]] = defaultdict(lambda: [0] * len(_AMOUNTS))
    known: dict[str, list[Any]] = defaultdict(lambda: [0] * len(_AMOUNTS))
    by_model: dict[str, list[Any]] = defaultdict(lambda: [0] * len(_AMOUNTS))
    for row in noted:
        yield row
        _add(ours[row[0], row[2]], row[4:])
        _add(known[row[0]], row[4:])
    for session_id, day, model, source, task, *amounts in counted:
        if task:
            yield (session_id, day, model, source, *amounts)
            continue
        _add(by_model[session_id], amounts)
        had = ours[session_id, model]
        yield (session_id, day, model, source, *map(_beyond, amounts, had))
        ours[session_id, model] = list(map(_beyond, had, amounts))
    for session_id, day, model, source, *amounts in sessions:
        rest = [amount - had for amount, had in zip(amounts, known[session_id], strict=True)]
        if session_id in by_model:  # a total that was set does not take back what models counted
            rest = list(map(_beyond, rest, map(_beyond, by_model[session_id], known[session_id])))
        yield (session_id, day, model, source, *rest)


def _add(total: list[Any], amounts: Iterable[Any]) -> None:
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
    """Give tokens and cost of all sessions that nobody began for another."""
    params = {"least": min_message_count, "archived": bool(include_archived)}
    tokens, cost = tx.one("usage_totals", params) or (0, 0)
    return {"tokens": int(tokens), "cost_usd": float(cost)}
