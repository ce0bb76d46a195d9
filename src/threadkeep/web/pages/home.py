"""The first page: what happened today, what goes on now, what was last, and what is wrong."""

from datetime import datetime, timedelta
from typing import Final

import msgspec

from threadkeep.errors import NotFound, ThreadkeepError
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.results import Sum, Today
from threadkeep.service.health import AlarmView, active_alarms
from threadkeep.web.page import SitePage, SiteRequest

_WEEK: Final = 7


class HomePage(msgspec.Struct, frozen=True):
    """What happened today and this week."""

    today: Today | None  # None: nothing was captured yet
    day: str
    week: dict[str, dict[str, Sum]]  # day -> model -> sum
    week_total: Sum
    alarms: tuple[AlarmView, ...]
    trouble: str = ""  # why there is nothing to show, unless nothing was captured yet
    hint: str = ""  # what to do next


def show(visit: SiteRequest) -> HomePage:
    """Tell what happened today; without a store, what to do to have one."""
    here = datetime.fromtimestamp(visit.now / 1000, visit.zone)
    day = str(here.date())
    try:
        browse = visit.stores.browse()
    except NotFound:
        return HomePage(None, day, {}, Sum(), ())
    except ThreadkeepError as error:  # another's file, an older one, a damaged one
        return HomePage(None, day, {}, Sum(), (), error.message, error.hint)
    if browse.notes:
        return HomePage(None, day, {}, Sum(), (), hint=browse.notes[0])
    midnight = here.replace(hour=0, minute=0, second=0, microsecond=0)
    first = midnight - timedelta(days=_WEEK - 1)
    report = browse.usage(Query(since=int(first.timestamp() * 1000)), zone=visit.zone)
    days = [str((first + timedelta(days=number)).date()) for number in range(_WEEK)]
    return HomePage(
        today=browse.today(visit.now),
        day=day,
        week={one: report.by_day.get(one, {}) for one in days},
        week_total=report.total,
        alarms=active_alarms(visit.stores.home, visit.stores.db),
    )


PAGES: Final = (SitePage("/", "home.html", show, "Home", kept=True),)
