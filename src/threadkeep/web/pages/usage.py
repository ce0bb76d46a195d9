"""The usage page: tokens and cost by day, model, project and agent; and the same as CSV."""

import csv
import io
from collections.abc import Iterator
from datetime import datetime
from typing import Final

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from threadkeep.home.budget import BudgetState, budget_state
from threadkeep.knowledge.query import parse_query
from threadkeep.knowledge.results import BillingBlock, Sum, UsageReport
from threadkeep.web.page import SitePage, SiteRequest, visit_of

_METRICS: Final = ("tokens", "cost")
_COLUMNS: Final = ("day", "model", *Sum.__struct_fields__)


class UsagePage(msgspec.Struct, frozen=True):
    """What models took of what a query means."""

    q: str
    by: str  # tokens or cost
    today: str
    report: UsageReport
    activity: dict[str, int]  # day -> tokens, of the last year
    block: BillingBlock | None  # the five hours that run now
    budgets: tuple[BudgetState, ...] = ()


def show(visit: SiteRequest) -> UsagePage:
    """Sum up what the query means."""
    q = visit.query.get("q", "").strip()
    query = parse_query(q, visit.now, visit.zone)
    browse = visit.stores.browse()
    by = visit.query.get("by", "")
    return UsagePage(
        q=q,
        by=by if by in _METRICS else _METRICS[0],
        today=str(datetime.fromtimestamp(visit.now / 1000, visit.zone).date()),
        report=browse.usage(query, zone=visit.zone),
        activity=browse.activity(msgspec.structs.replace(query, since=None, until=None)),
        block=browse.block_now(query, visit.now),
        budgets=budget_state(visit.stores.home, browse, visit.now),
    )


async def download(request: Request) -> Response:
    """Return usage by day and model as a table for other programs."""
    text = await run_in_threadpool(_csv, visit_of(request))
    named = {"content-disposition": 'attachment; filename="usage.csv"'}
    return Response(text, media_type="text/csv; charset=utf-8", headers=named)


def _csv(visit: SiteRequest) -> str:
    query = parse_query(visit.query.get("q", ""), visit.now, visit.zone)
    return as_csv(visit.stores.browse().usage(query, zone=visit.zone))


def as_csv(report: UsageReport) -> str:
    """Write a report as CSV: a line for each day and model; money is in microdollars."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(_COLUMNS)
    writer.writerows(_rows(report))
    return out.getvalue()


def _rows(report: UsageReport) -> Iterator[tuple[object, ...]]:
    for day in sorted(report.by_day):
        for model, one in sorted(report.by_day[day].items()):
            yield (day, harmless(model), *msgspec.structs.astuple(one))


def harmless(text: str) -> str:
    """A table program runs what begins like a formula; a log may name a model anything."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


PAGES: Final = (SitePage("/usage", "usage.html", show, "Usage", kept=True),)
ROUTES: Final[tuple[BaseRoute, ...]] = (Route("/usage.csv", download),)
