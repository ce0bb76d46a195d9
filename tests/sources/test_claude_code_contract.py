"""Claude Code's slices and tool events: the contract's rows, and the rules behind them."""

import hashlib
import json
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import pytest
from hypothesis import given, strategies as st

from threadkeep.base.json import decode_line
from threadkeep.errors import Invalid
from threadkeep.knowledge.records import Segment, ToolRun, Usage
from threadkeep.knowledge.segments import content_hash, prompts_json, tools_json
from threadkeep.sources.claude.entries import command_of, session_uuid, summary_of
from threadkeep.sources.claude.transcripts import SOURCE
from threadkeep.sources.records import Harvest, Log, Stamp, UserHome

LOG = Log("/p/s.jsonl", Stamp(1, 5_000_000, 1, 1), "s", "p")
START = "2026-05-01T10:00:00.000Z"
START_MS = 1_777_629_600_000


def values(path: Path) -> Iterator[tuple[Any, bytes, int]]:
    # The one secret in the data; what is masked and how is decided elsewhere.
    masked = re.sub(rb"AKIA[0-9A-Z]{16}", b"[REDACTED]", path.read_bytes())
    for number, line in enumerate(masked.split(b"\n"), 1):
        try:
            found = decode_line(line)
        except Invalid:
            continue
        for value in found:
            yield value, line, number


def harvest_of(log: Log) -> Harvest:
    parser = SOURCE.parser(log, None)
    for fed in values(Path(log.path)):
        parser.feed(*fed)
    return parser.harvest()


def harvest(records: Sequence[Any], log: Log = LOG) -> Harvest:
    parser = SOURCE.parser(log, None)
    for number, record in enumerate(records, 1):
        parser.feed(record, b"", number)
    return parser.harvest()


def at(seconds: float) -> str:
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"2026-05-01T{10 + int(hours):02d}:{int(minutes):02d}:{rest:06.3f}Z"


def user(content: Any, when: str | None = START, **more: Any) -> dict[str, Any]:
    return {"type": "user", "timestamp": when, "message": {"content": content}, **more}


def assistant(*blocks: Any, when: str | None = START, **more: Any) -> dict[str, Any]:
    message = {"content": list(blocks), **more.pop("message", {})}
    return {"type": "assistant", "timestamp": when, "message": message, **more}


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def use(call_id: str, name: str = "Bash", **given_: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given_}


def result(call_id: str, content: Any = None, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


# -- rows that other programs of the contract wrote ------------------------------------------------


def row(segment: Segment) -> dict[str, object]:
    return {
        "session_id": segment.session_id,
        "segment_index": segment.index,
        "message_count": segment.messages,
        "start_time": segment.start,
        "end_time": segment.end,
        "cwd": segment.cwd,
        "project_dir": segment.project_dir,
        "git_branch": segment.git_branch,
        "is_subagent": int(segment.is_subagent),
        "parent_session_id": segment.parent_session_id,
        "token_count": segment.tokens,
        "content_hash": content_hash(segment),
        "model": segment.model,
        "agent": segment.agent,
        "slug": segment.slug,
        "title": segment.title,
        "snapshot_diffs_json": segment.diffs_json,
    }


def texts(segment: Segment) -> dict[str, str]:
    return {
        "tool_calls_json": tools_json(segment) or "",
        "user_prompts_json": prompts_json(segment) or "",
        "summary_text": segment.summary,
    }


def test_the_golden_rows_of_made_up_sessions(shared_data: Path) -> None:
    golden = shared_data / "data" / "knowledge" / "golden"
    rows = json.loads((golden / "golden_rows.json").read_text())
    wanted = [row_ for row_ in rows["agentic_sessions"] if row_["harness"] == "claude-code"]
    assert len(wanted) == 4
    found = [
        {**row(segment), **texts(segment)}
        for log in sorted(SOURCE.find(UserHome(golden / "home")), key=lambda log: log.session_id)
        for segment in harvest_of(log).segments
    ]
    assert found == [{key: row_[key] for key in found[0]} for row_ in wanted]


def event(run: ToolRun) -> dict[str, object]:
    return {
        "timestamp": run.at,
        "command": run.command,
        "stdout": run.output,
        "stdout_truncated": None if run.output is None else int(run.truncated),
        "exit_code": run.exit_code,
        "duration_ms": run.duration_ms,
        "cwd": run.cwd,
        "git_branch": run.git_branch,
        "envelope_id": str(uuid5(NAMESPACE_URL, run.call_id)),
        "tool_name": run.tool,
    }


def test_the_golden_events_of_its_tools(shared_data: Path) -> None:
    golden = shared_data / "data" / "knowledge" / "golden"
    rows = json.loads((golden / "golden_rows.json").read_text())
    wanted = {e["envelope_id"]: e for e in rows["events"] if e["source_kind"] == "claude-tool"}
    logs = SOURCE.find(UserHome(golden / "home"))
    runs = [run for log in logs for run in harvest_of(log).tools]
    found = {str(uuid5(NAMESPACE_URL, run.call_id)): event(run) for run in runs}
    assert len(found) == len(runs) == 4
    assert found == {name: {key: e[key] for key in found[name]} for name, e in wanted.items()}
    assert {run.session_id for run in runs} == {rows["sessions"][0]["terminal"]}


def test_the_rows_of_real_sessions(shared_data: Path, tmp_path: Path) -> None:
    """46 real transcripts, 89 rows: all columns, the long ones by their hashes."""
    data = shared_data / "data"
    golden = json.loads((data / "knowledge" / "golden" / "real_rows.json").read_text())
    wanted = defaultdict(list)
    for row_ in golden["rows"]:
        if row_["harness"] == "claude-code":
            wanted[row_["input"]].append(row_)
    for given_ in golden["inputs"]:
        if given_["harness"] == "claude-code":
            place = tmp_path / given_["home_path"]
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(data / "harness" / given_["sample"], place)
    compared = 0
    for log in SOURCE.find(UserHome(tmp_path)):
        found = harvest_of(log)
        assert found.unknown == {}
        rows = sorted(
            wanted[str(Path(log.path).relative_to(tmp_path))],
            key=lambda row_: row_["segment_index"],
        )
        assert [hashed(segment) for segment in found.segments] == [
            {key: row_[key] for key in hashed(segment)}
            for segment, row_ in zip(found.segments, rows, strict=True)
        ]
        compared += len(rows)
    assert compared == sum(map(len, wanted.values())) == 89


def hashed(segment: Segment) -> dict[str, object]:
    columns = row(segment)
    del columns["snapshot_diffs_json"]
    for name, value in texts(segment).items():
        columns[f"{name}_sha256"] = hashlib.sha256(value.encode()).hexdigest()
    return columns


def test_what_all_real_sessions_cost(shared_data: Path) -> None:
    harness = shared_data / "data" / "harness"
    expected = json.loads((harness / "expected_usage.json").read_text())["claude"]
    best: dict[str, Usage] = {}
    for path in sorted((harness / "claude").rglob("*.jsonl")):
        for usage in harvest_of(Log(str(path), Stamp(0, 0, 0, 0), path.stem)).usage:
            known = best.get(usage.key)
            if known is None or (usage.output, usage.final) > (known.output, known.final):
                best[usage.key] = usage
    spent = best.values()
    assert sum(usage.input for usage in spent) == expected["input_tokens"]
    assert sum(usage.output for usage in spent) == expected["output_tokens"]
    assert sum(usage.cache_write for usage in spent) == expected["cache_creation_input_tokens"]
    assert sum(usage.cache_read for usage in spent) == expected["cache_read_input_tokens"]


def test_a_growing_session_is_read_on_from_where_it_was(shared_data: Path) -> None:
    """Each snapshot begins with the one before: going on must give what a whole reading gives."""
    growth = shared_data / "data" / "harness" / "growth" / "claude"
    for folder in sorted(path for path in growth.glob("*/*") if path.is_dir()):
        state, seen, rows = None, 0, {}
        for snapshot in sorted(folder.iterdir()):
            log = Log(str(snapshot), Stamp(1, 1, 1, 1), folder.name, "p")
            parser, fed = SOURCE.parser(log, state), list(values(snapshot))
            for one_fed in fed[seen:]:
                parser.feed(*one_fed)
            rows.update({segment.index: segment for segment in parser.harvest().segments})
            state, seen = parser.state(), len(fed)
            assert list(rows.values()) == harvest_of(log).segments


# -- the rules -------------------------------------------------------------------------------------


def test_nothing_counts_before_somebody_speaks_and_then_almost_everything_does() -> None:
    quiet = ["summary", "mode", "attachment"]
    never = ["file-history-snapshot", "progress", "queue-operation", "last-prompt"]
    records: list[Any] = [{"type": kind} for kind in (*quiet, *never)]
    records += [{"type": "system"}, user("hi"), *records, {"type": "never seen"}, {}, [], "text"]
    [segment] = harvest(records).segments
    assert segment.messages == 2 + len(quiet) + 4


@pytest.mark.parametrize("gap, slices", [(300.0, 1), (300.001, 2)])
def test_a_slice_ends_after_five_minutes_without_the_user(gap: float, slices: int) -> None:
    records = [user("one"), assistant(text("x" * 30), when=at(200)), user("two", at(gap))]
    assert len(harvest(records).segments) == slices


def test_results_of_tools_keep_a_slice_going_and_empty_ones_never_end() -> None:
    busy = [user("go"), *(user([result("t")], at(290 * n)) for n in range(1, 6))]
    assert len(harvest(busy).segments) == 1
    nothing = [user("<tag>"), user([result("t")], at(1000)), user("words", at(2000))]
    [segment] = harvest(nothing).segments
    assert (segment.index, segment.start, segment.messages) == (0, START_MS, 3)
    assert harvest(nothing[:2]).segments == []


@pytest.mark.parametrize("letter, slices", [("x", 1), ("é", 2)])
def test_a_slice_ends_after_twelve_thousand_bytes(letter: str, slices: int) -> None:
    full = [assistant(text(letter * 400)) for _ in range(39)]
    records = [user("a"), *full, assistant(text("y" * 299)), user("b", at(1))]
    assert 1 + 39 * 300 + 299 == 12_000
    found = harvest(records).segments
    prompts = [len(segment.prompts or []) for segment in found]
    assert prompts == ([2] if slices == 1 else [1, 1])
    assert len(harvest([*records[:-1], assistant(text("z" * 21)), records[-1]]).segments) == 2


def test_records_without_a_time_neither_end_a_slice_nor_move_it() -> None:
    records = [user("one", None), user("two"), user("three", "no time"), user("four", None)]
    [segment] = harvest(records).segments
    assert (segment.start, segment.end, segment.messages) == (START_MS, START_MS, 4)
    [segment] = harvest([user("one", None)]).segments
    assert (segment.start, segment.end) == (5, 5)
    assert "Time:" not in segment.summary
    [segment] = harvest([user("one", at(9)), user("two", START)]).segments
    assert (segment.start, segment.end) == (START_MS + 9000, START_MS + 9000)


def test_the_folder_follows_the_records_and_the_branch_stays() -> None:
    records = [
        user("one", cwd="/a", gitBranch="main"),
        {"type": "mode", "cwd": "/b", "gitBranch": "other"},
        user("two", at(400), gitBranch=None),
        user("three", at(401), cwd=["no text"], gitBranch="late"),
        user("four", at(900), gitBranch=""),
    ]
    found = [(segment.cwd, segment.git_branch) for segment in harvest(records).segments]
    assert found == [("/b", "main"), ("/b", "main"), ("/b", "")]
    assert "branch: )" in harvest(records).segments[2].summary
    assert "branch: unknown)" in harvest([user("one")]).segments[0].summary


def test_prompts_and_answers_are_trimmed_chosen_and_cut() -> None:
    blocks = [text(" <tag> "), text(" one "), {"type": "image"}, text("two"), text("\u3000")]
    records = [
        user("\u3000 " + "p" * 600),
        user(blocks),
        user("\x1cseparator"),
        {"type": "user", "content": "old form"},
        {"type": "user", "message": "bare", "timestamp": START},
        {"type": "user", "message": ["no", "text"]},
        assistant(text("é" * 10), text("é" * 10 + "!"), text(" " + "ü" * 400 + " ")),
    ]
    [segment] = harvest(records).segments
    assert segment.prompts == ["p" * 500, "one\ntwo", "\x1cseparator", "old form", "bare"]
    assert segment.texts == ["é" * 10 + "!", "ü" * 300]


def test_tokens_are_output_of_the_agent_and_input_of_the_user() -> None:
    usage = {"usage": {"output_tokens": 7, "input_tokens": 100}}
    asked = user("x") | {"message": {"content": "x", **usage}}
    broken = assistant(message={"usage": {"output_tokens": "7"}})
    [segment] = harvest([asked, assistant(message=usage), broken]).segments
    assert segment.tokens == 107


@pytest.mark.parametrize(
    "name, given_, summary, command",
    [
        ("Bash", {"command": "x" * 300}, "x" * 200, "x" * 300),
        ("Bash", {}, "", "bash"),
        ("Read", {"file_path": "/a"}, "/a", "read /a"),
        ("Edit", {"file_path": 3}, "", "edit <unknown>"),
        ("Write", None, "", "write <unknown>"),
        ("Grep", {"pattern": "{}", "path": "src"}, "{} in src", "grep '{}' src"),
        ("Grep", {"pattern": "p", "path": ""}, "p", "grep 'p' "),
        ("Grep", {}, "", "grep '*' ."),
        ("Glob", {"pattern": "*.py"}, "*.py", "glob '*.py'"),
        ("Agent", {"description": "d" * 150}, "d" * 100, "agent: " + "d" * 150),
        ("Agent", {}, "", "agent: agent task"),
        ("TaskCreate", {"subject": "s"}, "subject=s", "task: s"),
        ("TaskUpdate", {"taskId": "1", "status": "done"}, "status=done", "task-update: 1 done"),
        ("mcp__x", {"b": 1, "B": "v" * 90}, "B=" + "v" * 80, "mcp__x"),
        (
            "mcp__x",
            {"a": {"z": [1.5, None], "é": "ü\n"}},
            'a={"z":[1.5,null],"é":"ü\\n"}',
            "mcp__x",
        ),
        ("mcp__x", {"a": 1e16}, "a=1e16", "mcp__x"),
        ("mcp__x", {"a": True}, "a=true", "mcp__x"),
        ("mcp__x", {}, "", "mcp__x"),
        ("mcp__x", [1], "", "mcp__x"),
    ],
)
def test_how_a_call_is_summed_up(name: str, given_: Any, summary: str, command: str) -> None:
    assert (summary_of(name, given_), command_of(name, given_)) == (summary, command)


# -- tool events -----------------------------------------------------------------------------------


def test_a_call_is_given_at_once_and_again_with_its_result() -> None:
    asked = assistant(use("t1", command="ls"), use("", command="no id"), sessionId="not-a-uuid")
    parser = SOURCE.parser(LOG, None)
    parser.feed(asked, b"", 1)
    [run] = parser.harvest().tools
    assert (run.exit_code, run.duration_ms, run.output, run.truncated) == (0, 0, None, False)
    assert (run.session_id, run.cwd, run.git_branch) == (session_uuid("not-a-uuid"), "", None)
    parser = SOURCE.parser(LOG, parser.state())
    assert parser.harvest().tools == []
    answer = [result("t1", "done", is_error=True), result("t1", "again"), result("t9", "whose?")]
    parser.feed(user(answer, at(2.5)), b"", 2)
    [run] = parser.harvest().tools
    assert (run.at, run.exit_code, run.duration_ms, run.output) == (START_MS, 1, 2500, "done")
    assert parser.harvest().tools == []


@pytest.mark.parametrize(
    "content, output, truncated",
    [
        ("x" * 4096, "x" * 4096, False),
        ("x" * 4097, "x" * 4096, True),
        ("é" * 2048, "é" * 2048, False),
        ("x" + "é" * 2048, "x" + "é" * 2047, True),
        ([text("a"), {"type": "image"}, text("b"), 3], "a\nb", False),
        ([{"type": "image"}], None, False),
        (None, None, False),
        ("", "", False),
    ],
)
def test_an_output_is_cut_to_bytes(content: Any, output: str | None, truncated: bool) -> None:  # noqa: FBT001
    [run] = harvest([assistant(use("t", command="x")), user([result("t", content)])]).tools
    assert (run.output, run.truncated) == (output, truncated)


@given(st.lists(st.tuples(st.sampled_from("aé€😀"), st.integers(1, 2100)), min_size=1, max_size=6))
def test_a_cut_output_is_the_longest_start_that_fits(runs: list[tuple[str, int]]) -> None:
    content = "".join(letter * times for letter, times in runs)
    [run] = harvest([assistant(use("t")), user([result("t", content)])]).tools
    assert run.output is not None
    assert content.startswith(run.output)
    assert len(run.output.encode()) <= 4096
    rest = content[len(run.output) :]
    assert run.truncated == bool(rest)
    assert not rest or len((run.output + rest[0]).encode()) > 4096


def test_times_that_are_missing_or_run_backwards() -> None:
    records = [user("x", at(5)), assistant(use("t"), when=None), user([result("t", "o")], START)]
    [run] = harvest(records).tools
    assert (run.at, run.duration_ms) == (START_MS + 5000, 0)
    [run] = harvest([assistant(use("t"), when="soon")]).tools
    assert run.at == 5


def test_only_the_newest_thousand_calls_wait_for_a_result() -> None:
    parser = SOURCE.parser(LOG, None)
    for number in range(1200):
        parser.feed(assistant(use(f"t{number}")), b"", number)
    assert len(parser.harvest().tools) == 1200
    parser = SOURCE.parser(LOG, parser.state())
    for call_id in ("t0", "t199", "t200", "t1199"):
        parser.feed(user([result(call_id, "late")]), b"", 2000)
    assert [run.call_id for run in parser.harvest().tools] == ["t200", "t1199"]


@pytest.mark.parametrize(
    "name",
    [
        "0f1e2d3c-0000-4000-8000-00000000000a",
        "0F1E2D3C-0000-4000-8000-00000000000A",
        "0f1e2d3c00004000800000000000000a",
        "{0f1e2d3c-0000-4000-8000-00000000000a}",
        "urn:uuid:0f1e2d3c-0000-4000-8000-00000000000a",
    ],
)
def test_a_session_that_is_a_uuid_keeps_it(name: str) -> None:
    assert session_uuid(name) == "0f1e2d3c-0000-4000-8000-00000000000a"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "plan",
        "0f1e2d3c-00004000-8000-00000000000a",
        "0-f1e2d3c00004000800000000000000a",
        "uuid:0f1e2d3c-0000-4000-8000-00000000000a",
        "}0f1e2d3c-0000-4000-8000-00000000000a{",
    ],
)
def test_a_session_of_another_name_gets_a_uuid_of_its_own(name: str) -> None:
    assert session_uuid(name) == str(uuid5(NAMESPACE_URL, name))
