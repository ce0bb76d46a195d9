"""`threadkeep doctor`, `alarms` and `watchdog` as a user meets them."""

import os
import re
from pathlib import Path

import pytest

from tests.cli.conftest import HOSTILE, Run, document
from tests.cli.histories import claude_log, said
from tests.support.knowledge import do
from threadkeep.base.clock import now_ms
from threadkeep.cli.root import cli
from threadkeep.service.doctor import checks


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run, home: Path) -> Path:
    """Return a user whose one log is captured."""
    user = tmp_path / "user"
    monkeypatch.setenv("HOME", str(user))
    for name in ("CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    claude_log(user, said("user", "hello"))
    run("capture", "--quiet")
    return user


def miss(user: Path, minutes: int = 5) -> None:
    """Leave a log that nobody captured, and let the watchdog have seen it some minutes ago."""
    log = claude_log(user, said("user", "missed"), name="made-up-2")
    home = Path(os.environ["THREADKEEP_HOME"])
    seen = f'{{"logs":{{"claude-code:{log}":["",{now_ms() - minutes * 60_000}]}}}}'
    remember = f"INSERT INTO tk_watchdog VALUES (1, '{seen}', 1)"
    do(home / "knowledge.db", remember, "UPDATE tk_logs SET captured_at = 1")


def add_alarm(home: Path, details: str = "x") -> None:
    do(
        home / "knowledge.db",
        "INSERT INTO capture_alarms (invariant_id, raised_at, details_json) VALUES ('I-8', 1,"
        f' \'{{"source": "shell", "since_ms": 1, "details": "{details}"}}\')',
    )


def break_rule(home: Path) -> None:
    """Break the rule that the alarm is about: one whose rule is kept again is no failure."""
    probe = "UPDATE source_health SET probe_ok = 0, probe_last_run_ts = 1 WHERE source = 'shell'"
    do(home / "knowledge.db", probe)


def test_a_sound_home_is_green(run: Run, user: Path) -> None:
    shown = run("doctor")
    assert "coverage claude-code: in the store: all of 1" in shown.stdout
    assert "[!!]" not in shown.stdout
    assert "cause:" not in shown.stdout


def test_an_empty_home_is_green_and_nothing_is_made(run: Run, home: Path) -> None:
    assert "not created yet" in run("doctor").stdout
    assert not home.exists()


def test_a_failure_is_told_with_its_fix_and_the_exit_code(run: Run, user: Path, home: Path) -> None:
    add_alarm(home)
    assert "ended alarms: 1 are still active" in run("doctor").stdout
    break_rule(home)
    shown = run("doctor", code=1).stdout
    assert "[!!] alarms: 1 active" in shown
    assert "fix:   threadkeep alarms list" in shown
    assert "cause:" not in shown
    explained = run("doctor", "--explain", code=1).stdout
    assert "cause: the watchdog saw these checks fail" in explained
    assert "doc:   docs/observe.md" in explained


def test_json_has_every_finding(run: Run, user: Path) -> None:
    found = document(run("doctor", "--json"))
    assert found["level"] in {"ok", "info"}
    assert found["took_ms"] >= 0
    assert {"group", "check", "level", "what", "cause", "fix", "doc"} == found["findings"][0].keys()


def test_a_deep_check_is_remembered(run: Run, user: Path) -> None:
    assert "deep check: none yet" in run("doctor").stdout
    assert "deep check: sound today" in run("doctor", "--deep").stdout
    assert "deep check: sound today" in run("doctor").stdout


def test_an_index_is_built_anew(run: Run, user: Path, home: Path) -> None:
    do(home / "knowledge.db", "DELETE FROM tk_entry_words_docsize")
    assert "fix:   threadkeep doctor --repair" in run("doctor", code=1).stdout
    assert "indexed 1 row, gave back 0 tickets" in run("doctor", "--repair").stderr


def test_a_broken_configuration_is_a_finding(run: Run, home: Path) -> None:
    home.mkdir()
    (home / "config.toml").write_text("[capture\n")
    assert "[!!] config:" in run("doctor", code=1).stdout


# ---------------------------------------------------------------------- alarms


def test_the_life_of_an_alarm(run: Run, user: Path) -> None:
    assert "No active alarms" in run("alarms", "list").stderr
    miss(user)
    assert "1 broken rule; alarms: 1 raised" in run("watchdog", "run", code=1).stderr
    row = run("alarms", "list", code=1).stdout.split("\t")
    assert row[:3] == ["1", "I-2", "agentic-session-claude"]
    run("capture", "--quiet")
    run("watchdog", "run")
    assert "1 resolved" in run("watchdog", "run").stderr
    run("alarms", "list")
    assert "old alarms" in run("doctor").stdout
    assert "1 alarm removed" in run("alarms", "prune").stderr
    (alarm,) = document(run("alarms", "list", "--all", "--json"))["alarms"]
    assert (alarm["ack_note"], alarm["active"]) == ("auto-resolved", False)


def test_an_alarm_is_acknowledged_once(run: Run, user: Path, home: Path) -> None:
    add_alarm(home)
    first = document(run("alarms", "ack", "1", "--note", "known", "--json"))["alarm"]
    again = document(run("alarms", "ack", "1", "--note", "other", "--json"))["alarm"]
    assert first == again
    run("alarms", "list")
    assert "there is no alarm 9" in run("alarms", "ack", "9", code=3).stderr


def test_the_watchdog_answers_programs(run: Run, user: Path) -> None:
    miss(user)
    found = document(run("watchdog", "run", "--json", code=1))
    assert found["violations"][0]["invariant"] == "I-2"
    assert found["raised"][0]["source"] == "agentic-session-claude"
    assert found["took_ms"] >= 0


def test_hostile_details_do_not_reach_the_terminal(run: Run, user: Path, home: Path) -> None:
    add_alarm(home, HOSTILE.replace("\x1b", "\\u001b").replace("\x07", "\\u0007"))
    break_rule(home)
    for words in (("alarms", "list"), ("doctor", "--explain")):
        shown = run(*words, code=1).stdout
        assert "\x1b" not in shown
        assert "\u202e" not in shown


def test_without_a_store_there_are_no_alarms(run: Run, home: Path) -> None:
    assert "there is no knowledge store" in run("alarms", "list", code=3).stderr
    assert not home.exists()


# ---------------------------------------------------------------------- what helps


def test_every_command_that_is_said_to_help_exists() -> None:
    folder = Path(checks.__file__).parent
    texts = [path.read_text("utf-8") for path in folder.glob("*checks.py")]
    said = {word for text in texts for word in re.findall(r"[\"`]threadkeep ([a-z-]+)", text)}
    assert {"doctor", "capture", "alarms"} <= said
    assert said - set(cli.entries()) == set()
