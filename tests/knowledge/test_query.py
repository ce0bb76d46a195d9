"""The language of the filter bar: what it means, and that text and query say the same."""

from datetime import UTC, datetime
from typing import get_args
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import example, given, strategies as st

from threadkeep.knowledge.query import Bound, Kind, Query, format_query, parse_query

NOW = int(datetime(2026, 2, 10, 15, 30, tzinfo=UTC).timestamp() * 1000)
BERLIN = ZoneInfo("Europe/Berlin")
ZONES = st.sampled_from([UTC, BERLIN, ZoneInfo("Asia/Kathmandu"), ZoneInfo("America/Sao_Paulo")])
TIMES = st.none() | st.integers(0, 4_000_000_000_000)
VALUES = st.lists(st.text(min_size=1, max_size=8), max_size=2, unique=True).map(tuple)
ONE = st.none() | st.text(min_size=1, max_size=8)
KEYS = st.sampled_from(["agent", "project", "model", "branch"])
BOUNDS = st.builds(
    Bound,
    st.sampled_from(["cost", "tokens", "messages", "prompts", "tools", "errors", "minutes"]),
    st.sampled_from([">", ">=", "<", "<=", "="]),
    st.floats(0, 1e12, allow_nan=False),
)
QUERIES = st.builds(
    Query,
    text=st.sampled_from(["", "one", 'two "exact words"', "a:b - NOT :x"]),
    agent=VALUES,
    project=VALUES,
    model=VALUES,
    branch=VALUES,
    session=VALUES,
    kind=st.lists(st.sampled_from(get_args(Kind)), max_size=2, unique=True).map(tuple),
    role=VALUES,
    part=VALUES,
    tool=VALUES,
    outcome=VALUES,
    file=VALUES,
    entity=ONE,
    parent=ONE,
    exclude=st.lists(st.tuples(KEYS, st.text(min_size=1, max_size=5)), max_size=2, unique=True).map(
        tuple
    ),
    since=TIMES,
    until=TIMES,
    hours=st.lists(st.integers(0, 167), max_size=3, unique=True).map(tuple),
    bounds=st.lists(BOUNDS, max_size=2, unique=True).map(tuple),
    marks=st.lists(
        st.sampled_from(["live", "subagent", "hidden", "failed", "all"]), max_size=3, unique=True
    ).map(tuple),
)

PIECES = st.sampled_from(
    [*("agent:", "-project:", "is:", "on:", "cost:>", "x:", '"', "\\"), *" -7", "a b", "live", "2d"]
)


def at(*when: int, zone: ZoneInfo | None = None) -> int:
    return int(datetime(*when, tzinfo=zone or UTC).timestamp() * 1000)  # type: ignore[arg-type,misc]


@given(QUERIES, ZONES)
def test_a_query_is_written_as_text_that_means_the_same(query: Query, zone: ZoneInfo) -> None:
    assert parse_query(format_query(query, zone), NOW, zone) == query


@given(st.text() | st.lists(PIECES).map("".join), ZONES)
@example('"agent:codex', UTC)
@example('x:"a\\"agent:codex"', UTC)
@example('agent:""', UTC)
@example("since:99999y", UTC)
def test_any_text_is_a_query_and_stays_the_same_one(text: str, zone: ZoneInfo) -> None:
    query = parse_query(text, NOW, zone)
    assert parse_query(format_query(query, zone), NOW, zone) == query


def test_all_keys_of_the_language() -> None:
    text = (
        'agent:codex project:"my web" model:opus branch:main cost:>1 tokens:>=10k errors:>0 '
        'minutes:<5 is:live is:all -agent:cursor "exact words" word session:codex:01ab '
        "kind:command role:user part:tool_call tool:Bash outcome:failure entity:sqlite parent:01 "
        "file:src/board.py"
    )
    assert parse_query(text, NOW) == Query(
        text='"exact words" word',
        agent=("codex",),
        project=("my web",),
        model=("opus",),
        branch=("main",),
        session=("codex:01ab",),
        kind=("command",),
        role=("user",),
        part=("tool_call",),
        tool=("Bash",),
        outcome=("failure",),
        file=("src/board.py",),
        entity="sqlite",
        parent="01",
        exclude=(("agent", "cursor"),),
        bounds=(
            Bound("cost", ">", 1.0),
            Bound("tokens", ">=", 10_000.0),
            Bound("errors", ">", 0.0),
            Bound("minutes", "<", 5.0),
        ),
        marks=("live", "all"),
    )


@pytest.mark.parametrize("key", ["harness", "source"])
def test_older_words_for_an_agent_are_understood(key: str) -> None:
    assert parse_query(f"{key}:pi -{key}:codex", NOW) == parse_query("agent:pi -agent:codex", NOW)


@pytest.mark.parametrize(
    "text, since, until",
    [
        ("since:7d", at(2026, 2, 2, 23), None),  # midnight in Berlin, an hour before UTC's
        ("since:2h", NOW - 7_200_000, None),
        ("since:today", at(2026, 2, 9, 23), None),
        ("until:2026-01-31", None, at(2026, 1, 31, 23)),
        ("on:2026-01-30", at(2026, 1, 29, 23), at(2026, 1, 30, 23)),
        ("on:2026-01", at(2025, 12, 31, 23), at(2026, 1, 31, 23)),
        ("since:2026-01-30T12:00", at(2026, 1, 30, 11), None),
        ("since:2026-01-30T12:00:00.250Z", at(2026, 1, 30, 12) + 250, None),
    ],
)
def test_days_are_those_of_the_zone(text: str, since: int | None, until: int | None) -> None:
    assert parse_query(text, NOW, BERLIN) == Query(since=since, until=until)


def test_a_day_is_written_as_a_day() -> None:
    text = "since:2026-01-30 until:2026-02-01"
    assert format_query(parse_query(text, NOW, BERLIN), BERLIN) == text
    assert format_query(parse_query("on:2026-03-29", NOW, BERLIN), BERLIN) == "on:2026-03-29"


@pytest.mark.parametrize(
    "text",
    [
        "cost:much",
        "is:odd",
        "kind:thing",
        "since:later",
        "on:2h",
        "unknown:x",
        "-is:live",
        "-word",
        "a:",
    ],
)
def test_what_is_not_understood_is_words(text: str) -> None:
    assert parse_query(text, NOW) == Query(text=text)


def test_the_same_twice_counts_once() -> None:
    once = parse_query("agent:a -agent:b cost:>1 is:live", NOW)
    twice = parse_query("agent:a agent:a -agent:b -agent:b cost:>1 cost:>1 is:live is:live", NOW)
    assert twice == once
    assert msgspec.structs.replace(once, agent=("a",)) == once
