"""The programs whose contracts we keep: where their data lies, and what there is of it.

Nothing of theirs is changed, neither here nor by an import.
"""

import errno
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import msgspec

from threadkeep.base.config import Config
from threadkeep.base.files import SIDECARS, make_private_dir, sync_dir, translate_os
from threadkeep.base.paths import Paths, expand, hermes_file
from threadkeep.base.processes import is_running
from threadkeep.base.sqlite.backup import restore_backup
from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.base.sqlite.foreign import ForeignDatabase, copy_untouched, open_foreign
from threadkeep.base.sqlite.guard import refuse_endless
from threadkeep.chat.store import ChatStore
from threadkeep.errors import Conflict, Damaged, Invalid, NotFound, ThreadkeepError
from threadkeep.knowledge.merge import MergeCounts
from threadkeep.mailbox.folder import Folder, size_of_mail
from threadkeep.mailbox.index import MailIndex
from threadkeep.mailbox.mailroom import Mailroom
from threadkeep.sources.mailboxes import MailboxSource
from threadkeep.sources.records import UnreadablePlace, UserHome
from threadkeep.state.session_db import SessionDB

if TYPE_CHECKING:
    from threadkeep.capture.capture import History
    from threadkeep.capture.redact.engine import Redactor
    from threadkeep.knowledge.store import KnowledgeStore


Environ = Mapping[str, str]
_SESSIONS: Final = "v2-sessions"
_PATIENCE: Final = 5.0  # seconds: an agent can lock the files of its folder


class Original(msgspec.Struct, frozen=True):
    """The data of another program: where it is, its version, how much there is of what."""

    program: str
    path: Path
    version: int | None
    counts: dict[str, int]
    bytes: int


# Hears how much is done, and of how much; 0 if that is not known.
Progress = Callable[[int, int], None]


class AdoptReport(msgspec.Struct, frozen=True):
    """What an import did, or with `dry_run` would do."""

    original: Original
    target: Path
    copied: bool = False  # the copy became the store; else sessions were merged into it
    added: int = 0
    updated: int = 0  # they were there, and something of them was new
    skipped: int = 0  # they were there already
    problems: list[str] = []
    notes: list[str] = []
    tables: dict[str, MergeCounts] = {}  # of a knowledge file: what came of each of its tables
    dry_run: bool = False


class HomeLike(Protocol):
    """What is needed of a home."""

    @property
    def config(self) -> Config:
        """The settings."""
        ...

    def paths(self) -> Paths:
        """Return the folders."""
        ...

    def chat_path(self, path: str | Path | None = None) -> Path:
        """Return the file of the chat store."""
        ...

    def state_path(self, path: str | Path | None = None) -> Path:
        """Return the file of the state store."""
        ...

    def knowledge_path(self, path: str | Path | None = None) -> Path:
        """Return the file of the knowledge store."""
        ...

    def chat(self, path: str | Path | None = None) -> ChatStore:
        """Open the chat store."""
        ...

    def state(self, path: str | Path | None = None) -> SessionDB:
        """Open the state store."""
        ...

    def knowledge(self, path: str | Path | None = None) -> "KnowledgeStore":
        """Open the knowledge store."""
        ...

    def history(self, path: str | Path | None = None) -> "History":
        """Open the captured history."""
        ...

    def redactor(self) -> "Redactor":
        """Return what masks secrets before they are stored."""
        ...

    def mail_index(self) -> MailIndex:
        """Open the index of mailboxes to read it."""
        ...

    def mailroom(self, *, must_exist: bool = False) -> Mailroom:
        """Open the mailroom."""
        ...


class Shape(NamedTuple):
    """How a program's database is recognised and counted."""

    file: str
    places: Callable[[Environ], list[Path]]
    tables: frozenset[str]
    version: str
    counts: Mapping[str, str]  # what is counted, and in which table


# ---------------------------------------------------------------------- where


def _hermes_places(environ: Environ) -> list[Path]:
    found = hermes_file(environ)
    return [] if found is None else [found]


def _grida_places(environ: Environ) -> list[Path]:
    if environ.get("GRIDA_AGENT_USER_DATA"):
        return [expand(environ["GRIDA_AGENT_USER_DATA"], environ) / "sessions.db"]
    home = environ.get("GRIDA_HOME") or "~/.grida"
    return [expand(home, environ) / "agent" / "sessions.db"]


def _hippo_places(environ: Environ) -> list[Path]:
    """One half of Hippo follows XDG_DATA_HOME, the other never does."""
    named = environ.get("XDG_DATA_HOME")
    folders = [Path(named)] if named else []
    return [
        folder / "hippo" / "hippo.db"
        for folder in dict.fromkeys((*folders, expand("~/.local/share", environ)))
    ]


def _nanoclaw_places(environ: Environ) -> list[Path]:
    return [expand(f"~/{name}/data/{_SESSIONS}", environ) for name in ("nanoclaw", "NanoClaw")]


_USER_VERSION: Final = "PRAGMA user_version"
SHAPES: Final = {
    "hermes": Shape(
        "state.db",
        _hermes_places,
        frozenset(("sessions", "messages")),
        "SELECT max(version) FROM schema_version",
        {"sessions": "sessions", "messages": "messages"},
    ),
    "grida": Shape(
        "sessions.db",
        _grida_places,
        frozenset(("chat_sessions", "chat_messages", "chat_parts")),
        _USER_VERSION,
        {"sessions": "chat_sessions", "messages": "chat_messages"},
    ),
    "hippo": Shape(
        "hippo.db",
        _hippo_places,
        frozenset(("events", "sessions", "knowledge_nodes")),
        _USER_VERSION,
        {"sessions": "agentic_sessions", "events": "events", "nodes": "knowledge_nodes"},
    ),
}
PROGRAMS: Final = (*SHAPES, "nanoclaw")


def find_original(program: str, path: str | Path | None, environ: Environ) -> Path:
    """Return the place of a program's data: the one named, or else where the program keeps it."""
    if program not in PROGRAMS:
        msg = f"nothing can be imported from {program!r}"
        raise Invalid(msg, hint=f"the programs are {', '.join(PROGRAMS)}")
    if path is not None:
        places = _inside(program, Path(os.path.abspath(path)))
    else:
        finder = SHAPES[program].places if program in SHAPES else _nanoclaw_places
        places = finder(environ)
    for place in places:
        if place.is_dir() if program == "nanoclaw" else place.is_file():
            return place
    msg = f"there is no data of {program} at {' or '.join(map(str, places))}"
    raise NotFound(msg, hint=f"give its path: `threadkeep import {program} PATH`")


def _inside(program: str, path: Path) -> list[Path]:
    """A folder stands for what the program keeps in it."""
    if program == "nanoclaw":
        return [path / "data" / _SESSIONS, path / _SESSIONS, path]
    if not path.is_dir():
        return [path]
    name = SHAPES[program].file
    return [path / name, path / "agent" / name]


# ---------------------------------------------------------------------- what


def describe(program: str, path: Path) -> Original:
    """Look at a program's data; anything else is refused."""
    if program == "nanoclaw":
        return _describe_mail(path)
    with open_foreign(path) as database:
        version, counts = _counted(SHAPES[program], database, path)
    return Original(program, path, version, counts, _size(path))


def _counted(
    shape: Shape, database: ForeignDatabase, path: Path
) -> tuple[int | None, dict[str, int]]:
    tables = database.tables()
    if not tables >= shape.tables:
        lacking = ", ".join(sorted(shape.tables - tables))
        msg = f"{path} is not a {shape.file} of its program: it has no table {lacking}"
        raise Invalid(msg, hint="check the path; the file was not touched")
    counts = {
        what: database.count(table) for what, table in shape.counts.items() if table in tables
    }
    if "schema_version" in shape.version and "schema_version" not in tables:
        return None, counts
    version = next(database.rows(shape.version))[0]
    return version if isinstance(version, int) else None, counts


def _size(*paths: Path) -> int:
    """Add up files and their logs; looking at the sizes opens nothing."""
    beside = (Path(f"{path}{suffix}") for path in paths for suffix in ("", "-wal"))
    return sum(path.stat().st_size for path in beside if path.is_file())


def mail_folders(root: Path) -> tuple[list[Path], list[UnreadablePlace]]:
    """Return the session folders of NanoClaw below a folder, sorted, and what could not be seen."""
    unseen: list[UnreadablePlace] = []
    found = MailboxSource([root]).find(UserHome(root, tell=unseen.append))
    return [Path(log.path) for log in found], unseen


def _describe_mail(root: Path) -> Original:
    folders, unseen = mail_folders(root)
    if not folders and not unseen:
        msg = f"there is no session folder below {root}"
        raise NotFound(msg, hint="sessions are in <PATH>/<agent group>/<session>/inbound.db")
    files = [folder / name for folder in folders for name in ("inbound.db", "outbound.db")]
    counts = {"sessions": len(folders), "messages": 0}
    unreadable = len(unseen)  # the import says what is wrong with them, and continues
    for folder in folders:
        try:
            counts["messages"] += mail_count(folder)
        except ThreadkeepError:
            unreadable += 1
    if unreadable:
        counts["unreadable"] = unreadable
    return Original("nanoclaw", root, None, counts, _size(*files))


def mail_count(path: Path) -> int:
    """Count the mail of a folder; raises if either file is not what it should be."""
    folder = Folder(path, budget=_PATIENCE)
    return size_of_mail(folder, "in")[0] + size_of_mail(folder, "out")[0]


# ------------------------------------------------------------------------------
# A private copy of another program's database, brought up beside the place it is meant for.

# A file system without hard links says so in one of these ways.
_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.EMLINK)


def no_backup(*_: Any) -> None:
    """Make none: a fresh copy needs no backup, the original is one."""


@contextmanager
def copy_of(source: Path, target: Path, bring_up: Callable[[Path], None]) -> Iterator[Path]:
    """Make a copy beside the target, at our schema; what is left of it is removed at the end."""
    make_private_dir(target.parent)
    _sweep(target)
    copy = target.with_name(f".{target.name}.{os.getpid()}.importing")
    try:
        _make(source, copy, bring_up)
        yield copy
    finally:
        _remove(copy)


@contextmanager
def throwaway(place: Path) -> Iterator[Path]:
    """Return a place for a store like the one at `place`, where there is room for a copy of it."""
    near = place.parent if os.access(place.parent, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix=".threadkeep-plan-", dir=near) as folder:
        spare = Path(folder) / place.name
        if place.exists():
            copy_untouched(place, spare)
        yield spare


def _make(source: Path, copy: Path, bring_up: Callable[[Path], None]) -> None:
    try:
        restore_backup(source, copy)
        with SqliteDatabase(copy, {}, read_only=True) as database, database.read() as tx:
            refuse_endless(tx, source)
        bring_up(copy)
    except Damaged as error:
        msg = f"{source} could not be imported; nothing was changed: {error.message}"
        raise Damaged(msg, hint="repair it with its own program, then import again") from error


def _sweep(target: Path) -> None:
    """Remove the copies of imports that were killed."""
    name = rf"\.{re.escape(target.name)}\.(\d+)\.importing"
    for path in target.parent.iterdir():
        found = re.fullmatch(name, path.name)
        if found and not is_running(int(found[1])):
            _remove(path)


def _remove(copy: Path) -> None:
    for suffix in ("", *SIDECARS, ".lock"):
        Path(f"{copy}{suffix}").unlink(missing_ok=True)


def name_copy(copy: Path, target: Path) -> None:
    """Let a finished copy become the store, unless somebody has begun one meanwhile."""
    try:
        os.link(copy, target)
    except OSError as error:
        if target.exists():
            msg = f"a store was created at {target} in the meantime"
            raise Conflict(msg, hint="run the import again to merge into it") from None
        if error.errno not in _NO_LINKS:
            raise translate_os(error, target, "cannot write") from error
        copy.rename(target)
    sync_dir(target.parent)
