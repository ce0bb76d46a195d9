"""The Chrome DevTools protocol over a pair of pipes: JSON messages, each ended by a NUL byte."""

import json
import os
import select
import time
from collections.abc import Callable
from typing import Any

Message = dict[str, Any]

PATIENCE_S = 30  # only ends a test that would hang for ever; nothing is decided by it


class Pipe:
    """One connection to a browser; calls wait for their answer, events are kept until asked for."""

    def __init__(self, reader: int, writer: int) -> None:
        self._reader = reader
        self._writer = writer
        self._rest = b""
        self._last_id = 0
        self._events: list[Message] = []

    def call(self, method: str, session: str | None = None, **params: Any) -> Message:
        """Send a command and give its result."""
        self._last_id += 1
        command: Message = {"id": self._last_id, "method": method, "params": params}
        if session is not None:
            command["sessionId"] = session
        self._send(json.dumps(command).encode() + b"\0")
        while True:
            message = self._receive()
            if message.get("id") == self._last_id:
                assert "error" not in message, f"{method}: {message['error']}"
                result: Message = message["result"]
                return result
            self._events.append(message)

    def event(self, method: str, matches: Callable[[Message], bool] = lambda _: True) -> Message:
        """Wait for an event, or take one that has come already, and give its parameters."""
        while (found := self.known(method, matches)) is None:
            self._events.append(self._receive())
        return found

    def known(self, method: str, matches: Callable[[Message], bool]) -> Message | None:
        """Return the parameters of an event that has come already, once; or None."""
        for index, message in enumerate(self._events):
            if message.get("method") == method and matches(message):
                del self._events[index]
                params: Message = message["params"]
                return params
        return None

    def forget(self) -> None:
        """Drop the events that nobody asked for."""
        self._events.clear()

    def close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)

    def _send(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._writer, data) :]

    def _receive(self) -> Message:
        until = time.monotonic() + PATIENCE_S
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._reader], [], [], max(0, until - time.monotonic()))
            assert ready, "the browser says nothing any more"
            got = os.read(self._reader, 1 << 20)
            assert got, "the browser has ended"
            self._rest += got
        one, _, self._rest = self._rest.partition(b"\0")
        message: Message = json.loads(one)
        return message
