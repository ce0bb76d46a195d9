"""Where a folder stood in its git repository at a given time, from files alone.

No git is run: the configuration of a repository can name programs that git would start, and a
repository may come from anybody. For the same reason no link below the `.git` folder is followed
and only small plain files are read. The reflog of HEAD knows which commit was checked out when.
"""

import os
import re
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from threadkeep.base.nofollow import read
from threadkeep.errors import ThreadkeepError
from threadkeep.knowledge.observed import GitState
from threadkeep.sources.git_remotes import origin_of, owner_and_name

DETACHED: Final = "HEAD"  # what git itself calls the branch when there is none

_SMALL: Final = 64 << 10
_CONFIG: Final = 1 << 20
_PACKED: Final = 16 << 20
_REFLOG: Final = 16 << 20
_DEEPEST: Final = 100  # folders above one another
_LONGEST_PATH: Final = 4096
_ROOM: Final = 1000  # folders, and repositories, that one batch remembers
_HOPS: Final = 5  # from one symbolic ref to the next, as git has it

_COMMIT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_ENTRY: Final = re.compile(
    r"([0-9a-f]{40,64}) ([0-9a-f]{40,64}) .*> ([0-9]{1,12}) [+-][0-9]{4}(?:\t(.*))?"
)
_MOVED: Final = re.compile(r"checkout: moving from (\S+) to \S+|Branch: renamed (\S+) to \S+")
_BAD_REF: Final = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|$)|[/.]$")

_T = TypeVar("_T")


class Repository(NamedTuple):
    """A repository on the disk."""

    tree: Path  # the work tree; a bare repository itself
    folder: Path  # HEAD and its log
    common: Path  # what linked work trees share: refs and configuration


class Moment(NamedTuple):
    """HEAD from one entry of its log to the next."""

    commit: str | None
    branch: str | None


class History(NamedTuple):
    """What HEAD was, oldest first: `moments[0]` is before everything in `since`."""

    name: str
    since: list[int]  # epoch seconds; none is later than one behind it
    moments: list[Moment]


class GitCache:
    """What one batch has found out; a later batch looks anew."""

    def __init__(self) -> None:
        self._repositories: dict[str, Repository | None] = {}
        self._histories: dict[Repository, History] = {}

    def repository(self, folder: str) -> Repository | None:
        """Find the repository that a folder is in."""
        if folder not in self._repositories:
            _remember(self._repositories, folder, find_repository(folder))
        return self._repositories[folder]

    def history(self, repository: Repository) -> History:
        """Read what HEAD of a repository was."""
        if repository not in self._histories:
            _remember(self._histories, repository, _history(repository))
        return self._histories[repository]


def facts_at(cwd: str, at_ms: int, cache: GitCache) -> GitState | None:
    """Tell repository, branch and commit of a folder at a time; None if it is in none, or gone."""
    repository = cache.repository(cwd)
    if repository is None:
        return None
    history = cache.history(repository)
    moment = history.moments[bisect_right(history.since, at_ms // 1000)]
    return GitState(
        repo=history.name,
        branch=moment.branch and _shown(moment.branch),
        commit=moment.commit and moment.commit[:7],
    )


def _remember(known: dict[_T, object] | dict[_T, _T], key: _T, value: object) -> None:
    raise NotImplementedError


# ---------------------------------------------------------------------- finding


def find_repository(folder: str) -> Repository | None:
    """Find the repository that an existing folder is in, as git does: upwards."""
    if not folder.startswith("/") or len(folder) > _LONGEST_PATH or "\0" in folder:
        return None
    if not os.path.isdir(folder):
        return None
    start = Path(os.path.abspath(folder))
    for place in [start, *start.parents][:_DEEPEST]:
        found = _linked(place) or _bare(place)
        if found:
            return found
    return None


def _linked(place: Path) -> Repository | None:
    """Give the repository of a work tree: its `.git` is the folder, or a file that names it."""
    dot_git = place / ".git"
    if dot_git.is_dir():
        return _at(place, dot_git)
    words = _text(place, ".git", _SMALL) if dot_git.is_file() else None
    if words is None or not words.startswith("gitdir:"):
        return None
    return _at(place, _named(place, words.removeprefix("gitdir:")))


def _bare(place: Path) -> Repository | None:
    if not (place / "objects").is_dir() or not (place / "refs").is_dir():
        return None
    return _at(place.parent if place.name == ".git" else place, place)


def _at(tree: Path, folder: Path) -> Repository | None:
    if _text(folder, "HEAD", _SMALL) is None:
        return None
    common = _text(folder, "commondir", _SMALL)
    return Repository(tree, folder, _named(folder, common) if common else folder)


def _named(base: Path, words: str) -> Path:
    return Path(os.path.normpath(base / words.strip("\r\n").strip(" ")))
