"""The SQL page: a query over the tables of the captured history, its rows, and the same as CSV."""

import csv
import io
import re
import time
from typing import Any, Final

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from threadkeep.errors import ThreadkeepError
from threadkeep.knowledge.typed_sql import MOST_ROWS, SqlTable, tables_named
from threadkeep.web.page import SitePage, SiteRequest, visit_of
from threadkeep.web.pages.usage import harmless
from threadkeep.web.words import opening_address, session_address

_SHOWN: Final = 200
_WIDE: Final = 400  # characters of a cell
_SESSION: Final = re.compile(r"([a-z][a-z0-9-]{1,30}):([\w.@:/-]{4,200})")
_REF: Final = re.compile(r"(?:message|command|visit|run|lesson|node):[0-9]{1,18}")
# Each is understood by SQLite and by PostgreSQL.
EXAMPLES: Final = {
    "Longest sessions": """SELECT harness || ':' || session_id AS session, title, entries
FROM tk_sessions
WHERE is_subagent = 0
ORDER BY entries DESC
LIMIT 20""",
    "Tokens by model": """SELECT model, count(*) AS responses, sum(input) AS uncached_input,
  sum(cache_read) AS cached_input, sum(output) AS output
FROM tk_usage
GROUP BY model
ORDER BY output DESC""",
    "Tools that fail most": """SELECT c.tool, count(*) AS results, sum(c.error) AS failed
FROM tk_entries AS c
WHERE c.kind = 'tool_result'
GROUP BY c.tool
HAVING sum(c.error) > 0
ORDER BY failed DESC""",
    "Latest failed results": """SELECT 'message:' || e.id AS ref,
  s.harness || ':' || s.session_id AS session, e.tool,
  date(e.at / 1000, 'unixepoch', 'localtime') AS day
FROM tk_entries AS e JOIN tk_sessions AS s ON s.id = e.session
WHERE e.error = 1
ORDER BY e.at DESC
LIMIT 50""",
    "Commands run most": """SELECT command, count(*) AS times,
  count(*) FILTER (WHERE exit_code <> 0) AS failed
FROM events
GROUP BY command
ORDER BY times DESC
LIMIT 30""",
    "Sessions per day": """SELECT date(started_at / 1000, 'unixepoch', 'localtime') AS day,
  count(*) AS sessions
FROM tk_sessions
WHERE is_subagent = 0
GROUP BY day
ORDER BY day DESC""",
}


class SqlCell(msgspec.Struct, frozen=True):
    """One value as it is shown; `href` opens what it names."""

    text: str
    number: bool = False
    href: str = ""


class SqlExample(msgspec.Struct, frozen=True):
    """A query to begin with."""

    name: str
    sql: str


class SqlPage(msgspec.Struct, frozen=True):
    """A query and what it gave."""

    q: str
    columns: tuple[str, ...]
    rows: tuple[tuple[SqlCell, ...], ...]
    cut: bool
    took_ms: int
    problem: str
    hint: str
    tables: tuple[SqlTable, ...]
    asked: tuple[SqlTable, ...] = ()  # those in the query of which we know what they hold
    examples: tuple[SqlExample, ...] = tuple(SqlExample(*one) for one in EXAMPLES.items())


def show(visit: SiteRequest) -> SqlPage:
    """Run the query of the address."""
    q = visit.query.get("q", "").strip()
    browse = visit.stores.browse()
    tables = tuple(browse.tables())
    if not q:
        return SqlPage("", (), (), cut=False, took_ms=0, problem="", hint="", tables=tables)
    began = time.perf_counter()
    limit = max(1, visit.number("limit", _SHOWN, MOST_ROWS))
    try:
        found = browse.select(q[:20_000], limit=limit)
    except ThreadkeepError as error:  # what is wrong with it is said beside it
        return SqlPage(q, (), (), False, 0, error.message, error.hint, tables)  # noqa: FBT003
    took = round((time.perf_counter() - began) * 1000)
    rows = tuple(cells(found.columns, row) for row in found.rows)
    asked = tables_named(q, tables)
    page: dict[str, Any] = {
        "columns": found.columns,
        "rows": rows,
        "cut": found.cut,
        "asked": asked,
    }
    return SqlPage(q, took_ms=took, problem="", hint="", tables=tables, **page)


def cells(columns: tuple[str, ...], row: tuple[Any, ...]) -> tuple[SqlCell, ...]:
    """Write a row for people; sessions and refs are links."""
    named = dict(zip(columns, row, strict=False))
    agent = named.get("harness")
    pairs = zip(columns, row, strict=True)
    return tuple(_cell(name, value, agent) for name, value in pairs)


def _cell(name: str, value: object, agent: object) -> SqlCell:
    if value is None:
        return SqlCell("")
    text = str(value)
    cut = text if len(text) <= _WIDE else f"{text[:_WIDE]}…"
    if isinstance(value, int | float):
        return SqlCell(cut, number=True)
    if name == "session_id" and isinstance(agent, str):
        return SqlCell(cut, href=session_address(agent, text))
    if name in ("session", "ref"):
        if _REF.fullmatch(text):
            return SqlCell(cut, href=opening_address(text))
        if session := _SESSION.fullmatch(text):
            return SqlCell(cut, href=session_address(session[1], session[2]))
    return SqlCell(cut)


async def download(request: Request) -> Response:
    """Return the rows of a query as a table for other programs."""
    text = await run_in_threadpool(_csv, visit_of(request))
    named = {"content-disposition": 'attachment; filename="query.csv"'}
    return Response(text, media_type="text/csv; charset=utf-8", headers=named)


def _csv(visit: SiteRequest) -> str:
    limit = max(1, visit.number("limit", MOST_ROWS, MOST_ROWS))
    found = visit.stores.browse().select(visit.query.get("q", "")[:20_000], limit=limit)
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(map(harmless, found.columns))
    for row in found.rows:
        writer.writerow(harmless(one) if isinstance(one, str) else one for one in row)
    return out.getvalue()


PAGES: Final = (SitePage("/sql", "sql.html", show, "SQL"),)
ROUTES: Final[tuple[BaseRoute, ...]] = (Route("/sql.csv", download),)
