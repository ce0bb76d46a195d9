"""The list of sessions: a filter bar that is the address, what can be chosen, and rows."""

import io
import re
import zipfile
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from threadkeep.base.verbs import LARGEST
from threadkeep.errors import Invalid, NotFound
from threadkeep.home.hand_off import FORMATS, exported
from threadkeep.home.stores import Stores
from threadkeep.knowledge import results
from threadkeep.knowledge.library import Browse
from threadkeep.knowledge.query import Query, format_query, parse_query, unread
from threadkeep.web.answers import as_json
from threadkeep.web.markup import anchor
from threadkeep.web.page import SitePage, SiteRequest
from threadkeep.web.renderer import all_messages, offline_page
from threadkeep.web.words import with_query

_ROWS: Final = 50
_MOST_ROWS: Final = 200
_CHOICES: Final = 12  # that are shown of one key
_TIMES: Final = (("today", "Today"), ("7d", "Last 7 days"), ("30d", "Last 30 days"))
_MARKS: Final = (
    *(("live", "Live now"), ("starred", "Starred"), ("failed", "With errors")),
    ("subagent", "Subagents"),
)
_SORTS: Final = (
    *(("", "Latest"), ("cost", "Cost"), ("tokens", "Tokens"), ("messages", "Messages")),
    *(("tools", "Tool calls"), ("errors", "Errors"), ("minutes", "Duration")),
)
_GROUPED: Final = {"": "None", "day": "Day", "agent": "Agent", "project": "Project"}
_IN_A_GROUP: Final = 5
_MOST_EXPORTED: Final = 200


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


class ListLink(msgspec.Struct, frozen=True):
    """Another order of the list, or another way to group it."""

    name: str
    on: bool
    href: str


class SessionGroup(msgspec.Struct, frozen=True):
    """The latest sessions of one agent or project."""

    name: str
    count: int
    href: str
    items: tuple[results.SessionSummary, ...]


class SessionsPage(msgspec.Struct, frozen=True):
    """What the page shows."""

    q: str
    page: results.SessionPage
    count: int | None = None
    words: str = ""  # without the rest of the query, to be found in a session
    missing: bool = False  # nothing was ever captured here
    unread: tuple[str, ...] = ()  # what looks like a filter and is none
    typed: str = ""  # the last word, if only what begins with it was found
    group: str = ""  # day, agent or project
    groups: tuple[SessionGroup, ...] = ()
    sorts: tuple[ListLink, ...] = ()
    groupings: tuple[ListLink, ...] = ()


class Facets(msgspec.Struct, frozen=True):
    """What the list can be narrowed down to; counted apart, so that rows need not wait for it."""

    q: str
    facets: tuple[Facet, ...]


def load(visit: SiteRequest) -> SessionsPage:
    """Read one page of the list; all of it is counted only with the first."""
    text, after = visit.query.get("q", ""), visit.query.get("after") or None
    try:
        browse = visit.stores.browse()
    except NotFound:
        return SessionsPage(text, results.SessionPage((), None), missing=True)
    said = parse_query(text, visit.now, visit.zone)
    asked = as_typed(browse, said)
    page = browse.sessions(asked, cursor=after, limit=visit.number("limit", _ROWS, _MOST_ROWS) or 1)
    group = visit.query.get("group", "")
    shown = SessionsPage(
        text,
        page,
        words=asked.text.replace('"', " ").replace("*", "").strip(),
        group=group if group in _GROUPED else "",
    )
    if after is not None or visit.query.get("only") == "list":
        return shown
    return msgspec.structs.replace(
        shown,
        count=browse.count(asked),
        unread=unread(said.text),
        typed="" if asked is said else said.text.split()[-1],
        groups=_groups(visit, asked, group),
        sorts=_sorts(visit, said, group),
        groupings=tuple(
            ListLink(name, key == shown.group, with_query("/sessions", q=text, group=key))
            for key, name in _GROUPED.items()
        ),
    )


def as_typed(browse: Browse, query: Query) -> Query:
    """Return a query that finds what begins with its last word, where nothing has it whole."""
    words = query.text
    if not words[-1:].isalnum():
        return query
    page = browse.sessions(query, limit=1)
    if page.items and words.split()[-1] not in page.missing:
        return query
    begun = msgspec.structs.replace(query, text=f"{words}*")
    found = browse.sessions(begun, limit=1)
    return begun if found.items and len(found.missing) <= len(page.missing) else query


def _sorts(visit: SiteRequest, query: Query, group: str) -> tuple[ListLink, ...]:
    return tuple(
        ListLink(
            name,
            query.sort == (key or None),
            with_query(
                "/sessions",
                q=_text(visit, msgspec.structs.replace(query, sort=key or None)),
                group=group,
            ),
        )
        for key, name in _SORTS
    )


def _groups(visit: SiteRequest, query: Query, key: str) -> tuple[SessionGroup, ...]:
    """Return the latest sessions of each agent or project that a query means."""
    if key not in ("agent", "project"):
        return ()
    browse = visit.stores.browse()
    found = []
    for value, count in browse.facets(query).get(key, ())[:_CHOICES]:
        if query_of := _only(query, key, value):
            items = browse.sessions(query_of, limit=_IN_A_GROUP).items
            href = with_query("/sessions", q=_text(visit, query_of))
            found.append(SessionGroup(value, count, href, items))
    return tuple(one for one in found if one.items)


def _only(query: Query, key: str, value: str) -> Query | None:
    """Narrow a query to one value of a key; None where it means others."""
    wanted: tuple[str, ...] = getattr(query, key)
    if wanted and not any(one.casefold() in value.casefold() for one in wanted):
        return None
    return msgspec.structs.replace(query, **{key: (value,)})


def load_facets(visit: SiteRequest) -> Facets:
    """Count what the sessions of a query have in common."""
    text = visit.query.get("q", "")
    asked = parse_query(text, visit.now, visit.zone)
    browse = visit.stores.browse()
    found = browse.facets(as_typed(browse, asked))
    found["tag"] = [(one.tag, one.count) for one in browse.store.labels.tags()]
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
    """Return the choices that need no counting: how long ago, and marks."""
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


# ------------------------------------------------------------------------------
# One session: its transcript in windows, what is around it, and finding in it.

_BLOCKS: Final = 100
_MOST_BLOCKS: Final = 500
_SPOTS: Final = 200
_THE_END: Final = LARGEST


class SessionShown(msgspec.Struct, frozen=True):
    """What the page of a session shows."""

    title: str
    ref: str
    detail: results.SessionDetail
    window: results.Window
    target: str  # the anchor of the message that was asked for
    raw: bool
    words: str = ""
    spots: tuple[results.Spot, ...] = ()


class MoreMessages(msgspec.Struct, frozen=True):
    """Some more messages of a session."""

    ref: str
    window: results.Window
    children: tuple[results.SessionSummary, ...]
    raw: bool


class SessionTurns(msgspec.Struct, frozen=True):
    """The turns of a session."""

    ref: str
    turns: tuple[results.TurnSum, ...]


class WholeMessage(msgspec.Struct, frozen=True):
    """One message, whole."""

    ref: str
    message: results.TranscriptMessage
    raw: bool


class SessionSpots(msgspec.Struct, frozen=True):
    """Where words stand in a session."""

    ref: str
    words: str
    spots: tuple[results.Spot, ...]


def session_load(visit: SiteRequest) -> SessionShown:
    """Read a session, and the window of it that the address asks for."""
    detail = visit.stores.browse().session(visit.path["ref"])
    at = visit.query.get("at")
    words = visit.query.get("words", "")
    return SessionShown(
        title=detail.listed.session.name[:120],
        ref=detail.listed.ref,
        detail=detail,
        window=_window(visit, detail.listed.ref),
        target=anchor(at) if at else "",
        raw=_raw(visit),
        words=words,
        spots=_spots(visit, detail.listed.ref, words),
    )


def load_messages(visit: SiteRequest) -> MoreMessages:
    """Read a further window of a session; who knows that it started others says so."""
    ref = visit.path["ref"]
    children = visit.stores.browse().session(ref).children if "kids" in visit.query else ()
    return MoreMessages(ref, _window(visit, ref), children, _raw(visit))


def load_turns(visit: SiteRequest) -> SessionTurns:
    """Read the turns of a session."""
    detail = visit.stores.browse().session(visit.path["ref"])
    return SessionTurns(detail.listed.ref, detail.turns)


def load_message(visit: SiteRequest) -> WholeMessage:
    """Read one message."""
    ref, at = visit.path["ref"], visit.query.get("at", "")
    window = visit.stores.browse().window(ref, at=at, limit=1)
    if not window.messages:
        raise NotFound(f"there is no message {at!r} in {ref}", hint="open the session without it")
    return WholeMessage(ref, window.messages[0], _raw(visit))


def load_found(visit: SiteRequest) -> SessionSpots:
    """Find words in a session."""
    ref, words = visit.path["ref"], visit.query.get("words", "")
    return SessionSpots(ref, words, _spots(visit, ref, words))


def _spots(visit: SiteRequest, ref: str, words: str) -> tuple[results.Spot, ...]:
    return tuple(visit.stores.browse().find(ref, words, _SPOTS)) if words.strip() else ()


def _window(visit: SiteRequest, ref: str) -> results.Window:
    limit = visit.number("limit", _BLOCKS, _MOST_BLOCKS) or 1
    browse = visit.stores.browse()
    at = visit.query.get("at")
    if at:
        return browse.window(ref, at=at, limit=limit)
    if "end" in visit.query:
        return browse.window(ref, before=_THE_END, limit=limit)
    if "before" in visit.query:
        return browse.window(ref, before=visit.number("before", 0, _THE_END), limit=limit)
    if "after" in visit.query:
        return browse.window(ref, after=visit.number("after", 0, _THE_END), limit=limit)
    return browse.window(ref, limit=limit)


def _raw(visit: SiteRequest) -> bool:
    return visit.query.get("raw") == "1"


_SESSION: Final = "/sessions/{ref:path}"
SESSION_PAGES: Final = (
    SitePage(f"{_SESSION}/messages", "session_messages.html", load_messages, "Messages", kept=True),
    SitePage(f"{_SESSION}/message", "session_message.html", load_message, "Message", kept=True),
    SitePage(f"{_SESSION}/turns", "session_turns.html", load_turns, "Turns", kept=True),
    SitePage(f"{_SESSION}/find", "session_find.html", load_found, "Find", kept=True),
    SitePage(_SESSION, "session.html", session_load, "Session", kept=True),
)


# ------------------------------------------------------------------------------
# A session to take away: as one offline page, or in any form that another program reads.

_ENDINGS: Final = {
    "html": "html",
    "markdown": "md",
    "jsonl": "jsonl",
    "claude-code": "jsonl",
    "codex": "jsonl",
}
_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "json": "application/json",
    "jsonl": "application/x-ndjson",
}
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")


def export(request: Request) -> Response:
    """Return a session as a file."""
    form = request.query_params.get("format", "html")
    if form not in (*FORMATS, "json"):
        known = ", ".join(sorted({*FORMATS, "json"}))
        raise Invalid(f"there is no format {form!r}", hint=f"there are {known}")
    stores: Stores = request.app.state.stores
    detail = stores.browse().session(request.path_params["ref"])
    ending = _ENDINGS.get(form, "json")
    name = file_name(detail, form, ending)
    return Response(
        _content(request, stores, detail, form),
        media_type=_TYPES[ending],
        headers={"content-disposition": f'attachment; filename="{name}"'},
    )


def _content(request: Request, stores: Stores, detail: results.SessionDetail, form: str) -> bytes:
    listed = detail.listed
    if form == "html":
        renderer = request.app.state.renderer
        return offline_page(stores.browse(), listed.ref, renderer).encode("utf-8", "replace")
    if form == "json":
        messages = list(all_messages(stores.browse(), listed.ref))
        return as_json({"session": detail, "messages": messages})
    return exported(stores.archive(), listed.session, form).encode("utf-8", "replace")


def export_several(request: Request) -> Response:
    """Return several sessions as offline pages in one archive."""
    refs = list(dict.fromkeys(request.query_params.getlist("ref")))
    if not 1 <= len(refs) <= _MOST_EXPORTED:
        hint = f"name 1 to {_MOST_EXPORTED} of them: ?ref=…&ref=…"
        raise Invalid(f"{len(refs)} sessions can't be exported at once", hint=hint)
    stores: Stores = request.app.state.stores
    archive, names = io.BytesIO(), set[str]()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        for ref in refs:
            detail = stores.browse().session(ref)
            name = file_name(detail, "html", "html")
            while name in names:
                name = f"{detail.listed.session.session_id[:12]}-{name}"
            names.add(name)
            zipped.writestr(name, _content(request, stores, detail, "html"))
    named = {"content-disposition": 'attachment; filename="sessions.zip"'}
    return Response(archive.getvalue(), media_type="application/zip", headers=named)


def file_name(detail: results.SessionDetail, form: str, ending: str) -> str:
    """Name a file after a session, with nothing in it that a header or a disk minds."""
    session = detail.listed.session
    words = _UNSAFE.sub("-", session.name.lower())[:60].strip("-.")
    kind = "" if form in {"html", "markdown", "json", "jsonl"} else f".{form}"
    name = _UNSAFE.sub("-", f"{session.agent}-{words or session.session_id[:40]}").strip("-.")
    return f"{name or 'session'}{kind}.{ending}"


ROUTES: Final[tuple[BaseRoute, ...]] = (
    Route("/sessions/export", export_several),
    Route("/sessions/{ref:path}/export", export),
)
