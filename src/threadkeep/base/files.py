"""Files and file systems: where a database may live, and how its file comes to be.

A database file that somebody in this process may have open is never opened here: closing any
descriptor of it would drop SQLite's own locks (POSIX locks belong to the process, not to the
descriptor), and acknowledged writes would be lost without a word.
"""

import contextlib
import errno
import fcntl
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from threadkeep.base.text import pattern
from threadkeep.errors import Conflict, ReadOnly, StorageFull, ThreadkeepError

_MOUNTINFO = Path("/proc/self/mountinfo")
PRIVATE_FILE = 0o600
PRIVATE_DIR = 0o700
# What SQLite keeps beside a database file.
SIDECARS = ("-wal", "-shm", "-journal")

# Shared memory and locks do not work across hosts or virtual machines, and WAL needs both:
# on virtiofs a database was corrupt after one minute, on ext4 clean after thirty.
_NETWORK_FILESYSTEMS = frozenset(
    (
        *("9p", "afs", "beegfs", "ceph", "cifs", "coda", "drvfs", "fakeowner", "fuse", "gfs"),
        *("gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "ocfs2", "orangefs", "prl_fs", "vboxsf"),
        *("virtiofs", "vmhgfs", "wekafs"),
    )
)
_OCTAL = pattern(rb"\\([0-7]{3})")


def translate_os(error: OSError, path: Path, attempt: str = "") -> ThreadkeepError:
    """Turn an error of the operating system about a file into one of ours."""
    said = f"{attempt} {path}: {error.strerror}".strip()
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StorageFull(said, hint="free some space")
    return ReadOnly(said, hint="check its permissions, or choose another place (--db)")


def supports_wal(filesystem: str) -> bool:
    """Tell whether a write-ahead log is safe on a file system of this kind."""
    kind = filesystem.lower()
    return kind not in _NETWORK_FILESYSTEMS and not kind.startswith(("fuse.", "nfs", "smb"))


def filesystem_of(path: Path, mountinfo: str) -> str:
    """Name the file-system kind that holds `path`, from the text of /proc/self/mountinfo."""
    inside = f"{path}/"
    best, kind = "", ""
    for line in mountinfo.split("\n"):
        before, found, after = line.partition(" - ")
        fields = before.split(" ")
        if not found or len(fields) < 5:  # noqa: PLR2004  (the mount point is field five)
            continue
        mount = _unescape(fields[4]).rstrip("/") + "/"
        # The last mount on a point wins, so an equal length replaces as well.
        if len(mount) >= len(best) and inside.startswith(mount):
            best, kind = mount, after.split(" ", 1)[0]
    return kind


def _unescape(mount: str) -> str:
    r"""The kernel writes a blank as \040; every other byte stays, in whatever encoding it is."""
    plain = _OCTAL.sub(lambda found: bytes([int(found[1], 8)]), os.fsencode(mount))
    return os.fsdecode(plain)


def wal_allowed(path: Path) -> tuple[bool, str]:
    """Tell whether the folder of `path` may hold a WAL database, and on which file system it is."""
    try:
        mountinfo = os.fsdecode(_MOUNTINFO.read_bytes())
    except OSError:  # not Linux: local disks are the rule there
        return True, ""
    kind = filesystem_of(path.resolve().parent, mountinfo)
    return supports_wal(kind), kind


def make_private_dir(path: Path) -> None:
    """Create a folder, and the missing ones above it, for the owner alone."""
    missing = [p for p in (path, *path.parents) if not p.exists()]
    for folder in reversed(missing):
        try:
            folder.mkdir(mode=PRIVATE_DIR, exist_ok=True)
        except OSError as error:
            raise translate_os(error, folder, "cannot create the folder") from error


def create_private_file(path: Path, shape: Callable[[Path], None]) -> bool:
    """Create a file for the owner alone, as `shape` makes it; False if it exists already.

    The file gets its name only after it is shaped and closed, so no descriptor of a visible
    database file is ever closed here. SQLite gives -wal and -shm the same permissions.
    """
    spare = path.with_name(f".{path.name}.{os.urandom(6).hex()}.new")
    try:
        descriptor = os.open(spare, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE_FILE)
    except OSError as error:
        raise translate_os(error, path, "cannot create") from error
    os.close(descriptor)
    try:
        shape(spare)
        return give_name(spare, path)
    except OSError as error:
        raise translate_os(error, path, "cannot create") from error
    finally:
        with contextlib.suppress(OSError):  # an empty file that stays does no harm
            spare.unlink()


def give_name(spare: Path, path: Path) -> bool:
    """Give a file its name; False if another one has it."""
    try:
        os.link(spare, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links: rename, after a last look
        if path.exists():
            return False
        spare.rename(path)
    return True


def set_aside(path: Path, label: str, *, named: bool = False) -> Path | None:
    """Rename a database and its sidecars, whole; give the new name of the first, if any was there.

    A log without its database goes too: it must neither be lost nor meet another database. With
    `named` the database keeps its old name besides the new one, where the file system can do that.
    """
    parts = [suffix for suffix in ("", *SIDECARS) if Path(f"{path}{suffix}").exists()]
    for suffix in parts:
        old, new = Path(f"{path}{suffix}"), Path(f"{path}.{label}{suffix}")
        if suffix or not named or not give_name(old, new):
            old.rename(new)
    return Path(f"{path}.{label}{parts[0]}") if parts else None


def is_zero_filled(path: Path) -> bool:
    """Tell whether a file holds nothing but zeros: what some crashes leave of one.

    Ask only of a file that SQLite has refused: reading a live database drops its locks.
    """
    with path.open("rb") as file:
        return all(not any(block) for block in iter(lambda: file.read(1 << 20), b""))


def put_in_place(new: Path, path: Path, label: str) -> Path | None:
    """Give a new file the name of a database; the old one is set aside whole, if there is one.

    The name is not free meanwhile: a program that does not know our lock would begin an empty
    database there.
    """
    there = path.exists()
    aside = set_aside(path, label, named=True)
    if there:
        new.replace(path)
        return aside
    if not give_name(new, path):
        raise created_meanwhile(path)
    new.unlink(missing_ok=True)
    return None


def created_meanwhile(path: Path) -> Conflict:
    """Say that somebody else began a database in the place of a missing one."""
    return Conflict(f"{path} was created in the meantime, and was left unchanged", hint="try again")


def identity_of(path: Path) -> tuple[int, int] | None:
    """Tell which file stands at a path, None if there is none that can be seen."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def sync_dir(folder: Path) -> None:
    """Make a rename or a new name in `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ------------------------------------------------------------------------------
# A file of lines that several processes append to, each line whole or not at all.

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


# ------------------------------------------------------------------------------
# Which other processes have a file open: asked of the system, where it tells.

_PROC: Final = Path("/proc")


def holders_of(path: Path) -> list[tuple[int, str]] | None:
    """Return the processes that have a database or a file beside it open, None if nobody tells.

    Processes of other users do not show theirs, so there may be more.
    """
    if not sys.platform.startswith("linux"):
        return None
    base = os.path.realpath(path)
    watched = {f"{base}{suffix}" for suffix in ("", *SIDECARS)}
    found: list[tuple[int, str]] = []
    for pid in sorted(int(one.name) for one in _PROC.iterdir() if one.name.isdigit()):
        held = next((name for name in _open_files(pid) if name in watched), None)
        if held is not None:
            found.append((pid, held))
    return found


def _open_files(pid: int) -> list[str]:
    """A file that was deleted while it is open is named with that said behind."""
    try:
        return [_target(one) for one in (_PROC / str(pid) / "fd").iterdir()]
    except OSError:  # it has ended, or is another user's
        return []


def _target(link: Path) -> str:
    try:
        return str(link.readlink()).removesuffix(" (deleted)")
    except OSError:  # closed meanwhile
        return ""


def foreign_holders(db_path: str | Path) -> list[tuple[int, str]]:
    """Give the other processes that have a file open; where nobody tells, one without a number."""
    found = holders_of(Path(db_path))
    if found is None:
        return [] if os.name == "nt" else [(-1, "open files cannot be listed here")]
    return [(pid, held) for pid, held in found if pid != os.getpid()]


def remove_folder(path: Path) -> bool:
    """Remove a folder with all that is in it; tell whether it was there."""
    import shutil  # noqa: PLC0415  (14 ms)

    there = path.exists()
    if there:
        shutil.rmtree(path)
    return there


# ------------------------------------------------------------------------------
# Short texts of our own, each in a private file.

_NOTE: Final = 256  # bytes that are read of one
_NOTE_FLAGS: Final = os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)


def write_note(path: Path, text: str) -> None:
    """Keep a short text in a private file; whoever reads it finds the old one or the new one."""
    make_private_dir(path.parent)
    spare = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    descriptor = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOTE_FLAGS, PRIVATE_FILE)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        os.replace(spare, path)  # noqa: PTH105  (as everywhere here)
    except BaseException:
        spare.unlink(missing_ok=True)
        raise


def read_note(path: Path) -> str | None:
    """Return what was kept in a private file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | _NOTE_FLAGS)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(_NOTE).decode("utf-8", "replace")


# Files that belong to something that is gone.


def remove_leftovers(folder: Path, name: str, patterns: Iterable[str]) -> None:
    """Remove the files of a folder that fit a pattern in which `{}` stands for the name.

    A name that is more than one part of a path removes nothing. What cannot be removed stays.
    """
    if not name or Path(name).name != name:
        return
    from glob import escape  # noqa: PLC0415  (seldom needed, and every command loads this module)

    for shape in patterns:
        with contextlib.suppress(OSError):
            for path in folder.glob(shape.replace("{}", escape(name))):
                _remove(path)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        import logging  # noqa: PLC0415  (the same)

        logging.getLogger(__name__).info("%s stays: %s", path, error)
