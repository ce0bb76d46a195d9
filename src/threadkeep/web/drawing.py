"""What templates call to draw data: charts of usage, the day, the graph."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from threadkeep.knowledge.query import hour_name
from threadkeep.knowledge.results import EntityRow, Graph, Sum
from threadkeep.memory.timeline import Moment
from threadkeep.web import addresses, charts, wording
from threadkeep.web.charts import Drawing, Mark, Series
from threadkeep.web.graphs import laid_out

_MINUTES: Final = 24 * 60.0
_TICK: Final = 4.0  # minutes; what happened in a moment is drawn so wide
_ROW: Final = 10.0
_WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_UNITS: Final = (("day", 62), ("week", 430), ("month", 3650))  # up to so many days
_LAST_YEAR: Final = "9999"  # a log may say anything; after this year there is no next one
_GRAPH: Final = (1000.0, 640.0)
# Types in the order of their colours: the same everywhere.
_TYPES: Final = ("project", "file", "tool", "service", "concept", "domain", "repo")
_EDGE: Final = 40.0  # of the graph's field that stays free


def helpers(zone: ZoneInfo) -> dict[str, Callable[..., Any]]:
    """Give what templates may call."""
    return {
        "as_text": as_text,
        "refined": addresses.refined,
        "with_query": addresses.with_query,
        "opening_address": addresses.opening_address,
        "ribbon": lambda hours, lanes: ribbon(_moments(hours), lanes, zone),
        "spent_bars": spent_bars,
        "year_map": year_map,
        "week_map": week_map,
        "graph_map": graph_map,
        "hit_rate": hit_rate,
        "total_tokens": total_tokens,
        "ranked": ranked,
        "part_bar": charts.bar,
        "share": charts.share,
    }


def as_text(value: object) -> str:
    """Write what JSON holds as text for people."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


# ---------------------------------------------------------------------- usage


def total_tokens(one: Sum) -> int:
    """Give all tokens of a sum."""
    return one.input + one.output + one.cache_read + one.cache_write


def hit_rate(one: Sum) -> float:
    """Give which part of what models read came from a cache, in percent."""
    return charts.share(one.cache_read, one.input + one.cache_read + one.cache_write)


def ranked(table: Mapping[str, Sum], metric: str) -> list[tuple[str, Sum]]:
    """Put named sums in order, the one that took most first."""
    return sorted(table.items(), key=lambda one: (-_measure(one[1], metric), one[0]))


def _measure(one: Sum, metric: str) -> int:
    return one.cost if metric == "cost" else total_tokens(one)


class Bars(NamedTuple):
    """A chart of bars with what stands around it."""

    drawing: Drawing
    series: tuple[Series, ...]
    columns: tuple[str, ...]  # what each bar is
    top: float
    first: str
    last: str
    unit: str  # day, week, month or year
    numbers: tuple[tuple[float, ...], ...]  # a row for each bar, as the series stand


def spent_bars(by_day: Mapping[str, Mapping[str, Sum]], q: str, metric: str) -> Bars:
    """Draw what was spent by day and model; long stretches by week or month."""
    days = sorted(day for day in by_day if day < _LAST_YEAR)
    spans = _spans(days)
    columns: list[dict[str, float]] = [{} for _ in spans]
    for day in days:
        place = next(n for n, (first, last) in enumerate(spans) if first <= day <= last)
        for model, one in by_day[day].items():
            columns[place][model] = columns[place].get(model, 0.0) + _measure(one, metric)
    series = charts.series_of(columns)
    say = _say_cost if metric == "cost" else wording.tokens
    names = tuple(first if first == last else f"{first} – {last}" for first, last in spans)
    labels = [
        [f"{name}: {one.name}, {say(value)}" for name, value in zip(names, one.values, strict=True)]
        for one in series
    ]
    hrefs = [_span_address(q, first, last, metric) for first, last in spans]
    numbers = tuple(zip(*(one.values for one in series), strict=True)) if series else ()
    return Bars(
        drawing=charts.stacked(series, labels, hrefs),
        series=series,
        columns=names,
        top=charts.highest(series),
        first=spans[0][0] if spans else "",
        last=spans[-1][1] if spans else "",
        unit=_unit(days),
        numbers=numbers,
    )


def _say_cost(value: float) -> str:
    return wording.money(round(value))


def _unit(days: Sequence[str]) -> str:
    if not days:
        return "day"
    length = (date.fromisoformat(days[-1]) - date.fromisoformat(days[0])).days
    return next((unit for unit, most in _UNITS if length <= most), "year")


def _spans(days: Sequence[str]) -> list[tuple[str, str]]:
    """Cut the time between the first and the last day into bars, days without anything included."""
    if not days:
        return []
    unit, last = _unit(days), date.fromisoformat(days[-1])
    begun = _first_of(date.fromisoformat(days[0]), unit)
    spans = []
    while begun <= last:
        after = _next_of(begun, unit)
        spans.append((str(begun), str(after - timedelta(days=1))))
        begun = after
    return spans


def _first_of(day: date, unit: str) -> date:
    if unit == "year":
        return day.replace(month=1, day=1)
    if unit == "month":
        return day.replace(day=1)
    return day - timedelta(days=day.weekday()) if unit == "week" else day


def _next_of(day: date, unit: str) -> date:
    if unit == "year":
        return day.replace(year=day.year + 1)
    if unit == "month":
        return (day + timedelta(days=32)).replace(day=1)
    return day + timedelta(days=7 if unit == "week" else 1)


def _span_address(q: str, first: str, last: str, metric: str) -> str:
    if first == last:
        text = addresses.refined(q, "on", first)
    else:
        text = f"{addresses.refined(q, 'on', '')} since:{first} until:{last}".strip()
    return addresses.with_query("/usage", q=text, by=metric if metric == "cost" else "")


def year_map(activity: Mapping[str, float], q: str, last: str) -> Drawing:
    """Draw the tokens of a year; a day leads to its own usage."""
    labels = {day: f"{day}: {wording.tokens(value)} tokens" for day, value in activity.items()}
    hrefs = {
        day: addresses.with_query("/usage", q=addresses.refined(q, "on", day)) for day in activity
    }
    return charts.year(date.fromisoformat(last), activity, labels, hrefs)


def week_map(by_hour: Sequence[Sequence[float]], q: str) -> Drawing:
    """Draw the tokens of each hour of the week; an hour leads to its own usage."""
    labels = [
        [f"{_WEEKDAYS[day]} {hour:02}:00, {wording.tokens(n)} tokens" for hour, n in enumerate(row)]
        for day, row in enumerate(by_hour[:7])
    ]
    hrefs = {
        (day, hour): addresses.with_query(
            "/usage", q=addresses.refined(q, "hour", hour_name(24 * day + hour))
        )
        for day, row in enumerate(by_hour[:7])
        for hour, tokens in enumerate(row)
        if tokens
    }
    return charts.week_grid(by_hour, labels, hrefs)


# ---------------------------------------------------------------------- one day


def _moments(hours: Sequence[Any]) -> list[tuple[Moment, int]]:
    return [(row.moment, row.lane) for hour in hours for row in hour.rows]


def ribbon(moments: Sequence[tuple[Moment, int]], lanes: int, zone: ZoneInfo) -> Drawing:
    """Draw a day from midnight to midnight, a line for each lane; a tick leads to its hour."""
    marks = [_tick(moment, lane, zone) for moment, lane in moments]
    return Drawing(_MINUTES, max(1, lanes) * _ROW, tuple(marks))


def _tick(moment: Moment, lane: int, zone: ZoneInfo) -> Mark:
    begun = datetime.fromtimestamp(moment.at / 1000, zone)
    minute = begun.hour * 60 + begun.minute
    lasted = max(0.0, ((moment.until or moment.at) - moment.at) / 60_000)
    width = min(_MINUTES, max(_TICK, lasted))
    css = f"s{lane} failed" if moment.outcome == "failure" else f"s{lane}"
    label = f"{begun:%H:%M} {moment.kind}: {moment.text[:80]}"
    x = min(float(minute), _MINUTES - width)
    return Mark(x, (lane - 1) * _ROW + 1, width, _ROW - 2, css, label, f"#h{begun.hour}")


# ---------------------------------------------------------------------- graph


class Dot(NamedTuple):
    """An entity on the drawing."""

    entity: EntityRow
    x: float
    y: float
    radius: float
    css: str


class DrawingLine(NamedTuple):
    """A tie on the drawing."""

    a: int
    b: int
    begin: Dot
    end: Dot
    css: str


class GraphMap(NamedTuple):
    """Entities and ties, each at its place."""

    width: float
    height: float
    dots: tuple[Dot, ...]
    lines: tuple[DrawingLine, ...]
    types: tuple[tuple[str, str], ...]  # each type and its class


def graph_map(graph: Graph) -> GraphMap:
    """Lay entities out so that those stand together that are mentioned together."""
    place = {one.id: number for number, one in enumerate(graph.entities)}
    ties = [edge for edge in graph.edges if edge.a in place and edge.b in place]
    found = laid_out(
        len(graph.entities), tuple((place[one.a], place[one.b], one.weight) for one in ties)
    )
    width, height = _GRAPH
    spots = [
        (_EDGE + point.x * (width - 2 * _EDGE), _EDGE + point.y * (height - 2 * _EDGE))
        for point in found
    ]
    css = {kind: _colour(kind) for kind in sorted({one.type for one in graph.entities})}
    dots = [
        Dot(one, round(x, 1), round(y, 1), _radius(one.nodes), css[one.type])
        for one, (x, y) in zip(graph.entities, spots, strict=True)
    ]
    lines = [
        DrawingLine(one.a, one.b, dots[place[one.a]], dots[place[one.b]], _width(one.weight))
        for one in ties
    ]
    return GraphMap(width, height, tuple(dots), tuple(lines), tuple(css.items()))


def _colour(kind: str) -> str:
    return f"s{_TYPES.index(kind) + 1}" if kind in _TYPES else f"s{charts.SERIES}"


def _radius(nodes: int) -> float:
    return round(min(16.0, 4.0 + 2.0 * math.sqrt(max(0, nodes))), 1)


def _width(weight: int) -> str:
    return f"w{min(3, max(1, weight))}"
