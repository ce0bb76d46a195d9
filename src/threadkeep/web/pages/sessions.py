"""The list of sessions: a filter bar that is the address, what can be chosen, and rows."""

import re
from typing import Final

import msgspec

from threadkeep.errors import NotFound
from threadkeep.knowledge.query import format_query, parse_query
from threadkeep.knowledge.results import Query, SessionPage
from threadkeep.web.page import SitePage, SiteRequest

_ROWS: Final = 50
_MOST_ROWS: Final = 200
_CHOICES: Final = 12  # that are shown of one key
_LIKE_A_FILTER: Final = re.compile(r"-?[A-Za-z]+:[^/]\S*")
_QUOTED: Final = re.compile(r'"[^"]*"')
_TIMES: Final = (("today", "Today"), ("7d", "Last 7 days"), ("30d", "Last 30 days"))
_MARKS: Final = (("live", "Live now"), ("failed", "With errors"), ("subagent", "Subagents"))


class Choice(msgspec.Struct, frozen=True):
    """Something that can be chosen, and the query that choosing it (or giving it up) makes."""

    name: str
    count: int | None
    on: bool
    q: str


class Facet(msgspec.Struct, frozen=True):
    """The choices for one key."""

    name: str
    choices: tuple[Choice, ...]


class SessionsPage(msgspec.Struct, frozen=True):
    """What the page shows."""

    q: str
    page: SessionPage
    count: int | None = None
    words: str = ""  # without the rest of the query, to be found in a session
    missing: bool = False  # nothing was ever captured here
    unread: tuple[str, ...] = ()  # what looks like a filter and is none


class Facets(msgspec.Struct, frozen=True):
    """What the list can be narrowed down to; counted apart, so that rows need not wait for it."""

    q: str
    facets: tuple[Facet, ...]


def load(visit: SiteRequest) -> SessionsPage:
    """Read one page of the list; all of it is counted only with the first."""
    text, after = visit.query.get("q", ""), visit.query.get("after") or None
    asked = parse_query(text, visit.now, visit.zone)
    try:
        browse = visit.stores.browse()
    except NotFound:
        return SessionsPage(text, SessionPage((), None), missing=True)
    page = browse.sessions(asked, after=after, limit=visit.number("limit", _ROWS, _MOST_ROWS) or 1)
    words = asked.words.replace('"', " ").strip()
    if after is not None or visit.query.get("only") == "list":
        return SessionsPage(text, page, words=words)
    return SessionsPage(text, page, browse.count(asked), words, unread=unread(asked.words))


def unread(words: str) -> tuple[str, ...]:
    """Give the words of a query that look like a filter: a key that is not known, or its value."""
    plain = _QUOTED.sub(" ", words).replace('"', " ").split()
    return tuple(word for word in plain if _LIKE_A_FILTER.fullmatch(word))


def load_facets(visit: SiteRequest) -> Facets:
    """Count what the sessions of a query have in common."""
    text = visit.query.get("q", "")
    asked = parse_query(text, visit.now, visit.zone)
    found = visit.stores.browse().facets(asked)
    facets = tuple(_facet(visit, asked, name, found[name]) for name in found if found[name])
    return Facets(text, (*facets, *_always(visit, asked)))


def toggled(query: Query, key: str, value: str) -> Query:
    """Choose a value of a key, or give it up if it is chosen."""
    values: tuple[str, ...] = getattr(query, key)
    kept = tuple(one for one in values if one != value)
    return msgspec.structs.replace(query, **{key: kept if value in values else (*values, value)})


def _facet(visit: SiteRequest, query: Query, key: str, found: list[tuple[str, int]]) -> Facet:
    chosen: tuple[str, ...] = getattr(query, key)
    choices = [
        Choice(value, count, value in chosen, _text(visit, toggled(query, key, value)))
        for value, count in found[:_CHOICES]
        if value
    ]
    return Facet(key, tuple(choices))


def _always(visit: SiteRequest, query: Query) -> tuple[Facet, ...]:
    """Give the choices that need no counting: how long ago, and marks."""
    times = []
    for text, name in _TIMES:
        since = parse_query(f"since:{text}", visit.now, visit.zone).since
        on = query.since == since and query.until is None
        other = msgspec.structs.replace(query, since=None if on else since, until=None)
        times.append(Choice(name, None, on, _text(visit, other)))
    marks = [
        Choice(name, None, mark in query.marks, _text(visit, toggled(query, "marks", mark)))
        for mark, name in _MARKS
    ]
    return (Facet("when", tuple(times)), Facet("only", tuple(marks)))


def _text(visit: SiteRequest, query: Query) -> str:
    return format_query(query, visit.zone)


PAGES: Final = (
    SitePage("/sessions", "sessions.html", load, "Sessions", kept=True),
    SitePage("/sessions/facets", "sessions_facets.html", load_facets, "Narrow down", kept=True),
)
