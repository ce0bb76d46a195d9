"""sessions, show, raw, search and usage: what was captured is found and read again."""

import io
import json
import shlex
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import HOSTILE, Run, Start, document
from tests.cli.histories import CLAUDE, CODEX, DEMO, captured, claude_log, said
from tests.lengths import AT_LENGTH
from threadkeep.cli.output import StyledText, paged
from threadkeep.cli.words import folded
from threadkeep.knowledge.schema import SCHEMA_VERSION, head_of

HARMFUL = {"\x1b", "\x07", "\u202e"}


@pytest.fixture
def demo(run: Run) -> Run:
    return captured(run)


@pytest.fixture
def hostile(run: Run, tmp_path: Path) -> Run:
    call = {"type": "tool_use", "id": "t1", "name": HOSTILE, "input": {"command": HOSTILE}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": HOSTILE, "is_error": True}
    claude_log(
        tmp_path / "user",
        said("user", HOSTILE, 1),
        said("assistant", [{"type": "text", "text": f"needle {HOSTILE}"}], 2),
        said("assistant", [call], 3),
        said("user", [result], 4),
        {"type": "custom-title", "customTitle": HOSTILE},
    )
    run("capture", "--quiet", "--user-home", str(tmp_path / "user"))
    return run


# ---------------------------------------------------------------------- sessions


def test_sessions_are_listed_the_latest_first(demo: Run) -> None:
    rows = [line.split("\t") for line in demo("sessions").stdout.splitlines()]
    assert [row[2] for row in rows] == [
        *("aider", "copilot-cli", "pi", "gemini-cli"),
        *("opencode", "cursor", "codex", "claude-code"),
    ]
    assert rows[-1] == [
        *(CLAUDE, "2026-03-02T09:14:13.000Z", "claude-code", "harbor", "14", "88,935", "$0.08"),
        "Fix the flaky test of the departures board",
    ]


def test_a_list_can_be_narrowed(demo: Run) -> None:
    def harnesses(*words: str) -> list[str]:
        found = document(demo("sessions", "--json", *words))["sessions"]
        return [one["agent"] for one in found]

    assert harnesses("--agent", "codex") == ["codex"]
    assert harnesses("--since", "2026-03-07") == ["aider"]
    assert harnesses("--until", "2026-03-03") == ["codex", "claude-code"]
    assert harnesses("--until", "2026-03-02") == ["claude-code"]
    assert len(harnesses("--project", "harbor")) == 8
    assert harnesses("--project", "/home/demo/code", "--branch", "main", "--limit", "1") == [
        "copilot-cli"
    ]
    assert harnesses("--agent", "claude-code", "--all") == ["claude-code"] * 2
    assert harnesses("--project", "elsewhere") == []
    assert len(harnesses("--limit", "-1")) == 8
    assert "[subagent] Find uses" in demo("sessions", "--all").stdout
    assert "--limit 4" in demo("sessions", "--limit", "2").stderr
    assert "No sessions match" in demo("sessions", "--project", "elsewhere").stderr


def test_a_list_takes_the_language_of_the_filter_bar(demo: Run) -> None:
    def found(*words: str) -> list[str]:
        listed = document(demo("sessions", "--json", *words))["sessions"]
        return [one["agent"] for one in listed]

    assert found("agent:codex") == found("--agent", "CODEX") == ["codex"]
    assert found("agent:codex", "agent:aider", "since:2026-03-07") == ["aider"]
    assert found("agent:codex", "--agent", "aider") == ["aider", "codex"]
    assert found("is:all", "--", "-agent:codex", "agent:claude-code") == ["claude-code"] * 2
    assert found("project:HARBOR", "messages:>100000") == []
    assert len(found("project:HARBOR")) == 8
    assert "--harness" not in demo("sessions", "--help").stdout


def test_a_terminal_gets_ids_that_are_long_enough(demo: Run, start: Start) -> None:
    process = start("sessions", FORCE_COLOR="1", NO_COLOR="1", COLUMNS="100")
    out, _ = process.communicate()
    lines = out.decode().splitlines()
    assert all(len(line) <= 100 for line in lines[1:])
    for line in lines[1:]:
        short = line.split(" ")[0]
        assert document(demo("show", short, "--json"))["session"]["session_id"].startswith(short)


def test_nothing_is_begun_by_looking(run: Run, home: Path) -> None:
    for words in (["sessions"], ["show", "last"], ["raw", "x"], ["search", "x"], ["usage"]):
        told = run(*words, code=3).stderr
        assert "there is no knowledge store" in told
        assert "threadkeep capture" in told
    assert not home.exists()


def test_a_store_without_a_session(run: Run, tmp_path: Path) -> None:
    (tmp_path / "user").mkdir()
    run("capture", "--user-home", str(tmp_path / "user"))
    assert "`threadkeep capture`" in run("sessions").stderr
    assert "No sessions captured yet" in run("show", "last", code=3).stderr
    assert "No usage matches" in run("usage").stderr


def test_a_file_that_only_another_program_wrote(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "hippo.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(f"{head_of(SCHEMA_VERSION)}\nPRAGMA user_version = 18;")
    for words in (["sessions"], ["sources"], ["capture", "--dry-run"]):
        told = run(*words, "--db", str(path), code=3).stderr
        assert "nothing was captured into" in told
    found = document(run("status", "--store", "knowledge", "--db", str(path), "--json"))
    assert (found["knowledge"]["sessions"], found["knowledge"]["problem"]) == (0, "")


# ---------------------------------------------------------------------- show


def test_a_session_is_shown_with_facts_tokens_and_subagents(demo: Run) -> None:
    shown = demo("show", "5f0c").stdout
    assert shown.startswith(f"{CLAUDE}  Fix the flaky test of the departures board\n")
    assert "claude-code · 2.1.31 · claude-opus-4-5-20251101\n" in shown
    assert "/home/demo/code/harbor · main\n" in shown
    assert "14 messages · 4 tool calls\n" in shown
    assert "tokens: input 34, output 701, cache read 84,550, cache write 3,650\n" in shown
    assert "subagent agent-a7: Find uses of the clock (5 messages)\n" in shown
    assert "\nuser  2026-03-02T09:12:07.000Z\n  tests/test_departures.py fails" in shown
    assert "  ▸ Bash TZ=Pacific/Kiritimati pytest" in shown
    assert "    → 1 passed in 0.29s" in shown
    assert "thinking" not in shown
    assert f"started by {CLAUDE}" in demo("show", "agent-a7").stdout


def test_how_much_is_shown(demo: Run) -> None:
    plain = demo("show", "5f0c", "--no-tools").stdout
    assert "▸" not in plain
    assert "→" not in plain
    assert "thinking: A test that fails" in demo("show", "5f0c", "--reasoning").stdout


def test_long_results_are_folded_unless_all_is_wanted(run: Run, tmp_path: Path) -> None:
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "seq 100"}}
    lines = "\n".join(f"line {number}" for number in range(100))
    result = {"type": "tool_result", "tool_use_id": "t1", "content": lines}
    user = tmp_path / "user"
    claude_log(
        user, said("user", "count", 1), said("assistant", [call], 2), said("user", [result], 3)
    )
    run("capture", "--quiet", "--user-home", str(user))
    folded_ = run("show", "last").stdout
    assert "line 11" in folded_
    assert "line 12" not in folded_
    assert "88 more lines (--full shows all)" in folded_
    assert "line 99" in run("show", "last", "--full").stdout


def test_folding_keeps_what_is_short_and_tells_what_is_missing() -> None:
    assert folded("a\nb", lines=2, characters=10) == "a\nb"
    assert folded("a\nb\nc\nd", lines=2, characters=10).endswith(
        "… 2 more lines (--full shows all)"
    )
    assert "95 more characters" in folded("x" * 100, lines=2, characters=5)


def test_one_entry_with_its_neighbours(demo: Run) -> None:
    (hit,) = document(demo("search", "Kiritimati", "--part", "tool_call", "--json"))["hits"]
    shown = demo("show", "5f0c", "--at", hit["key"]).stdout
    assert "▶   ▸ Bash TZ=Pacific/Kiritimati" in shown
    assert "I'll run the test many times" not in shown
    told = demo("show", "5f0c", "--at", "nowhere", code=3).stderr
    assert "has no message 'nowhere'" in told


def test_a_session_as_json_is_whole(demo: Run) -> None:
    found = document(demo("show", f"claude-code:{CLAUDE}", "--json"))
    assert found["session"]["title"] == "Fix the flaky test of the departures board"
    assert len(found["messages"]) == found["session"]["entries"] == 14
    assert [one["part"] for one in found["messages"][:3]] == ["prompt", "reasoning", "text"]
    lines = demo("show", f"claude-code:{CLAUDE}", "--jsonl").stdout.splitlines()
    assert [json.loads(line) for line in lines] == found["messages"]
    assert found["tokens"]["output"] == 701
    assert [one["session_id"] for one in found["children"]] == ["agent-a7c41e90b2d3"]


def test_what_means_no_session_or_several(demo: Run) -> None:
    assert "there is no session 'nobody'" in demo("show", "nobody", code=3).stderr
    told = demo("show", "019c", code=1).stderr
    assert "several sessions begin with '019c'" in told
    assert demo("show", "019c", "--agent", "pi").stdout.startswith("019cbe2f")
    assert "tide" in demo("show", "last").stdout
    assert demo("show", "last", "--agent", "codex").stdout.startswith(CODEX)


def test_hostile_text_does_no_harm(hostile: Run) -> None:
    for words in (
        ["sessions"],
        ["show", "last", "--full"],
        ["search", "needle"],
        ["show", "last", "--json"],
        ["search", "needle", "--json"],
    ):
        shown = hostile(*words).stdout
        assert "markup" in shown
        assert not set(shown) & HARMFUL, words


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_pager_without_anything_harmful(monkeypatch: pytest.MonkeyPatch) -> None:
    paging: list[str] = []
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("click.echo_via_pager", paging.extend)
    paged([StyledText("title", "bold"), StyledText(f"\n{HOSTILE}\n")])
    whole = "".join(paging)
    assert whole.startswith("\x1b[1mtitle\x1b[0m\n")
    assert "\x1b]0;" not in whole
    assert "\x1b[31m" not in whole
    assert "\u202e" not in whole
    monkeypatch.setenv("NO_COLOR", "1")
    paging.clear()
    paged([StyledText("title", "bold"), StyledText("\n")])
    assert "".join(paging) == "title\n"


# ---------------------------------------------------------------------- raw


def test_raw_gives_the_lines_as_they_were_but_for_secrets(demo: Run) -> None:
    log = next((DEMO / ".claude" / "projects").glob(f"*/{CLAUDE}.jsonl"))
    assert demo("raw", "5f0c").stdout_bytes == log.read_bytes()
    (rollout,) = (DEMO / ".codex").rglob("*.jsonl")
    written, kept = rollout.read_text().splitlines(), demo("raw", CODEX).stdout.splitlines()
    changed = [(a, b) for a, b in zip(written, kept, strict=True) if a != b]
    assert len(changed) == 1
    assert "Tidewater" in changed[0][0]
    assert changed[0][0].replace("Tidewater-Quay-7741x", "[REDACTED]") == changed[0][1]


@pytest.mark.parametrize("ending", [b"", b"\n", b"\n\n"])
@pytest.mark.parametrize("words", ["short", "long " * 200])
def test_raw_ends_as_the_log_ends(run: Run, tmp_path: Path, words: str, ending: bytes) -> None:
    user = tmp_path / "user"
    claude_log(user, said("user", words, 1), said("assistant", words, 2))
    (log,) = user.rglob("*.jsonl")
    whole = log.read_bytes().rstrip()
    for end in (b"", ending):  # what is missing at the end may still come
        log.write_bytes(whole + end)
        run("capture", "--quiet", "--user-home", str(user))
        assert run("raw", "last").stdout_bytes == log.read_bytes()


def test_raw_as_json(demo: Run) -> None:
    lines = document(demo("raw", "5f0c", "--json"))["lines"]
    assert json.loads(lines[-1])["type"] == "ai-title"


# ---------------------------------------------------------------------- search


def test_search_goes_over_all_agents(demo: Run) -> None:
    hits = document(demo("search", "departures", "--json"))["hits"]
    assert {hit["agent"] for hit in hits} >= {"claude-code", "codex", "cursor"}
    assert all(">>>" in hit["snippet"] for hit in hits)


def test_a_hit_shows_where_it_is_and_how_to_open_it(demo: Run, home: Path) -> None:
    found = demo("search", "slow query", "--agent", "codex", "--kind", "prompt").stdout
    first, second, third = found.splitlines()
    assert " · codex · harbor · prompt · The departures page takes four seconds" in first
    assert "Find the slow query and make it fast." in second
    words = shlex.split(third)
    assert words[:2] == ["threadkeep", "open"]
    assert "Find the slow query and make it fast." in demo(*words[1:]).stdout


def test_the_command_names_the_store_it_is_about(demo: Run, home: Path) -> None:
    db = str(home / "knowledge.db")
    told = demo("--home", "/nowhere", "search", "tide", "--db", db, "--limit", "1").stdout
    words = shlex.split(told.splitlines()[-1])
    assert words[1:3] == ["--home", "/nowhere"]
    assert words[-2:] == ["--db", db]
    assert "tide" in demo(*words[1:]).stdout


def test_search_can_be_narrowed(demo: Run) -> None:
    def found(*words: str) -> set[str]:
        hits = document(demo("search", "tide", "--json", *words))["hits"]
        return {hit["agent"] for hit in hits}

    assert found("--agent", "pi") == {"pi"}
    assert found("--since", "2026-03-07") == {"aider"}
    assert found("--until", "2026-03-05") == {"claude-code", "gemini-cli"}
    assert found("--session", "e41f") == {"copilot-cli"}
    assert found("--kind", "tool_result") == {"claude-code", "gemini-cli", "pi"}
    assert found("--project", "elsewhere") == set()
    newest = document(demo("search", "tide", "--newest", "--json"))["hits"]
    times = [hit["at"] for hit in newest]
    assert times == sorted(times, reverse=True)


def test_nothing_found_is_no_failure(demo: Run) -> None:
    result = demo("search", '"unbalanced')
    assert result.stdout == ""
    assert "No matches" in result.stderr


def test_the_masked_password_is_nowhere(demo: Run, home: Path) -> None:
    assert document(demo("search", "Tidewater", "--json"))["hits"] == []
    assert "[REDACTED]@db.internal" in demo("show", CODEX).stdout


# ---------------------------------------------------------------------- usage


def test_tokens_by_whatever_one_asks_for(demo: Run) -> None:
    def rows(*words: str) -> dict[str, list[str]]:
        lines = demo("usage", *words).stdout.splitlines()
        return {line.split("\t")[0]: line.split("\t")[1:] for line in lines}

    models = rows()
    assert models["gpt-5.4"][:7] == ["4", "12,364", "948", "22,400", "0", "316", "35,712"]
    assert models["total"][6] == "164,653"
    assert set(rows("--by", "project")) == {"harbor", "total"}
    for by in ("agent", "harness"):
        assert set(rows("--by", by, "--since", "2026-03-07")) == {"aider", "total"}
    assert len(rows("--by", "day")) == 6
    assert rows("--project", "elsewhere") == {}


def test_tokens_as_json_in_each_programs_words(demo: Run) -> None:
    found = document(demo("usage", "--json"))
    assert found["total"]["answers"] == 18
    assert set(found["by_project"]) == {"harbor"}
    assert found["by_model"]["gpt-5.5"]["output"] == 328
    assert len(found["by_day"]) == 5
    assert found["agents"]["codex"] == {
        "input_tokens": 30620,
        "cached_input_tokens": 21376,
        "output_tokens": 700,
        "reasoning_output_tokens": 256,
    }
    assert found["agents"]["claude-code"] == {
        "api_messages": 7,
        "input_tokens": 42,
        "output_tokens": 932,
        "cache_creation_input_tokens": 7160,
        "cache_read_input_tokens": 98050,
    }


def test_tokens_of_real_sessions_are_those_counted_by_hand(
    run: Run, tmp_path: Path, shared_data: Path
) -> None:
    harness = shared_data / "data" / "harness"
    expected = json.loads((harness / "expected_usage.json").read_text())
    user = tmp_path / "user"
    # Those of Claude Code are compared every day in tests/capture/test_real_transcripts.py.
    programs = {"codex": "sessions"} | ({"claude": "projects"} if AT_LENGTH else {})
    for program, inside in programs.items():
        for folder in sorted((harness / program).glob(f"*/{inside}")):
            shutil.copytree(folder, user / f".{program}" / inside, dirs_exist_ok=True)
    run("capture", "--quiet", "--user-home", str(user))
    found = document(run("usage", "--json"))["agents"]
    assert found["codex"].items() <= expected["codex"].items()
    assert len(found["codex"]) == 4
    if AT_LENGTH:
        assert found["claude-code"].items() <= expected["claude"].items()
        assert len(found["claude-code"]) == 5


# ---------------------------------------------------------------------- labels


def test_labels_are_put_shown_listed_and_searched(demo: Run) -> None:
    told = document(demo("label", CLAUDE, "Flaky", "ci", "--star", "--note", "again", "--json"))
    labels = {"starred": True, "tags": ["ci", "flaky"], "note": "again"}
    assert told == {"schema_version": 1, "ref": f"claude-code:{CLAUDE}", "labels": labels}
    assert demo("label", CLAUDE).stdout == f"claude-code:{CLAUDE}  starred  #ci #flaky  again\n"
    assert demo("sessions", "tag:flaky").stdout.startswith(CLAUDE)
    assert demo("sessions", "is:starred").stdout.count("\n") == 1
    [row] = document(demo("labels", "--json"))["labels"]
    assert row["labels"] == labels
    demo("label", CLAUDE, "--no-star", "--remove", "ci", "--remove", "flaky", "--note", "")
    assert document(demo("labels", "--json"))["labels"] == []
    assert "can't be a tag" in demo("label", "last", "two words", code=2).stderr


def test_a_secret_in_a_label_is_masked(demo: Run) -> None:
    secret = "ghp_" + "k7Qw2Zx9Lm" * 3 + "aB4cD5"
    told = demo("label", CLAUDE, secret, "--note", f"log in with {secret}").stdout
    assert secret.lower() not in told.lower()
    assert "log in with" in told
    demo("label", CLAUDE, "--remove", secret, "--note", "")  # it is found as it was stored
    assert demo("label", CLAUDE).stdout == f"claude-code:{CLAUDE}  no labels\n"


def test_a_list_is_sorted_by_what_is_asked_for(demo: Run) -> None:
    rows = document(demo("sessions", "sort:messages", "--json"))["sessions"]
    counts = [one["entries"] for one in rows]
    assert counts == sorted(counts, reverse=True)
    assert len(counts) == 8
