"""What a new user types at first: it is understood, or refused with what may be written."""

import json
import re
from datetime import date
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from threadkeep.cli.app import main

DEMO = Path(__file__).parents[2] / "src" / "threadkeep" / "demo" / "history"


@pytest.fixture
def captured(run: Run) -> Run:
    run("capture", "--user-home", str(DEMO))
    return run


@pytest.mark.parametrize(
    "words",
    [
        ("sessions", "--since", "last week"),
        ("sessions", "--since", "3 days ago"),
        ("sessions", "--since", "monday"),
        ("sessions", "--on", "yesterday"),
        ("events", "--on", "yesterday"),
        ("timeline", "2026-02-04"),
        ("timeline", "last week"),
        ("usage", "--by", "agent"),
        ("usage", "--by", "session"),
        ("usage", "--by", "project"),
        ("usage", "--by", "day", "--since", "an hour ago"),
        ("statusline",),
        ("resume", "last", "--in", "claude", "--dry-run"),
        ("backup", "knowledge"),
        ("recall", "tide", "--since", "last month"),
        ("sessions", "--sort", "cost"),
        ("usage", "yesterday"),
        ("sessions", "last week"),
        ("resume", "--in", "codex", "--dry-run"),
        ("resume", "2026-03-06", "--in", "codex", "--dry-run"),
        ("export", "last", "--format", "md"),
        ("delete", "--project", "harbor", "--dry-run"),
        ("star", "last"),
        ("unstar", "last"),
        ("projects",),
        ("files", "board.py"),
        ("forget", "last", "--dry-run"),
        ("delete", "last", "--dry-run"),
        ("diff", "5f0c2a7e", "codex:019caf10-5a20"),
        ("compare", "last", "5f0c2a7e"),
        ("query", "SELECT 1"),
        ("uninstall",),
        ("budget",),
        ("timeline", "this", "week"),
        ("timeline", "last", "week"),
        ("export", "last", "--to", "markdown"),
        ("usage", "weekly", "--by", "project"),
        ("usage", "monthly", "--by", "agent"),
        ("config", "--sample"),
        ("alarms",),
        ("redact",),
        ("github",),
        ("find", "slow query"),
        ("help", "recall"),
        ("version",),
    ],
)
def test_a_first_guess_is_understood(words: tuple[str, ...], captured: Run) -> None:
    captured(*words)


def test_a_client_is_known_by_the_name_of_its_agent(run: Run) -> None:
    run("mcp", "install", "claude-code", "--dry-run")


def test_a_day_is_that_day_alone(captured: Run) -> None:
    found = json.loads(captured("timeline", "2026-03-06", "--json").stdout)["timeline"]
    assert found
    days = {one["at"] // 86_400_000 for one in found}
    assert max(days) - min(days) <= 1


def test_what_is_no_time_is_refused_with_what_may_be_written(captured: Run) -> None:
    said = captured("sessions", "--since", "soonish", code=2).stderr
    assert "cannot read 'soonish' as a date or age" in said
    assert "last week" in said
    said = captured("sessions", "--on", "monday", "--since", "7d", code=2).stderr
    assert "cannot be combined" in said


@pytest.fixture
def enriched(captured: Run) -> Run:
    captured("enrich", "--no-model")
    return captured


def test_the_sessions_that_touched_a_file_are_found_everywhere(enriched: Run) -> None:
    def listed(*words: str) -> list[str]:
        found = json.loads(enriched("sessions", *words, "--json").stdout)["sessions"]
        return [one["session_id"] for one in found]

    touched = listed("--file", "board.py")
    assert 0 < len(touched) < len(listed())
    assert listed("file:board.py") == touched
    assert listed("--file", "/somewhere/else/harbor/board.py") == touched
    assert listed("--file", "oard.py") == []
    for command in ("search", "recall"):
        hits = json.loads(enriched(command, "the", "--file", "board.py", "--json").stdout)["hits"]
        assert hits
        assert {one["session_id"] for one in hits if one["kind"] == "message"} <= set(touched)
    assert json.loads(enriched("recall", "--file", "board.py", "--json").stdout)["hits"]
    spent = json.loads(enriched("usage", "--file", "board.py", "--by", "session", "--json").stdout)
    assert {one["session"].partition(":")[2] for one in spent["rows"]} <= set(touched)
    ran = json.loads(enriched("commands", "--file", "board.py", "--json").stdout)["commands"]
    every = json.loads(enriched("commands", "--limit", "-1", "--json").stdout)["commands"]
    assert len(ran) < len(every)


def test_a_filter_that_is_none_is_said_and_searched_for_as_words(captured: Run) -> None:
    for typed in ("is:nonsense", "foo:bar"):
        assert f"'{typed}' is not a known filter" in captured("sessions", typed).stderr
    assert "filter" not in captured("sessions", "agent:codex", "'foo:bar'").stderr
    assert "no words" in captured("recall", code=2).stderr


def test_a_refused_word_names_the_values_and_the_nearest(captured: Run) -> None:
    said = captured("usage", "--by", "progect", code=2).stderr
    assert "'session'" in said
    assert "did you mean 'project'?" in said


def test_sessions_have_tokens_and_cost_and_are_sorted_by_them(captured: Run) -> None:
    listed = json.loads(captured("sessions", "--sort", "cost", "--json").stdout)["sessions"]
    costs = [one["cost_microdollars"] or 0 for one in listed]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > 0
    assert all(isinstance(one["tokens"], int) for one in listed)
    by_session = json.loads(captured("usage", "--by", "session", "--json").stdout)
    assert len(by_session["rows"]) > 1


def test_weeks_are_named_by_their_monday_and_split_by_project(captured: Run) -> None:
    split = json.loads(captured("usage", "weekly", "--by", "project", "--json").stdout)
    assert all(date.fromisoformat(one["week"]).weekday() == 0 for one in split["rows"])
    assert len({one["project"] for one in split["rows"]}) > 1
    whole = json.loads(captured("usage", "--json").stdout)["total"]
    assert sum(one["tokens"] for one in split["rows"]) == whole["tokens"]
    assert "can be split by project" in captured("usage", "daily", "--by", "session", code=2).stderr


def test_a_budget_is_set_and_shown_wherever_money_is(captured: Run, home: Path) -> None:
    assert "No budget is set" in captured("budget").stderr
    captured("budget", "200", "--day", "0.5")
    shown = json.loads(captured("budget", "--json").stdout)["budgets"]
    assert [(one["span"], one["limit"]) for one in shown] == [
        ("day", 500_000),
        ("month", 200_000_000),
    ]
    captured("budget", "300")
    assert "of $300.00" in captured("usage").stderr
    line = captured("usage", "statusline").stdout
    assert "of $0.50)" in line
    assert "of $300.00)" in line
    settings = next(home.rglob("config.toml")).read_text()
    assert settings.count("[budget]") == 1
    assert "# What a day and a month may cost" in settings


def test_rows_of_sql_come_as_a_table_json_and_csv(captured: Run) -> None:
    query = "SELECT harness, count(*) AS n FROM tk_sessions GROUP BY harness ORDER BY harness"
    rows = json.loads(captured("sql", query, "--json").stdout)["rows"]
    assert {"harness": "codex", "n": 1} in rows
    plain = [line.split("\t") for line in captured("sql", query).stdout.splitlines()]
    assert plain == [[one["harness"], str(one["n"])] for one in rows]
    told = captured("sql", query, "--csv").stdout.splitlines()
    assert told[0] == "harness,n"
    assert told[1:] == [",".join(row) for row in plain]
    assert "Only the first 1 rows" in captured("sql", query, "--limit", "1").stderr
    assert "tk_sessions" in captured("sql").stdout
    terminals = captured("sql", "SELECT count(*) FROM sessions").stderr
    assert "sessions of agents are in tk_sessions" in terminals
    for bad in ("DELETE FROM tk_sessions", "PRAGMA user_version", "ATTACH 'x' AS y"):
        captured("sql", bad, code=2)
    assert json.loads(captured("sql", query, "--json").stdout)["rows"] == rows


def test_two_sessions_are_compared(captured: Run) -> None:
    told = captured("compare", "last", "5f0c2a7e").stdout
    rows = {line.split("\t")[0]: line.split("\t")[1:] for line in told.splitlines()}
    assert rows["agent"][1] == "claude-code"
    assert rows["tokens"][1] != ""
    both = json.loads(captured("compare", "last", "5f0c2a7e", "--json").stdout)
    assert both["right"]["listed"]["session"]["session_id"].startswith("5f0c2a7e")


def test_projects_are_renamed_merged_and_split(captured: Run) -> None:
    def listed() -> dict[str, int]:
        found = json.loads(captured("projects", "--json").stdout)["projects"]
        return {one["name"]: one["sessions"] for one in found}

    before = listed()
    assert "harbor" in before
    captured("projects", "rename", "harbor", "port")
    assert listed()["port"] == before["harbor"]
    other = next(name for name in before if name != "harbor")
    captured("projects", "merge", "port", other)
    assert listed()[other] == before["harbor"] + before[other]
    captured("projects", "split", other)
    assert listed() == before


def test_a_rule_is_added_and_masks(captured: Run, home: Path) -> None:
    assert "redact add" in captured("redact", "test", "token ACME-123456").stderr
    captured("redact", "add", "acme", r"ACME-\d{6}")
    masked = captured("redact", "test", "see ACME-123456 there").stdout
    assert "ACME-123456" not in masked.splitlines()[-1]
    assert any(
        line.startswith("acme\t") for line in captured("redact", "rules").stdout.splitlines()
    )
    captured("redact", "add", "other", "'[a-z]{3}\"X")
    assert "already" in captured("redact", "add", "acme", "x", code=1).stderr
    for bad in ("(", "x*"):
        captured("redact", "add", "bad", bad, code=2)
    names = [line.split("\t")[0] for line in captured("redact", "rules").stdout.splitlines()]
    assert names[-2:] == ["acme", "other"]


def test_uninstalling_names_the_folders_and_removes_nothing(captured: Run, home: Path) -> None:
    told = captured("uninstall").stdout
    assert f"rm -r {home}" in told
    assert "pipx uninstall threadkeep" in told
    assert captured("sessions", "--json").stdout


def test_every_command_and_message_has_a_ref_that_opens(captured: Run) -> None:
    ref = captured("commands", "pytest").stdout.splitlines()[-1].split("\t")[-2]
    assert ref.startswith("command:")
    assert "pytest" in captured("open", ref).stdout
    found = captured("search", "slow query", "--limit", "1").stdout
    (message,) = re.findall(r"threadkeep open (message:\d+)", found)
    opened = captured("open", message).stdout
    (session,) = re.findall(r"threadkeep show (\S+) --at " + message, opened)
    assert captured("show", session, "--at", message).stdout


def test_a_session_to_read_leaves_out_what_its_program_told_the_model(captured: Run) -> None:
    (listed, *_) = json.loads(captured("sessions", "--agent", "aider", "--json").stdout)["sessions"]
    session = f"aider:{listed['session_id']}"  # made of the log's path
    plain = captured("export", session).stdout
    whole = captured("export", session, "--notes").stdout
    assert "> Note: " in whole
    assert "> Note: " not in plain
    assert "## User" in plain


def test_an_empty_list_says_so(captured: Run) -> None:
    assert captured("sessions", "--since", "2027-01-01").stderr.startswith("No sessions match")


def test_a_day_alone_is_a_day_and_says_how_else_it_is_written(captured: Run) -> None:
    done = captured("ls", "2026-03-06", "--json")
    assert "`ls` means" in done.stderr
    assert "--on '2026-03-06'" in done.stderr
    same = captured("sessions", "--on", "2026-03-06", "--json")
    assert json.loads(done.stdout) == json.loads(same.stdout)
    assert json.loads(same.stdout)["sessions"]


def test_only_what_the_user_asked_is_shown_if_asked_for(captured: Run) -> None:
    messages = json.loads(captured("show", "--prompts", "--json").stdout)["messages"]
    assert {one["part"] for one in messages} == {"prompt"}
    assert "▸" not in captured("show", "--prompts").stdout


def test_a_day_alone_never_says_what_to_forget(captured: Run) -> None:
    done = captured("delete", "2026-03-06", "--yes", code=2)
    assert "cannot tell what to forget" in done.stderr
    assert json.loads(captured("ls", "2026-03-06", "--json").stdout)["sessions"]


def test_a_day_means_its_latest_session(captured: Run) -> None:
    (latest,) = json.loads(captured("ls", "2026-03-06", "-n", "1", "--json").stdout)["sessions"]
    shown = json.loads(captured("show", "2026-03-06", "--json").stdout)["session"]
    assert shown["session_id"] == latest["session_id"]
    assert "No sessions from 2020-01-01" in captured("show", "2020-01-01", code=3).stderr


def test_a_word_of_the_other_stores_is_understood_in_their_groups(run: Run) -> None:
    assert "chat ls`" in run("chat", "list", code=3).stderr


@pytest.mark.parametrize("word, place", [("exclude", "[capture]"), ("graph", "threadkeep up")])
def test_what_no_command_does_is_pointed_to(
    word: str, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word]) == 2
    assert place in capsys.readouterr().err
