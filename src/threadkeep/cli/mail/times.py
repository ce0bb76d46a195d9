"""`threadkeep mail next`: when a cron expression is due."""

from datetime import datetime
from zoneinfo import ZoneInfo

import click

from threadkeep.base.clock import iso, now_ms
from threadkeep.cli.command import Call, command
from threadkeep.cli.options import limit_option
from threadkeep.cli.output import table
from threadkeep.errors import Invalid
from threadkeep.mailbox.recurrence import next_times
from threadkeep.mailbox.rows import parse_moment

_MOST = 1000


@command(
    "next",
    'threadkeep mail next "0 9 * * 1-5" --tz Europe/Madrid',
    'threadkeep mail next "@daily" --after 2026-03-28T12:00Z -n 5 --json',
    lists=True,
)
@click.argument("expr", metavar="EXPR")
@click.option("--tz", metavar="ZONE", help="The time zone EXPR is meant in; else this machine's.")
@click.option("--after", metavar="TIME", help="The first one after this time; else after now.")
@limit_option(3)
def next_(call: Call, *, expr: str, tz: str | None, after: str | None, limit: int) -> None:
    """Show the next times a recurring task with the cron expression EXPR is due.

    One a line: in UTC, then as the clock on the wall shows it in the zone.
    """
    if not 0 < limit <= _MOST:
        raise Invalid(f"-n is {limit}", hint=f"ask for 1 to {_MOST} times")
    zone = call.home.zone_named(tz)
    start = now_ms() if after is None else parse_moment(after, zone)
    found = next_times(expr, start, zone, limit)
    if call.as_json:
        due = [_utc(one) for one in found]
        call.answer("next", **{"expr": expr, "tz": zone, "from": iso(start), "next": due})
        return
    rows = [(_utc(one), one.astimezone(ZoneInfo(zone)).isoformat()) for one in found]
    table(("UTC", zone), rows)


def _utc(moment: datetime) -> str:
    return iso(round(moment.timestamp() * 1000))
