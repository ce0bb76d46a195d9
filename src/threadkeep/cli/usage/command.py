"""`threadkeep usage`: tokens of all agents and what they cost, as tables, live, or as one line."""

import os
import select
import sys
from collections.abc import Callable, Iterator
from io import UnsupportedOperation
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from zoneinfo import ZoneInfo

import click
import msgspec

from threadkeep.cli.command import Call, store_command
from threadkeep.cli.options import OneOf, query_options
from threadkeep.cli.output import counted, document, note, one_line, paging, table, write
from threadkeep.cli.times import day_span, read_times
from threadkeep.cli.usage.rows import (
    COLUMNS,
    KEYS,
    PERIODS,
    Row,
    cells,
    dollars,
    hours_text,
    own_words,
    row_json,
    rows_of,
    sum_json,
    tokens_of,
)
from threadkeep.errors import Invalid, NotFound, ThreadkeepError

if TYPE_CHECKING:
    from threadkeep.home.budget import BudgetState
    from threadkeep.home.statusline import RecentUsage
    from threadkeep.knowledge.library import Browse
    from threadkeep.knowledge.query import Query
    from threadkeep.knowledge.results import Split, Sum, UsageReport


# ------------------------------------------------------------------------------
# `threadkeep usage statusline`: one short line, for a prompt or for Claude Code's status line.

Json = dict[str, Any]

_PATIENCE: Final = 0.05  # seconds for the first byte: a prompt's stdin may be a pipe that is silent
_MOST: Final = 1_000_000
_THOUSAND: Final = 1000


def show_line(call: Call, *, cost: bool) -> None:
    """Print the line; a store that is not there or cannot be read makes it shorter."""
    told = read_told()
    lately = _lately(call, told)
    if call.as_json:
        block = None if lately is None or lately.block is None else sum_json(lately.block.total)
        today = None if lately is None else sum_json(lately.today)
        document(line=line_of(told, lately, cost=cost), today=today, block=block)
    else:
        write(line_of(told, lately, cost=cost))


def _lately(call: Call, told: Json) -> "RecentUsage | None":
    from threadkeep.base.clock import now_ms
    from threadkeep.home.statusline import spent_lately

    session = told.get("session_id")
    try:
        return spent_lately(
            call.home,
            now_ms(),
            path=call.db,
            session_id=session if isinstance(session, str) else None,
        )
    except ThreadkeepError:
        return None


def line_of(told: Json, lately: "RecentUsage | None", *, cost: bool = True) -> str:
    """Write the line of what Claude Code told and of what was used lately."""
    return " · ".join(_parts(told, lately, cost=cost)) or "nothing captured yet"


def _parts(told: Json, lately: "RecentUsage | None", *, cost: bool) -> Iterator[str]:
    model = _at(told, "model", "display_name")
    if isinstance(model, str) and model:
        yield one_line(model, 30)
    spent = _at(told, "cost", "total_cost_usd")
    if cost and isinstance(spent, int | float):
        yield f"{dollars(round(spent * 1_000_000))} session"
    elif lately is not None and lately.session is not None and lately.session.answers:
        yield f"{_amount(lately.session, cost=cost)} session"
    if lately is None:
        return
    share = _share(lately.today.cost, lately.budget) if cost else ""
    yield f"{_amount(lately.today, cost=cost)} today{share}"
    if cost and lately.month is not None and lately.month_budget is not None:
        spent = _share(lately.month.cost, lately.month_budget)
        yield f"{dollars(lately.month.cost)} this month{spent}"
    if lately.block is not None:
        left = hours_text(lately.block.minutes_left)
        pace = lately.block.cost_per_hour
        rate = f", {dollars(pace)}/h" if cost and pace is not None else ""
        yield f"{_amount(lately.block.total, cost=cost)} block ({left} left{rate})"


def _share(spent: int, budget: int | None) -> str:
    """Say how much of a budget is spent."""
    from threadkeep.home.statusline import level_of

    if budget is None:
        return ""
    if level_of(spent, budget) == "over":
        return f" (over the budget of {dollars(budget)}!)"
    return f" ({100 * spent // budget}% of {dollars(budget)})"


def _amount(one: "Sum", *, cost: bool) -> str:
    """Write what was used: money where it is wanted and known, else tokens."""
    known = cost and not (one.answers and one.unpriced == one.answers)
    return dollars(one.cost) if known else f"{short(tokens_of(one))} tokens"


def short(count: int) -> str:
    """Write a large number in few characters: 950, 12.3k, 4.5M."""
    size, units = float(count), iter(("k", "M", "G", "T"))
    unit = ""
    while size >= _THOUSAND:
        size, unit = size / _THOUSAND, next(units, unit)
    return f"{size:.1f}{unit}" if unit else str(count)


def _at(told: Json, *path: str) -> object:
    found: object = told
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


# ---------------------------------------------------------------------- stdin


def read_told() -> Json:
    """Read the JSON that Claude Code writes to its status line; nothing where there is none."""
    try:
        found = msgspec.json.decode(_stdin())
    except (msgspec.DecodeError, OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _stdin() -> bytes:
    if sys.stdin is None or sys.stdin.isatty():
        return b""
    try:
        descriptor = sys.stdin.fileno()
    except UnsupportedOperation:
        return sys.stdin.read(_MOST).encode()
    read = b""
    while len(read) < _MOST and select.select([descriptor], [], [], _PATIENCE)[0]:
        more = os.read(descriptor, 65_536)
        if not more:
            break
        read += more
    return read


_REPORTS: Final = (*PERIODS, "blocks", "statusline")
_SPLITS: Final = ("project", "model", "agent")
_LOOK_SECONDS: Final = 2.0  # what is left of a block changes also while nobody writes
_SPARE: Final = ("reasoning", "cache write", "responses", "cache read", "input", "output")


@store_command("statusline", "threadkeep statusline")
@click.option("--no-cost", is_flag=True, help="Tokens only.")
def statusline(call: Call, *, no_cost: bool) -> None:
    """Print one line about usage for a prompt: the same as `usage statusline`."""
    show_line(call, cost=not no_cost)


class UsageView(NamedTuple):
    """Which table is wanted."""

    by: str
    breakdown: bool
    cost: bool
    zone: ZoneInfo
    split: str = ""  # a row for each project, agent or model of a day, week or month

    def report(self, browse: "Browse", query: "Query") -> "UsageReport":
        """Sum up what the table needs."""
        split = cast("Split", self.split or "model")
        return browse.usage(query, zone=self.zone, sessions=self.by == "session", split=split)

    def rows(self, found: "UsageReport") -> list[Row]:
        """Return the rows of the table."""
        return rows_of(found, self.by, self.split)


class _Report(OneOf):
    """A kind of report; a day, such as `yesterday`, means the usage of that day."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Read a report or a day."""
        if isinstance(value, str) and day_span(value) is not None:
            return value
        return super().convert(value, param, ctx)


class _Key(OneOf):
    """What a row is about; an old name of it is understood."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Read one of the names."""
        from threadkeep.base.old_words import renamed

        return super().convert(renamed("by", value, ("by",))[1], param, ctx)


@store_command(
    "usage",
    "threadkeep usage --by day --since 7d",
    "threadkeep usage daily --breakdown --since 30d",
    "threadkeep usage weekly --by project",
    "threadkeep usage blocks --live",
    "threadkeep usage statusline",
    "threadkeep usage --project harbor --json",
    lists=True,
    pages=True,
)
@click.argument("report", required=False, type=_Report(_REPORTS))
@click.option("--by", type=_Key(KEYS), help="What to group by.  [default: model]")
@click.option(
    "--breakdown", is_flag=True, help="List the models of each day, week or month below it."
)
@click.option("--live", is_flag=True, help="Redraw it as it changes, until Ctrl-C.")
@click.option("--no-cost", is_flag=True, help="Tokens only.")
@click.option(
    "--timezone",
    metavar="ZONE",
    help="The time zone that days are counted in, such as Europe/Madrid.",
)
@query_options(words=False, everything=False)
def usage(
    call: Call,
    *,
    report: str | None,
    by: str | None,
    breakdown: bool,
    live: bool,
    no_cost: bool,
    timezone: str | None,
    query: "Query",
) -> None:
    """Show the tokens that agents used and their cost; a response in several logs counts once.

    `daily`, `weekly` (a week is named by its Monday) and `monthly` are tables by time, `blocks` are
    the five-hour windows of subscriptions, `statusline` is one line for a prompt or for Claude
    Code. Input means uncached input. Costs use list prices; a plus means that some models are
    unpriced. With --json money is in microdollars, and `agents` has the totals as each agent counts
    them.
    """
    if report == "statusline":
        show_line(call, cost=not no_cost)
        return
    zone = ZoneInfo(call.home.zone_named(timezone))
    if report is not None and report not in _REPORTS:
        if query.since is not None or query.until is not None:
            raise Invalid("a day cannot be combined with --since or --until", hint="leave one out")
        first, last = read_times(None, None, report)
        report, query = None, msgspec.structs.replace(query, since=first, until=last)
    split = by if report in PERIODS and by in _SPLITS else ""
    key = PERIODS.get(report or "", by or "model")
    view = UsageView(key, breakdown and not split, not no_cost, zone, split or "")
    _check(report, None if split else by, view, breakdown=breakdown)
    with _browsing(call) as browse:
        if report == "blocks":
            _blocks(call, browse, query, view, live=live)
        else:
            _table(call, browse, query, view, live=live)


def _check(report: str | None, by: str | None, view: UsageView, *, breakdown: bool) -> None:
    if by is not None and report is not None:
        hint = f"leave out --by; days, weeks and months can be split by {', '.join(_SPLITS)}"
        raise Invalid(f"{report} cannot be grouped by {by}", hint=hint)
    if breakdown and view.by not in PERIODS.values():
        hint = "threadkeep usage daily --breakdown"
        raise Invalid("--breakdown is for days, weeks and months", hint=hint)


def _browsing(call: Call) -> "Browse":
    from threadkeep.home.opening import open_browse

    browse = open_browse(call.home, call.db)
    if browse.notes:
        browse.close()
        raise NotFound(browse.notes[0], hint="`threadkeep capture` does it; --db names the file")
    return browse


# ---------------------------------------------------------------------- by time, model, …


def _table(call: Call, browse: "Browse", query: "Query", view: UsageView, *, live: bool) -> None:
    def draw() -> None:
        _draw_table(view.report(browse, query), view)

    if call.as_json:
        _answer(call, view.report(browse, query), view)
    elif live and sys.stdout.isatty():
        _redraw(call, browse, draw)
    else:
        with paging(wanted=call.pager):
            draw()
        _remarks(call, browse, query, view)


def _answer(call: Call, found: "UsageReport", view: UsageView) -> None:
    def summed(by: str) -> dict[str, Any]:
        rows = (row_json(by, one) for one in rows_of(found, by))
        return {row.pop(by): row for row in rows}

    own = {name: own_words(name, one) for name, one in found.by_agent.items()}
    call.answer(
        "rows",
        by=view.by,
        rows=[row_json(view.by, one, view.split) for one in view.rows(found)],
        total=sum_json(found.total),
        by_model=summed("model"),
        by_project=summed("project"),
        by_day=summed("day"),
        agents=own,
        harnesses=own,  # what it was called before
        priced=found.priced,
    )


def _draw_table(found: "UsageReport", view: UsageView) -> None:
    rows = []
    more = ("",) if view.split else ()
    for one in view.rows(found):
        name, *counts = cells(one.name, one.sum, cost=view.cost)
        rows.append((name, *((one.part,) if view.split else ()), *counts))
        if view.breakdown:
            rows += [cells(f"└ {name}", part, cost=view.cost) for name, part in one.parts.items()]
    if rows:
        name, *counts = cells("total", found.total, cost=view.cost)
        rows.append((name, *more, *counts))
    split = (view.split,) if view.split else ()
    table((view.by, *split, *COLUMNS, *(("cost",) if view.cost else ())), rows, spare=_SPARE)


def _remarks(call: Call, browse: "Browse", query: "Query", view: UsageView) -> None:
    found = view.report(browse, query)
    if not found.total.answers:
        note("No usage matches")
    elif view.cost and not found.priced:
        note("prices come with `pip install 'threadkeep[prices]'`")
    elif view.cost and found.total.unpriced:
        told = counted(found.total.unpriced, "response")
        note(f"{told} from models with no known price")
    unfinished = browse.store.unfinished_answers(query.since, query.until)
    if unfinished:
        told = counted(unfinished, "response")
        note(f"{told} without a final token count; actual output may be higher")
    if view.cost:
        from threadkeep.base.clock import now_ms
        from threadkeep.home.budget import budget_state

        for one in budget_state(call.home, browse, now_ms()):
            note(budget_words(one))


def budget_words(one: "BudgetState") -> str:
    """Say how much of a budget is spent."""
    spent = f"{dollars(one.spent)} of {dollars(one.limit)}"
    over = ": over budget" if one.level == "over" else ""
    return f"Budget this {one.span}: {spent} ({100 * one.spent // one.limit}%){over}"


# ---------------------------------------------------------------------- blocks


def _blocks(call: Call, browse: "Browse", query: "Query", view: UsageView, *, live: bool) -> None:
    from threadkeep.cli.usage.rows import BLOCK_COLUMNS, SPARE, block_json, block_row, projected_row

    def draw() -> None:
        rows = []
        for one in browse.blocks_report(query):
            rows.append(block_row(one))
            if one.active and one.projected_tokens is not None:
                rows.append(projected_row(one))
        shown = [row[:5] + row[6:] for row in rows] if not view.cost else rows
        table(
            [name for name in BLOCK_COLUMNS if view.cost or name != "cost"],
            shown,
            wide="models",
            spare=SPARE,
        )

    if call.as_json:
        found = [block_json(one) for one in browse.blocks_report(query)]
        call.answer("blocks", blocks=found)
    elif live and sys.stdout.isatty():
        _redraw(call, browse, draw)
    else:
        with paging(wanted=call.pager):
            draw()


# ---------------------------------------------------------------------- live


def _redraw(call: Call, browse: "Browse", draw: Callable[[], None]) -> None:
    """Draw, and draw again whenever something was captured, until it is ended."""
    from threadkeep.cli.history.tail import kept_current
    from threadkeep.cli.output import redrawn
    from threadkeep.cli.signals import stopped_by_signals

    with stopped_by_signals() as goes_on, kept_current(call), redrawn() as again:
        seen = browse.database.changes()
        while goes_on():
            again(draw)
            seen = browse.database.changed(seen, _LOOK_SECONDS)
