"""Every command on folders that an agent, or an accident, has filled with nonsense."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import HOSTILE, Run
from tests.cli.mail_boxes import make_box
from threadkeep.mailbox.container.container import Container

OUT = "INSERT INTO messages_out (id, seq, timestamp, kind, content) VALUES (?, ?, ?, ?, ?)"
IN = "INSERT INTO messages_in (id, seq, kind, timestamp, content, status) VALUES (?, ?, ?, ?, ?, ?)"
COMMANDS = (
    ["ls", "{}"],
    ["ls", "{}", "--json"],
    ["ls", "{}", "--status", "failed"],
    ["tail", "{}"],
    ["tail", "{}", "--json"],
    ["trace", "{}", "2"],
    ["trace", "{}", "7", "--json"],
    ["poll", "{}", "--limit", "100"],
    ["poll", "{}", "--claim", "--json"],
    ["ack", "{}", "2"],
    ["retry", "{}", "--list"],
    ["retry", "{}"],
    ["pause", "{}"],
    ["pause", "{}", "task-1", "--cancel"],
    ["verify", "{}"],
    ["verify", "{}", "--json"],
    ["sweep", "{}"],
    ["sweep", "{}", "--json"],
    ["send", "{}", "hello"],
    ["send", "{}", "hello", "--as", "agent"],
)


def change(path: Path, *statements: tuple[str, tuple[object, ...]]) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        for sql, values in statements:
            connection.execute(sql, values)


def fill_with_nonsense(box: Path) -> None:
    host = make_box(box)
    host.send("hello")
    host.insert_task("later", process_after="2999-01-01", id="task-1")
    Container(box).send("hi")
    change(
        box / "outbound.db",
        (OUT, (b"\xff\xfe", 7, "then", "chat", b"\x00\x01")),
        (OUT, ("no json", 9, "", "", "{")),
        (OUT, ("list", 11, "2026-01-01", HOSTILE, "[1, 2]")),
        (OUT, ("deep", 13, "2026-01-01", "chat", "[" * 100_000)),
        (OUT, ("odd", "eleven", "x", "chat", '{"text": 5, "files": 3, "options": {}}')),
        (OUT, (None, None, 5, 6, 7)),
        (OUT, ("q", 15, "1", "chat-sdk", '{"type":"ask_question","options":[1,{"label":null}]}')),
        ("INSERT INTO processing_ack VALUES (?, ?, ?)", (b"\xff", b"\xff", 5)),
        ("INSERT INTO processing_ack VALUES (?, ?, ?)", ("task-1", "odd word", None or "")),
        ("INSERT INTO tk_claim VALUES (?, ?, ?, ?)", ("task-1", "many", 1, b"\xff")),
    )
    change(
        box / "inbound.db",
        (IN, ("blob", 8, "chat", "x", b"\x00\xff", "failed")),
        (IN, (5, 10, 6, 7, 8, "odd")),
        (IN, ("bad", 12, "task", "never", '{"prompt": [1]}', "pending")),
        (IN, (HOSTILE, 14, HOSTILE, HOSTILE, '{"text": "\\u001b[31m"}', "failed")),
    )


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_breaks_on_nonsense(words: list[str], run: Run, tmp_path: Path) -> None:
    fill_with_nonsense(tmp_path / "box")
    result = no_traceback(run, *(word.format(tmp_path / "box") for word in words))
    assert not set(result) & {"\x1b", "\x07", "\u202e"}


@pytest.mark.parametrize("words", COMMANDS[::3], ids=" ".join)
@pytest.mark.parametrize("file", ["inbound.db", "outbound.db"])
def test_no_command_breaks_on_damage(file: str, words: list[str], run: Run, tmp_path: Path) -> None:
    make_box(tmp_path / "box").send("hello")
    (tmp_path / "box" / file).write_bytes(b"nonsense" * 1000)
    no_traceback(run, *(word.format(tmp_path / "box") for word in words))


def no_traceback(run: Run, *words: str) -> str:
    """Run a command that may well fail, but only with a message and a code of ours."""
    from click.testing import CliRunner

    from threadkeep.cli.root import cli

    result = CliRunner().invoke(cli, ["mail", *words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    assert result.exit_code in range(6), result.stderr
    return result.stdout + result.stderr
