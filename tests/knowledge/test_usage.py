"""Sums of tokens and cost: by day, model, project, agent and hour, and what a day was like."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
import pytest

from tests.support.many_sessions import DAY, NOW, Many
from tests.support.tickets import add_event, add_run, add_visit
from threadkeep.knowledge.library import Browse
from threadkeep.knowledge.prices import tokens_of
from threadkeep.knowledge.query import Query, parse_query
from threadkeep.knowledge.results import Sum
from threadkeep.testing import KnowledgeFactory

HOUR = 3_600_000
MIDNIGHT = NOW - NOW % DAY
OPUS = "claude-opus-4-5"


@pytest.fixture(scope="module")
def browse(
    tmp_path_factory: pytest.TempPathFactory, lasting_factory: KnowledgeFactory
) -> Iterator[Browse]:
    many = Many(tmp_path_factory.mktemp("usage"), lasting_factory)
    one = many.add("one", harness="claude-code", project="web", ended_at=NOW - HOUR)
    sub = many.add("sub", harness="claude-code", project="web", is_subagent=1, ended_at=NOW - HOUR)
    two = many.add("two", project="", cwd="/u/solo", ended_at=NOW - 3 * DAY)
    claude = {"harness": "claude-code", "model": OPUS}
    many.answer(one, MIDNIGHT + 30 * 60_000, input=100, output=10, cache_read=1_000, **claude)
    many.answer(sub, MIDNIGHT - 30 * 60_000, input=200, cache_write=40, reasoning=5, **claude)
    many.answer(two, NOW - 3 * DAY, input=300)
    many.answer(two, None, model="nobody-knows", output=7)
    many.say(one, "the first message", at=MIDNIGHT + 1)
    many.say(one, "yesterday's message", at=MIDNIGHT - 1)
    _observed(many)
    with many.browse() as opened:
        yield opened


def _observed(many: Many) -> None:
    with many.write() as tx:
        for at, tag in ((NOW, None), (NOW, "p"), (1, None)):
            add_event(tx, at=at, command="ls", probe_tag=tag)
        add_visit(tx, at=NOW)
        add_run(tx, started_at=NOW)


def test_the_same_answers_are_summed_up_in_every_way(browse: Browse) -> None:
    report = browse.usage()
    assert (report.total.answers, report.total.unpriced, report.priced) == (4, 1, True)
    assert (report.total.reasoning, tokens_of(report.total)) == (5, 1_110 + 240 + 300 + 7)
    days = [one for models in report.by_day.values() for one in models.values()]
    for parts in (
        days,
        report.by_model.values(),
        report.by_project.values(),
        report.by_agent.values(),
    ):
        listed = list(parts)
        assert sum(map(tokens_of, listed)) == tokens_of(report.total)
        assert sum(one.answers for one in listed) == 4
        assert abs(sum(one.cost for one in listed) - report.total.cost) <= len(listed)
    assert set(report.by_model) == {OPUS, "gpt-5", "nobody-knows"}
    assert set(report.by_project) == {"web", "/u/solo"}
    assert report.by_agent["claude-code"].answers == 2  # a subagent's tokens are spent as well
    assert report.total.cost == 100 * 5 + 10 * 25 + 500 + 200 * 5 + 40 * 6.25 + 375
    assert set(report.by_day["unknown"]) == {"nobody-knows"}


def test_days_and_hours_are_those_of_the_zone(browse: Browse) -> None:
    today, before = (
        datetime.fromtimestamp(at / 1000, UTC).date().isoformat()
        for at in (MIDNIGHT, MIDNIGHT - DAY)
    )
    utc = browse.usage()
    assert set(utc.by_day) >= {today, before}
    tokyo = browse.usage(zone=ZoneInfo("Asia/Tokyo"))
    assert before not in tokyo.by_day
    assert tokyo.by_day[today][OPUS].answers == 2
    weekday = datetime.fromtimestamp(MIDNIGHT / 1000, UTC).weekday()
    assert utc.by_hour[weekday][0] == 1_110
    assert sum(map(sum, utc.by_hour)) == 1_110 + 240 + 300


@pytest.mark.parametrize(
    "text, tokens",
    [
        ("model:opus", 1_350),
        ("-model:opus", 307),
        ("agent:codex", 307),
        ("project:web", 1_350),
        ("is:subagent", 240),
        ("message", 1_110),
        ("model:other", 0),
    ],
)
def test_a_query_says_which_answers_are_meant(browse: Browse, text: str, tokens: int) -> None:
    assert tokens_of(browse.usage(parse_query(text, NOW)).total) == tokens


def test_times_are_those_of_the_answers(browse: Browse) -> None:
    assert tokens_of(browse.usage(Query(since=MIDNIGHT)).total) == 1_110
    assert tokens_of(browse.usage(Query(until=MIDNIGHT)).total) == 540


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/New_York"])
def test_every_hour_of_the_week_leads_to_its_own_answers(browse: Browse, zone: str) -> None:
    here = Browse(browse.store, browse.sources, ZoneInfo(zone), lambda: NOW)
    grid = here.usage(Query()).by_hour
    for day, row in enumerate(grid):
        for hour, tokens in enumerate(row):
            if tokens:
                of_it = Query(hours=(24 * day + hour,))
                assert tokens_of(here.usage(of_it).total) == tokens
                assert here.sessions(msgspec.structs.replace(of_it, marks=("subagent",))).items or (
                    here.sessions(of_it).items
                )
    assert here.usage(Query(hours=tuple(range(168)))).by_hour == grid


def test_activity_has_the_days_of_the_last_year(browse: Browse) -> None:
    days = browse.activity()
    assert sum(days.values()) == 1_650
    assert list(days) == sorted(days)
    assert list(browse.activity(days=1).values()) == [1_110]


def test_blocks_are_made_of_the_answers_that_have_a_time(browse: Browse) -> None:
    blocks = browse.blocks_report(now=NOW)
    assert [one.gap for one in blocks] == [False, True, False]
    assert [one.total.answers for one in blocks] == [1, 0, 2]
    (only,) = browse.blocks_report(parse_query("model:gpt", NOW), now=NOW)
    assert only.models == ("gpt-5",)


def test_what_happened_today(browse: Browse) -> None:
    today = browse.today(NOW)
    assert (today.sessions, today.messages, today.commands) == (1, 1, 1)
    assert (today.pages, today.runs, today.tokens) == (1, 1, 1_110)
    assert today.cost == 100 * 5 + 10 * 25 + 500
    assert today.live == ()
    assert [one.ref for one in today.recent] == ["claude-code:one", "codex:two"]
    later = browse.today(NOW + int(timedelta(days=2).total_seconds() * 1000))
    assert (later.sessions, later.messages, later.tokens) == (0, 0, 0)


def test_a_sum_is_made_anew_when_something_is_written(tmp_path: Path) -> None:
    many = Many(tmp_path)
    session = many.add("one")
    with many.browse() as browse:
        assert browse.usage().total == Sum()
        many.answer(session, NOW, input=5)
        assert browse.usage().total.input == 5
