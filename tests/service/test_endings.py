"""Every process of ours ends in good order: by itself, when it is stopped, with whoever started it.

In good order means its own exit code, and nothing on stderr that is not meant for the user.
"""

import os
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from tests.conftest import REPO
from tests.memory.vectors.embedders import write_tiny_model
from tests.support.user_homes import made_up_home
from threadkeep.home.home import Home
from threadkeep.service.maintenance import CUT_SHORT, MaintenanceTask as Upkeep
from threadkeep.web.part import WorkerTask as Page

PATIENCE = 60.0  # only a test that is broken ever waits this long
LONG = 3600.0
NOTES = ("http://127.0.0.1:", "Watching; Ctrl-C to stop", "the echo agent works in ")
BEGIN = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    b'"capabilities":{},"clientInfo":{"name":"probe","version":"1"}}}\n'
)
# A command as it is typed, but with all the time it needs to end: how long that takes depends on
# what else the machine does.
COMMAND = """
import sys
from threadkeep.cli import signals
signals._END_SECONDS, signals._INTERRUPTS = float(sys.argv.pop(1)), ()
from threadkeep.cli.app import main
sys.exit(main())
"""
EMBEDDER = """
import sys
from pathlib import Path
from threadkeep.memory.vectors import worker as working
from threadkeep.memory.vectors.builtin import WeightsFolder as Found
working.look_for_weights = lambda: Found(Path(sys.argv[1]), "")
sys.exit(working.main([sys.argv[2], sys.argv[3]]))
"""


class Process:
    """A process of ours with a pipe at each end."""

    def __init__(self, words: list[str], **more: object) -> None:
        self._held = {1: b"", 2: b""}
        self.process = subprocess.Popen(  # type: ignore[call-overload]
            [sys.executable, "-P", *words],
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(REPO / "src"), str(REPO)])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            **more,
        )

    def say(self, data: bytes) -> None:
        self.process.stdin.write(data)

    def hear(self, words: str, stream: int = 1) -> None:
        """Wait until it has said something."""
        pipe = self.process.stdout if stream == 1 else self.process.stderr
        while words.encode() not in self._held[stream]:
            assert select.select([pipe], [], [], PATIENCE)[0], f"it does not say {words!r}"
            data = os.read(pipe.fileno(), 65536)
            assert data, f"it ended without saying {words!r}: {self._held}"
            self._held[stream] += data

    def is_listened_at(self, port: int) -> None:
        """Wait until somebody answers."""
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as link:
            link.sendall(b"GET /alive HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            assert link.recv(100).startswith(b"HTTP/1.1")

    def ended(self) -> tuple[int, str]:
        """Return its exit code, and what it said on stderr."""
        self.process.wait(PATIENCE)  # its input stays open till then
        _, errors = self.process.communicate()
        return self.process.returncode, (self._held[2] + errors).decode()


Start = Callable[[Path, str], AbstractContextManager[Process]]


class Ways(NamedTuple):
    """How a process may be ended, and with which code it ends then."""

    alone: int | None = None  # it has nothing more to do
    left: int | None = None  # whoever started it is gone
    stopped: int | None = None  # SIGTERM


# ---------------------------------------------------------------------- the processes


@contextmanager
def started_command(folder: Path, *words: str) -> Iterator[Process]:
    with started(["-c", COMMAND, str(PATIENCE), "--home", str(folder / "home"), *words]) as process:
        yield process


@contextmanager
def started(words: list[str], **more: object) -> Iterator[Process]:
    process = Process(words, **more)
    with process.process:
        try:
            yield process
        finally:
            process.process.kill()


@contextmanager
def page(folder: Path, way: str) -> Iterator[Process]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        idle = 0.0 if way == "alone" else LONG
        order = Page(listener.fileno(), str(folder / "home"), None, idle)
        words = ["-m", "threadkeep.web.worker", msgspec.json.encode(order).decode()]
        with started(words, pass_fds=(listener.fileno(),)) as process:
            if way != "alone":
                process.is_listened_at(listener.getsockname()[1])
            yield process


@contextmanager
def upkeep(folder: Path, way: str) -> Iterator[Process]:
    user = made_up_home(folder / "user")
    order = Upkeep(str(folder / "home"), None, str(user), catch_up=True)
    words = ["-m", "threadkeep.service.maintenance", msgspec.json.encode(order).decode()]
    with Home(folder / "home").knowledge() as store, ExitStack() as stack:
        if way == "left":  # it waits for the store, and is left meanwhile
            stack.enter_context(store.context.db.write())
        process = stack.enter_context(started(words))
        if way == "alone":
            process.hear("}")
        yield process


@contextmanager
def vectors(folder: Path, way: str) -> Iterator[Process]:
    write_tiny_model(folder / "model")
    idle = "0" if way == "alone" else str(LONG)
    words = ["-c", EMBEDDER, str(folder / "model"), str(folder / "cache"), idle]
    with started(words) as process:
        yield process


@contextmanager
def mcp(folder: Path, _: str) -> Iterator[Process]:
    with started_command(folder, "mcp") as process:
        process.say(BEGIN)
        process.hear('"result"')
        yield process


def command(*words: str, hear: str, stream: int) -> Start:
    """Return how a command is started, and what it says when it is at work."""

    @contextmanager
    def start(folder: Path, _: str) -> Iterator[Process]:
        user = folder / "user"
        user.mkdir()
        told = [word.format(user=user) for word in words]
        with started_command(folder, *told) as process:
            process.hear(hear, stream)
            yield process

    return start


@contextmanager
def browser_host(folder: Path, _: str) -> Iterator[Process]:
    with started_command(folder, "native-host") as process:
        process.say(struct.pack("=I", 2) + b"{}")
        process.hear("status")
        yield process


@contextmanager
def mail_host(folder: Path, _: str) -> Iterator[Process]:
    with Home(folder / "home").mailroom() as room:
        session = room.new_session("helper", "cli", "me")
        room.host(session.id).send("hello")
    words = ["mail", "serve", "--agent", "exec cat", "--channel-log", str(folder / "out.jsonl")]
    with started_command(folder, *words) as process:
        process.hear("agent started")
        yield process


@contextmanager
def mail_agent(folder: Path, _: str) -> Iterator[Process]:
    with Home(folder / "home").mailroom() as room:
        session = room.new_session("helper", "cli", "me").id
    words = ["mail", "echo", session]
    with started_command(folder, *words) as process:
        process.hear("the echo agent works in", 2)
        yield process


SERVE = ("serve", "--json", "--user-home", "{user}", "--no-socket", "--no-web")
WATCH = ("watch", "--user-home", "{user}", "--no-socket")
PROGRAMS: dict[str, tuple[Start, Ways]] = {
    "page": (page, Ways(alone=0, left=0, stopped=-signal.SIGTERM)),
    "upkeep": (upkeep, Ways(alone=0, left=CUT_SHORT)),
    "vectors": (vectors, Ways(alone=0, left=0)),
    "mcp": (mcp, Ways(left=0, stopped=0)),
    "browser host": (browser_host, Ways(left=0)),
    "mcp over http": (
        command("mcp", "--http", "--port", "0", hear="answers", stream=2),
        Ways(stopped=0),
    ),
    "serve": (command(*SERVE, hear="serves", stream=1), Ways(stopped=0)),
    "watch": (command(*WATCH, hear="Watching", stream=2), Ways(stopped=0)),
    "mail serve": (mail_host, Ways(stopped=0)),
    "mail echo": (mail_agent, Ways(stopped=0)),
}
CASES = [
    (name, way)
    for name, (_, ways) in PROGRAMS.items()
    for way, code in ways._asdict().items()
    if code is not None
]


@pytest.mark.parametrize("name, way", CASES)
def test_a_process_ends_in_good_order(tmp_path: Path, name: str, way: str) -> None:
    start, ways = PROGRAMS[name]
    with start(tmp_path, way) as process:
        if way == "left":
            process.process.stdin.close()
            process.process.stdin = None
        elif way == "stopped":
            process.process.send_signal(signal.SIGTERM)
        code, errors = process.ended()
    notes = [line for line in errors.splitlines() if not line.startswith(NOTES)]
    assert (code, notes) == (getattr(ways, way), [])
