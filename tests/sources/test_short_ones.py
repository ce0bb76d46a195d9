"""Programs known by their documented format alone: kimi-cli, Kiro, Warp, Auggie, Vibe 2."""

import json
from hashlib import md5
from pathlib import Path
from typing import Any

from tests.sources.sample_support import look, write_database, write_json, write_lines

CWD = "/home/ada/shop"
SESSION = "5f0c2a7e-41d3-4c1b-9a52-0c6d1be2a901"


def shown(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": 1_790_000_000.5, "message": {"type": kind, "payload": payload}}


def test_kimi_cli_tells_each_thing_once_and_its_folder_elsewhere(tmp_path: Path) -> None:
    home = tmp_path / "user" / ".kimi"
    folder = home / "sessions" / md5(CWD.encode(), usedforsecurity=False).hexdigest() / SESSION
    counts = {"input_other": 60, "output": 20, "input_cache_read": 40, "input_cache_creation": 5}
    failed = {"is_error": True, "output": "no such file", "message": "", "display": []}
    write_lines(
        folder / "wire.jsonl",
        {"type": "metadata", "protocol_version": "1.9"},
        shown("TurnBegin", user_input=[{"type": "text", "text": "Look"}]),
        shown("StepBegin", n=1),
        shown("ContentPart", type="think", think="I should list the files."),
        shown("ContentPart", type="text", text="I look."),
        shown("ToolCall", type="function", id="c1", function={"name": "Shell", "arguments": "{}"}),
        shown("StatusUpdate", token_usage=counts, message_id="m1"),
        shown("ToolResult", tool_call_id="c1", return_value=failed),
        shown(
            "SubagentEvent",
            parent_tool_call_id="c1",
            event={"type": "StatusUpdate", "payload": {"token_usage": counts, "message_id": "m2"}},
        ),
        shown("Aurora", x=1),
        shown("TurnEnd"),
    )
    write_lines(folder / "context.jsonl", {"role": "user", "content": "Look"})
    write_json(folder / "state.json", {"custom_title": "A look"})
    write_json(home / "kimi.json", {"work_dirs": [{"path": "/else"}, {"path": CWD}]})
    seen = look(tmp_path / "user", tmp_path / "home")[SESSION]
    assert seen.said == [
        ("prompt", "Look"),
        ("reasoning", "I should list the files."),
        ("text", "I look."),
        ("tool_call", ""),
        ("tool_result", "no such file"),
    ]
    assert (seen.calls, seen.answered, seen.failed) == ([("c1", "Shell")], ["c1"], ["no such file"])
    assert (seen.session.cwd, seen.session.title) == (CWD, "A look")
    assert seen.tokens == {"input": 120, "output": 40, "cache_read": 80, "cache_write": 10}
    assert seen.unknown == {"Aurora": 1}


KIRO = (
    "CREATE TABLE conversations_v2 (key TEXT, conversation_id TEXT, value TEXT,"
    " created_at INTEGER, updated_at INTEGER)"
)


def test_kiro_keeps_a_conversation_as_turns(tmp_path: Path) -> None:
    user = tmp_path / "user"
    use = {"id": "c1", "name": "execute_bash", "args": {"command": "ls"}}
    came = {"tool_use_id": "c1", "content": [{"Text": "README.md"}], "status": "Error"}
    history = [
        {
            "user": {
                "content": {"Prompt": {"prompt": "Look"}},
                "timestamp": "2026-11-01T10:00:00+01:00",
            },
            "assistant": {"ToolUse": {"content": "I look.", "tool_uses": [use]}},
            "request_metadata": {"model_id": "m-1", "stream_end_timestamp_ms": 1_793_523_600_500},
        },
        {
            "user": {"content": {"ToolUseResults": {"tool_use_results": [came]}}},
            "assistant": {"Response": {"content": "One file."}},
        },
    ]
    row = (CWD, SESSION, json.dumps({"history": history}), 1_790_000_000_000, 1_790_000_000_001)
    write_database(user / ".local/share/kiro-cli/data.sqlite3", KIRO, ("conversations_v2", row))
    folder = user / ".kiro" / "sessions" / "cli"
    other = "6f0c2a7e-41d3-4c1b-9a52-0c6d1be2a902"
    write_lines(
        folder / f"{other}.jsonl",
        {"kind": "Prompt", "data": {"content": [{"kind": "text", "data": "Look"}]}},
        {
            "kind": "AssistantMessage",
            "data": {
                "content": [
                    {"kind": "text", "data": "I look."},
                    {"kind": "toolUse", "data": {"toolUseId": "c1", "name": "ls", "input": {}}},
                ]
            },
        },
        {
            "kind": "ToolResults",
            "data": {
                "content": [
                    {
                        "kind": "toolResult",
                        "data": {
                            "toolUseId": "c1",
                            "content": [{"kind": "text", "data": "README.md"}],
                            "status": "success",
                        },
                    }
                ]
            },
        },
    )
    write_json(folder / f"{other}.json", {"session_id": other, "cwd": CWD, "title": "A look"})
    seen = look(user, tmp_path / "home")
    told = seen[SESSION]
    assert told.said == [
        ("prompt", "Look"),
        ("text", "I look."),
        ("tool_call", "ls"),
        ("tool_result", "README.md"),
        ("text", "One file."),
    ]
    assert (told.answered, told.failed, told.session.model) == (["c1"], ["README.md"], "m-1")
    assert (told.session.cwd, seen[other].session.cwd) == (CWD, CWD)
    assert [kind for kind, _ in seen[other].said] == ["prompt", "text", "tool_call", "tool_result"]
    assert (seen[other].failed, seen[other].session.title) == ([], "A look")


WARP = (
    "CREATE TABLE ai_queries (id INTEGER PRIMARY KEY, exchange_id TEXT, conversation_id TEXT,"
    " start_ts TEXT, input TEXT, working_directory TEXT, output_status TEXT, model_id TEXT)"
)


def test_warp_keeps_what_was_asked_and_no_answers(tmp_path: Path) -> None:
    def row(number: int, given: object) -> tuple[str, tuple[object, ...]]:
        at = f"2026-11-01 10:00:0{number}.250000"
        own = (number, f"e{number}", SESSION, at, json.dumps(given), CWD, '"Completed"', "auto")
        return "ai_queries", own

    path = tmp_path / "user/.local/state/warp-terminal/warp.sqlite"
    asked = [{"Query": {"text": "Look", "context": []}}]
    write_database(path, WARP, row(1, asked), row(2, []), row(3, [{"ActionResult": {}}]))
    seen = look(tmp_path / "user", tmp_path / "home")[SESSION]
    assert seen.said == [("prompt", "Look")]
    assert (seen.session.cwd, seen.session.model, seen.unknown) == (CWD, "auto", {})
    assert seen.session.started_at == 1_793_527_201_250
    assert len(seen.lines) == 3


def test_auggie_keeps_an_exchange_for_each_step(tmp_path: Path) -> None:
    use = {"tool_use_id": "c1", "tool_name": "view", "input_json": '{"path": "README.md"}'}
    came = {"tool_use_id": "c1", "content": "# shop", "is_error": False}
    steps = [
        {
            "request_message": "Look",
            "response_text": "I look.",
            "response_nodes": [{"type": 5, "tool_use": use}],
        },
        {
            "request_message": "",
            "request_nodes": [{"type": 1, "tool_result_node": came}],
            "response_text": "A shop.",
        },
    ]
    document = {
        "sessionId": SESSION,
        "created": "2026-11-01T10:00:00.000Z",
        "chatHistory": [{"exchange": one, "sequenceId": n} for n, one in enumerate(steps)],
    }
    write_json(tmp_path / "user/.augment/sessions" / f"{SESSION}.json", document)
    seen = look(tmp_path / "user", tmp_path / "home")[SESSION]
    assert [kind for kind, _ in seen.said] == ["prompt", "text", "tool_call", "tool_result", "text"]
    assert (seen.calls, seen.answered) == ([("c1", "view")], ["c1"])


def test_vibe_2_keeps_messages_and_sums(tmp_path: Path) -> None:
    folder = tmp_path / "user/.vibe/logs/session/session_20260101_100000_5f0c2a7e"
    function = {"name": "bash", "arguments": '{"command": "ls"}'}
    write_lines(
        folder / "messages.jsonl",
        {"role": "system", "content": "You are Vibe."},
        {"role": "user", "content": "Look", "message_id": "m1"},
        {
            "role": "assistant",
            "content": "I look.",
            "reasoning_content": "Files first.",
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
            "message_id": "m2",
        },
        {"role": "tool", "content": "README.md", "tool_call_id": "c1", "name": "bash"},
    )
    write_json(
        folder / "meta.json",
        {
            "session_id": SESSION,
            "start_time": "2026-01-01T10:00:00+00:00",
            "environment": {"working_directory": CWD},
            "git_branch": "main",
            "stats": {"session_prompt_tokens": 70, "session_completion_tokens": 8},
        },
    )
    seen = look(tmp_path / "user", tmp_path / "home")[SESSION]
    assert seen.said[1:] == [
        ("prompt", "Look"),
        ("reasoning", "Files first."),
        ("text", "I look."),
        ("tool_call", "ls"),
        ("tool_result", "README.md"),
    ]
    assert (seen.session.cwd, seen.session.git_branch) == (CWD, "main")
    assert (seen.tokens["input"], seen.tokens["output"]) == (70, 8)
