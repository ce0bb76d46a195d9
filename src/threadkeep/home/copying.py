"""A private copy of another program's database, brought up beside the place it is meant for."""

import errno
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from threadkeep.base.backup import restore_backup
from threadkeep.base.files import SIDECARS, make_private_dir, sync_dir
from threadkeep.base.guard import refuse_endless
from threadkeep.base.processes import is_running
from threadkeep.base.snapshot import copy_untouched
from threadkeep.base.sqlite import Database
from threadkeep.base.trouble import translate_os
from threadkeep.errors import Conflict, Damaged

# A file system without hard links says so in one of these ways.
_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.EMLINK)


def no_backup(*_: Any) -> None:
    """Make none: a fresh copy needs no backup, the original is one."""


@contextmanager
def copy_of(source: Path, target: Path, bring_up: Callable[[Path], None]) -> Iterator[Path]:
    """Make a copy beside the target, at our schema; what is left of it is removed at the end."""
    make_private_dir(target.parent)
    _sweep(target)
    copy = target.with_name(f".{target.name}.{os.getpid()}.importing")
    try:
        _make(source, copy, bring_up)
        yield copy
    finally:
        _remove(copy)


@contextmanager
def throwaway(place: Path) -> Iterator[Path]:
    """Give a place for a store like the one at `place`, where there is room for a copy of it."""
    near = place.parent if os.access(place.parent, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix=".threadkeep-plan-", dir=near) as folder:
        spare = Path(folder) / place.name
        if place.exists():
            copy_untouched(place, spare)
        yield spare


def _make(source: Path, copy: Path, bring_up: Callable[[Path], None]) -> None:
    try:
        restore_backup(source, copy)
        with Database(copy, {}, read_only=True) as database, database.read() as tx:
            refuse_endless(tx.execute, source)
        bring_up(copy)
    except Damaged as error:
        msg = f"{source} could not be imported, and nothing was: {error.message}"
        raise Damaged(msg, hint="repair it with its own program, then import again") from error


def _sweep(target: Path) -> None:
    """Remove the copies of imports that were killed."""
    name = rf"\.{re.escape(target.name)}\.(\d+)\.importing"
    for path in target.parent.iterdir():
        found = re.fullmatch(name, path.name)
        if found and not is_running(int(found[1])):
            _remove(path)


def _remove(copy: Path) -> None:
    for suffix in ("", *SIDECARS, ".lock"):
        Path(f"{copy}{suffix}").unlink(missing_ok=True)


def name_copy(copy: Path, target: Path) -> None:
    """Let a finished copy become the store, unless somebody has begun one meanwhile."""
    try:
        os.link(copy, target)
    except OSError as error:
        if target.exists():
            msg = f"a store was begun at {target} meanwhile"
            raise Conflict(msg, hint="import again, which merges into it") from None
        if error.errno not in _NO_LINKS:
            raise translate_os(error, target, "cannot write") from error
        copy.rename(target)
    sync_dir(target.parent)
