"""Where Cursor keeps conversations, and which of several copies of one is read.

The same conversation can be in three places. The best one is read, the others are passed over:
the editor's database knows ids, times and results; the command's chat store knows results; a
transcript knows neither. What is in a better place is asked once for each look: of the database
only its index is read, of the chat stores only their folders' names.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from threadkeep.base.sqlite.foreign import ForeignDatabase, open_foreign
from threadkeep.errors import Busy, ThreadkeepError
from threadkeep.sources.folders import file_stamp, folders_in
from threadkeep.sources.records import UserHome

TABLE: Final = "cursorDiskKV"
_NOT_ALPHANUMERIC: Final = re.compile("[^A-Za-z0-9]+")
_JOINTS: Final = ("-", ".", "_", " ")
_MOST_LOOKS: Final = 400  # for one slug: names of a dozen words need under a hundred


def projects_root(user: UserHome) -> Path:
    """Name the folder with a folder for each project."""
    return user.home / ".cursor" / "projects"


def chats_root(user: UserHome) -> Path:
    """Name the folder of the command's chat stores."""
    return user.home / ".cursor" / "chats"


def editor_roots(user: UserHome) -> list[Path]:
    """Name the folders that hold the editor's own data, on each system."""
    homes = [
        user.home / "Library" / "Application Support",
        user.home / ".config",
        user.home / "AppData" / "Roaming",
    ]
    homes += [Path(user.env[name]) for name in ("XDG_CONFIG_HOME", "APPDATA") if user.env.get(name)]
    found = dict.fromkeys(home / "Cursor" / "User" / "globalStorage" for home in homes)
    return sorted(found)


def chat_ids(user: UserHome) -> set[str]:
    """Name the conversations of which there is a chat store."""
    return {
        chat.name
        for project in folders_in(chats_root(user), user, is_root=True)
        for chat in folders_in(project, user)
        if file_stamp(chat / "store.db", user) is not None
    }


def composer_ids(user: UserHome) -> set[str]:
    """Name the conversations whose messages are in the editor's database.

    One that cannot be read at all is no better place. One that is only locked raises Busy.
    """
    found: set[str] = set()
    for root in editor_roots(user):
        try:
            with open_foreign(root / "state.vscdb", root=root) as database:
                found.update(composers_with_messages(database))
        except Busy:
            raise
        except ThreadkeepError:
            continue
    return found


def composers_with_messages(database: ForeignDatabase) -> Iterator[str]:
    """Yield the ids under which messages are stored: one step in the index for each."""
    if TABLE not in database.tables():
        return
    after = "bubbleId:"
    while True:
        sql = f"SELECT key FROM {TABLE} WHERE key > ? AND key < 'bubbleId;' ORDER BY key LIMIT 1"  # noqa: S608
        row = next(database.rows(sql, (after,)), None)
        if row is None:
            return
        composer, apart, _ = str(row[0]).removeprefix("bubbleId:").partition(":")
        if apart:
            yield composer
        following = f"bubbleId:{composer};"
        if following <= after:
            return  # a key that is no text: what was read of it does not lead beyond it
        after = following


def encode(path: str) -> str:
    """Encode a path as Cursor names its project folders; what it does to signs is lossy."""
    return _NOT_ALPHANUMERIC.sub("-", path).strip("-").lower()


def folder_of(slug: str, seen: dict[str, bool]) -> str:
    """Return the project folder a slug stands for, empty if for none.

    A hyphen may have been a slash or any other sign. The first folder that exists wins; if none
    does every hyphen is taken for a slash, which is wrong for names with a hyphen of their own.
    `seen` keeps what was looked at for the slugs that follow.
    """
    if slug in {"", "empty-window", "agent-transcripts"} or slug.isdecimal():
        return ""
    if slug.startswith("var-folders"):
        return ""
    return _existing("/", slug.split("-"), seen, [_MOST_LOOKS]) or "/" + slug.replace("-", "/")


def _existing(base: str, words: list[str], seen: dict[str, bool], left: list[int]) -> str:
    if not words:
        return base.rstrip("/")
    for name, used in _names(words):
        left[0] -= 1
        if left[0] < 0:
            return ""
        folder = base + name
        if folder not in seen:
            seen[folder] = os.path.isdir(folder)  # noqa: PTH112  (a Path for each would cost more)
        if seen[folder]:
            found = _existing(folder + "/", words[used:], seen, left)
            if found:
                return found
    return ""


def _names(words: list[str]) -> Iterator[tuple[str, int]]:
    """Yield what the next folder may be called, with how many words it uses: short names first.

    Its words are joined by one and the same sign; an empty first word comes from a leading dot.
    """
    if words[0] not in {"", ".", ".."}:
        yield words[0], 1
    hidden = "." if words[0] == "" else ""
    for used in range(2, len(words) + 1):
        for joint in _JOINTS:
            name = hidden + joint.join(words[bool(hidden) : used])
            if name.strip(". "):
                yield name, used


def folders_by_hash(user: UserHome, seen: dict[str, bool]) -> dict[str, str]:
    """Map the names of the chat stores' folders, hashes of a project's path, to that path."""
    projects = folders_in(projects_root(user), user, is_root=True)
    folders = (folder_of(project.name, seen) for project in projects)
    return {_md5(folder): folder for folder in folders if folder}


def _md5(path: str) -> str:
    return hashlib.md5(os.fsencode(path), usedforsecurity=False).hexdigest()


def ancestor_with(wanted: str, path: str) -> str:
    """Give the folder above an absolute path that encodes to what is wanted, empty if none does."""
    unified = path.replace("\\", "/") if path[1:2] == ":" else path
    while len(unified) > len(wanted):
        if encode(unified) == wanted:
            return path[: len(unified)].rstrip("/\\")
        unified = unified.rpartition("/")[0]
    return ""


def is_absolute(path: str) -> bool:
    """Tell whether a text looks like an absolute path of any system."""
    return path.startswith("/") or (path[1:3] in {":\\", ":/"} and path[:1].isalpha())
