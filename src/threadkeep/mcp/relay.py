"""Between a client's pipe and a server's socket: a small process that outlives the server.

It loads neither the SDK nor a store. When the server goes away it joins the next one, or becomes
it, and goes on with the session where it was.
"""

import os
import select
import socket
import time
from collections.abc import Callable
from typing import Final

from threadkeep.mcp.lifetime import LOOK_SECONDS, Ended, Parent
from threadkeep.mcp.session_log import (
    LONGEST_LINE,
    SessionLog,
    answer_id,
    failed,
    received,
    refusal,
    resumed,
    sent,
    too_long,
)

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
            self._log = sent(self._log, line)
            self._unsent += line + b"\n"
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
        """The server is gone: go on at the next one."""
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
            for line in failed(self._log, "no server stays alive; see the log of threadkeep mcp"):
                self._tell_client(line)
            raise ConnectionError("no server stays alive")
        link = self._join()
        link.settimeout(0)
        return link
