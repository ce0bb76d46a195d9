"""A Unix socket with one owner: bound without a race, given up without harm to the next owner.

Whoever listens holds a lock file beside the socket for as long as it lives, so two who start at
once never take each other's socket for a dead one. What is found at the path is removed only if
it is a socket at which nobody answers. Between binding and listening the socket gets its
permissions: until then every connection is refused.
"""

import contextlib
import errno
import hashlib
import os
import socket
import stat
import struct
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple, Self

from threadkeep.base.files import PRIVATE_DIR, PRIVATE_FILE, make_private_dir, translate_os
from threadkeep.base.presence import ExclusiveLock
from threadkeep.errors import Busy, Conflict, Invalid, NotFound, ThreadkeepError

LONGEST_PATH: Final = 100  # bytes; the kernel takes 103 on macOS, 107 on Linux
CONNECT_SECONDS: Final = 0.1
_PROBE_SECONDS: Final = 0.5
_BACKLOG: Final = 128
_CHOOSE: Final = "set another [socket] path in the configuration"
_ABSENT: Final = (errno.ENOENT, errno.ENOTDIR)


class Identity(NamedTuple):
    """Which file it is, whatever stands at its path by now."""

    device: int
    inode: int


def place_of(wanted: Path, *, uid: int, temporary: Path | None = None) -> Path:
    """Return where a socket really is: the kernel takes short paths only.

    One that is too long gets a name of its own in the user's own temporary folder.
    """
    if len(os.fsencode(wanted)) <= LONGEST_PATH:
        return wanted
    mark = hashlib.sha256(os.fsencode(wanted)).hexdigest()[:12]
    root = Path(tempfile.gettempdir()) if temporary is None else temporary
    place = root / f"threadkeep-{uid}" / f"daemon-{mark}.sock"
    if len(os.fsencode(place)) > LONGEST_PATH:
        msg = f"{wanted} and {place} are both too long for a socket"
        raise Invalid(msg, hint=f"{_CHOOSE} of {LONGEST_PATH} bytes at most, or a shorter TMPDIR")
    return place


class LocalSocket:
    """A Unix socket that listens; ours until `close`, and nobody else's meanwhile."""

    def __init__(self, wanted: Path, *, temporary: Path | None = None) -> None:
        """Bind and listen, or raise Conflict because the place is not ours to take."""
        self.path = place_of(wanted, uid=os.getuid(), temporary=temporary)
        make_private_dir(self.path.parent)
        if self.path != wanted:
            _check_own_folder(self.path.parent)
        self._lock = _lock(self.path)
        try:
            _make_way(self.path)
            self.socket, self._identity = _bind(self.path)
        except BaseException:
            self._lock.close()
            raise

    def hide(self) -> None:
        """Take the name away, so that nobody new finds it; only if it is still ours."""
        with contextlib.suppress(OSError):  # what is gone, or is not ours to remove, stays so
            if _identity(self.path) == self._identity:
                self.path.unlink()

    def close(self) -> None:
        """Stop listening and let the next owner in."""
        self.hide()
        self.socket.close()
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(wanted: Path, timeout: float = CONNECT_SECONDS) -> socket.socket:
    """Connect to whoever listens; NotFound if nobody does, Busy if it does not take us in time.

    What follows has no time limit until one is set.
    """
    path = place_of(wanted, uid=os.getuid())
    try:
        return _connect(path, timeout)
    except OSError as error:
        raise _no_connection(error, path) from None


def peer_uid(link: socket.socket) -> int | None:
    """Tell as which user the other side connected; None where the system does not say."""
    if sys.platform == "linux":
        raw = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", raw)[1])
    if sys.platform == "darwin":
        # LOCAL_PEERCRED of SOL_LOCAL: a version, then the user, then the groups.
        raw = link.getsockopt(0, 1, 76)
        return int(struct.unpack_from("2I", raw)[1])
    return None


def _connect(path: Path, timeout: float) -> socket.socket:
    """Wait in the kernel: with Python's own timeout a full queue is refused at once."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    seconds, part = divmod(timeout, 1)
    patience = struct.pack("ll", int(seconds), max(int(part * 1_000_000), 1))
    try:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)
        link.connect(os.fspath(path))
    except BaseException:
        link.close()
        raise
    return link


def _no_connection(error: OSError, path: Path) -> ThreadkeepError:
    if error.errno in (*_ABSENT, errno.ECONNREFUSED):
        return NotFound(f"nothing is listening at {path}", hint="start `threadkeep watch`")
    if isinstance(error, BlockingIOError):
        msg = f"the process listening at {path} does not answer"
        return Busy(msg, hint="try again in a moment, or restart `threadkeep watch`")
    return translate_os(error, path, "cannot connect to")


def _check_own_folder(folder: Path) -> None:
    """A temporary folder is everybody's: the one below it must be ours alone."""
    found = os.lstat(folder)
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    if not is_ours or stat.S_IMODE(found.st_mode) & ~PRIVATE_DIR:
        msg = f"{folder} is not private to this user"
        raise Conflict(msg, hint=f"check who created it; or {_CHOOSE}")


def _lock(path: Path) -> ExclusiveLock:
    try:
        return ExclusiveLock(path.with_name(f"{path.name}.lock"), "another listener")
    except Conflict:
        raise _in_use(path) from None


def _in_use(path: Path) -> Conflict:
    msg = f"the socket {path} is already in use"
    return Conflict(msg, hint=f"stop the program that listens there; or {_CHOOSE}")


def _identity(path: Path) -> Identity:
    found = os.lstat(path)
    return Identity(found.st_dev, found.st_ino)


def _make_way(path: Path) -> None:
    """Remove a socket at which nobody answers; refuse anything else that stands there."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise translate_os(error, path, "cannot read") from error
    if not stat.S_ISSOCK(found.st_mode):
        msg = f"{path} is not a socket; it was left alone"
        raise Conflict(msg, hint=f"move it away; or {_CHOOSE}")
    if _is_dead(path) and _identity(path) == (found.st_dev, found.st_ino):
        path.unlink()


def _is_dead(path: Path) -> bool:
    """Tell whether nobody listens; raise if somebody does, or if that cannot be told."""
    try:
        _connect(path, _PROBE_SECONDS).close()
    except ConnectionRefusedError:
        return True
    except BlockingIOError:
        msg = f"the socket {path} is in use, but its owner does not answer"
        raise Conflict(msg, hint=f"end that program; or {_CHOOSE}") from None
    except OSError as error:
        raise translate_os(error, path, "cannot connect to") from error
    raise _in_use(path)


def _bind(path: Path) -> tuple[socket.socket, Identity]:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(os.fspath(path))
        path.chmod(PRIVATE_FILE)
        listener.listen(_BACKLOG)
        return listener, _identity(path)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:  # it came after the look
            raise _in_use(path) from None
        raise translate_os(error, path, "cannot listen at") from error


# ------------------------------------------------------------------------------
# Whose a connection on this machine is: the user of the program at its other end.

Address = tuple[str, int]

_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LOCAL, _REMOTE, _USER = 1, 2, 7  # the columns of these tables


def peer_user(client: Address, server: Address) -> int | None:
    """Return the user id of whoever connected; None where the system does not tell."""
    wanted = (_written(client), _written(server))
    for table in _TABLES:
        try:
            lines = table.read_text("ascii", "replace").splitlines()[1:]
        except OSError:  # no Linux
            continue
        found = user_in(lines, *wanted)
        if found is not None:
            return found
    return None


def user_in(lines: list[str], local: str, remote: str) -> int | None:
    """Find the user of the socket with these two ends in a table of the kernel."""
    ends = f" {local} {remote} "
    for line in lines:
        if ends in line:  # cheaper than to take every line apart
            fields = line.split()
            if (fields[_LOCAL], fields[_REMOTE]) == (local, remote):
                return int(fields[_USER])
    return None


def _written(address: Address) -> str:
    """Write an address as the kernel does: each word of it in the machine's own byte order."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    try:
        packed = socket.inet_pton(family, address[0].partition("%")[0])
    except OSError:
        return ""  # no address: a socket of the file system, or a test
    words = struct.unpack(f"{'<' if sys.byteorder == 'little' else '>'}{len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{address[1]:04X}"
