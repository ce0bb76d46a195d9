"""Sums and counts made by SQL in one go are those that come out when everything is looked at."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st

from tests.support.many_sessions import DAY, NOW, Many
from threadkeep.base.tx import Sql
from threadkeep.knowledge import usage
from threadkeep.knowledge.library import Browse
from threadkeep.knowledge.prices import SumBuilder, pico_of, step_of
from threadkeep.knowledge.query import parse_query
from threadkeep.knowledge.results import Sum
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.knowledge.transcript import finder_of
from threadkeep.testing import KnowledgeFactory

HOUR = 3_600_000
COUNTS = ("input", "output", "cache_read", "cache_write", "cache_write_1h", "reasoning")
AGENTS = {"codex": "gpt-5", "claude-code": "claude-sonnet-4-5", "gemini-cli": "gemini-2.5-pro"}


class World:
    """A store of random sessions, and the answers in it as they were written."""

    def __init__(self, folder: Path, factory: KnowledgeFactory) -> None:
        self.chance = Random(11)
        self.many = Many(folder, factory)
        self.answers: list[tuple[str, dict[str, Any]]] = []
        for number in range(40):
            self._session(number)

    def _session(self, number: int) -> None:
        agent = self.chance.choice(list(AGENTS))
        project = self.chance.choice(("web", "api", ""))
        ended = NOW - self.chance.randrange(30) * DAY
        session = self.many.add(
            f"s{number:02}",
            harness=agent,
            model=AGENTS[agent],
            project=project,
            cwd=f"/u/{project or 'solo'}{number % 2}",
            git_branch=self.chance.choice(("main", "fix", None)) or "",
            title=self.chance.choice(("Repair it", "Look", "")),
            ended_at=ended,
        )
        for _ in range(self.chance.randrange(4)):
            at = self.chance.choice((ended, ended - self.chance.randrange(DAY), None))
            self._answer(session, project or f"/u/solo{number % 2}", agent, at)

    def _answer(self, session: int, project: str, agent: str, at: int | None) -> None:
        size = self.chance.choice((10, 40_000, 150_000, 300_000))
        counts = {name: self.chance.randrange(size) for name in COUNTS}
        counts["cache_write_1h"] = min(counts["cache_write_1h"], counts["cache_write"])
        values = {"harness": agent, "model": AGENTS[agent], **counts}
        self.many.answer(session, at, **values)
        self.answers.append((project, {"at": at, **values}))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, lasting_factory: KnowledgeFactory) -> World:
    return World(tmp_path_factory.mktemp("equal"), lasting_factory)


@pytest.fixture(scope="module")
def browse(world: World) -> Iterator[Browse]:
    with world.many.browse() as opened:
        yield opened


def by_hand(world: World, zone: ZoneInfo) -> dict[str, dict[str, Sum]]:
    """Sum up one answer after the other, in every way."""
    sums: dict[str, dict[str, SumBuilder]] = defaultdict(lambda: defaultdict(SumBuilder))
    for project, one in world.answers:
        spent = (1, *(one[name] for name in COUNTS))
        step = step_of(one["input"] + one["cache_read"] + one["cache_write"])
        pico = pico_of(one["harness"], one["model"], step, one["at"], spent)
        moment = None if one["at"] is None else datetime.fromtimestamp(one["at"] / 1000, zone)
        day = "unknown" if moment is None else moment.date().isoformat()
        for way, name in (("day", day), ("project", project), ("agent", one["harness"])):
            sums[way][name].add(spent, pico)
        sums["model"][one["model"]].add(spent, pico)
        sums["total"][""].add(spent, pico)
    return {way: {name: one.done() for name, one in found.items()} for way, found in sums.items()}


@pytest.mark.parametrize("name", ["UTC", "America/New_York", "Asia/Kathmandu"])
def test_usage_is_the_sum_of_all_answers(world: World, browse: Browse, name: str) -> None:
    zone = ZoneInfo(name)
    report, expected = browse.usage(zone=zone), by_hand(world, zone)
    assert {"": report.total} == expected["total"]
    assert report.by_project == expected["project"]
    assert report.by_model == expected["model"]
    assert report.by_agent == expected["agent"]
    days = {
        day: sum(one.answers for one in models.values()) for day, models in report.by_day.items()
    }
    assert days == {day: one.answers for day, one in expected["day"].items()}


def test_answers_are_summed_up_in_the_order_of_their_index(world: World) -> None:
    with (
        KnowledgeStore.open(world.many.path, read_only=True) as store,
        store.context.db.read() as tx,
    ):
        sql = usage.spent_sql("1", ZoneInfo("UTC"))
        plan = [row[3] for row in tx.all(Sql(f"EXPLAIN QUERY PLAN {sql}"))]
    first = plan[: plan.index("SCAN sums")]
    assert any("COVERING INDEX tk_usage_quarters" in step for step in first)
    assert not any("TEMP B-TREE" in step for step in first)


@pytest.mark.parametrize(
    "text", ["", "agent:codex", "project:web", "project:/u/WEB1", "agent:codex model:gpt", "look"]
)
def test_counts_are_those_of_the_whole_list(browse: Browse, text: str) -> None:
    query = parse_query(text, NOW)
    listed = [one.session for one in browse.sessions(query, limit=100).items]
    assert browse.count(query) == len(listed)
    facets = browse.facets(query)
    for key, column in (("agent", "agent"), ("project", "project"), ("branch", "git_branch")):
        if not getattr(query, key):
            counts = Counter(value for one in listed if (value := getattr(one, column)))
            assert dict(facets[key]) == dict(counts)


@pytest.mark.parametrize("hours", [0, 1, 6, 30, 24 * 40])
def test_the_block_that_runs_now_is_one_of_all_blocks(browse: Browse, hours: int) -> None:
    now = NOW + hours * HOUR
    active = [one for one in browse.blocks_report(now=now) if one.active]
    assert browse.block_now(now=now) == (active[-1] if active else None)


def test_a_long_chain_of_blocks_is_followed_to_its_beginning(tmp_path: Path) -> None:
    many = Many(tmp_path)
    session = many.add("busy", ended_at=NOW)
    for number in range(60):  # an answer every two hours, for five days
        many.answer(session, NOW - number * 2 * HOUR, input=1)
    with many.browse() as browse:
        (active,) = [one for one in browse.blocks_report(now=NOW) if one.active]
        assert browse.block_now(now=NOW) == active


@given(st.text("aAkKsS \u017f\u212ai\u0130.", max_size=12), st.text("aksAKS.i\u017f ", min_size=1))
def test_words_are_found_as_a_plain_search_finds_them(text: str, words: str) -> None:
    if words.split():
        pattern = r"\s+".join(map(re.escape, words.split()))
        expected = re.compile(pattern, re.IGNORECASE).search(text)
        found = finder_of(words)(text)
        assert (found and found.span()) == (expected and expected.span())
