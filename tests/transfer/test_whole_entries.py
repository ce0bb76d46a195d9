"""Entries are whole: what a tool was given, the pictures, and what a record goes on from."""

from typing import Any

import pytest
from hypothesis import given

from tests.sources.source_support import any_json
from tests.transfer.exports import NOW
from threadkeep.capture.capture import History
from threadkeep.knowledge.records import Entry, Image
from threadkeep.sources import aider, chat_store, copilot_cli, gemini_cli, pi, state_store
from threadkeep.sources.claude import transcripts
from threadkeep.sources.codex import rollouts
from threadkeep.sources.common import picture, pictures
from threadkeep.sources.cursor import agent_transcripts, chats, editor
from threadkeep.sources.opencode import database
from threadkeep.sources.records import Source

GIVEN = {"command": "ls", "deep": {"n": [1, 2]}}
PNG = Image("image/png", "aGk=")
LINKED = Image("image/jpeg", url="https://example.org/x.jpg")
EMBEDDED = Image("image/webp", url="data:image/webp;base64,aGk=")
ANTHROPIC = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "aGk="},
}
CHAT: Source = chat_store.ChatSource([])


def entries(source: Source, record: Any) -> list[Entry]:
    return list(source.entries(record, b"{}", 0))


def claude(content: Any, role: str = "user") -> dict[str, Any]:
    links = {"uuid": "u2", "parentUuid": "u1"}
    return {"type": role, "message": {"role": role, "content": content}, **links}


def item(**payload: Any) -> dict[str, Any]:
    return {"type": "response_item", "timestamp": "2026-03-01T10:00:00Z", "payload": payload}


def part(data: dict[str, Any], role: str = "assistant") -> dict[str, Any]:
    return {"type": "part", "id": "prt_1", "message": "msg_1", "role": role, "data": data}


def chat(data: dict[str, Any]) -> dict[str, Any]:
    row = {"id": "p1", "type": data["type"], "data_json": data}
    return {"type": "part", "session": "s", "role": "assistant", "at": NOW, "row": row}


def state(**row: Any) -> dict[str, Any]:
    return {"type": "message", "session": "s", "row": {"id": 1, **row}}


def bubble(**fields: Any) -> dict[str, Any]:
    return {"bubbleId": "b", "bubble": fields}


def pi_message(**message: Any) -> dict[str, Any]:
    return {"type": "message", "id": "b2", "parentId": "b1", "message": message}


ANSWER = {"data": {"toolRequests": [{"toolCallId": "c", "name": "t", "arguments": GIVEN}]}}
WRITTEN = '{"command":"ls","deep":{"n":[1,2]}}'
OPENAI = {"id": "c", "function": {"name": "t", "arguments": WRITTEN}}
CALLS: list[tuple[Source, Any]] = [
    (transcripts.SOURCE, claude([{"type": "tool_use", "id": "c", "input": GIVEN}], "assistant")),
    (rollouts.SOURCE, item(type="function_call", name="t", call_id="c", arguments=WRITTEN)),
    (rollouts.SOURCE, item(type="local_shell_call", action=GIVEN)),
    (database.SOURCE, part({"type": "tool", "tool": "t", "state": {"input": GIVEN}})),
    (pi.SOURCE, pi_message(role="assistant", content=[{"type": "toolCall", "arguments": GIVEN}])),
    (gemini_cli.SOURCE, {"id": "1", "type": "gemini", "toolCalls": [{"name": "t", "args": GIVEN}]}),
    (copilot_cli.SOURCE, {"type": "assistant.message", "id": "1", "parentId": "0", **ANSWER}),
    (
        agent_transcripts.SOURCE,
        {
            "role": "assistant",
            "message": {"content": [{"type": "tool_use", "name": "t", "input": GIVEN}]},
        },
    ),
    (
        chats.SOURCE,
        {"message": {"role": "assistant", "content": [{"type": "tool-call", "args": GIVEN}]}},
    ),
    (
        editor.SOURCE,
        bubble(type=2, toolFormerData={"name": "t", "rawArgs": WRITTEN}),
    ),
    (CHAT, chat({"type": "tool-t", "toolCallId": "c", "state": "input-available", "input": GIVEN})),
    (state_store.SOURCE, state(role="assistant", content="", tool_calls=[OPENAI])),
]


@pytest.mark.parametrize("source, record", CALLS)
def test_a_call_has_what_the_tool_was_given(source: Source, record: Any) -> None:
    (call,) = [entry for entry in entries(source, record) if entry.kind == "tool_call"]
    assert call.input == GIVEN


def test_inputs_that_are_no_objects_stay_as_they_are() -> None:
    (patch,) = entries(rollouts.SOURCE, item(type="custom_tool_call", name="p", input="*** Begin"))
    assert (patch.input, patch.text) == ("*** Begin", "*** Begin")
    (broken,) = entries(rollouts.SOURCE, item(type="function_call", name="p", arguments="{no"))
    assert broken.input == "{no"
    record = {"key": "k", "who": "tool", "text": "> Applied edit to a.py"}
    (deed,) = [one for one in entries(aider.SOURCE, record) if one.kind == "tool_call"]
    assert deed.input == {"path": "a.py"}


PICTURES: list[tuple[Source, Any, Image]] = [
    (transcripts.SOURCE, claude([{"type": "text", "text": "look"}, ANTHROPIC]), PNG),
    (
        transcripts.SOURCE,
        claude([{"type": "tool_result", "tool_use_id": "c", "content": [ANTHROPIC]}]),
        PNG,
    ),
    (
        rollouts.SOURCE,
        item(
            type="message",
            role="user",
            content=[{"type": "input_image", "image_url": EMBEDDED.url}],
        ),
        EMBEDDED,
    ),
    (
        rollouts.SOURCE,
        item(
            type="function_call_output",
            call_id="c",
            output=[{"type": "input_image", "image_url": EMBEDDED.url}],
        ),
        EMBEDDED,
    ),
    (rollouts.SOURCE, item(type="image_generation_call", result="aGk="), PNG),
    (
        database.SOURCE,
        part({"type": "file", "mime": "image/webp", "url": EMBEDDED.url}, "user"),
        EMBEDDED,
    ),
    (
        database.SOURCE,
        part(
            {
                "type": "tool",
                "state": {
                    "status": "completed",
                    "output": "x",
                    "attachments": [{"type": "file", "mime": "image/jpeg", "url": LINKED.url}],
                },
            }
        ),
        LINKED,
    ),
    (
        pi.SOURCE,
        pi_message(
            role="user", content=[{"type": "image", "data": "aGk=", "mimeType": "image/png"}]
        ),
        PNG,
    ),
    (
        gemini_cli.SOURCE,
        {
            "id": "1",
            "type": "user",
            "content": [{"inlineData": {"mimeType": "image/png", "data": "aGk="}}],
        },
        PNG,
    ),
    (
        chats.SOURCE,
        {"message": {"role": "user", "content": [{"type": "image", "image": EMBEDDED.url}]}},
        EMBEDDED,
    ),
    (
        editor.SOURCE,
        bubble(type=1, text="look", images=[{"path": "/x/y.png"}]),
        Image("image/png", url="/x/y.png"),
    ),
    (CHAT, chat({"type": "file", "mediaType": "image/jpeg", "url": LINKED.url}), LINKED),
    (
        state_store.SOURCE,
        state(
            role="user",
            content=[{"type": "image_url", "image_url": {"url": EMBEDDED.url}}],
        ),
        EMBEDDED,
    ),
]


@pytest.mark.parametrize("source, record, image", PICTURES)
def test_a_picture_is_kept_as_it_was_given(source: Source, record: Any, image: Image) -> None:
    found = [one for entry in entries(source, record) for one in entry.images]
    assert found == [image]


def test_other_files_are_no_pictures() -> None:
    assert picture({"type": "file", "mime": "text/plain", "url": "file:///x"}) is None
    assert picture({"type": "image"}) is None
    assert pictures("no list") == ()


@given(any_json)
def test_anything_can_be_asked_for_pictures(value: Any) -> None:
    assert all(isinstance(one, Image) for one in pictures([value]))


def test_a_record_tells_what_it_goes_on_from() -> None:
    (said,) = entries(transcripts.SOURCE, claude("go on"))
    assert (said.key, said.parent) == ("u2", "u1")
    (asked,) = entries(pi.SOURCE, pi_message(role="user", content="go on"))
    assert (asked.key, asked.parent) == ("b2", "b1")
    record = {"type": "user.message", "id": "2", "parentId": "1", "data": {"content": "go on"}}
    assert entries(copilot_cli.SOURCE, record)[0].parent == "1"


def test_what_is_read_from_the_archive_is_whole(demo: History) -> None:
    harnesses = set()
    for session in demo.sessions(everything=True, limit=100):
        calls = [one.entry for one in demo.transcript(session) if one.entry.kind == "tool_call"]
        assert all(call.input for call in calls)
        harnesses |= {session.agent} if calls else set()
    assert len(harnesses) == 8
