"""Home: a folder and its stores; the one façade that every surface uses.

home = Home()                      # $XDG_DATA_HOME/threadkeep, or THREADKEEP_HOME
with home.chat() as chat:
    chat.sessions()
"""

import os
import stat
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain
from pathlib import Path

import msgspec

from threadkeep.base import json
from threadkeep.base.backup import (
    Kept,
    Progress,
    backup_folder,
    check_file,
    list_backups,
    restore_backup,
)
from threadkeep.base.clock import iso, now_ms, parse_duration
from threadkeep.base.config import Config, load_config, store_path, write_default
from threadkeep.base.engine import Engine, engine
from threadkeep.base.paths import Paths, find_paths
from threadkeep.base.processes import is_alive
from threadkeep.base.redacting import Redact
from threadkeep.base.sqlite import DEFAULT_BUDGET, Database, Row
from threadkeep.base.text import from_sql, join_text, printable
from threadkeep.chat.importing import read_sessions
from threadkeep.chat.layout import QUERIES, read_version
from threadkeep.chat.records import Event, Json
from threadkeep.chat.recovery import is_running
from threadkeep.chat.store import ChatStore
from threadkeep.chat.timeline import Timeline, Turn
from threadkeep.chat.verify import problems_of
from threadkeep.errors import (
    Conflict,
    Damaged,
    Invalid,
    NotFound,
    SchemaMismatch,
    ThreadkeepError,
    UnsupportedEngine,
)

# What surfaces need beside the stores; they import nothing below this module.
__all__ = [
    "Backup",
    "Home",
    "Paths",
    "Status",
    "StoreStatus",
    "Timeline",
    "Turn",
    "follow",
    "iso",
    "join_text",
    "json",
    "now_ms",
    "parse_duration",
    "printable",
    "running_runs",
]

_CHAT_FILE = "chat.db"
_DEMO_FILE = "demo.db"
_SOME = 5
_LAST = "last"
# How often somebody who follows is asked whether it is still wanted, in seconds.
_ASK_EVERY = 1.0


class Backup(msgspec.Struct, frozen=True):
    """One backup of a store: where it is, when and why it was made."""

    path: Path
    at: str
    reason: str
    bytes: int


class StoreStatus(msgspec.Struct, frozen=True):
    """What a store's file is like; `problem` says why it could not be looked into."""

    path: Path
    exists: bool
    bytes: int = 0
    wal_bytes: int = 0
    schema_version: int | None = None
    journal_mode: str = ""
    event_log: bool = False
    sessions: int = 0
    messages: int = 0
    live_recordings: list[Json] = []
    backups: int = 0
    last_backup: Backup | None = None
    problem: str = ""


class Status(msgspec.Struct, frozen=True):
    """The state of a home."""

    paths: Paths
    config_exists: bool
    sqlite: Engine
    chat: StoreStatus


class Home:
    """A folder with its stores; without a path, the user's own (see `paths`)."""

    def __init__(
        self, path: str | Path | None = None, *, environ: Mapping[str, str] | None = None
    ) -> None:
        """Find the folders; nothing is created or read before it is needed."""
        self._environ = _environment() if environ is None else environ
        if path is not None:
            refuse_url(path)
        found = find_paths(self._environ, None if path is None else Path(path))
        self._paths = Paths(*(Path(os.path.abspath(p)) for p in msgspec.structs.astuple(found)))
        if self._paths.data.is_file():
            msg = f"{self._paths.data} is a file; a home is a folder"
            raise Invalid(msg, hint="give its folder, or open the file with ChatStore.open(path)")

    def paths(self) -> Paths:
        """Give the folders of this home."""
        return self._paths

    @cached_property
    def config(self) -> Config:
        """The settings of this home's configuration file."""
        return load_config(self._paths.config)

    def write_config(self) -> Path:
        """Write the commented default configuration where there is none yet."""
        write_default(self._paths.config)
        return self._paths.config

    # ------------------------------------------------------------------ the chat store

    def chat_path(self, path: str | Path | None = None) -> Path:
        """Give the file of the chat store: the path given, the configured one, or the default."""
        found = self._named_path(path)
        _refuse_special(found)
        return found

    def _named_path(self, path: str | Path | None) -> Path:
        if path is not None:
            refuse_url(path)
            return Path(path)
        named = self.config.stores.chat
        if named is None:
            return self._paths.data / _CHAT_FILE
        refuse_url(named)
        return store_path(named, self._paths.config, self._environ)

    @property
    def demo_path(self) -> Path:
        """The file that `threadkeep demo` records into."""
        return self._paths.data / _DEMO_FILE

    def chat(
        self,
        path: str | Path | None = None,
        read_only: bool = False,  # noqa: FBT001, FBT002  (the one choice a caller makes)
        *,
        must_exist: bool = False,
        redact: Redact | None = None,
        budget: float = DEFAULT_BUDGET,
    ) -> ChatStore:
        """Open the chat store with the settings of the configuration; close it after use.

        A store that is not there is begun, unless it must exist or is only read.
        """
        target = self.chat_path(path)
        if read_only or must_exist:
            _need_file(target)
        return ChatStore.open(
            target,
            read_only=read_only,
            event_log=None if read_only else self.config.chat.event_log,
            redact=redact,
            budget=budget,
            part_limit=self.config.chat.part_limit,
        )

    def checked_input(
        self, lines: Iterable[bytes], *, path: str | Path | None = None
    ) -> Iterable[bytes]:
        """Give lines to import; where they would begin a store, their first session is checked.

        So input that is wrong from its beginning leaves no empty store behind.
        """
        if self.chat_path(path).exists():
            return lines
        rest, seen = iter(lines), list[bytes]()
        first = next(read_sessions(_noted(rest, seen), self.config.chat.part_limit), None)
        if first is None:
            raise Invalid("there is no session in the input", hint="pass what `export` wrote")
        return chain(seen, rest)

    # ------------------------------------------------------------------ care

    def status(self, path: str | Path | None = None) -> Status:
        """Look at the home and its stores without changing anything."""
        target = self.chat_path(path)
        known = StoreStatus(path=target, exists=target.exists())
        if known.exists:
            try:
                known = self._look_into(target)
            except ThreadkeepError as error:
                size = os.stat(target).st_size
                known = StoreStatus(path=target, exists=True, bytes=size, problem=str(error))
        return Status(self._paths, self._paths.config.exists(), engine(), known)

    def _look_into(self, path: Path) -> StoreStatus:
        backups = self.backups(path)
        with ChatStore.open(path, read_only=True) as store, store.context.db.read() as tx:
            live = [row for row in tx.all("all_recordings") if is_alive(row[3])]
            return StoreStatus(
                path=path,
                exists=True,
                bytes=os.stat(path).st_size,
                wal_bytes=store.context.db.wal.size(),
                schema_version=read_version(tx),
                journal_mode=str(tx.execute("PRAGMA journal_mode").fetchone()[0]),
                event_log=tx.value("get_meta", {"key": "event_log"}) == "on",
                sessions=int(tx.execute("SELECT count(*) FROM chat_sessions").fetchone()[0]),
                messages=int(tx.execute("SELECT count(*) FROM chat_messages").fetchone()[0]),
                live_recordings=[
                    {
                        "session_id": from_sql(row[1]),
                        "message_id": from_sql(row[0]),
                        "process": int(row[3].split(":")[0]),
                        "started_at": row[5],
                    }
                    for row in live
                ],
                backups=len(backups),
                last_backup=backups[0] if backups else None,
            )

    def backup(
        self,
        target: str | Path | None = None,
        *,
        path: str | Path | None = None,
        progress: Progress | None = None,
    ) -> Path:
        """Copy the live chat store to a checked backup; an existing file is never overwritten."""
        source = self.chat_path(path)
        kept = Kept(self.config.backups.keep_count, self.config.backups.keep_days)
        with self.chat(source, read_only=True) as store:
            return store.backup(
                None if target is None else _free_name(Path(target), source),
                progress=progress,
                keep=kept,
            )

    def backups(self, path: str | Path | None = None) -> list[Backup]:
        """List the backups beside the chat store, newest first."""
        source = self.chat_path(path)
        return [_describe(found, source) for found in list_backups(source)]

    def find_backup(self, name: str, *, path: str | Path | None = None) -> Path:
        """Give a backup by its path, by the beginning of its name, or as `last`."""
        if Path(name).is_file():
            return Path(name)
        known = [backup.path for backup in self.backups(path)]
        if name == _LAST and known:
            return known[0]
        matching = [found for found in known if found.name.startswith(name)]
        if len(matching) == 1:
            return matching[0]
        if matching:
            msg = f"{len(matching)} backups begin with {name!r}"
            raise Invalid(msg, hint="give more of the name, or the whole path")
        folder = backup_folder(self.chat_path(path))
        msg = f"there is no backup {name!r}, neither as a path nor in {folder}"
        raise NotFound(msg, hint="`threadkeep backup --list` shows the backups")

    def check_backup(self, backup: str | Path) -> list[str]:
        """Check a backup row by row without restoring it; give what is wrong with it."""
        return check_file(Path(backup), problems_of)

    def restore_target(self, path: str | Path | None = None) -> Path:
        """Give the file that a restore replaces; a sound one of another program is refused."""
        target = self.chat_path(path)
        if target.is_file() and target.stat().st_size and _is_foreign(target):
            msg = f"{target} is a database of another program and was left as it is"
            raise Conflict(msg, hint="restore to another place (--db), or move that file away")
        return target

    def restore(self, backup: str | Path, *, path: str | Path | None = None) -> Path | None:
        """Put a checked backup in the place of the chat store; give where the old data went."""
        source, target = Path(backup), self.restore_target(path)
        if _same_file(source, target):
            msg = f"{source} is the store itself, not a backup of it"
            raise Conflict(msg, hint="`threadkeep backup --list` shows the backups")
        return restore_backup(source, target, check=problems_of)


def _environment() -> Mapping[str, str]:
    """The process's environment, with the home of the user where HOME is not set."""
    if os.environ.get("HOME"):
        return os.environ
    try:
        return {**os.environ, "HOME": str(Path.home())}
    except RuntimeError:  # an unknown user: `find_paths` says what to do
        return os.environ


def refuse_url(path: str | Path) -> None:
    """Refuse a location that is no path of a file."""
    text = str(path)
    if text.startswith(("postgres:", "postgresql:")):
        raise UnsupportedEngine(
            "PostgreSQL is not available in this version",
            hint="give the path of a folder or a file: stores are SQLite files",
        )


def _refuse_special(path: Path) -> None:
    """Refuse what is no file at all before it is opened: a pipe would wait for its writer."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return  # not there, or not ours to look at: opening it tells
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise Invalid(f"{path} is no regular file", hint="give the path of a chat file")


def _is_foreign(path: Path) -> bool:
    """Tell whether a sound database holds something, but no chats."""
    try:
        with Database(path, QUERIES, read_only=True) as found, found.read() as tx:
            used = tx.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is not None
            return used and read_version(tx) is None
    except (Damaged, SchemaMismatch):
        return False  # what is damaged is moved aside whole; a newer version is still a chat store


def _noted(lines: Iterable[bytes], seen: list[bytes]) -> Iterator[bytes]:
    for line in lines:
        seen.append(line)
        yield line


def _need_file(path: Path) -> None:
    if not path.exists():
        msg = f"there is no chat store at {path} yet"
        raise NotFound(msg, hint="`threadkeep chat record` begins one, `threadkeep demo` shows it")


def _same_file(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)


def _free_name(target: Path, source: Path) -> Path:
    name = target / f"{source.stem}-{now_ms()}.db" if target.is_dir() else target
    if not name.parent.is_dir():
        msg = f"there is no folder {name.parent}"
        raise NotFound(msg, hint="make the folder first, or choose another place for the backup")
    if name.exists():
        msg = f"{name} exists already and was left as it is"
        raise Conflict(msg, hint="choose another name for the backup")
    return name


def _describe(backup: Path, source: Path) -> Backup:
    at, _, rest = backup.stem.removeprefix(f"{source.stem}-").partition("-")
    return Backup(backup, at, rest.partition("-")[2], os.stat(backup).st_size)


# ---------------------------------------------------------------------- live sessions


def running_runs(store: ChatStore, session_id: str) -> set[str]:
    """Give the runs of a session that somebody records right now."""
    return {row[2] for row in _running(store, session_id) if row[2] is not None}


def _running(store: ChatStore, session_id: str) -> list[Row]:
    with store.context.db.read() as tx:
        return [
            row
            for row in tx.all("session_recordings", {"session_id": session_id})
            if is_running(row)
        ]


def follow(
    store: ChatStore,
    session_id: str,
    after: int,
    *,
    until_idle: bool,
    wanted: Callable[[], bool],
) -> Generator[Event, None, None]:
    """Give a session's events as they commit, as long as they are wanted (asked every second)."""
    # Announced over the whole time: a reply that ends between two looks keeps its chunks.
    store.context.db.follow()
    try:
        while wanted():
            live = bool(_running(store, session_id))
            events = store.tail(
                session_id,
                after,
                follow=live or not until_idle,
                until_idle=until_idle,
                timeout=_ASK_EVERY,
            )
            for event in events:
                after = event.seq
                yield event
            if until_idle and not live:
                return
    finally:
        store.context.db.unfollow()
