"""Files below a folder that somebody hostile may change at any moment: no step follows a link.

The caller trusts the root folder and the way to it. From there on each name is opened relative
to the descriptor of the folder before it, so a folder that is swapped for a link between two
steps is refused, and one that is swapped later is still the one that was checked. Only plain
files are read. One with a second name is refused: it may be a file that the other side could
not read itself, or a live database, whose locks this process would lose by closing it.
"""

import errno
import itertools
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from shlex import quote
from typing import Final

from threadkeep.base.files import PRIVATE_DIR, PRIVATE_FILE, translate_os
from threadkeep.errors import Conflict, Invalid, NotFound, ThreadkeepError, TooLarge

MOST_ENTRIES: Final = 100_000  # of one folder: what may be listed, or removed at once

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL
# An open must neither wait (for a pipe's other end, or for a lease that somebody took on the
# file) nor make a terminal ours.
_AT_ONCE: Final = os.O_NONBLOCK | os.O_NOCTTY

_CHUNK: Final = 1 << 20
_BATCH: Final = 1000
_TOKEN: Final = 8  # random bytes of a name that nobody else makes
_SPARE: Final = re.compile(r"\.[0-9a-f]{16}\.part")

_IN_THE_WAY: Final = (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO, errno.EAGAIN)
_BAD_NAME: Final = (errno.ENAMETOOLONG, errno.EILSEQ)
_NOT_EMPTY: Final = (errno.ENOTEMPTY, errno.EEXIST)


def make_dir(root: Path, *parts: str) -> None:
    """Make a folder below `root`, and those above it, where they are missing.

    Every name on the way is on the disk afterwards, also one from a process that was killed
    before it could see to that.
    """
    path = _path(root, parts)
    with _told(path, "cannot make the folder"), ExitStack() as stack:
        folder = stack.enter_context(_opened(root, _FOLDER))
        owner = os.fstat(folder)
        for part in parts:
            with suppress(FileExistsError):
                os.mkdir(part, PRIVATE_DIR, dir_fd=folder)
            os.fsync(folder)
            folder = stack.enter_context(_opened(part, _FOLDER, folder))
            _give(folder, owner)


def write_files(root: Path, parts: Sequence[str], files: Mapping[str, bytes]) -> None:
    """Write files into a folder, for its owner alone: whole, all or none, and on the disk.

    One that is there with the same bytes is left as it is, and with others a Conflict. Files
    get their names when all are complete, so that a full disk leaves nothing behind; a killed
    process may leave hidden `.part` files.
    """
    paths = {name: _path(root, parts, name) for name in files}
    with _told(_path(root, parts), "cannot write into"), _below(root, parts) as folder:
        missing = [name for name in files if not _has(folder, name, files[name], paths[name])]
        with ExitStack() as cleanup:
            spares = [_write_spare(folder, files[name], root, cleanup) for name in missing]
            for spare, name in zip(spares, missing, strict=True):
                taken = not _named(folder, spare, name)  # another writer was quicker
                if taken and not _has(folder, name, files[name], paths[name]):
                    raise Conflict(f"{paths[name]} came and went", hint="try again")
        os.fsync(folder)


def read(
    root: Path, parts: Sequence[str], name: str, limit: int, *, hard_links: bool = False
) -> bytes:
    """Read a plain file of at most `limit` bytes; one with a second name only if allowed to."""
    path = _path(root, parts, name)
    with _told(path, "cannot read"):
        try:
            with _below(root, parts) as folder:
                return _read_plain(folder, name, path, limit, hard_links=hard_links)
        except PermissionError as error:
            # The other side can lock its own files: a bad file, and no trouble of ours.
            hint = "check its owner and permissions"
            raise Invalid(f"{path} may not be read", hint=hint) from error


def append(
    root: Path, parts: Sequence[str], name: str, data: bytes, *, unless_in_last: int = 0
) -> None:
    """Add bytes to the end of a plain file, which is made if it is missing; on the disk after.

    Nothing is added if they stand among the last `unless_in_last` bytes already.
    """
    path = _path(root, parts, name)
    with _told(path, "cannot append to"), _below(root, parts) as folder:
        info = _look(folder, name)
        if info is not None:  # looking comes first: see `_read_plain`
            _check_plain(info, path, hard_links=False)
        with _opened(name, os.O_RDWR | os.O_CREAT | os.O_APPEND, folder) as file:
            found = os.fstat(file)
            _check_plain(found, path, hard_links=False)
            _give(file, root.stat())
            start = max(found.st_size - unless_in_last, 0)
            if unless_in_last and data in os.pread(file, unless_in_last, start):
                return
            _write_all(file, data)
            os.fsync(file)
        if info is None:
            os.fsync(folder)


def read_end(root: Path, parts: Sequence[str], name: str, most: int) -> bytes:
    """Read the last bytes of a plain file, `most` of them at most."""
    path = _path(root, parts, name)
    with _told(path, "cannot read"), _below(root, parts) as folder:
        _check_plain(os.lstat(name, dir_fd=folder), path, hard_links=False)
        with _opened(name, os.O_RDONLY, folder) as file:
            info = os.fstat(file)
            _check_plain(info, path, hard_links=False)
            return os.pread(file, most, max(info.st_size - most, 0))


def open_plain(path: str, root: str = "") -> int:
    """Open a plain file below a root to read it, and give its descriptor.

    Without a root somebody named the file itself, and links on the way to it are followed. Hard
    links cannot be told from files, and are read.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | _AT_ONCE
    if root:
        *parts, name = _names_below(path, root)
        with _told(Path(path), "cannot read"):
            try:
                with _below(Path(root), parts) as folder:
                    descriptor = os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder)
            except PermissionError as error:
                msg = f"cannot read {path}: {error.strerror}"
                raise Invalid(msg, hint=f"chmod u+r {quote(path)}") from error
    else:
        descriptor = os.open(path, flags)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise Invalid(f"{path} is not a regular file", hint="it was skipped")


def refuse_links(path: Path, root: str | Path) -> None:
    """Raise Invalid if anything on the way from a root to a plain file is a link.

    The file itself is not opened: it may be a database, whose locks this process would lose.
    """
    *parts, name = _names_below(str(path), str(root))
    with _told(path, "cannot find"), _below(Path(root), parts) as folder:
        _check_plain(os.lstat(name, dir_fd=folder), path, hard_links=True)


def is_file(root: Path, parts: Sequence[str], name: str) -> bool:
    """Tell whether a name below `root` is that of a plain file, and its only name."""
    path = _path(root, parts, name)
    with suppress(NotFound), _told(path, "cannot find"), _below(root, parts) as folder:
        info = _look(folder, name)
        return info is not None and stat.S_ISREG(info.st_mode) and info.st_nlink == 1
    return False


def list_names(root: Path, *parts: str, limit: int = MOST_ENTRIES) -> list[str]:
    """List what a folder below `root` holds, in order of the names."""
    path = _path(root, parts)
    with _told(path, "cannot list"), _below(root, parts) as folder:
        names = _some_names(folder, limit + 1)
    if len(names) > limit:
        raise _too_many(path, limit)
    return sorted(names)


def remove_tree(root: Path, part: str, *more: str, limit: int = MOST_ENTRIES) -> None:
    """Remove a folder with all in it, or whatever else has its name; nothing there is fine."""
    *above, last = (part, *more)
    path = _path(root, above, last)
    steps = _steps(path, limit)
    with suppress(NotFound), _told(path, "cannot remove"), _below(root, above) as folder:
        while not _removed(folder, last, steps):
            # The other side may remove things as well; then the next round finds less.
            with suppress(FileNotFoundError), _opened(last, _FOLDER, folder) as top:
                _clear_once(top, steps)


def remove_empty(root: Path, part: str, *more: str) -> None:
    """Remove a folder if nothing is in it, and nothing else."""
    *above, last = (part, *more)
    with _told(_path(root, above, last), "cannot remove"), _below(root, above) as folder:
        try:
            os.rmdir(last, dir_fd=folder)
        except OSError as error:
            if error.errno not in _NOT_EMPTY:
                raise


# ---------------------------------------------------------------------- names and errors


def _path(root: Path, parts: Iterable[str], *name: str) -> Path:
    """Return the path as errors show it, once each part of it is one plain name."""
    below = (*parts, *name)
    for part in below:
        if part in {"", ".", ".."} or "/" in part or "\0" in part or not _encodable(part):
            raise Invalid(f"{part!r} is not a file name", hint="give one name, without a path")
    return root.joinpath(*below)


def _names_below(path: str, root: str) -> list[str]:
    below = path[len(root) :].strip(os.sep).split(os.sep)  # noqa: PTH206  (a part may be odd)
    if not path.startswith(root) or not _path(Path(root), below):
        raise Invalid(f"{path} is not below {root}", hint="it was skipped")
    return below


def _encodable(name: str) -> bool:
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        return False
    return True


@contextmanager
def _told(path: Path, attempt: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _explained(error, path, attempt) from error


def _explained(error: OSError, path: Path, attempt: str) -> ThreadkeepError:
    if error.errno == errno.ENOENT:
        return NotFound(f"{path} does not exist", hint="check the name, or whether it was removed")
    if error.errno in _IN_THE_WAY:
        return Invalid(
            f"{path} is refused: the path has a link, or something not a folder or plain file",
            hint="remove what is in its place",
        )
    if error.errno in _BAD_NAME:
        return Invalid(
            f"{path} is not a name this file system accepts", hint="choose a shorter one"
        )
    return translate_os(error, path, attempt)


def _too_many(path: Path, limit: int) -> TooLarge:
    return TooLarge(f"{path} has more than {limit:,} entries", hint="remove it by hand")


# ---------------------------------------------------------------------- descriptors


@contextmanager
def _opened(name: str | Path, flags: int, folder: int | None = None) -> Iterator[int]:
    """Open the root, or in a `folder` one name that must not be a link."""
    below = 0 if folder is None else os.O_NOFOLLOW
    descriptor = os.open(name, flags | below | _AT_ONCE, PRIVATE_FILE, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _below(root: Path, parts: Iterable[str]) -> Iterator[int]:
    with ExitStack() as stack:
        folder = stack.enter_context(_opened(root, _FOLDER))
        for part in parts:
            folder = stack.enter_context(_opened(part, _FOLDER, folder))
        yield folder


def _look(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return None


def _some_names(folder: int, most: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in itertools.islice(entries, most)]


# ---------------------------------------------------------------------- making


def _give(descriptor: int, owner: os.stat_result) -> None:
    """What root made belongs to the owner of the root folder, who could not read it otherwise.

    A folder that is still root's was made by a process that died before this line.
    """
    if os.geteuid() == 0 and os.fstat(descriptor).st_uid == 0:
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


def _write_all(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def _write_spare(folder: int, data: bytes, root: Path, cleanup: ExitStack) -> str:
    """Write a file under a name nobody knows; the cleanup takes that name away again."""
    spare = f".{os.urandom(_TOKEN).hex()}.part"
    with _opened(spare, _NEW_FILE, folder) as file:
        cleanup.callback(_forget, folder, spare)
        _give(file, root.stat())
        _write_all(file, data)
        os.fsync(file)
    return spare


def _forget(folder: int, name: str) -> None:
    with suppress(FileNotFoundError):  # renamed, or removed by another writer in `_finish`
        os.unlink(name, dir_fd=folder)


def _named(folder: int, spare: str, name: str) -> bool:
    """Give a complete file its name; False if the name is taken."""
    try:
        # Python's default would follow a link that took the place of the spare file.
        os.link(spare, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links: rename, after a last look
        if _look(folder, name) is not None:
            return False
        os.rename(spare, name, src_dir_fd=folder, dst_dir_fd=folder)
    return True


def _has(folder: int, name: str, data: bytes, path: Path) -> bool:
    """Tell whether a file is there with these bytes; with other bytes it stands in the way."""
    info = _look(folder, name)
    if info is None:
        return False
    if info.st_nlink > 1:
        _finish(folder, name, info)
    try:
        same = _read_plain(folder, name, path, len(data)) == data
    except TooLarge:
        same = False
    if not same:
        raise Conflict(f"{path} already exists with other content", hint="choose another name")
    return True


def _finish(folder: int, name: str, info: os.stat_result) -> None:
    """Take the spare name from a file whose writer died between naming it and that."""
    for other in _some_names(folder, MOST_ENTRIES):
        if other != name and _SPARE.fullmatch(other):
            found = _look(folder, other)
            if found is not None and os.path.samestat(found, info):
                _forget(folder, other)


# ---------------------------------------------------------------------- reading


def _read_plain(
    folder: int, name: str, path: Path, limit: int, *, hard_links: bool = False
) -> bytes:
    # Looking comes first: to open a pipe, a device or a database may do harm by itself.
    _check_plain(os.lstat(name, dir_fd=folder), path, hard_links=hard_links)
    with _opened(name, os.O_RDONLY, folder) as file:
        info = os.fstat(file)
        _check_plain(info, path, hard_links=hard_links)
        return _read_all(file, info.st_size, path, limit)


def _check_plain(info: os.stat_result, path: Path, *, hard_links: bool) -> None:
    if not stat.S_ISREG(info.st_mode):
        raise Invalid(f"{path} is not a plain file", hint="links, pipes and devices are not read")
    if info.st_nlink > 1 and not hard_links:
        raise Invalid(f"{path} has a second name (a hard link)", hint="make a copy of the file")


def _read_all(file: int, size: int, path: Path, limit: int) -> bytes:
    """The size is a first word only: the other side may make the file grow while it is read."""
    data = bytearray()
    while size <= limit and (chunk := os.read(file, _CHUNK)):
        data += chunk
        size = max(size, len(data))
    if size > limit:
        raise TooLarge(f"{path} has more than {limit:,} bytes", hint="send less, or a link to it")
    return bytes(data)


# ---------------------------------------------------------------------- removing


def _steps(path: Path, limit: int) -> Iterator[None]:
    """Allow so many steps, then refuse: somebody may add files as fast as they are removed."""
    yield from itertools.repeat(None, limit)
    raise _too_many(path, limit)


def _removed(folder: int, name: str, steps: Iterator[None]) -> bool:
    """Remove a file, a link or an empty folder; False for a folder with something in it."""
    next(steps)
    info = _look(folder, name)
    try:
        if info is not None and stat.S_ISDIR(info.st_mode):
            os.rmdir(name, dir_fd=folder)
        elif info is not None:
            os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno in _NOT_EMPTY:
            return False
        raise
    return True


def _clear_once(top: int, steps: Iterator[None]) -> None:
    """Remove what can be removed, and lift what is deeper into `top` for the next round.

    Lifting keeps two folders open however deep the tree is: a chain of thousands would use up
    the descriptors, or Python's stack.
    """
    for name in _some_names(top, _BATCH):
        if not _removed(top, name, steps):
            with _opened(name, _FOLDER, top) as child:
                _lift_once(child, top, steps)


def _lift_once(child: int, top: int, steps: Iterator[None]) -> None:
    for inner in _some_names(child, _BATCH):
        if not _removed(child, inner, steps):
            os.rename(inner, os.urandom(_TOKEN).hex(), src_dir_fd=child, dst_dir_fd=top)
