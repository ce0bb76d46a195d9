"""Logs made to do harm: huge, deep, odd, endless. Each is kept or passed over, others unharmed."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.user_homes import archived, assert_sound, lines_of, open_history, settle
from threadkeep.capture.capture import History
from threadkeep.capture.records import AgentReport
from threadkeep.knowledge.records import CapturedSession

pytestmark = pytest.mark.slow

WHEN = "2026-05-01T10:00:00.000Z"
PROJECT = Path(".claude/projects/-u-app")
ROLLOUTS = Path(".codex/sessions/2026/05/01")
GOOD = "5e550000-0000-4000-8000-00000000000f"
HARMLESS = "a sentence of a harmless session"


def said(text: Any, **about: Any) -> dict[str, Any]:
    message = {"role": "user", "content": text}
    return {"type": "user", "uuid": "u1", "timestamp": WHEN, "message": message, **about}


class Machine:
    """A user home with one harmless log and whatever a test puts beside it."""

    def __init__(self, place: Path) -> None:
        self.user = place / "user"
        self.home = place / "home"
        self.write(PROJECT / f"{GOOD}.jsonl", said(HARMLESS))

    def write(self, name: Path, *records: Any) -> Path:
        lines = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in records]
        path = self.user / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        return path

    def capture(self) -> tuple[History, dict[str, AgentReport]]:
        """Capture, check that the harmless log is there, and leave the history open."""
        settle(self.user)
        history = open_history(self.home, self.user)
        report = history.capture().agents
        again = history.capture()
        assert sum(part.lines for part in again.agents.values()) == 0
        shown = list(history.transcript(history.find(GOOD, "claude-code")))
        assert [one.entry.text for one in shown] == [HARMLESS]
        assert history.search("harmless")[0].session.session_id == GOOD
        assert_sound(self.home / "knowledge.db")
        return history, report

    def raw(self, path: Path) -> list[bytes]:
        return archived(self.home / "knowledge.db")[str(path), ""]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def sessions(history: History) -> list[CapturedSession]:
    return history.sessions(everything=True, limit=100_000)


def test_titles_of_a_megabyte(machine: Machine) -> None:
    title = {"type": "custom-title", "customTitle": "t" * 1_000_000}
    path = machine.write(PROJECT / "long.jsonl", said("hello"), title, said("p " * 500_000))
    history, report = machine.capture()
    with history:
        assert report["claude-code"].errors == {}
        assert machine.raw(path) == lines_of(path)
        assert len(history.find("long").first_prompt) <= 200


def test_control_sequences_are_kept_and_found(machine: Machine) -> None:
    text = (
        "a \x1b[31mred\x1b[0m \x1b]0;title\x07 bell\x07 \x9b2J back\x08\x08 nul\x00end \u202eright"
    )
    path = machine.write(
        PROJECT / "escape.jsonl", said(text, cwd="/u/\x1b[2J", gitBranch="\x1b]0;x\x07")
    )
    history, report = machine.capture()
    with history:
        assert report["claude-code"].errors == {}
        (shown,) = history.transcript(history.find("escape"))
        assert shown.entry.text == text
        assert history.search("bell")[0].session.session_id == "escape"
        assert machine.raw(path) == lines_of(path)


IDS = (
    "../../../../etc/passwd",
    "/etc/passwd",
    "a\0b",
    "a\nb\rc",
    "'; DROP TABLE tk_sessions; --",
    '"quoted"',
    "%_\\",
    "\x1b[2J",
    "x" * 100_000,
    "",
    " ",
    "\ud800",
    "日本語",
)


@pytest.mark.parametrize("name", IDS, ids=range(len(IDS)))
def test_an_id_is_only_a_name(tmp_path: Path, name: str) -> None:
    machine = Machine(tmp_path / "as" / "deep" / "as" / "the" / "dots")
    before = sorted(path for path in tmp_path.rglob("*") if "home" not in path.parts)
    meta = {"type": "session_meta", "timestamp": WHEN, "payload": {"id": name, "cwd": name}}
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
    said_it = {"type": "response_item", "timestamp": WHEN, "payload": item}
    files = [
        machine.write(ROLLOUTS / "rollout-2026-05-01T10-00-00-odd.jsonl", meta, said_it),
        machine.write(
            PROJECT / "odd.jsonl", said("hi", uuid=name, sessionId=name, parentUuid=name)
        ),
        machine.write(
            Path(".pi/agent/sessions/--u--/2026-05-01T10-00-00-000Z_odd.jsonl"),
            {"type": "session", "id": name, "timestamp": WHEN, "cwd": name},
            {"type": "message", "id": name, "timestamp": WHEN, "message": said("x")["message"]},
        ),
    ]
    history, report = machine.capture()
    with history:
        assert all(part.errors == {} for part in report.values())
        for path in files:
            assert machine.raw(path) == lines_of(path)
        for session in sessions(history):
            found = history.find(session.session_id, session.agent)
            assert found.id == session.id
            assert len(list(history.transcript(found))) == session.entries
        history.search("hi", limit=5)
    made = {path for path in tmp_path.rglob("*") if "home" not in path.parts}
    assert made.difference(before) <= {*files, *(above for path in files for above in path.parents)}


def test_a_hundred_thousand_unknown_types_are_counted_in_bounds(machine: Machine) -> None:
    records = [{"type": f"brand-new-{number}", "timestamp": WHEN} for number in range(100_000)]
    path = machine.write(PROJECT / "types.jsonl", said("hello"), *records)
    history, report = machine.capture()
    with history:
        assert report["claude-code"].lines == 1 + 100_001
        unknown = history.coverage().unknown
        assert 0 < len(unknown) <= 1000
        assert machine.raw(path) == lines_of(path)


def test_ten_thousand_sessions_in_one_log(machine: Machine) -> None:
    records = [
        said(f"hello {number}", uuid=f"u{number}", sessionId=f"session-{number}")
        for number in range(10_000)
    ]
    path = machine.write(PROJECT / "many.jsonl", *records)
    history, report = machine.capture()
    with history:
        assert report["claude-code"].errors == {}
        assert sum(session.entries for session in sessions(history)) == 10_001
        assert machine.raw(path) == lines_of(path)
        (hit,) = history.search("hello 7777", limit=1)
        assert hit.shown.entry.text == "hello 7777"


def test_a_link_to_another_file_is_not_read(machine: Machine) -> None:
    """A log is a plain file inside its folder; a link is passed over, and told."""
    folder = machine.user / PROJECT
    elsewhere = machine.write(Path("elsewhere.jsonl"), said("not meant to be read"))
    (folder / "link.jsonl").symlink_to(elsewhere)
    (folder / "gone.jsonl").symlink_to(machine.user / "nowhere")
    (folder / "loop.jsonl").symlink_to("loop.jsonl")
    (folder / "folder.jsonl").symlink_to("/etc")
    (machine.user / "projects").mkdir()
    (machine.user / "projects" / "up").symlink_to(machine.user, target_is_directory=True)
    history, report = machine.capture()
    with history:
        told = report["claude-code"]
        assert told.entries == 1
        assert {session.session_id for session in sessions(history)} == {GOOD}
        assert not history.search("meant")
        assert str(folder / "link.jsonl") in told.passed
        assert str(folder / "loop.jsonl") in {*told.passed, *told.errors}


def test_a_pipe_or_a_device_is_not_waited_for(machine: Machine) -> None:
    os.mkfifo(machine.user / PROJECT / "pipe.jsonl")
    os.mkfifo(machine.user / ".aider.chat.history.md")
    (machine.user / PROJECT / "zero.jsonl").symlink_to("/dev/zero")
    database = machine.user / ".local" / "share" / "opencode" / "opencode.db"
    database.parent.mkdir(parents=True)
    os.mkfifo(database)
    chats = machine.user / ".gemini" / "tmp" / "p" / "chats"
    chats.mkdir(parents=True)
    os.mkfifo(chats / "session-1.json")
    history, report = machine.capture()
    with history:
        assert report["claude-code"].lines == 1


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"\n\n\n", b"\0" * 4096, b"\xef\xbb\xbf", b"\xff\xfe"]
)
def test_logs_with_nothing_in_them(machine: Machine, data: bytes) -> None:
    places = [PROJECT / "n.jsonl", ROLLOUTS / "rollout-2026-05-01T10-00-00-n.jsonl"]
    places += [Path(".gemini/tmp/p/chats/session-1.json"), Path(".copilot/session-state/n.jsonl")]
    places += [Path(".local/share/opencode/opencode.db"), Path(".aider.chat.history.md")]
    places += [Path(".cursor/projects/p/agent-transcripts/n.txt")]
    for place in places:
        (machine.user / place).parent.mkdir(parents=True, exist_ok=True)
        (machine.user / place).write_bytes(data)
    history, report = machine.capture()
    with history:
        assert report["claude-code"].errors == {}
        assert report["codex"].errors == {}
        assert machine.raw(machine.user / PROJECT / "n.jsonl") == lines_of(
            machine.user / PROJECT / "n.jsonl"
        )


@pytest.mark.parametrize("depth", [500, 5_000, 100_000])
def test_json_nested_beyond_reason(machine: Machine, depth: int) -> None:
    nested = b"[" * depth + b"]" * depth
    whole = json.dumps(said("PLACE", toolUseResult="DEEP")).encode()
    lines = [
        nested,
        b'{"a":' * depth + b"1" + b"}" * depth,
        whole.replace(b'"PLACE"', nested),
        whole.replace(b'"DEEP"', nested),
        json.dumps(said("after it")).encode(),
    ]
    files = [
        machine.write(PROJECT / "deep.jsonl", *lines),
        machine.write(ROLLOUTS / "rollout-2026-05-01T10-00-00-deep.jsonl", *lines),
        machine.write(Path(".copilot/session-state/deep.jsonl"), *lines),
        machine.write(Path(".pi/agent/sessions/--u--/2026-05-01T10-00-00-000Z_deep.jsonl"), *lines),
    ]
    machine.write(Path(".gemini/tmp/p/chats/session-1.json"), nested)
    history, report = machine.capture()
    with history:
        assert report["claude-code"].errors == {}
        for path in files:
            assert machine.raw(path) == lines_of(path)
        texts = {one.entry.text for one in history.transcript(history.find("deep", "claude-code"))}
        assert "after it" in texts


def test_one_line_without_an_end_is_kept_in_bounded_pieces(machine: Machine) -> None:
    size = 18 * 1024 * 1024  # one piece of the longest kind, and a rest
    path = machine.user / PROJECT / "endless.jsonl"
    path.write_bytes(b'{"type":"user","x":"' + b"word " * (size // 5))
    history, report = machine.capture()
    with history:
        assert report["claude-code"].errors == {}
        assert b"".join(machine.raw(path)) == path.read_bytes()


def test_a_new_session_in_the_place_of_an_old_one_is_not_taken_for_it(machine: Machine) -> None:
    """The same inode, and the same first kilobytes: sessions that were forked begin alike."""
    alike = said("the same beginning " * 500)
    old = machine.write(PROJECT / "old.jsonl", alike, said("only in the old one", uuid="u2"))
    before = lines_of(old)
    machine.capture()[0].close()
    new = old.rename(old.with_name("new.jsonl"))
    other = json.dumps(said("only in the new one", uuid="u3")).encode()
    new.write_bytes(before[0] + b"\n" + other + b"\n")
    history, _ = machine.capture()
    with history:
        assert machine.raw(old) == before
        assert machine.raw(new) == lines_of(new)
        assert list(history.raw(history.find("old"))) == before
        assert list(history.raw(history.find("new"))) == lines_of(new)
