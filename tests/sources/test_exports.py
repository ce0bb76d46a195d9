"""Data exports of ChatGPT and Claude.ai: what they hold, and what a file made to hurt does."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.sources.sample_support import counts_of
from tests.support.user_homes import open_history
from threadkeep.capture.capture import History
from threadkeep.cli.originals import import_
from threadkeep.errors import Invalid, NotFound
from threadkeep.sources.exports import archive

ROOT = "00000000-0000-4000-8000-000000000000"


def node(own: str, parent: str | None, role: str, content: dict[str, Any], **more: Any) -> Any:
    author = {"role": role, "name": more.pop("name", None)}
    message = {"author": author, "content": content, "recipient": "all", **more}
    return own, {"id": own, "parent": parent, "children": [], "message": message}


def said(text: str) -> dict[str, Any]:
    return {"content_type": "text", "parts": [text]}


def chatgpt(answer: str = "Yes.") -> list[dict[str, Any]]:
    instructions = {"content_type": "user_editable_context", "user_instructions": "Be brief."}
    thoughts = {"content_type": "thoughts", "thoughts": [{"summary": "Plan", "content": "Think."}]}
    code = {"content_type": "code", "text": "rain()"}
    picture = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://f"}
    asked = {"content_type": "multimodal_text", "parts": [picture, "Does it rain?"]}
    nodes = [
        ("root", {"id": "root", "parent": None, "children": [], "message": None}),
        node("n1", "root", "user", instructions, create_time=1760000000.0),
        node("n2", "n1", "user", said("Does it snow?"), create_time=1760000001.0),
        node("n3", "n2", "assistant", said("No."), create_time=1760000002.0),
        node("n4", "n1", "user", asked, create_time=1760000003.0),
        node("n5", "n4", "assistant", thoughts, create_time=1760000004.0),
        node("n6", "n5", "assistant", code, recipient="python"),
        node("n7", "n6", "tool", {"content_type": "execution_output", "text": "42"}, name="python"),
        node("n8", "n7", "assistant", {"content_type": "reasoning_recap", "content": "3 s"}),
        node("n9", "n8", "assistant", said(answer), metadata={"model_slug": "gpt-5"}),
    ]
    return [
        {
            "conversation_id": "chat-1",
            "title": "Weather",
            "create_time": 1760000000.0,
            "current_node": "n9",
            "mapping": dict(nodes),
        }
    ]


def claude_ai() -> list[dict[str, Any]]:
    def message(n: int, sender: str, content: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        at = f"2026-03-01T10:0{n}:00.000000Z"
        return {"uuid": f"m{n}", "sender": sender, "created_at": at, "content": content, **more}

    attached = [{"file_name": "a.txt", "extracted_content": "a whole file"}]
    blocks: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": "Think."},
        {"type": "tool_use", "name": "search", "input": {"query": "rain"}},
        {"type": "tool_use", "name": "search", "input": {"query": "snow"}},
        {"type": "tool_result", "name": "search", "content": [{"type": "text", "text": "wet"}]},
        {"type": "tool_result", "name": "search", "content": [], "is_error": True},
        {"type": "text", "text": "Yes."},
        {"type": "token_budget"},
    ]
    return [
        {
            "uuid": "talk-1",
            "name": "Weather",
            "chat_messages": [
                message(
                    *(1, "human", [{"type": "text", "text": "Does it rain?"}]),
                    text="Does it rain?",
                    attachments=attached,
                    parent_message_uuid=ROOT,
                ),
                message(2, "assistant", blocks, text="flat", parent_message_uuid="m1"),
                message(3, "human", [], text="Thanks.", parent_message_uuid="m2"),
            ],
        }
    ]


def zipped(path: Path, **files: object) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        target.writestr("user.json", "{}")
        for name, content in files.items():
            target.writestr(f"{name}.json", json.dumps(content))
    return path


def opened(tmp_path: Path) -> History:
    user = tmp_path / "user"
    user.mkdir(exist_ok=True)
    return open_history(tmp_path / "home", user)


def told(history: History, session_id: str) -> list[tuple[str, str]]:
    found = {one.session_id: one for one in history.sessions(everything=True)}
    entries = [one.entry for one in history.transcript(found[session_id])]
    return [(entry.kind, entry.text) for entry in entries]


def test_the_shown_branch_of_a_chat_is_the_session_and_an_edit_one_below_it(tmp_path: Path) -> None:
    path = zipped(tmp_path / "export.zip", conversations=chatgpt())
    with opened(tmp_path) as history:
        report = history.import_export("chatgpt", path)
        assert (report.errors, report.of("chatgpt").unknown) == (0, {})
        assert told(history, "chat-1") == [
            ("note", "Be brief."),
            ("prompt", "[image]\nDoes it rain?"),
            ("reasoning", "Plan\nThink."),
            ("tool_call", "rain()"),
            ("tool_result", "42"),
            ("text", "Yes."),
        ]
        assert told(history, "chat-1/n3") == [("prompt", "Does it snow?"), ("text", "No.")]
        sessions = {one.session_id: one for one in history.sessions(everything=True)}
        assert sessions["chat-1/n3"].parent_session_id == "chat-1"
        first = sessions["chat-1"]
        assert (first.agent, first.title, first.model) == ("chatgpt", "Weather", "gpt-5")
        calls = [one.entry.call_id for one in history.transcript(first) if one.entry.call_id]
        assert calls == ["n6", "n6"]
        assert {hit.session.session_id for hit in history.search("rain")} == {"chat-1"}


def test_a_later_export_brings_what_is_new_and_changes_nothing_else(tmp_path: Path) -> None:
    with opened(tmp_path) as history:
        history.import_export("chatgpt", zipped(tmp_path / "a.zip", conversations=chatgpt()))
        again = history.import_export(
            "chatgpt", zipped(tmp_path / "b.zip", **{"conversations-000": chatgpt("It does.")})
        )
        assert again.of("chatgpt").lines == 1
        assert told(history, "chat-1")[-1] == ("text", "It does.")
        same = history.import_export("chatgpt", tmp_path / "b.zip")
        assert same.of("chatgpt").lines == 0


def test_calls_and_results_of_claude_ai_belong_together_by_their_order(tmp_path: Path) -> None:
    path = zipped(tmp_path / "data.zip", conversations=claude_ai())
    with opened(tmp_path) as history:
        report = history.import_export("claude-ai", path)
        assert (report.errors, report.of("claude-ai").unknown) == (0, {})
        assert told(history, "talk-1") == [
            ("prompt", "Does it rain?"),
            ("note", "[file] a.txt"),
            ("reasoning", "Think."),
            ("tool_call", "query: rain"),
            ("tool_call", "query: snow"),
            ("tool_result", "wet"),
            ("tool_result", "[]"),
            ("text", "Yes."),
            ("prompt", "Thanks."),
        ]
        (session,) = history.sessions()
        entries = [one.entry for one in history.transcript(session)]
        asked = [one.call_id for one in entries if one.kind == "tool_call"]
        came = [one.call_id for one in entries if one.kind == "tool_result"]
        assert asked == came
        assert len(set(asked)) == 2
        assert any("a whole file" in line.decode() for line in history.raw(session))


def test_an_unpacked_folder_and_a_bare_file_are_read_as_well(tmp_path: Path) -> None:
    folder = tmp_path / "export"
    folder.mkdir()
    (folder / "conversations.json").write_text(json.dumps(chatgpt(), indent=1))
    for place in (folder, folder / "conversations.json"):
        with opened(tmp_path) as history:
            assert history.import_export("chatgpt", place).errors == 0
            assert len(history.sessions(everything=True)) == 2


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_list_is_read_value_by_value_however_it_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(archive, "_PIECE", size)
    wanted = [{"n": n, "text": "]},{[" * n, "more": [[n]]} for n in range(30)]
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps(wanted, ensure_ascii=False, indent=size % 2))
    assert list(archive.conversations(path)) == wanted


# ---------------------------------------------------------------------- files made to hurt


def failed(history: History, path: Path, why: str) -> None:
    report = history.import_export("chatgpt", path)
    assert report.errors == 1
    (said_,) = report.of("chatgpt").errors.values()
    assert why in said_


def test_what_unpacks_to_far_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "most_unpacked", lambda packed: 100 * packed)
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        target.writestr("conversations.json", b"[" + b" " * 50_000_000)
    with opened(tmp_path) as history:
        failed(history, path, "unpacks to more than")


def test_too_many_entries_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "_MOST_ENTRIES", 1)
    with opened(tmp_path) as history:
        failed(history, zipped(tmp_path / "a.zip", conversations=[]), "2 entries")


def test_a_long_list_of_entries_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "_LARGEST_LIST", 50)
    with opened(tmp_path) as history:
        failed(history, zipped(tmp_path / "a.zip", conversations=[]), "list of entries")


def test_a_conversation_too_large_to_be_held_keeps_those_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "_LARGEST_CONVERSATION", 100_000)
    monkeypatch.setattr(archive, "_PIECE", 10_000)
    large = {"conversation_id": "large", "title": "x" * 1_000_000}
    with opened(tmp_path) as history:
        failed(
            history,
            zipped(tmp_path / "a.zip", conversations=[*chatgpt(), large]),
            "more than 100,000 characters",
        )
        assert told(history, "chat-1")


def test_a_file_that_ends_too_early_keeps_what_came(tmp_path: Path) -> None:
    whole = json.dumps([*chatgpt(), {"conversation_id": "second", "mapping": {}}])
    path = tmp_path / "conversations.json"
    path.write_text(whole[:-20])
    with opened(tmp_path) as history:
        failed(history, path, "not a complete list")
        assert told(history, "chat-1")


@pytest.mark.parametrize("name", ["../../conversations.json", "/conversations.json", "a/b/c.json"])
def test_entries_elsewhere_are_not_looked_at(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as target:
        target.writestr(name, json.dumps(chatgpt()))
    with opened(tmp_path) as history:
        failed(history, path, "holds no conversations.json")


def test_a_torn_file_is_told(tmp_path: Path) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as target:
        target.writestr("conversations.json", json.dumps(chatgpt() * 200))
    raw = bytearray(data.getvalue())
    raw[200:260] = b"\0" * 60
    path = tmp_path / "a.zip"
    path.write_bytes(raw)
    with opened(tmp_path) as history:
        assert history.import_export("chatgpt", path).errors == 1


@pytest.mark.parametrize(
    "mapping",
    [
        {"a": {"id": "a", "parent": "b"}, "b": {"id": "b", "parent": "a"}},
        {"a": {"id": "a", "parent": "a", "message": {"author": 3, "content": []}}},
        [1, 2],
        None,
    ],
)
def test_odd_trees_come_to_an_end(tmp_path: Path, mapping: object) -> None:
    odd = {"conversation_id": "odd", "current_node": "a", "mapping": mapping}
    with opened(tmp_path) as history:
        report = history.import_export(
            "chatgpt", zipped(tmp_path / "a.zip", conversations=[odd, 7, *chatgpt()])
        )
        assert report.errors == 0
        assert told(history, "chat-1")


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with opened(tmp_path) as history:
        with pytest.raises(NotFound):
            history.import_export("chatgpt", tmp_path / "none.zip")
        with pytest.raises(Invalid):
            history.import_export("pi", tmp_path)


# ---------------------------------------------------------------------- the command and the samples


def test_the_command_brings_an_export_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THREADKEEP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    path = zipped(tmp_path / "export.zip", conversations=chatgpt())
    done = CliRunner().invoke(import_, ["chatgpt", str(path)])
    assert done.exit_code == 0, (done.stdout, done.stderr)
    missing = CliRunner().invoke(import_, ["chatgpt"], standalone_mode=True)
    assert missing.exit_code != 0
    with opened(tmp_path) as history:
        assert len(history.sessions(everything=True)) == 2


EXPORTS = {
    "chatgpt-export": "chatgpt",
    "chatgpt-export-handmade": "chatgpt",
    "claude-ai-export-handmade": "claude-ai",
}


@pytest.mark.parametrize("sample", EXPORTS)
def test_a_sample_gives_what_others_counted(shared_data: Path, tmp_path: Path, sample: str) -> None:
    data = shared_data / "data" / "harness2"
    if not data.is_dir():
        pytest.skip("needs exports in the optional test data (data/harness2)")
    wanted = json.loads((data / "expected.json").read_text())["sessions"][sample]
    with opened(tmp_path) as history:
        report = history.import_export(EXPORTS[sample], data / sample)
        assert (report.errors, report.of(EXPORTS[sample]).unknown) == (0, {})
        found = {one.session_id: one for one in history.sessions(everything=True, limit=100)}
        for name, counted in wanted.items():
            counts = counts_of(history, found[name]).told()
            names = ("prompts", "texts", "thinking", "calls", "results")
            assert {one: counts[one] for one in names} == {one: counted[one] for one in names}
            assert found[name].title == counted["title"]
