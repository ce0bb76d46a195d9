"""`threadkeep mcp`: one client's pipe, served by whichever process of this home was first."""

import os
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn

from threadkeep import __version__
from threadkeep.base.local_socket import LocalSocket, connect
from threadkeep.errors import Busy, Conflict, NotFound, ThreadkeepError
from threadkeep.mcp.lifetime import Ended, Parent
from threadkeep.mcp.relay import Relay
from threadkeep.mcp.socket import Meeting, meeting

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

_PATIENCE: Final = 10.0  # seconds to find or become the server
_PAUSE: Final = 0.05


class Joining:
    """How a relay finds the server of a home, or becomes it."""

    def __init__(self, home: str | None, path: str | None, meet: Meeting, *, share: bool) -> None:
        self._home, self._path, self._meet, self._share = home, path, meet, share
        self._listener: LocalSocket | None = None

    def __call__(self) -> socket.socket:
        """Connect to the server, or start it in this process."""
        until = time.monotonic() + _PATIENCE
        while self._share and time.monotonic() < until:
            with suppress(NotFound, Busy):
                return connect(self._meet.place)
            try:
                self._listener = LocalSocket(self._meet.place)
            except Conflict:  # somebody else becomes it just now
                time.sleep(_PAUSE)
                continue
            except (ThreadkeepError, OSError):  # no place for a socket: serve our client alone
                break
            return self._host(self._listener)
        return self._host(None)

    def leave(self) -> None:
        """Take the socket's name away, so that the next one need not find it dead."""
        if self._listener is not None:
            self._listener.hide()

    def _host(self, listener: LocalSocket | None) -> socket.socket:
        from threadkeep.mcp.hosting import host  # noqa: PLC0415  (a relay needs none of it)

        return host(self._build, listener)

    def _build(self) -> "Server[Any]":
        from threadkeep.home.home import Home  # noqa: PLC0415  (loads every store)
        from threadkeep.home.stores import Desk  # noqa: PLC0415  (loads services)
        from threadkeep.mcp.server import make_room, make_server, offered  # noqa: PLC0415  (SDK)

        home = Home(self._home)
        room = make_room(home, Desk(home, self._path))
        return make_server(room, offered(write=self._meet.write))


def serve_stdio(home: str | None, path: str | None, *, write: bool, share: bool) -> NoReturn:
    """Serve the client at standard input and output until it, or our parent, is gone."""
    parent = Parent()
    meet = meeting(home, path, version=__version__, write=write)
    join = Joining(home, path, meet, share=share)
    code = 0
    try:
        parent.watch()
        Relay(*_own_streams(), join, parent).run()
    except Ended:
        pass
    except ConnectionError:
        code = 1
    finally:
        join.leave()
    # Threads of the server may be in the middle of a question that nobody asks any more.
    os._exit(code)


def _own_streams() -> tuple[int, int]:
    """Keep the pipes for ourselves: what else reads or prints in this process is not the client."""
    client_in, client_out = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return client_in, client_out
