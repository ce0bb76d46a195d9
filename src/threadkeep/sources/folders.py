"""Folders and names of other programs, whatever is in them: the one way they are looked through.

A log is a regular file inside a root. Links below a root are not followed, neither to files nor
to folders: whoever can write into a log folder could lead us to any file of the user's. The root
itself may be a link, for that is how people move their folders to another disk. What may hold
logs and cannot be read is told, never passed over in silence.
"""

import errno
import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Final

from threadkeep.sources.records import Stamp, UnreadablePlace, UserHome

# Of one folder: each entry takes some 200 bytes while it is looked through, and no program keeps
# so many logs side by side.
MOST_ENTRIES: Final = 100_000
_NOT_THERE: Final = (errno.ENOENT, errno.ENOTDIR)
_MODE: Final = "chmod u+rX"
_LINKED: Final = "it is a link, and logs are read from regular files inside {} alone"


# ---------------------------------------------------------------------- folders


def listed(folder: str, user: UserHome, *, is_root: bool = False) -> list[os.DirEntry[str]]:
    """List a folder by name; nothing of one that is not there, or behind a link below a root."""
    try:
        if not is_root and os.path.islink(folder):  # noqa: PTH114  (quick)
            _tell_link(folder, user)
            return []
        with os.scandir(folder) as found:
            below = list(islice(found, MOST_ENTRIES + 1))
    except OSError as error:
        tell_unseen(folder, error, user)
        return []
    if len(below) > MOST_ENTRIES:
        why = f"it has more than {MOST_ENTRIES:,} entries; not all of them were read"
        user.tell(UnreadablePlace(folder, why, "move what is not needed elsewhere"))
        below.pop()
    return sorted(below, key=lambda entry: entry.name)


def folders_in(folder: Path, user: UserHome, *, is_root: bool = False) -> list[Path]:
    """List the folders in a folder by name; none if it cannot be read."""
    below = listed(str(folder), user, is_root=is_root)
    return [Path(entry.path) for entry in below if is_folder(entry, user)]


def is_folder(entry: os.DirEntry[str], user: UserHome) -> bool:
    """Tell whether an entry is a folder; a link to one is told, and is none."""
    try:
        if entry.is_dir(follow_symlinks=False):
            return True
        if entry.is_symlink() and entry.is_dir():
            _tell_link(entry.path, user)
    except OSError as error:
        tell_unseen(entry.path, error, user)
    return False


# ---------------------------------------------------------------------- files


def files_below(
    folder: Path, user: UserHome, *suffixes: str, depth: int = 12, is_root: bool = False
) -> Iterator[tuple[Path, Stamp]]:
    """Yield the regular files below a folder in the order of their paths, with their stamps."""
    for path, stamp in paths_below(str(folder), user, suffixes, depth, is_root=is_root):
        yield Path(path), stamp


def paths_below(
    folder: str, user: UserHome, suffixes: tuple[str, ...], depth: int, *, is_root: bool = False
) -> Iterator[tuple[str, Stamp]]:
    """Do the same with plain strings: of thousands of files, `Path` takes most of the time."""
    for entry in listed(folder, user, is_root=is_root):
        if is_folder(entry, user):
            if depth > 0:
                yield from paths_below(entry.path, user, suffixes, depth - 1)
        elif entry.name.endswith(suffixes):
            stamp = entry_stamp(entry, user)
            if stamp is not None:
                yield entry.path, stamp


def entry_stamp(entry: os.DirEntry[str], user: UserHome) -> Stamp | None:
    """Make the stamp of a regular file; None for anything else, and a link is told."""
    try:
        if entry.is_file(follow_symlinks=False):
            return stamp_of(entry.stat(follow_symlinks=False))
        if entry.is_symlink():
            _tell_link(entry.path, user)
    except OSError as error:
        tell_unseen(entry.path, error, user)
    return None


def file_stamp(path: Path, user: UserHome, *, is_root: bool = False) -> Stamp | None:
    """Make the stamp of one regular file; None if there is none, and why is told."""
    try:
        status = path.stat() if is_root else path.lstat()
    except OSError as error:
        tell_unseen(str(path), error, user)
        return None
    if stat.S_ISLNK(status.st_mode):
        _tell_link(str(path), user)
    return stamp_of(status) if stat.S_ISREG(status.st_mode) else None


def database_stamp(path: Path, user: UserHome, *, is_root: bool = False) -> Stamp | None:
    """Make the stamp of a database with its write-ahead log; None if no such file exists."""
    own = file_stamp(path, user, is_root=is_root)
    if own is None:
        return None
    try:
        wal = Path(f"{path}-wal").lstat()
    except OSError:
        return own
    return own._replace(size=own.size + wal.st_size, mtime_ns=max(own.mtime_ns, wal.st_mtime_ns))


def stamp_of(status: os.stat_result) -> Stamp:
    """Make the stamp of a file from its status."""
    return Stamp(
        status.st_size, status.st_mtime_ns, status.st_dev, status.st_ino, status.st_ctime_ns
    )


# ---------------------------------------------------------------------- what is told


def tell_unseen(path: str, error: OSError, user: UserHome) -> None:
    """Tell what keeps us from looking at a place; that nothing is there is nothing to tell."""
    if error.errno in _NOT_THERE:
        return
    place = _closed_at(path) if isinstance(error, PermissionError) else path
    user.tell(UnreadablePlace(place, error.strerror or str(error), _fix(place, error)))


def _tell_link(path: str, user: UserHome) -> None:
    why = _LINKED.format("the folder they were found in")
    user.tell(UnreadablePlace(path, why, "put the file itself there", is_link=True))


def _closed_at(path: str) -> str:
    """Return the folder whose permissions stand in the way: it may be above the one asked for."""
    above = [*reversed(Path(path).parents), Path(path)]
    return next((str(one) for one in above if not os.access(one, os.R_OK | os.X_OK)), path)


def _fix(place: str, error: OSError) -> str:
    if not isinstance(error, PermissionError):
        return f"check the disk or the mount: ls -ld {quote(printable(place))}"
    return f"{_MODE} {quote(printable(place))}"


# ---------------------------------------------------------------------- names


def printable(name: str) -> str:
    """Return a file's name as text that can be stored, whatever bytes it was made of."""
    return name.encode("utf-8", "backslashreplace").decode()
