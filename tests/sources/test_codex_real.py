"""Codex: real rollouts, with the rows that another program of the contract made of them.

Equal for every row: session, number of the segment, folder, project, tool calls. Different, each
for one reason that is checked here:

- prompts: told twice there, cut to their last paragraph, with injected context among them;
- start: there a segment begins with the injected context, here with the person's words;
- end and number of messages: there every event counts, those that begin the next turn among them;
- tokens, branch and model: there never filled.
"""

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.sources.codex_support import Result, fed_from, log_of, read
from threadkeep.knowledge.records import Segment
from threadkeep.knowledge.segments import content_hash, tools_json

Row = dict[str, Any]


def present(folder: Path) -> Path:
    if not folder.exists():
        pytest.skip(f"the optional test data has no {folder.name}")
    return folder


@pytest.fixture(scope="module")
def harness(shared_data: Path) -> Path:
    return present(shared_data / "data" / "harness")


@pytest.fixture(scope="module")
def golden(shared_data: Path) -> Path:
    return present(shared_data / "data" / "knowledge" / "golden")


@pytest.fixture(scope="module")
def real(harness: Path) -> dict[str, Result]:
    paths = sorted(harness.glob("codex/**/rollout-*.jsonl"))
    return {path.name: read(log_of(path), fed_from(path)) for path in paths}


def pairs(golden: Path, real: dict[str, Result]) -> list[tuple[Row, Segment, Result]]:
    rows = json.loads((golden / "real_rows.json").read_text())["rows"]
    found = []
    for row in rows:
        if row["harness"] == "codex":
            result = real[Path(row["input"]).name]
            found.append((row, result.segments[row["session_id"], row["segment_index"]], result))
    return found


def test_everything_in_real_rollouts_is_known(real: dict[str, Result]) -> None:
    assert real
    assert not {name: one.unknown for name, one in real.items() if one.unknown}


def test_real_rollouts_have_what_a_conversation_has(real: dict[str, Result]) -> None:
    for name, one in real.items():
        kinds = Counter(entry.kind for entry in one.entries)
        assert kinds["prompt"], name
        assert kinds["text"] >= kinds["prompt"], name
        assert abs(kinds["tool_call"] - kinds["tool_result"]) <= 10, name
        assert len({entry.key for entry in one.entries}) == len(one.entries), name
        [facts] = one.facts.values()
        assert facts.model, name
        assert facts.cwd, name
        assert facts.version, name


def test_usage_is_what_the_rule_says(harness: Path, real: dict[str, Result]) -> None:
    expected = json.loads((harness / "expected_usage.json").read_text())["codex"]
    usage = {key: one for result in real.values() for key, one in result.usage.items()}.values()
    assert len(real) == expected["files"]
    assert {
        "input_tokens": sum(one.input + one.cache_read for one in usage),
        "cached_input_tokens": sum(one.cache_read for one in usage),
        "output_tokens": sum(one.output for one in usage),
        "reasoning_output_tokens": sum(one.reasoning for one in usage),
    }.items() <= expected.items()


def test_a_growing_log_gives_the_same_at_last(harness: Path) -> None:
    folders = [path for path in sorted(harness.glob("growth/codex/*/*")) if path.is_dir()]
    assert folders
    for folder in folders:
        looks = [len(fed_from(path)) for path in sorted(folder.glob("*.jsonl"))]
        last = max(folder.glob("*.jsonl"))
        assert read(log_of(last), fed_from(last), looks) == read(log_of(last), fed_from(last))


def test_tokens_of_segments_are_those_of_the_session(real: dict[str, Result]) -> None:
    for one in real.values():
        assert sum(segment.tokens for segment in one.segments.values()) == sum(
            usage.output for usage in one.usage.values()
        )


def test_segments_are_cut_where_the_contract_cuts(golden: Path, real: dict[str, Result]) -> None:
    rows = pairs(golden, real)
    assert len(rows) == 20
    for row, segment, _ in rows:
        tools = hashlib.sha256((tools_json(segment) or "").encode()).hexdigest()
        assert (segment.cwd, segment.project_dir) == (row["cwd"], row["project_dir"])
        assert len(segment.tools or ()) == row["tool_calls_len"]
        assert tools == row["tool_calls_json_sha256"]
        assert segment.is_subagent is bool(row["is_subagent"])
        assert segment.parent_session_id == row["parent_session_id"]
    inputs = {Path(row["input"]).name for row, _, _ in rows}
    assert sum(len(real[name].segments) for name in inputs) == len(rows)


def test_prompts_differ_for_they_come_once(golden: Path, real: dict[str, Result]) -> None:
    for row, segment, result in pairs(golden, real):
        injected = [
            entry
            for entry in result.entries
            if (entry.role, entry.kind) == ("user", "note")
            and row["start_time"] <= (entry.at or 0) <= row["end_time"]
        ]
        assert row["user_prompts_len"] == 2 * len(segment.prompts or ()) + len(injected)


def test_start_and_end_differ_for_only_the_conversation_counts(
    golden: Path, real: dict[str, Result]
) -> None:
    for row, segment, result in pairs(golden, real):
        between = [
            entry
            for entry in result.entries
            if row["start_time"] <= (entry.at or 0) < segment.start
            or segment.end < (entry.at or 0) <= row["end_time"]
        ]
        assert {entry.kind for entry in between} <= {"note"}
        assert row["start_time"] <= segment.start <= segment.end <= row["end_time"]
        assert segment.messages < row["message_count"]


def test_what_was_never_filled_is(golden: Path, real: dict[str, Result]) -> None:
    for row, segment, _ in pairs(golden, real):
        assert (row["token_count"], row["git_branch"], row["model"]) == (0, None, "")
        assert segment.tokens > 0
        assert segment.git_branch
        assert segment.model.startswith("gpt-")


def test_the_small_golden_logs(golden: Path) -> None:
    rows = json.loads((golden / "golden_rows.json").read_text())["agentic_sessions"]
    segments = {}
    for path in sorted((golden / "home").glob(".codex/**/rollout-*.jsonl")):
        segments.update(read(log_of(path), fed_from(path)).segments)
    mine = {(row["session_id"], row["segment_index"]) for row in rows if row["harness"] == "codex"}
    assert set(segments) == mine
    for row in rows:
        if row["harness"] != "codex":
            continue
        segment = segments[row["session_id"], row["segment_index"]]
        cwd = row["cwd"].replace("$HOME", str(golden / "home"))
        assert (segment.start, segment.end) == (row["start_time"], row["end_time"])
        assert (segment.cwd, segment.project_dir) == (cwd, row["project_dir"])
        assert tools_json(segment) == row["tool_calls_json"]
        prompts = json.loads(row["user_prompts_json"])
        if len(prompts) == 1:
            summary = row["summary_text"].replace("$HOME", str(golden / "home"))
            assert (segment.summary, segment.prompts) == (summary, prompts)
            assert (segment.messages, content_hash(segment)) == (
                row["message_count"],
                row["content_hash"],
            )
        else:  # told twice, and cut to its last paragraph
            assert segment.prompts == ["Context blob\n\nPlease add tests"]
            assert segment.messages == row["message_count"] - 1
