"""Drawings and addresses: pure functions, whatever the numbers and names are."""

from datetime import date, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from hypothesis import given, settings, strategies as st

from threadkeep.knowledge.query import parse_query
from threadkeep.knowledge.results import Edge, EntityRow, Graph, Sum
from threadkeep.memory.timeline import Moment
from threadkeep.web.charts import (
    HEIGHT,
    NEIGHBOURS,
    SERIES,
    bar,
    graph_map,
    level,
    ranked,
    ribbon,
    series_of,
    share,
    spent_bars,
    stacked,
    total_tokens,
    year,
)
from threadkeep.web.words import refined, session_address, with_query

AMOUNTS = st.floats(0, 1e12, allow_nan=False)
COLUMNS = st.lists(st.dictionaries(st.sampled_from("abcdefghijkl"), AMOUNTS), max_size=12)
DAYS = st.dates(date(2024, 1, 1), date(2027, 1, 1)).map(str)
SUMS = st.builds(Sum, input=st.integers(0, 10**9), output=st.integers(0, 10**9))
NAMES = st.text(min_size=1, max_size=12)
UTC = ZoneInfo("UTC")


@given(COLUMNS)
def test_series_keep_every_number_and_are_never_too_many(columns: list[dict[str, float]]) -> None:
    found = series_of(columns)
    assert len(found) <= SERIES
    for place, column in enumerate(columns):
        drawn = sum(one.values[place] for one in found)
        assert abs(drawn - sum(column.values())) <= 1e-6 * max(1.0, drawn)
    totals = [one.total for one in found if one.css != "rest"]
    assert totals == sorted(totals, reverse=True)


@given(COLUMNS)
def test_piles_stay_on_the_field_and_the_highest_fills_it(columns: list[dict[str, float]]) -> None:
    series = series_of(columns)
    labels = [["x"] * len(columns) for _ in series]
    drawing = stacked(series, labels, ["/"] * len(columns))
    tops: dict[int, float] = {}
    for mark in drawing.marks:
        assert mark.y >= 0
        assert mark.y + mark.height <= HEIGHT + 1e-6
        assert 0 <= mark.x <= drawing.width - mark.width
        tops[int(mark.x)] = min(tops.get(int(mark.x), HEIGHT), mark.y)
    if drawing.marks:
        assert min(tops.values()) < 1e-6


@given(AMOUNTS, AMOUNTS, AMOUNTS)
def test_more_is_never_cooler(one: float, other: float, top: float) -> None:
    low, high = sorted((one, other))
    assert 0 <= level(low, top) <= level(high, top) <= 4
    assert (level(one, top) == 0) == (one <= 0 or top <= 0)


@given(st.dates(date(2001, 1, 1), date(2100, 1, 1)))
def test_a_year_has_each_of_its_days_once(last: date) -> None:
    drawing = year(last, {str(last): 5.0}, {}, {str(last): "/x"})
    assert len(drawing.marks) == 365
    assert len({(mark.x, mark.y) for mark in drawing.marks}) == 365
    assert all(
        0 <= mark.x < drawing.width and 0 < mark.y < drawing.height for mark in drawing.marks
    )
    newest = drawing.marks[-1]
    assert (newest.label, newest.css, newest.href) == (str(last), "h4", "/x")


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_a_share_is_a_part_of_a_hundred(part: float, whole: float) -> None:
    assert 0 <= share(part, whole) <= 100
    assert all(mark.width <= 100 for mark in bar(part, whole).marks)


@given(st.dictionaries(DAYS, st.dictionaries(NAMES, SUMS, max_size=4), max_size=8))
def test_bars_have_all_that_was_spent(by_day: dict[str, dict[str, Sum]]) -> None:
    bars = spent_bars(by_day, "agent:codex", "tokens")
    spent = sum(total_tokens(one) for models in by_day.values() for one in models.values())
    assert abs(sum(map(sum, bars.numbers)) - spent) <= 1e-6 * max(1, spent)
    assert len(bars.columns) == (len(bars.numbers) or len(bars.columns))
    assert all("agent%3Acodex" in mark.href for mark in bars.drawing.marks)
    if by_day:
        assert bars.ticks[0] <= min(by_day)
        assert max(by_day) <= bars.ticks[-1]


def test_long_stretches_are_drawn_by_week_and_month() -> None:
    def unit(days: int) -> str:
        first = date(2020, 1, 1)
        ends = (str(first), str(first + timedelta(days=days)))
        return spent_bars({day: {"m": Sum(input=1)} for day in ends}, "", "tokens").unit

    assert [unit(days) for days in (3, 100, 1000, 9000)] == ["day", "week", "month", "year"]


def test_what_took_most_comes_first() -> None:
    table = {"a": Sum(input=5, cost=1), "b": Sum(input=1, cost=9), "c": Sum(input=5)}
    assert [name for name, _ in ranked(table, "tokens")] == ["a", "c", "b"]
    assert [name for name, _ in ranked(table, "cost")] == ["b", "a", "c"]


@settings(max_examples=10)
@given(
    st.integers(0, 60),
    st.lists(st.tuples(st.integers(0, 59), st.integers(0, 59), st.integers(0, 9)), max_size=60),
    st.booleans(),
)
def test_the_names_of_a_neighbourhood_never_lie_over_each_other(
    count: int,
    edges: list[tuple[int, int, int]],
    narrow: bool,  # noqa: FBT001
) -> None:
    entities = tuple(EntityRow(n, "file", f"f{n}", None, n, None, None) for n in range(count))
    graph = Graph(entities, tuple(Edge(a, b, "with", weight) for a, b, weight in edges))
    drawn = graph_map(graph, narrow=narrow)
    assert drawn == graph_map(graph, narrow=narrow)
    assert len(drawn.dots) == min(count, NEIGHBOURS + 1)
    assert all(0 <= dot.x <= drawn.width and 0 <= dot.y <= drawn.height for dot in drawn.dots)
    for right in (False, True):
        heights = sorted(dot.y for dot in drawn.dots[1:] if dot.right is right)
        assert all(after - before > 20 for before, after in pairwise(heights))
    known = {dot.entity.id for dot in drawn.dots}
    assert all({line.a, line.b} <= known for line in drawn.lines)


@given(st.integers(0, 86_399_999), st.integers(0, 90_000_000), st.integers(1, 4))
def test_what_happened_stays_within_its_day(at: int, lasted: int, lane: int) -> None:
    moment = Moment(at, "command", "make", "command:1", until=at + lasted)
    drawing = ribbon([(moment, lane)], 4, UTC)
    (mark,) = drawing.marks
    assert 0 <= mark.x <= mark.x + mark.width <= drawing.width
    assert 0 <= mark.y <= mark.y + mark.height <= drawing.height
    assert mark.href == f"#h{at // 3_600_000}"


@given(st.text(), st.sampled_from(("agent", "project", "model")), NAMES)
def test_a_filter_with_one_thing_changed_means_just_that(q: str, key: str, value: str) -> None:
    before = parse_query(q, 0)
    after = parse_query(refined(q, key, value), 0)
    assert getattr(after, key) == (value,)
    for other in {"agent", "project", "model", "branch", "bounds", "marks"} - {key}:
        assert getattr(after, other) == getattr(before, other)
    assert parse_query(refined(q, key, ""), 0) == parse_query(
        refined(refined(q, key, value), key, ""), 0
    )


@given(NAMES, NAMES, st.one_of(st.none(), NAMES))
def test_an_address_is_plain_text_whatever_it_leads_to(harness: str, name: str, key: str) -> None:
    address = session_address(harness, name, key)
    assert address.isascii()
    assert address.startswith("/sessions/")
    assert not {'"', "<", ">", " ", "\\"} & set(address + with_query("/x", q=name))
