"""The chat stores of Cursor's command: the walk from the root, and what is known besides."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.sources.cursor_support import (
    CHAT,
    ChatStore,
    composer,
    editor_database,
    field,
    log_at,
    transcript,
    user,
)
from tests.sources.source_support import any_json, broken, document, feed, only
from threadkeep.errors import Damaged
from threadkeep.sources.cursor.chats import SOURCE, byte_fields

CREATED = 1_781_256_145_540
CALL = {"type": "tool-call", "toolCallId": "t1", "toolName": "Shell", "args": {"command": "ls"}}
RESULT = {"type": "tool-result", "toolCallId": "t1", "toolName": "Shell", "result": "a.py\nb.py"}


def store(home: Path, project: str = "/p") -> ChatStore:
    """Make a store with a system prompt, a turn with a tool, and what an older root led to."""
    chat = ChatStore(home, project)
    chat.message("user", "<user_query>an earlier wording</user_query>")
    first = [
        chat.message("system", "You are an agent."),
        chat.message("user", [{"type": "text", "text": "<user_info>\nOS: linux\n</user_info>"}]),
    ]
    turn = [
        chat.message("user", [{"type": "text", "text": "<user_query>List it</user_query>"}]),
        chat.message("assistant", [{"type": "reasoning", "text": "ls will do"}, CALL]),
        chat.message("tool", [RESULT]),
        chat.message("assistant", [{"type": "text", "text": "Two files."}]),
    ]
    older = chat.blob(b"".join(field(1, child) for child in first))
    own = json.dumps({"role": "user", "content": "<user_query>Thanks</user_query>"}).encode()
    root = chat.blob(
        field(1, older)
        + b"\x18\x05"
        + b"".join(field(2, child) for child in turn)
        + field(4, own)
        + field(9, b"file:///p")
        + field(1, turn[0])
    )
    chat.meta(
        agentId=CHAT,
        latestRootBlobId=root.hex(),
        name="List the files",
        mode="default",
        createdAt=CREATED,
        lastUsedModel="gpt-x",
    )
    return chat


def test_messages_come_in_the_order_of_the_tree(tmp_path: Path) -> None:
    store(tmp_path).close()
    log = only(SOURCE.find(user(tmp_path)))
    result = feed(SOURCE, log, document(SOURCE, log, CHAT))
    assert [(entry.role, entry.kind, entry.text) for entry in result.entries] == [
        ("system", "note", "You are an agent."),
        ("user", "note", "<user_info>\nOS: linux\n</user_info>"),
        ("user", "prompt", "List it"),
        ("assistant", "reasoning", "ls will do"),
        ("assistant", "tool_call", "ls"),
        ("tool", "tool_result", "a.py\nb.py"),
        ("assistant", "text", "Two files."),
        ("user", "prompt", "Thanks"),
    ]
    assert {entry.at for entry in result.entries} == {CREATED}
    assert {entry.call_id for entry in result.entries if entry.tool} == {"t1"}
    assert result.unknown == {}
    assert result.segments[CHAT, 0].prompts == ["List it", "Thanks"]


def test_facts_come_from_the_store_and_the_file_beside_it(tmp_path: Path) -> None:
    chat = store(tmp_path)
    chat.close()
    beside = {"cwd": "/home/ann/my-app", "isSubagent": True, "title": "unused", "more": 1}
    chat.path.with_name("meta.json").write_text(json.dumps(beside))
    log = only(SOURCE.find(user(tmp_path)))
    facts = feed(SOURCE, log, document(SOURCE, log, CHAT)).facts[CHAT]
    assert (facts.title, facts.model, facts.agent) == ("List the files", "gpt-x", "default")
    assert (facts.cwd, facts.is_subagent) == ("/home/ann/my-app", True)


def test_the_folder_is_found_by_its_hash(tmp_path: Path) -> None:
    project = tmp_path / "my-app"
    project.mkdir()
    slug = "".join(c if c.isalnum() else "-" for c in str(project).removeprefix("/"))
    transcript(tmp_path, slug, "other.jsonl")
    store(tmp_path, str(project)).close()
    assert only(SOURCE.find(user(tmp_path))).project_dir == str(project)


def test_a_store_that_names_no_root_is_read_from_its_largest_node(tmp_path: Path) -> None:
    chat = store(tmp_path)
    chat.meta(agentId=CHAT, name="New Agent")
    chat.close()
    log = only(SOURCE.find(user(tmp_path)))
    result = feed(SOURCE, log, document(SOURCE, log, CHAT))
    assert result.of("prompt") == ["List it", "Thanks"]
    assert result.facts[CHAT].title == ""


def test_a_ring_of_nodes_and_missing_blobs_end_the_walk(tmp_path: Path) -> None:
    chat = ChatStore(tmp_path, "/p")
    said = chat.message("user", "<user_query>hi</user_query>")
    chat._connection.execute(
        "INSERT INTO blobs VALUES (?, ?)", ("aa" * 32, field(1, b"\xaa" * 32) + field(1, said))
    )
    chat.meta(latestRootBlobId="aa" * 32)
    chat.close()
    log = only(SOURCE.find(user(tmp_path)))
    assert feed(SOURCE, log, document(SOURCE, log, CHAT)).of("prompt") == ["hi"]


def test_a_chain_of_thousands_of_nodes_is_walked(tmp_path: Path) -> None:
    chat = ChatStore(tmp_path, "/p")
    chat._connection.execute("BEGIN")
    above = b""
    for number in range(3000):
        said = chat.message("user", f"<user_query>{number}</user_query>")
        above = chat.blob((field(1, above) if above else b"") + field(2, said))
    chat.meta(latestRootBlobId=above.hex())
    chat._connection.execute("COMMIT")
    chat.close()
    log = only(SOURCE.find(user(tmp_path)))
    prompts = feed(SOURCE, log, document(SOURCE, log, CHAT)).of("prompt")
    assert prompts == [str(number) for number in range(3000)]


def test_the_fingerprint_changes_with_the_root_and_nothing_else(tmp_path: Path) -> None:
    chat = store(tmp_path)
    before = list(SOURCE.items(only(SOURCE.find(user(tmp_path)))))
    assert [item.item for item in before] == [CHAT]
    chat.blob(b"not led to")
    assert list(SOURCE.items(only(SOURCE.find(user(tmp_path))))) == before
    chat.meta(agentId=CHAT, latestRootBlobId="bb" * 32)
    assert list(SOURCE.items(only(SOURCE.find(user(tmp_path))))) != before
    chat.close()


def test_what_the_editors_database_has_is_not_read_here(tmp_path: Path) -> None:
    store(tmp_path).close()
    ChatStore(tmp_path, "/p", "other").close()
    editor_database(tmp_path, composer(CHAT, [{"bubbleId": "b1", "type": 1, "text": "hi"}]))
    log = only(SOURCE.find(user(tmp_path)))
    assert log.session_id == "other"
    assert (list(SOURCE.items(log)), document(SOURCE, log, "other")[1:]) == ([], [])


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    chat = ChatStore(tmp_path, "/p")
    chat.close()
    chat.path.write_bytes(b"nothing of the kind" * 300)
    with pytest.raises(Damaged):
        list(SOURCE.items(only(SOURCE.find(user(tmp_path)))))


RECORDS = [
    {"agentId": CHAT, "meta": {"name": "x", "createdAt": 1}, "sidecar": {"cwd": "/p"}},
    {"blob": "aa", "message": {"role": "assistant", "content": [CALL, RESULT]}},
]


@given(st.lists(any_json | broken(RECORDS), max_size=4))
def test_any_json_can_be_fed(values: list[Any]) -> None:
    feed(SOURCE, log_at("/x/store.db", session_id=CHAT), values)
    for value in values:
        SOURCE.entries(value, b"", 0)


@given(st.binary(max_size=80))
def test_any_bytes_have_fields_that_fit_into_them(data: bytes) -> None:
    assert sum(len(content) for _, content in byte_fields(data)) <= len(data)


@given(st.lists(st.tuples(st.integers(1, 15), st.binary(max_size=300))))
def test_fields_are_read_as_they_were_written(fields: list[tuple[int, bytes]]) -> None:
    data = b"".join(field(number, content) for number, content in fields)
    assert list(byte_fields(data)) == fields
