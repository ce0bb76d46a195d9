"""Full-text search over messages: what a person types is found, and never fails.

Candidates come newest first, and only the first few hundred are ranked: ranking every match of
a common word takes 230 ms in 200,000 messages, this 6. If filters leave
too few, or pages go deeper, older candidates follow as further tiers, ranked among themselves. So
no filter loses a message, and pages neither overlap nor skip while nothing is written.
"""

import json
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from threadkeep.base.snippet import snippet_of_match
from threadkeep.base.tx import NoText, Row, Tx
from threadkeep.errors import Invalid, ThreadkeepError
from threadkeep.state.context import V6, Json, StateContext, reading
from threadkeep.state.rows import messages_of
from threadkeep.state.search.candidates import (
    LAST_ID,
    CandidateIds,
    ContractFinder,
    Finder,
    IdRange,
)
from threadkeep.state.search.index_fill import calls_text, drain, how_far, raw_bytes, text_of
from threadkeep.state.search.query import (
    Group,
    as_prefixes,
    counts,
    groups_of,
    scores,
    without_column,
)
from threadkeep.state.side_values import readable_text

log = logging.getLogger(__name__)

SORTS: Final = ("rank", "newest", "oldest")
FIELDS: Final = (
    *("id", "session_id", "role", "snippet", "timestamp", "tool_name", "source", "model"),
    *("session_started", "context"),
)
# Does something in a transaction: the one of the whole search, or one of its own.
Run = Callable[[Callable[[Tx], Any]], Any]
# Jobs that run by the clock say the same every day and would bury what people said.
SOURCE_WEIGHTS: Final[Mapping[str, float]] = {"cron": 0.3}

# The first tier grows until so many of its hits are of undemoted sources, or it is this large.
_ENOUGH: Final = 100
_LARGEST_TIER: Final = 32_000
_SCORED_CHARACTERS: Final = 8_000_000
_SNIPPET: Final = 240  # characters: about 40 words
_CONTEXT: Final = 200
_SHOWN: Final = ("id", "timestamp", "role", "content", "tool_calls", "tool_name")
# So few unseen messages are read faster than indexed, and without the writer lock.
_FEW_WAITING: Final = 64
_PATIENCE: Final = 0.05
_DRAINING: Final = 2.0


class StateHit(NamedTuple):
    """A message that matches and passes the filters; with its text if it is to be ranked."""

    id: int
    timestamp: float
    source: str
    text: bytes


def search_messages(
    ctx: StateContext,
    query: str,
    source_filter: Sequence[str] | None = None,
    exclude_sources: Sequence[str] | None = None,
    role_filter: Sequence[str] | None = None,
    limit: int = 20,
    offset: int = 0,
    sort: str | None = None,
    include_inactive: bool = False,  # noqa: FBT001, FBT002
    fields: Collection[str] | None = None,
    *,
    since: float | None = None,
    until: float | None = None,
    exclude_sessions: Sequence[str] | None = None,
    session_id: str | None = None,
    source_weights: Mapping[str, float] | None = None,
) -> list[Json]:
    """Find messages by their text, tool names and arguments of tool calls; best first.

    Words must all occur; `"a phrase"`, `OR`, `NOT` and `prefix*` work, and any punctuation may
    stand in it. `since` (inclusive) and `until` (exclusive) are Unix seconds; `sort` is rank,
    newest or oldest; `source_weights` multiplies scores by source, {"cron": 0.3} unless given.
    Messages that were taken back are left out unless `include_inactive`; those that a compaction
    summarised are found. `fields` picks some of a hit's keys.
    """
    _check(query, limit, offset, sort)
    _check_times(since, until)
    shown = _fields(fields)
    if query and ctx.form.answers is V6:
        query = without_column(query)
    groups = groups_of(query) if query else []
    if not groups or limit == 0 or (source_filter is not None and not source_filter):
        return []
    filters = {
        "session_id": session_id,
        "since": since,
        "until": until,
        "roles": _listed(role_filter),
        "sources": _listed(source_filter),
        "not_sources": _listed(exclude_sources),
        "not_sessions": _listed(exclude_sessions),
        "inactive": include_inactive,
        "texts": sort in (None, "rank"),
    }
    weights = SOURCE_WEIGHTS if source_weights is None else source_weights
    asked = SessionSearch(ctx, query, groups, filters, sort or "rank", weights)
    wanted = LAST_ID if limit < 0 else offset + limit
    newest = sort != "oldest"
    if not ctx.side:  # each look is a transaction of its own: Hermes may want to write
        place: IdRange | None = IdRange(newest=newest)
        if session_id is not None:
            place = reading(ctx, lambda tx: _place(tx, session_id, newest=newest))
        tools = bool(role_filter) and "tool" in _several(role_filter or ())
        page = slice(offset, wanted)
        hits = [] if place is None else _find_beside(asked, place, page, tools=tools)
    else:
        _catch_up(ctx)
        with ctx.db.read() as tx:
            place = _place(tx, session_id, newest=newest)
            hits = _find(asked, tx, place, slice(offset, wanted)) if place is not None else []
    return hits if shown is None else [{key: hit[key] for key in shown} for hit in hits]


def _find(asked: "SessionSearch", tx: Tx, place: IdRange, page: slice) -> list[Json]:
    """Search through our index; where nothing is found, for words that begin so."""
    found: list[StateHit] = []
    for groups in dict.fromkeys((tuple(asked.groups), tuple(as_prefixes(asked.groups)))):
        rounds = Finder(asked.ctx, tx, groups, place).rounds()
        found = _ordered(asked._replace(groups=groups), rounds, lambda act: act(tx), page.stop)
        if found:
            break
    return _hits(asked.ctx, tx, found[page], asked.query)


class SessionSearch(NamedTuple):
    """One search: where, for what, with which filters, in which order."""

    ctx: StateContext
    query: str
    groups: Sequence[Group]
    filters: Json
    sort: str
    weights: Mapping[str, float]


def _find_beside(asked: SessionSearch, place: IdRange, page: slice, *, tools: bool) -> list[Json]:
    """Search through Hermes's indexes; where nothing is found that may be shown, in words."""
    ctx = asked.ctx
    run: Run = partial(reading, ctx)
    finder = ContractFinder(ctx, asked.groups, place, tools=tools)
    found: list[StateHit] = []
    for rounds in (finder.rounds, finder.within_words):
        found = _ordered(asked, rounds(), run, page.stop)
        if found:
            break
    shown: list[Json] = run(lambda tx: _hits(ctx, tx, found[page], asked.query))
    return shown


def _ordered(
    asked: SessionSearch, rounds: Iterable[CandidateIds], run: Run, wanted: int
) -> list[StateHit]:
    return _in_order(asked, _tiers(asked, rounds, run), wanted)


def _fields(fields: Collection[str] | None) -> list[str] | None:
    """Check which keys of a hit are wanted; they come in the order in which a hit has them."""
    if fields is None:
        return None
    if isinstance(fields, str):
        msg = "search fields must be a collection of names, not a string"
        raise TypeError(msg)
    unknown = sorted(set(fields) - set(FIELDS))
    if unknown:
        msg = f"a hit has no field {', '.join(unknown)}"
        raise Invalid(msg, hint=f"the fields are {', '.join(FIELDS)}")
    return [field for field in FIELDS if field in fields]


def _check(query: object, limit: object, offset: object, sort: str | None) -> None:
    if query is not None and not isinstance(query, str):
        msg = f"a search is text, not {type(query).__name__}"
        raise Invalid(msg, hint="pass the words to look for")
    if not isinstance(limit, int) or not isinstance(offset, int) or offset < 0:
        msg = f"a page of hits is not limit={limit!r}, offset={offset!r}"
        raise Invalid(msg, hint="pass whole numbers; limit=-1 gives all hits")
    if sort is not None and sort not in SORTS:
        msg = f"hits are not sorted by {sort!r}"
        raise Invalid(msg, hint=f"use one of {', '.join(SORTS)}")


def _check_times(*times: object) -> None:
    for each in times:
        if each is not None and not isinstance(each, (int, float)):
            msg = f"a time is not {each!r}"
            raise Invalid(msg, hint="pass Unix seconds, as time.time() returns them")


def _listed(values: Sequence[str] | None) -> str | None:
    """Make a list a parameter; nothing in it means no filter."""
    return json.dumps(_several(values)) if values else None


def _several(values: Sequence[str]) -> list[str]:
    return [values] if isinstance(values, str) else list(values)


def _catch_up(ctx: StateContext) -> None:
    """Let our index see what is new, unless that would make the search wait for a writer."""
    if ctx.db.read_only or not ctx.side:
        return
    try:
        with ctx.db.read() as tx:
            if how_far(tx).waiting <= _FEW_WAITING:
                return
        drain(ctx, seconds=_DRAINING, patience=_PATIENCE)
    except ThreadkeepError as error:  # what is not indexed is read instead
        log.debug("the index of %s waits: %s", ctx.db.name, error)


def _place(tx: Tx, session_id: str | None, *, newest: bool) -> IdRange | None:
    if session_id is None:
        return IdRange(newest=newest)
    first, last = tx.all("span_of_session", {"session_id": session_id})[0]
    return None if first is None else IdRange(first, last, newest)


# ---------------------------------------------------------------------- tiers


def _tiers(
    asked: SessionSearch, rounds: Iterable[CandidateIds], run: Run
) -> Iterator[list[StateHit]]:
    """Return the hits of each round that the rounds before did not have; the first few as one."""
    seen: set[int] = set()
    tier: list[StateHit] = []
    first = True
    for found in rounds:
        fresh = found.ids - seen
        seen |= fresh
        tier += run(partial(_filtered, asked, ids=fresh))
        undemoted = sum(1 for hit in tier if asked.weights.get(hit.source, 1.0) >= 1.0)
        if first and found.cut and undemoted < _ENOUGH and len(seen) < _LARGEST_TIER:
            continue
        yield tier
        tier, first = [], False
    yield tier


def _filtered(asked: SessionSearch, tx: Tx, ids: Collection[int]) -> list[StateHit]:
    if not ids:
        return []
    params = {**asked.filters, "ids": json.dumps(sorted(ids, reverse=True))}
    hits: list[StateHit] = []
    characters = 0
    # One by one: they may hold more pictures than fit into memory; those behind get no score.
    for message_id, timestamp, source, text in tx.each("filter_candidates", params):
        characters += len(text or b"")
        kept = raw_bytes(text) if characters <= _SCORED_CHARACTERS else b""
        hits.append(StateHit(message_id, _seconds(timestamp), text_of(source) or "", kept))
    return hits


def _seconds(value: object) -> float:
    """Read a time; another program may have written anything."""
    return float(value) if isinstance(value, (int, float)) else 0.0


def _in_order(asked: SessionSearch, tiers: Iterable[list[StateHit]], wanted: int) -> list[StateHit]:
    """Sort tier after tier, until there are as many as wanted."""
    ordered: list[StateHit] = []
    for tier in tiers:
        if asked.sort == "rank":
            ordered += _ranked(tier, asked.groups, asked.weights)
        else:
            newest = asked.sort == "newest"
            ordered += sorted(tier, key=lambda hit: (hit.timestamp, hit.id), reverse=newest)
        if len(ordered) >= wanted:
            break
    return ordered


def _ranked(
    tier: list[StateHit], groups: Sequence[Group], weights: Mapping[str, float]
) -> list[StateHit]:
    """Sort hits by score, the newer of two equal ones first."""
    points = scores(counts(groups, (hit.text for hit in tier)))
    scored = [
        (point * weights.get(hit.source, 1.0), hit.id, hit)
        for point, hit in zip(points, tier, strict=True)
    ]
    return [hit for _, _, hit in sorted(scored, reverse=True)]


# ---------------------------------------------------------------------- hits


def _hits(ctx: StateContext, tx: Tx, found: Sequence[StateHit], query: str) -> list[Json]:
    if not found:
        return []
    rows = tx.all("hits", {"ids": json.dumps([hit.id for hit in found])})
    about = {row[0]: row[1:] for row in rows}
    return [_hit(ctx, tx, hit.id, about[hit.id], query) for hit in found]


def _hit(ctx: StateContext, tx: Tx, message_id: int, about: Row, query: str) -> Json:
    session_id, source, model, started = about
    around = _around(ctx, tx, message_id, session_id)
    message = next(message for message in around if message["id"] == message_id)
    return {
        "id": message_id,
        "session_id": session_id,
        "role": message["role"],
        "snippet": _snippet(message, query),
        "timestamp": message["timestamp"],
        "tool_name": message["tool_name"],
        "source": source,
        "model": model,
        "session_started": started,
        "context": [
            {"role": each["role"], "content": _readable(each["content"])[:_CONTEXT]}
            for each in around
        ],
    }


def _around(ctx: StateContext, tx: Tx, message_id: int, session_id: str) -> list[Json]:
    """Read a message and its neighbours in the session."""
    params = {"id": message_id, "session_id": session_id}
    try:
        return messages_of(ctx, tx, tx.all("message_with_neighbours", params))
    except NoText as error:  # another program wrote text that is no UTF-8
        log.debug("around message %d: %s", message_id, error)
        rows = tx.all("message_as_bytes", {"id": message_id})
        return [dict(zip(_SHOWN, (*row[:2], *map(text_of, row[2:])), strict=True)) for row in rows]


def _readable(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, bytes):
        return content.decode("utf-8", "replace")
    return readable_text(content)


def _snippet(message: Json, query: str) -> str:
    """Show the place of the hit: in the content, else in the tool calls or the tool's name."""
    content = _readable(message["content"])
    texts = (content, calls_text(message["tool_calls"]), message["tool_name"] or "")
    shown = (snippet_of_match(text, query, _SNIPPET) for text in texts if text)
    return next(filter(None, shown), content[:_SNIPPET])
