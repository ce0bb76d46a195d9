"""Charts: numbers become places on a drawing; the templates write them as SVG.

Nothing here is text or colour: a mark has a class, and the style sheet says what that looks like
in the light and in the dark. Everything is a pure function of the numbers.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from types import MappingProxyType
from typing import Final

import msgspec

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
    """Give the height of the highest pile."""
    columns = zip(*(one.values for one in series), strict=True)
    return max((math.fsum(column) for column in columns), default=0.0)


def stacked(
    series: Sequence[Series], labels: Sequence[Sequence[str]], hrefs: Sequence[str]
) -> Drawing:
    """Pile series up, one bar for each place; `labels[series][place]` says what a piece is."""
    top = highest(series)
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


def level(value: float, top: float) -> int:
    """Give how hot a value is, from 0 (nothing) to 4; by its root, for a few days outdo all."""
    if value <= 0 or top <= 0:
        return 0
    return max(1, min(_LEVELS - 1, math.ceil(math.sqrt(min(1.0, value / top)) * (_LEVELS - 1))))


def days_back(last: date, count: int) -> list[date]:
    """Give so many days up to a last one, the earliest first."""
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
    """Give a part of a whole in percent, between 0 and 100."""
    return 0.0 if whole <= 0 else max(0.0, min(100.0, 100.0 * part / whole))


def bar(part: float, whole: float, css: str = "s1") -> Drawing:
    """Draw one part of a whole as a bar that lies; the page says how long the whole is."""
    width = share(part, whole)
    mark = (Mark(0.0, 0.0, width, 10.0, css, ""),) if width else ()
    return Drawing(100.0, 10.0, mark)
