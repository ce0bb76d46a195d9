"""Segments get their own entries, whatever the clock of a program says, and for a linear price."""

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.support.tickets import NOW, add_row, add_ticket
from tests.support.work import calls_made, steps_taken
from threadkeep.base.tx import Sql
from threadkeep.home.home import Home
from threadkeep.knowledge.kinds import Queue
from threadkeep.knowledge.queues import claim
from threadkeep.knowledge.segments import EntryMoment, SegmentSpan, share_out
from threadkeep.knowledge.store import QUERIES, KnowledgeStore
from threadkeep.service.learn import enrich

KINDS = st.sampled_from(["prompt", "text", "tool_call", "tool_result"])


# ---------------------------------------------------------------------- who gets what


@given(st.lists(st.tuples(st.integers(0, 3), KINDS), max_size=40), st.data())
def test_where_segments_do_not_touch_the_time_alone_decides(
    entries: list[tuple[int, str]], data: st.DataObject
) -> None:
    moments, at = [], 0
    for number, (later, kind) in enumerate(entries):
        at += later
        moments.append(EntryMoment(number, at, kind))
    bounds = sorted(data.draw(st.sets(st.integers(0, at + 2), max_size=8)))
    some = st.integers(0, 3)
    spans = [
        SegmentSpan(1000 + start, start, end, data.draw(some), data.draw(some))
        for start, end in zip(bounds[::2], bounds[1::2], strict=False)
    ]
    expected = {
        span.id: [one.id for one in moments if span.start <= one.at <= span.end] for span in spans
    }
    assert share_out(spans, moments) == expected


@given(st.lists(st.lists(KINDS, min_size=1, max_size=8), min_size=1, max_size=6))
def test_of_one_moment_each_segment_gets_what_it_counts(pieces: list[list[str]]) -> None:
    spans, moments, expected = list[SegmentSpan](), list[EntryMoment](), dict[int, list[int]]()
    for index, rest in enumerate(pieces):
        kinds = ["prompt", *rest]
        ids = [len(moments) + n for n in range(len(kinds))]
        moments += [EntryMoment(id_, 7, kind) for id_, kind in zip(ids, kinds, strict=True)]
        spans.append(SegmentSpan(index, 7, 7, kinds.count("prompt"), kinds.count("tool_call")))
        expected[index] = ids
    assert share_out(spans, moments) == expected


@given(
    st.lists(st.builds(SegmentSpan, st.just(0), *[st.integers(0, 9)] * 4), max_size=6),
    st.lists(st.builds(EntryMoment, st.integers(0, 99), st.integers(0, 12), KINDS), max_size=30),
    st.integers(1, 5),
)
def test_nothing_is_given_twice_or_too_much(
    spans: list[SegmentSpan], moments: list[EntryMoment], most: int
) -> None:
    rows = sorted((one._replace(id=n) for n, one in enumerate(spans)), key=lambda one: one.start)
    sorted_ = sorted(moments, key=lambda one: one.at)
    numbered = [one._replace(id=n) for n, one in enumerate(sorted_)]
    shares = share_out(rows, numbered, most)
    given_ = [number for share in shares.values() for number in share]
    assert len(given_) == len(set(given_))
    assert all(len(share) <= most for share in shares.values())
    within = {one.id: (one.start, one.end) for one in rows}
    for span, share in shares.items():
        assert all(within[span][0] <= numbered[n].at <= within[span][1] for n in share)


# ---------------------------------------------------------------------- what it costs


def prompts(folder: Path, count: int, seconds: int, words: str = "") -> Home:
    """Write a transcript with so many prompts, each so long after the last."""
    logs = folder / ".claude" / "projects" / "-home-me-app"
    logs.mkdir(parents=True)
    lines = []
    for number in range(count):
        at = number * seconds
        stamp = (
            f"2026-11-{1 + at // 86_400:02}T{at // 3600 % 24:02}:{at // 60 % 60:02}:{at % 60:02}Z"
        )
        asked = words or f"Repair src/part{number}.py. " + f"word{number} " * 60
        common = {"sessionId": "s", "uuid": f"u{number}", "timestamp": stamp, "cwd": "/home/me/app"}
        message = {"role": "user", "content": asked}
        lines.append(json.dumps({"type": "user", **common, "message": message}))
    (logs / "s.jsonl").write_text("\n".join(lines) + "\n")
    return Home(folder / "home", environ={"HOME": str(folder)})


def price(folder: Path, count: int, seconds: int, words: str = "") -> tuple[int, int]:
    """Return what it costs to enrich so many prompts: steps of SQLite, and calls of Python."""
    home = prompts(folder, count, seconds, words)
    with home.history(user_home=folder) as history:
        history.capture()
    made = 0

    def learn() -> None:
        nonlocal made
        with home.history(user_home=folder) as history:
            made = enrich(home, history, at_once=True).nodes

    with steps_taken() as steps:
        calls = calls_made(learn)
    assert made > 1
    return steps(), calls


SAME = "Repair the parser of the tide feed, and say what you did. " * 8


@pytest.mark.parametrize("seconds, words", [(30, ""), (0, ""), (0, SAME)])
def test_the_price_of_enrichment_grows_with_what_is_read(
    tmp_path: Path, seconds: int, words: str
) -> None:
    few = price(tmp_path / "few", 100, seconds, words)
    many = price(tmp_path / "many", 400, seconds, words)
    assert all(more <= 4.4 * less for more, less in zip(many, few, strict=True)), (few, many)


def test_one_timestamp_costs_no_more_than_many(tmp_path: Path) -> None:
    spread, same = price(tmp_path / "spread", 200, 30), price(tmp_path / "same", 200, 0)
    assert all(one <= 1.1 * other for one, other in zip(same, spread, strict=True)), (same, spread)


def test_prompts_of_one_moment_become_nodes_of_their_own(tmp_path: Path) -> None:
    home = prompts(tmp_path, 100, 0)
    with home.history(user_home=tmp_path) as history:
        history.capture()
        enrich(home, history, at_once=True)
        with history.store.context.db.read() as tx:
            rows = tx.all(Sql("SELECT embed_text FROM knowledge_nodes"))
    assert len(rows) > 2
    for number in range(0, 100, 10):
        assert sum(f"src/part{number}.py" in text for (text,) in rows) <= 1


@pytest.mark.parametrize("queue", ["shell", "agentic", "browser"])
def test_taking_tickets_costs_the_same_however_many_wait(tmp_path: Path, queue: Queue) -> None:
    costs = []
    for waiting in (3000, 9000):
        path = tmp_path / f"{waiting}.db"
        with KnowledgeStore.open(path) as store, store.context.db.write() as tx:
            for number in range(waiting):
                values = {"segment_index": number} if queue == "agentic" else {}
                add_ticket(tx, queue, add_row(tx, queue, **values))
        with (
            steps_taken() as steps,
            KnowledgeStore.open(path) as store,
            store.context.db.write() as tx,
        ):
            before = steps()
            assert len(claim(tx, queue, worker="w", now=NOW, limit=100, at_once=True)) == 100
            costs.append(steps() - before)
    assert costs[1] <= 1.1 * costs[0], costs


LINKED = ("told_of_event", "told_of_segment", "told_of_visit", "told_of_run")


@pytest.mark.parametrize("name", LINKED)
def test_no_node_costs_a_look_at_all_links(tmp_path: Path, name: str) -> None:
    with KnowledgeStore.open(tmp_path / "k.db") as store, store.context.db.read() as tx:
        sql, asked = QUERIES[name], {"ids": "[1]", "node_type": "observation"}
        plan = [row[3] for row in tx.all(Sql(f"EXPLAIN QUERY PLAN {sql}"), asked)]
    assert any("tk_nodes_of_" in step for step in plan), plan
    assert not any(step.startswith("SCAN l") for step in plan), plan
