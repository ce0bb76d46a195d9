"""A folder in which many programs leave what they have to report, until somebody takes it.

A program leaves a file whole (`put`), or appends to one of its own, opening it again each time. The
one who collects first renames a file, so that the next append begins a new one, and reads it
then. Nothing waits for anything: a shell at its prompt least of all.
"""

import os
import re
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

import msgspec

from threadkeep.base.files import PRIVATE_FILE, make_private_dir, sync_dir, translate_os
from threadkeep.base.processes import is_running
from threadkeep.errors import ThreadkeepError

APPENDED: Final = ".tk"  # a shell appends to it
WHOLE: Final = ".jsonl"  # it was left whole
TAKEN: Final = ".taken"
# A shell may have opened a file just before it was renamed; it writes within microseconds.
_GRACE_SECONDS: Final = 10.0
_REFUSED: Final = "refused"
_PART: Final = ".part"
_SCRATCH: Final = re.compile(r"\w+-(\d{1,9})\.scratch")
_DAY_SECONDS: Final = 86_400.0
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Unreadable(ThreadkeepError):
    """One file of the spool cannot be read; that is no reason to leave the others."""


class SpoolFile(msgspec.Struct, frozen=True):
    """A file that was taken from the spool."""

    path: Path
    kind: str  # APPENDED or WHOLE

    @property
    def name(self) -> str:
        """Its name, which no other file ever had."""
        return self.path.name

    @property
    def original(self) -> str:
        """The name that it had before."""
        return self.path.name.partition(TAKEN)[0]


class Spool:
    """The folder; it comes into being when something is put into it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, data: bytes) -> Path:
        """Leave a file with this content, on the disk when this returns, whole or not at all."""
        return _put(self.folder, f"{time.time_ns()}-{uuid4().hex[:12]}{WHOLE}", data)

    def waiting(self) -> list[Path]:
        """Return the files that nobody has taken yet, or that are not done with."""
        return [path for path in self._files() if _kind(path.name)]

    def take(self) -> list[SpoolFile]:
        """Take every file; those of an earlier time that are not done with are among them."""
        taken = []
        for path in self._files():
            kind = _kind(path.name)
            if kind:
                taken.append(SpoolFile(_renamed(path), kind))
        return [one for one in taken if one.path.name]

    def read(self, taken: SpoolFile, offset: int, limit: int) -> bytes:
        """Read so many bytes from a place on; nothing if there are none."""
        try:
            descriptor = os.open(taken.path, _READ)
        except FileNotFoundError:  # another collector was done with it
            return b""
        except OSError as error:
            raise _unreadable(taken, error) from error
        try:
            return _read(descriptor, offset, limit)
        except OSError as error:
            raise _unreadable(taken, error) from error
        finally:
            os.close(descriptor)

    def is_settled(self, taken: SpoolFile) -> bool:
        """Tell whether nobody can be writing to a file any more."""
        try:
            age = time.time() - taken.path.lstat().st_ctime
        except FileNotFoundError:
            return True
        return taken.kind == WHOLE or abs(age) > _GRACE_SECONDS

    def done(self, taken: SpoolFile, offset: int, keep_as: str = "") -> bool:
        """Remove a file that was read to this place, or give it back its name with an ending.

        False if somebody wrote to it since, or still may.
        """
        try:
            grown = taken.path.lstat().st_size > offset
        except FileNotFoundError:
            return True
        if grown or not self.is_settled(taken):
            return False
        if keep_as:
            taken.path.replace(_unused(self.folder / (taken.original + keep_as)))
        else:
            taken.path.unlink(missing_ok=True)
        return True

    def set_aside(self, name: str, data: bytes) -> Path:
        """Keep what nobody could understand, in a folder inside this one.

        What is set aside again under its name is there once.
        """
        return _put(self.folder / _REFUSED, name, data)

    def refuse(self, taken: SpoolFile) -> None:
        """Keep a whole file there, that somebody may look at it."""
        make_private_dir(self.folder / _REFUSED)
        with suppress(FileNotFoundError):  # another collector did it
            taken.path.rename(self.folder / _REFUSED / taken.name)

    def sweep(self) -> None:
        """Remove what dead programs left behind: scratch files of shells, halves of reports."""
        for path in self._files():
            owner = _SCRATCH.fullmatch(path.name)
            dead = not is_running(int(owner[1])) if owner else path.suffix == _PART
            with suppress(OSError):
                if dead and time.time() - path.lstat().st_mtime > _DAY_SECONDS:
                    path.unlink()

    def _files(self) -> list[Path]:
        """Return the plain files, those that were left first before the others."""
        found: list[tuple[int, str]] = []
        try:
            with os.scandir(self.folder) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):  # another collector was done with it
                        if entry.is_file(follow_symlinks=False):
                            found.append(
                                (entry.stat(follow_symlinks=False).st_mtime_ns, entry.name)
                            )
        except FileNotFoundError:
            return []
        except OSError as error:
            raise translate_os(error, self.folder, "cannot read") from error
        return [self.folder / name for _, name in sorted(found)]


def _put(folder: Path, name: str, data: bytes) -> Path:
    make_private_dir(folder)
    spare, path = folder / f".{uuid4().hex}{_PART}", folder / name
    try:
        _write(spare, data)
        spare.rename(path)
        sync_dir(folder)
    except OSError as error:
        with suppress(OSError):
            spare.unlink(missing_ok=True)
        raise translate_os(error, folder, "cannot leave anything in") from error
    return path


def _unreadable(taken: SpoolFile, error: OSError) -> Unreadable:
    msg = f"{taken.path.name} in the spool cannot be read: {error.strerror}"
    return Unreadable(msg, hint=f"it is kept in the folder {_REFUSED} there; check who owns it")


def _kind(name: str) -> str:
    plain = name.partition(TAKEN)[0] if TAKEN in name else name
    if plain.startswith("."):
        return ""
    return next((kind for kind in (APPENDED, WHOLE) if plain.endswith(kind)), "")


def _renamed(path: Path) -> Path:
    if TAKEN in path.name:
        return path
    new = path.with_name(f"{path.name}{TAKEN}-{time.time_ns()}-{uuid4().hex[:8]}")
    try:
        path.rename(new)
    except FileNotFoundError:  # another collector was faster
        return Path()
    except OSError as error:
        raise translate_os(error, path, "cannot take") from error
    return new


def _unused(path: Path) -> Path:
    return path.with_name(f"{path.name}-{uuid4().hex[:8]}") if path.exists() else path


def _write(path: Path, data: bytes) -> None:
    descriptor = os.open(path, _NEW, PRIVATE_FILE)
    try:
        while data:
            data = data[os.write(descriptor, data) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(descriptor: int, offset: int, limit: int) -> bytes:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return b""
    pieces, left = [], limit
    while left and (piece := os.pread(descriptor, left, offset)):
        pieces.append(piece)
        offset += len(piece)
        left -= len(piece)
    return b"".join(pieces)
