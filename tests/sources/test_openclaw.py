"""OpenClaw's database: Pi's entries, plain or packed, what was put away, names and parents."""

import json
from pathlib import Path

import zstandard

from tests.sources.sample_support import look, write_database, write_lines

SESSION = "f1000000-0000-4000-8000-000000000001"
OLDER = "f1000000-0000-4000-8000-000000000002"
TABLES = """
CREATE TABLE transcript_events (session_id TEXT, seq INTEGER, event_json TEXT, created_at INTEGER,
  event_zstd BLOB, event_utf8_bytes INTEGER, PRIMARY KEY (session_id, seq));
CREATE TABLE session_windows (session_id TEXT PRIMARY KEY, session_key TEXT, model TEXT);
CREATE TABLE session_nodes (session_key TEXT PRIMARY KEY, current_session_id TEXT, label TEXT,
  fork_source_session_id TEXT);
CREATE TABLE session_transcript_archives (session_id TEXT, generation TEXT, encoding TEXT,
  archive_blob BLOB);
"""


def events(session: str, prompt: str) -> list[str]:
    """Return what a short session is made of."""
    usage = {"input": 100, "output": 20, "cacheRead": 50, "cacheWrite": 7}
    answer = {
        "role": "assistant",
        "model": "m-1",
        "usage": usage,
        "content": [
            {"type": "text", "text": "I look."},
            {"type": "toolCall", "id": "c1", "name": "exec", "arguments": {"command": "ls"}},
        ],
    }
    result = {
        "role": "toolResult",
        "toolCallId": "c1",
        "toolName": "exec",
        "isError": True,
        "content": [{"type": "text", "text": "no such file"}],
    }
    records: list[dict[str, object]] = [
        {"type": "session", "version": 4, "id": session, "cwd": "/home/ada/shop"},
        {"type": "custom", "customType": "model-snapshot", "id": f"{prompt}0"},
        {"type": "message", "id": f"{prompt}1", "message": {"role": "user", "content": prompt}},
        {"type": "message", "id": f"{prompt}2", "message": {**answer, "responseId": f"r{prompt}"}},
        {"type": "message", "id": f"{prompt}3", "message": result},
    ]
    stamped = [{**one, "timestamp": "2026-11-01T10:00:00.000Z"} for one in records]
    return [json.dumps(one) for one in stamped]


def write(user: Path) -> None:
    plain, put_away = events(SESSION, "Look"), events(OLDER, "Older")
    rows: list[tuple[str, tuple[object, ...]]] = [
        ("session_windows", (SESSION, "agent:main:main", "m-1")),
        ("session_nodes", ("agent:main:main", SESSION, "A name", OLDER)),
    ]
    for seq, event in enumerate(plain):
        packed = zstandard.compress(event.encode()) if seq == 2 else None
        text = None if packed else event
        rows.append(("transcript_events", (SESSION, seq, text, 1, packed, len(event))))
    blob = zstandard.compress("\n".join(put_away).encode())
    rows.append(("session_transcript_archives", (OLDER, "g1", "zstd", blob)))
    path = user / ".openclaw" / "agents" / "main" / "agent" / "openclaw-agent.sqlite"
    write_database(path, TABLES, *rows)


def test_sessions_of_the_database_are_those_of_pi(tmp_path: Path) -> None:
    write(tmp_path / "user")
    found = look(tmp_path / "user", tmp_path / "home")
    assert sorted(found) == [SESSION, OLDER]
    one = found[SESSION]
    assert one.said == [
        ("prompt", "Look"),
        ("text", "I look."),
        ("tool_call", "ls"),
        ("tool_result", "no such file"),
    ]
    assert (one.failed, one.calls, one.answered) == (["no such file"], [("c1", "exec")], ["c1"])
    assert one.tokens == {"input": 100, "output": 20, "cache_read": 50, "cache_write": 7}
    session = one.session
    assert (session.title, session.parent_session_id) == ("A name", OLDER)
    assert (session.agent, session.cwd, session.model) == ("pi", "/home/ada/shop", "m-1")
    assert found[OLDER].said[0] == ("prompt", "Older")
    assert one.unknown == {}


def test_an_upgrade_that_takes_a_file_over_makes_no_second_session(tmp_path: Path) -> None:
    user = tmp_path / "user"
    old = user / ".openclaw" / "agents" / "main" / "sessions" / f"{SESSION}.jsonl"
    write_lines(old, *map(json.loads, events(SESSION, "Look")))
    before = look(user, tmp_path / "home")
    write(user)
    after = look(user, tmp_path / "home")
    assert sorted(after) == [SESSION, OLDER]
    assert after[SESSION].said == before[SESSION].said
    assert after[SESSION].tokens == before[SESSION].tokens


COLD = """
CREATE TABLE session_transcript_cold_archives (session_id TEXT PRIMARY KEY, generation TEXT,
  archive_name TEXT, storage TEXT, archive_blob BLOB);
"""


def test_a_session_that_was_put_away_as_cold_is_read_from_where_it_lies(tmp_path: Path) -> None:
    user, name = tmp_path / "user", f"{'0' * 64}.jsonl.zst"
    agent = user / ".openclaw" / "agents" / "main"
    packed = []
    for session, prompt in ((SESSION, "Look"), (OLDER, "Older")):
        rows = [{"seq": n, "event_json": one} for n, one in enumerate(events(session, prompt))]
        kinds = [{"kind": "header", "version": 1}, *({"kind": "event", "row": row} for row in rows)]
        lines = "".join(f"{json.dumps(one)}\n" for one in [*kinds, {"kind": "index", "row": {}}])
        packed.append(zstandard.compress(lines.encode()))
    write_database(
        agent / "agent" / "openclaw-agent.sqlite",
        COLD,
        ("session_transcript_cold_archives", (SESSION, "1", name, "file", None)),
        ("session_transcript_cold_archives", (OLDER, "1", "x", "sqlite", packed[1])),
        ("session_transcript_cold_archives", ("gone", "1", "../../../secret", "file", None)),
    )
    (agent / "sessions" / "cold").mkdir(parents=True)
    (agent / "sessions" / "cold" / name).write_bytes(packed[0])
    found = look(user, tmp_path / "home")
    assert [found[one].said[0] for one in (SESSION, OLDER)] == [
        ("prompt", "Look"),
        ("prompt", "Older"),
    ]
    assert found[SESSION].unknown == {}
    assert found[SESSION].tokens["input"] == 100
