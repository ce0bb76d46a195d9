"""usage: tables by time, blocks, lines of JSON, and the one line for a prompt."""

import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.cli.conftest import Run, document
from tests.cli.histories import captured, claude_log, said
from threadkeep.cli.output import shared
from threadkeep.cli.usage.command import line_of, short
from threadkeep.cli.usage.rows import added, hours_text, period_of, tokens_of
from threadkeep.home.statusline import RecentUsage
from threadkeep.knowledge.results import BillingBlock, Sum

MODEL = "claude-opus-4-5-20251101"
NOTHING = Sum()
SPENT = Sum(answers=2, input=1000, output=500, cost=1_250_000)


@pytest.fixture
def demo(run: Run) -> Run:
    return captured(run)


def rows(text: str) -> dict[str, list[str]]:
    return {line.split("\t")[0]: line.split("\t")[1:] for line in text.splitlines()}


@pytest.mark.parametrize(
    "report, names",
    [
        ("daily", ["2026-03-02", "2026-03-03", "2026-03-05", "2026-03-06", "2026-03-07"]),
        ("weekly", ["2026-03-02"]),
        ("monthly", ["2026-03"]),
    ],
)
def test_tables_by_time_add_up_to_the_total(demo: Run, report: str, names: list[str]) -> None:
    table = rows(demo("usage", report).stdout)
    assert list(table) == [*names, "total"]
    tokens = [int(cells[6].replace(",", "")) for cells in table.values()]
    assert sum(tokens[:-1]) == tokens[-1] == 164_653
    assert all(cells[-1].startswith(("$", "?")) for cells in table.values())


def test_a_breakdown_names_the_models_of_each_day(demo: Run) -> None:
    table = rows(demo("usage", "daily", "--breakdown", "--since", "2026-03-05").stdout)
    assert {"└ gpt-5.4", "└ gemini-3-pro"} <= set(table)
    assert "--breakdown is for" in demo("usage", "--breakdown", code=2).stderr
    assert "leave out --by" in demo("usage", "daily", "--by", "session", code=2).stderr


def test_without_cost_there_is_no_money(demo: Run) -> None:
    assert "$" not in demo("usage", "--no-cost").stdout
    assert "$" not in demo("usage", "blocks", "--no-cost").stdout


def test_rows_as_lines_of_json(demo: Run) -> None:
    lines = [json.loads(line) for line in demo("usage", "weekly", "--jsonl").stdout.splitlines()]
    assert [line["week"] for line in lines] == ["2026-03-02"]
    assert lines[0]["tokens"] == 164_653
    assert lines[0]["models"][MODEL]["output"] == 932
    assert isinstance(lines[0]["cost_microdollars"], int)


def test_days_are_those_of_a_time_zone(demo: Run) -> None:
    far = rows(demo("usage", "daily", "--timezone", "Pacific/Kiritimati").stdout)
    assert set(far) != set(rows(demo("usage", "daily", "--timezone", "UTC").stdout))
    assert "'Mars/Base' is not known" in demo("usage", "--timezone", "Mars/Base", code=2).stderr


def test_several_agents_add_up_and_a_model_stands_alone(demo: Run) -> None:
    def total(*words: str) -> int:
        found = json.loads(demo("usage", *words, "--json").stdout)
        return int(found["total"]["answers"])

    by_agent = json.loads(demo("usage", "--by", "agent", "--json").stdout)["rows"]
    one, other, *_ = [row["agent"] for row in by_agent]
    assert total("--agent", one, "--agent", other) == total("--agent", one) + total(
        "--harness", other
    )
    by_model = json.loads(demo("usage", "--json").stdout)["by_model"]
    name = next(iter(by_model))
    assert 0 < total("--model", name) <= total()


def test_blocks_of_five_hours_with_gaps_between_them(demo: Run) -> None:
    found = document(demo("usage", "blocks", "--json"))["blocks"]
    assert [one["gap"] for one in found[:3]] == [False, True, False]
    assert not any(one["active"] for one in found)
    assert sum(one["total"]["tokens"] for one in found) == 164_653
    assert demo("usage", "blocks", "--live").stdout == demo("usage", "blocks").stdout


# ---------------------------------------------------------------------- one line


def lately(**more: Any) -> RecentUsage:
    return RecentUsage(**{"today": SPENT, "block": None, "session": None, **more})


def test_the_line_says_what_is_known() -> None:
    told = {"model": {"display_name": "Opus"}, "cost": {"total_cost_usd": 0.5}}
    block = BillingBlock(
        start=0, end=1, first=0, last=1, gap=False, active=True, total=SPENT, minutes_left=130
    )
    assert line_of({}, None) == "nothing captured yet"
    assert line_of(told, lately()) == "Opus · $0.50 session · $1.25 today"
    assert line_of(told, lately(), cost=False) == "Opus · 1.5k tokens today"
    assert line_of({}, lately(block=block)) == "$1.25 today · $1.25 block (2h 10m left)"
    assert line_of({}, lately(session=SPENT)) == "$1.25 session · $1.25 today"


@pytest.mark.parametrize("stdin", ["", "{", "[1]", '{"model": 3, "cost": [], "session_id": {}}'])
def test_the_line_needs_neither_a_store_nor_sense_on_stdin(run: Run, stdin: str) -> None:
    assert run("usage", "statusline", stdin=stdin).stdout == "nothing captured yet\n"


def test_the_line_of_a_session_is_found_by_what_claude_code_tells(run: Run, tmp_path: Path) -> None:
    spent = {"input_tokens": 1000, "output_tokens": 500}
    answer = said("assistant", [{"type": "text", "text": "yes"}], 2)
    answer["message"] |= {"id": "m1", "model": MODEL, "usage": spent, "stop_reason": "end_turn"}
    answer["requestId"] = "r1"
    claude_log(tmp_path, said("user", "why?"), answer, name="aaaa1111")
    run("capture", "--quiet", "--user-home", str(tmp_path))
    told = json.dumps({"session_id": "aaaa1111"})
    line = run("usage", "statusline", "--no-cost", stdin=told).stdout
    assert line == "1.5k tokens session · 0 tokens today\n"


# ---------------------------------------------------------------------- pure functions

sums = st.builds(Sum, *[st.integers(0, 10**9)] * 8)


@given(st.lists(sums), st.lists(sums))
def test_adding_up_does_not_depend_on_the_grouping(some: list[Sum], more: list[Sum]) -> None:
    assert added([added(some), added(more)]) == added([*some, *more])
    assert tokens_of(added(some)) == sum(map(tokens_of, some))


@given(st.dates(date(1990, 1, 4), date(2100, 1, 1)))
def test_a_week_has_seven_days_and_a_month_its_own(day: date) -> None:
    monday = day - timedelta(days=day.weekday())
    week = {period_of((monday + timedelta(days=n)).isoformat(), "week") for n in range(7)}
    assert len(week) == 1
    assert day.isoformat().startswith(period_of(day.isoformat(), "month"))
    assert period_of("unknown", "week") == "unknown"


def test_numbers_in_few_characters() -> None:
    assert [short(n) for n in (0, 999, 12_300, 4_500_000)] == ["0", "999", "12.3k", "4.5M"]
    assert [hours_text(n) for n in (None, 5, 60, 135)] == ["0m", "5m", "1h 00m", "2h 15m"]


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 80), min_size=1),
    st.sets(st.sampled_from("abcdef")),
    st.integers(1, 200),
)
def test_columns_fit_and_numbers_are_cut_last(
    widths: dict[str, int], numbers: set[str], room: int
) -> None:
    given_ = shared(room, widths, "a", numbers)
    least = len(widths) + 2 * (len(widths) - 1)
    assert sum(given_.values()) + 2 * (len(widths) - 1) <= max(room, least)
    cut = {name for name in widths if given_[name] < widths[name]}
    texts = {name for name in widths if name not in numbers and name != "a"}
    if cut & numbers - {"a"}:
        assert all(given_[name] <= 6 for name in texts)
