"""The health pages: sources, alarms, the service and its files; the doctor's word comes after.

What takes longer than a look (the logs on the disk, the doctor) are pieces of their own, which
the page asks for when it is shown.
"""

from typing import Any, Final

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from threadkeep import __version__
from threadkeep.base import json
from threadkeep.errors import Invalid, ThreadkeepError
from threadkeep.home.stores import Stores
from threadkeep.service.health import AlarmView, HomeHealth, ack, health_of
from threadkeep.service.web_access import Login, Logins, read_token
from threadkeep.web.answers import json_answer
from threadkeep.web.page import PIECE, SitePage, SiteRequest

_NOTE: Final = 500  # characters of what is noted with an alarm


class CoverageRow(msgspec.Struct, frozen=True):
    """How much of one source is in the store."""

    name: str
    agent: str
    places: tuple[str, ...]
    found: int
    current: int
    excluded: int
    gone: int
    bytes: int
    percent: float
    behind: tuple[str, ...]


class UnknownRow(msgspec.Struct, frozen=True):
    """A record type that this version does not know."""

    agent: str
    kind: str
    count: int
    last_seen: int


class CoveragePage(msgspec.Struct, frozen=True):
    """What is on the disk, compared with the store."""

    covered: tuple[CoverageRow, ...]
    unknown: tuple[UnknownRow, ...]
    trouble: str = ""


class FindingRow(msgspec.Struct, frozen=True):
    """One finding of the doctor."""

    group: str
    check: str
    level: str
    what: str
    cause: str
    fix: str


class FindingsPage(msgspec.Struct, frozen=True):
    """What the doctor found."""

    level: str
    took_ms: int
    findings: tuple[FindingRow, ...]


def show_health(visit: SiteRequest) -> HomeHealth:
    """Look at the home, quickly."""
    return health_of(visit.stores.home, visit.stores.db)


def show_coverage(visit: SiteRequest) -> CoveragePage:
    """Compare the logs on the disk with the store."""
    try:
        with visit.stores.home.history(visit.stores.db, read_only=True) as history:
            found = history.coverage()
    except ThreadkeepError as error:
        return CoveragePage((), (), error.message)
    rows = [
        CoverageRow(
            name=one.name,
            agent=one.agent,
            places=tuple(one.places),
            found=one.found,
            current=one.current,
            excluded=one.excluded,
            gone=one.gone,
            bytes=one.bytes_found,
            percent=round(one.percent, 1),
            behind=tuple(one.behind),
        )
        for one in found.sources
        if one.found or one.gone or one.places
    ]
    unknown = (UnknownRow(one.agent, one.kind, one.count, one.last_seen) for one in found.unknown)
    return CoveragePage(tuple(rows), tuple(unknown))


def show_findings(visit: SiteRequest) -> FindingsPage:
    """Ask the doctor, without a deep check."""
    from threadkeep.service.doctor.doctor import diagnose  # noqa: PLC0415  (loads much, seldom needed)

    found = diagnose(visit.stores.home, visit.stores.db, version=__version__)
    rows = [
        FindingRow(one.group, one.check, one.level, one.what, one.cause, one.fix)
        for one in found.findings
    ]
    return FindingsPage(found.level, found.took_ms, tuple(rows))


async def acknowledge(request: Request) -> Response:
    """Note that a person has seen an alarm; a page that asked shows itself again."""
    note = _note_in(await request.body())
    alarm = await run_in_threadpool(
        _ack, request.app.state.stores, request.path_params["number"], note
    )
    if request.headers.get(PIECE) == "true":
        return RedirectResponse("/health", 303)
    return json_answer(request, alarm)


def _ack(stores: Stores, number: int, note: str) -> AlarmView:
    return ack(stores.history("change").store, number, note)


def _note_in(body: bytes) -> str:
    if not body.strip():
        return ""
    said: Any = json.decode(body)
    note = said.get("note", "") if isinstance(said, dict) else None
    if not isinstance(note, str):
        raise Invalid("the note of an alarm must be text", hint='send {"note": "…"}, or nothing')
    return note.strip()[:_NOTE]


PAGES: Final = (
    SitePage("/health", "health.html", show_health, "Health"),
    SitePage("/health/coverage", "health_coverage.html", show_coverage, "Coverage"),
    SitePage("/health/findings", "health_findings.html", show_findings, "Findings"),
)
ROUTES: Final[tuple[BaseRoute, ...]] = (
    Route("/health/alarms/{number:int}/ack", acknowledge, methods=["POST"]),
)


# ------------------------------------------------------------------------------
# The browsers that were let in: listed, and ended.


class LoginsPage(msgspec.Struct, frozen=True):
    """The browsers that were let in."""

    logins: list[Login]


def show_logins(visit: SiteRequest) -> LoginsPage:
    """List the logins of the home."""
    home = visit.stores.home
    return LoginsPage(Logins(home).listed(read_token(home), visit.login))


async def revoke(request: Request) -> Response:
    """End a login; a page that asked shows itself again."""
    login = request.path_params["login"]
    ended = await run_in_threadpool(_revoke, request.app.state.stores, login)
    if request.headers.get(PIECE) == "true":
        return RedirectResponse("/logins", 303)
    return json_answer(request, ended)


def _revoke(stores: Stores, login: str) -> Login:
    return Logins(stores.home).revoke(read_token(stores.home), login)


LOGINS_PAGES: Final = (SitePage("/logins", "logins.html", show_logins, "Browsers"),)
LOGINS_ROUTES: Final[tuple[BaseRoute, ...]] = (
    Route("/logins/{login}/revoke", revoke, methods=["POST"]),
)
