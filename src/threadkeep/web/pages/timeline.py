"""The timeline page: one day in the order of time, what each source did in a lane of its own."""

from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from threadkeep.knowledge.results import Query
from threadkeep.memory.timeline import Moment
from threadkeep.web.addresses import opening_address, with_query
from threadkeep.web.page import SitePage, SiteRequest
from threadkeep.web.wording import when

_LIMIT: Final = 600
_AGENTS: Final = "agents"
_LANES: Final = (_AGENTS, "shell", "browser", "ci")  # from left to right
# What comes first of what happened in the same moment.
_FIRST: Final = {"prompt": 0, "answer": 2}


class TimelineRow(msgspec.Struct, frozen=True):
    """Something that happened, in the lane of its source."""

    moment: Moment
    lane: int
    href: str


class Hour(msgspec.Struct, frozen=True):
    """What happened in one hour."""

    hour: int
    rows: tuple[TimelineRow, ...]


class TimelinePage(msgspec.Struct, frozen=True):
    """One day."""

    day: str
    weekday: str
    before: str  # addresses of the days around it
    after: str
    latest: str  # the last day on which anything happened
    project: str
    projects: tuple[str, ...]
    lanes: tuple[str, ...]
    hours: tuple[Hour, ...]
    counts: dict[str, int]  # kind -> how many
    cut: bool  # there was more than is shown


def show(visit: SiteRequest) -> TimelinePage:
    """Tell what happened on a day; without one, on the last day on which anything did."""
    project = visit.query.get("project", "").strip()
    today = datetime.fromtimestamp(visit.now / 1000, visit.zone).date()
    latest = _latest(visit) or today
    day = read_day(visit.query.get("day", "")) or latest
    moments = visit.stores.memory().timeline(
        project=project or None, day=day, zone=visit.zone, limit=_LIMIT
    )
    return page_of(
        day, moments, visit.zone, latest=latest, project=project, projects=_projects(visit)
    )


def read_day(text: str) -> date | None:
    """Read a day; None if it is none, or one that has no neighbour."""
    try:
        found = date.fromisoformat(text.strip())
    except ValueError:
        return None
    return found if date(2, 1, 1) <= found <= date(9998, 12, 30) else None


def _latest(visit: SiteRequest) -> date | None:
    page = visit.stores.browse().sessions(Query(), limit=1)
    ended = page.items[0].session.ended_at if page.items else None
    return None if ended is None else read_day(when(ended, visit.zone)[:10])


def _projects(visit: SiteRequest) -> tuple[str, ...]:
    return tuple(name for name, _ in visit.stores.browse().facets(Query()).get("project", ()))


# ---------------------------------------------------------------------- pure


def page_of(
    day: date,
    moments: Sequence[Moment],
    zone: ZoneInfo,
    *,
    latest: date,
    project: str = "",
    projects: tuple[str, ...] = (),
) -> TimelinePage:
    """Sort a day into hours and lanes."""
    lanes = lanes_of(moments)
    counts: dict[str, int] = {}
    for one in moments:
        counts[one.kind] = counts.get(one.kind, 0) + one.count
    return TimelinePage(
        day=str(day),
        weekday=day.strftime("%A"),
        before=_address(day - timedelta(days=1), project),
        after=_address(day + timedelta(days=1), project),
        latest=_address(latest, project),
        project=project,
        projects=projects,
        lanes=lanes,
        hours=hours_of(moments, lanes, zone),
        counts=counts,
        cut=len(moments) >= _LIMIT,
    )


def _address(day: date, project: str) -> str:
    return with_query("/timeline", day=str(day), project=project)


def lanes_of(moments: Iterable[Moment]) -> tuple[str, ...]:
    """Name the lanes that have something."""
    having = {_lane(moment) for moment in moments}
    return tuple(lane for lane in _LANES if lane in having)


def _lane(moment: Moment) -> str:
    return moment.source if moment.source in _LANES else _AGENTS


def hours_of(moments: Iterable[Moment], lanes: Sequence[str], zone: ZoneInfo) -> tuple[Hour, ...]:
    """Sort moments into hours, each in the lane of its source."""
    hours: dict[int, list[TimelineRow]] = {}
    for one in sorted(moments, key=lambda one: (one.at, _FIRST.get(one.kind, 1))):
        row = TimelineRow(one, lanes.index(_lane(one)) + 1, opening_address(one.ref))
        hours.setdefault(_local(one.at, zone).hour, []).append(row)
    return tuple(Hour(hour, tuple(rows)) for hour, rows in hours.items())


def _local(at: int, zone: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(at / 1000, zone)


PAGES: Final = (SitePage("/timeline", "timeline.html", show, "Timeline"),)
