"""Which other processes have a file open: asked of the system, where it tells."""

import os
import sys
from pathlib import Path
from typing import Final

from threadkeep.base.files import SIDECARS

_PROC: Final = Path("/proc")


def holders_of(path: Path) -> list[tuple[int, str]] | None:
    """Give the processes that have a database or a file beside it open, None if nobody tells.

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
