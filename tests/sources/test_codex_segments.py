"""Codex: what answers cost, and how a conversation is cut into segments."""

from pathlib import Path

import pytest

from tests.sources.codex_support import HOME, THREADS, Result, fed_from, log_of, read, read_fixture
from threadkeep.sources.codex.items import bare_prompt, summed_up

POND = f"{THREADS}1"
LAKE = f"{THREADS}2"


@pytest.fixture(scope="module")
def pond() -> Result:
    return read_fixture(1)


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


def test_after_the_first_record_counts_do_not_count() -> None:
    more = {"input_tokens": 99, "output_tokens": 9}
    info = {"total_token_usage": more, "last_token_usage": more}
    count = {"type": "event_msg", "payload": {"type": "token_count", "info": info}}
    told = {"response_id": "resp_1", "usage": {"input_tokens": 10}}
    record = {"type": "token_usage_record", "payload": told}
    log = log_of(Path("/logs/rollout-x.jsonl"))
    assert list(read(log, [(record, b""), (count, b"")]).usage) == ["resp_1"]


@pytest.mark.parametrize("relation", ["forked_from_id", "parent_thread_id"])
def test_a_fork_that_copies_nothing_has_its_own_counts_and_segments(relation: str) -> None:
    base = {"thread_id": POND, "end_ordinal_exclusive": 9, "end_byte_offset": 99}
    meta = {"id": LAKE, relation: POND, "history_base": base}
    use = {"input_tokens": 10, "output_tokens": 2}
    info = {"total_token_usage": use, "last_token_usage": use}
    payloads = [
        ("session_meta", meta),
        ("response_item", {"type": "message", "role": "user", "content": "Swim"}),
        ("event_msg", {"type": "token_count", "info": info}),
    ]
    fed = [({"type": kind, "payload": body}, b"") for kind, body in payloads]
    fork = read(log_of(Path("/logs/rollout-x.jsonl")), fed)
    assert [(one.key.split(":")[0], one.session_id) for one in fork.usage.values()] == [
        (LAKE, LAKE)
    ]
    assert list(fork.segments) == [(LAKE, 0)]
    assert [entry.session_id for entry in fork.entries] == [LAKE]
    assert fork.facts[LAKE].parent_session_id == POND


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
