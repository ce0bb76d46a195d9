"""The database of Cursor's editor: conversations by their keys, never a look at all values."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.sources.cursor_support import CHAT, composer, editor_database, log_at, user
from tests.sources.source_support import Result, any_json, broken, document, feed, only
from threadkeep.base.sqlite.foreign import open_foreign
from threadkeep.sources.cursor import agent_transcripts, chats, old_transcripts, paths
from threadkeep.sources.cursor.editor import _COMPOSERS, _MESSAGES, SOURCE
from threadkeep.sources.cursor.paths import composers_with_messages

AT = 1_784_628_660_000
BUBBLES: list[dict[str, Any]] = [
    {
        "bubbleId": "b1",
        "type": 1,
        "text": "Why is it slow?",
        "createdAt": "2026-07-21T10:11:00.000Z",
        "images": [{"data": "aGVsbG8="}],
        "workspaceUris": ["file:///home/ann/my%20app"],
    },
    {"bubbleId": "b2", "type": 2, "thinking": {"text": "The index."}, "createdAt": AT + 1000},
    {
        "bubbleId": "b3",
        "type": 2,
        "capabilityType": 15,
        "createdAt": "2026-07-21T10:11:02Z",
        "toolFormerData": {
            "tool": 5,
            "name": "read_file_v2",
            "toolCallId": "t1",
            "rawArgs": '{"path":"/home/ann/my app/db.py"}',
            "params": "{}",
            "result": '{"contents":"import sqlite3"}',
            "status": "completed",
        },
    },
    {
        "bubbleId": "b4",
        "type": 2,
        "toolFormerData": {
            "name": "run_terminal_cmd",
            "params": '{"command":"make"}',
            "status": "error",
            "error": "no rule",
        },
    },
    {
        "bubbleId": "b5",
        "type": 2,
        "capabilities": [
            {"type": 15, "data": {"bubbleDataMap": {"x": {"name": "grep", "rawArgs": "p"}}}}
        ],
        "timingInfo": {"clientStartTime": AT + 4000},
    },
    {
        "bubbleId": "b6",
        "type": 2,
        "text": "An index was missing.",
        "timingInfo": {"clientStartTime": 1234.5},
        "modelInfo": {"modelName": "gpt-x"},
        "tokenCount": {"inputTokens": 120, "outputTokens": 48},
    },
    {"bubbleId": "b7", "type": 3},
]
ABOUT: dict[str, Any] = {
    "name": "Slow query",
    "createdAt": AT - 500,
    "unifiedMode": "agent",
    "modelConfig": {"modelName": "default"},
    "createdOnBranch": "main",
    "subComposerIds": ["child-1"],
    "context": {"fileSelections": ["large"]},
}


def read(home: Path, item: str = CHAT) -> Result:
    log = only(SOURCE.find(user(home)))
    return feed(SOURCE, log, document(SOURCE, log, item))


def test_a_conversation_is_read_in_full(tmp_path: Path) -> None:
    editor_database(tmp_path, composer(CHAT, BUBBLES, **ABOUT))
    result = read(tmp_path)
    assert [(e.key, e.kind, e.tool, e.text) for e in result.entries] == [
        ("b1", "prompt", "", "Why is it slow?"),
        ("b1#1", "note", "", "[image]"),
        ("b2", "reasoning", "", "The index."),
        ("b3", "tool_call", "read_file_v2", "path: /home/ann/my app/db.py"),
        ("b3#1", "tool_result", "read_file_v2", '{"contents":"import sqlite3"}'),
        ("b4", "tool_call", "run_terminal_cmd", "make"),
        ("b4#1", "tool_result", "run_terminal_cmd", "no rule"),
        ("b5", "tool_call", "grep", "p"),
        ("b6", "text", "", "An index was missing."),
    ]
    times = [entry.at for entry in result.entries if "#" not in entry.key]
    assert times == [AT, AT + 1000, AT + 2000, AT + 2000, AT + 4000, AT + 4000]
    assert [entry.key for entry in result.entries if entry.error] == ["b4#1"]
    assert {entry.session_id for entry in result.entries} == {CHAT}
    assert result.unknown == {"bubble/3": 1}


def test_facts_usage_and_segments_belong_to_the_conversation(tmp_path: Path) -> None:
    editor_database(tmp_path, composer(CHAT, BUBBLES, **ABOUT))
    result = read(tmp_path)
    facts = result.facts[CHAT]
    assert (facts.title, facts.agent, facts.model) == ("Slow query", "agent", "gpt-x")
    assert (facts.cwd, facts.git_branch) == ("/home/ann/my app", "main")
    assert result.facts["child-1"].parent_session_id == CHAT
    usage = result.usage["b6"]
    assert (usage.input, usage.output, usage.model, usage.session_id) == (120, 48, "gpt-x", CHAT)
    segment = result.segments[CHAT, 0]
    assert (segment.start, segment.end, segment.project_dir) == (AT, AT + 4000, "my app")
    assert segment.tools == [
        ("read_file_v2", "/home/ann/my app/db.py"),
        ("run_terminal_cmd", "make"),
        ("grep", "p"),
    ]


def test_the_folder_is_taken_from_the_nearest_place(tmp_path: Path) -> None:
    where = {"id": "w", "uri": {"fsPath": "/home/ann/other"}}
    editor_database(tmp_path, composer(CHAT, BUBBLES, workspaceIdentifier=where))
    assert read(tmp_path).facts[CHAT].cwd == "/home/ann/other"
    path = editor_database(tmp_path, composer(CHAT, BUBBLES))
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE composerHeaders (composerId TEXT, value TEXT)")
        header = json.dumps({"workspaceIdentifier": {"uri": {"path": "/home/ann/third"}}})
        connection.execute("INSERT INTO composerHeaders VALUES (?, ?)", (CHAT, header))
    connection.close()
    assert read(tmp_path).facts[CHAT].cwd == "/home/ann/third"


def test_messages_follow_the_list_even_beyond_one_batch(tmp_path: Path) -> None:
    many = [{"bubbleId": f"{900 - n}", "type": 1, "text": f"{n}"} for n in range(350)]
    rows = composer(CHAT, many) | {f"bubbleId:{CHAT}:unlisted": {"type": 1, "text": "superseded"}}
    rows |= composer(f"{CHAT}0", [{"bubbleId": "x", "type": 1, "text": "another"}])
    editor_database(tmp_path, rows)
    assert read(tmp_path).of("prompt") == [str(n) for n in range(350)]


def test_messages_of_old_releases_lie_inside_the_conversation(tmp_path: Path) -> None:
    inside = {"composerId": CHAT, "conversation": [BUBBLES[0], {"type": 2, "text": "yes"}]}
    mapped = {
        "fullConversationHeadersOnly": [{"bubbleId": "b6"}, {"bubbleId": "gone"}],
        "conversationMap": {"b6": BUBBLES[5]},
    }
    editor_database(tmp_path, {f"composerData:{CHAT}": inside, "composerData:map": mapped})
    assert read(tmp_path).of("text") == ["yes"]
    assert read(tmp_path, "map").of("text") == ["An index was missing."]


def test_a_conversation_that_lost_its_list_is_read_as_it_was_written(tmp_path: Path) -> None:
    rows = composer(CHAT, BUBBLES)
    rows[f"composerData:{CHAT}"] = "not JSON"
    editor_database(tmp_path, rows)
    assert read(tmp_path).of("text") == ["An index was missing."]


def test_an_empty_conversation_gives_no_records(tmp_path: Path) -> None:
    editor_database(tmp_path, composer(CHAT, [], isDraft=True) | {"composerData:n": "null"})
    log = only(SOURCE.find(user(tmp_path)))
    assert [document(SOURCE, log, item.item) for item in SOURCE.items(log)] == [[], []]
    assert document(SOURCE, log, "nobody") == []


def test_values_that_are_no_json_are_kept_as_text(tmp_path: Path) -> None:
    rows = composer(CHAT, BUBBLES[:2])
    rows[f"bubbleId:{CHAT}:b1"] = '{"type": 1,\n "text": '
    rows[f"bubbleId:{CHAT}:b2"] = json.dumps(BUBBLES[1], indent=2).encode()
    editor_database(tmp_path, rows)
    result = read(tmp_path)
    assert result.of("reasoning") == ["The index."]
    assert result.unknown == {"record": 1}


def test_the_fingerprint_changes_with_each_message_of_its_conversation_alone(
    tmp_path: Path,
) -> None:
    other = composer("other", [{"bubbleId": "o1", "type": 1, "text": "hi"}])
    editor_database(tmp_path, composer(CHAT, BUBBLES) | other)

    def marks() -> dict[str, str]:
        log = only(SOURCE.find(user(tmp_path)))
        return {item.item: item.fingerprint for item in SOURCE.items(log)}

    before = marks()
    assert before == marks()
    editor_database(tmp_path, {f"bubbleId:{CHAT}:b2": BUBBLES[1] | {"text": "more"}})
    rewritten = marks()
    assert rewritten[CHAT] != before[CHAT]
    editor_database(tmp_path, {f"composerData:{CHAT}": {"name": "renamed"}})
    renamed = marks()
    assert renamed[CHAT] != rewritten[CHAT]
    assert {one["other"] for one in (before, rewritten, renamed)} == {before["other"]}


def test_no_query_reads_values_it_does_not_need(tmp_path: Path) -> None:
    path = editor_database(tmp_path, composer(CHAT, BUBBLES))
    with open_foreign(path) as database:
        for sql, params in ((_COMPOSERS, ()), (_MESSAGES, ("a", "b"))):
            (plan,) = [row[3] for row in database.rows(f"EXPLAIN QUERY PLAN {sql}", params)]
            assert "USING COVERING INDEX" in plan
        assert list(composers_with_messages(database)) == [CHAT]


def test_every_system_keeps_it_elsewhere(tmp_path: Path) -> None:
    places = ["Library/Application Support", ".config", "AppData/Roaming"]
    for place in places:
        editor_database(tmp_path, {}, at=place)
    editor_database(tmp_path, {}, at="moved")
    moved = user(tmp_path, XDG_CONFIG_HOME=str(tmp_path / "moved"))
    found = [log.path for log in SOURCE.find(moved)]
    assert len(found) == 4
    assert found == sorted(found)
    assert {str(Path(path).parent) for path in found} == {str(root) for root in SOURCE.roots(moved)}
    assert list(SOURCE.find(user(tmp_path / "nobody"))) == []


def test_a_database_without_its_table_has_no_conversations(tmp_path: Path) -> None:
    path = editor_database(tmp_path, {})
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE cursorDiskKV")
    connection.close()
    log = only(SOURCE.find(user(tmp_path)))
    assert (list(SOURCE.items(log)), document(SOURCE, log, CHAT)) == ([], [])


RECORDS: list[Any] = [{"composer": {"composerId": CHAT, **ABOUT}, "folder": "/p"}]
RECORDS += [{"bubbleId": one["bubbleId"], "createdAt": None, "bubble": one} for one in BUBBLES]


@given(st.lists(any_json | broken(RECORDS), max_size=4))
def test_any_json_can_be_fed(values: list[Any]) -> None:
    feed(SOURCE, log_at("/x/state.vscdb"), [RECORDS[0], *values])
    for value in values:
        SOURCE.entries(value, b"", 0)


@given(st.lists(any_json | broken(BUBBLES), max_size=3), any_json)
def test_any_stored_values_can_be_read(
    tmp_path_factory: Any, bubbles: list[Any], about: object
) -> None:
    home = tmp_path_factory.mktemp("any")
    rows = {f"bubbleId:{CHAT}:{n}": bubble for n, bubble in enumerate(bubbles)}
    editor_database(home, rows | {f"composerData:{CHAT}": {"name": about, "context": about}})
    assert {entry.session_id for entry in read(home).entries} <= {CHAT}


def test_where_the_editor_is_all_there_is_looking_opens_no_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor_database(tmp_path, composer(CHAT, BUBBLES))
    opened: list[Path] = []
    monkeypatch.setattr(paths, "open_foreign", opened.append)
    for source in (agent_transcripts.SOURCE, chats.SOURCE, old_transcripts.SOURCE):
        assert list(source.find(user(tmp_path))) == []
    assert len(list(SOURCE.find(user(tmp_path)))) == 1
    assert opened == []
