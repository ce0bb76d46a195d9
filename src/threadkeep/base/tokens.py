"""A secret in a private file, and short-lived signs that are made with it.

The secret itself never leaves the file but in a header. What is in an address is a sign: it
says what it is for and how long it holds, and only somebody who has the secret can make one.
"""

import base64
import hashlib
import hmac
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from threadkeep.base.clock import is_due
from threadkeep.base.files import (
    PRIVATE_FILE,
    create_private_file,
    make_private_dir,
    read_note,
    translate_os,
    write_note,
)
from threadkeep.errors import Invalid, NotFound, ThreadkeepError

_LENGTH: Final = 43  # 32 random bytes in base64
_MOST: Final = 256
_NONCE_BYTES: Final = 12
_KEPT_MS: Final = 30 * 86_400_000
_FLAGS: Final = os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)


def make_secret(path: Path) -> str:
    """Return the secret of a file; it is made the first time, readable by its owner alone."""
    make_private_dir(path.parent)
    if not os.path.lexists(path):
        # The file has its name when all of it is there: who comes at the same time reads it whole.
        create_private_file(path, lambda spare: _put(spare, secrets.token_urlsafe(32) + "\n"))
    return read_secret(path)


def _put(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | _FLAGS), "w") as file:
        file.write(text)


def read_secret(path: Path) -> str:
    """Read the secret of a file; one that others may read, or that is no secret, is refused."""
    try:
        descriptor = os.open(path, os.O_RDONLY | _FLAGS)
    except FileNotFoundError as error:
        raise NotFound(f"no token in {path}", hint="`threadkeep up` creates one") from error
    except OSError as error:
        raise translate_os(error, path, "cannot read the token") from error
    with os.fdopen(descriptor, "rb") as file:
        if os.fstat(descriptor).st_mode & 0o077:
            msg = f"others may read the token in {path}"
            raise Invalid(msg, hint="delete the file: a new token is created")
        secret = file.read(_MOST).decode("ascii", "replace").strip()
    if len(secret) < _LENGTH:
        raise Invalid(f"{path} holds no token", hint="delete the file: a new one is created")
    return secret


class SecretFile:
    """The secret of a file as it is now: one that is deleted or replaced holds no longer."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, ...] = ()
        self._secret: str | None = None

    def current(self) -> str | None:
        """Return the secret; None while there is none, or others may read it."""
        try:
            found = os.stat(self._path, follow_symlinks=False)
        except OSError:
            self._seen, self._secret = (), None
            return None
        seen = (found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        if seen != self._seen:
            self._seen, self._secret = seen, None
            with suppress(ThreadkeepError):
                self._secret = read_secret(self._path)
        return self._secret


def sign(secret: str, purpose: str, until_ms: int, nonce: bytes) -> str:
    """Make a sign for one purpose that holds until a moment."""
    head = f"{_text(nonce)}.{until_ms}"
    return f"{head}.{_mark(secret, purpose, head)}"


def new_sign(secret: str, purpose: str, until_ms: int) -> str:
    """Make a sign that nobody made before."""
    return sign(secret, purpose, until_ms, secrets.token_bytes(_NONCE_BYTES))


def holds(secret: str, purpose: str, given: str, now_ms: int, length_ms: int) -> bool:
    """Tell whether a sign was made with the secret for this purpose, and still holds.

    Signs of this purpose hold for `length_ms`: one that would for longer is of a wrong clock.
    """
    head, _, mark = given.rpartition(".")
    made = hmac.compare_digest(mark.encode(), _mark(secret, purpose, head).encode())
    until = head.rpartition(".")[2]
    if not (made and until.isascii() and until.isdigit()):
        return False
    return not is_due(int(until), now_ms, length_ms)


def use_once(folder: Path, given: str, now_ms: int) -> bool:
    """Note in a folder that a sign was used; False if it was used before."""
    make_private_dir(folder)
    sweep(folder, now_ms)
    try:
        name = folder / _used_name(given)
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, PRIVATE_FILE))
    except FileExistsError:
        return False
    return True


def was_used(folder: Path, given: str) -> bool:
    """Tell whether a sign that holds was used; that does not use it."""
    return os.path.lexists(folder / _used_name(given))


def _used_name(given: str) -> str:
    nonce, until, _ = given.split(".")
    return f"{nonce}.{until}"


def sweep(folder: Path, now_ms: int) -> None:
    """Delete what a folder says about signs that hold no longer, by far: clocks are put back."""
    for name in os.listdir(folder):  # noqa: PTH208  (names alone are needed)
        until = name.rpartition(".")[2]
        if until.isascii() and until.isdigit() and int(until) < now_ms - _KEPT_MS:
            with suppress(OSError):
                os.unlink(folder / name)  # noqa: PTH108  (the same)


def mark_of(secret: str, purpose: str = "mark") -> str:
    """Make a text that is another one for each secret, and from which nobody learns it."""
    return _mark(secret, purpose, "")


def _mark(secret: str, purpose: str, head: str) -> str:
    text = f"{purpose}\n{head}".encode()
    return _text(hmac.new(secret.encode(), text, hashlib.sha256).digest())


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


# ------------------------------------------------------------------------------
# Signs that were given out: a private file for each, so that they can be listed and taken back.
#
# The file has the sign's hash for a name, never the sign. It is there as long as the sign holds;
# whoever deletes it takes the sign back at once, and its time says when the sign was last shown.

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
        """Return the id of a sign that is shown; None if it was taken back, or unused for long."""
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
        """Return the signs that were made with a secret, those used last first."""
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
