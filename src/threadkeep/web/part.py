"""The web server as a part of `threadkeep serve`: a socket that is listened at, and little else.

The server itself is a process of its own. It is started when somebody connects, is given the
socket, and ends when nobody has for a while: what nobody looks at costs no memory, and whatever
happens to it, capture continues.
"""

import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from threadkeep.errors import ThreadkeepError
from threadkeep.home.home import Home
from threadkeep.service.maintenance import named_home
from threadkeep.service.supervisor import Bell, ServicePart
from threadkeep.service.web_access import (
    address_of,
    listen,
    make_token,
    note_address,
)

PART: Final = "web"
IDLE_SECONDS: Final = 300.0
_LEAVE_SECONDS: Final = 2.0
# Somebody sits in front of a browser and waits.
_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 30.0
_MOST_SAID: Final = 2000


class WorkerTask(msgspec.Struct, frozen=True):
    """What the process that serves is told."""

    descriptor: int
    home: str | None  # None: the home that the environment names
    db: str | None
    idle_seconds: float


def web_part(
    home: Home, listener: socket.socket, db: str | None, *, at_once: bool = False
) -> ServicePart:
    """Return the part that answers at a socket which is bound already.

    With `at_once` the process is there before anybody comes: a browser is being opened.
    """
    door, address = Door(home, listener, db, at_once=at_once), address_of(home.config.web, listener)

    def answer(bell: Bell) -> None:
        # Only now: who is refused because the home is served already must not name his own.
        note_address(home, address)
        door.answer(bell)

    return ServicePart(PART, answer, _FIRST_PAUSE, _LONGEST_PAUSE)


def bound(home: Home, *, exactly: bool) -> tuple[socket.socket, str]:
    """Bind the socket of a home's web server, and give its address."""
    web = home.config.web
    listener = listen(web, exactly=exactly)
    address = address_of(web, listener)
    make_token(home)
    return listener, address


class Door:
    """Starts the process that answers whenever somebody is at the door and nobody answers."""

    def __init__(
        self, home: Home, listener: socket.socket, db: str | None, *, at_once: bool = False
    ) -> None:
        self._home, self._listener, self._db = home, listener, db
        self._expected = at_once

    def answer(self, bell: Bell) -> None:
        """Wait for somebody, let a process answer, and wait again."""
        with _ending(bell) as end:
            while not bell.stop.is_set():
                if not self._expected:
                    select.select([self._listener, end], [], [])
                self._expected = False
                if not bell.stop.is_set():
                    self._serve_once(bell, end)

    def _serve_once(self, bell: Bell, end: socket.socket) -> None:
        """Let a process answer until it has nothing to do, or it is the end."""
        order = WorkerTask(self._listener.fileno(), named_home(self._home), self._db, IDLE_SECONDS)
        words = [sys.executable, "-P", "-m", "threadkeep.web.worker"]
        with subprocess.Popen(  # noqa: S603  (this interpreter and this package)
            [*words, msgspec.json.encode(order).decode()],
            stdin=subprocess.PIPE,  # its end is our end
            stdout=subprocess.PIPE,  # and ours its
            pass_fds=(order.descriptor,),
            process_group=0,  # Ctrl-C is for us; it ends as always then
        ) as process:
            said = _last_words(process, end)
            _leave(process)
        if process.returncode not in {0, -signal.SIGTERM} and not bell.stop.is_set():
            raise ThreadkeepError(_what_ended(process.returncode, said))


@contextmanager
def _ending(bell: Bell) -> Iterator[socket.socket]:
    """Return a socket that can be read when it is the end."""
    near, far = socket.socketpair()
    over = threading.Event()

    def ring() -> None:
        bell.wait_for(over.is_set)
        far.close()

    threading.Thread(target=ring, name="threadkeep-web-ends", daemon=True).start()
    try:
        with near:
            yield near
    finally:
        over.set()
        bell.ring()  # else that thread would wait on, one for each time that this fails


def _last_words(process: "subprocess.Popen[bytes]", end: socket.socket) -> str:
    """Wait until a process ends, or it is the end; give what it said at last."""
    assert process.stdout is not None  # noqa: S101  (it is a pipe)
    said, speaks = b"", process.stdout.fileno()
    while end.fileno() not in select.select([speaks, end.fileno()], [], [])[0]:
        piece = os.read(speaks, _MOST_SAID)
        if not piece:
            break
        said = (said + piece)[-_MOST_SAID:]
    return said.decode("utf-8", "replace").strip()


def _what_ended(code: int, said: str) -> str:
    how = f"was ended by signal {-code}" if code < 0 else f"ended with {code}"
    return f"the web server's process {how}" + (f": {said}" if said else "")


def _leave(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None  # noqa: S101  (it is a pipe)
    process.stdin.close()
    try:
        process.wait(_LEAVE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
