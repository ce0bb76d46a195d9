"""A small session of each newer program, made up, where the program would write it.

Every one tells the same: a question, a thought, an answer with a call, its result, and the end.
"""

import json
from collections.abc import Callable
from hashlib import md5
from pathlib import Path
from typing import Any

import zstandard

from tests.sources.sample_support import write_database, write_json, write_lines

CWD = "/home/ada/shop"
AT = 1_790_000_000_000
ISO = "2026-09-21T14:13:20.000Z"
ASKED, THOUGHT, SAID, COMMAND, CAME, END = (
    *("Why is it slow?", "Look first.", "I look."),
    *("ls", "no such file", "It is the disk."),
)
THINKS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": THOUGHT},
    {"type": "text", "text": SAID},
    {"type": "tool_use", "id": "c1", "name": "shell", "input": {"command": COMMAND}},
]
GIVEN = {"command": COMMAND}
GAVE = {"type": "tool_result", "tool_use_id": "c1", "content": CAME, "is_error": True}
FINAL: list[dict[str, Any]] = [{"type": "text", "text": END}]
USER = ".config/Code/User"


def _parts(said: str) -> dict[str, Any]:
    return {"parts": [{"text": said}]}


def qwen_code(user: Path) -> None:
    about = {"sessionId": "qwen-1", "cwd": CWD, "timestamp": ISO}
    first = {
        "role": "model",
        "parts": [
            {"text": THOUGHT, "thought": True},
            {"text": SAID},
            {"functionCall": {"id": "c1", "name": "shell", "args": {"command": COMMAND}}},
        ],
    }
    counts = {
        "promptTokenCount": 100,
        "candidatesTokenCount": 20,
        "cachedContentTokenCount": 40,
    }
    came = {"functionResponse": {"id": "c1", "name": "shell", "response": {"error": CAME}}}
    write_lines(
        user / ".qwen/projects/-home-ada-shop/chats/qwen-1.jsonl",
        {**about, "uuid": "1", "type": "user", "message": {"parts": [{"text": ASKED}]}},
        {
            **about,
            "uuid": "2",
            "type": "user",
            "subtype": "cron",
            "message": {"parts": [{"text": "x"}]},
        },
        {
            **about,
            "uuid": "3",
            "type": "assistant",
            "model": "m-1",
            "message": first,
            "usageMetadata": counts,
        },
        {
            **about,
            "uuid": "4",
            "type": "tool_result",
            "message": {"parts": [came]},
            "toolCallResult": {"callId": "c1", "status": "error"},
        },
        {
            **about,
            "uuid": "5",
            "type": "system",
            "subtype": "custom_title",
            "systemPayload": {"customTitle": "A title"},
        },
        {
            **about,
            "uuid": "6",
            "type": "assistant",
            "model": "m-1",
            "message": {"parts": [{"text": END}]},
        },
    )


def kimi_code(user: Path) -> None:
    folder = user / ".kimi-code/sessions/wd_shop_1/kimi-1"

    def event(**told: Any) -> dict[str, Any]:
        return {"type": "context.append_loop_event", "event": told, "time": AT}

    usage = {"inputOther": 60, "output": 20, "inputCacheRead": 40, "inputCacheCreation": 0}
    write_lines(
        folder / "agents/main/wire.jsonl",
        {"type": "metadata", "protocol_version": "1.5"},
        {
            "type": "turn.prompt",
            "input": [{"type": "text", "text": ASKED}],
            "origin": {"kind": "user"},
            "promptId": "p1",
            "time": AT,
        },
        {
            "type": "context.append_message",
            "message": {"role": "user", "content": ASKED},
            "time": AT,
        },
        {"type": "llm.request", "model": "m-1", "time": AT},
        {"type": "usage.record", "model": "m-1", "usage": usage, "time": AT},
        event(type="content.part", uuid="u1", part={"type": "think", "think": THOUGHT}),
        event(type="content.part", uuid="u2", part={"type": "text", "text": SAID}),
        event(
            type="tool.call", uuid="u3", toolCallId="c1", name="shell", args={"command": COMMAND}
        ),
        event(
            type="tool.result",
            parentUuid="u3",
            toolCallId="c1",
            result={"output": CAME, "isError": True},
        ),
        event(type="step.end", uuid="u4", usage=usage),
        event(type="content.part", uuid="u5", part={"type": "text", "text": END}),
        {"type": "agent.message.appended", "kind": "event", "time": AT},
    )
    write_json(folder / "state.json", {"id": "kimi-1", "cwd": CWD, "title": "A title"})


def gptme(user: Path) -> None:
    folder = user / ".local/share/gptme/logs/gptme-1"
    usage = {"input_tokens": 60, "output_tokens": 20, "cache_read_tokens": 40}
    call = f"@shell(c1): {json.dumps({'command': COMMAND})}"
    write_lines(
        folder / "conversation.jsonl",
        {
            "role": "system",
            "content": "You are",
            "pinned": True,
            "timestamp": "2026-09-21T14:00:00",
        },
        {"role": "user", "content": ASKED, "timestamp": "2026-09-21T14:13:20"},
        {
            "role": "assistant",
            "content": f"<think>\n{THOUGHT}\n</think>\n\n{SAID}\n{call}",
            "timestamp": "2026-09-21T14:13:21",
            "metadata": {"model": "m-1", "usage": usage},
        },
        {"role": "system", "content": CAME, "call_id": "c1", "timestamp": "2026-09-21T14:13:22"},
        {"role": "assistant", "content": END, "timestamp": "2026-09-21T14:13:23"},
    )
    (folder / "config.toml").write_text(f'[chat]\nworkspace = "{CWD}"\nname = "A title"\n')


def grok_build(user: Path) -> None:
    folder = user / ".grok/sessions/%2Fhome%2Fada%2Fshop/grok-1"
    write_lines(
        folder / "chat_history.jsonl",
        {"type": "system", "content": "You are"},
        {"type": "user", "content": [{"type": "text", "text": "<user_info>x</user_info>"}]},
        {
            "type": "user",
            "content": f"<user_query>\n{ASKED}\n</user_query>",
            "prompt_index": 0,
        },
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": THOUGHT}]},
        {
            "type": "assistant",
            "content": SAID,
            "model_id": "m-1",
            "tool_calls": [
                {"id": "c1", "name": "shell", "arguments": json.dumps({"command": COMMAND})}
            ],
        },
        {"type": "tool_result", "tool_call_id": "c1", "content": CAME},
        {"type": "assistant", "content": END, "model_id": "m-1"},
    )
    meta = {"promptIndex": 0}
    update = {"sessionUpdate": "user_message_chunk", "_meta": meta}
    write_lines(folder / "updates.jsonl", {"timestamp": AT // 1000, "params": {"update": update}})
    write_json(
        folder / "summary.json",
        {
            "info": {"cwd": CWD},
            "session_summary": "A title",
            "created_at": ISO,
        },
    )
    counts = {"inputTokens": 100, "outputTokens": 20, "cachedReadTokens": 40}
    write_json(
        folder / "usage.json",
        {
            "session": counts,
            "turns": [{"turnNumber": 1, "modelUsage": {"m-1": counts}}],
        },
    )


def continue_dev(user: Path) -> None:
    own = "0bff1e1e-0000-4000-8000-000000000001"
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "model": "m-1",
        "prompt_tokens_details": {"cached_tokens": 40},
    }
    function = {"name": "shell", "arguments": json.dumps({"command": COMMAND})}
    state = {"toolCallId": "c1", "status": "errored", "output": [{"content": CAME}]}
    write_json(
        user / f".continue/sessions/{own}.json",
        {
            "sessionId": own,
            "title": "A title",
            "workspaceDirectory": f"file://{CWD}",
            "history": [
                {
                    "message": {"role": "user", "content": ASKED},
                    "promptLogs": [{"prompt": "x" * 100}],
                },
                {
                    "message": {
                        "role": "assistant",
                        "content": SAID,
                        "usage": usage,
                        "toolCalls": [{"id": "c1", "function": function}],
                    },
                    "reasoning": {"text": THOUGHT},
                    "toolCallStates": [state],
                },
                {"message": {"role": "assistant", "content": END}},
            ],
        },
    )
    listed = {"sessionId": own, "dateCreated": str(AT)}
    write_json(user / ".continue/sessions/sessions.json", [listed])


def cline(user: Path) -> None:
    own = "1790000000000_abcde"
    folder = user / f".cline/data/sessions/{own}"
    metrics = {"inputTokens": 100, "outputTokens": 20, "cacheReadTokens": 40}
    failed = {"query": COMMAND, "result": CAME, "success": False}
    gave = {"type": "tool_result", "tool_use_id": "c1", "name": "shell", "content": [failed]}
    asked = f'<user_input mode="act">{ASKED}</user_input>'
    write_json(
        folder / f"{own}.messages.json",
        {
            "version": 1,
            "sessionId": own,
            "messages": [
                {
                    "id": "m1",
                    "role": "user",
                    "content": [{"type": "text", "text": asked}],
                    "ts": AT,
                },
                {
                    "id": "m2",
                    "role": "assistant",
                    "content": THINKS,
                    "ts": AT,
                    "modelInfo": {"id": "m-1"},
                    "metrics": metrics,
                },
                {"id": "m3", "role": "user", "content": [gave], "ts": AT},
                {"id": "m4", "role": "assistant", "content": FINAL, "ts": AT},
            ],
        },
    )
    usage = {"inputTokens": 100, "outputTokens": 20}
    write_json(
        folder / f"{own}.json",
        {
            "cwd": CWD,
            "model": "m-1",
            "metadata": {"title": "A title", "usage": usage},
        },
    )


def roo_code(user: Path) -> None:
    """A task with the older kind of tools: the call is a tag, the result a text."""
    folder = user / USER / "globalStorage/rooveterinaryinc.roo-cline/tasks/1790000000000"
    around = {"type": "text", "text": "<environment_details>\nx\n</environment_details>"}
    tag = f"<execute_command>\n<command>{COMMAND}</command>\n</execute_command>"
    done = f"<attempt_completion>\n<result>{END}</result>\n</attempt_completion>"
    write_json(
        folder / "api_conversation_history.json",
        [
            {
                "role": "user",
                "ts": AT,
                "content": [{"type": "text", "text": f"<task>\n{ASKED}\n</task>"}, around],
            },
            {
                "role": "assistant",
                "ts": AT,
                "content": [
                    {"type": "text", "text": f"<thinking>{THOUGHT}</thinking>\n{SAID}\n{tag}"}
                ],
            },
            {
                "role": "user",
                "ts": AT,
                "content": [
                    {"type": "text", "text": f"[execute_command for '{COMMAND}'] Result:"},
                    {"type": "text", "text": CAME},
                    around,
                ],
            },
            {"role": "assistant", "ts": AT, "content": [{"type": "text", "text": done}]},
        ],
    )
    request = {"tokensIn": 60, "tokensOut": 20, "cacheReads": 40, "cacheWrites": 0, "cost": 0.1}
    write_json(
        folder / "ui_messages.json",
        [
            {"ts": AT, "type": "say", "say": "text", "text": ASKED},
            {"ts": AT + 1, "type": "say", "say": "api_req_started", "text": "{", "partial": True},
            {
                "ts": AT + 1,
                "type": "say",
                "say": "api_req_started",
                "text": json.dumps(request),
                "modelInfo": {"modelId": "m-1"},
            },
        ],
    )
    write_json(folder / "history_item.json", {"task": "A title", "workspace": CWD})


GOOSE = """
CREATE TABLE sessions (id TEXT, name TEXT, working_dir TEXT, created_at TEXT, updated_at TEXT,
  session_type TEXT, model_config_json TEXT);
CREATE TABLE messages (id INTEGER PRIMARY KEY, message_id TEXT, session_id TEXT, role TEXT,
  content_json TEXT, created_timestamp INTEGER, metadata_json TEXT);
CREATE TABLE usage_ledger (id INTEGER PRIMARY KEY, session_id TEXT, created_timestamp INTEGER,
  model TEXT, input_tokens INTEGER, output_tokens INTEGER, cache_read_tokens INTEGER);
"""


def goose(user: Path) -> None:
    own, at = "20260921_1", AT // 1000
    thought = {"type": "thinking", "thinking": THOUGHT}
    asked = {"status": "success", "value": {"name": "shell", "arguments": {"command": COMMAND}}}
    came = {
        "status": "success",
        "value": {"content": [{"type": "text", "text": CAME}], "isError": True},
    }
    contents: list[tuple[str, list[dict[str, Any]], dict[str, Any]]] = [
        ("user", [{"type": "text", "text": ASKED}], {"userVisible": True}),
        (
            "user",
            [{"type": "text", "text": "context"}],
            {"userVisible": False, "turnContext": True},
        ),
        ("assistant", [thought, {"type": "text", "text": SAID}], {}),
        ("assistant", [thought, {"type": "toolRequest", "id": "c1", "toolCall": asked}], {}),
        ("user", [{"type": "toolResponse", "id": "c1", "toolResult": came}], {}),
        ("assistant", [{"type": "text", "text": END}], {}),
    ]
    rows = [
        ("messages", (n, f"m{n}", own, role, json.dumps(told), at, json.dumps(about)))
        for n, (role, told, about) in enumerate(contents, 1)
    ]
    session = (
        own,
        "A title",
        CWD,
        "2026-09-21 14:13:20",
        "2026-09-21 14:14:00",
        "user",
        json.dumps({"model_name": "m-1"}),
    )
    write_database(
        user / ".local/share/goose/sessions/sessions.db",
        GOOSE,
        ("sessions", session),
        *rows,
        ("usage_ledger", (1, own, at, "m-1", 100, 20, 40)),
    )


LLM = """
CREATE TABLE threads (id TEXT, name TEXT, tip_message_hash TEXT, datetime_utc TEXT);
CREATE TABLE messages (hash TEXT PRIMARY KEY, parent_hash TEXT, role TEXT);
CREATE TABLE parts (id INTEGER PRIMARY KEY, message_hash TEXT, position INTEGER, type TEXT,
  tool_name TEXT, text TEXT, payload TEXT);
CREATE TABLE turns (id TEXT, thread_id TEXT, tip_message_hash TEXT, model TEXT,
  input_tokens INTEGER, output_tokens INTEGER, token_details TEXT, datetime_utc TEXT);
"""


def llm(user: Path) -> None:
    called = json.dumps({"name": "shell", "arguments": {"command": COMMAND}, "tool_call_id": "c1"})
    came = json.dumps({"name": "shell", "output": "", "exception": CAME, "tool_call_id": "c1"})
    details = json.dumps({"prompt_tokens_details": {"cached_tokens": 40}})
    write_database(
        user / ".config/io.datasette.llm/logs.db",
        LLM,
        ("threads", ("llm-1", "A title", "h4", ISO)),
        ("messages", ("h1", None, "user")),
        ("messages", ("h2", "h1", "assistant")),
        ("messages", ("h3", "h2", "tool")),
        ("messages", ("h4", "h3", "assistant")),
        ("parts", (1, "h1", 0, "text", None, ASKED, None)),
        ("parts", (2, "h2", 0, "reasoning", None, THOUGHT, None)),
        ("parts", (3, "h2", 1, "text", None, SAID, None)),
        ("parts", (4, "h2", 2, "tool_call", "shell", None, called)),
        ("parts", (5, "h3", 0, "tool_result", "shell", None, came)),
        ("parts", (6, "h4", 0, "text", None, END, None)),
        ("turns", ("t1", "llm-1", "h2", "m-1", 100, 20, details, ISO)),
    )


CRUSH = """
CREATE TABLE sessions (id TEXT, parent_session_id TEXT, title TEXT, prompt_tokens INTEGER,
  completion_tokens INTEGER, cost REAL, created_at INTEGER, updated_at INTEGER);
CREATE TABLE messages (id TEXT, session_id TEXT, role TEXT, parts TEXT, model TEXT,
  created_at INTEGER, updated_at INTEGER);
"""


def crush(user: Path) -> None:
    at, project = AT // 1000, user / "shop"
    asked = {"id": "c1", "name": "shell", "input": json.dumps({"command": COMMAND})}
    parts: list[tuple[str, list[tuple[str, dict[str, Any]]]]] = [
        ("user", [("text", {"text": ASKED})]),
        (
            "assistant",
            [
                ("reasoning", {"thinking": THOUGHT}),
                ("text", {"text": SAID}),
                ("tool_call", asked),
                ("finish", {"reason": "tool_use"}),
            ],
        ),
        ("tool", [("tool_result", {"tool_call_id": "c1", "content": CAME, "is_error": True})]),
        ("assistant", [("text", {"text": END}), ("finish", {"reason": "end_turn"})]),
    ]
    rows = [
        (
            "messages",
            (
                f"m{n}",
                "crush-1",
                role,
                json.dumps([{"type": k, "data": d} for k, d in told]),
                "m-1",
                at,
                at,
            ),
        )
        for n, (role, told) in enumerate(parts)
    ]
    session = ("crush-1", None, "A title", 500, 7, 0.5, at, at)
    write_database(project / ".crush/crush.db", CRUSH, ("sessions", session), *rows)
    listed = {"projects": [{"path": str(project), "data_dir": ".crush"}]}
    write_json(user / ".local/share/crush/projects.json", listed)


def openhands(user: Path) -> None:
    folder = user / ".openhands/conversations/ca2898791d4a4282912c719210f822ad"
    counts = {"prompt_tokens": 100, "completion_tokens": 20, "cache_read_tokens": 40}
    metrics = {"model_name": "m-1", "accumulated_token_usage": counts}
    write_json(
        folder / "base_state.json",
        {
            "id": "x",
            "agent": {"llm": {"model": "m-1", "api_key": "k"}},
            "workspace": {"working_dir": CWD},
            "stats": {"usage_to_metrics": {"agent": metrics}},
        },
    )
    text = [{"type": "text", "text": SAID}]
    arguments = json.dumps({"command": COMMAND})
    shown = {"content": [{"type": "text", "text": f"\x1b[?2004l{CAME}"}], "is_error": True}
    events: list[dict[str, Any]] = [
        {"kind": "MessageEvent", "source": "user", "llm_message": {"content": [{"text": ASKED}]}},
        {
            "kind": "ActionEvent",
            "thought": text,
            "reasoning_content": THOUGHT,
            "tool_name": "shell",
            "tool_call_id": "c1",
            "tool_call": {"arguments": arguments},
            "llm_response_id": "r1",
        },
        {
            "kind": "ObservationEvent",
            "tool_name": "shell",
            "tool_call_id": "c1",
            "observation": shown,
        },
        {"kind": "MessageEvent", "source": "agent", "llm_message": {"content": [{"text": END}]}},
    ]
    for n, event in enumerate(events):
        told = {"id": f"e{n}", "timestamp": "2026-09-21T14:13:20.000000", **event}
        write_json(folder / f"events/event-{n:05}-e{n}.json", told)


def amp(user: Path) -> None:
    usage = {
        "model": "m-1",
        "inputTokens": 60,
        "outputTokens": 20,
        "cacheReadInputTokens": 40,
        "cacheCreationInputTokens": 0,
    }
    came = {"type": "tool_result", "toolUseID": "c1", "run": {"status": "error", "error": CAME}}
    write_json(
        user / ".local/share/amp/threads/T-1.json",
        {
            "v": 4,
            "id": "T-1",
            "created": AT,
            "title": "A title",
            "env": {"initial": {"trees": [{"uri": f"file://{CWD}"}]}},
            "messages": [
                {"role": "user", "messageId": 0, "content": [{"type": "text", "text": ASKED}]},
                {"role": "assistant", "messageId": 1, "content": THINKS, "usage": usage},
                {"role": "user", "messageId": 2, "content": [came]},
                {"role": "assistant", "messageId": 3, "content": FINAL},
            ],
        },
    )


def droid(user: Path) -> None:
    folder, own = user / ".factory/sessions/-home-ada-shop", "droid-1"
    reminder = {"type": "text", "text": "<system-reminder>\nx\n</system-reminder>"}
    asked = [reminder, {"type": "text", "text": ASKED}]

    def message(n: int, role: str, content: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        told = {"role": role, "content": content, **more}
        return {"type": "message", "id": f"m{n}", "timestamp": ISO, "message": told}

    notice = [{"type": "text", "text": "Token limit reached."}]
    write_lines(
        folder / f"{own}.jsonl",
        {"type": "session_start", "id": own, "sessionTitle": "A title", "cwd": CWD},
        message(1, "user", asked),
        message(2, "assistant", THINKS),
        message(3, "user", [GAVE]),
        message(4, "assistant", FINAL),
        message(5, "user", notice, visibility="user_only"),
    )
    counts = {"inputTokens": 60, "outputTokens": 20, "cacheReadTokens": 40}
    write_json(folder / f"{own}.settings.json", {"model": "m-1", "tokenUsage": counts})


def vscode_copilot(user: Path) -> None:
    """A log of changes: it begins with nothing, and one request grows."""
    folder = user / USER / "workspaceStorage/0123"
    asked = {"id": "call_1", "name": "shell", "arguments": json.dumps({"command": COMMAND})}
    inside = {
        "toolCallRounds": [{"toolCalls": [asked]}],
        "toolCallResults": {"call_1": {"content": [{"value": {"node": {"text": CAME}}}]}},
        "promptTokens": 5000,
        "outputTokens": 20,
    }
    request = {
        "requestId": "r1",
        "timestamp": AT,
        "modelId": "m-1",
        "message": {"text": ASKED},
        "response": [{"kind": "thinking", "value": "no"}],
    }
    shown = {"kind": "toolInvocationSerialized", "toolCallId": "t1", "toolId": "run"}
    write_lines(
        folder / "chatSessions/vscode-1.jsonl",
        {"kind": 0, "v": {"version": 3, "sessionId": "vscode-1", "requests": [], "gone": 1}},
        {"kind": 2, "k": ["requests"], "v": [request]},
        {
            "kind": 2,
            "k": ["requests", 0, "response"],
            "i": 0,
            "v": [
                {"kind": "thinking", "value": THOUGHT},
                {"value": SAID},
                {"kind": "prepareToolInvocation"},
                shown,
            ],
        },
        {"kind": 2, "k": ["requests", 0, "response"], "v": [{"value": END}]},
        {"kind": 1, "k": ["requests", 0, "result"], "v": {"metadata": inside}},
        {"kind": 1, "k": ["customTitle"], "v": "A title"},
        {"kind": 3, "k": ["gone"]},
    )
    write_json(folder / "chatSessions/vscode-1.json", {"requests": [{"message": {"text": "old"}}]})
    write_json(folder / "workspace.json", {"folder": f"file://{CWD}"})


ZED = """
CREATE TABLE threads (id TEXT, summary TEXT, updated_at TEXT, created_at TEXT, data_type TEXT,
  data BLOB, parent_id TEXT, folder_paths TEXT);
"""


def zed(user: Path) -> None:
    used = {"id": "c1", "name": "shell", "input": {"command": COMMAND}}
    came = {"tool_name": "shell", "is_error": True, "content": {"Text": CAME}}
    counts = {"input_tokens": 60, "output_tokens": 20, "cache_read_input_tokens": 40}
    told: dict[str, Any] = {
        "version": "0.3.0",
        "title": "A title",
        "model": {"model": "m-1"},
        "request_token_usage": {"u1": counts},
        "messages": [
            {"User": {"id": "u1", "content": [{"Text": ASKED}]}},
            {
                "Agent": {
                    "content": [{"Thinking": {"text": THOUGHT}}, {"Text": SAID}, {"ToolUse": used}],
                    "tool_results": {"c1": came},
                }
            },
            "Resume",
            {"Agent": {"content": [{"Text": END}], "tool_results": {}}},
        ],
    }
    packed = zstandard.compress(json.dumps(told).encode())
    row = ("zed-1", "A title", ISO, ISO, "zstd", packed, None, CWD)
    path = user / ".local/share/zed/threads/threads.db"
    write_database(path, ZED, ("threads", row))


def mistral_vibe(user: Path) -> None:
    """A store whose newest generation lacks the last entry, which the journal has."""
    folder = user / ".vibe/logs/session/unified/vibe-1"
    state = {"status": "failed", "outputText": CAME}
    detail = {"kind": "tool", "toolName": "shell", "input": {"command": COMMAND}}
    entries: list[dict[str, Any]] = [
        {"type": "message", "role": "user", "content": [{"text": ASKED}]},
        {"type": "reasoning", "text": THOUGHT},
        {"type": "message", "role": "assistant", "content": [{"text": SAID}]},
        {"type": "effect", "detail": detail, "state": state},
        {"type": "message", "role": "assistant", "content": [{"text": END}]},
    ]
    told = [{"id": f"e{n}", "createdAt": AT, **one} for n, one in enumerate(entries)]
    write_json(folder / "CURRENT", {"generation": "0025", "snapshot_sequence": 25})
    write_json(folder / "generations/0025/manifest.json", {"projection_state": {"chunks": ["ab"]}})
    usage = {"inputTokens": 100, "outputTokens": 20, "cachedInputTokens": 40}
    write_json(
        folder / "generations/0025/projection-state.json",
        {
            "snapshot": {"session": {"tokenUsage": usage, "createdAt": AT}},
        },
    )
    write_json(folder / "chunks/ab.json", told[:4])

    def delta(sequence: int, entry: dict[str, Any]) -> dict[str, Any]:
        payload = {"delta": [{"entry": entry}]}
        return {"type": "projection_delta", "sequence": sequence, "payload": payload}

    # What the generation was made of is told once more: the generation is newer.
    write_lines(
        folder / "journal/0001.jsonl", delta(20, {**told[3], "state": {"status": "running"}})
    )
    newer = {"type": "core_input", "sequence": 26}
    write_lines(folder / "journal/0026.jsonl", newer, delta(27, told[4]))
    write_json(
        folder / "meta.json",
        {
            "title": "A title",
            "environment": {"working_directory": CWD},
            "model": "m-1",
        },
    )


def iflow(user: Path) -> None:
    """An answer that is written again while it streams."""
    about = {"sessionId": "iflow-1", "cwd": CWD, "timestamp": ISO}
    usage = {"input_tokens": 60, "output_tokens": 20, "cache_read_input_tokens": 40}

    def said(uuid: str, content: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        told = {"role": "assistant", "model": "m-1", "content": content, **more}
        return {**about, "uuid": uuid, "parentUuid": "1", "type": "assistant", "message": told}

    asked = {"role": "user", "content": ASKED}
    came = {"responseParts": {"functionResponse": {"response": {"error": CAME}}}}
    result = {**GAVE, "content": came}
    last = {"role": "assistant", "model": "m-1", "content": FINAL}
    write_lines(
        user / ".iflow/projects/-home-ada-shop/session-iflow-1.jsonl",
        {**about, "uuid": "1", "type": "user", "message": asked},
        said("2", THINKS[:2]),
        said("3", THINKS, usage=usage),
        {
            **about,
            "uuid": "4",
            "parentUuid": "3",
            "type": "user",
            "message": {"role": "user", "content": [result]},
        },
        {**about, "uuid": "5", "parentUuid": "4", "type": "assistant", "message": last},
    )


def goose_logs(user: Path) -> None:
    """A session of the versions that wrote line logs."""
    asked = {"status": "success", "value": {"name": "shell", "arguments": GIVEN}}
    came = {
        "status": "success",
        "value": {"content": [{"type": "text", "text": CAME}], "isError": True},
    }
    calls = {"type": "toolRequest", "id": "c1", "toolCall": asked}
    sums = {"accumulated_input_tokens": 100, "accumulated_output_tokens": 20}
    contents: list[tuple[str, list[dict[str, Any]]]] = [
        ("user", [{"type": "text", "text": ASKED}]),
        ("assistant", [*THINKS[:2], calls]),
        ("user", [{"type": "toolResponse", "id": "c1", "toolResult": came}]),
        ("assistant", FINAL),
    ]
    write_lines(
        user / ".local/share/goose/sessions/20250921_141320.jsonl",
        {"working_dir": CWD, "description": "A title", **sums, "accumulated_cache_read_tokens": 40},
        *({"role": role, "created": AT // 1000, "content": told} for role, told in contents),
    )


def kimi_cli(user: Path) -> None:
    folder = user / ".kimi/sessions" / md5(CWD.encode(), usedforsecurity=False).hexdigest() / "k1"

    def shown(kind: str, **payload: Any) -> dict[str, Any]:
        return {"timestamp": AT / 1000, "message": {"type": kind, "payload": payload}}

    counts = {"input_other": 60, "output": 20, "input_cache_read": 40}
    function = {"name": "shell", "arguments": json.dumps(GIVEN)}
    write_lines(
        folder / "wire.jsonl",
        {"type": "metadata", "protocol_version": "1.9"},
        shown("TurnBegin", user_input=ASKED),
        shown("ContentPart", type="think", think=THOUGHT),
        shown("ContentPart", type="text", text=SAID),
        shown("ToolCall", type="function", id="c1", function=function),
        shown("StatusUpdate", token_usage=counts, message_id="m1"),
        shown("ToolResult", tool_call_id="c1", return_value={"is_error": True, "output": CAME}),
        shown("ContentPart", type="text", text=END),
        shown("TurnEnd"),
    )
    write_lines(folder / "context.jsonl", {"role": "user", "content": ASKED})
    write_json(folder / "state.json", {"custom_title": "A title"})
    write_json(user / ".kimi/kimi.json", {"work_dirs": [{"path": CWD}]})


def kiro_lines(user: Path) -> None:
    own = "5f0c2a7e-41d3-4c1b-9a52-0c6d1be2a901"
    folder = user / ".kiro/sessions/cli"

    def line(kind: str, *blocks: tuple[str, object]) -> dict[str, Any]:
        told = [{"kind": name, "data": data} for name, data in blocks]
        return {"kind": kind, "data": {"content": told, "meta": {"timestamp": AT // 1000}}}

    use = {"toolUseId": "c1", "name": "shell", "input": GIVEN}
    came = {"toolUseId": "c1", "content": [{"kind": "text", "data": CAME}], "status": "error"}
    write_lines(
        folder / f"{own}.jsonl",
        line("Prompt", ("text", ASKED)),
        line("AssistantMessage", ("thinking", THOUGHT), ("text", SAID), ("toolUse", use)),
        line("ToolResults", ("toolResult", came)),
        line("AssistantMessage", ("text", END)),
    )
    write_json(folder / f"{own}.json", {"session_id": own, "cwd": CWD, "title": "A title"})


def auggie(user: Path) -> None:
    use = {"tool_use_id": "c1", "tool_name": "shell", "input_json": json.dumps(GIVEN)}
    came = {"tool_use_id": "c1", "content": CAME, "is_error": True}
    first = {
        "request_message": ASKED,
        "response_text": SAID,
        "response_nodes": [{"thinking": {"summary": THOUGHT}}, {"tool_use": use}],
    }
    last = {"request_nodes": [{"tool_result_node": came}], "response_text": END}
    write_json(
        user / ".augment/sessions/a1.json",
        {
            "sessionId": "a1",
            "created": ISO,
            "title": "A title",
            "workspaceRoot": CWD,
            "modelId": "m-1",
            "chatHistory": [{"exchange": one} for one in (first, last)],
        },
    )


def vibe_logs(user: Path) -> None:
    folder = user / ".vibe/logs/session/session_20260921_141320_5f0c2a7e"
    function = {"name": "shell", "arguments": json.dumps(GIVEN)}
    asking = {
        "role": "assistant",
        "content": SAID,
        "reasoning_content": THOUGHT,
        "tool_calls": [{"id": "c1", "type": "function", "function": function}],
    }
    write_lines(
        folder / "messages.jsonl",
        {"role": "system", "content": "You are Vibe."},
        {"role": "user", "content": ASKED},
        asking,
        {"role": "tool", "content": CAME, "tool_call_id": "c1", "name": "shell"},
        {"role": "assistant", "content": END},
    )
    write_json(
        folder / "meta.json",
        {
            "session_id": "v1",
            "title": "A title",
            "start_time": ISO,
            "environment": {"working_directory": CWD},
            "config": {"model_name": "m-1"},
            "stats": {"session_prompt_tokens": 60, "session_completion_tokens": 20},
        },
    )


CLAW = """
CREATE TABLE transcript_events (session_id TEXT, seq INTEGER, event_json TEXT, event_zstd BLOB);
CREATE TABLE session_windows (session_id TEXT PRIMARY KEY, session_key TEXT);
CREATE TABLE session_nodes (session_key TEXT PRIMARY KEY, current_session_id TEXT, label TEXT);
"""


def openclaw(user: Path) -> None:
    own = "f1000000-0000-4000-8000-000000000001"
    asking = [
        {"type": "thinking", "thinking": THOUGHT},
        {"type": "text", "text": SAID},
        {"type": "toolCall", "id": "c1", "name": "shell", "arguments": GIVEN},
    ]
    usage = {"input": 60, "output": 20, "cacheRead": 40, "cacheWrite": 0}
    came = {"toolCallId": "c1", "toolName": "shell", "isError": True}
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are"},
        {"role": "user", "content": ASKED},
        {"role": "assistant", "model": "m-1", "usage": usage, "content": asking},
        {"role": "toolResult", "content": [{"type": "text", "text": CAME}], **came},
        {"role": "assistant", "model": "m-1", "content": FINAL},
    ]
    records = [
        {"type": "session", "version": 4, "id": own, "cwd": CWD, "timestamp": ISO},
        *(
            {"type": "message", "id": f"e{n}", "timestamp": ISO, "message": message}
            for n, message in enumerate(messages)
        ),
    ]
    rows: list[tuple[str, tuple[object, ...]]] = []
    for seq, one in enumerate(records):
        told = json.dumps(one)
        packed = zstandard.compress(told.encode()) if seq == 2 else None
        rows.append(("transcript_events", (own, seq, None if packed else told, packed)))
    write_database(
        user / ".openclaw/agents/main/agent/openclaw-agent.sqlite",
        CLAW,
        ("session_windows", (own, "agent:main:main")),
        ("session_nodes", ("agent:main:main", own, "A title")),
        *rows,
    )


def qwen_json(user: Path) -> None:
    """A session of the first versions, which wrote what Gemini CLI did."""
    asked = {"id": "c1", "name": "shell", "args": GIVEN, "status": "error", "timestamp": ISO}
    came = {"functionResponse": {"id": "c1", "name": "shell", "response": {"error": CAME}}}
    answer = {
        "id": "2",
        "type": "gemini",
        "timestamp": ISO,
        "content": SAID,
        "model": "m-1",
        "thoughts": [{"subject": "", "description": THOUGHT, "timestamp": ISO}],
        "tokens": {"input": 100, "output": 20, "cached": 40},
        "toolCalls": [{**asked, "result": [came]}],
    }
    write_json(
        user / f".qwen/tmp/{'0' * 64}/chats/session-2025-09-21T14-13-5f0c2a7e.json",
        {
            "sessionId": "5f0c2a7e-41d3-4c1b-9a52-0c6d1be2a901",
            "startTime": ISO,
            "directories": [CWD],
            "summary": "A title",
            "messages": [
                {"id": "1", "type": "user", "timestamp": ISO, "content": ASKED},
                answer,
                {"id": "3", "type": "gemini", "timestamp": ISO, "content": END, "model": "m-1"},
            ],
        },
    )


# Ways in which a program keeps sessions beside the one that is named as it is.
AGENT_OF = {
    "goose-logs": "goose",
    "kiro-lines": "kiro",
    "vibe-logs": "mistral-vibe",
    "openclaw": "pi",
    "qwen-json": "qwen-code",
}
MADE: dict[str, Callable[[Path], None]] = {
    "qwen-code": qwen_code,
    "kimi-code": kimi_code,
    "gptme": gptme,
    "grok-build": grok_build,
    "continue": continue_dev,
    "cline": cline,
    "roo-code": roo_code,
    "goose": goose,
    "llm": llm,
    "crush": crush,
    "openhands": openhands,
    "amp": amp,
    "droid": droid,
    "vscode-copilot": vscode_copilot,
    "zed": zed,
    "mistral-vibe": mistral_vibe,
    "iflow": iflow,
    "goose-logs": goose_logs,
    "kimi-cli": kimi_cli,
    "kiro-lines": kiro_lines,
    "auggie": auggie,
    "vibe-logs": vibe_logs,
    "openclaw": openclaw,
    "qwen-json": qwen_json,
}
