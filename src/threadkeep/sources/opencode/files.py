"""OpenCode's older store: a JSON file for each session, message and part.

Newer releases copy it into their database and leave it where it is, so a session that a database
has is passed over here.
"""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from threadkeep.errors import Busy, Invalid, NotFound
from threadkeep.knowledge.records import Entry
from threadkeep.sources.common import rows, table, text
from threadkeep.sources.files import file_bytes, stored_object
from threadkeep.sources.folders import file_stamp, files_below, folders_in, printable
from threadkeep.sources.opencode.database import (
    data_root,
    message_line,
    part_line,
    session_line,
    stored_sessions,
)
from threadkeep.sources.opencode.messages import AGENT, OpencodeParser, read_record
from threadkeep.sources.records import DocumentItem, Log, Stamp, UnreadablePlace, UserHome

_RENAMED: Final = {"parentID": "parent_id", "projectID": "project_id"}
_PLAIN: Final = ("id", "slug", "title", "directory", "version", "agent")


class OpencodeTree:
    """Reads the folders below `storage`."""

    agent = AGENT
    kind: Literal["lines", "document"] = "document"

    def roots(self, user: UserHome) -> list[Path]:
        """Name the folders to look into and to watch."""
        return [data_root(user) / "storage", data_root(user) / "project"]

    def find(self, user: UserHome) -> Iterator[Log]:
        """Yield the sessions that no database has."""
        sessions = list(_sessions(data_root(user), user))
        try:
            # Where there is no tree, a database that did not change is not opened.
            elsewhere = stored_sessions(user) if sessions else set()
        except Busy:
            return  # to read both places would double what is said; the next look will tell
        for session in sessions:
            stamp = None if session.stem in elsewhere else _stamp(session, user)
            if stamp is not None:
                yield Log(str(session), stamp, printable(session.stem))

    def parser(self, log: Log, state: bytes | None) -> OpencodeParser:
        """Make a parser that starts afresh, or continues from a state."""
        return OpencodeParser(log, state)

    def entries(self, record: Any, line: bytes, number: int) -> list[Entry]:  # noqa: ARG002
        """Read one record alone."""
        return read_record(table(record), number)[0]

    def items(self, log: Log) -> Iterable[DocumentItem]:
        """Yield the one session, with the sizes and times of all its files."""
        session = Path(log.path)
        mark = hashlib.blake2b(digest_size=16)
        for place in (session.parent, *_all_folders(session, _STRICT)):
            for file in _files(place, _STRICT):
                if place != session.parent or file.path.name == session.name:
                    mark.update(repr((file.path.name, file.stamp)).encode("utf-8", "replace"))
        yield DocumentItem(log.session_id, mark.hexdigest())

    def records(self, log: Log, item: str) -> Iterable[tuple[str, bytes]]:
        """Yield a session, its messages in order, and behind each message its parts."""
        session = Path(log.path)
        told = stored_object(file_bytes(session, log.root))
        yield item, session_line(_columns(told, item))
        for file in _files(_message_folder(session), _STRICT):
            key = printable(file.path.stem)
            stored = _content(file.path, log)
            line, about = message_line(key, stored)
            yield key, line
            inline = rows(stored_object(stored).get("parts"))
            for position, part in enumerate(inline):
                name = text(table(part).get("id")) or f"{key}:{position}"
                yield name, part_line(name, about, msgspec.json.encode(part))
            for part_file in _files(_part_folder(session, file.path.stem), _STRICT):
                name = printable(part_file.path.stem)
                yield name, part_line(name, about, _content(part_file.path, log))


def _refuse(unseen: UnreadablePlace) -> None:
    """Let a session fail of which a part cannot be read: without it the rest would look whole."""
    if not unseen.is_link:
        raise Invalid(f"{unseen.path} cannot be read: {unseen.why}", hint=unseen.fix)


_STRICT: Final = UserHome(Path(), tell=_refuse)


class _File(NamedTuple):
    path: Path
    stamp: Stamp


def _sessions(root: Path, user: UserHome) -> Iterator[Path]:
    """Yield the files of sessions: of the oldest layout, then of the one after it."""
    places = [old / "storage" / "session" / "info" for old in _projects(root, user)]
    places += folders_in(root / "storage" / "session", user)
    for place in places:
        yield from (file.path for file in _files(place, user))


def _projects(root: Path, user: UserHome) -> list[Path]:
    return folders_in(root / "project", user, is_root=True)


def _files(folder: Path, user: UserHome) -> list[_File]:
    """List the JSON files in a folder by name: the ids sort by time."""
    return [_File(*file) for file in files_below(folder, user, ".json", depth=0)]


def _is_oldest(session: Path) -> bool:
    return session.parent.name == "info"


def _message_folder(session: Path) -> Path:
    up = 1 if _is_oldest(session) else 2
    return session.parents[up] / "message" / session.stem


def _part_folder(session: Path, message: str) -> Path:
    if _is_oldest(session):
        return session.parents[1] / "part" / session.stem / message
    return session.parents[2] / "part" / message


def _all_folders(session: Path, user: UserHome) -> Iterator[Path]:
    yield _message_folder(session)
    for file in _files(_message_folder(session), user):
        yield _part_folder(session, file.path.stem)


def _stamp(session: Path, user: UserHome) -> Stamp | None:
    """Make a stamp from the session, its messages, and the parts of the newest one.

    Files are written in place, which the time of their folder does not show. Parts change only
    while their message is the newest, so the others need no look.
    """
    own = file_stamp(session, user)
    if own is None:
        return None
    files = _files(_message_folder(session), user)
    if files:
        files += _files(_part_folder(session, files[-1].path.stem), user)
    size = own.size + sum(file.stamp.size for file in files)
    newest = max([own.mtime_ns, *(file.stamp.mtime_ns for file in files)])
    touched = max([own.ctime_ns, *(file.stamp.ctime_ns for file in files)])
    return own._replace(size=size, mtime_ns=newest, ctime_ns=touched)


def _content(path: Path, log: Log) -> bytes:
    try:
        return file_bytes(path, log.root)
    except NotFound:
        return b"null"  # undone since the folder was listed


def _columns(told: dict[str, Any], item: str) -> dict[str, Any]:
    """Name what a session's file says as the columns of the database do."""
    times, summary = table(told.get("time")), table(told.get("summary"))
    found = {name: told.get(name) for name in _PLAIN}
    found["id"] = text(told.get("id")) or item
    found |= {column: told.get(name) for name, column in _RENAMED.items()}
    found |= {f"time_{name}": times.get(name) for name in ("created", "updated")}
    counts = ("additions", "deletions", "files")
    return found | {f"summary_{name}": summary.get(name) for name in counts}


SOURCE = OpencodeTree()
