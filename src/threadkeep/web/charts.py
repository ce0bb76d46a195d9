"""What templates call to draw data: charts of usage, the day, the graph."""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from threadkeep.knowledge.query import hour_name
from threadkeep.knowledge.results import EntityRow, Graph, Sum
from threadkeep.memory.timeline import Moment
from threadkeep.web import words

# ------------------------------------------------------------------------------
# Charts: numbers become places on a drawing; the templates write them as SVG.
#
# Nothing here is text or colour: a mark has a class, and the style sheet says what that looks like
# in the light and in the dark. Everything is a pure function of the numbers.

HEIGHT: Final = 100.0  # of a chart of bars; the page stretches it
SERIES: Final = 8  # colours of the style sheet; the last one is for all others
OTHERS: Final = "others"
_GAP: Final = 0.16  # between two bars, in widths of a bar
_LEVELS: Final = 5
_CELL: Final = 13.0
_MARK: Final = 11.0
_WEEK: Final = 7
_HOURS: Final = 24


class Mark(msgspec.Struct, frozen=True):
    """One rectangle: where it is, what it looks like, what it says, where it leads."""

    x: float
    y: float
    width: float
    height: float
    css: str
    label: str
    href: str = ""


class ChartLabel(msgspec.Struct, frozen=True):
    """A word on a drawing."""

    x: float
    y: float
    text: str


class Drawing(msgspec.Struct, frozen=True):
    """Marks on a field of some size."""

    width: float
    height: float
    marks: tuple[Mark, ...] = ()
    notes: tuple[ChartLabel, ...] = ()


class Series(msgspec.Struct, frozen=True):
    """One colour of a chart: its name, and a number for each place on the axis."""

    name: str
    css: str
    values: tuple[float, ...]

    @property
    def total(self) -> float:
        """The sum of its numbers."""
        return math.fsum(self.values)


# ---------------------------------------------------------------------- stacked bars


def series_of(columns: Sequence[Mapping[str, float]], most: int = SERIES) -> tuple[Series, ...]:
    """Make series of columns of named numbers: the largest first, what is too many as one."""
    totals: dict[str, float] = {}
    for column in columns:
        for name, value in column.items():
            totals[name] = totals.get(name, 0.0) + max(0.0, value)
    ranked = sorted(totals, key=lambda name: (-totals[name], name))
    shown = ranked if len(ranked) <= most else ranked[: most - 1]
    found = [_one(name, columns, number) for number, name in enumerate(shown)]
    if len(shown) < len(ranked):
        found.append(_rest(columns, frozenset(shown)))
    return tuple(found)


def _one(name: str, columns: Sequence[Mapping[str, float]], number: int) -> Series:
    return Series(name, f"s{number + 1}", tuple(max(0.0, one.get(name, 0.0)) for one in columns))


def _rest(columns: Sequence[Mapping[str, float]], shown: frozenset[str]) -> Series:
    values = [
        math.fsum(max(0.0, value) for name, value in column.items() if name not in shown)
        for column in columns
    ]
    return Series(OTHERS, "rest", tuple(values))


def highest(series: Iterable[Series]) -> float:
    """Return the height of the highest pile."""
    columns = zip(*(one.values for one in series), strict=True)
    return max((math.fsum(column) for column in columns), default=0.0)


def stacked(
    series: Sequence[Series],
    labels: Sequence[Sequence[str]],
    hrefs: Sequence[str],
    scale: float = 0.0,
) -> Drawing:
    """Pile series up, one bar for each place; `labels[series][place]` says what a piece is.

    The whole height is the highest pile, or the `scale` where that is more.
    """
    top = max(highest(series), scale)
    places = len(hrefs)
    if not places or top <= 0:
        return Drawing(float(max(1, places)), HEIGHT)
    marks: list[Mark] = []
    for place in range(places):
        base = 0.0
        for number, one in enumerate(series):
            height = HEIGHT * one.values[place] / top
            if height > 0:
                spot = (place + _GAP / 2, max(0.0, HEIGHT - base - height), 1 - _GAP, height)
                marks.append(Mark(*spot, one.css, labels[number][place], hrefs[place]))
            base += height
    return Drawing(float(places), HEIGHT, tuple(marks))


# ---------------------------------------------------------------------- heat


_ROUND: Final = (1.0, 1.2, 1.6, 2.0, 2.4, 3.2, 4.0, 6.0, 8.0, 10.0, 20.0)


def rounded_up(value: float) -> float:
    """Return the next number whose quarters read well on an axis."""
    if value <= 0:
        return 0.0
    size = 10.0 ** math.floor(math.log10(value))
    return next(step * size for step in _ROUND if step * size >= value)


def level(value: float, top: float) -> int:
    """Return how hot a value is, from 0 (nothing) to 4; by its root, for a few days outdo all."""
    if value <= 0 or top <= 0:
        return 0
    return max(1, min(_LEVELS - 1, math.ceil(math.sqrt(min(1.0, value / top)) * (_LEVELS - 1))))


def days_back(last: date, count: int) -> list[date]:
    """Return so many days up to a last one, the earliest first."""
    return [last - timedelta(days=back) for back in reversed(range(count))]


def year(
    last: date, values: Mapping[str, float], labels: Mapping[str, str], hrefs: Mapping[str, str]
) -> Drawing:
    """Draw a year as weeks from left to right, Monday on top; a day without a label says itself."""
    first = last - timedelta(days=364)
    begin = first - timedelta(days=first.weekday())
    top = max((values.get(str(day), 0.0) for day in days_back(last, 365)), default=0.0)
    marks, notes = [], []
    for day in days_back(last, (last - first).days + 1):
        week, row = divmod((day - begin).days, _WEEK)
        heat = f"h{level(values.get(str(day), 0.0), top)}"
        text = labels.get(str(day), str(day))
        spot = (week * _CELL, (row + 1) * _CELL + 2, _MARK, _MARK)
        marks.append(Mark(*spot, heat, text, hrefs.get(str(day), "")))
        if day.day == 1 and week * _CELL < 52 * _CELL:
            notes.append(ChartLabel(week * _CELL, 10, day.strftime("%b")))
    weeks = (last - begin).days // _WEEK + 1
    return Drawing(weeks * _CELL, 8 * _CELL + 2, tuple(marks), tuple(notes))


def week_grid(
    by_hour: Sequence[Sequence[float]],
    labels: Sequence[Sequence[str]],
    hrefs: Mapping[tuple[int, int], str] = MappingProxyType({}),
) -> Drawing:
    """Draw the hours of a week: a row for each day from Monday, a column for each hour."""
    top = max((max(row, default=0.0) for row in by_hour), default=0.0)
    marks = []
    for day, row in enumerate(by_hour[:_WEEK]):
        for hour, value in enumerate(row[:_HOURS]):
            told = (f"h{level(value, top)}", labels[day][hour], hrefs.get((day, hour), ""))
            marks.append(Mark(hour + 0.06, day + 0.06, 0.88, 0.88, *told))
    return Drawing(float(_HOURS), float(_WEEK), tuple(marks))


# ---------------------------------------------------------------------- shares


def share(part: float, whole: float) -> float:
    """Return a part of a whole in percent, between 0 and 100."""
    return 0.0 if whole <= 0 else max(0.0, min(100.0, 100.0 * part / whole))


def bar(part: float, whole: float, css: str = "s1") -> Drawing:
    """Draw one part of a whole as a bar that lies; the page says how long the whole is."""
    width = share(part, whole)
    mark = (Mark(0.0, 0.0, width, 10.0, css, ""),) if width else ()
    return Drawing(100.0, 10.0, mark)


_MINUTES: Final = 24 * 60.0
_TICK: Final = 4.0  # minutes; what happened in a moment is drawn so wide
_ROW: Final = 10.0
_WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MIDDLE_FROM: Final = 5  # bars, from which on a day in the middle is named, too
_UNITS: Final = (("day", 62), ("week", 430), ("month", 3650))  # up to so many days
_LAST_YEAR: Final = "9999"  # a log may say anything; after this year there is no next one
_GRAPH_WIDTH: Final = 1000.0
_GRAPH_ROW: Final = 30.0  # a name, and the space to the next one
# On a narrow screen: the width, a row, a step to the right, the largest dot.
_NARROW: Final = 340.0
_NARROW_ROW: Final = 28.0
_NARROW_STEP: Final = 16.0
_NARROW_DOT: Final = 10.0
_LEAST_HEIGHT: Final = 240.0
_APART: Final = 90.0  # from the middle to the ends of a column
_ARC: Final = 110.0  # how much farther its middle is
NEIGHBOURS: Final = 36
# Types in the order of their colours: the same everywhere.
_TYPES: Final = ("project", "file", "tool", "service", "concept", "domain", "repo")


def helpers(zone: ZoneInfo) -> dict[str, Callable[..., Any]]:
    """Return what templates may call."""
    return {
        "as_text": as_text,
        "refined": words.refined,
        "with_query": words.with_query,
        "opening_address": words.opening_address,
        "ribbon": lambda hours, lanes: ribbon(_moments(hours), lanes, zone),
        "spent_bars": spent_bars,
        "year_map": year_map,
        "week_map": week_map,
        "graph_map": graph_map,
        "hit_rate": hit_rate,
        "total_tokens": total_tokens,
        "ranked": ranked,
        "part_bar": bar,
        "share": share,
    }


def as_text(value: object) -> str:
    """Write what JSON holds as text for people."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


# ---------------------------------------------------------------------- usage


def total_tokens(one: Sum) -> int:
    """Return all tokens of a sum."""
    return one.input + one.output + one.cache_read + one.cache_write


def hit_rate(one: Sum) -> float:
    """Return which part of what models read came from a cache, in percent."""
    return share(one.cache_read, one.input + one.cache_read + one.cache_write)


def ranked(table: Mapping[str, Sum], metric: str) -> list[tuple[str, Sum]]:
    """Put named sums in order, the one that took most first."""
    return sorted(table.items(), key=lambda one: (-_measure(one[1], metric), one[0]))


def _measure(one: Sum, metric: str) -> int:
    return one.cost if metric == "cost" else total_tokens(one)


class Bars(NamedTuple):
    """A chart of bars with what is around it."""

    drawing: Drawing
    series: tuple[Series, ...]
    columns: tuple[str, ...]  # what each bar is
    top: float
    scale: float  # what the whole height stands for: `top`, or the next round number
    ticks: tuple[str, ...]  # days below it: the first, one in the middle, the last
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
    series = series_of(columns)
    say = _say_cost if metric == "cost" else words.tokens
    names = tuple(first if first == last else f"{first} – {last}" for first, last in spans)
    labels = [
        [f"{name}: {one.name}, {say(value)}" for name, value in zip(names, one.values, strict=True)]
        for one in series
    ]
    hrefs = [_span_address(q, first, last, metric) for first, last in spans]
    scale = rounded_up(highest(series))
    numbers = tuple(zip(*(one.values for one in series), strict=True)) if series else ()
    return Bars(
        drawing=stacked(series, labels, hrefs, scale),
        series=series,
        columns=names,
        top=highest(series),
        scale=scale,
        ticks=_ticks(spans),
        unit=_unit(days),
        numbers=numbers,
    )


def _ticks(spans: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    if not spans:
        return ()
    middle = [spans[len(spans) // 2][0]] if len(spans) >= _MIDDLE_FROM else []
    return (spans[0][0], *middle, spans[-1][1])


def _say_cost(value: float) -> str:
    return words.money(round(value))


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
        text = words.refined(q, "on", first)
    else:
        text = f"{words.refined(q, 'on', '')} since:{first} until:{last}".strip()
    return words.with_query("/usage", q=text, by=metric if metric == "cost" else "")


def year_map(activity: Mapping[str, float], q: str, last: str) -> Drawing:
    """Draw the tokens of a year; a day leads to its own usage."""
    labels = {day: f"{day}: {words.tokens(value)} tokens" for day, value in activity.items()}
    hrefs = {day: words.with_query("/usage", q=words.refined(q, "on", day)) for day in activity}
    return year(date.fromisoformat(last), activity, labels, hrefs)


def week_map(by_hour: Sequence[Sequence[float]], q: str) -> Drawing:
    """Draw the tokens of each hour of the week; an hour leads to its own usage."""
    labels = [
        [f"{_WEEKDAYS[day]} {hour:02}:00, {words.tokens(n)} tokens" for hour, n in enumerate(row)]
        for day, row in enumerate(by_hour[:7])
    ]
    hrefs = {
        (day, hour): words.with_query(
            "/usage", q=words.refined(q, "hour", hour_name(24 * day + hour))
        )
        for day, row in enumerate(by_hour[:7])
        for hour, tokens in enumerate(row)
        if tokens
    }
    return week_grid(by_hour, labels, hrefs)


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
    right: bool = False  # its name stands at its right


class Point(NamedTuple):
    """A place on the drawing."""

    x: float
    y: float


class DrawingLine(NamedTuple):
    """A tie on the drawing."""

    a: int
    b: int
    begin: Point
    end: Point
    css: str


class GraphMap(NamedTuple):
    """Entities and ties, each at its place."""

    width: float
    height: float
    dots: tuple[Dot, ...]
    lines: tuple[DrawingLine, ...]
    types: tuple[tuple[str, str], ...]  # each type and its class


def graph_map(graph: Graph, *, narrow: bool = False) -> GraphMap:
    """Draw the first entity in the middle, and beside it what it is mentioned with.

    The others stand in two columns, those with the strongest tie first, each with its name on the
    outside: no name lies over another one. On a narrow screen they stand below, one to a row.
    """
    if not graph.entities:
        return GraphMap(_GRAPH_WIDTH, _LEAST_HEIGHT, (), (), ())
    shown = _with_the_strongest_tie(graph)
    css = {one.type: _colour(one.type) for one in sorted(shown, key=lambda one: one.type)}
    if narrow:
        dots = _in_rows(shown, css)
        height = len(dots) * _NARROW_ROW + _NARROW_ROW / 2
        return GraphMap(_NARROW, height, dots, _branches(dots), tuple(css.items()))
    height, dots = _in_two_columns(shown, css)
    place = {one.entity.id: Point(one.x, one.y) for one in dots}
    lines = tuple(
        DrawingLine(one.a, one.b, place[one.a], place[one.b], _width(one.weight))
        for one in graph.edges
        if one.a in place and one.b in place and one.a != one.b
    )
    return GraphMap(_GRAPH_WIDTH, height, dots, lines, tuple(css.items()))


def _with_the_strongest_tie(graph: Graph) -> list[EntityRow]:
    """Return the entity in the middle, then what is tied to it most."""
    middle, *others = graph.entities
    weights: dict[int, int] = {}
    for edge in graph.edges:
        if middle.id in (edge.a, edge.b):
            other = edge.b if edge.a == middle.id else edge.a
            weights[other] = weights.get(other, 0) + edge.weight
    others.sort(key=lambda one: (-weights.get(one.id, 0), one.name))
    return [middle, *others[:NEIGHBOURS]]


def _in_rows(entities: Sequence[EntityRow], css: Mapping[str, str]) -> tuple[Dot, ...]:
    """Put the middle at the top, and the others below it at its right."""
    return tuple(
        Dot(
            one,
            _NARROW_STEP * (2.5 if number else 1),
            _NARROW_ROW * (number + 0.7),
            min(_NARROW_DOT, _radius(one.nodes)),
            css[one.type],
            right=True,
        )
        for number, one in enumerate(entities)
    )


def _branches(dots: Sequence[Dot]) -> tuple[DrawingLine, ...]:
    """Draw a line down from the first dot, and from there one to each of the others."""
    first, *others = dots
    found, before = [], Point(first.x, first.y)
    for one in others:
        corner = Point(first.x, one.y)
        for begin, end in ((before, corner), (corner, Point(one.x, one.y))):
            found.append(DrawingLine(first.entity.id, one.entity.id, begin, end, _width(1)))
        before = corner
    return tuple(found)


def _in_two_columns(
    entities: Sequence[EntityRow], css: Mapping[str, str]
) -> tuple[float, tuple[Dot, ...]]:
    middle, *shown = entities
    rows = (len(shown) + 1) // 2
    height = max(_LEAST_HEIGHT, rows * _GRAPH_ROW + 2 * _GRAPH_ROW)
    centre = Dot(middle, _GRAPH_WIDTH / 2, height / 2, _radius(middle.nodes), css[middle.type])
    dots = [centre]
    for number, one in enumerate(shown):
        row, side = divmod(number, 2)
        of_side = rows if side == 0 else len(shown) // 2
        share = (row + 0.5) / of_side  # from the top to the bottom
        x = _ARC * math.sin(math.pi * share) + _APART
        y = height / 2 + (share - 0.5) * of_side * _GRAPH_ROW
        at = _GRAPH_WIDTH / 2 + (x if side else -x)
        dots.append(
            Dot(one, round(at, 1), round(y, 1), _radius(one.nodes), css[one.type], bool(side))
        )
    return height, tuple(dots)


def _colour(kind: str) -> str:
    return f"s{_TYPES.index(kind) + 1}" if kind in _TYPES else f"s{SERIES}"


def _radius(nodes: int) -> float:
    return round(min(16.0, 4.0 + 2.0 * math.sqrt(max(0, nodes))), 1)


def _width(weight: int) -> str:
    return f"w{min(3, max(1, weight))}"
