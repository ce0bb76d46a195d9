"""Signs that were given out: a private file for each, so that they can be listed and taken back.

The file has the sign's hash for a name, never the sign. It is there as long as the sign holds;
whoever deletes it takes the sign back at once, and its time says when the sign was last shown.
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from threadkeep.base.files import make_private_dir
from threadkeep.base.tokens import mark_of, read_note, sweep, write_note

_ID: Final = 10  # characters of a hash by which people name a sign
_NOTED_MS: Final = 60_000  # a sign that is shown all the time is noted once a minute


class GivenSign(msgspec.Struct, frozen=True):
    """A sign that was given out."""

    id: str
    until: int
    used_at: int
    note: str  # for whom


class GivenSigns:
    """The signs that were given out with a secret, as they lie in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, secret: str, sign: str, note: str, now_ms: int, most: int) -> None:
        """Note that a sign was given; of too many, those that were not used longest go."""
        make_private_dir(self._folder)
        sweep(self._folder, now_ms)
        for one in self.listed(secret)[most - 1 :]:
            self.remove(one.id)
        write_note(self._folder / _name(sign), f"{mark_of(secret)}\n{note}")

    def use(self, sign: str, now_ms: int, idle_ms: int) -> str | None:
        """Give the id of a sign that is shown; None if it was taken back, or unused for long."""
        name = _name(sign)
        try:
            used = os.stat(self._folder / name).st_mtime_ns // 1_000_000
        except OSError:
            return None
        if now_ms - used >= idle_ms:
            return None
        if abs(now_ms - used) >= _NOTED_MS:  # a time to come is one of a clock that was ahead
            with suppress(OSError):  # a disk that cannot be written keeps nobody out
                os.utime(self._folder / name, ns=(now_ms * 1_000_000,) * 2)
        return name[:_ID]

    def listed(self, secret: str) -> list[GivenSign]:
        """Give the signs that were made with a secret, those used last first."""
        of = mark_of(secret)
        found = []
        for name in self._names():
            with suppress(OSError):  # taken back in this moment
                used = os.stat(self._folder / name).st_mtime_ns // 1_000_000
                head, _, note = (read_note(self._folder / name) or "").partition("\n")
                if head == of:
                    until = int(name.rpartition(".")[2])
                    found.append(GivenSign(name[:_ID], until, used, note))
        return sorted(found, key=lambda one: (-one.used_at, one.id))

    def remove(self, id_: str) -> bool:
        """Take a sign back; False if there is none with this id."""
        gone = False
        for name in self._names():
            if name[:_ID] == id_:
                with suppress(FileNotFoundError):
                    os.unlink(self._folder / name)  # noqa: PTH108  (as everywhere here)
                    gone = True
        return gone

    def _names(self) -> Iterator[str]:
        try:
            names = os.listdir(self._folder)  # noqa: PTH208  (names alone are needed)
        except FileNotFoundError:
            return
        yield from (name for name in names if _is_name(name))


def _name(sign: str) -> str:
    """Name the file of a sign; when it ends stands in the name, as in the sign."""
    until = sign.split(".")[1] if sign.count(".") >= 2 else "0"  # noqa: PLR2004
    return f"{hashlib.sha256(sign.encode('utf-8', 'replace')).hexdigest()}.{until}"


def _is_name(name: str) -> bool:
    digest, _, until = name.partition(".")
    return len(digest) == 64 and until.isascii() and until.isdigit()  # noqa: PLR2004  (hex digits)
