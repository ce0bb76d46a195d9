"""Codex: what stands in rollouts of every age, and what is made of it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.sources.codex_support import (
    HOME,
    THREADS,
    USER,
    Result,
    fed_from,
    fixture,
    log_of,
    read,
    read_fixture,
)
from threadkeep.sources import codex_index
from threadkeep.sources.codex import SOURCE
from threadkeep.sources.codex_outputs import output_of
from threadkeep.sources.codex_paths import thread_of
from threadkeep.sources.codex_segments import bare_prompt, summed_up
from threadkeep.sources.records import Facts, Log, Source, UserHome

POND = f"{THREADS}1"
LAKE = f"{THREADS}2"


@pytest.fixture(scope="module")
def pond() -> Result:
    return read_fixture(1)


def said(record: dict[str, Any]) -> list[tuple[str, str]]:
    found = SOURCE.entries(record, json.dumps(record).encode(), 0)
    return [(entry.kind, entry.text) for entry in found]


def user_says(*texts: str) -> dict[str, Any]:
    content = [{"type": "input_text", "text": one} for one in texts]
    payload = {"type": "message", "role": "user", "content": content}
    return {"timestamp": "2026-09-01T10:00:00Z", "type": "response_item", "payload": payload}


# ---------------------------------------------------------------------- the transcript


def test_both_are_sources() -> None:
    sources: list[Source] = [SOURCE, codex_index.SOURCE]
    assert {(source.harness, source.kind) for source in sources} == {("codex", "lines")}


def test_each_prompt_comes_once_and_whole(pond: Result) -> None:
    assert pond.of("prompt") == [
        "Count the ducks in pond.txt.\n\nThen tell me how many there are.",
        "[image]\nAnd the <b>geese</b>?",
    ]


def test_what_the_program_puts_in_is_a_note(pond: Result) -> None:
    notes = [entry for entry in pond.entries if entry.kind == "note"]
    assert [(note.role, note.text.split("\n")[0], note.error) for note in notes] == [
        ("system", "<permissions instructions>", False),
        ("user", "# AGENTS.md instructions for /home/ada/pond", False),
        ("system", "stream disconnected", True),
        ("system", "Long threads are slow", False),
        ("user", "<turn_aborted>", False),
        ("system", "rolled back: 1 turns", False),
    ]


def test_answers_thoughts_and_summaries_come_once(pond: Result) -> None:
    assert pond.of("text") == ["There is **one** duck."]
    assert pond.of("reasoning") == ["**Looking** for ducks"]
    assert pond.of("summary") == ["So far: one duck was counted."]


def test_tool_calls_are_named_and_written_out(pond: Result) -> None:
    calls = [(entry.tool, entry.text) for entry in pond.entries if entry.kind == "tool_call"]
    assert calls == [
        ("exec_command", "grep -c duck pond.txt\nworkdir: /home/ada/pond"),
        ("apply_patch", "*** Begin Patch\n*** Add File: pond.txt\n+duck\n*** End Patch"),
        ("web_search", "query: how ducks count"),
        ("tool_search", "query: github\nlimit: 5"),
        ("mcp__github._fetch_pr", "repo: ada/pond\nnumber: 7"),
        ("local_shell", "ls -la"),
        ("image_generation", "A duck\n[image]"),
    ]


def test_results_carry_their_call_and_their_failure(pond: Result) -> None:
    results = [entry for entry in pond.entries if entry.kind == "tool_result"]
    assert [one.error for one in results] == [True, False, False, False, False]
    assert [one.call_id[-4:] for one in results] == ["0001", "0002", "0003", "0004", "0005"]
    assert [one.key for one in results] == [f"{one.call_id}:out" for one in results]
    assert results[1].text == "Success. Updated the following files:\nA pond.txt\n"
    assert results[2].text == "mcp__github: _fetch_pr"
    assert results[3].text == "Seven ducks\n[image]"


@pytest.mark.parametrize("number", [1, 2, 3, 4, 6])
def test_instructions_and_replaced_history_are_never_an_entry(number: int) -> None:
    assert not [one for one in read_fixture(number).entries if "NEVER-AN-ENTRY" in one.text]


def test_keys_are_unique_in_a_session_and_over_its_files() -> None:
    for number in (1, 3, 4, 6):
        keys = [entry.key for entry in read_fixture(number).entries]
        assert len(set(keys)) == len(keys)
    both = [*read_fixture(2).entries, *read_fixture(2, 1).entries]
    assert len({entry.key for entry in both}) == len(both)


def test_one_record_alone_reads_as_in_its_log() -> None:
    """Only events that repeat an item differ: alone, nothing tells that there is one."""
    for number in (1, 2, 3, 4, 6):
        path = fixture(number)
        parser = SOURCE.parser(log_of(path), None)
        for place, (value, line) in enumerate(fed_from(path)):
            fed = parser.feed(value, line, place)
            assert fed == [] or fed == SOURCE.entries(value, line, place)


def test_times_are_those_of_the_records(pond: Result) -> None:
    assert pond.entries[0].at == 1_788_256_800_000


# ---------------------------------------------------------------------- prompts


def test_newer_logs_say_themselves_what_a_person_said() -> None:
    lake = read_fixture(2)
    assert lake.of("prompt") == ["<environment_context> is what I want explained."]
    assert lake.of("note") == ["# AGENTS.md instructions\nSwim.\nAnything at all"]


@pytest.mark.parametrize(
    "context",
    [
        "<environment_context>\n<cwd>/x</cwd>",
        "\n <user_instructions>\nBe brief",
        "# AGENTS.md instructions for /x",
        "<skill>\n<name>swim</name>",
        "<skills_instructions>",
        "<user_shell_command>ls</user_shell_command>",
        "<turn_aborted>",
    ],
)
def test_older_logs_are_told_by_how_a_text_begins(context: str) -> None:
    assert said(user_says(context)) == [("note", context)]
    assert said(user_says(context, "Do it")) == [("note", context), ("prompt", "Do it")]


@pytest.mark.parametrize("prompt", ["<div> is wrong here", "# Heading", "Explain <turn_aborted>"])
def test_a_prompt_may_look_like_markup(prompt: str) -> None:
    assert said(user_says(prompt)) == [("prompt", prompt)]


def event(message: str) -> dict[str, Any]:
    payload = {"type": "user_message", "message": message}
    return {"timestamp": "2026-09-01T10:00:01Z", "type": "event_msg", "payload": payload}


@pytest.mark.parametrize(
    "records, prompts",
    [
        ([user_says("a"), event("a"), user_says("a"), event("a")], ["a", "a"]),
        ([user_says("a"), user_says("b"), event("a"), event("b")], ["a", "b"]),
        ([event("a")], ["a"]),
        ([event("Context\n\na"), user_says("a"), event("b")], ["Context\n\na", "b"]),
        ([event("a"), user_says("something else")], ["a", "something else"]),
    ],
)
def test_an_event_counts_only_without_its_item(
    records: list[dict[str, Any]], prompts: list[str]
) -> None:
    fed = [(record, json.dumps(record).encode()) for record in records]
    result = read(log_of(Path("/logs/rollout-x.jsonl")), fed)
    assert result.of("prompt") == prompts
    [segment] = result.segments.values()
    assert segment.prompts == prompts


def test_a_log_of_events_alone_is_still_read() -> None:
    [path] = HOME.glob(".codex/sessions/**/rollout-nometa.jsonl")
    result = read(log_of(path), fed_from(path))
    assert [(one.kind, one.text) for one in result.entries] == [
        ("prompt", "no meta here"),
        ("text", "nor an item"),
    ]
    segment = result.segments["rollout-nometa", 0]
    assert (segment.cwd, segment.project_dir) == (str(path.parent), "02")


# ---------------------------------------------------------------------- the oldest format


def test_bare_lines_are_read() -> None:
    old = read_fixture(6)
    assert [(one.kind, one.text, one.at, one.error) for one in old.entries[1:]] == [
        ("prompt", "Hello, duck", None, False),
        ("tool_call", 'command: ["ls","-l"]\nworkdir: /home/ada/old', None, False),
        ("tool_result", "gone", None, True),
        ("tool_call", "not json", None, False),
        ("tool_result", "apply_patch verification failed: no", None, True),
        ("text", "Quack", None, False),
    ]
    assert old.facts == {f"{THREADS}6": Facts(cwd="/home/ada/old", git_branch="old")}
    assert not old.unknown
    [segment] = old.segments.values()
    assert segment.start == segment.end == 1_748_772_000_000
    assert segment.tools == [("shell", "ls -l"), ("shell", "not json")]


# ---------------------------------------------------------------------- facts


def test_facts_of_a_session(pond: Result) -> None:
    assert pond.facts == {
        POND: Facts(
            title="Ducks and geese",
            model="gpt-5.5-mini",
            cwd="/home/ada/pond/reeds",
            git_branch="ducks",
            version="0.140.0",
        )
    }


def test_a_subagent_knows_its_parent_and_its_role() -> None:
    scout = read_fixture(4)
    [facts] = scout.facts.values()
    assert (facts.parent_session_id, facts.is_subagent, facts.agent) == (POND, True, "explorer")
    assert not facts.hidden
    assert scout.of("prompt") == ["Look for reeds.", "Stop now."]
    assert scout.of("note") == ["Count the ducks in pond.txt.", "I am done."]
    [segment] = scout.segments.values()
    assert segment.is_subagent
    assert segment.summary.startswith("Codex session (subagent, project: /home/ada/pond)")


@pytest.mark.parametrize(
    "meta, hidden",
    [
        ({"source": {"subagent": "review"}}, True),
        ({"source": {"subagent": "compact"}}, True),
        ({"source": {"subagent": {"other": "guardian"}}}, True),
        ({"source": {"subagent": {"other": "agent_job:7"}}}, False),
        ({"source": {"internal": "memories"}}, True),
        ({"source": "cli", "thread_source": "memory_consolidation"}, True),
        ({"source": {"custom": "Xcode"}, "thread_source": "user"}, False),
        ({"source": ["odd"]}, False),
    ],
)
def test_threads_that_codex_runs_for_itself_are_hidden(meta: dict[str, Any], hidden: bool) -> None:  # noqa: FBT001
    record = {"timestamp": "2026-09-01T10:00:00Z", "type": "session_meta"}
    fed = [({**record, "payload": {"id": "x", **meta}}, b"{}")]
    assert read(log_of(Path("/logs/rollout-x.jsonl")), fed).facts["x"].hidden is hidden


def test_names_come_from_the_index() -> None:
    [log] = codex_index.SOURCE.find(USER)
    assert log.path == str(HOME / ".codex" / "session_index.jsonl")
    parser = codex_index.SOURCE.parser(log, None)
    for number, (value, line) in enumerate([*fed_from(Path(log.path)), (None, b"null")]):
        assert parser.feed(value, line, number) == []
    harvest = parser.harvest()
    assert harvest.facts == {POND: Facts(title="Many ducks"), LAKE: Facts(title="Swans")}
    assert harvest.unknown == {"session_index": 1}
    assert parser.harvest().facts == {}


# ---------------------------------------------------------------------- usage


def spent(result: Result) -> list[tuple[int, int, int, int, int]]:
    return [
        (one.input, one.cache_read, one.cache_write, one.output, one.reasoning)
        for one in result.usage.values()
    ]


def test_counts_that_come_again_count_once(pond: Result) -> None:
    assert spent(pond) == [(400, 600, 0, 50, 20), (500, 1000, 0, 70, 20)]
    assert {(one.session_id, one.model) for one in pond.usage.values()} == {(POND, "gpt-5.5")}


def test_records_count_instead_of_counts() -> None:
    lake = read_fixture(2)
    assert list(lake.usage) == ["resp_1", "resp_2"]
    assert spent(lake) == [(500, 400, 100, 10, 2), (100, 1000, 0, 12, 0)]


def test_a_record_behind_its_count_does_not_count_again() -> None:
    use = {"input_tokens": 10, "output_tokens": 2}
    info = {"total_token_usage": use, "last_token_usage": use}
    count = {"type": "event_msg", "payload": {"type": "token_count", "info": info}}
    told = {"response_id": "resp_1", "usage": use, "thread_token_usage": use}
    record = {"type": "token_usage_record", "payload": told}
    log = log_of(Path("/logs/rollout-x.jsonl"))
    assert len(read(log, [(count, b""), (record, b"")]).usage) == 1
    assert list(read(log, [(record, b""), (count, b"")]).usage) == ["resp_1"]


def test_a_fork_counts_only_what_it_spent_itself(pond: Result) -> None:
    fork = read_fixture(3)
    own = [key for key in fork.usage if key not in pond.usage]
    assert set(pond.usage) < set(fork.usage)
    assert [(fork.usage[key].input, fork.usage[key].output) for key in own] == [(100, 10)]
    assert {fork.usage[key].session_id for key in pond.usage} == {POND}
    assert [fork.usage[key].session_id for key in own] == [f"{THREADS}3"]


def test_a_fork_has_the_whole_conversation_but_segments_only_of_its_own(pond: Result) -> None:
    fork = read_fixture(3)
    assert fork.of("prompt") == [pond.of("prompt")[0], "What about swans?"]
    [segment] = fork.segments.values()
    assert (segment.prompts, segment.tokens) == (["What about swans?"], 10)
    assert list(fork.facts) == [f"{THREADS}3"]
    assert fork.facts[f"{THREADS}3"].parent_session_id == POND


# ---------------------------------------------------------------------- segments


def test_segments_of_a_session(pond: Result) -> None:
    first, second = pond.segments.values()
    assert (first.session_id, first.index, second.index) == (POND, 0, 1)
    assert first.prompts == ["Count the ducks in pond.txt.\n\nThen tell me how many there are."]
    assert first.tools == [
        ("exec_command", "grep -c duck pond.txt"),
        ("apply_patch", "*** Begin Patch\n*** Add File: pond.txt\n+duck\n*** End Patch"),
        ("_fetch_pr", "ada/pond"),
        ("local_shell", "ls -la"),
    ]
    assert (first.git_branch, first.tokens, second.tokens) == ("ducks", 120, 0)
    assert (first.cwd, first.project_dir) == ("/home/ada/pond/reeds", "pond")
    assert (second.cwd, second.project_dir) == ("/home/ada/pond/reeds", "reeds")
    assert first.end - first.start == 11_000


def test_the_second_file_of_a_reverted_thread_leaves_the_segments_of_the_first() -> None:
    first, second = read_fixture(2), read_fixture(2, 1)
    assert list(first.segments) == [(LAKE, 0)]
    assert list(second.segments) == [(LAKE, 18)]
    assert second.of("prompt") == ["Say it shorter."]


def test_what_an_editor_shows_is_no_part_of_the_prompt() -> None:
    [path] = HOME.glob("Library/**/rollout-*.jsonl")
    result = read(log_of(path), fed_from(path))
    [segment] = result.segments.values()
    assert segment.prompts == ["Rename the code selected by me"]
    assert "Duck.swift" in result.of("prompt")[0]


@pytest.mark.parametrize(
    "prompt, bare",
    [
        ("The user has no code selected.\nNow refactor", "Now refactor"),
        ("The user has no code selected.", "The user has no code selected."),
        ("Keep\n\nthe code selected\n\nhere", "Keep\n\nthe code selected\n\nhere"),
        ("# Context from my IDE setup:\n\n## My request for Codex:\nSwim \n", "Swim"),
        ("## My request for Codex:\n", "## My request for Codex:\n"),
    ],
)
def test_bare_prompts(prompt: str, bare: str) -> None:
    assert bare_prompt(prompt) == bare


@pytest.mark.parametrize(
    "given, summary",
    [
        ('{"cmd":"ls","path":"/x"}', "ls"),
        ('{"path":"/x","workdir":"/y"}', "/x"),
        ('{"zebra":"z","ant":"a","n":1}', "a"),
        ('{"command":["bash","-lc","ls"]}', "bash -lc ls"),
        ('{"cmd":"' + "x" * 300 + '"}', "x" * 120),
        ('{"other":"' + "x" * 300 + '"}', "x" * 80),
        ('{"chars":"","id":1}', '{"chars":"","id":1}'),
        ("*** Begin Patch" + "x" * 300, "*** Begin Patch" + "x" * 65),
        ("{broken", "{broken"),
        (None, ""),
    ],
)
def test_calls_in_few_words(given: object, summary: str) -> None:
    body = {"type": "function_call", "name": "swim", "arguments": given}
    assert summed_up(body) == ("swim", summary)


# ---------------------------------------------------------------------- outputs and types


@pytest.mark.parametrize(
    "output, text, failed",
    [
        ("Exit code: 1\nOutput:\nx", "Exit code: 1\nOutput:\nx", True),
        ("Exit code: 0\nOutput:\nExit code: 1", "Exit code: 0\nOutput:\nExit code: 1", False),
        ("Process exited with code 0\nOutput:\n", "Process exited with code 0\nOutput:\n", False),
        ("It said: Process exited with code 1", "It said: Process exited with code 1", False),
        ('{"output":"x","metadata":{"exit_code":3}}', "x", True),
        ('{"output":"x","metadata":{"exit_code":[]}}', "x", False),
        ('{"output":"x"', '{"output":"x"', False),
        (
            [{"type": "text", "text": "a"}, "b", {"type": "image", "data": "AAAA"}],
            "a\nb\n[image]",
            False,
        ),
        ({"content": "x", "success": False}, "x", True),
        (7, "", False),
    ],
)
def test_outputs(output: object, text: str, failed: bool) -> None:  # noqa: FBT001
    assert output_of(output) == (text, failed)


def test_what_is_not_known_is_counted() -> None:
    assert read_fixture(2).unknown == {
        "glacier_state": 1,
        "event_msg/feathers_ruffled": 1,
        "event_msg/item_completed/Migration": 1,
        "response_item/song": 1,
        "message/hologram": 1,
    }
    assert read_fixture(1).unknown == read_fixture(3).unknown == read_fixture(4).unknown == {}


def test_unknown_names_are_short_and_few() -> None:
    fed = [({"type": f"{number}" * 100, "payload": {}}, b"") for number in range(300)]
    unknown = read(log_of(Path("/logs/rollout-x.jsonl")), list(fed)).unknown
    assert len(unknown) <= 200
    assert all(len(name) <= 80 for name in unknown)


# ---------------------------------------------------------------------- finding


def test_find_gives_each_rollout_once_and_the_live_one() -> None:
    logs = list(SOURCE.find(USER))
    assert [log.path for log in logs] == sorted(log.path for log in logs)
    assert sorted(log.session_id[-1] for log in logs) == [*"1223456", "7", "a"]
    [pond] = [log for log in logs if log.session_id == POND]
    assert "/sessions/" in pond.path
    status = Path(pond.path).stat()
    assert (pond.stamp.size, pond.stamp.inode) == (status.st_size, status.st_ino)


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    return path


def found(home: Path, **env: str) -> list[Log]:
    return list(SOURCE.find(UserHome(home, env)))


def test_the_variable_moves_everything(tmp_path: Path) -> None:
    touch(tmp_path / "home" / ".codex" / "sessions" / "rollout-a.jsonl")
    moved = touch(tmp_path / "other" / "sessions" / "rollout-b.jsonl")
    logs = found(tmp_path / "home", CODEX_HOME=str(tmp_path / "other"))
    assert [log.path for log in logs] == [str(moved)]
    roots = SOURCE.roots(UserHome(tmp_path, {"CODEX_HOME": "/elsewhere"}))
    assert roots[:2] == [Path("/elsewhere/sessions"), Path("/elsewhere/archived_sessions")]


@pytest.mark.parametrize("live", ["sessions/2026/09/01", "archived_sessions"])
def test_plain_comes_before_compressed(tmp_path: Path, live: str) -> None:
    name = f"rollout-2026-09-01T12-00-00-{POND}.jsonl"
    plain = touch(tmp_path / ".codex" / live / name)
    packed = touch(tmp_path / ".codex" / live / f"{name}.zst")
    assert [log.path for log in found(tmp_path)] == [str(plain)]
    plain.unlink()
    assert [(log.path, log.session_id) for log in found(tmp_path)] == [(str(packed), POND)]
    touch(tmp_path / ".codex" / "archived_sessions" / name)
    [log] = found(tmp_path)
    assert ("archived" in log.path) is (live == "archived_sessions")


def test_odd_things_on_the_disk_are_survived(tmp_path: Path) -> None:
    sessions = tmp_path / ".codex" / "sessions"
    touch(sessions / "rollout-one\ntwo.jsonl")
    touch(sessions / "notes.jsonl")
    touch(sessions / "rollout-x.json")
    (sessions / "loop").symlink_to(sessions)
    (sessions / "rollout-broken.jsonl").symlink_to(tmp_path / "nowhere")
    (sessions / "rollout-folder.jsonl").mkdir()
    with open(os.fsencode(sessions) + b"/rollout-\xff.jsonl", "wb"):  # noqa: PTH123
        pass
    names = sorted(log.session_id for log in found(tmp_path))
    assert names == ["rollout-one\ntwo", "rollout-\ufffd"]
    assert found(tmp_path / "nobody") == []


@pytest.mark.parametrize(
    "name, thread",
    [
        (f"rollout-2026-09-01T12-00-00-{POND}.jsonl", POND),
        (f"rollout-2026-09-01T12-00-00-{POND}.jsonl.zst", POND),
        (f"rollout-2026-09-01T12-00-00-{POND}_{LAKE}.jsonl", POND),
        ("rollout-2026-05-01T10-00-00-cccc.jsonl", "rollout-2026-05-01T10-00-00-cccc"),
        ("rollout-.jsonl", "rollout-"),
    ],
)
def test_names_of_files_name_threads(name: str, thread: str) -> None:
    assert thread_of(name) == thread
