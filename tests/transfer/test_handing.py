"""A session that another program goes on with: what it is like, and where it is put."""

import json
import stat
from pathlib import Path
from uuid import UUID

import pytest

from tests.sources.sample_support import write_json, write_lines
from tests.support.user_homes import IMPORTS, open_history, settle
from tests.transfer.exports import NOW, SESSION, flat, held, new, read_back, written
from threadkeep import Home
from threadkeep.capture.capture import History
from threadkeep.errors import Conflict, Invalid
from threadkeep.home.opening import open_browse
from threadkeep.knowledge.query import Query
from threadkeep.sources.records import UserHome
from threadkeep.transfer.conversation import (
    Conversation,
    ConversationInfo,
    ExportMessage,
    ExportNote,
    ExportText,
    Reasoning,
    Summary,
    ToolCall,
    ToolResult,
    conversation,
)
from threadkeep.transfer.hand_off import (
    TARGETS,
    HandOff,
    hand_off,
    new_session_id,
    project_slug,
    put,
    resumable,
)

CLAUDE = "5f0c2a7e-41d3-4c1b-9a52-0c6d1be2a901"
WHERE = "/home/demo/code/harbor"
ODD = Conversation(
    ConversationInfo("pi", "s1", "Tides"),
    (
        ExportMessage("user", (ExportText("before"),), NOW),
        ExportMessage("user", (Summary("in short"),), NOW),
        ExportMessage(
            "assistant",
            (Reasoning("hm"), ToolCall("ns.bash", "a|b", "x"), ToolCall("read", "a|b", {})),
            NOW,
            "large",
        ),
        ExportMessage(
            "tool", (ToolResult("a|b", "no", error=True), ToolResult("lost", "found")), NOW
        ),
    ),
)


def made(told: Conversation, program: str, user: Path, **env: str) -> HandOff:
    return hand_off(told, program, WHERE, new(), UserHome(user, env))


def test_a_model_is_given_only_what_every_provider_takes() -> None:
    assert flat(resumable(ODD, WHERE)) == [
        ("user", "text", "before"),
        ("user", "summary", "in short"),
        ("user", "note", _greeting(), False),
        ("system", "note", "Thinking: hm", False),
        ("assistant", "call", "ns_bash", "call_00000001", "x"),
        ("assistant", "call", "read", "call_00000002", {}),
        ("tool", "result", "call_00000001", "no", True, ()),
        ("tool", "result", "call_00000002", "no result was recorded", True, ()),
        ("system", "note", "[result of lost]\nfound", False),
    ]
    known = resumable(ODD, WHERE).about
    assert (known.title, known.cwd) == ("Tides (continued from pi s1)", WHERE)


def test_notices_are_short_and_of_the_program_itself() -> None:
    notes = (
        ExportNote("<environment_context>\n…"),
        ExportNote("x" * 500, error=True),
        ExportNote("a file's text"),
    )
    told = Conversation(
        ConversationInfo("codex", "s2", "Tides (continued from pi s1)"),
        (
            *(ExportMessage("user", (note,)) for note in notes),
            ExportMessage("system", (ExportNote("y" * 401),)),
        ),
    )
    ready = resumable(told, WHERE)
    assert ready.about.title == "Tides (continued from codex s2)"
    assert flat(ready)[1:] == [
        ("system", "note", "<environment_context>\n…", False),
        ("user", "note", "x" * 500, True),
        ("user", "note", "a file's text", False),
        ("system", "note", "y" * 400 + "… (1 more characters)", False),
    ]


def _greeting() -> str:
    (note,) = resumable(Conversation(ODD.about), WHERE).messages[0].blocks
    assert isinstance(note, ExportNote)
    assert "begun in pi (session s1)" in note.text
    return note.text


def test_the_records_for_claude_code_are_one_chain(tmp_path: Path) -> None:
    text = made(ODD, "claude-code", tmp_path).data.decode()
    title, *records = (json.loads(line) for line in text.splitlines())
    assert title["customTitle"] == "Tides (continued from pi s1)"
    last = None
    for record in records:
        is_cut = record.get("subtype") == "compact_boundary"
        assert record["parentUuid"] == (None if is_cut else last)
        assert is_cut is ("logicalParentUuid" in record)
        assert (record["sessionId"], record["cwd"]) == (SESSION, WHERE)
        last = record["uuid"]
    assert len({record["uuid"] for record in records}) == len(records)


def test_a_rollout_begins_with_its_meta(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in made(ODD, "codex", tmp_path).data.splitlines()]
    assert lines[0]["type"] == "session_meta"
    assert lines[0]["payload"]["id"] == SESSION
    # The program refuses a thread of another provider than it is set to.
    assert "model_provider" not in lines[0]["payload"]
    shown = [line["payload"] for line in lines if line["type"] == "event_msg"]
    assert {"type": "user_message", "message": "before", "kind": "plain", "images": []} in shown


def test_what_is_written_for_opencode_sorts_before_what_it_adds(tmp_path: Path) -> None:
    document = json.loads(made(ODD, "opencode", tmp_path).data)
    ids = [
        name
        for message in document["messages"]
        for name in (message["info"]["id"], *(part["id"] for part in message["parts"]))
    ]
    stamps = [name.partition("_")[2][:12] for name in ids]
    assert stamps == sorted(set(stamps))
    assert stamps[-1] < f"{NOW * 4096 % 2**48:012x}"


def test_places_follow_the_variables_of_each_program(tmp_path: Path) -> None:
    moved = {
        "CLAUDE_CONFIG_DIR": str(tmp_path / "c"),
        "CODEX_HOME": str(tmp_path / "x"),
        "XDG_DATA_HOME": str(tmp_path / "d"),
        "PI_CODING_AGENT_DIR": str(tmp_path / "p"),
        "QWEN_HOME": str(tmp_path / "q"),
    }
    tree = f"sessions/--home-demo-code-harbor--/2026-09-21T14-13-20-000Z_{SESSION}.jsonl"
    rollout = f"sessions/2026/09/21/rollout-2026-09-21T14-13-20-{SESSION}.jsonl"
    slug = f"projects/-home-demo-code-harbor/{SESSION}.jsonl"
    places = {
        "claude-code": (f".claude/{slug}", f"c/{slug}"),
        "codex": (f".codex/{rollout}", f"x/{rollout}"),
        "opencode": (
            f".local/share/opencode/import/{SESSION}.json",
            f"d/opencode/import/{SESSION}.json",
        ),
        "pi": (f".pi/agent/{tree}", f"p/{tree}"),
        "qwen-code": (
            f".qwen/projects/-home-demo-code-harbor/chats/{SESSION}.jsonl",
            f"q/projects/-home-demo-code-harbor/chats/{SESSION}.jsonl",
        ),
    }
    for program, (usual, elsewhere) in places.items():
        assert made(ODD, program, tmp_path).path == tmp_path / usual
        assert made(ODD, program, tmp_path, **moved).path == tmp_path / elsewhere


def test_the_command_goes_on_with_it(tmp_path: Path) -> None:
    odd = hand_off(ODD, "codex", "/home/a b", new(), UserHome(tmp_path))
    assert odd.command == f"cd '/home/a b' && codex resume {SESSION}"
    assert made(ODD, "claude-code", tmp_path).command.endswith(f"claude --resume {SESSION}")
    taken = made(ODD, "opencode", tmp_path)
    assert f"opencode import {taken.path} && opencode --session {SESSION}" in taken.command
    assert made(ODD, "pi", tmp_path).command.endswith(f"pi --session {SESSION}")
    assert made(ODD, "qwen-code", tmp_path).command.endswith(f"qwen --resume {SESSION}")


def test_a_file_is_private_and_never_replaces_another(tmp_path: Path) -> None:
    first = made(ODD, "claude-code", tmp_path)
    put(first)
    assert stat.S_IMODE(first.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(first.path.parent.stat().st_mode) == 0o700
    first.path.write_text("mine")
    with pytest.raises(Conflict):
        put(first)
    assert first.path.read_text() == "mine"


def test_what_cannot_be_resumed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="'vim'"):
        made(ODD, "vim", tmp_path)
    with pytest.raises(Invalid, match="there are no messages in session s1"):
        made(Conversation(ODD.about), "codex", tmp_path)
    with pytest.raises(Invalid, match="too long"):
        project_slug("/x" * 150)
    assert project_slug("/home/a_b/c.d-e") == "-home-a-b-c-d-e"


def test_ids_look_like_the_programs_own() -> None:
    digits = "0123456789abcdef" * 2
    assert new_session_id("claude-code", NOW, digits) == "01234567-89ab-cdef-0123-456789abcdef"
    thread = UUID(new_session_id("codex", NOW, digits))
    assert (thread.version, thread.int >> 80) == (7, NOW)
    newer = new_session_id("opencode", NOW + 1, digits)
    assert "ses_" < newer < new_session_id("opencode", NOW, digits)


def test_every_session_of_the_demo_can_go_on_anywhere(demo: History) -> None:
    for session in demo.sessions(limit=100):
        ready = resumable(conversation(demo, session, active=True), WHERE)
        for program in TARGETS:
            assert flat(read_back(program, written(program, ready))) == held(program, ready)


def test_captured_again_it_is_a_session_of_its_own(demo: History, tmp_path: Path) -> None:
    """The programs' own stores, as capture finds them after a hand-off."""
    session = demo.find(CLAUDE)
    told = conversation(demo, session)
    user = tmp_path / "user"
    handed = {program: made(told, program, user) for program in TARGETS}
    for program in TARGETS:
        put(handed[program])
        if program in IMPORTS:
            IMPORTS[program](user, json.loads(handed[program].data))
    with open_history(tmp_path / "home", user) as history:
        history.capture()
        found = history.sessions(Query())
        assert {one.agent: one.name for one in found} == dict.fromkeys(
            TARGETS, f"{told.about.title} (continued from claude-code {CLAUDE})"
        )
        for one in found:
            assert flat(conversation(history, one)) == held(one.agent, resumable(told, WHERE))
            assert one.cwd == ("" if one.agent == "llm" else WHERE)  # it knows no folders
        assert history.usage(Query()).total.output == 0


def test_a_session_for_llm_is_a_database_of_its_own(demo: History, tmp_path: Path) -> None:
    live = tmp_path / "user/.config/io.datasette.llm/logs.db"
    live.parent.mkdir(parents=True)
    live.write_bytes(b"")
    handed = made(conversation(demo, demo.find(CLAUDE)), "llm", tmp_path / "user")
    put(handed)
    assert live.read_bytes() == b""
    live.unlink()
    home = Home(tmp_path / "home", environ={"HOME": str(tmp_path / "user")})
    with home.history(user_home=tmp_path / "user") as history:
        history.capture()
    with open_browse(home) as browse:
        command = browse.session(f"llm:{handed.session_id}").resume
    assert command == f"llm chat --cid {handed.session_id} -d {handed.path}"
    assert handed.command.endswith(command)


def test_messages_for_llm_have_the_names_that_it_gives_them() -> None:
    said = Conversation(
        ConversationInfo("codex", "s1"),
        (ExportMessage("user", (ExportText("It's Größe \0 \U0001f30a"),), NOW),),
    )
    script = written("llm", said)
    # llm 0.36 says so of this message; with another name it would write all of it once more.
    assert "'b2:071595888c261d100afb62fee3f257a4'" in script


def test_a_project_that_gemini_knows_keeps_its_folder(tmp_path: Path) -> None:
    known = tmp_path / ".gemini" / "tmp" / "harbor-2"
    new_place = made(ODD, "gemini-cli", tmp_path)
    assert new_place.path.parents[1] != known
    assert list(new_place.beside.values()) == [WHERE.encode()]
    known.mkdir(parents=True)
    (known / ".project_root").write_text(WHERE)
    again = made(ODD, "gemini-cli", tmp_path)
    assert (again.path.parents[1], again.beside) == (known, {})


def texts_of_person(told: Conversation) -> list[ExportText]:
    return [
        block
        for message in told.messages
        for block in message.blocks
        if message.role == "user" and isinstance(block, ExportText)
    ]


def test_a_history_that_grok_writes_anew_is_still_known_as_a_copy(
    demo: History, tmp_path: Path
) -> None:
    told = conversation(demo, demo.find(CLAUDE))
    handed = made(told, "grok-build", tmp_path / "user")
    put(handed)
    lines = [json.loads(line) for line in handed.data.splitlines()]
    for line in lines:
        del line["threadkeep"]  # it leaves out what it does not know
    asked = {"type": "user", "content": "<user_query>\nAnd now?\n</user_query>", "prompt_index": 9}
    anew = [{"type": "system", "content": "You are Grok."}, *lines, asked]
    handed.path.write_text("".join(json.dumps(line) + "\n" for line in anew))
    with open_history(tmp_path / "home", tmp_path / "user") as history:
        history.capture()
        (session,) = history.sessions()
        shown = [one.entry for one in history.transcript(session)]
    own = [(one.kind, one.text) for one in shown if not one.origin]
    assert own == [("note", "You are Grok."), ("prompt", "And now?")]
    copied = [one.text for one in shown if one.kind == "prompt" and one.origin]
    assert copied == [block.text for block in texts_of_person(told)]


def test_what_vibe_took_over_from_an_older_log_is_a_copy_of_it(tmp_path: Path) -> None:
    own, older = "3498d14c-e945-c402-3aa3-59d021865b57", "0a1b2c3d-1111-4222-8333-944455556666"
    folder = tmp_path / "user/.vibe/logs/session"
    begun = folder / "session_20260921_141320_0a1b2c3d"
    write_lines(begun / "messages.jsonl", {"role": "user", "content": "Look", "message_id": "m1"})
    write_json(begun / "meta.json", {"session_id": older, "start_time": "2026-09-21T14:13:20Z"})
    entries = [
        {"id": name, "type": "message", "role": "user", "content": said, "createdAt": NOW}
        for name, said in (("imported-1", "Look"), ("user-turn-1", "And now?"))
    ]
    store = folder / "unified" / own
    write_json(store / "CURRENT", {"generation": "0001", "snapshot_sequence": 1})
    manifest = {"projection_state": {"chunks": ["c1"]}}
    write_json(store / "generations/0001/manifest.json", manifest)
    write_json(store / "generations/0001/projection-state.json", {"snapshot": {"session": {}}})
    source = {"import_provenance": {"source": {"backend": "legacy", "session_id": older}}}
    write_json(store / "generations/0001/runtime-state.json", source)
    write_json(store / "chunks/c1.json", entries)
    settle(tmp_path / "user")
    with open_history(tmp_path / "home", tmp_path / "user") as history:
        history.capture()
        shown = [one.entry for one in history.transcript(history.find(own))]
    assert [(one.text, one.origin) for one in shown] == [
        ("Look", f"mistral-vibe:{older}"),
        ("And now?", ""),
    ]
