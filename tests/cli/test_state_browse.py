"""state ls and search."""

import time
from pathlib import Path

import pytest

from tests.cli.conftest import HOSTILE, Run, Start, document, hermes_file
from tests.cli.test_completion import offered
from tests.support.states import talk
from threadkeep import SessionDB

DAY = 86_400


def test_sessions_are_listed_with_what_tells_them_apart(run: Run, state: SessionDB) -> None:
    talk(state, "one", "the first question", "an answer")
    talk(state, "two", "another question", source="telegram")
    state.set_session_title("two", "Release plan")
    state.set_session_pinned("two")
    lines = run("state", "ls").stdout.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["two", "one"]
    assert "telegram" in lines[0]
    assert "[pinned] Release plan" in lines[0]
    assert lines[1].endswith("the first question")


def test_a_list_as_json_has_the_columns_but_no_prompts(run: Run, state: SessionDB) -> None:
    state.create_session("one", "cli", system_prompt="long " * 1000)
    (listed,) = document(run("state", "ls", "--json"))["sessions"]
    assert (listed["id"], listed["preview"], listed["pinned_at"]) == ("one", "", None)
    assert "system_prompt" not in listed


def test_a_list_can_be_narrowed_and_paged(run: Run, state: SessionDB) -> None:
    for number in range(5):
        talk(state, f"s{number}", "hello", source="cron" if number == 4 else "cli")
    state.create_session("child", "cli", parent_session_id="s0")
    state.set_session_archived("s1")

    def ids(*words: str) -> list[str]:
        return [line.split("\t")[0] for line in run("state", "ls", *words).stdout.splitlines()]

    assert ids("--exclude-source", "cron") == ["s3", "s2", "s0"]
    assert ids("--source", "cron") == ["s4"]
    assert ids("--limit", "1", "--offset", "1") == ["s3"]
    assert "s1" in ids("--archived")
    assert "child" in ids("--children")
    talk(state, "s0", "again")
    assert ids("--by-activity")[0] == "s0"
    assert "--offset 2" in run("state", "ls", "--limit", "2").stderr


def test_an_empty_list_says_what_else_there_is(run: Run, state: SessionDB) -> None:
    result = run("state", "ls", "--source", "nobody")
    assert result.stdout == ""
    assert "--archived" in result.stderr


def test_a_hostile_title_does_no_harm(run: Run, state: SessionDB) -> None:
    talk(state, "one", HOSTILE)
    result = run("state", "ls")
    assert not set(result.stdout) & {"\x1b", "\x07", "\u202e"}


@pytest.mark.parametrize("query", ["gateway/run.py", "error: timeout", "50%", "日本"])
def test_search_finds_any_text(query: str, run: Run, state: SessionDB) -> None:
    talk(state, "one", "look at gateway/run.py: 50% fail with error: timeout 我在日本語")
    talk(state, "two", "nothing of it here")
    (hit,) = document(run("state", "search", query, "--json"))["hits"]
    assert (hit["session_id"], hit["role"], hit["title"]) == ("one", "user", None)
    assert ">>>" in hit["snippet"]


def test_a_hit_shows_where_it_is(run: Run, state: SessionDB) -> None:
    ids = talk(state, "one", "a needle in the hay")
    state.set_session_title("one", "Farm work")
    first, second = run("state", "search", "needle").stdout.splitlines()
    assert first.startswith(f"one #{ids[0]} ")
    assert first.endswith("user cli · Farm work")
    assert second == "  a needle in the hay"


def test_search_can_be_narrowed(run: Run, state: SessionDB) -> None:
    now = time.time()
    state.create_session("old", "cli")
    state.append_message("old", "user", "needle", timestamp=now - 10 * DAY)
    talk(state, "new", "needle", "a needle, too", source="telegram")

    def found(*words: str) -> list[str]:
        hits = document(run("state", "search", "needle", "--json", *words))["hits"]
        return [f"{hit['session_id']}/{hit['role']}" for hit in hits]

    state.append_message("new", "tool", "needle", timestamp=now)
    assert len(found()) == 4
    assert found("--until", "5d") == ["old/user"]
    assert set(found("--since", "5d", "--role", "assistant")) <= {"new/assistant"}
    assert found("--source", "cli") == ["old/user"]
    assert found("--exclude-source", "telegram") == ["old/user"]
    assert found("--session", "ol") == ["old/user"]
    assert found("--sort", "oldest", "--limit", "1") == ["old/user"]
    assert len(found("--role", "tool", "--role", "assistant")) == 2
    day = time.strftime("%Y-%m-%d", time.localtime(now - 10 * DAY))
    assert found("--since", day, "--until", day) == ["old/user"]


def test_nothing_found_is_no_failure(run: Run, state: SessionDB) -> None:
    talk(state, "one", "hello")
    assert "nothing found" in run("state", "search", '"unbalanced').stderr


@pytest.mark.parametrize("when", ["soon", "2026-99-01", ""])
def test_a_time_that_is_none_is_refused(when: str, run: Run, state: SessionDB) -> None:
    assert "2026-01-15" in run("state", "search", "x", "--since", when, code=2).stderr


def test_looking_into_a_file_of_hermes_leaves_it_as_it_is(run: Run, tmp_path: Path) -> None:
    path = hermes_file(tmp_path / "theirs.db")
    before = path.read_bytes()
    for words in (["ls"], ["show", "last"], ["search", "hello"], ["stats"], ["sizes"], ["check"]):
        run("state", "--db", str(path), *words)
    run("state", "export", "--all", "--db", str(path))
    assert path.read_bytes() == before


def test_a_store_that_is_not_there_is_not_begun_by_looking(run: Run, home: Path) -> None:
    for words in (["ls"], ["search", "x"], ["check"], ["title", "a", "b"], ["prune"]):
        assert "there is no state store" in run("state", *words, code=3).stderr
    assert not home.exists()


def test_session_ids_are_offered_to_the_shell(start: Start, state: SessionDB) -> None:
    talk(state, "20260115_ab", "about the gateway")
    lines = offered(start, "state", "show", "2026")
    assert lines[lines.index("20260115_ab") + 1] == "about the gateway"
    assert offered(start, "state", "pin", "nothing-like-it") == []


def test_the_group_explains_itself(run: Run) -> None:
    assert "Example" in run("state").stdout
    for name in ("ls", "show", "search", "export", "import", "prune", "stats", "title", "lineage"):
        assert "Example" in run("state", name, "--help").stdout


def test_a_large_file_without_our_index_is_told_to_be_slow(
    run: Run, state: SessionDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk(state, "one", "hello")
    theirs = str(hermes_file(tmp_path / "theirs.db"))
    assert "index" not in run("state", "--db", theirs, "search", "hello").stderr
    monkeypatch.setattr("threadkeep.cli.state.group._LARGE", 0)
    assert "1 message without an index" in run("state", "--db", theirs, "search", "hello").stderr
    assert "index" not in run("state", "search", "hello").stderr
