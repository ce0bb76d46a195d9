"""A home of its own for every test, and two ways to run the command: inside, or as a process."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import pytest
from click.testing import CliRunner, Result

from tests.conftest import REPO
from tests.support.hermes_v6 import HermesV6
from threadkeep import ChatStore, Session, SessionDB
from threadkeep.base import json
from threadkeep.base.clock import now_ms
from threadkeep.cli.root import cli

Json = dict[str, Any]

HOSTILE = "\x1b[31mred\x1b]0;owned\x07 [bold]markup[/bold] [link=file:///etc]x[/] \u202egnp.exe"


class Run(Protocol):
    """Runs the command in this process."""

    def __call__(self, *words: str, stdin: str | bytes | None = None, code: int = 0) -> Result: ...


class Start(Protocol):
    """Starts the command as a process, with pipes on all three streams."""

    def __call__(self, *words: str, **environ: str) -> "subprocess.Popen[bytes]": ...


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("THREADKEEP_CONFIG", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("THREADKEEP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "hermes"))
    return tmp_path / "home"


@pytest.fixture
def run(home: Path) -> Run:
    def invoke(*words: str, stdin: str | bytes | None = None, code: int = 0) -> Result:
        result = CliRunner().invoke(cli, list(words), input=stdin)
        assert result.exit_code == code, (result.exit_code, result.stdout, result.stderr)
        return result

    return invoke


@pytest.fixture
def start(home: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def popen(*words: str, **environ: str) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(
            [sys.executable, "-m", "threadkeep", *words],
            env=os.environ | {"PYTHONPATH": str(REPO / "src")} | environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        started.append(process)
        return process

    yield popen
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream is not None
            with suppress(BrokenPipeError):  # what nobody read any more
                stream.close()


@pytest.fixture
def store(home: Path) -> Iterator[ChatStore]:
    """Open the store of the home; its clock ticks at every look, so that no two times are equal."""
    with ChatStore.open(home / "chat.db", clock=count(now_ms()).__next__) as opened:
        yield opened


@pytest.fixture
def state(home: Path) -> Iterator[SessionDB]:
    """Open the state store of the home; its clock is a little behind, and never stands still."""
    ticks = count(now_ms() - 100_000)
    with SessionDB(home / "state.db", clock=lambda: next(ticks) / 1000) as opened:
        yield opened


def hermes_file(path: Path) -> Path:
    """Make a state file as Hermes itself makes it, with one session in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with HermesV6(path) as hermes:
        hermes.create_session("theirs", "cli")
        hermes.append("theirs", "user", "hello from Hermes")
    return path


def document(result: Result) -> Json:
    """Read the one JSON document that a command printed."""
    assert result.stdout.count("\n") == 1
    found: Json = json.decode(result.stdout)
    assert found["schema_version"] == 1
    return found


def jsonl(chunks: list[Json]) -> bytes:
    return "".join(json.encode(chunk) + "\n" for chunk in chunks).encode()


def sse(chunks: list[Json]) -> bytes:
    body = "".join(f"data: {json.encode(chunk)}\n\n" for chunk in chunks)
    return f"{body}data: [DONE]\n\n".encode()


def text_reply(*deltas: str, part: str = "0") -> list[Json]:
    return [
        {"type": "start"},
        {"type": "text-start", "id": part},
        *({"type": "text-delta", "id": part, "delta": delta} for delta in deltas),
        {"type": "text-end", "id": part},
        {"type": "finish", "finishReason": "stop"},
    ]


def tool_reply(call: str = "c1", command: str = "ls") -> list[Json]:
    tool = {"toolCallId": call, "toolName": "bash"}
    return [
        {"type": "start"},
        {"type": "start-step"},
        {"type": "reasoning-start", "id": "r"},
        {"type": "reasoning-delta", "id": "r", "delta": "look first"},
        {"type": "reasoning-end", "id": "r"},
        {"type": "tool-input-available", **tool, "input": {"command": command}},
        {"type": "tool-output-available", "toolCallId": call, "output": "a.txt\nb.txt"},
        {"type": "finish-step"},
        {"type": "start-step"},
        {"type": "text-start", "id": "t"},
        {"type": "text-delta", "id": "t", "delta": "two files"},
        {"type": "text-end", "id": "t"},
        {"type": "finish-step"},
        {"type": "finish", "finishReason": "stop"},
    ]


def talk(
    store: ChatStore, title: str | None = "A talk", reply: str = "an answer", **options: Any
) -> Session:
    """Store a session with one question and one answer."""
    session = store.create_session(agent="build", model="p/m", title=title, **options)
    store.say(session, "a question")
    answer(store, session, text_reply(reply))
    return store.session(session)


def answer(store: ChatStore, session: Session, chunks: list[Json], **options: Any) -> str:
    with store.record(session, **options) as recorder:
        for chunk in chunks:
            recorder.feed(chunk)
    assert recorder.message_id is not None
    return recorder.message_id
