"""capture, watch and sources: what is brought in, what is said about it, what goes wrong."""

import json
import signal
from pathlib import Path

import pytest

from tests.cli.conftest import HOSTILE, Run, Start, document
from tests.cli.histories import CLAUDE, DEMO, HARNESSES, captured, claude_log, said
from threadkeep.capture.records import Progress
from threadkeep.cli.history.capture import example_word
from threadkeep.cli.history.progress import progress_words, short_name


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the user's home an empty folder: no test looks at the real one."""
    home = tmp_path / "user"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home


def test_the_logs_of_all_agents_are_brought_in_once(run: Run, home: Path) -> None:
    result = run("capture", "--user-home", str(DEMO))
    rows = {line.split("\t")[0]: line.split("\t")[1:] for line in result.stdout.splitlines()}
    assert sorted(rows) == HARNESSES
    assert rows["claude-code"] == ["2", "2", "20", "19", "15.4 kB", "0", "0", "0", "0"]
    assert rows["codex"][6] == "1"  # the masked password
    assert "68 lines with 56 messages" in result.stderr
    again = run("capture", "--user-home", str(DEMO))
    assert "Nothing new" in again.stderr
    assert {line.split("\t")[2] for line in again.stdout.splitlines()} == {"0"}


def test_a_report_as_json(run: Run, home: Path) -> None:
    result = run("capture", "--user-home", str(DEMO), "--json")
    report = document(result)["capture"]
    assert (report["dry_run"], report["errors"]) == (False, 0)
    assert report["agents"]["codex"]["masked_lines"] == 1
    assert report["agents"]["hermes"]["found"] == 0
    assert result.stderr == ""


def test_quiet_says_nothing_if_all_is_well(run: Run, home: Path) -> None:
    result = run("capture", "--quiet", "--user-home", str(DEMO))
    assert (result.stdout, result.stderr) == ("", "")


def test_a_dry_run_reads_nothing_and_begins_no_store(run: Run, home: Path) -> None:
    result = run("capture", "--dry-run", "--user-home", str(DEMO))
    assert "would read 9 logs" in result.stderr
    assert not (home / "knowledge.db").exists()
    captured(run)
    report = document(run("capture", "--dry-run", "--json", "--user-home", str(DEMO)))["capture"]
    assert sum(part["changed"] for part in report["agents"].values()) == 0


@pytest.mark.parametrize("name", ["opencode", "opencode-tree"])
def test_only_one_program_is_captured(name: str, run: Run, home: Path) -> None:
    run("capture", "--user-home", str(DEMO), "--agent", name)
    found = document(run("sessions", "--json"))["sessions"]
    assert [one["agent"] for one in found] == ["opencode"]


def test_an_unknown_agent_is_refused_with_the_list(run: Run, home: Path) -> None:
    told = run("capture", "--agent", "nobody", "--dry-run", code=2).stderr
    assert "unknown agent 'nobody'" in told
    assert "claude-code" in told


def test_only_logs_touched_lately_are_captured(run: Run, user: Path) -> None:
    claude_log(user, said("user", "hello"))
    assert "Nothing new" in run("capture", "--since", "7d").stderr
    assert "1 line" in run("capture", "--since", "2025-01-01").stderr
    assert "2026-01-15" in run("capture", "--since", "soon", code=2).stderr


def test_a_log_that_cannot_be_read_is_named_and_the_others_come_in(run: Run, user: Path) -> None:
    claude_log(user, said("user", "hello"))
    broken = user / ".codex" / "sessions" / "rollout-2026-01-01T00-00-00-broken.jsonl.zst"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"this is no Zstandard")
    result = run("capture", code=1)
    assert f"warning: codex: {broken}" in result.stderr
    assert "1 log could not be read" in result.stderr
    assert result.stderr.count(str(broken)) == 1
    assert len(run("sessions").stdout.splitlines()) == 1
    told = run("capture", "--quiet", code=1)
    assert told.stdout == ""
    assert str(broken) in told.stderr


def test_a_machine_without_agents(run: Run, user: Path) -> None:
    assert "No agent logs found" in run("capture").stderr
    assert "No sessions match" in run("sessions").stderr


def test_a_folder_that_is_not_there(run: Run, tmp_path: Path) -> None:
    told = run("capture", "--user-home", str(tmp_path / "nowhere"), code=3).stderr
    assert "there is no folder" in told


def test_progress_never_goes_to_stdout(start: Start, home: Path) -> None:
    process = start("capture", "--user-home", str(DEMO), "--json", FORCE_COLOR="1")
    out, _ = process.communicate()
    assert process.returncode == 0
    assert json.loads(out)["capture"]["errors"] == 0
    process = start(
        "capture", "--user-home", str(DEMO), "--db", str(home / "2.db"), FORCE_COLOR="1"
    )
    out, err = process.communicate()
    assert b"logs" not in out
    assert b"56 messages" in err


def test_progress_in_words() -> None:
    progress = Progress(3, 12, 5_000_000, 20_000_000, 1234, 0, "/a/b/some.jsonl")
    told = progress_words(progress, 2.0)
    assert told == "3/12 logs  5.0 MB of 20.0 MB  2.5 MB/s  1,234 messages  some.jsonl"
    progress.errors, progress.path = 2, f"/a/{HOSTILE}{'x' * 80}.jsonl"
    told = progress_words(progress, 0.0)
    assert "2 errors" in told
    assert not set(told) & {"\x1b", "\x07", "\u202e"}
    assert short_name("/a/" + "n" * 100).startswith("…")
    assert len(short_name("/a/" + "n" * 100)) == 28


# ---------------------------------------------------------------------- a first look


def test_where_there_is_no_log_a_demo_is_shown(run: Run, user: Path, home: Path) -> None:
    result = run("capture", "--or-demo")
    assert "This is a DEMO" in result.stderr
    assert str(home / "demo-knowledge.db") in result.stderr
    assert "The latest sessions:" in result.stdout
    assert "What was said about “service”:" in result.stdout
    assert "show last --db" in result.stderr
    assert "watch" not in result.stderr  # it would follow this machine, not the demo
    assert not (home / "knowledge.db").exists()
    assert "Nothing new" in run("capture", "--or-demo").stderr


def test_where_there_is_a_log_it_is_shown(run: Run, user: Path, home: Path) -> None:
    claude_log(user, said("user", "Where does the lighthouse store its logbook?"))
    result = run("capture", "--or-demo")
    assert "DEMO" not in result.stderr
    assert "What was said about “lighthouse”:" in result.stdout
    assert "serve" in result.stderr
    assert not (home / "demo-knowledge.db").exists()
    told = document(run("capture", "--or-demo", "--json"))
    assert (told["demo"], told["db"]) == (False, str(home / "knowledge.db"))
    assert told["search"]["text"] == "lighthouse"
    assert [one["session_id"] for one in told["sessions"]] == ["made-up-1"]
    assert len(told["search"]["hits"]) == 1


@pytest.mark.parametrize("logs", [[], [said("user", "Where is the logbook?")]])
def test_a_dry_run_is_dry_with_a_first_look_too(
    run: Run, user: Path, home: Path, logs: list[dict[str, object]]
) -> None:
    if logs:
        claude_log(user, *logs)
    run("capture", "--or-demo", "--dry-run")
    assert not home.exists()


def test_the_example_is_the_longest_word_that_says_something() -> None:
    assert example_word(["", "1 + 1?", "please write about the harbor", "never seen"]) == "harbor"
    assert example_word(["x", ""]) == ""


# ---------------------------------------------------------------------- watch


def test_one_look_tells_what_each_program_brought(run: Run, home: Path) -> None:
    lines = run("watch", "--once", "--user-home", str(DEMO)).stdout.splitlines()
    assert sorted(line.split(" ")[0] for line in lines) == HARNESSES
    (codex,) = [line for line in lines if line.startswith("codex")]
    assert codex.startswith("codex +8 messages  harbor  019caf10  The departures page takes")
    assert run("watch", "--once", "--user-home", str(DEMO)).stdout == ""


def test_watch_follows_and_ends_cleanly(start: Start, run: Run, user: Path) -> None:
    path = claude_log(user, said("user", "one"))
    process = start("watch", "--interval", "0.05", "--json", PYTHONUNBUFFERED="1")
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["agents"]["claude-code"]["entries"] == 1
    with path.open("a", encoding="utf-8") as log:
        log.write(json.dumps(said("assistant", [{"type": "text", "text": "two"}], 2)) + "\n")
    assert json.loads(process.stdout.readline())["agents"]["claude-code"]["entries"] == 1
    process.send_signal(signal.SIGINT)
    assert process.wait() == 0
    assert document(run("show", "last", "--json"))["session"]["entries"] == 2


def test_a_log_that_stays_unreadable_is_a_problem(run: Run, user: Path) -> None:
    broken = user / ".codex" / "sessions" / "rollout-broken.jsonl.zst"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"this is no Zstandard")
    assert str(broken) in run("watch", "--once", code=1).stderr


# ---------------------------------------------------------------------- sources


def test_sources_compare_the_disk_with_the_store(run: Run, home: Path) -> None:
    before = run("sources", "--user-home", str(DEMO))
    assert "9 logs not captured yet" in before.stderr
    assert not home.exists()  # looking begins nothing
    captured(run)
    after = run("sources", "--user-home", str(DEMO))
    disk, store, missing = after.stdout.split("\n\n")
    rows = {line.split("\t")[0]: line.split("\t") for line in disk.splitlines()}
    assert rows["claude-code"][:4] == ["claude-code", "claude-code", "2", "100 %"]
    assert rows["claude-code"][-1] == str(DEMO / ".claude" / "projects")
    assert "codex\t1\t8\t15\t4.7 kB" in store
    assert f"goose\t{DEMO}/.local/share/goose/sessions, " in missing
    assert "codex" not in missing
    assert after.stderr == ""


def test_sources_as_json(run: Run, user: Path) -> None:
    captured(run)
    found = document(run("sources", "--json", "--user-home", str(DEMO)))
    listed = {one["name"]: one for one in found["sources"]}
    assert (listed["pi"]["found"], listed["pi"]["current"], listed["pi"]["percent"]) == (1, 1, 100)
    assert found["stored"]["claude-code"]["sessions"] == 2
    assert found["unknown"] == []
    # The history that Aider left in a project is looked at wherever the project is.
    assert "8 logs kept though no longer on the disk" in run("sources").stderr


def test_what_is_not_understood_is_counted(run: Run, user: Path) -> None:
    claude_log(user, said("user", "hello"), {"type": "from-the-future"}, "this is no JSON")
    run("capture")
    result = run("sources")
    assert "claude-code\tfrom-the-future\t1\t" in result.stdout
    report = document(run("sources", "--json"))
    assert report["stored"]["claude-code"]["bad_lines"] == 1


def test_every_place_of_one_agent_is_listed(run: Run, home: Path) -> None:
    captured(run)
    found = run("sources", "--agent", "droid", "--user-home", str(DEMO))
    assert f"droid\t{DEMO}/.factory/sessions\t" in found.stdout.splitlines()
    assert "No droid logs found" in found.stderr
    assert "make a place that is listed a link" in found.stderr
    moved = run("sources", "--agent", "goose", "--user-home", str(DEMO))
    assert "set APPDATA or GOOSE_PATH_ROOT or XDG_DATA_HOME" in moved.stderr
    assert f"{DEMO}/AppData/Roaming/Block/goose/data/sessions" in moved.stdout
    there = run("sources", "--agent", "pi", "--user-home", str(DEMO)).stdout
    assert f"pi\t{DEMO}/.pi/agent/sessions\tyes" in there.splitlines()
    assert "claude-code" not in there
    refused = run("sources", "--agent", "drod", code=2)
    assert "unknown agent 'drod'" in refused.stderr


def test_a_program_that_left_nothing(run: Run, user: Path) -> None:
    assert "No agent logs found" in run("sources").stderr


def test_session_ids_are_offered_to_the_shell(start: Start, run: Run) -> None:
    from tests.cli.test_completion import offered

    captured(run)
    lines = offered(start, "show", "5f0")
    assert lines[lines.index(CLAUDE) + 1] == "Fix the flaky test of the departures board"
    assert offered(start, "raw", "nothing-like-it") == []
