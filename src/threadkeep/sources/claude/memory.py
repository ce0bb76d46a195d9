"""Claude Code's memories: the Markdown notes that it keeps for each project.

They are no conversation: a file is taken whole whenever it changed, and becomes a revision of a
document. The log of such a file says which document: `session_id` is its name in its repository,
`project_dir` is the repository.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from threadkeep.base.nofollow import read
from threadkeep.errors import ThreadkeepError
from threadkeep.knowledge.memory_intake import KEPT, Retention
from threadkeep.knowledge.records import Entry
from threadkeep.sources.claude.paths import project_folders, readable
from threadkeep.sources.folders import entry_stamp, file_stamp, folders_in, listed
from threadkeep.sources.git_facts import find_repository, origin_url
from threadkeep.sources.records import DocumentItem, Harvest, Log, Parser, UserHome

READER: Final = "claude-memory"
_FOLDER: Final = "memory"
_SUFFIX: Final = ".md"
_SETTINGS: Final = ("settings.json", "settings.local.json")
_SETTING: Final = "autoMemoryDirectory"
_MOST_SETTINGS: Final = 1 << 20
_SCP: Final = re.compile(r"(?:[^@/\s]*@)?([^:/\s]+):(?!//)(.+)")


class NamedMemory(NamedTuple):
    """A file that the user named, and what it is called if not as its place tells."""

    path: Path
    repository: str = ""
    logical_path: str = ""


class Discovery(NamedTuple):
    """Where memories are looked for, beside the files that are named."""

    projects: bool = True  # Claude's folders of projects
    settings: bool = True  # the folders that Claude's settings name
    include: tuple[str, ...] = ()  # patterns of folders or of their projects; empty: all
    exclude: tuple[str, ...] = ()


EVERYWHERE: Final = Discovery()


class _Place(NamedTuple):
    folder: Path
    slug: str = ""  # Claude's name of the project
    is_named: bool = False  # by a setting: it may be a link


class ClaudeMemory:
    """The source of Claude Code's memories."""

    agent = "claude-code"
    kind: Final = "memory"

    def __init__(
        self,
        discovery: Discovery = EVERYWHERE,
        named: Sequence[NamedMemory] = (),
        keep: Retention = KEPT,
    ) -> None:
        self._discovery = discovery
        self._named = tuple(named)
        self.keep = keep
        # Asked again at every look: of a hundred folders that took a tenth of a second.
        self._repository = cache(repository_of)

    def roots(self, user: UserHome) -> list[Path]:
        """Name Claude's folders of projects, the folders in its settings, and the named files."""
        discovered = self._discovery.projects or self._discovery.settings
        folders = project_folders(user) if discovered else []
        settings = [place.folder for place in self._set(user)]
        return [*folders, *settings, *(one.path for one in self._named)]

    def find(self, user: UserHome) -> Iterator[Log]:
        """Yield the memories that are there now, each file once."""
        found: dict[str, Log] = {}
        for one in self._named:
            stamp = file_stamp(one.path, user, is_root=True)
            if stamp is not None:
                repository = one.repository or self._repository(one.path.parent)
                name = one.logical_path or readable(one.path.name)
                found[str(one.path)] = Log(str(one.path), stamp, name, repository)
        for place in self._places(user):
            for log in self._in_folder(place, user):
                found.setdefault(log.path, log)
        yield from (found[path] for path in sorted(found))

    def _places(self, user: UserHome) -> Iterator[_Place]:
        seen: set[str] = set()
        usual = self._usual(user) if self._discovery.projects else ()
        for place in (*usual, *self._set(user)):
            real = os.path.realpath(place.folder)
            if real not in seen and self._is_wanted(place):
                seen.add(real)
                yield place

    def _in_folder(self, place: _Place, user: UserHome) -> Iterator[Log]:
        root = str(place.folder) if place.is_named else ""
        for entry in listed(str(place.folder), user, is_root=place.is_named):
            stamp = entry_stamp(entry, user) if entry.name.endswith(_SUFFIX) else None
            if stamp is not None:
                repository = self._repository(place.folder)
                yield Log(entry.path, stamp, readable(entry.name), repository, root=root)

    def _usual(self, user: UserHome) -> Iterator[_Place]:
        for folder in project_folders(user):
            for project in folders_in(folder, user, is_root=True):
                if (project / _FOLDER).is_dir():
                    yield _Place(project / _FOLDER, readable(project.name))

    def _set(self, user: UserHome) -> Iterator[_Place]:
        """Yield the folders that Claude's settings name, the user's and those of projects."""
        if not self._discovery.settings:
            return
        for folder in project_folders(user):
            for name in _SETTINGS:
                yield from _named_in(folder.parent, name, user)
            for project in folders_in(folder, user, is_root=True):
                for name in _SETTINGS:
                    yield from _named_in(project, name, user, readable(project.name))

    def _is_wanted(self, place: _Place) -> bool:
        names = [name for name in (place.slug, str(place.folder)) if name]
        if any(fnmatchcase(name, one) for one in self._discovery.exclude for name in names):
            return False
        wanted = self._discovery.include
        return not wanted or any(fnmatchcase(name, one) for one in wanted for name in names)

    # ------------------------------------------------------------------ nobody speaks in it

    def parser(self, log: Log, state: bytes | None) -> Parser:  # noqa: ARG002
        """Make a parser that finds nothing: a memory is taken whole."""
        return _Silent()

    def entries(self, record: Any, line: bytes, number: int) -> list[Entry]:  # noqa: ARG002
        """Read nothing."""
        return []

    def items(self, log: Log) -> Iterable[DocumentItem]:  # noqa: ARG002
        """Yield nothing: there is no session in it."""
        return ()

    def records(self, log: Log, item: str) -> Iterable[tuple[str, bytes]]:  # noqa: ARG002
        """Yield nothing."""
        return ()


class _Silent:
    def feed(self, record: Any, line: bytes, number: int) -> list[Entry]:  # noqa: ARG002
        return []

    def harvest(self) -> Harvest:
        return Harvest()

    def state(self) -> bytes:
        return b""


# ---------------------------------------------------------------------- folders


def _named_in(folder: Path, name: str, user: UserHome, slug: str = "") -> Iterator[_Place]:
    """Yield the folder that a file of Claude's settings names, if it does."""
    if not os.path.lexists(folder / name):  # most projects have none, and this is asked often
        return
    try:
        value = json.loads(read(folder, (), name, _MOST_SETTINGS, hard_links=True))
    except (ThreadkeepError, OSError, ValueError, RecursionError):
        return  # there are no such settings, or none that Claude could read
    named = value.get(_SETTING) if isinstance(value, dict) else None
    if isinstance(named, str) and named.strip():
        plain = named.strip()
        place = user.home / plain[2:] if plain.startswith("~/") else folder / plain
        yield _Place(place, slug, is_named=True)


# ---------------------------------------------------------------------- repositories


def repository_of(folder: Path) -> str:
    """Name the repository that the memories of a folder belong to.

    That is the address of its remote without what logs in, else its own place.
    """
    place = os.path.abspath(folder)
    found = find_repository(place)
    if found is None:
        return f"local:{readable(place)}"
    try:
        config = read(found.common, (), "config", _MOST_SETTINGS, hard_links=True)
    except (ThreadkeepError, OSError):
        config = b""
    remote = origin_url(config.decode("utf-8", "replace"))
    return host_and_path(remote or "") or f"local-git:{readable(str(_tree(found.folder)))}"


def _tree(folder: Path) -> Path:
    return folder.parent if folder.name == ".git" else folder


def host_and_path(url: str) -> str:
    """Return `host/path` of a repository's address; empty if it has no path, or is none."""
    found = _SCP.fullmatch(url) if "://" not in url else None
    try:
        host, path = found.groups() if found else (urlsplit(url).hostname, urlsplit(url).path)
    except ValueError:  # brackets where an address has none
        return ""
    plain = path.strip("/").removesuffix(".git")
    return f"{host or 'git'}/{plain}" if plain else ""
