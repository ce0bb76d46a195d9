"""A file of lines that several processes append to, each line whole or not at all."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from threadkeep.base.files import PRIVATE_FILE, sync_dir
from threadkeep.base.trouble import translate_os

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 20


class LineFile:
    """One file of lines; remembers how far it was read, so that each line is read once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read_to = 0

    def append(self, line: str, unless: Callable[[list[str]], bool]) -> bool:
        """Append a line, on the disk when this returns; False if it was not wanted.

        `unless` is given the lines that are new since the last call, while nobody else can
        write, and tells whether to leave the line out. Half a line at the end, from a writer
        that died, is cut off.
        """
        try:
            return self._append(line.encode() + b"\n", unless)
        except OSError as error:
            raise translate_os(error, self.path, "cannot append to") from error

    def _append(self, data: bytes, unless: Callable[[list[str]], bool]) -> bool:
        is_new = not self.path.exists()
        descriptor = os.open(self.path, _FLAGS, PRIVATE_FILE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if unless(self._catch_up(descriptor)):
                return False
            while data:
                data = data[os.write(descriptor, data) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if is_new:
            sync_dir(self.path.parent)
        return True

    def _catch_up(self, descriptor: int) -> list[str]:
        """Give the whole lines from where we were; from the beginning if the file was replaced."""
        size = os.fstat(descriptor).st_size
        if size < self._read_to:
            self._read_to = 0
        whole, torn = _split(descriptor, self._read_to)
        self._read_to += len(whole)
        if torn:
            os.ftruncate(descriptor, self._read_to)
        return whole.decode("utf-8", "replace").split("\n")[:-1]


def _split(descriptor: int, start: int) -> tuple[bytes, bytes]:
    data = bytearray()
    while chunk := os.pread(descriptor, _CHUNK, start + len(data)):
        data += chunk
    end = data.rfind(b"\n") + 1
    return bytes(data[:end]), bytes(data[end:])
