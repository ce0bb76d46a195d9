"""Codex: what stands in rollouts of every age, and what is made of it."""

import json
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
from threadkeep.knowledge.records import SessionFacts
from threadkeep.sources.codex import threads
from threadkeep.sources.codex.items import output_of
from threadkeep.sources.codex.rollouts import SOURCE
from threadkeep.sources.records import Source

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
    sources: list[Source] = [SOURCE, threads.SOURCE]
    assert {(source.agent, source.kind) for source in sources} == {("codex", "lines")}


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


def test_two_records_in_one_line_have_two_keys() -> None:
    first = user_says("a")
    second = {**first, "timestamp": "2026-09-01T10:00:05Z"}
    line = json.dumps(first).encode() + json.dumps(second).encode()
    keys = [SOURCE.entries(one, line, 0)[0].key for one in (first, second, first)]
    assert keys[0] == keys[2] != keys[1]


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
    assert old.facts == {f"{THREADS}6": SessionFacts(cwd="/home/ada/old", git_branch="old")}
    assert not old.unknown
    [segment] = old.segments.values()
    assert segment.start == segment.end == 1_748_772_000_000
    assert segment.tools == [("shell", "ls -l"), ("shell", "not json")]


# ---------------------------------------------------------------------- facts


def test_facts_of_a_session(pond: Result) -> None:
    assert pond.facts == {
        POND: SessionFacts(
            title="Ducks and geese",
            model="gpt-5.5-mini",
            cwd="/home/ada/pond/reeds",
            began_in="/home/ada/pond",
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
    [log] = threads.SOURCE.find(USER)
    assert log.path == str(HOME / ".codex" / "session_index.jsonl")
    parser = threads.SOURCE.parser(log, None)
    for number, (value, line) in enumerate([*fed_from(Path(log.path)), (None, b"null")]):
        assert parser.feed(value, line, number) == []
    harvest = parser.harvest()
    assert harvest.facts == {
        POND: SessionFacts(title="Many ducks"),
        LAKE: SessionFacts(title="Swans"),
    }
    assert harvest.unknown == {"session_index": 1}
    assert parser.harvest().facts == {}


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
