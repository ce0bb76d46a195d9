"""`threadkeep mcp`: one client's pipe, served by whichever process of this home was first."""

import ctypes
import hashlib
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from threadkeep import __version__
from threadkeep.base.config import load_config
from threadkeep.base.local_socket import LocalSocket, connect
from threadkeep.base.paths import environment, find_paths
from threadkeep.errors import Busy, Conflict, NotFound, ThreadkeepError
from threadkeep.mcp.relay_state import (
    LONGEST_LINE,
    SessionLog,
    answer_id,
    failed,
    received,
    refusal,
    resumed,
    sent,
    too_long,
    welcome,
)

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server


# ------------------------------------------------------------------------------
# Where processes of one home meet: a socket that one of them listens at, and all others find.
#
# Finding it loads no store: whoever only passes messages on stays small.


class Meeting(NamedTuple):
    """Where the processes of a home meet for one purpose, and whether they may write."""

    place: Path
    write: bool


def meeting(home: str | None, path: str | None, *, version: str, write: bool) -> Meeting:
    """Name the socket of a home's MCP server.

    There is one for each store, for each version of the program, and for those that may write.
    """
    paths = find_paths(environment(), None if home is None else Path(home))
    config = load_config(paths.config)
    may_write = write or config.mcp.write
    store = (path and Path(path).absolute(), paths.data.absolute(), config.stores.knowledge)
    told = f"{store} {version} {may_write}"
    mark = hashlib.sha256(told.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return Meeting(paths.runtime.absolute() / f"mcp-{mark}.sock", may_write)


# ------------------------------------------------------------------------------
# A server of a pipe lives no longer than whoever started it.
#
# Closed input ends it, and so do SIGTERM, SIGHUP and SIGINT. Where the pipe stays open although the
# parent is gone, since somebody else holds it too, the parent itself is watched: the kernel tells
# of
# its end (Linux), and it is looked for every second.

_PR_SET_PDEATHSIG: Final = 1
# The kernel sends it also when only the thread ends that started us, so that it may not be deadly.
_LOOK: Final = signal.SIGUSR2
_ENDS: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
LOOK_SECONDS: Final = 1.0


class Ended(BaseException):
    """Nobody wants this process any more; raised wherever it stands."""


def is_adopted(own: int, session: int, parents_session: int | None) -> bool:
    """Tell whether a parent ended before we could look at it, by our session and that of the new.

    A child is in the session of its parent, or leads one of its own. Whoever takes orphans in is
    in another one.
    """
    return parents_session is not None and session not in {own, parents_session}


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:  # some systems do not tell
        return None


class Parent:
    """Whoever started this process."""

    def __init__(self) -> None:
        self.pid = os.getppid()
        self._was_gone = is_adopted(os.getpid(), os.getsid(0), _session_of(self.pid))

    @property
    def is_gone(self) -> bool:
        """Tell whether it has ended: then somebody else is our parent."""
        return self._was_gone or os.getppid() != self.pid

    def watch(self) -> None:
        """End with the parent and by signals; only the main thread may ask for it."""
        for number in _ENDS:
            signal.signal(number, self._end)
        signal.signal(_LOOK, self._look)
        if sys.platform == "linux":
            with suppress(OSError, AttributeError):  # without it, looking every second will do
                ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(_LOOK), 0, 0, 0)

    def _end(self, *_: object) -> None:
        raise Ended

    def _look(self, *_: object) -> None:
        if self.is_gone:
            raise Ended


# ------------------------------------------------------------------------------
# Between a client's pipe and a server's socket: a small process that outlives the server.
#
# It loads neither the SDK nor a store, and answers `initialize` while the server is still loading
# them. When the server goes away it joins the next one, or becomes it, and continues the session.

_PIECE: Final = 1 << 16
# Seconds for answers to what was asked before the client stopped asking: a client that is gone
# wants none. A server that has just been started, and has not said a word yet, gets longer.
LAST_WORDS: Final = 1.5
FIRST_WORDS: Final = 10.0
_GLANCE_SECONDS: Final = 0.25
_MOST_JOINS: Final = 5  # in a row, without a single answer between

Join = Callable[[], socket.socket]


class LineBuffer:
    """Bytes that come piece by piece, given back line by line; of one that is too long, a part."""

    def __init__(self, longest: int | None = None) -> None:
        self._longest = longest
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Take a piece; give the lines that are whole now."""
        self._rest += data
        if b"\n" not in data:  # a long line comes in many pieces, which are looked at once
            self._shorten()
            return []
        *whole, rest = self._rest.split(b"\n")
        self._rest = rest
        self._shorten()
        return [bytes(line) for line in whole if line.strip()]

    def _shorten(self) -> None:
        """Keep one byte more than a line may have: what follows does not make it better."""
        if self._longest is not None:
            del self._rest[self._longest + 1 :]


class Relay:
    """One client's session, carried on from server to server."""

    def __init__(
        self,
        client_in: int,
        client_out: int,
        join: Join,
        parent: Parent,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._in, self._out = client_in, client_out
        self._join, self._parent = join, parent
        self._monotonic = monotonic
        self._log = SessionLog()
        self._asking = True  # the client may still say something
        self._asked_at = monotonic()  # when it could for the last time
        self._heard_at: float | None = None  # when a server said its first word
        self._joins = 0
        self._unsent = bytearray()
        self._swallowed: bytes | None = None
        self._said, self._heard = LineBuffer(LONGEST_LINE), LineBuffer()
        self._link = self._join_next()

    def run(self) -> None:
        """Carry lines both ways until the client or the parent is gone."""
        try:
            while not self._parent.is_gone and self._is_wanted():
                self._turn()
        finally:
            self._link.close()

    def _is_wanted(self) -> bool:
        """Tell whether the client may ask more, or waits for an answer to what it asked."""
        if self._asking:
            self._asked_at = self._monotonic()
            return True
        return bool(self._log.pending) and self._monotonic() < self._patience()

    def _patience(self) -> float:
        """Until when a client that asks no more is served."""
        if self._heard_at is None:
            return self._asked_at + FIRST_WORDS
        return max(self._asked_at, self._heard_at) + LAST_WORDS

    def _turn(self) -> None:
        ready = self._wait()
        if self._in in ready:
            self._hear_client()
        if self._link.fileno() in ready:
            self._exchange(ready[self._link.fileno()])

    def _wait(self) -> dict[int, int]:
        poll = select.poll()
        if self._asking and len(self._unsent) <= LONGEST_LINE:  # else the server is behind
            poll.register(self._in, select.POLLIN)
        poll.register(self._link, select.POLLIN | (select.POLLOUT if self._unsent else 0))
        left = LOOK_SECONDS if self._asking else self._patience() - self._monotonic()
        return dict(poll.poll(max(0.0, min(LOOK_SECONDS, left)) * 1000))

    def _hear_client(self) -> None:
        data = os.read(self._in, _PIECE)
        # What has no line feed at the end of everything is a message all the same.
        for line in self._said.feed(data or b"\n"):
            refused = too_long() if len(line) > LONGEST_LINE else refusal(line)
            if refused is not None:
                self._tell_client(refused)
                continue
            greeting = welcome(line) if self._log.beginning is None else None
            self._log = sent(self._log, line)
            self._unsent += line + b"\n"
            if greeting is not None:  # the server answers it too, once it is loaded
                self._swallowed = answer_id(greeting)
                self._log = received(self._log, greeting)
                self._tell_client(greeting)
        self._asking = bool(data)

    def _exchange(self, events: int) -> None:
        try:
            if self._unsent and events & select.POLLOUT:
                del self._unsent[: self._link.send(self._unsent)]
            heard = self._link.recv(_PIECE) if events & ~select.POLLOUT else None
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            heard = b""
        if heard:
            self._hear_server(heard)
        elif heard is not None:
            self._go_on()

    def _hear_server(self, data: bytes) -> None:
        if self._heard_at is None:
            self._heard_at = self._monotonic()
        for line in self._heard.feed(data):
            self._joins = 0
            if self._swallowed is not None and answer_id(line) == self._swallowed:
                self._swallowed = None
                continue
            self._log = received(self._log, line)
            self._tell_client(line)

    def _tell_client(self, line: bytes) -> None:
        rest = memoryview(line + b"\n")
        while rest:
            self._wait_for_reader()
            try:
                rest = rest[os.write(self._out, rest[: select.PIPE_BUF]) :]
            except BlockingIOError:  # a client may have made the pipe so
                continue
            except OSError:  # it does not read any more
                raise Ended from None

    def _wait_for_reader(self) -> None:
        """Wait till some bytes can be written at once; one that has hung up is not waited for."""
        poll = select.poll()
        poll.register(self._out, select.POLLOUT)
        while not poll.poll(_GLANCE_SECONDS * 1000):
            now = self._monotonic()
            if not self._has_hung_up():
                self._asked_at = now
            if self._parent.is_gone or now >= self._asked_at + LAST_WORDS:
                raise Ended

    def _has_hung_up(self) -> bool:
        poll = select.poll()
        poll.register(self._in, 0)
        return bool(poll.poll(0))

    def _go_on(self) -> None:
        """The server is gone: continue at the next one."""
        self._link.close()
        self._heard = LineBuffer()
        lived = self._joins == 0
        self._link = self._join_next()
        again = resumed(self._log, lived=lived)
        self._log, self._swallowed = again.log, again.swallowed
        self._unsent = bytearray(b"".join(line + b"\n" for line in again.to_server))
        for line in again.to_client:
            self._tell_client(line)

    def _join_next(self) -> socket.socket:
        self._joins += 1
        if self._joins > _MOST_JOINS:
            for line in failed(
                self._log, "the server keeps stopping; see the log of threadkeep mcp"
            ):
                self._tell_client(line)
            raise ConnectionError("the server keeps stopping")
        link = self._join()
        link.settimeout(0)
        return link


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
        from threadkeep.mcp.host import host  # noqa: PLC0415  (a relay needs none of it)

        return host(self._build, listener)

    def _build(self) -> "Server[Any]":
        from threadkeep.home.home import Home  # noqa: PLC0415  (loads every store)
        from threadkeep.home.stores import Stores  # noqa: PLC0415  (see above)
        from threadkeep.mcp.server import make_room, make_server, offered  # noqa: PLC0415  (SDK)

        room = make_room(Stores(Home(self._home), self._path))
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
