"""`threadkeep timeline`: what happened, in the order of time, from all sources together."""

import datetime as dt
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import click

from threadkeep.cli.command import Call, store_command
from threadkeep.cli.history.opening import typed
from threadkeep.cli.history.words import when
from threadkeep.cli.memory.asking import remembering
from threadkeep.cli.options import limit_option, project_option, since_option, until_option
from threadkeep.cli.output import note, one_line, paging, table
from threadkeep.cli.times import read_times
from threadkeep.errors import Invalid

if TYPE_CHECKING:
    from threadkeep.memory.timeline import Moment

_TEXT = 100
_COLUMNS = ("when", "what", "text", "ref")


@store_command(
    "timeline",
    "threadkeep timeline --day yesterday",
    "threadkeep timeline --project harbor --since 3d",
    lists=True,
    pages=True,
)
@project_option()
@click.option("--day", metavar="DATE", help="One day: 2026-03-01, today or yesterday.")
@since_option()
@until_option()
@limit_option(200, "The latest so many.")
def timeline(
    call: Call,
    *,
    project: str | None,
    day: str | None,
    since: str | None,
    until: str | None,
    limit: int,
) -> None:
    """Tell what happened: commands, agents' turns, pages, CI and commits, the earliest first.

    Without a day or a time it is today.
    """
    zone = ZoneInfo(call.home.zone)
    first, last = read_times(since, until)
    if day is None and since is None and until is None:
        day = "today"
    with remembering(call) as memory:
        moments = memory.timeline(
            project=project,
            day=None if day is None else read_day(day, dt.datetime.now(zone).date()),
            since=first,
            until=last,
            zone=zone,
            limit=max(limit, 0),
        )
    if call.as_json:
        call.answer("timeline", timeline=moments)
        return
    with paging(wanted=call.pager):
        table(_COLUMNS, [_row(one) for one in moments], wide="text", spare=("ref", "what"))
    if moments:
        note(f"`{typed(call, 'open', 'REF')}` opens one of them")
    else:
        note("nothing is known of this time; --since 7d looks further back")


def read_day(text: str, today: dt.date) -> dt.date:
    """Read a day as people write it."""
    named = {"today": 0, "yesterday": 1}
    if text in named:
        return today - dt.timedelta(days=named[text])
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        msg = f"{text!r} is not a day"
        raise Invalid(msg, hint="2026-03-01, today or yesterday") from None


def _row(one: "Moment") -> tuple[str, str, str, str]:
    times = f" ×{one.count}" if one.count > 1 else ""
    failed = " failed" if one.outcome == "failure" else ""
    what = f"{one.source} {one.kind}{failed}{times}"
    tools = ", ".join(f"{name} {count}" for name, count in one.tools.items())
    errors = f"{one.errors} failed" if one.errors else ""
    said = " · ".join(part for part in (one_line(one.text, _TEXT), tools, errors) if part)
    return when(one.at), what, said, one.ref
