"""Home: a folder and its stores; the one façade that every surface uses.

home = Home()                      # $XDG_DATA_HOME/threadkeep, or THREADKEEP_HOME
with home.chat() as chat:
    chat.sessions()
with home.state() as state:
    state.list_sessions_rich()
with home.mailroom() as room:
    room.index.sessions()

`Home("postgresql://…")` has its chat, state and knowledge stores on a server; what belongs to this
machine alone (configuration, mailboxes, reports that wait) stays in the user's own folder.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from threadkeep.base.clock import zone_name
from threadkeep.base.config import Config, load_config, store_path, write_default
from threadkeep.base.database import DEFAULT_BUDGET
from threadkeep.base.engines import Place, is_url
from threadkeep.base.paths import (
    Paths,
    environment,
    find_paths,
    hermes_file,
    need_file,
    refuse_special,
)
from threadkeep.base.sqlite.upkeep import WITHOUT_A_FILE
from threadkeep.errors import Invalid, SchemaMismatch, UnsupportedEngine

if TYPE_CHECKING:
    from threadkeep.base.sqlite.backup import Progress
    from threadkeep.base.text import Redact
    from threadkeep.capture.capture import History
    from threadkeep.capture.github.ci import Ci
    from threadkeep.capture.observed.observed import Observations
    from threadkeep.capture.redact.engine import Redactor
    from threadkeep.chat.store import ChatStore
    from threadkeep.home.backups import Backup, BackupResult
    from threadkeep.home.capture import Reporter
    from threadkeep.home.status import Status
    from threadkeep.knowledge.store import KnowledgeStore
    from threadkeep.mailbox.index import MailIndex
    from threadkeep.mailbox.mailroom import Mailroom
    from threadkeep.memory.memory import Memory
    from threadkeep.state.session_db import SessionDB
    from threadkeep.transfer.originals import AdoptReport


_CHAT_FILE = "chat.db"
_STATE_FILE = "state.db"
_MAIL_FILE = "mailbox.db"
_MAIL_FOLDER = "mailbox"
_KNOWLEDGE_FILE = "knowledge.db"
_DEMO_FILE = "demo.db"
_DEMO_HISTORY = "demo-knowledge.db"
_ADOPTED: Final = {"hermes": "state", "grida": "chat", "hippo": "knowledge"}
_BY_EXPORT: Final = (
    "import it with --home into a folder; then `threadkeep --home FOLDER {0} export --all -o FILE`"
    " and `threadkeep {0} import FILE`"
)
_ADOPT_FIRST: Final = {
    "state": _BY_EXPORT.format("state"),
    "chat": _BY_EXPORT.format("chat"),
    "knowledge": "import it with --home into a folder; `threadkeep migrate --to` moves that",
}
_ON_SERVERS: Final = frozenset({"chat", "state", "knowledge"})


class Home:
    """A folder with its stores; without a path, the user's own (see `paths`).

    The URL of a PostgreSQL server, here or in THREADKEEP_DB_URL, has the stores on that server.
    """

    def __init__(
        self, path: Place | None = None, *, environ: Mapping[str, str] | None = None
    ) -> None:
        """Find the folders; nothing is created, read or connected to before it is needed."""
        self._environ = environment() if environ is None else environ
        self._server = self._environ.get("THREADKEEP_DB_URL") or None
        if path is not None:
            self._server = str(path) if is_url(path) else None
        folder = None if path is None or is_url(path) else Path(path)
        self._named = folder is not None
        found = find_paths(self._environ, folder)
        self._paths = Paths(*(Path(os.path.abspath(p)) for p in msgspec.structs.astuple(found)))
        if self._paths.data.is_file():
            msg = f"{self._paths.data} is a file; a home is a folder"
            raise Invalid(msg, hint="give its folder, or open the file with ChatStore.open(path)")

    def paths(self) -> Paths:
        """Return the folders of this home."""
        return self._paths

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment that this home was found in."""
        return self._environ

    @cached_property
    def config(self) -> Config:
        """The settings of this home's configuration file."""
        return load_config(self._paths.config)

    def write_config(self) -> Path:
        """Write the commented default configuration if it does not exist yet."""
        write_default(self._paths.config)
        return self._paths.config

    # ------------------------------------------------------------------ where the stores are

    def place(self, store: str, path: Place | None = None) -> Place:
        """Return the location of a store of a kind: its file, or the URL of its server."""
        if path is not None:
            return path if is_url(path) else self._path_of(store, path)
        configured = getattr(self.config.stores, store, None)
        url = self._server if configured is None and store in _ON_SERVERS else configured
        return url if url is not None and is_url(url) else self._path_of(store)

    def file(self, store: str, path: Place | None = None) -> Path | None:
        """Return the file of a store of a kind, None if it is on a server."""
        place = self.place(store, path)
        return None if is_url(place) else Path(place)

    def has(self, store: str, path: Place | None = None) -> bool:
        """Return whether a store of a kind exists; on a server it is created when it is used."""
        file = self.file(store, path)
        return file is None or file.exists()

    def chat_path(self, path: str | Path | None = None) -> Path:
        """Return the file of the chat store: the path given, the configured one, or the default."""
        found = self._given("chat", path)
        return _regular(found or self._paths.data / _CHAT_FILE, "chat")

    def state_path(self, path: str | Path | None = None) -> Path:
        """Return the file of the state store: the path given, the configured one, or the default.

        The default is `state.db` in the data folder. If that is not there but Hermes Agent's own
        file is, it is Hermes's; not so in a home that was named, which keeps to its folder.
        """
        found = self._given("state", path)
        return _regular(found or self._default_state(), "state")

    def mail_path(self, path: str | Path | None = None) -> Path:
        """Return the file of the index of mailboxes: the path given, or the default."""
        return _regular(self._given("mailbox", path) or self._paths.data / _MAIL_FILE, "mailbox")

    def store_path(self, store: str, path: str | Path | None = None) -> Path:
        """Return the file of a store by its kind: `chat`, `state`, `mailbox` or `knowledge`."""
        from threadkeep.home.backups import kind_of

        return self._path_of(kind_of(store).name, path)

    def _path_of(self, store: str, path: str | Path | None = None) -> Path:
        paths = {"chat": self.chat_path, "state": self.state_path, "mailbox": self.mail_path}
        return (paths | {"knowledge": self.knowledge_path})[store](path)

    def knowledge_path(self, path: str | Path | None = None) -> Path:
        """Return the file of the knowledge store: the path given, the configured or the default."""
        found = self._given("knowledge", path)
        return _regular(found or self._paths.data / _KNOWLEDGE_FILE, "knowledge")

    def _given(self, store: str, path: str | Path | None) -> Path | None:
        """Return the file that was named or configured; refuse a store that is in no file."""
        configured = None if path is not None else getattr(self.config.stores, store, None)
        url = self._server if configured is None and store in _ON_SERVERS else configured
        for named in (path, url if path is None else None):
            if named is not None and is_url(str(named)):
                msg = f"the {store} store is on a server, and this needs its file"
                raise UnsupportedEngine(msg, hint=WITHOUT_A_FILE)
        if path is not None:
            return Path(path)
        if configured is None:
            return None
        return store_path(configured, self._paths.config, self._environ)

    def _default_state(self) -> Path:
        own = self._paths.data / _STATE_FILE
        theirs = None if self._named or own.exists() else hermes_file(self._environ)
        return theirs if theirs is not None and theirs.is_file() else own

    @property
    def demo_history(self) -> Path:
        """The knowledge file of the demo history, for a machine without agents."""
        return self._paths.data / _DEMO_HISTORY

    @property
    def demo_path(self) -> Path:
        """The file that `threadkeep demo` records into."""
        return self._paths.data / _DEMO_FILE

    # ------------------------------------------------------------------ opening

    def chat(
        self,
        path: str | Path | None = None,
        read_only: bool = False,  # noqa: FBT001, FBT002  (the one choice a caller makes)
        *,
        must_exist: bool = False,
        redact: "Redact | None" = None,
        budget: float = DEFAULT_BUDGET,
    ) -> "ChatStore":
        """Open the chat store with the settings of the configuration; close it after use.

        A store that is not there is begun, unless it must exist or is only read.
        """
        from threadkeep.chat.store import ChatStore

        target = self._target("chat", path, must_exist=read_only or must_exist)
        return ChatStore.open(
            target,
            read_only=read_only,
            event_log=None if read_only else self.config.chat.event_log,
            redact=redact,
            budget=budget,
            part_limit=self.config.chat.part_limit,
        )

    def state(
        self,
        path: str | Path | None = None,
        read_only: bool = False,  # noqa: FBT001, FBT002  (the one choice a caller makes)
        *,
        must_exist: bool = False,
        redact: "Redact | None" = None,
        budget: float = DEFAULT_BUDGET,
    ) -> "SessionDB":
        """Open the state store; close it after use.

        A store that is not there is begun, unless it must exist or is only read. A file of Hermes,
        if it is of version 6, gets side tables when it is opened for writing; looking changes none.
        """
        from threadkeep.state.session_db import SessionDB

        target = self._target("state", path, must_exist=read_only or must_exist)
        store = SessionDB(target, read_only, timeout=budget, redact=redact)
        if store.database.read_only and not read_only:
            msg = f"{target} can only be read: {store.refusal}"
            store.close()
            raise SchemaMismatch(msg, hint="update threadkeep to change it")
        return store

    def knowledge(
        self,
        path: str | Path | None = None,
        read_only: bool = False,  # noqa: FBT001, FBT002  (the one choice a caller makes)
        *,
        must_exist: bool = False,
        budget: float = DEFAULT_BUDGET,
    ) -> "KnowledgeStore":
        """Open the knowledge store; close it after use.

        A store that is not there is begun, unless it must exist or is only read.
        """
        from threadkeep.knowledge.store import KnowledgeStore

        target = self._target("knowledge", path, must_exist=read_only or must_exist)
        schema = self.config.stores.knowledge_schema
        return KnowledgeStore.open(target, read_only=read_only, schema=schema, timeout=budget)

    def _target(self, store: str, path: Place | None, *, must_exist: bool) -> Place:
        place = self.place(store, path)
        if must_exist and not is_url(place):
            need_file(Path(place), store)
        return place

    def history(
        self,
        path: str | Path | None = None,
        read_only: bool = False,  # noqa: FBT001, FBT002  (the one choice a caller makes)
        *,
        must_exist: bool = False,
        user_home: str | Path | None = None,
        roots: Iterable[str | Path] = (),
    ) -> "History":
        """Open the captured history; close it after use.

        `user_home` is the folder below which other programs' logs are looked for, the user's own
        home if it is not given; `roots` are further folders with projects that may hold some.
        """
        from threadkeep.home.capture import open_history

        store = self.knowledge(path, read_only, must_exist=must_exist)
        return open_history(self, store, self._environ, user_home, roots)

    def observations(
        self,
        path: str | Path | None = None,
        read_only: bool = False,  # noqa: FBT001, FBT002  (the one choice a caller makes)
        *,
        must_exist: bool = False,
    ) -> "Observations":
        """Open what shells, browsers and CI reported; close it after use."""
        from threadkeep.home.capture import open_observations

        return open_observations(self, self.knowledge(path, read_only, must_exist=must_exist))

    def ci(
        self,
        path: str | Path | None = None,
        read_only: bool = False,  # noqa: FBT001, FBT002  (the one choice a caller makes)
        *,
        repos: tuple[str, ...] = (),
        must_exist: bool = False,
    ) -> "Ci":
        """Open what CI did; `repos` are followed instead of those of the configuration."""
        from threadkeep.home.capture import make_ci

        return make_ci(self, self.knowledge(path, read_only, must_exist=must_exist), repos)

    def memory(
        self,
        path: str | Path | None = None,
        read_only: bool = False,  # noqa: FBT001, FBT002  (the one choice a caller makes)
        *,
        must_exist: bool = False,
    ) -> "Memory":
        """Open memory, which recalls everything in the knowledge store; close it after use."""
        from threadkeep.home.opening import open_memory

        return open_memory(self, self.knowledge(path, read_only, must_exist=must_exist))

    def reporter(self) -> "Reporter":
        """Return a reporter, which writes to the spool of this home without opening its store."""
        from threadkeep.home.capture import make_reporter

        return make_reporter(self)

    def redactor(self) -> "Redactor":
        """Return the redactor, which masks secrets by the rules of the configuration."""
        from threadkeep.home.capture import make_redactor

        return make_redactor(self.config, self._paths.config, self._environ)

    def adopt(self, program: str, path: str | Path | None = None, **options: Any) -> "AdoptReport":
        """Import the data of an installed program: hermes, grida, hippo or nanoclaw."""
        from threadkeep.home.capture import with_fallback
        from threadkeep.transfer.adopt import adopt

        kind = _ADOPTED.get(program, "")
        if kind and self.file(kind, options.get("target")) is None:
            msg = f"data of {program} is imported into a file, and the {kind} store is on a server"
            raise UnsupportedEngine(msg, hint=_ADOPT_FIRST[kind])
        done = adopt(self, program, path, environ=self._environ, **options)
        return with_fallback(self, done) if program == "hippo" else done

    @cached_property
    def zone(self) -> str:
        """The time zone of times without one: TZ, else the system's."""
        return self.zone_named(None)

    def zone_named(self, name: str | None) -> str:
        """Return a time zone by its name, by default this machine's; refuses an unknown one."""
        return zone_name(name, self._environ)

    def mailroom(self, *, must_exist: bool = False, **options: Any) -> "Mailroom":
        """Open the mailroom with the mailboxes of all sessions; close it after use.

        See `Mailroom.open` for the options. A mailroom that is not there is begun, unless it
        must exist.
        """
        from threadkeep.mailbox.mailroom import Mailroom

        if must_exist:
            need_file(self.mail_path(), "mailbox")
        return Mailroom.open(self._paths.data, **{"zone": self.zone, **options})

    def mail_index(self, path: str | Path | None = None) -> "MailIndex":
        """Open the index of mailboxes to read it; close it after use."""
        from threadkeep.mailbox.index import MailIndex

        target = self.mail_path(path)
        need_file(target, "mailbox")
        return MailIndex.open(target, read_only=True)

    def mail_folder(self, ref: str) -> Path:
        """Return the folder of a mailbox: a path, a prefix of a session's id, or `last`."""
        from threadkeep.home.mail import find_mail_session, is_folder
        from threadkeep.mailbox.folder import session_dir

        if is_folder(ref):
            return Path(os.path.abspath(ref))
        with self.mail_index() as index:
            found = find_mail_session(index, ref)
        return session_dir(self._paths.data / _MAIL_FOLDER, found.agent_group_id, found.id)

    def checked_input(
        self, lines: Iterable[bytes], *, path: str | Path | None = None
    ) -> Iterable[bytes]:
        """Return lines to import into the chat store; their first session is checked.

        So input that is wrong from its beginning leaves no empty store behind.
        """
        from threadkeep.chat.import_formats import read_sessions

        if self.has("chat", path):
            return lines
        rest, seen = iter(lines), list[bytes]()
        first = next(read_sessions(_noted(rest, seen), self.config.chat.part_limit), None)
        if first is None:
            raise Invalid("there is no session in the input", hint="pass what `export` wrote")
        return chain(seen, rest)

    # ------------------------------------------------------------------ care

    def status(
        self,
        path: str | Path | None = None,
        *,
        state_path: str | Path | None = None,
        mail_path: str | Path | None = None,
        knowledge_path: str | Path | None = None,
    ) -> "Status":
        """Report the state of the home and its stores without changing anything."""
        from threadkeep.base.sqlite.pragmas import engine
        from threadkeep.home import status as looked

        return looked.Status(
            self._paths,
            self._paths.config.exists(),
            engine(),
            looked.chat_status(self.place("chat", path)),
            looked.state_status(self.place("state", state_path)),
            looked.mail_status(self.mail_path(mail_path)),
            looked.knowledge_status(self.place("knowledge", knowledge_path)),
        )

    def backup(
        self,
        target: str | Path | None = None,
        *,
        path: str | Path | None = None,
        store: str = "chat",
        progress: "Progress | None" = None,
    ) -> Path:
        """Copy a live store to a checked backup; an existing file is never overwritten."""
        from threadkeep.home import backups as stored

        return stored.back_up(self, store, target, path, progress)

    def backup_all(
        self,
        target: str | Path | None = None,
        *,
        path: str | Path | None = None,
        store: str | None = None,
        progress: "Progress | None" = None,
    ) -> "list[BackupResult]":
        """Copy every existing store, the named one, or the one in the file `path`.

        `target` is a folder then, if there are several.
        """
        from threadkeep.home import backups as stored

        return stored.back_up_all(self, target, path, store, progress)

    def backups(
        self, path: str | Path | None = None, *, store: str | None = None
    ) -> "list[Backup]":
        """List the backups of a store, of the file `path`, or of all stores, newest first."""
        from threadkeep.home import backups as stored

        return stored.list_all(self, path, store)

    def find_backup(
        self, name: str, *, path: str | Path | None = None, store: str | None = None
    ) -> Path:
        """Return a backup by its path, by a prefix of its name, or as `last`."""
        from threadkeep.home import backups as stored

        return stored.find_backup(self, name, path, store)

    def check_backup(self, backup: str | Path, *, store: str | None = None) -> list[str]:
        """Check a backup row by row without restoring it; return its problems."""
        from threadkeep.home import backups as stored

        return stored.check_backup(self, Path(backup), store)

    def restore_target(
        self,
        path: str | Path | None = None,
        *,
        store: str | None = None,
        backup: str | Path | None = None,
    ) -> Path:
        """Return the file that a restore replaces; refuses an intact file of another kind.

        Without a `store` the backup tells which one it is.
        """
        from threadkeep.home import backups as stored

        found = None if backup is None else Path(backup)
        return stored.restore_target(self, path, store, found)

    def restore(
        self,
        backup: str | Path,
        *,
        path: str | Path | None = None,
        store: str | None = None,
    ) -> Path | None:
        """Replace a store with a checked backup; return where the old data was moved.

        Which store that is, the backup tells by itself.
        """
        from threadkeep.home import backups as stored

        return stored.restore(self, Path(backup), path, store)


def _regular(path: Path, kind: str) -> Path:
    refuse_special(path, kind)
    return path


def _noted(lines: Iterable[bytes], seen: list[bytes]) -> Iterator[bytes]:
    for line in lines:
        seen.append(line)
        yield line


# ------------------------------------------------------------------------------
# Where reports lie until they are collected, and how many do; loads nothing of what collects.

FALLBACK: Final = "fallback"  # where Hippo's programs leave what they cannot deliver
_SPOOL: Final = "spool"
_SOCKET: Final = "daemon.sock"


def spool_folder(home: Home) -> Path:
    """Return the folder in which reports wait to be collected."""
    return home.paths().data / _SPOOL


def socket_path(home: Home) -> Path:
    """Return the socket on which a home listens for reports."""
    named = home.config.socket.path
    if named is None:
        return home.paths().data / _SOCKET
    return store_path(named, home.paths().config, home.environ)


def fallback_folders(home: Home, store: Path | None) -> tuple[Path, ...]:
    """Return where Hippo's programs leave what they cannot deliver: by the store, by the socket."""
    places = (socket_path(home),) if store is None else (store, socket_path(home))
    return tuple(dict.fromkeys(near.parent / FALLBACK for near in places))


def reports_waiting(home: Home, path: str | Path | None = None) -> int:
    """Count the files that wait to be collected: in the spool, and where Hippo leaves them."""
    folders = (spool_folder(home), *fallback_folders(home, home.file("knowledge", path)))
    there = [folder for folder in folders if folder.exists()]
    if not there:
        return 0
    from threadkeep.base.spool import Spool

    return sum(len(Spool(folder).waiting()) for folder in there)
