"""state stats, and its bars."""

from datetime import date, timedelta

import pytest
from hypothesis import given, strategies as st

from tests.cli.conftest import Run, document
from tests.support.states import talk
from threadkeep import SessionDB
from threadkeep.base.tx import Sql
from threadkeep.cli.state.browse import bars


def used(state: SessionDB) -> None:
    for number, model in enumerate(("acme-1", "acme-2", "acme-1")):
        session = f"s{number}"
        talk(state, session, "hello", source="cron" if number == 1 else "cli")
        state.update_token_counts(
            session, 100 * (number + 1), 10, model=model, estimated_cost_usd=0.5
        )


def test_totals_and_days(run: Run, state: SessionDB) -> None:
    used(state)
    told = document(run("state", "stats", "--json"))
    assert (told["sessions"], told["messages"]) == (3, 3)
    assert told["sources"] == {"cli": 2, "cron": 1}
    assert told["totals"]["total_tokens"] == 630
    assert sum(day["total_tokens"] for day in told["usage"]) == 630
    text = run("state", "stats").stdout
    assert "tokens\t600 in, 30 out\n" in text
    assert "cost\t$1.50\n" in text
    assert f"\n{told['usage'][0]['day']}\t" in text


@pytest.mark.parametrize(
    "by, rows",
    [
        ("model", [("acme-1", 420), ("acme-2", 210)]),
        ("source", [("cli", 420), ("cron", 210)]),
        ("session", [("s2", 310), ("s1", 210), ("s0", 110)]),
    ],
)
def test_by_what(by: str, rows: list[tuple[str, int]], run: Run, state: SessionDB) -> None:
    used(state)
    told = document(run("state", "stats", "--by", by, "--json"))
    assert [(one[by], one["total_tokens"]) for one in told["usage"]] == rows
    text = run("state", "stats", "--by", by, "--limit", "1")
    assert text.stdout.splitlines()[-1].split("\t")[:2] == [rows[0][0], str(rows[0][1])]
    assert "--limit" in text.stderr


def test_one_source_only(run: Run, state: SessionDB) -> None:
    used(state)
    told = document(run("state", "stats", "--source", "cron", "--json"))
    assert (told["sessions"], told["totals"]["input_tokens"]) == (1, 200)


def test_days_without_use_are_shown_in_between(run: Run, state: SessionDB) -> None:
    used(state)
    today = date.fromisoformat(state.usage("day")[0]["day"])
    earlier = "UPDATE tk_usage SET day = ? WHERE model = 'acme-2'"
    with state.context.db.write() as tx:
        tx.run(Sql(earlier), ((today - timedelta(days=4)).isoformat(),))
    lines = run("state", "stats").stdout.split("\n\n")[1].splitlines()
    assert [line.split("\t")[1] for line in lines][:5] == ["210", "0", "0", "0", "420"]
    assert "2026-01-15" in run("state", "stats", "--since", "never", code=2).stderr


def test_nothing_was_reported(run: Run, state: SessionDB) -> None:
    talk(state, "one", "hello")
    assert "No tokens or cost were reported" in run("state", "stats").stderr


def test_a_terminal_shows_bars(run: Run, state: SessionDB, monkeypatch: pytest.MonkeyPatch) -> None:
    used(state)
    for name, value in {"FORCE_COLOR": "1", "COLUMNS": "80"}.items():
        monkeypatch.setenv(name, value)
    for measure in ("tokens", "cost", "sessions"):
        shown = run("state", "stats", "--by", "model", "--of", measure).stdout
        first, second = shown.splitlines()[-2:]
        assert first.count("█") > second.count("█") > 0


@given(st.lists(st.floats(0, 1e12)), st.integers(1, 200))
def test_bars_fit_and_are_in_proportion(values: list[float], width: int) -> None:
    drawn = bars(values, width)
    assert [len(bar) for bar in drawn] == [width] * len(values)
    for value, bar in zip(values, drawn, strict=True):
        assert (bar.strip() != "") == (value > 0)
        if value and value == max(values):
            assert bar == "█" * width
