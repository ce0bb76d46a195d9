"""The web server as a part of `threadkeep serve`: a socket that is listened at, and little else.

The server itself is a process of its own. It is started when somebody connects, is given the
socket, and ends when nobody has for a while: what nobody looks at costs no memory, and whatever
happens to it, capture goes on.
"""

import select
import socket
import subprocess
import sys
import threading
from typing import Final

import msgspec

from threadkeep.errors import ThreadkeepError
from threadkeep.home import Home
from threadkeep.home.maintenance import named_home
from threadkeep.home.serving import Bell, Part
from threadkeep.home.web_place import address_of, listen, note_address
from threadkeep.home.web_token import make_token, one_time_link

IDLE_SECONDS: Final = 300.0
_LEAVE_SECONDS: Final = 2.0


class Order(msgspec.Struct, frozen=True):
    """What the process that serves is told."""

    descriptor: int
    home: str | None  # None: the home that the environment names
    db: str | None
    idle_seconds: float


def web_part(home: Home, listener: socket.socket, db: str | None) -> Part:
    """Give the part that answers at a socket which is bound already."""
    return Part("web", lambda bell: _answer(home, listener, db, bell))


def bound(home: Home, *, exactly: bool) -> tuple[socket.socket, str]:
    """Bind the socket of a home's web server, and give its address."""
    web = home.config.web
    listener = listen(web, exactly=exactly)
    address = address_of(web, listener)
    make_token(home)
    note_address(home, address)
    return listener, address


def link(home: Home, address: str) -> str:
    """Give a link that lets a browser in, once."""
    return one_time_link(home, address)


def _answer(home: Home, listener: socket.socket, db: str | None, bell: Bell) -> None:
    near, far = socket.socketpair()

    def ring() -> None:
        bell.stop.wait()
        far.close()  # wakes who waits at the other end

    threading.Thread(target=ring, name="threadkeep-web-ends", daemon=True).start()
    with near:
        while not bell.stop.is_set():
            select.select([listener, near], [], [])
            if not bell.stop.is_set():
                _serve_once(home, listener, db, bell)


def _serve_once(home: Home, listener: socket.socket, db: str | None, bell: Bell) -> None:
    """Let a process answer until it has nothing to do, or it is the end."""
    order = Order(listener.fileno(), named_home(home), db, IDLE_SECONDS)
    words = [sys.executable, "-P", "-m", "threadkeep.web.worker"]
    with subprocess.Popen(  # noqa: S603  (this interpreter and this package)
        [*words, msgspec.json.encode(order).decode()],
        stdin=subprocess.PIPE,  # its end is our end
        pass_fds=(order.descriptor,),
    ) as process:
        threading.Thread(target=_tell_end, args=(process, bell), daemon=True).start()
        bell.wait_for(lambda: process.poll() is not None)
        if process.poll() is None:
            _leave(process)
    if process.returncode not in {0, -15} and not bell.stop.is_set():
        raise ThreadkeepError(f"the web server's process ended with {process.returncode}")


def _tell_end(process: "subprocess.Popen[bytes]", bell: Bell) -> None:
    process.wait()
    bell.ring()


def _leave(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None  # noqa: S101  (it is a pipe)
    process.stdin.close()
    try:
        process.wait(_LEAVE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
