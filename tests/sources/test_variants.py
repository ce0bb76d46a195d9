"""What the newer programs write besides the short story: forks, subagents, older forms, cuts."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.sources.made_homes import ASKED, CAME, COMMAND, GIVEN, GOOSE, LLM, MADE, SAID
from tests.sources.sample_support import look, write_database, write_json, write_lines
from tests.support.user_homes import open_history, settle

_KIMI = ".kimi-code/sessions/wd_demo_123456789abc"


def kimi_lines(*more: dict[str, Any]) -> list[dict[str, Any]]:
    counts = {"inputOther": 60, "output": 20, "inputCacheRead": 40, "inputCacheCreation": 0}
    return [
        {"type": "metadata", "protocol_version": "1.5", "time": 1_790_000_000_000},
        {
            "type": "turn.prompt",
            "input": [{"type": "text", "text": "Look"}],
            "origin": {"kind": "user"},
            "promptId": "p1",
            "time": 1_790_000_000_001,
        },
        {"type": "usage.record", "model": "k", "usage": counts, "time": 1_790_000_000_002},
        *more,
    ]


def test_what_a_fork_copied_was_spent_by_the_session_that_it_was_forked_from(
    tmp_path: Path,
) -> None:
    user = tmp_path / "user"
    for name, forked, more in (
        ("session_b", None, ()),
        ("session_a", "session_b", ({"type": "forked", "time": 1_790_000_000_009},)),
    ):
        folder = user / _KIMI / name
        write_lines(folder / "agents/main/wire.jsonl", *kimi_lines(*more))
        write_json(folder / "state.json", {"id": name, "cwd": "/demo", "forkedFrom": forked})
    seen = look(user, tmp_path / "home")
    assert seen["session_b"].tokens["input"] == 60
    assert set(seen["session_a"].tokens.values()) == {0}
    assert seen["session_a"].session.parent_session_id == "session_b"


# ------------------------------------------------------------------------------ goose

_GOOSE = ".local/share/goose/sessions/sessions.db"
_BEGUN = "2026-09-21 14:13:20"


def goose_rows(*contents: tuple[str, list[dict[str, Any]]]) -> list[tuple[str, tuple[object, ...]]]:
    about = json.dumps({"userVisible": True})
    return [
        ("messages", (n, f"m{n}", "20260921_1", role, json.dumps(told), 1_790_000_000, about))
        for n, (role, told) in enumerate(contents, 1)
    ]


def test_a_picture_is_shown_beside_what_was_asked_and_is_no_prompt(tmp_path: Path) -> None:
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    asked = {"type": "text", "text": "What is this?"}
    frontend = {"status": "success", "value": {"name": "show", "arguments": GIVEN}}
    rows = goose_rows(
        ("user", [asked, image]),
        ("assistant", [{"type": "frontendToolRequest", "id": "f1", "toolCall": frontend}]),
    )
    session = ("20260921_1", "", "/demo", _BEGUN, _BEGUN, "user", None)
    write_database(tmp_path / "user" / _GOOSE, GOOSE, ("sessions", session), *rows)
    blocks = [asked, {"type": "image", "source": {"data": "aGk=", "media_type": "image/png"}}]
    write_lines(
        tmp_path / "user/.iflow/projects/demo/session-i1.jsonl",
        {
            "sessionId": "i1",
            "uuid": "1",
            "type": "user",
            "message": {"role": "user", "content": blocks},
        },
    )
    seen = look(tmp_path / "user", tmp_path / "home")
    shown = [("prompt", "What is this?"), ("note", "[image]")]
    assert seen["i1"].said == shown
    (goose,) = (one for name, one in seen.items() if name.startswith("20260921_1"))
    assert goose.said == [*shown, ("tool_call", COMMAND)]
    assert goose.calls == [("f1", "show")]


def test_a_subagent_of_goose_is_below_the_session_that_asked(tmp_path: Path) -> None:
    script = GOOSE.replace("session_type TEXT,", "session_type TEXT, parent_session_id TEXT,")
    rows = [
        ("sessions", ("20260921_1", "A", "/demo", _BEGUN, _BEGUN, "user", None, None)),
        ("sessions", ("20260921_2", "B", "/demo", _BEGUN, _BEGUN, "sub_agent", "20260921_1", None)),
    ]
    said = json.dumps([{"type": "text", "text": "Look"}])
    messages = [
        ("messages", (n, "m", f"20260921_{n}", "user", said, 1_790_000_000, None)) for n in (1, 2)
    ]
    write_database(tmp_path / "user" / _GOOSE, script, *rows, *messages)
    seen = look(tmp_path / "user", tmp_path / "home")
    above, below = (seen[name].session for name in sorted(seen))
    assert (below.parent_session_id, below.is_subagent) == (above.session_id, True)
    assert (above.parent_session_id, above.is_subagent) == (None, False)


def test_what_goose_takes_over_from_its_older_logs_is_there_once(tmp_path: Path) -> None:
    user, own = tmp_path / "user", "20250921_141320"
    MADE["goose-logs"](user)
    before = look(user, tmp_path / "home")[own]
    lines = [json.loads(line) for line in before.lines]
    MADE["goose"](user)
    with closing(sqlite3.connect(user / _GOOSE)) as owner, owner:
        session = (own, "A title", "/home/ada/shop", "2025-09-21 14:13:20", _BEGUN, "user", None)
        owner.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?)", session)
        for line in lines[1:]:
            told = (own, line["role"], json.dumps(line["content"]), line["created"])
            owner.execute(
                "INSERT INTO messages (session_id, role, content_json, created_timestamp)"
                " VALUES (?, ?, ?, ?)",
                told,
            )
    seen = look(user, tmp_path / "home")
    assert len(seen) == 2
    assert (seen[own].said, seen[own].session.title) == (before.said, "A title")
    assert seen[own].tokens == before.tokens


# ------------------------------------------------------------------------------ llm

_BORROWED = """
CREATE TABLE fragments (id INTEGER PRIMARY KEY, content TEXT);
CREATE TABLE attachments (id TEXT PRIMARY KEY, type TEXT, path TEXT, url TEXT);
CREATE TABLE part_attachments (part_id INTEGER, attachment_id TEXT, "order" INTEGER);
CREATE TABLE conversations (id TEXT PRIMARY KEY, name TEXT, model TEXT);
CREATE TABLE responses (id TEXT, model TEXT, prompt TEXT, system TEXT, response TEXT,
  conversation_id TEXT, input_tokens INTEGER, output_tokens INTEGER, datetime_utc TEXT);
CREATE TABLE prompt_fragments (response_id TEXT, fragment_id INTEGER, "order" INTEGER);
"""


def test_long_texts_that_llm_keeps_once_stand_where_they_were_said(tmp_path: Path) -> None:
    borrowed = {"text_ref": [{"fragment": 7}, {"literal": "\nSum this up"}]}
    missing = {"text_ref": [{"literal": "No "}, {"fragment": 8}, {"fragment": [1]}]}
    at = "2026-11-17T04:00:00"
    write_database(
        tmp_path / "user/.config/io.datasette.llm/logs.db",
        LLM + _BORROWED,
        ("fragments", (7, "A long text.")),
        ("threads", ("t1", "", "h2", at)),
        ("messages", ("h1", None, "user")),
        ("messages", ("h2", "h1", "assistant")),
        ("parts", (1, "h1", 0, "text", None, None, json.dumps(borrowed))),
        ("parts", (2, "h1", 1, "attachment", None, None, "{}")),
        ("parts", (3, "h2", 0, "text", None, None, json.dumps(missing))),
        ("attachments", ("a1", "image/png", "/tmp/a.png", None)),
        ("part_attachments", (2, "a1", 0)),
        ("turns", ("u1", "t1", "h2", "m-1", 10, 2, None, at)),
        ("conversations", ("c1", "", "m-1")),
        ("responses", ("r1", "m-1", "And this?", "", "Yes.", "c1", 3, 1, at)),
        ("prompt_fragments", ("r1", 7, 0)),
    )
    seen = look(tmp_path / "user", tmp_path / "home")
    assert seen["t1"].said == [
        ("prompt", "A long text.\nSum this up"),
        ("note", "[attachment] /tmp/a.png"),
        ("text", "No "),
    ]
    assert seen["c1"].said == [("prompt", "A long text.\nAnd this?"), ("text", "Yes.")]


# ------------------------------------------------------------------------------ Mistral Vibe


def test_calls_that_only_the_journal_of_vibe_has_are_shown_as_notes(tmp_path: Path) -> None:
    action = "23c6bc33-5f09-5a5d-8c9a-43e98edba3c5"
    folder = tmp_path / "user/.vibe/logs/session/unified/v1"
    about = {"createdAt": 1_790_000_000_000, "type": "message"}
    prompt = {**about, "id": "user-1", "role": "user", "content": [{"type": "text", "text": ASKED}]}
    answer = {**about, "id": f"assistant-{action}", "role": "assistant", "content": SAID}
    asked = [
        {
            "type": "tool_call",
            "id": "c1",
            "name": "run_typescript",
            "arguments_json": json.dumps({"code": COMMAND}),
        },
        {"type": "tool_call", "id": "c2", "name": "read_file", "arguments_json": "{}"},
    ]
    came = [
        {"role": "tool", "tool_call_id": own, "outcome": "failure", "content": CAME}
        for own in ("c1", "c2")
    ]
    result = {"action_id": action, "result": {"result": {"parts": asked}}}
    tool = {"action_id": "a2", "request": {"call_id": "c2"}}
    given = {"request": {"model_input": {"messages": {"messages": came}}}}
    delta = {"delta": [{"entry": prompt}, {"entry": answer}]}
    write_lines(
        folder / "journal/0000000000000001.jsonl",
        {"sequence": 1, "type": "projection_delta", "payload": delta},
        {"sequence": 2, "type": "action_result", "payload": result},
        {"sequence": 3, "type": "action_intent", "payload": tool},
        {"sequence": 4, "type": "action_intent", "payload": given},
    )
    write_json(folder / "CURRENT", {"generation": "1", "snapshot_sequence": 0})
    write_json(folder / "meta.json", {"config": {"model_name": "m-1"}})
    seen = look(tmp_path / "user", tmp_path / "home")["v1"]
    ran = [("note", "run_typescript: code: ls"), ("note", CAME)]
    assert seen.said == [("prompt", ASKED), ("text", SAID), *ran]
    assert seen.session.model == "m-1"


def test_a_subagent_of_vibe_2_lies_in_the_folder_of_the_one_that_asked(tmp_path: Path) -> None:
    MADE["vibe-logs"](tmp_path / "user")
    (above,) = (tmp_path / "user").rglob("session_*")
    write_lines(above / "agents/explore/messages.jsonl", {"role": "user", "content": "Look"})
    write_json(above / "agents/explore/meta.json", {"session_id": "v2"})
    session = look(tmp_path / "user", tmp_path / "home")["v2"].session
    assert (session.parent_session_id, session.is_subagent) == ("v1", True)


# ------------------------------------------------------------------------------ others


def test_a_branch_that_an_undo_left_is_a_session_below_its_own(tmp_path: Path) -> None:
    MADE["gptme"](tmp_path / "user")
    folder = tmp_path / "user/.local/share/gptme/logs/gptme-1"
    said = {"role": "user", "content": "Undone", "timestamp": "2026-09-21T14:13:24"}
    write_lines(folder / "branches/main-undo-0.jsonl", said)
    seen = look(tmp_path / "user", tmp_path / "home")
    branch = seen["gptme-1/main-undo-0"]
    assert (branch.said, branch.session.parent_session_id) == ([("prompt", "Undone")], "gptme-1")


def test_a_session_that_openclaw_spawned_is_a_subagent(tmp_path: Path) -> None:
    MADE["openclaw"](tmp_path / "user")
    (path,) = (tmp_path / "user").rglob("*.sqlite")
    with closing(sqlite3.connect(path)) as owner, owner:
        owner.execute("ALTER TABLE session_windows ADD COLUMN spawned_by TEXT")
        owner.execute("UPDATE session_windows SET spawned_by = 'agent:main:main'")
    (seen,) = look(tmp_path / "user", tmp_path / "home").values()
    assert seen.session.is_subagent


def test_pi_counts_what_summaries_tools_and_a_warm_cache_took(tmp_path: Path) -> None:
    """Each that asked a model is counted; none that Pi or OpenClaw writes is unknown."""

    def entry(number: int, type_: str, **told: Any) -> dict[str, Any]:
        at = f"2026-11-01T10:00:0{number}.000Z"
        return {"type": type_, "id": f"e{number}", "timestamp": at, **told}

    usage = {"input": 10, "output": 2, "cacheRead": 1, "cacheWrite": 0}
    content = [{"type": "text", "text": SAID}]
    answer = {"role": "assistant", "model": "m-1", "usage": usage, "content": content}
    result = {"role": "toolResult", "toolCallId": "c1", "content": [], "usage": usage}
    write_lines(
        tmp_path / "user/.pi/agent/sessions/--demo--/2026_5f0c2a7e.jsonl",
        entry(0, "session", version=3, id="5f0c2a7e", cwd="/demo"),
        entry(1, "message", message=answer),
        entry(2, "message", message=result),
        entry(3, "usage", kind="cache_warm", model="m-1", usage=usage),
        entry(4, "compaction", summary="In short", usage=usage),
        *(entry(5, kind) for kind in ("context_edit", "leaf", "reset")),
    )
    (seen,) = look(tmp_path / "user", tmp_path / "home").values()
    assert seen.tokens == {"input": 40, "output": 8, "cache_read": 4, "cache_write": 0}
    assert seen.unknown == {}


def test_what_a_person_says_while_kimi_answers_is_a_prompt(tmp_path: Path) -> None:
    """And no record that the program writes is unknown, as its own code names them."""
    quiet = (
        *("context.undo", "plan_mode.enter", "interaction.request", "turn.step.interrupted"),
        *("file_history.tracked", "config.update", "interruptionReminder.recorded"),
    )
    steer = {
        "type": "turn.steer",
        "input": [{"type": "text", "text": "No, the other one"}],
        "origin": {"kind": "user"},
        "messageId": "m2",
        "time": 1_790_000_000_005,
    }
    left = {"summary": {"role": "user", "content": [{"type": "text", "text": "In short"}]}}
    compacted = {"type": "context.apply_compaction", "count": 3, "time": 1_790_000_000_006, **left}
    folder = tmp_path / "user" / _KIMI / "session_c/agents/main"
    write_lines(
        folder / "wire.jsonl",
        *kimi_lines(steer, compacted, *({"type": kind, "time": 1} for kind in quiet)),
    )
    seen = look(tmp_path / "user", tmp_path / "home")["session_c"]
    prompts = [("prompt", "Look"), ("prompt", "No, the other one")]
    assert sorted(seen.said) == [*prompts, ("summary", "In short")]
    assert seen.unknown == {}


def test_what_a_compaction_of_cline_left_stands_behind_what_it_covers(tmp_path: Path) -> None:
    MADE["cline"](tmp_path / "user")
    (path,) = (tmp_path / "user").rglob("*.messages.json")
    left = {"id": "c1", "role": "user", "content": [{"type": "text", "text": "In short"}]}
    last = json.loads(path.read_text())["messages"][-1]
    write_json(
        path.with_name(f"{path.parent.name}.compaction.json"),
        {
            "version": 1,
            "updated_at": "2026-09-21T14:13:20.000Z",
            "source_message_count": 3,
            "messages": [left, last],
        },
    )
    (seen,) = look(tmp_path / "user", tmp_path / "home").values()
    assert [kind for kind, _ in seen.said][-3:] == ["tool_result", "summary", "text"]
    assert ("summary", "In short") in seen.said


@pytest.mark.parametrize("with_list", [True, False])
def test_a_task_without_an_item_is_named_by_the_list_of_all_tasks(
    tmp_path: Path, *, with_list: bool
) -> None:
    user, own = tmp_path / "user", "1770000000000"
    extension = user / ".config/Code/User/globalStorage/saoudrizwan.claude-dev"
    folder = extension / "tasks" / own
    asked = {"role": "user", "content": [{"type": "text", "text": "<task>Look</task>"}]}
    write_json(folder / "api_conversation_history.json", [asked])
    counts = {"tokensIn": 60, "tokensOut": 20, "cacheReads": 40, "cacheWrites": 0}
    if with_list:  # of what was shown; it has the tokens of each request
        said = {"ts": 1_770_000_000_001, "type": "say", "say": "api_req_started"}
        request = {**counts, "tokensIn": 50, "cost": 0.1}
        write_json(folder / "ui_messages.json", [{**said, "text": json.dumps(request)}])
    told = {"ts": 1_770_000_000_009, "task": "Look at the tides\nplease", "totalCost": 0.1}
    place = {"cwdOnTaskInitialization": "/c/harbor"}
    others = [{"id": "1760000000000", "task": "Another", "tokensIn": 7}]
    listed = [*others, {"id": own, **told, **place, **counts}]
    write_json(extension / "state" / "taskHistory.json", listed)
    (seen,) = look(user, tmp_path / "home").values()
    assert (seen.session.title, seen.session.cwd) == ("Look at the tides", "/c/harbor")
    assert seen.tokens["input"] == (50 if with_list else 60)
    assert seen.tokens["output"] == 20
    assert ("prompt", "Look") in seen.said


def test_a_transcript_of_the_editor_is_read_where_there_is_no_chat(tmp_path: Path) -> None:
    user, own = tmp_path / "user", "33333333-0000-4000-8000-00000000000"
    folder = user / ".config/Code/User/workspaceStorage/w1"
    for number in (1, 2):
        write_lines(
            folder / f"GitHub.copilot-chat/transcripts/{own}{number}.jsonl",
            {"type": "session.start", "id": "e0", "data": {"context": {"cwd": "/demo"}}},
            {"type": "user.message", "id": "e1", "data": {"content": "Look"}},
        )
    request = {"requestId": "r1", "message": {"text": "Chat"}, "response": []}
    write_json(folder / f"chatSessions/{own}2.json", {"version": 3, "requests": [request]})
    seen = look(user, tmp_path / "home")
    assert {name: one.said for name, one in seen.items()} == {
        f"{own}1": [("prompt", "Look")],
        f"{own}2": [("prompt", "Chat")],
    }
    assert {one.session.agent for one in seen.values()} == {"vscode-copilot"}


def test_a_rollout_of_trae_is_read_as_one_of_codex(tmp_path: Path) -> None:
    own = "019a0000-0000-7000-8000-000000000001"
    folder = tmp_path / "user/.trae/cli/sessions/2026/09/21"
    content = [{"type": "input_text", "text": "Look"}]
    write_lines(
        folder / f"rollout-2026-09-21T14-13-20-{own}.jsonl",
        {"type": "session_meta", "payload": {"id": own, "cwd": "/demo"}},
        {
            "type": "response_item",
            "payload": {"type": "message", "role": "user", "content": content},
        },
    )
    seen = look(tmp_path / "user", tmp_path / "home")[own]
    assert (seen.session.agent, seen.said, seen.session.cwd) == (
        "trae",
        [("prompt", "Look")],
        "/demo",
    )


@pytest.mark.parametrize(
    "agent, folder",
    [
        ("windsurf", ".codeium/windsurf/cascade"),
        ("antigravity", ".gemini/antigravity/conversations"),
        ("trae", ".config/Trae/User"),
        ("kiro-ide", ".config/Kiro/User/globalStorage/kiro.kiroagent"),
        ("junie", ".junie/sessions"),
        ("codebuff", ".config/manicode/projects"),
    ],
)
def test_what_cannot_be_read_is_told_where_it_was_found(
    tmp_path: Path, agent: str, folder: str
) -> None:
    user = tmp_path / "user"
    (user / folder).mkdir(parents=True)
    settle(user)
    with open_history(tmp_path / "home", user) as history:
        assert history.capture().errors == 0
        coverage = history.coverage()
    passed = {path: why for one in coverage.sources for path, why in one.passed.items()}
    assert list(passed) == [str(user / folder)]
    assert "found, not readable: " in passed[str(user / folder)]
    assert agent in {one.agent for one in coverage.sources}
