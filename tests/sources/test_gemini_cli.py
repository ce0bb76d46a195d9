"""Gemini CLI: a message that is written again counts once, in a line log and in a document."""

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tests.lengths import examples
from tests.sources.test_copilot_cli import (
    FIXTURES,
    check_any_junk,
    check_any_split,
    check_odd_folders,
    document,
    found_in,
    lines,
    nested,
    read,
    real_files,
    said,
)
from threadkeep.errors import Invalid
from threadkeep.knowledge.records import Entry, SessionFacts
from threadkeep.sources import gemini_json
from threadkeep.sources.gemini_cli import SOURCE
from threadkeep.sources.records import Log, Stamp, UserHome

DOCUMENTS = gemini_json.SOURCE
SESSION = "6e000000-0000-4000-8000-000000000001"
STEM = "session-2026-04-14T10-00-6e000000"
OLD = "6e000000-0000-4000-8000-000000000002"


@pytest.fixture
def log() -> Log:
    return found_in(SOURCE, "gemini-cli")[STEM]


def latest(entries: list[Entry]) -> dict[str, Entry]:
    """What a store holds: of several with one key the last."""
    return {entry.key: entry for entry in entries}


# ---------------------------------------------------------------------- finding


def test_find_gives_line_logs_and_subagents() -> None:
    logs = found_in(SOURCE, "gemini-cli")
    assert sorted(logs) == ["6e000000-sub", STEM]
    assert logs[STEM].project_dir == "shop"
    assert (logs[STEM].is_subagent, logs[STEM].parent_session_id) == (False, None)
    sub = logs["6e000000-sub"]
    assert (sub.is_subagent, sub.parent_session_id) == (True, SESSION)


def test_a_document_beside_its_line_log_is_not_read() -> None:
    (old,) = DOCUMENTS.find(UserHome(FIXTURES / "gemini-cli"))
    assert old.path.endswith("session-2026-01-10T20-00-6e000002.json")


def test_find_follows_the_variable_of_the_program(tmp_path: Path) -> None:
    user = UserHome(tmp_path, {"GEMINI_CLI_HOME": str(FIXTURES / "gemini-cli")})
    assert len(list(SOURCE.find(user))) == 2
    assert len(list(DOCUMENTS.find(user))) == 1
    assert SOURCE.roots(user) == DOCUMENTS.roots(user)


def test_find_survives_odd_folders(tmp_path: Path) -> None:
    check_odd_folders(SOURCE, tmp_path / ".gemini" / "tmp" / "p" / "chats", tmp_path)


# ---------------------------------------------------------------------- the line log


def test_what_was_said_and_done(log: Log) -> None:
    entries, harvest = read(SOURCE, log, lines(log.path))
    assert said(list(latest(entries).values())) == [
        ("user", "note", "<session_context>\nToday is Tuesday."),
        ("user", "prompt", "Why does @src/session.py forget?"),
        (
            "user",
            "note",
            "\n--- Content from referenced files ---\nContent from @src/session.py:\nmax_age=60",
        ),
        ("assistant", "reasoning", "Cookie\nIt may expire."),
        ("assistant", "text", "I read the file."),
        ("assistant", "tool_call", "file_path: src/session.py"),
        ("system", "note", "Update available!"),
        ("tool", "tool_result", "max_age=60"),
        ("assistant", "tool_call", "pytest -q\ndescription: Run tests"),
        ("tool", "tool_result", "[Operation Cancelled]"),
        ("assistant", "tool_call", ""),
        ("tool", "tool_result", "pages: 2\n[image]"),
        ("assistant", "text", "It lives a minute."),
        ("system", "note", "Quota reached"),
        ("system", "note", "Slow"),
        ("user", "prompt", "Then make it two."),
        ("user", "prompt", "Make it a day. [image]"),
        ("assistant", "text", "Done."),
        ("user", "summary", "<state_snapshot>The cookie lives a day.</state_snapshot>"),
        ("user", "note", "System: Please continue."),
    ]
    assert [entry.text for entry in latest(entries).values() if entry.error] == [
        "[Operation Cancelled]",
        "Quota reached",
    ]
    assert harvest.unknown == {}


def test_entries_and_facts_belong_to_the_session_of_the_header(log: Log) -> None:
    entries, harvest = read(SOURCE, log, lines(log.path))
    assert {entry.session_id for entry in entries} == {SESSION}
    told = SessionFacts(title="Basket forgets", model="gemini-3-flash", cwd="/home/ada/shop")
    told.began_in = told.cwd
    assert harvest.facts == {SESSION: told}
    sub = found_in(SOURCE, "gemini-cli")["6e000000-sub"]
    _, harvest = read(SOURCE, sub, lines(sub.path))
    facts = harvest.facts["6e000000-sub"]
    assert (facts.is_subagent, facts.parent_session_id) == (True, SESSION)
    assert harvest.segments[0].is_subagent
    assert harvest.segments[0].parent_session_id == SESSION


def test_usage_counts_a_message_once_and_the_cache_apart(log: Log) -> None:
    _, harvest = read(SOURCE, log, lines(log.path))
    rows = {row.key: row for row in harvest.usage}
    assert sorted(rows) == ["m2", "m4", "m9"]
    row = rows["m2"]
    assert (row.input, row.cache_read, row.output, row.reasoning) == (1000, 200, 55, 15)
    assert row.model == "gemini-3"


def test_segments_count_a_message_once(log: Log) -> None:
    _, harvest = read(SOURCE, log, lines(log.path))
    first, second = harvest.segments
    assert first.prompts == ["Why does @src/session.py forget?"]
    assert first.texts == ["I read the file.", "It lives a minute."]
    assert first.tools == [
        ("read_file", "file_path: src/session.py"),
        ("run_shell_command", "pytest -q\ndescription: Run tests"),
        ("shot", ""),
    ]
    assert second.prompts == ["Then make it two.", "Make it a day. [image]"]
    assert second.texts == ["Done."]


def test_the_open_segment_has_what_is_not_complete_yet(log: Log) -> None:
    parser = SOURCE.parser(log, None)
    seen = []
    for fed in lines(log.path)[:7]:
        parser.feed(*fed)
        seen.append([segment.tools for segment in parser.harvest().segments])
    read_file = ("read_file", "file_path: src/session.py")
    assert seen[2:6] == [[[]], [[]], [[read_file]], [[read_file]]]
    assert len(seen[6][0] or []) == 3


def test_a_log_of_whole_replacements_counts_each_message_once(log: Log) -> None:
    fed = lines(log.path)
    said_so_far = [value for value, _, _ in fed if value.get("type") in {"user", "gemini"}]
    whole = [
        ({"$set": {"messages": said_so_far[:length]}}, b"", length)
        for length in range(1, len(said_so_far) + 1)
    ]
    entries, replaced = read(SOURCE, log, [fed[0], *whole])
    _, appended = read(SOURCE, log, [fed[0], *((value, b"", 0) for value in said_so_far)])
    assert replaced.segments == appended.segments
    assert len(latest(entries)) < len(entries)


def test_what_is_not_known_is_counted(log: Log) -> None:
    fed = [({"type": "user"}, b"", 1), ({"id": "x", "type": "hologram"}, b"", 2), (7, b"", 3)]
    entries, harvest = read(SOURCE, log, fed)
    assert entries == []
    assert harvest.unknown == {"(no type)": 1, "message/hologram": 1, "(int)": 1}


def test_a_value_nested_beyond_reason_is_only_hinted_at(log: Log) -> None:
    result = [{"functionResponse": {"response": nested()}}]
    calls = [{"id": "c", "name": "t", "args": nested(), "result": result}]
    entries, _ = read(SOURCE, log, [({"id": "x", "type": "gemini", "toolCalls": calls}, b"", 1)])
    assert [(entry.kind, len(entry.text) < 10) for entry in entries] == [
        ("tool_call", True),
        ("tool_result", True),
    ]


@given(st.data())
def test_any_split_gives_the_same(data: st.DataObject) -> None:
    log = found_in(SOURCE, "gemini-cli")[STEM]
    check_any_split(SOURCE, log, lines(log.path), data)


@settings(max_examples=examples(200))
@given(st.data())
def test_any_json_is_read(data: st.DataObject) -> None:
    log = found_in(SOURCE, "gemini-cli")[STEM]
    check_any_junk(SOURCE, log, lines(log.path), data)


def test_a_line_log_has_no_items(log: Log) -> None:
    assert list(SOURCE.items(log)) == []
    assert list(SOURCE.records(log, SESSION)) == []


# ---------------------------------------------------------------------- the document


@pytest.fixture
def old() -> Log:
    (found,) = DOCUMENTS.find(UserHome(FIXTURES / "gemini-cli"))
    return found


def test_a_document_is_one_session(old: Log) -> None:
    (item,) = DOCUMENTS.items(old)
    assert item.item == OLD
    fed = document(DOCUMENTS, old, item.item)
    assert fed[0][0]["sessionId"] == OLD
    assert "messages" not in fed[0][0]
    entries, harvest = read(DOCUMENTS, old, fed)
    assert said(entries) == [("user", "prompt", "Write hello"), ("assistant", "text", "Hello.")]
    assert {entry.session_id for entry in entries} == {OLD}
    assert harvest.facts[OLD] == SessionFacts(title="Hello", model="gemini-2.5", began_in="shop")
    assert [(row.key, row.input, row.output) for row in harvest.usage] == [(f"{OLD}:1", 10, 4)]
    assert harvest.unknown == {"message/hologram": 1}
    assert [segment.prompts for segment in harvest.segments] == [["Write hello"]]
    assert [DOCUMENTS.entries(*one) for one in fed[1:3]] != [[], []]


def test_the_fingerprint_changes_with_the_content_alone(old: Log, tmp_path: Path) -> None:
    path = tmp_path / "session-x.json"
    data = Path(old.path).read_bytes()
    path.write_bytes(data)
    log = Log(str(path), Stamp(0, 0, 0, 0), "session-x")
    before = list(DOCUMENTS.items(log))
    path.write_bytes(data)
    assert list(DOCUMENTS.items(log)) == before
    path.write_bytes(data.replace(b"Hello.", b"Hello!"))
    (after,) = DOCUMENTS.items(log)
    assert after.item == before[0].item
    assert after.fingerprint != before[0].fingerprint


def test_a_half_written_document_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "session-x.json"
    path.write_bytes(b'{"sessionId": "x", "messages": [')
    with pytest.raises(Invalid, match=r"session-x\.json"):
        list(DOCUMENTS.items(Log(str(path), Stamp(0, 0, 0, 0), "session-x")))


@pytest.mark.parametrize(
    "content", [b"[]", b'{"messages": 3}', b'{"messages": [1, null, {}]}', b""]
)
def test_an_odd_document_is_read(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "session-x.json"
    path.write_bytes(content)
    log = Log(str(path), Stamp(0, 0, 0, 0), "session-x")
    (item,) = DOCUMENTS.items(log)
    assert item.item == "session-x"
    entries, harvest = read(DOCUMENTS, log, document(DOCUMENTS, log, item.item))
    assert entries == []
    assert list(harvest.facts) == ["session-x"]


# ---------------------------------------------------------------------- real transcripts


def test_real_transcripts(shared_data: Path) -> None:
    for path in real_files(shared_data, "gemini", "*.json"):
        log = Log(str(path), Stamp(0, 0, 0, 0), path.stem, path.parent.parent.name)
        (item,) = DOCUMENTS.items(log)
        assert path.stem == f"session-{item.item}"
        fed = document(DOCUMENTS, log, item.item)
        entries, harvest = read(DOCUMENTS, log, fed)
        assert harvest.unknown == {}
        assert len({entry.key for entry in entries}) == len(entries)
        tokens = [value["tokens"] for value, _, _ in fed if value.get("tokens")]
        spent = sum(row.input + row.cache_read + row.output for row in harvest.usage)
        assert spent == sum(each["total"] for each in tokens)
        calls = sum(len(value.get("toolCalls", ())) for value, _, _ in fed)
        assert sum(entry.kind == "tool_call" for entry in entries) == calls
        assert sum(entry.kind == "tool_result" for entry in entries) == calls
        assert sum(len(segment.tools or ()) for segment in harvest.segments) == calls
