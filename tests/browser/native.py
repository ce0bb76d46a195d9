"""The other end of native messaging: a script that the browser starts, and the test that answers.

The script only carries bytes between the browser and a socket of the test, so the test sees every
message as it comes, and decides what is answered.
"""

import json
import queue
import shlex
import socket
import struct
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.browser.cdp import PATIENCE_S

Message = dict[str, Any]

HOST_MANIFEST = Path("NativeMessagingHosts") / "threadkeep.json"  # below a profile

CARRIER = """\
import os, selectors, socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect(sys.argv[1])
hear, say = lambda: line.recv(65536), lambda data: os.write(1, data)
ways = selectors.DefaultSelector()
ways.register(0, selectors.EVENT_READ, (lambda: os.read(0, 65536), line.sendall))
ways.register(line, selectors.EVENT_READ, (hear, say))
while True:
    for key, _ in ways.select():
        read, write = key.data
        data = read()
        if not data:
            sys.exit()
        write(data)
"""


class NativeHost:
    """A host whose messages arrive in the test; `answer` says what the browser gets back."""

    def __init__(self, folder: Path, answer: Callable[[Message], Message | None]) -> None:
        self.answer = answer
        self._came: queue.Queue[Message] = queue.Queue()
        self._address = folder / "host.sock"
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(self._address))
        self._listening.listen()
        self._lines: list[socket.socket] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def command(self) -> list[str]:
        """What the browser must start."""
        return [sys.executable, "-I", "-S", "-c", CARRIER, str(self._address)]

    def next(self, kind: str) -> Message:
        """Wait for the next message of a kind, passing over others; visits have no `type`."""
        while True:
            message = self._came.get(timeout=PATIENCE_S)
            if message.get("type", "visit") == kind:
                return message

    def visits_before(self, kind: str) -> list[Message]:
        """Return the visits that came before the next message of a kind."""
        visits = []
        while (message := self._came.get(timeout=PATIENCE_S)).get("type", "visit") != kind:
            visits.append(message)
        return [message for message in visits if "type" not in message]

    def close(self) -> None:
        """End the threads first: one that waits does not notice that its socket is closed."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listening.close()
        for line in self._lines:
            with suppress(OSError):  # the browser was faster
                line.shutdown(socket.SHUT_RDWR)
            line.close()

    def _accept(self) -> None:
        try:
            while True:
                line, _ = self._listening.accept()
                self._lines.append(line)
                threading.Thread(target=self._serve, args=(line,), daemon=True).start()
        except OSError:  # closed: the test is over
            return

    def _serve(self, line: socket.socket) -> None:
        try:
            while message := _read(line):
                reply = self.answer(message)
                self._came.put(message)
                if reply is not None:
                    data = json.dumps(reply).encode()
                    line.sendall(struct.pack("=I", len(data)) + data)
        except OSError:  # the browser has gone
            return


def _read(line: socket.socket) -> Message | None:
    head = _exactly(line, 4)
    if head is None:
        return None
    body = _exactly(line, struct.unpack("=I", head)[0])
    return None if body is None else dict(json.loads(body))


def _exactly(line: socket.socket, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        got = line.recv(size - len(data))
        if not got:
            return None
        data += got
    return data


def install_host(profile: Path, extension_id: str, command: list[str]) -> Path:
    """Write the host's manifest into a Chromium profile; give its path."""
    script = profile / "native-host"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n', "utf-8")
    script.chmod(0o700)
    manifest = profile / HOST_MANIFEST
    manifest.parent.mkdir(exist_ok=True)
    described = {
        "name": "threadkeep",
        "description": "test",
        "path": str(script),
        "type": "stdio",
        "allowed_origins": [f"chrome-extension://{extension_id}/"],
    }
    manifest.write_text(json.dumps(described), "utf-8")
    return manifest
