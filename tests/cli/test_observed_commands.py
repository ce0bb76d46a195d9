"""commands: commands and visits as a person looks for them."""

import sqlite3
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.cli.conftest import HOSTILE, Json, Run, document
from threadkeep.base.clock import now_ms
from threadkeep.cli.words import ending
from threadkeep.home.home import Home
from threadkeep.knowledge.records import Command, Output, Visit

ONE = "0b8a3c52-5d0e-4b7e-9a53-0c7d5a0f3f6e"
OTHER = "1c8a3c52-5d0e-4b7e-9a53-0c7d5a0f3f6e"
MINUTE = 60_000


def said(number: int, command: str, *, ago: int = 0, **more: object) -> Command:
    options: Json = {"session": ONE, "cwd": "/srv/harbor", "exit_code": 0, **more}
    at = now_ms() - ago * MINUTE
    return Command(f"00000000-0000-4000-8000-{number:012}", at=at, command=command, **options)


def visit(number: int, title: str, url: str = "https://docs.python.org/3/") -> Visit:
    name = f"00000000-0000-4000-9000-{number:012}"
    return Visit(name, now_ms(), url, "docs.python.org", title, 5000, extracted_text="the text")


@pytest.fixture
def reported(home: Path) -> Path:
    """Leave four commands and a page in the spool of the home."""
    reporter = Home().reporter()
    out = Output("built\nall\n", original_bytes=10)
    for thing in (
        said(1, "cargo build", ago=300, stdout=out),
        said(2, "cargo test", ago=200, exit_code=101, duration_ms=5300),
        said(3, "ls -la", ago=100, session=OTHER, cwd="/srv/quay"),
        said(4, "grep x", ago=1, tool_name="Bash", exit_code=None),
        visit(1, "The Python docs"),
    ):
        assert reporter.report(thing)
    return home


def commands(run: Run, *words: str) -> list[str]:
    return [one["command"] for one in document(run("commands", *words, "--json"))["commands"]]


def test_where_nothing_was_reported_it_says_how_to_begin(run: Run, home: Path) -> None:
    result = run("commands")
    assert result.stdout == ""
    assert "shell-init" in result.stderr
    assert document(run("commands", "--json"))["commands"] == []
    assert document(run("commands", "--visits", "--json"))["visits"] == []
    assert not home.exists()  # looking begins nothing


def test_the_spool_is_collected_and_the_newest_is_last(run: Run, reported: Path) -> None:
    lines = [line.split("\t") for line in run("commands").stdout.splitlines()]
    assert [line[-1] for line in lines] == ["cargo build", "cargo test", "ls -la", "[Bash] grep x"]
    assert lines[1][1:4] == ["101", "5300", "/srv/harbor"]
    assert lines[3][1] == ""  # nobody saw it end
    assert list((reported / "spool").glob("*.jsonl*")) == []
    assert len(commands(run)) == 4  # looking again brings nothing twice


def test_words_of_the_version_before_are_understood(run: Run, reported: Path) -> None:
    new = commands(run, "--role", "tool")
    assert [one["command"] for one in document(run("events", "--json"))["commands"]]
    assert commands(run, "--kind=claude-tool") == commands(run, "--kind", "claude-tool") == new
    assert "events" not in run("--help").stdout.replace("send-event", "")
    assert "--kind" not in run("commands", "--help").stdout
    assert "no such option" in run("commands", "--knd", "tool", code=2).stderr.lower()


@pytest.mark.parametrize(
    "words, found",
    [
        (["cargo"], ["cargo build", "cargo test"]),
        (["100%_"], []),
        (["--failed"], ["cargo test"]),
        (["--project", "quay"], ["ls -la"]),
        (["--since", "2h"], ["ls -la", "grep x"]),
        (["--until", "2h"], ["cargo build", "cargo test"]),
        (["--role", "tool"], ["grep x"]),
        (["--session", OTHER[:6]], ["ls -la"]),
        (["--session", "1", "--limit", "1"], ["grep x"]),
        (["test", "cargo"], ["cargo test"]),
        (['"test cargo"'], []),
        (["outcome:failed"], ["cargo test"]),
        (["project:quay", "role:user"], ["ls -la"]),
        (["project:QUA"], ["ls -la"]),
        (["agent:claude-code"], ["grep x"]),
        (["--limit", "-1"], ["cargo build", "cargo test", "ls -la", "grep x"]),
    ],
)
def test_what_is_asked_for_is_found(
    words: list[str], found: list[str], run: Run, reported: Path
) -> None:
    assert commands(run, *words) == found


def test_a_day_is_a_filter_like_any_other(run: Run, reported: Path) -> None:
    (failed,) = document(run("commands", "--failed", "--json"))["commands"]
    day = f"{datetime.fromtimestamp(failed['timestamp'] / 1000).astimezone():%Y-%m-%d}"
    assert commands(run, "is:failed", f"on:{day}") == ["cargo test"]
    assert commands(run, "is:failed", "on:2001-01-01") == []


def test_output_is_shown_when_asked_for(run: Run, reported: Path) -> None:
    assert "built" not in run("commands", "build").stdout
    assert "$ cargo build\nbuilt\nall\n" in run("commands", "build", "--output").stdout
    assert "stdout" not in document(run("commands", "--json"))["commands"][0]
    shown = document(run("commands", "build", "--output", "--json"))["commands"][0]
    assert shown["stdout"] == "built\nall\n"


def test_a_terminal_shows_the_end_of_a_long_output_unless_all_is_wanted(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "".join(f"line {number} of it\n" for number in range(100))
    Home().reporter().report(said(1, "make", stdout=Output(text, original_bytes=len(text))))
    assert "line 0 of it" in run("commands", "--output").stdout  # a program gets all of it
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = run("commands", "--output").stdout
    assert "88 lines before this (--full shows all)" in shown
    assert "line 99 of it" in shown
    assert "line 87 of it" not in shown
    assert "line 0 of it" in run("commands", "--full").stdout


@given(st.text(alphabet="ab\n", max_size=200), st.integers(1, 9), st.integers(1, 40))
def test_the_end_of_a_text_is_kept_within_its_limits(text: str, lines: int, most: int) -> None:
    kept = ending(text, lines=lines, characters=most)
    if kept == text:
        assert len(text) <= most
        assert text.count("\n") < lines
        return
    told, _, end = kept.partition("\n")
    assert told.endswith("(--full shows all)")
    assert text.endswith(end)
    assert len(end) <= most
    assert end.count("\n") < lines


def test_pages_are_listed_with_visits(run: Run, reported: Path) -> None:
    (line,) = run("commands", "--visits").stdout.splitlines()
    assert line.split("\t")[1:] == [
        "5000",
        "docs.python.org",
        "The Python docs https://docs.python.org/3/",
    ]
    (page,) = document(run("commands", "--visits", "python", "--json"))["visits"]
    assert "extracted_text" not in page
    assert "the text" in run("commands", "--visits", "--output").stdout
    assert run("commands", "--visits", "nothing-like-it").stdout == ""


def test_probes_are_never_shown(run: Run, home: Path) -> None:
    run("probe")
    assert commands(run) == []
    assert document(run("commands", "--visits", "--json"))["visits"] == []


@pytest.mark.parametrize(
    "words", [["--visits", "--failed"], ["--session", "my session"], ["cost:>1"], ["kind:visit"]]
)
def test_what_makes_no_sense_is_refused(words: list[str], run: Run, reported: Path) -> None:
    run("commands", *words, code=2)


def test_hostile_text_never_reaches_the_terminal(run: Run, home: Path) -> None:
    reporter = Home().reporter()
    printed = Output(HOSTILE, original_bytes=10)
    reporter.report(said(1, HOSTILE, cwd=f"/{HOSTILE}", stdout=printed))
    reporter.report(visit(1, HOSTILE))
    for words in ([], ["--output"], ["--visits"], ["--visits", "--output"], ["--json"]):
        shown = run("commands", *words).stdout
        assert "markup" in shown
        assert not set(shown) & {"\x1b", "\x07", "\u202e"}


def test_a_busy_store_is_listed_as_it_is(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadkeep.home.observed._PATIENCE", 0.05)
    reporter = Home().reporter()
    reporter.report(said(1, "before"))
    assert commands(run) == ["before"]
    reporter.report(said(2, "after"))
    writer = sqlite3.connect(home / "knowledge.db", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    result = run("commands")
    writer.close()
    assert result.stdout.split("\t")[-1] == "before\n"
    assert "not included" in result.stderr
    assert commands(run) == ["before", "after"]


def test_a_named_file_is_only_looked_at(run: Run, reported: Path, tmp_path: Path) -> None:
    other = str(tmp_path / "other.db")
    run("capture", "--db", other, "--agent", "aider", "--user-home", str(tmp_path))
    waiting = sorted((reported / "spool").iterdir())
    assert commands(run, "--db", other) == []
    assert sorted((reported / "spool").iterdir()) == waiting
    assert "there is no knowledge store" in run("commands", "--db", "/nowhere.db", code=3).stderr


def test_a_file_that_only_hippo_wrote_can_be_looked_at(run: Run, reported: Path) -> None:
    run("commands")
    with sqlite3.connect(reported / "knowledge.db") as database:
        for name in ("tk_drops", "tk_spool"):
            database.execute(f"DROP TABLE IF EXISTS {name}")
    database.close()
    assert len(commands(run)) == 4
    assert document(run("status", "--json"))["observed"]["drops"] == []
