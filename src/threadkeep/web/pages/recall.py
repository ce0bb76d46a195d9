"""The recall pages: hits across everything, a quoted answer, how an error ended, a thing opened."""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final, cast, get_args

import msgspec

from threadkeep.knowledge.query import parse_query
from threadkeep.knowledge.results import Query
from threadkeep.memory.ask import Answer
from threadkeep.memory.fixed import Fix
from threadkeep.memory.memory import Memory
from threadkeep.memory.records import Filters, Hit, HitDetail, Kind, RecallResult
from threadkeep.web.addresses import opening_address, session_address, with_query
from threadkeep.web.page import Elsewhere, SitePage, SiteRequest

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_SHOWN: Final = 20
_COMPARED: Final = 50  # hits whose facets are counted
_MOST: Final = 500
_FACET: Final = 8
_AROUND: Final = 5
_SECONDS: Final = 1000


class HitLink(msgspec.Struct, frozen=True):
    """A hit, and the address at which it opens."""

    hit: Hit
    href: str


class RecallChoice(msgspec.Struct, frozen=True):
    """One value of a facet; following `href` chooses it, or lets go of it."""

    value: str
    count: int
    chosen: bool
    href: str


class RecallFacet(msgspec.Struct, frozen=True):
    """One way to narrow the hits down."""

    name: str
    choices: tuple[RecallChoice, ...]


class RecallPage(msgspec.Struct, frozen=True):
    """The hits of a question."""

    q: str
    asked: dict[str, str]  # what was chosen besides the words
    ref: str  # what the hits are like; empty: they answer the words
    hits: tuple[HitLink, ...]
    facets: tuple[RecallFacet, ...]
    candidates: int
    by_meaning: bool
    notes: tuple[str, ...]
    took_ms: int
    more: str | None  # address of the same with more hits


class AskPage(msgspec.Struct, frozen=True):
    """A question, and what memory says to it."""

    q: str
    answer: Answer | None
    asked: dict[str, str]


class FixedPage(msgspec.Struct, frozen=True):
    """An error, and how errors like it ended."""

    q: str
    fixes: tuple[Fix, ...]


class OpenedPage(msgspec.Struct, frozen=True):
    """Something recalled, whole."""

    opened: HitDetail
    before: tuple[HitLink, ...]
    after: tuple[HitLink, ...]


# ---------------------------------------------------------------------- loading


def recall(visit: SiteRequest) -> RecallPage:
    """Recall what the address asks for."""
    began = time.perf_counter()
    q = visit.query.get("q", "").strip()
    asked = {name: value for name in _ASKED if (value := visit.query.get(name, ""))}
    query = parse_query(q, visit.now, visit.zone)
    filters = filters_of(query, asked, visit)
    limit = max(1, visit.number("limit", _SHOWN, _MOST))
    compared = max(limit, _COMPARED)
    found = _found(visit.stores.memory(), query.words, filters, compared)
    rows = tuple(row_of(hit) for hit in found.hits[:limit])
    more = with_query("/recall", q=q, **asked, limit=limit * 2)
    return RecallPage(
        q=q,
        asked=asked,
        ref="",
        hits=rows,
        facets=facets_of(q, asked, found.hits),
        candidates=found.candidates,
        by_meaning=found.by_meaning,
        notes=found.notes,
        took_ms=round((time.perf_counter() - began) * _SECONDS),
        more=more if len(found.hits) > limit else None,
    )


def _found(memory: Memory, words: str, filters: Filters, limit: int) -> RecallResult:
    """Recall words; where nothing has them, the last one may not be typed to its end."""
    found = memory.recall(words, filters, limit=limit, explain=True)
    if found.hits or not words[-1:].isalnum():
        return found
    return memory.recall(f"{words}*", filters, limit=limit, explain=True)


def ask(visit: SiteRequest) -> AskPage:
    """Answer a question with quotations."""
    q = visit.query.get("q", "").strip()
    if not q:
        return AskPage(q, None, {})
    query = parse_query(q, visit.now, visit.zone)
    asked = {name: value for name in _ASKED if (value := visit.query.get(name, ""))}
    filters = filters_of(query, asked, visit)
    answer = visit.stores.memory().ask(query.words or q, filters=filters, zone=visit.zone)
    return AskPage(q, answer, asked)


def fixed(visit: SiteRequest) -> FixedPage:
    """Find how an error was overcome."""
    q = visit.query.get("q", "").strip()
    return FixedPage(q, tuple(visit.stores.memory().fixed(q, limit=10)) if q else ())


def open_ref(visit: SiteRequest) -> OpenedPage:
    """Open a reference; messages and nodes have pages of their own."""
    opened = visit.stores.memory().open(visit.path["ref"], around=_AROUND)
    hit = opened.hit
    if hit.kind == "message" and hit.harness and hit.session_id:
        raise Elsewhere(session_address(hit.harness, hit.session_id, hit.key))
    if hit.kind == "node" and hit.uuid:
        raise Elsewhere(f"/memory/{hit.uuid}")
    before, after = (tuple(map(row_of, beside)) for beside in (opened.before, opened.after))
    return OpenedPage(opened, before, after)


def similar(visit: SiteRequest) -> RecallPage:
    """Find what is like something that was recalled."""
    began = time.perf_counter()
    ref = visit.path["ref"]
    found = visit.stores.memory().similar(ref, limit=_SHOWN)
    return RecallPage(
        q="",
        asked={},
        ref=ref,
        hits=tuple(map(row_of, found.hits)),
        facets=(),
        candidates=found.candidates,
        by_meaning=found.by_meaning,
        notes=found.notes,
        took_ms=round((time.perf_counter() - began) * _SECONDS),
        more=None,
    )


# ---------------------------------------------------------------------- pure


def row_of(hit: Hit) -> HitLink:
    """Give a hit with the address at which it opens."""
    if hit.kind == "message" and hit.harness and hit.session_id:
        return HitLink(hit, session_address(hit.harness, hit.session_id, hit.key))
    if hit.kind == "node" and hit.uuid:
        return HitLink(hit, f"/memory/{hit.uuid}")
    return HitLink(hit, opening_address(hit.ref))


def filters_of(query: Query, asked: dict[str, str], visit: SiteRequest) -> Filters:
    """Put what was typed and what was chosen together; what was chosen goes first."""
    since = parse_query(f"since:{asked.get('since', '')}", visit.now, visit.zone).since
    kind = cast("Kind", asked.get("kind"))
    return Filters(
        project=asked.get("project") or _first(query.project),
        source=asked.get("source"),
        harness=asked.get("agent") or _first(query.agent),
        since=query.since if since is None else since,
        until=query.until,
        branch=_first(query.branch),
        kinds=(kind,) if kind in KINDS else (),
    )


def _first(values: tuple[str, ...]) -> str | None:
    return values[0] if values else None


def facets_of(q: str, asked: dict[str, str], hits: Iterable[Hit]) -> tuple[RecallFacet, ...]:
    """Count what the hits can be narrowed down by; a chosen value stays to be let go of."""
    hits = list(hits)
    found = []
    for name, value_of in _FACETS.items():
        counts = Counter(value for hit in hits if (value := value_of(hit)))
        chosen = asked.get(name, "")
        if chosen:
            counts.setdefault(chosen, 0)
        if len(counts) > 1 or chosen:
            choices = (_choice(name, one, q, asked) for one in counts.most_common(_FACET))
            found.append(RecallFacet(name, tuple(choices)))
    return tuple(found)


def _choice(name: str, counted: tuple[str, int], q: str, asked: dict[str, str]) -> RecallChoice:
    value, count = counted
    is_chosen = asked.get(name) == value
    then: dict[str, Any] = {**asked, name: "" if is_chosen else value}
    return RecallChoice(value, count, is_chosen, with_query("/recall", q=q, **then))


def _source(hit: Hit) -> str | None:
    """Name where a hit comes from, in the words that the filter takes."""
    return {"command": "shell", "page": "browser", "ci": "ci"}.get(hit.kind)


_FACETS: Final[dict[str, Callable[[Hit], str | None]]] = {
    "kind": lambda hit: hit.kind,
    "agent": lambda hit: hit.harness,
    "project": lambda hit: hit.project,
    "source": _source,
}
_ASKED: Final = (*_FACETS, "since")

PAGES: Final = (
    SitePage("/recall", "recall.html", recall, "Recall"),
    SitePage("/ask", "ask.html", ask, "Ask"),
    SitePage("/fixed", "fixed.html", fixed, "Fixed"),
    SitePage("/open/{ref}", "opened.html", open_ref, "Recalled"),
    SitePage("/similar/{ref}", "similar.html", similar, "Similar"),
)
