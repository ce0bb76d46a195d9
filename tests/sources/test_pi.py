"""Pi and its family: every version of the tree is read, and a copied answer counts once."""

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tests.lengths import examples
from tests.sources.test_copilot_cli import (
    FIXTURES,
    check_any_junk,
    check_any_split,
    check_odd_folders,
    found_in,
    lines,
    nested,
    read,
    real_files,
    said,
)
from threadkeep.knowledge.records import SessionFacts
from threadkeep.sources.pi import SOURCE
from threadkeep.sources.records import Log, Stamp, UserHome

SESSION = "019e44d4-0000-7000-8000-000000000001"
FORK = "019e44d4-0000-7000-8000-000000000002"
OLD = "019e44d4-0000-7000-8000-000000000003"


@pytest.fixture
def logs() -> dict[str, Log]:
    return found_in(SOURCE, "pi")


# ---------------------------------------------------------------------- finding


def test_find_gives_the_whole_family(logs: dict[str, Log]) -> None:
    assert sorted(logs) == [SESSION, FORK, OLD, "claw0", "claw1", "claw1-topic-7", "omp1"]
    assert logs[SESSION].project_dir == "--home-ada-shop--"
    assert logs["claw1"].project_dir == "main"
    assert not any(log.path.endswith("sessions.json") for log in logs.values())


def test_find_follows_the_variables_of_the_programs(tmp_path: Path) -> None:
    env = {
        "PI_CODING_AGENT_DIR": str(FIXTURES / "pi" / ".pi" / "agent"),
        "OPENCLAW_STATE_DIR": str(FIXTURES / "pi" / ".openclaw"),
    }
    found = list(SOURCE.find(UserHome(tmp_path, env)))
    assert len(found) == 6
    assert [log.path for log in found] == sorted(log.path for log in found)


def test_find_survives_odd_folders(tmp_path: Path) -> None:
    check_odd_folders(SOURCE, tmp_path / ".pi" / "agent" / "sessions" / "--p--", tmp_path)


# ---------------------------------------------------------------------- reading


def test_what_was_said_and_done(logs: dict[str, Log]) -> None:
    entries, harvest = read(SOURCE, logs[SESSION], lines(logs[SESSION].path))
    assert said(entries) == [
        ("user", "prompt", "Why does the basket forget its items?\n[image]"),
        ("assistant", "reasoning", "The session cookie may expire."),
        ("assistant", "text", "I look at the cookie first."),
        ("assistant", "tool_call", "rg cookie src\ntimeout: 10"),
        ("tool", "tool_result", "src/session.py:12: max_age=60\n[image]"),
        ("assistant", "text", "The cookie lives for a minute only."),
        ("user", "tool_call", "pytest -q"),
        ("tool", "tool_result", "1 failed"),
        ("system", "summary", "Tried the cookie."),
        ("user", "prompt", "Then make it a day."),
        ("assistant", "note", "WebSocket error"),
        ("system", "summary", "The basket forgets because the cookie lives a minute."),
        ("system", "note", "ruff: all clean"),
        ("system", "note", "Plan mode is on"),
        ("system", "summary", "Short of it."),
        ("system", "summary", "The other way."),
    ]
    keys = [entry.key for entry in entries]
    assert keys[:5] == ["a0000003", "a0000004", "a0000004#1", "a0000004#2", "a0000005"]
    assert len(set(keys)) == len(keys)
    assert [entry.text for entry in entries if entry.error] == ["1 failed", "WebSocket error"]
    assert {entry.session_id for entry in entries} == {""}
    assert entries[3].call_id == entries[4].call_id == "call_1"
    assert entries[0].at == 1_779_271_202_000
    assert harvest.unknown == {}


def test_facts_and_parents(logs: dict[str, Log]) -> None:
    _, main = read(SOURCE, logs[SESSION], lines(logs[SESSION].path))
    assert main.facts == {
        SESSION: SessionFacts(title="Basket forgets", model="gpt-5.5", cwd="/home/ada/shop")
    }
    _, fork = read(SOURCE, logs[FORK], lines(logs[FORK].path))
    assert fork.facts[FORK].parent_session_id == SESSION
    _, old = read(SOURCE, logs[OLD], lines(logs[OLD].path))
    assert old.facts[OLD].parent_session_id == "019e44d4-0000-7000-8000-000000000009"
    _, omp = read(SOURCE, logs["omp1"], lines(logs["omp1"].path))
    assert omp.facts["omp1"].title == "Bot"


def test_a_copied_answer_has_one_usage_key(logs: dict[str, Log]) -> None:
    rows = [
        row
        for name in (SESSION, FORK)
        for row in read(SOURCE, logs[name], lines(logs[name].path))[1].usage
    ]
    once = {row.key: row for row in rows}
    assert len(rows) == 5
    assert sorted(once) == ["resp_1", "resp_2", "resp_3"]
    second = once["resp_2"]
    assert (second.input, second.output, second.cache_read, second.cache_write) == (
        533,
        53,
        2048,
        12,
    )
    assert (second.model, second.at) == ("gpt-5.5", 1_779_271_205_000)


def test_without_the_providers_id_a_copy_is_known_by_time_and_counts(logs: dict[str, Log]) -> None:
    first, second = (lines(logs[name].path) for name in (OLD, OLD))
    for value, _, _ in second:
        value["id"] = "new" if value["type"] != "session" else value["id"]
    keys = [[row.key for row in read(SOURCE, logs[OLD], fed)[1].usage] for fed in (first, second)]
    assert len(keys[0]) == 2
    assert keys[0] == keys[1]


def test_the_first_version_has_keys_without_ids(logs: dict[str, Log]) -> None:
    entries, harvest = read(SOURCE, logs[OLD], lines(logs[OLD].path))
    keys = [entry.key for entry in entries]
    assert keys[0] == "2026-05-20T10:00:02.000Z:user"
    assert keys[4] == "2026-05-20T10:00:04.000Z:toolResult:call_1"
    assert len(set(keys)) == len(keys)
    assert entries[-1].kind == "summary"
    assert harvest.facts[OLD].model == "gpt-5.5"


def test_topics_of_a_session_stay_apart_and_name_their_agent(logs: dict[str, Log]) -> None:
    for name in ("claw0", "claw1", "claw1-topic-7"):
        _, harvest = read(SOURCE, logs[name], lines(logs[name].path))
        assert list(harvest.facts) == [name]
        assert harvest.facts[name].agent == "main"


def test_the_header_knows_better_than_the_name_of_a_moved_file(logs: dict[str, Log]) -> None:
    log = Log(logs[SESSION].path, Stamp(0, 0, 0, 0), "copy-of-it", "p")
    entries, harvest = read(SOURCE, log, lines(log.path))
    assert {entry.session_id for entry in entries} == {SESSION}
    assert list(harvest.facts) == [SESSION]
    assert {segment.session_id for segment in harvest.segments} == {SESSION}


def test_segments(logs: dict[str, Log]) -> None:
    _, harvest = read(SOURCE, logs[SESSION], lines(logs[SESSION].path))
    (segment,) = harvest.segments
    assert segment.prompts == [
        "Why does the basket forget its items?\n[image]",
        "Then make it a day.",
    ]
    assert segment.tools == [("bash", "rg cookie src\ntimeout: 10"), ("bash", "pytest -q")]
    assert segment.project_dir == "shop"
    assert segment.model == "gpt-5.5"


def test_what_is_not_known_is_counted(logs: dict[str, Log]) -> None:
    blocks = [{"type": "hologram"}, {"type": "text", "text": "hi"}]
    fed = [
        (
            {"type": "message", "id": "x", "message": {"role": "assistant", "content": blocks}},
            b"",
            1,
        ),
        ({"type": "message", "id": "y", "message": {"role": "ghost"}}, b"", 2),
        ({"type": "dream", "id": "z"}, b"", 3),
        (None, b"", 4),
        ({"type": 5}, b"", 5),
    ]
    entries, harvest = read(SOURCE, logs[SESSION], fed)
    assert said(entries) == [("assistant", "text", "hi")]
    assert harvest.unknown == {
        "message/assistant/hologram": 1,
        "message/ghost": 1,
        "dream": 1,
        "(NoneType)": 1,
        "(no type)": 1,
    }


def test_a_value_nested_beyond_reason_is_only_hinted_at(logs: dict[str, Log]) -> None:
    blocks = [{"type": "toolCall", "name": "t", "arguments": nested()}]
    message = {"role": "assistant", "content": blocks}
    entries, _ = read(SOURCE, logs[SESSION], [({"type": "message", "message": message}, b"", 1)])
    assert [(entry.tool, len(entry.text) < 10) for entry in entries] == [("t", True)]


@given(st.data(), st.sampled_from([SESSION, FORK, OLD]))
def test_any_split_gives_the_same(data: st.DataObject, name: str) -> None:
    log = found_in(SOURCE, "pi")[name]
    check_any_split(SOURCE, log, lines(log.path), data)


@settings(max_examples=examples(200))
@given(st.data())
def test_any_json_is_read(data: st.DataObject) -> None:
    log = found_in(SOURCE, "pi")[SESSION]
    check_any_junk(SOURCE, log, lines(log.path), data)


def test_a_line_log_has_no_items(logs: dict[str, Log]) -> None:
    assert list(SOURCE.items(logs[SESSION])) == []
    assert list(SOURCE.records(logs[SESSION], SESSION)) == []


# ---------------------------------------------------------------------- real transcripts


def test_real_transcripts(shared_data: Path) -> None:
    for path in real_files(shared_data, "pi", "*.jsonl"):
        fed = lines(path)
        log = Log(str(path), Stamp(0, 0, 0, 0), path.stem)
        entries, harvest = read(SOURCE, log, fed)
        assert harvest.unknown == {}
        assert len({entry.key for entry in entries}) == len(entries)
        values = [value["message"] for value, _, _ in fed if value["type"] == "message"]
        assert sum(entry.kind == "prompt" for entry in entries) == sum(
            message["role"] == "user" for message in values
        )
        # All branches cost money: every answer counts.
        spent = [message["usage"] for message in values if message["role"] == "assistant"]
        assert sum(row.output for row in harvest.usage) == sum(u["output"] for u in spent)
        assert sum(row.cache_read for row in harvest.usage) == sum(u["cacheRead"] for u in spent)
        assert list(harvest.facts) == [fed[0][0]["id"]]
        assert len(harvest.segments) > 5
        assert read(SOURCE, log, fed, [1, len(fed) // 3, len(fed) // 2])[1] == harvest
