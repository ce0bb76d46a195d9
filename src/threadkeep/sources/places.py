"""Where programs keep their files on Linux, macOS and Windows, written down as data.

A place is a text such as `~/.qwen/projects`, `$QWEN_HOME/projects` or `{data}/goose/sessions`. All
places of a program are looked at on every system: a home may have been copied from another one, and
a folder that is not there costs one look.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

from threadkeep.errors import Invalid
from threadkeep.sources.folders import (
    database_stamp,
    entry_stamp,
    file_stamp,
    is_folder,
    listed,
    paths_below,
)
from threadkeep.sources.records import Stamp, UserHome

# Editors that are VS Code under another name: the folder each keeps its settings in.
_EDITORS: Final = (
    *("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf", "Trae", "Positron"),
)
_SERVERS: Final = (".vscode-server", ".vscode-server-insiders", ".vscode-remote")
_DEEPEST: Final = 12  # folders below the one from which `**` looks for files


class LogPlace(NamedTuple):
    """Folders of one program, and which files below them are its logs.

    `logs` are patterns of paths below a root: `*` stands for one name, a leading `**` for folders
    of any depth. Without any, each root is itself the one log.
    """

    roots: tuple[str, ...]
    logs: tuple[str, ...] = ()


def place(roots: str | Iterable[str], *logs: str) -> LogPlace:
    """Describe where a program keeps its logs; a place that leads out of its base is refused."""
    named = (roots,) if isinstance(roots, str) else tuple(roots)
    for one in (*named, *logs):
        if ".." in one.split("/"):
            raise Invalid(f"the place {one!r} leads upwards", hint="name the folder itself")
    for one in named:
        if not one.startswith(("~/", "$", "{")):
            msg = f"the place {one!r} begins with neither ~/ nor $VARIABLE nor a {{base}}"
            raise Invalid(msg, hint=f"the bases are {', '.join(_BASES)}")
        if one.startswith("{") and one[1:].partition("}")[0] not in _BASES:
            raise Invalid(f"{one!r} has no base", hint=f"the bases are {', '.join(_BASES)}")
    return LogPlace(named, logs)


def roots_of(places: Iterable[LogPlace], user: UserHome) -> list[Path]:
    """Name the folders of these places for a user, whether they exist or not, each once."""
    named = (path for one in places for root in one.roots for path in _expanded(root, user))
    return [Path(path) for path in dict.fromkeys(named)]


def files_of(
    places: Iterable[LogPlace], user: UserHome, *, databases: bool = False
) -> list[tuple[Path, Path, Stamp]]:
    """Find the logs of these places, sorted by path: each file, the root it is below, its stamp.

    The stamp of a database counts its write-ahead log.
    """
    stamp = database_stamp if databases else file_stamp
    found: dict[Path, tuple[Path, Stamp]] = {}
    # Of hundreds of folders a few are there: they are texts until something is found.
    named = [
        (one.logs, path) for one in places for root in one.roots for path in _expanded(root, user)
    ]
    for logs, root in named:
        if not logs:
            own = stamp(Path(root), user, is_root=True)
            if own is not None:
                found[Path(root)] = Path(root), own
        for pattern in logs:
            for path, seen in _matches(root, pattern.split("/"), user, is_root=True):
                own = database_stamp(Path(path), user) if databases else seen
                if own is not None:
                    found.setdefault(Path(path), (Path(root), own))
    return [(path, *found[path]) for path in sorted(found)]


def _matches(
    folder: str, names: list[str], user: UserHome, *, is_root: bool = False
) -> Iterator[tuple[str, Stamp]]:
    """Yield the files below a folder whose path fits; no link is followed."""
    first, rest = names[0], names[1:]
    if first == "**":
        for path, stamp in paths_below(folder, user, ("",), _DEEPEST, is_root=is_root):
            if fnmatchcase(path.rpartition(os.sep)[2], rest[0]):
                yield path, stamp
    elif "*" not in first and rest:
        yield from _matches(os.path.join(folder, first), rest, user)  # noqa: PTH118  (quick)
    elif "*" not in first:
        named = file_stamp(Path(folder, first), user)
        if named is not None:
            yield str(Path(folder, first)), named
    else:
        fitting = (e for e in listed(folder, user, is_root=is_root) if fnmatchcase(e.name, first))
        for entry in fitting:
            yield from _below(entry, rest, user)


def _below(entry: os.DirEntry[str], rest: list[str], user: UserHome) -> Iterator[tuple[str, Stamp]]:
    if rest and is_folder(entry, user):
        yield from _matches(entry.path, rest, user)
    elif not rest and not entry.is_dir(follow_symlinks=False):
        stamp = entry_stamp(entry, user)
        if stamp is not None:
            yield entry.path, stamp


# ---------------------------------------------------------------------- bases


def _expanded(root: str, user: UserHome) -> list[str]:
    """Return the folders that a place stands for; none if a variable it begins with is not set."""
    head, _, rest = root.partition("/")
    if head == "~":
        bases = [str(user.home)]
    elif head.startswith("$"):
        named = user.env.get(head[1:])
        bases = [str(Path(named))] if named else []
    else:
        bases = _BASES[head[1:-1]](user)
    return [os.path.join(base, rest) if rest else base for base in bases]  # noqa: PTH118  (quick)


def _moved(variable: str, *usual: str) -> Callable[[UserHome], list[str]]:
    """Make a base: the folder that a variable names, else the usual one below the home."""

    def base(user: UserHome) -> list[str]:
        named = user.env.get(variable)
        return [str(Path(named)) if named else os.path.join(user.home, *usual)]  # noqa: PTH118

    return base


_roaming: Final = _moved("APPDATA", "AppData", "Roaming")
_config: Final = _moved("XDG_CONFIG_HOME", ".config")


def _support(user: UserHome) -> list[str]:
    return [os.path.join(user.home, "Library", "Application Support")]  # noqa: PTH118


def _editors(user: UserHome) -> list[str]:
    """Name the folders `User` of every editor of VS Code's family, and of its servers."""
    bases = [*_config(user), *_support(user), *_roaming(user)]
    here = [os.path.join(base, name, "User") for base in bases for name in _EDITORS]  # noqa: PTH118
    servers = [os.path.join(user.home, name, "data", "User") for name in _SERVERS]  # noqa: PTH118
    return [*here, *servers]


_BASES: Final[dict[str, Callable[[UserHome], list[str]]]] = {
    "data": _moved("XDG_DATA_HOME", ".local", "share"),
    "state": _moved("XDG_STATE_HOME", ".local", "state"),
    "config": _config,
    "support": _support,
    "roaming": _roaming,
    "local": _moved("LOCALAPPDATA", "AppData", "Local"),
    "editor": _editors,
}
