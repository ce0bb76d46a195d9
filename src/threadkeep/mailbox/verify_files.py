"""What is wrong with the files of a session folder; nothing is opened but folders."""

import os
import stat
from collections.abc import Callable, Iterator
from typing import Final

from threadkeep.base import nofollow
from threadkeep.errors import ThreadkeepError
from threadkeep.mailbox.attachments import INBOX, OUTBOX
from threadkeep.mailbox.folder import Folder
from threadkeep.mailbox.problems import Problem, error, warning

_OTHERS: Final = 0o077
_DATABASES: Final = ("inbound.db", "outbound.db")
_PLAIN: Final = frozenset((*_DATABASES, ".heartbeat", ".agent.lock", "outbound.db.lock"))
_PLANTED: Final = "the agent may have put it there; look at it, then remove it"


def check(folder: Folder) -> Iterator[Problem]:
    """Look at the folder itself, its entries, and the attachments in it."""
    try:
        info = os.lstat(folder.path)
    except OSError as trouble:
        yield error(str(folder.path), f"cannot be looked at: {trouble.strerror}", "check the path")
        return
    if not stat.S_ISDIR(info.st_mode):
        yield error(str(folder.path), "is not a folder", "check the path")
        return
    yield from _private(str(folder.path), info, "chmod 700")
    for name in _DATABASES:
        if not os.path.lexists(folder.path / name):
            yield error(name, "is missing", "`threadkeep mail new` completes a folder")
    for name in _names(folder):
        yield from _entry(folder, name, info.st_uid)
    for box in (INBOX, OUTBOX):
        yield from _box(folder, box)


def _names(folder: Folder, *parts: str) -> list[str]:
    try:
        return nofollow.list_names(folder.path, *parts)
    except ThreadkeepError:  # not there, or not a folder: said where that is looked at
        return []


def _entry(folder: Folder, name: str, owner: int) -> Iterator[Problem]:
    info = _look(folder, name)
    if info is None:
        return
    if name in (INBOX, OUTBOX):
        if not stat.S_ISDIR(info.st_mode):
            yield error(name, "is not a folder", _PLANTED)
        return
    if name in _PLAIN and not stat.S_ISREG(info.st_mode):
        yield error(name, "is a link, or no plain file", _PLANTED)
    elif not (stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)):
        yield warning(name, "is a link, or no plain file", _PLANTED)
    if name in _DATABASES:
        yield from _private(name, info, "chmod 600")
        if info.st_uid != owner:
            hint = "the agent cannot write what is not its own; give it to the folder's owner"
            yield warning(name, "belongs to another user than its folder", hint)


def _private(name: str, info: os.stat_result, hint: str) -> Iterator[Problem]:
    if info.st_mode & _OTHERS:
        mode = stat.S_IMODE(info.st_mode)
        yield warning(name, f"is open to other users (mode {mode:o})", hint)


def _box(folder: Folder, box: str) -> Iterator[Problem]:
    """Look at the folders of messages in a box, and at what is in them."""
    for message in _names(folder, box):
        if not _is(folder, (box, message), stat.S_ISDIR):
            yield error(f"{box}/{message}", "is not a folder", _PLANTED)
            continue
        for name in _names(folder, box, message):
            if not _is(folder, (box, message, name), stat.S_ISREG):
                yield error(f"{box}/{message}/{name}", "is a link, or no plain file", _PLANTED)


def _is(folder: Folder, parts: tuple[str, ...], kind: Callable[[int], bool]) -> bool:
    info = _look(folder, *parts)
    return info is None or kind(info.st_mode)


def _look(folder: Folder, *parts: str) -> os.stat_result | None:
    """Look at a file; None if it is gone by now (a journal of a moment ago) or out of reach."""
    try:
        return os.lstat(folder.path.joinpath(*parts))
    except OSError:
        return None
