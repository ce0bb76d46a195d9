"""Where a folder stood in its git repository at a given time, from files alone.

No git is run: the configuration of a repository can name programs that git would start, and a
repository may come from anybody. For the same reason no link inside the `.git` folder is followed,
and only plain files of a bounded size are read. The log of HEAD knows what was checked out when.
"""

import os
import re
from bisect import bisect_right
from itertools import accumulate
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from threadkeep.base.nofollow import read
from threadkeep.errors import ThreadkeepError
from threadkeep.knowledge.records import GitState

DETACHED: Final = "HEAD"  # what git itself calls the branch when there is none

_SMALL: Final = 64 << 10
_CONFIG: Final = 1 << 20
_PACKED: Final = 16 << 20
_REFLOG: Final = 4 << 20  # some 20,000 moves of HEAD; git forgets them after 90 days
_DEEPEST: Final = 100  # folders above one another
_LONGEST_PATH: Final = 4096
_MOST_FOLDERS: Final = 1000
_MOST_HISTORIES: Final = 50
_HOPS: Final = 5  # from one symbolic ref to the next

_COMMIT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_MOVE: Final = re.compile(
    r"([0-9a-f]{40,64}) ([0-9a-f]{40,64}) [^\t]*> ([0-9]{1,12}) [+-][0-9]{4}(?:\t(.*))?"
)
_LEFT: Final = re.compile(r"checkout: moving from (\S+) to \S+|Branch: renamed (\S+) to \S+")
_BAD_REF: Final = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|$)|[/.]$")
_SECTION: Final = re.compile(r'\s*\[([^\]"\s]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]')
_URL: Final = re.compile(r"\s*url\s*=\s*(.*)", re.IGNORECASE)
_VALUE: Final = re.compile(r'"((?:[^"\\]|\\.)*)"?|([#;].*)|((?:[^"\\#;]|\\.)+)|\\')
_ADDRESS: Final = re.compile(r"(?:https?|ssh|git|git\+ssh|ssh\+git)://(.*)", re.IGNORECASE)
_SEGMENT: Final = re.compile(r"[^\x00-\x20\x7f:@\\]{1,200}")

_Key = TypeVar("_Key")
_Found = TypeVar("_Found")


class Repository(NamedTuple):
    """A repository on the disk."""

    name: str  # of its work tree
    folder: Path  # HEAD and its log
    common: Path  # what linked work trees share: refs and configuration


class HeadState(NamedTuple):
    """What HEAD was from one move to the next."""

    commit: str | None
    branch: str | None


class HeadHistory(NamedTuple):
    """What HEAD was, oldest first; `moments[0]` is what it was before the first move."""

    repo: str
    since: list[int]  # epoch seconds of each move, rising
    moments: list[HeadState]


class _Move(NamedTuple):
    seconds: int
    old: str | None
    new: str | None
    left: str | None  # the branch that was left, if it was one that left its branch


class GitCache:
    """What one batch has found out; the next batch looks again."""

    def __init__(self) -> None:
        self._repositories: dict[str, Repository | None] = {}
        self._histories: dict[Repository, HeadHistory] = {}

    def repository(self, folder: str) -> Repository | None:
        """Find the repository that a folder is in."""
        if folder not in self._repositories:
            found = find_repository(folder)
            _remember(self._repositories, folder, found, _MOST_FOLDERS)
        return self._repositories[folder]

    def history(self, repository: Repository) -> HeadHistory:
        """Read what HEAD of a repository was."""
        if repository not in self._histories:
            _remember(self._histories, repository, read_history(repository), _MOST_HISTORIES)
        return self._histories[repository]


def facts_at(cwd: str, at_ms: int, cache: GitCache) -> GitState | None:
    """Tell repository, branch and commit of a folder at a time; None if it is in none, or gone."""
    repository = cache.repository(cwd)
    if repository is None:
        return None
    history = cache.history(repository)
    moment = history.moments[bisect_right(history.since, at_ms // 1000)]
    commit = moment.commit[:7] if moment.commit else None
    return GitState(repo=history.repo or None, branch=_shown(moment.branch), commit=commit)


def main_work_tree(folder: str) -> str:
    """Give the main work tree of the repository that a folder is a linked one of, or the folder.

    A folder that is in no repository, or is gone, tells nothing.
    """
    found = find_repository(folder)
    if found is None:
        return ""
    common = Path(os.path.normpath(found.common))
    if found.common == found.folder or common.name != ".git" or not _is_folder(common):
        return folder
    return _shown(str(common.parent)) or folder


def _remember(known: dict[_Key, _Found], key: _Key, found: _Found, most: int) -> None:
    if len(known) >= most:
        known.clear()
    known[key] = found


def _shown(name: str | None) -> str | None:
    return name and name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _text(root: Path, below: str, limit: int = _SMALL) -> str | None:
    """Read a file of a repository; None if it is not there, or nothing that git would write."""
    *parts, name = below.split("/")
    try:
        return read(root, parts, name, limit).decode("utf-8", "surrogateescape")
    except ThreadkeepError:
        return None


# ---------------------------------------------------------------------- finding


def find_repository(folder: str) -> Repository | None:
    """Find the repository that an existing folder is in, as git does: upwards."""
    if not folder.startswith("/") or len(folder) > _LONGEST_PATH or not _is_folder(folder):
        return None
    start = Path(os.path.abspath(folder))
    for place in [start, *start.parents][:_DEEPEST]:
        found = _around(place) or _bare(place)
        if found:
            return found
    return None


def _around(tree: Path) -> Repository | None:
    """Return the repository of a work tree: its `.git` is the folder, or a file that names it."""
    if _is_folder(tree / ".git"):
        return _repository(tree.name, tree / ".git")
    link = _text(tree, ".git")
    if link is None or not link.startswith("gitdir:"):
        return None
    return _repository(tree.name, tree / _line(link.removeprefix("gitdir:")))


def _bare(place: Path) -> Repository | None:
    if not _is_folder(place / "objects") or not _is_folder(place / "refs"):
        return None
    name = place.parent.name if place.name == ".git" else place.name.removesuffix(".git")
    return _repository(name, place)


def _repository(name: str, folder: Path) -> Repository | None:
    if _text(folder, "HEAD") is None:
        return None
    common = _line(_text(folder, "commondir") or "")
    return Repository(_shown(name) or "", folder, folder / common)


def _line(text: str) -> str:
    return text.strip(" \t\r\n").partition("\n")[0].replace("\0", "")


def _is_folder(path: str | Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112  Path.is_dir() raises where it may not look


# ---------------------------------------------------------------------- what HEAD was


def read_history(repository: Repository) -> HeadHistory:
    """Read what HEAD was and when; without its log only what it is."""
    url = origin_url(_text(repository.common, "config", _CONFIG) or "")
    name = (owner_and_name(url) if url else None) or repository.name
    now = _head(repository)
    moves = _moves(_text(repository.folder, "logs/HEAD", _REFLOG) or "")
    if not moves:
        return HeadHistory(name, [], [now])
    moments = _moments(moves, now.branch)
    # A clock that was set back makes a later move look earlier: the last move up to a time is in
    # force, so a move counts from the earliest time of all from it on.
    earliest = list(accumulate((move.seconds for move in reversed(moves)), min))
    return HeadHistory(name, earliest[::-1], moments)


def _moments(moves: list[_Move], branch: str | None) -> list[HeadState]:
    """Go back from today's branch: where a branch was left, it was the one before."""
    found: list[HeadState] = []
    for move in reversed(moves):
        found.append(HeadState(move.new, branch))
        branch = move.left or branch
    found.append(HeadState(moves[0].old, branch if moves[0].old else None))
    return found[::-1]


def _moves(log: str) -> list[_Move]:
    matches = (_MOVE.fullmatch(line) for line in log.split("\n"))
    return [_move(found) for found in matches if found]


def _move(found: re.Match[str]) -> _Move:
    old, new, seconds, message = found.groups()
    left = _LEFT.match(message or "")
    name = (left[1] or left[2]).removeprefix("refs/heads/") if left else None
    branch = DETACHED if name and _COMMIT.fullmatch(name) else name
    return _Move(int(seconds), _existing(old), _existing(new), branch)


def _existing(commit: str) -> str | None:
    return commit if commit.strip("0") else None


def _head(repository: Repository) -> HeadState:
    head = _line(_text(repository.folder, "HEAD") or "")
    if _COMMIT.fullmatch(head):
        return HeadState(head, DETACHED)
    ref = _ref(head)
    if ref is None:
        return HeadState(None, None)
    branch = ref.removeprefix("refs/heads/") if ref.startswith("refs/heads/") else None
    return HeadState(_resolved(repository.common, ref), branch)


def _ref(content: str) -> str | None:
    """Return the ref that a symbolic ref names, if git would accept it; it becomes a path."""
    name = content.removeprefix("ref:").strip(" ")
    valid = content.startswith("ref:") and name.startswith("refs/") and not _BAD_REF.search(name)
    return name if valid else None


def _resolved(common: Path, ref: str) -> str | None:
    for _ in range(_HOPS):
        content = _line(_text(common, ref) or "")
        if _COMMIT.fullmatch(content):
            return content
        further = _ref(content)
        if further is None:
            return _packed(common, ref)
        ref = further
    return None


def _packed(common: Path, ref: str) -> str | None:
    packed = _text(common, "packed-refs", _PACKED) or ""
    found = re.search(rf"^({_COMMIT.pattern}) {re.escape(ref)}$", packed, re.MULTILINE)
    return found[1] if found else None


# ---------------------------------------------------------------------- where it came from


def origin_url(config: str) -> str | None:
    """Return the first URL of the remote `origin` from a git configuration."""
    inside = False
    for line in config.replace("\r\n", "\n").replace("\\\n", "").split("\n"):
        header = _SECTION.match(line)
        if header:
            inside = _is_origin(header[1].lower(), header[2])
        found = _URL.fullmatch(line[header.end() if header else 0 :]) if inside else None
        if found:
            return _value(found[1])
    return None


def _is_origin(section: str, name: str | None) -> bool:
    return (section, name) == ("remote", "origin") or (section, name) == ("remote.origin", None)


def _value(raw: str) -> str:
    """Return a value without its quotes and without a comment behind it."""
    text = ""
    for found in _VALUE.finditer(raw):
        if found[2]:
            break
        text += re.sub(r"\\(.)", r"\1", found[1] or found[3] or "")
    return text.strip()


def owner_and_name(url: str) -> str | None:
    """Return `owner/name` of a repository's address; None for a path or anything else.

    Only the last two parts of the path are kept, so that nothing that logs in survives: neither a
    password before the host nor a token behind the path.
    """
    address = _ADDRESS.fullmatch(url)
    # A password may hold any character: only what is behind the last @ is no part of it.
    plain = re.split(r"[?#]", (address[1] if address else url).rpartition("@")[2])[0]
    host, mark, path = plain.partition("/" if address else ":")
    if not mark or "/" in host or (not address and ("://" in url or "::" in url)):
        return None
    segments = [part for part in path.split("/") if part][-2:]
    if segments:
        segments[-1] = segments[-1].removesuffix(".git")
    good = [part for part in segments if _SEGMENT.fullmatch(part) and part not in {".", ".."}]
    return _shown("/".join(good)) if len(good) == 2 else None  # noqa: PLR2004  owner and name
