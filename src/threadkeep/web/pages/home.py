"""The first page: today or the last active week, what is live, what was last, what is wrong."""

import tempfile
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from threadkeep.errors import NotFound, ThreadkeepError
from threadkeep.home.budget import BudgetState, budget_state
from threadkeep.home.stores import Stores
from threadkeep.knowledge.library import Browse
from threadkeep.knowledge.query import Query, day_of, next_day, start_of
from threadkeep.knowledge.results import Sum, Today
from threadkeep.service.health import AlarmView, active_alarms
from threadkeep.service.maintenance import CatchUpState, catching_up
from threadkeep.web.answers import json_answer
from threadkeep.web.page import SitePage, SiteRequest

_WEEK: Final = 7
_MOST_COUNTED: Final = 1000


class HomePage(msgspec.Struct, frozen=True):
    """What happened today and this week."""

    today: Today | None  # None: nothing captured yet
    day: str
    week: dict[str, dict[str, Sum]]  # day -> model -> sum
    week_total: Sum
    alarms: tuple[AlarmView, ...]
    week_sessions: int | None = None
    quiet: bool = False  # nothing happened this week: it is the last one in which something did
    queued: bool = False  # something waits to be learned from
    capturing: CatchUpState | None = None  # how far, while it is at what was written before
    budgets: tuple[BudgetState, ...] = ()
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
        return HomePage(None, day, {}, Sum(), (), trouble=error.message, hint=error.hint)
    if browse.notes:
        return HomePage(None, day, {}, Sum(), (), hint=browse.notes[0])
    today = browse.today(visit.now)
    last = here.date()
    week = _week(visit, browse, last)
    quiet = not (week.week_total.answers or today.sessions or today.commands or today.pages)
    active = _last_active(visit, browse) if quiet else None
    if active is not None:
        week = _week(visit, browse, active)
    return msgspec.structs.replace(
        week,
        today=today,
        day=day,
        quiet=active is not None,
        queued="enrichment_queue" in _tables(browse) and browse.store.queues.tickets_wait(),
        capturing=catching_up(visit.stores.home, visit.now),
        budgets=budget_state(visit.stores.home, browse, visit.now),
        alarms=active_alarms(visit.stores.home, visit.stores.db),
    )


class ProgressPage(msgspec.Struct, frozen=True):
    """How far capture is with what was written before; None when it is not at that."""

    capturing: CatchUpState | None


def show_progress(visit: SiteRequest) -> ProgressPage:
    """Tell how far capture is; whoever looks at it asks again and again."""
    return ProgressPage(catching_up(visit.stores.home, visit.now))


def _tables(browse: Browse) -> set[str]:
    with browse.database.read() as tx:
        return tx.tables()


def _week(visit: SiteRequest, browse: Browse, last: date) -> HomePage:
    """Sum up the seven days that end with one."""
    first = last - timedelta(days=_WEEK - 1)
    query = Query(since=start_of(first, visit.zone), until=start_of(next_day(last), visit.zone))
    report = browse.usage(query, zone=visit.zone)
    days = [str(first + timedelta(days=number)) for number in range(_WEEK)]
    by_day = {one: report.by_day.get(one, {}) for one in days}
    return HomePage(None, "", by_day, report.total, (), week_sessions=browse.count(query))


def _last_active(visit: SiteRequest, browse: Browse) -> date | None:
    page = browse.sessions(Query(), limit=1)
    ended = page.items[0].session.ended_at if page.items else None
    return None if ended is None else day_of(ended, visit.zone)


async def use_own_history(request: Request) -> Response:
    """Capture what agents left on this machine, and show it instead of the demo."""
    stores: Stores = request.app.state.stores
    sessions = await run_in_threadpool(_own_history, stores)
    return json_answer(request, {"sessions": sessions})


def _own_history(stores: Stores) -> int:
    home = stores.home
    if not home.has("knowledge"):
        with (
            tempfile.TemporaryDirectory(prefix="threadkeep-") as folder,
            home.history(Path(folder) / "knowledge.db") as history,
        ):
            look = history.capture(dry_run=True)
        if not any(part.found for part in look.agents.values()):
            hint = "`threadkeep sources` lists where agents were looked for"
            raise NotFound("No agent logs were found on this machine", hint=hint)
    with home.history() as history:
        history.capture()
        count = len(history.sessions(limit=_MOST_COUNTED))
    stores.show_own()
    return count


PAGES: Final = (
    SitePage("/", "home.html", show, "Home", kept=True),
    SitePage("/progress", "progress.html", show_progress, "Progress of capture"),
)
ROUTES: Final[tuple[BaseRoute, ...]] = (Route("/own-history", use_own_history, methods=["POST"]),)
