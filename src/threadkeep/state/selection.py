"""Which sessions a clean-up takes: the same filters for pruning, archiving and counting."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from threadkeep.base.tx import Tx
from threadkeep.errors import Invalid
from threadkeep.state.context import Json, StateContext
from threadkeep.state.lineage import get_compression_lineage

DAY: Final = 86_400.0
_ENDED, _ABANDONED, _ANY, _OPEN = range(4)
_LIKE: Final = ("title_like", "model_like", "branch_like")


class PruneFilters(NamedTuple):
    """What narrows a clean-up; of what is None, anything will do."""

    last_active_before: float | None = None
    last_active_after: float | None = None
    started_before: float | None = None
    started_after: float | None = None
    source: str | None = None
    title_like: str | None = None
    end_reason: str | None = None
    cwd_prefix: str | None = None
    min_messages: int | None = None
    max_messages: int | None = None
    archived: bool | None = None
    model_like: str | None = None
    provider: str | None = None
    user_id: str | None = None
    chat_id: str | None = None
    chat_type: str | None = None
    branch_like: str | None = None
    min_tokens: int | None = None
    max_tokens: int | None = None
    min_cost: float | None = None
    max_cost: float | None = None
    min_tool_calls: int | None = None
    max_tool_calls: int | None = None


class Selection(NamedTuple):
    """Filters, and what else decides: open sessions, pins, chains of compressions."""

    filters: PruneFilters
    state: int = _ENDED
    include_pinned: bool = False
    pinned_only: bool = False
    whole_lineages: bool = False


def selection(
    ctx: StateContext,
    older_than_days: float | None,
    source: str | None,
    *,
    include_open: bool = False,
    only_open: bool = False,
    include_pinned: bool = False,
    pinned_only: bool = False,
    whole_lineages: bool = False,
    **filters: Any,
) -> Selection:
    """Make a selection of what a caller gave; a filter that there is none of is a TypeError.

    Days without activity count unless a time is given. Pinned sessions are spared, with all of
    their chain; `whole_lineages` also keeps one that goes on in a session that is not selected.
    """
    chosen = PruneFilters(source=source, **filters)
    if chosen.last_active_before is None and chosen.started_before is None:
        chosen = chosen._replace(last_active_before=_cutoff(ctx, older_than_days))
    state = _OPEN if only_open else _ANY if include_open else _default_state(ctx)
    return Selection(chosen, state, include_pinned, pinned_only, whole_lineages)


def _default_state(ctx: StateContext) -> int:
    return _ENDED if ctx.form.answers.prunes_ended_only else _ABANDONED


def _cutoff(ctx: StateContext, days: float | None) -> float | None:
    if days is None:
        return None
    if not isinstance(days, (int, float)) or days != days:  # noqa: PLR0124  (no NaN)
        msg = f"sessions cannot be older than {days!r} days"
        raise Invalid(msg, hint="give the number of days since the last message")
    return ctx.clock() - days * DAY


def select(
    ctx: StateContext, tx: Tx, chosen: Selection, session_id: str | None = None
) -> list[Json]:
    """Give the selected sessions, or one if it is among them; the longest idle first."""
    # Every text sorts before any blob: between these are all sessions.
    first, last = ("", b"") if session_id is None else (session_id, session_id)
    params = {"first": first, "last": last, "state": chosen.state, **_params(chosen.filters)}
    found = tx.dicts("selected_sessions", params)
    if chosen.pinned_only or not chosen.include_pinned:
        pinned = _pinned(ctx, tx, session_id)
        found = [row for row in found if (row["id"] in pinned) == chosen.pinned_only]
    if chosen.whole_lineages:
        ids = {row["id"] for row in found}
        found = [row for row in found if set(_after(ctx, tx, row)) <= ids]
    return found


def _params(filters: PruneFilters) -> Json:
    given = filters._asdict()
    values: Json = {name: None if value == "" else value for name, value in given.items()}
    for name in (*_LIKE, "provider"):
        values[name] = None if values[name] is None else str(values[name]).lower()
    for name in _LIKE:
        values[name] = None if values[name] is None else f"%{escaped(values[name])}%"
    if values["cwd_prefix"] is not None:
        folder = str(values["cwd_prefix"])
        values["cwd_prefix"] = folder.rstrip("/\\") or folder
    below = escaped(values["cwd_prefix"] or "")
    return {**values, "below": f"{below}/%", "below_windows": f"{below}\\\\%"}


def escaped(text: str) -> str:
    """Take the meaning from the signs that LIKE knows."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _pinned(ctx: StateContext, tx: Tx, session_id: str | None) -> set[str]:
    """A pin on one session of a chain spares the whole of it."""
    if session_id is None:
        pins = [str(row[0]) for row in tx.all("pinned_sessions")]
        return {member for pin in pins for member in get_compression_lineage(ctx, tx, pin)}
    chain = get_compression_lineage(ctx, tx, session_id)
    return {*chain} if any(tx.one("is_pinned", {"id": member}) for member in chain) else set()


def _after(ctx: StateContext, tx: Tx, row: Json) -> Iterator[str]:
    """Give the sessions in which one goes on."""
    if row["end_reason"] == "compression":
        chain = get_compression_lineage(ctx, tx, row["id"])
        yield from chain[chain.index(row["id"]) + 1 :] if row["id"] in chain else ()
