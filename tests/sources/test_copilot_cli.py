"""GitHub Copilot CLI's events: what they say, what they cost, and that no line stops the reader.

The helpers are used by the tests of the other small sources, too.
"""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.lengths import examples
from tests.sources.sample_support import look
from threadkeep.base.json import decode_line
from threadkeep.knowledge.records import Entry, Segment, SessionFacts, Usage
from threadkeep.sources.copilot_cli import SOURCE
from threadkeep.sources.records import Harvest, Log, Source, Stamp, UserHome

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "sources"
SESSION = "0c000000-0000-4000-8000-000000000001"
Fed = tuple[Any, bytes, int]

# ---------------------------------------------------------------------- helpers

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


def found_in(source: Source, folder: str) -> dict[str, Log]:
    return {log.session_id: log for log in source.find(UserHome(FIXTURES / folder))}


def lines(path: str | Path) -> list[Fed]:
    raw = Path(path).read_bytes().split(b"\n")
    return [(value, line, n) for n, line in enumerate(raw, 1) for value in decode_line(line)]


def document(source: Source, log: Log, item: str) -> list[Fed]:
    """The records of one session, as the capture feeds them."""
    found = list(source.records(log, item))
    assert len({key for key, _ in found}) == len(found)
    assert not any(b"\n" in line for _, line in found)
    return [(decode_line(line)[0], line, n) for n, (_, line) in enumerate(found, 1)]


def read(
    source: Source, log: Log, fed: Sequence[Fed], cuts: Sequence[int] = ()
) -> tuple[list[Entry], Harvest]:
    """Feed everything, with a new parser after each cut, and merge what came as a store does."""
    parser = source.parser(log, None)
    entries: list[Entry] = []
    harvests: list[Harvest] = []
    for place, one in enumerate(fed):
        if place in cuts:
            harvests.append(parser.harvest())
            parser = source.parser(log, parser.state())
        entries += parser.feed(*one)
    harvests.append(parser.harvest())
    assert not parser.harvest().usage  # asking twice changes nothing
    assert parser.harvest().segments[-1:] == harvests[-1].segments[-1:]
    return entries, _merged(harvests)


def _merged(harvests: list[Harvest]) -> Harvest:
    facts: dict[str, SessionFacts] = {}
    usage: dict[str, Usage] = {}
    segments: dict[tuple[str, int], Segment] = {}
    unknown: dict[str, int] = {}
    for harvest in harvests:
        facts.update(harvest.facts)
        segments.update({(each.session_id, each.index): each for each in harvest.segments})
        for row in harvest.usage:
            if row.key not in usage or usage[row.key].output <= row.output:
                usage[row.key] = row
        for name, number in harvest.unknown.items():
            unknown[name] = unknown.get(name, 0) + number
    return Harvest(facts, list(usage.values()), list(segments.values()), [], unknown)


def said(entries: Sequence[Entry]) -> list[tuple[str, str, str]]:
    return [(entry.role, entry.kind, entry.text) for entry in entries]


def spoiled(value: Any, junk: Any, choose: Any) -> Any:
    """Put junk somewhere into a record."""
    if isinstance(value, dict) and value and choose(0, 3):
        key = sorted(value)[choose(0, len(value) - 1)]
        return {**value, key: spoiled(value[key], junk, choose)}
    if isinstance(value, list) and value and choose(0, 3):
        place = choose(0, len(value) - 1)
        return [*value[:place], spoiled(value[place], junk, choose), *value[place + 1 :]]
    return junk


def check_any_split(source: Source, log: Log, fed: list[Fed], data: st.DataObject) -> None:
    """However the lines are cut into batches, the result is that of one pass."""
    cuts = data.draw(st.lists(st.integers(0, len(fed)), max_size=6))
    assert read(source, log, fed, cuts) == read(source, log, fed)


def check_any_junk(source: Source, log: Log, fed: list[Fed], data: st.DataObject) -> None:
    """Whatever stands in a record, it is read without an error, alone as in its log."""
    record = data.draw(st.sampled_from(fed))[0]
    junk = data.draw(json_values)
    bad = data.draw(st.just(junk) | st.builds(lambda: spoiled(record, junk, _chooser(data))))
    parser = source.parser(log, None)
    for one in fed[:2]:
        parser.feed(*one)
    entries = parser.feed(bad, b"", 7)
    alone = source.entries(bad, b"", 7)
    assert said(entries) == said(alone)
    assert [entry.key for entry in entries] == [entry.key for entry in alone]
    harvest = parser.harvest()
    assert all(len(name) <= 80 for name in harvest.unknown)
    source.parser(log, parser.state()).harvest()


def _chooser(data: st.DataObject) -> Any:
    return lambda low, high: data.draw(st.integers(low, high))


def nested() -> Any:
    """A value deeper than anything can be written out."""
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    return {"a": deep}


def check_odd_folders(source: Source, folder: Path, home: Path) -> None:
    """Odd names, loops and closed folders are passed over, and the order is that of the paths."""
    folder.mkdir(parents=True)
    (folder / "loop").symlink_to(folder)
    (folder / "gone.jsonl").symlink_to(folder / "nowhere")
    (folder / "folder.jsonl").mkdir()
    (folder / "line\nfeed.jsonl").write_bytes(b"")
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.jsonl")).write_bytes(b"")
    closed = folder / "closed"
    closed.mkdir(mode=0)
    logs = list(source.find(UserHome(home)))
    closed.chmod(0o700)
    assert [log.path for log in logs] == sorted(log.path for log in logs)
    assert {log.session_id for log in logs} == {"line\nfeed", "�"}


# ---------------------------------------------------------------------- finding


def test_find_gives_folders_and_the_older_flat_files() -> None:
    logs = found_in(SOURCE, "copilot-cli")
    assert sorted(logs) == [SESSION, "0c000000-0000-4000-8000-000000000002"]
    log = logs[SESSION]
    assert log.path.endswith("/events.jsonl")
    assert log.stamp.size == Path(log.path).stat().st_size


def test_find_follows_the_variable_of_the_program(tmp_path: Path) -> None:
    user = UserHome(tmp_path, {"COPILOT_HOME": str(FIXTURES / "copilot-cli" / ".copilot")})
    assert len(list(SOURCE.find(user))) == 2
    assert tmp_path / ".copilot" / "session-state" in SOURCE.roots(user)


def test_find_survives_odd_folders(tmp_path: Path) -> None:
    check_odd_folders(SOURCE, tmp_path / ".copilot" / "session-state", tmp_path)


# ---------------------------------------------------------------------- reading


@pytest.fixture
def log() -> Log:
    return found_in(SOURCE, "copilot-cli")[SESSION]


def test_what_was_said_and_done(log: Log) -> None:
    entries, _ = read(SOURCE, log, lines(log.path))
    assert said(entries) == [
        ("system", "note", "Folder is trusted."),
        ("system", "note", "You are the agent."),
        ("user", "prompt", "Why does the basket forget?"),
        ("assistant", "reasoning", "Cookie?"),
        ("assistant", "text", "I look."),
        ("assistant", "tool_call", "rg cookie\ndescription: Search"),
        ("assistant", "tool_call", "prompt: Read the tests"),
        ("tool", "tool_result", "src/session.py:12"),
        ("system", "note", "Reads code"),
        ("user", "note", "Read the tests"),
        ("assistant", "text", "Read them."),
        ("tool", "tool_result", "no tests"),
        ("user", "note", "Skill text"),
        ("system", "note", "How to read PDFs"),
        ("assistant", "text", "It lives a minute."),
        ("system", "note", "user initiated"),
        ("user", "prompt", "Make it a day."),
        ("system", "summary", "The cookie was short."),
        ("assistant", "text", "Done."),
        ("user", "tool_call", "ls"),
        ("system", "note", "Shell completed"),
        ("system", "note", "Slow down"),
        ("system", "note", "The cookie lives a day."),
    ]
    calls = [entry for entry in entries if entry.kind == "tool_call"]
    assert [(call.key, call.tool, call.call_id) for call in calls] == [
        ("ev08#2", "bash", "call1"),
        ("ev08#3", "task", "call2"),
        ("ev30", "bash", "call3"),
    ]
    assert [entry.text for entry in entries if entry.error] == ["no tests", "Slow down"]
    assert len({entry.key for entry in entries}) == len(entries)


def test_facts_follow_the_session(log: Log) -> None:
    fed = lines(log.path)
    _, early = read(SOURCE, log, fed[:18])
    assert early.facts[SESSION].model == "gpt-mini"  # not the subagent's
    _, harvest = read(SOURCE, log, fed)
    assert harvest.facts == {
        SESSION: SessionFacts(
            title="Basket forgets",
            model="gpt-big",
            cwd="/home/ada/shop",
            git_branch="basket-2",
            version="1.0.68",
        )
    }
    assert harvest.unknown == {"session.brand_new": 1}


def test_sums_of_a_run_count_once_beside_the_answers(log: Log) -> None:
    _, harvest = read(SOURCE, log, lines(log.path))
    rows = {row.key: row for row in harvest.usage}
    assert {key: row.output for key, row in rows.items() if key.startswith("msg")} == {
        "msg1": 100,
        "msg2": 30,
        "msg3": 20,
        "msg4": 50,
    }
    first = rows[f"{SESSION}:gpt-mini:0"]
    # 130 went out, 120 of them in answers; 5,000 went in, 1,500 of them through the cache.
    assert (first.input, first.output, first.cache_read, first.cache_write) == (3500, 10, 1000, 500)
    assert first.reasoning == 40
    assert rows[f"{SESSION}:gpt-big:1"].input == 5000
    assert f"{SESSION}:gpt-mini:1" not in rows  # it did nothing in the second run
    assert sum(row.output for row in rows.values()) == 130 + 30 + 50
    assert sum(row.input + row.cache_read + row.cache_write for row in rows.values()) == 12_800
    assert {row.session_id for row in rows.values()} == {SESSION}


def ended(key: str, given: int, output: int) -> dict[str, Any]:
    usage = {"inputTokens": given, "outputTokens": output}
    return {
        "type": "session.shutdown",
        "id": key,
        "data": {"modelMetrics": {"m": {"usage": usage}}},
    }


def test_sums_that_were_begun_anew_count_whole(log: Log) -> None:
    records = [ended("a", 100, 10), ended("b", 150, 12), ended("c", 30, 3)]
    _, harvest = read(SOURCE, log, [(record, b"", n) for n, record in enumerate(records)])
    assert [(row.input, row.output) for row in harvest.usage] == [(100, 10), (50, 2), (30, 3)]


def test_segments_are_cut_at_the_pause(log: Log) -> None:
    _, harvest = read(SOURCE, log, lines(log.path))
    first, second = harvest.segments
    assert first.prompts == ["Why does the basket forget?"]
    assert first.tools == [
        ("bash", "rg cookie\ndescription: Search"),
        ("task", "prompt: Read the tests"),
    ]
    assert (first.git_branch, second.git_branch) == ("basket", "basket-2")
    assert first.project_dir == "shop"
    assert first.summary.startswith("Copilot CLI session (project: /home/ada/shop)")
    assert second.prompts == ["Make it a day."]


@given(st.data())
def test_any_split_gives_the_same(data: st.DataObject) -> None:
    log = found_in(SOURCE, "copilot-cli")[SESSION]
    check_any_split(SOURCE, log, lines(log.path), data)


@settings(max_examples=examples(200))
@given(st.data())
def test_any_json_is_read(data: st.DataObject) -> None:
    log = found_in(SOURCE, "copilot-cli")[SESSION]
    check_any_junk(SOURCE, log, lines(log.path), data)


def test_a_value_nested_beyond_reason_is_only_hinted_at(log: Log) -> None:
    data = {"toolRequests": [{"name": "t", "arguments": nested()}]}
    entries, _ = read(SOURCE, log, [({"type": "assistant.message", "data": data}, b"", 1)])
    assert [(entry.tool, len(entry.text) < 10) for entry in entries] == [("t", True)]


def test_unknown_names_are_bounded(log: Log) -> None:
    parser = SOURCE.parser(log, None)
    for number in range(300):
        parser.feed({"type": f"{number}." + "x" * 100}, b"", number)
    parser.feed([1], b"", 1)
    unknown = parser.harvest().unknown
    assert len(unknown) == 200
    assert {len(name) for name in unknown} == {80}


def test_a_line_log_has_no_items(log: Log) -> None:
    assert list(SOURCE.items(log)) == []
    assert list(SOURCE.records(log, SESSION)) == []


# ---------------------------------------------------------------------- real transcripts


def real_files(shared_data: Path, folder: str, pattern: str) -> Iterator[Path]:
    found = sorted((shared_data / "data" / "harness" / folder).rglob(pattern))
    if not found:
        pytest.skip(f"the optional test data has no {folder} transcripts")
    yield from found


def test_real_transcripts(shared_data: Path) -> None:
    for path in real_files(shared_data, "copilot", "events.jsonl"):
        log = Log(str(path), Stamp(0, 0, 0, 0), path.parent.name)
        entries, harvest = read(SOURCE, log, lines(path))
        assert harvest.unknown == {}
        assert sum(entry.kind == "prompt" for entry in entries) == 1
        assert harvest.facts[path.parent.name].cwd
        assert len(harvest.segments) == 1
        (metrics,) = (
            value["data"]["modelMetrics"]
            for value, _, _ in lines(path)[-3:]
            if "modelMetrics" in value["data"]
        )
        sums = [model["usage"] for model in metrics.values()]
        assert sum(row.output for row in harvest.usage) == sum(s["outputTokens"] for s in sums)
        assert sum(row.input for row in harvest.usage) == sum(s["inputTokens"] for s in sums)


# ---------------------------------------------------------------------- records of single calls


def call(number: int, given: int, output: int) -> dict[str, Any]:
    """The record of one call, as version 1.0.102 writes it."""
    usage = {
        "model": "m-1",
        "inputTokens": given,
        "outputTokens": output,
        "cacheReadTokens": 30,
        "cacheWriteTokens": 5,
        "reasoningTokens": 2,
        "apiCallId": f"c{number}",
        "accounting": {"usageId": f"u{number}"},
    }
    when = f"2026-11-01T10:00:0{number}.000Z"
    return {
        "type": "session.usage_record",
        "id": f"e{number}",
        "timestamp": when,
        "data": {"usage": usage},
    }


def answer(number: int, **data: Any) -> dict[str, Any]:
    about = {
        "messageId": f"m{number}",
        "model": "m-1",
        "content": "Yes.",
        "apiCallId": f"c{number}",
    }
    return {"type": "assistant.message", "id": f"a{number}", "data": {**about, **data}}


def summed(**sums: int) -> dict[str, Any]:
    return {
        "type": "session.shutdown",
        "id": "end",
        "data": {"modelMetrics": {"m-1": {"usage": sums}}},
    }


def spent(*records: dict[str, Any]) -> tuple[int, int, int, int]:
    log = Log("/x/events.jsonl", Stamp(0, 0, 0, 0), "s")
    fed = [(record, b"", number) for number, record in enumerate(records)]
    _, harvest = read(SOURCE, log, fed)
    assert harvest.unknown == {}
    rows = harvest.usage
    return (
        sum(row.input for row in rows),
        sum(row.output for row in rows),
        sum(row.cache_read for row in rows),
        sum(row.cache_write for row in rows),
    )


def test_a_session_that_was_killed_has_the_usage_of_its_calls() -> None:
    assert spent(call(1, 100, 10), answer(1), call(2, 200, 20), answer(2)) == (230, 30, 60, 10)


def test_the_end_adds_only_what_no_record_told() -> None:
    sums = {"inputTokens": 400, "outputTokens": 50, "cacheReadTokens": 90, "cacheWriteTokens": 15}
    calls = (call(1, 100, 10), answer(1), call(2, 200, 20), answer(2))
    assert spent(*calls, summed(**sums)) == (295, 50, 90, 15)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_an_answer_and_its_record_count_its_output_once(order: tuple[int, int]) -> None:
    both = (call(1, 100, 10), answer(1, outputTokens=10))
    sums = {"inputTokens": 100, "outputTokens": 10, "cacheReadTokens": 30, "cacheWriteTokens": 5}
    assert spent(*(both[place] for place in order), summed(**sums)) == (65, 10, 30, 5)


@pytest.mark.parametrize(
    "written, named",
    [
        ("Look at the tide", "Look at the tide"),
        ('"Tides: \\"late\\""', 'Tides: "late"'),
        ("'It''s late'", "It's late"),
        ('"not closed', '"not closed'),
        (">-\n  Look at the\n  tide", "Look at the tide"),
        ("|\n  Look", "Look"),
        ("Look at\n  the tide", "Look at the tide"),
        ('"Look at\n  the tide"', "Look at the tide"),
        ("|-", ""),
        ("", ""),
    ],
)
def test_a_session_has_the_name_in_the_file_beside_it(
    tmp_path: Path, written: str, named: str
) -> None:
    folder = tmp_path / "user/.copilot/session-state/s1"
    folder.mkdir(parents=True)
    shown = [{"type": "file", "path": "/demo/a.txt", "displayName": "a.txt"}]
    event = {"type": "user.message", "id": "1", "data": {"content": "Look", "attachments": shown}}
    (folder / "events.jsonl").write_text(f"{json.dumps(event)}\n")
    (folder / "workspace.yaml").write_text(f"id: s1\ncwd: /demo\nname: {written}\nfork_count: 0\n")
    seen = look(tmp_path / "user", tmp_path / "home")["s1"]
    assert (seen.session.title, seen.session.cwd) == (named, "/demo")
    assert seen.said == [("prompt", "Look"), ("note", "[file] a.txt")]
