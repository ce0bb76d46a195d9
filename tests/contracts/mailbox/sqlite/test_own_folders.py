"""Folders in the words of later versions, made here row by row: what we make of each.

The same checks as for folders of the real programs, which not every clone has.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.mail_golden import CHECKS, TOLD, Expected, GoldenFolder
from tests.support.nanoclaw import make_folder

LOOK = "2026-11-17T04:00:00.000Z"
CHAT = {"channel_type": "telegram", "platform_id": "telegram:42"}
CRON = "*/5 * * * *"


def said(name: str, seq: int, **more: Any) -> Expected:
    """A row of messages_in."""
    row = {"kind": "chat", "timestamp": "2026-11-17T03:50:00.000Z", "status": "pending", **CHAT}
    return {"id": name, "seq": seq, "series_id": name, "content": '{"text":"hi"}', **row, **more}


def run(name: str, seq: int, **more: Any) -> Expected:
    """A run of a task."""
    task = {"kind": "task", "channel_type": None, "platform_id": None, "series_id": "t"}
    content = '{"prompt":"look","script":"exit 1","originSessionId":null}'
    due = "2026-11-17T03:59:00.000Z"
    return said(name, seq, **{**task, "content": content, "process_after": due, **more})


def out(name: str, seq: int, text: str = "", **more: Any) -> Expected:
    """A row of messages_out."""
    row = {"kind": "chat", "timestamp": "2026-11-17T03:55:00.000Z", **CHAT}
    return {"id": name, "seq": seq, "content": f'{{"text":"{text or name}"}}', **row, **more}


def ack(name: str, word: str) -> Expected:
    return {"message_id": name, "status": word, "status_changed": "2026-11-17T03:59:30.000Z"}


def failed(number: int) -> list[Expected]:
    """Runs that failed, and one more whose ack is yet to be taken over."""
    before = [run(f"t{n}", 2 * n, status="failed") for n in range(1, number)]
    return [*before, run("t", 2 * number, recurrence=CRON)]


ENDED: Expected = {"due": 0, "wakes": 0, "live_rows": 1, "task_prompts": ["look"]}
FOLDERS: dict[str, tuple[list[Expected], list[Expected], list[Expected], Expected]] = {
    "a script failed": (
        failed(1),
        [],
        [ack("t", "script-skip:error")],
        {
            **ENDED,
            "statuses": {"t": "failed"},
            "rearmed": {"t": "pending"},
            "rearmed_not_before_min": 2,
            "container_poll": [],
        },
    ),
    "it failed three times": (
        failed(3),
        [],
        [ack("t", "script-skip:error")],
        {**ENDED, "rearmed_not_before_min": 8},
    ),
    "it failed seven times": (
        failed(7),
        [],
        [ack("t", "failed")],
        {**ENDED, "rearmed_not_before_min": 60, "live_status": "pending"},
    ),
    "it failed eight times": (
        failed(8),
        [],
        [ack("t", "script-skip:error")],
        {**ENDED, "live_status": "paused", "statuses": {"t": "failed"}, "verify_errors": 0},
    ),
    "one went well, and one was called off": (
        [
            run("t1", 2, status="failed"),
            run("t2", 4, status="completed"),
            run("t3", 6, status="failed"),
            run("t4", 8, status="cancelled"),
            run("t", 10, recurrence=CRON),
        ],
        [],
        [ack("t", "script-skip:timeout")],
        {**ENDED, "rearmed_not_before_min": 4},
    ),
    "an answer in a word of tomorrow": (
        [said("m1", 2), said("m2", 4, status="archived"), said("m3", 6, status="cancelled")],
        [],
        [ack("m1", "postponed:never")],
        {
            "statuses": {"m1": "failed", "m2": "archived", "m3": "cancelled"},
            "due": 0,
            "wakes": 0,
            "dead_letters": ["m1"],
            "container_poll": [],
            "verify_errors": 0,
        },
    ),
    "kinds of tomorrow": (
        [],
        [
            out("one", 1),
            out("log", 3, kind="task_log", channel_type=None, platform_id=None),
            out("use", 5, kind="usage", channel_type=None, platform_id=None, content="no JSON"),
            out("three", 7, kind="chat-v3"),
        ],
        [],
        {"sent": ["one", "three"], "dead_letters": [], "notes_to_agent": 0},
    ),
    "a denial": (
        [said("m1", 2)],
        [out("deny-1", 2, "no"), out("a", 3), out("deny-2", 5, "never"), out("b", 7)],
        [],
        {
            "sent": ["no", "a", "never", "b"],
            "dead_letters": [],
            "verify_errors": 0,
            "next_out_odd": True,
        },
    ),
    "times of two versions": (
        [],
        [
            out("first", 1, timestamp="2026-11-17T03:55:00.000Z"),
            out("second", 3, timestamp="2026-11-17 03:55:01"),
            out("third", 5, timestamp="2026-11-17T03:55:02.000Z"),
        ],
        [],
        {"sent": ["first", "second", "third"]},
    ),
    "an end without its message": (
        [],
        [],
        [ack("7:ag-1", "completed"), ack("8:ag-1", "failed")],
        {"reborn_id": "7:ag-1", "verify_errors": 0},
    ),
    "what was said in a sibling session": (
        [said("e1", 2, channel_type="session-echo", trigger=0)],
        [out("a", 3, channel_type="session-echo")],
        [],
        {"due": 0, "wakes": 0, "sent": [], "dead_letters": ["a"], "container_triggered": False},
    ),
}


def insert(folder: Path, file: str, table: str, rows: list[Expected]) -> None:
    with closing(sqlite3.connect(folder / f"{file}.db")) as connection, connection:
        for row in rows:
            names, marks = ", ".join(row), ", ".join("?" * len(row))
            sql = f"INSERT INTO {table} ({names}) VALUES ({marks})"
            connection.execute(sql, list(row.values()))


@pytest.mark.parametrize("story", FOLDERS)
def test_a_folder_gives_what_it_should(tmp_path: Path, story: str) -> None:
    coming, going, acks, wanted = FOLDERS[story]
    folder = tmp_path / "theirs"
    make_folder(folder)
    insert(folder, "inbound", "messages_in", coming)
    insert(folder, "outbound", "messages_out", going)
    insert(folder, "outbound", "processing_ack", acks)
    route = [{"id": 1, "thread_id": None, **CHAT}]
    insert(folder, "inbound", "session_routing", route)
    expected = {"look_at": LOOK, "zone": "UTC", **wanted}
    for number, key in enumerate(wanted):
        GoldenFolder(folder, expected, tmp_path / str(number)).check(key)


def test_a_key_that_nothing_checks_is_a_failure(tmp_path: Path) -> None:
    make_folder(tmp_path / "theirs")
    expected = {"look_at": LOOK, "zone": "UTC", "unheard_of": 1}
    with pytest.raises(KeyError):
        GoldenFolder(tmp_path / "theirs", expected, tmp_path).check("unheard_of")
    assert not TOLD & CHECKS.keys()
