"""`threadkeep state stats`: totals, and a small bar chart of what was used."""

import time
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Final

import click

from threadkeep.cli.command import Call
from threadkeep.cli.options import limit_option, until_option
from threadkeep.cli.output import (
    facts,
    is_terminal,
    note,
    one_line,
    size_text,
    table,
    terminal_width,
    write,
)
from threadkeep.cli.state.group import reading, state_command
from threadkeep.cli.state.words import Json, cost_of, plain
from threadkeep.cli.times import moment

_COUNTERS: Final = (
    *("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"),
    *("reasoning_tokens", "total_tokens", "estimated_cost_usd", "actual_cost_usd"),
)
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
_DAYS: Final = "30d"
_SHOWN_DAYS: Final = 92  # of more days only those that have something are shown
_LABEL: Final = 32
_LEAST: Final = 10


@state_command(
    "stats", "threadkeep state stats", "threadkeep state stats --by model --since 7d", lists=True
)
@click.option(
    "--by",
    type=click.Choice(["day", "model", "source", "session"]),
    default="day",
    show_default=True,
    help="What the bars are about.",
)
@click.option(
    "--of",
    "measure",
    type=click.Choice(["tokens", "cost", "sessions"]),
    default="tokens",
    show_default=True,
    help="What the bars measure.",
)
@click.option("--since", metavar="TIME", help=f"A date, or an age.  [by day: {_DAYS}, else all]")
@until_option("A date, or an age.")
@click.option("--source", help="Only sessions of this source.")
@limit_option(40, "How many bars; not for days.")
def stats(
    call: Call,
    *,
    by: str,
    measure: str,
    since: str | None,
    until: str | None,
    source: str | None,
    limit: int,
) -> None:
    """Show sessions, messages, tokens and cost: totals, and by day, model, source or session."""
    now = time.time()
    first = moment(since or (_DAYS if by == "day" else None), now)
    last = moment(until, now, end=True)
    with reading(call) as store:
        counts: Json = {
            "sessions": store.session_count(source),
            "messages": store.message_count(),
            "sources": store.session_count_by_source(),
        }
        path = store.db_path
        used = store.usage(by, since=first, until=last, source=source)
        everything = store.usage("source", source=source)
    totals = _totals(everything)
    if call.as_json:
        call.answer("usage", file=path, **counts, totals=totals, by=by, usage=plain(used))
        return
    facts(
        {
            "file": f"{path}, {size_text(path.stat().st_size)}",
            "sessions": f"{counts['sessions']:,}",
            "messages": f"{counts['messages']:,}" + (" (of all sources)" if source else ""),
            "sources": ", ".join(f"{name} {n:,}" for name, n in counts["sources"].items()),
            "tokens": f"{totals['input_tokens']:,} in, {totals['output_tokens']:,} out",
            "cost": cost_of(totals) or "not reported",
        }
    )
    write()
    if by == "day":
        _chart(_every_day(used, now if last is None else min(now, last)), by, measure)
    else:
        _chart(used[:limit], by, measure)
        if len(used) > limit:
            note(f"{len(used) - limit:,} more: --limit {len(used)}")
    if not used:
        note("nobody reported tokens or cost" + (f" in the last {_DAYS}" if not since else ""))


def _totals(used: Sequence[Json]) -> Json:
    return {name: sum(one[name] for one in used) for name in _COUNTERS}


def _every_day(used: Sequence[Json], until: float) -> list[Json]:
    """Put in the days on which nothing was used, up to today: gaps tell something, too."""
    if not used:
        return []
    by_day = {str(one["day"]): one for one in used}
    begin = date.fromisoformat(min(by_day))
    end = max(date.fromtimestamp(until), date.fromisoformat(max(by_day)))  # noqa: DTZ012  (local)
    span = (end - begin).days + 1
    if span > _SHOWN_DAYS:
        return list(used)
    nothing = {**dict.fromkeys(_COUNTERS, 0), "sessions": 0}
    names = [(begin + timedelta(days=n)).isoformat() for n in range(span)]
    return [by_day.get(name, {"day": name, **nothing}) for name in names]


# ---------------------------------------------------------------------- the chart


def _chart(used: Sequence[Json], by: str, measure: str) -> None:
    texts = [(one_line(str(one[by])), *_amounts(one)) for one in used]
    if not is_terminal():
        table((by, "tokens", "cost", "sessions"), texts)
        return
    if not texts:
        return
    from rich.cells import cell_len, set_cell_size

    label = min(_LABEL, max(cell_len(text[0]) for text in texts))
    numbers = [f"{tokens} tokens  {cost}".rstrip() for _, tokens, cost, _ in texts]
    room = terminal_width() - label - max(map(len, numbers)) - 4
    drawn = bars([_height(one, measure) for one in used], max(_LEAST, room))
    for (name, *_), bar, number in zip(texts, drawn, numbers, strict=True):
        write(set_cell_size(name, label), end="  ")
        write(bar, "cyan", end="  ")
        write(number, "dim")


def _amounts(one: Json) -> tuple[str, str, str]:
    return f"{one['total_tokens']:,}", cost_of(one), f"{one['sessions']:,}"


def _height(one: Json, measure: str) -> float:
    if measure == "cost":
        return float(one["actual_cost_usd"] or one["estimated_cost_usd"] or 0)
    return float(one["total_tokens"] if measure == "tokens" else one["sessions"])


def bars(values: Sequence[float], width: int) -> list[str]:
    """Draw values as bars of at most `width` characters, in steps of an eighth of one.

    All have the same length, filled up with blanks; what is more than nothing can be seen.
    """
    most = max(values, default=0)
    return [_bar(value, most, width) for value in values]


def _bar(value: float, most: float, width: int) -> str:
    eighths = max(1, round(value / most * width * 8)) if value > 0 else 0
    whole, rest = divmod(min(eighths, width * 8), 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(width)
