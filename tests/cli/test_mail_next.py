"""mail next: when a cron expression is due."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run, document


def test_the_next_times_in_a_zone_across_a_change_of_the_clock(run: Run) -> None:
    words = ["0 9 * * *", "--tz", "Europe/Madrid", "--after", "2026-10-24T00:15Z"]
    assert run("mail", "next", *words, "-n", "2").stdout.splitlines() == [
        "2026-10-24T07:00:00.000Z\t2026-10-24T09:00:00+02:00",
        "2026-10-25T08:00:00.000Z\t2026-10-25T09:00:00+01:00",
    ]


def test_the_next_times_as_json(run: Run) -> None:
    found = document(
        run("mail", "next", "@daily", "--after", "2026-01-01", "--tz", "UTC", "--json")
    )
    assert found["next"] == [f"2026-01-0{day}T00:00:00.000Z" for day in (2, 3, 4)]
    assert (found["expr"], found["tz"], found["from"]) == (
        "@daily",
        "UTC",
        "2026-01-01T00:00:00.000Z",
    )


def test_without_a_zone_the_machines_own_counts(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    found = document(run("mail", "next", "0 9 * * *", "--after", "2026-01-01T00:00", "--json"))
    assert found["tz"] == "Asia/Kolkata"
    assert found["next"][0] == "2026-01-01T03:30:00.000Z"


@pytest.mark.parametrize(
    "words",
    [
        ["61 * * * *"],
        ["hello"],
        ["0 0 31 2 *"],
        ["0 9 * * *", "--tz", "Mars/Olympus"],
        ["0 9 * * *", "--after", "yesterday"],
        ["0 9 * * *", "-n", "0"],
        ["0 9 * * *", "-n", "many"],
        [],
    ],
)
def test_what_cannot_be_is_refused_with_a_hint(words: list[str], run: Run) -> None:
    told = run("mail", "next", *words, code=2).stderr
    assert "Traceback" not in told
    if words and "many" not in words:
        assert "hint: " in told


def test_the_vectors_come_out_the_same_through_the_command(run: Run, shared_data: Path) -> None:
    vectors = json.loads(
        (shared_data / "data" / "mailbox" / "cron_vectors.json").read_text("utf-8")
    )
    for case in vectors[::12]:
        words = [case["expr"], "--tz", case["tz"], "--after", case["from"], "--json"]
        if "error" in case:
            run("mail", "next", "--", *words[:1], code=2)
        else:
            found = document(run("mail", "next", *words[1:], "--", words[0]))
            assert found["next"] == case["next"], case
