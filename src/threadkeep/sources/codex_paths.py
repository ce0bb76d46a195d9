"""Where Codex keeps its rollouts, and what a rollout's name says about it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from threadkeep.sources.folders import files_below
from threadkeep.sources.records import Log, Stamp, UserHome

_LIVE: Final = "sessions"
_ARCHIVED: Final = "archived_sessions"
_XCODE: Final = Path("Library", "Developer", "Xcode", "CodingAssistant", "codex")
_PREFIX: Final = "rollout-"
_ZIPPED: Final = ".zst"
_SUFFIX: Final = ".jsonl"
_SUFFIXES: Final = (_SUFFIX, _SUFFIX + _ZIPPED)
# rollout-<local time>-<thread id>[_<rollout id>]: after a revert a thread has several files.
_THREAD: Final = re.compile(
    r"rollout-.*?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:_.*)?", re.DOTALL
)


class _Copy(NamedTuple):
    """One copy of a rollout; of several the smallest counts: live before archived, plain first."""

    is_archived: bool
    is_zipped: bool
    path: str
    stamp: Stamp


def codex_homes(user: UserHome) -> list[Path]:
    """Name the folders in which Codex, and Xcode's own Codex, keep everything."""
    return [user.home / (user.env.get("CODEX_HOME") or ".codex"), user.home / _XCODE]


def rollout_folders(user: UserHome) -> list[Path]:
    """Name the folders that hold rollouts."""
    return [home / place for home in codex_homes(user) for place in (_LIVE, _ARCHIVED)]


def find_rollouts(user: UserHome) -> Iterator[Log]:
    """Yield every rollout once, in the order of the paths."""
    found: dict[str, _Copy] = {}
    for folder in rollout_folders(user):
        for path, stamp in files_below(folder, user, *_SUFFIXES, is_root=True):
            if path.name.startswith(_PREFIX):
                copy = _Copy(folder.name == _ARCHIVED, path.suffix == _ZIPPED, str(path), stamp)
                name = path.name.removesuffix(_ZIPPED)
                found[name] = min(copy, found.get(name, copy))
    for copy in sorted(found.values(), key=lambda one: one.path):
        yield Log(path=copy.path, stamp=copy.stamp, session_id=thread_of(Path(copy.path).name))


def thread_of(name: str) -> str:
    """Read the id of the thread from the name of its file; without one it is the name itself."""
    stem = storable(name).removesuffix(_ZIPPED).removesuffix(_SUFFIX)
    named = _THREAD.fullmatch(stem)
    return named[1] if named else stem


def storable(name: str) -> str:
    """Give a name from the disk as text that a database can hold."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
