"""Backups of any store: which kinds there are, how one is found, described, judged and restored.

Which store a backup is of is told from the file itself: its name is no proof, and may be any.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import parse_qs, urlencode

import msgspec

from threadkeep.base.clock import now_ms
from threadkeep.base.database import Database
from threadkeep.base.engines import is_url, without_password
from threadkeep.base.paths import free_name, need_file, same_file
from threadkeep.base.sqlite.backup import (
    BackupRetention,
    Check,
    Progress,
    backup_folder,
    check_file,
    list_backups,
    make_backup,
    recency,
    restore_backup,
    stamp_time,
)
from threadkeep.base.sqlite.checks import is_blank, sqlite_problems
from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.base.tx import Tx
from threadkeep.chat import schema as chat_layout, schema as chat_verify
from threadkeep.errors import (
    Conflict,
    Damaged,
    Invalid,
    NotFound,
    SchemaMismatch,
    ThreadkeepError,
    UnsupportedEngine,
)
from threadkeep.knowledge import schema as knowledge_layout
from threadkeep.knowledge.schema import NEWEST
from threadkeep.mailbox import index_records
from threadkeep.state import check as state_check, schema as state_layout

if TYPE_CHECKING:
    from threadkeep.chat.store import ChatStore
    from threadkeep.home.home import Home
    from threadkeep.knowledge.store import KnowledgeStore
    from threadkeep.mailbox.index import MailIndex
    from threadkeep.state.session_db import SessionDB

    Store = ChatStore | SessionDB | MailIndex | KnowledgeStore


_LAST = "last"
_LIST = "`threadkeep backup --list` shows the backups"


class Backup(msgspec.Struct, frozen=True):
    """One backup of a store: where it is, when and why it was made, and of which store."""

    path: Path
    at: str
    reason: str
    bytes: int
    store: str = ""


class BackupResult(NamedTuple):
    """What became of the backup of one store: where it is, or why there is none."""

    store: str
    path: Path | None = None
    problem: ThreadkeepError | None = None


class Kind(NamedTuple):
    """How a kind of store is recognised and checked."""

    name: str
    queries: Mapping[str, str]
    read_version: Callable[[Tx], int | None]
    problems_of: Check
    newest: int | None = None  # the last version that can be read; None where a newer one can


def _index_problems(database: Database) -> list[str]:
    with database.read() as tx:
        return sqlite_problems(tx)


KINDS: Final = {
    kind.name: kind
    for kind in (
        Kind(
            *("chat", chat_layout.QUERIES, chat_layout.read_version, chat_verify.problems_of),
            newest=chat_layout.VERSION,
        ),
        Kind("state", state_layout.QUERIES, state_layout.read_version, state_check.problems_of),
        # The index alone: the folders of the sessions are the mail itself.
        Kind(
            *("mailbox", index_records.QUERIES, index_records.read_version, _index_problems),
            newest=index_records.VERSION,
        ),
        Kind(
            *("knowledge", {}, knowledge_layout.read_version, _index_problems),
            newest=NEWEST,
        ),
    )
}


def kind_of(name: str) -> Kind:
    """Return a kind of store by its name."""
    if name not in KINDS:
        raise Invalid(f"there is no store {name!r}", hint=f"the stores are {', '.join(KINDS)}")
    return KINDS[name]


def kind_in(path: Path) -> Kind | None:
    """Tell from a file itself which kind of store it is; None for any other or a damaged one."""
    return next((kind for kind in KINDS.values() if _is_of_kind(path, kind)), None)


def _is_of_kind(path: Path, kind: Kind) -> bool:
    try:
        with SqliteDatabase(path, kind.queries, read_only=True) as found, found.read() as tx:
            return kind.read_version(tx) is not None
    except SchemaMismatch:
        return True  # a newer version is still a store
    except Damaged:
        return False


# ---------------------------------------------------------------------- making


def is_own(home: "Home", name: str, path: Path) -> bool:
    """A file of another program gets no backups beside it unless the user named that file."""
    named = {"state": home.config.stores.state}.get(name, "")
    return named is not None or path.is_relative_to(home.paths().data)


def back_up(
    home: "Home",
    name: str,
    target: str | Path | None,
    path: str | Path | None,
    progress: Progress | None = None,
) -> Path:
    """Copy a live store to a checked backup; an existing file is never overwritten."""
    _refuse_server(home, name, path)
    source = home.store_path(name, path)
    with _look(home, name, source) as opened:
        return make_backup(
            opened.database,
            None if target is None else free_name(Path(target), source),
            check=kind_of(name).problems_of,
            progress=progress,
            keep=BackupRetention(home.config.backups.keep_count, home.config.backups.keep_days),
        )


def _refuse_server(home: "Home", name: str, path: str | Path | None) -> None:
    place = home.place(kind_of(name).name, path)
    if is_url(place):
        shown = str(without_password(place))
        url, _, rest = shown.partition("?")
        given = parse_qs(rest)
        named = (given.pop("home", None) or ["main"])[0]
        url = f"{url}?{urlencode(given, doseq=True)}" if given else url
        dump = f"pg_dump --format=custom --schema='tk_{named}*' --file={named}.dump '{url}'"
        msg = f"the {name} store is on a server, where threadkeep makes no backups"
        raise UnsupportedEngine(
            msg, hint=f"this copies the whole home, and pg_restore brings it back: {dump}"
        )


def _look(home: "Home", name: str, path: Path) -> "Store":
    if name == "mailbox":
        return home.mail_index(path)
    if name == "knowledge":
        return home.knowledge(path, read_only=True)
    return (home.chat if name == "chat" else home.state)(path, read_only=True)


def back_up_all(
    home: "Home",
    target: str | Path | None = None,
    path: str | Path | None = None,
    name: str | None = None,
    progress: Progress | None = None,
) -> list[BackupResult]:
    """Copy every store that there is, the named one, or the one in `path`, whatever kind it is.

    One that cannot be copied keeps none of the others from it.
    """
    names = _to_copy(home, path, name)
    if target is not None and len(names) > 1 and not Path(target).is_dir():
        msg = f"{target} is one file, and there are {len(names)} stores: {', '.join(names)}"
        raise Invalid(msg, hint="say which with --store, or give a folder")
    if len(names) == 1:
        return [BackupResult(names[0], back_up(home, names[0], target, path, progress))]
    return [_copied(home, each, target, path, progress) for each in names]


def _to_copy(home: "Home", path: str | Path | None, name: str | None) -> list[str]:
    if name is not None:
        return [name]
    if path is not None:
        return [_need_kind(home, path).name]
    files = {kind: home.file(kind) for kind in KINDS}
    found = [
        kind
        for kind, file in files.items()
        if file is None or (file.is_file() and is_own(home, kind, file))
    ]
    if not found:
        msg = f"there is no store in {home.paths().data}"
        raise NotFound(msg, hint="`threadkeep paths` shows where stores are looked for")
    return found


def _copied(
    home: "Home",
    name: str,
    target: str | Path | None,
    path: str | Path | None,
    progress: Progress | None,
) -> BackupResult:
    try:
        return BackupResult(name, back_up(home, name, target, path, progress))
    except ThreadkeepError as problem:
        return BackupResult(name, problem=problem)


def _need_kind(home: "Home", path: str | Path) -> Kind:
    file = home.chat_path(path)
    need_file(file, "chat")
    found = kind_in(file)
    if found is None:
        msg = f"{file} is not a store that this program knows, or is damaged"
        raise Invalid(msg, hint=f"say what it is with --store: {', '.join(KINDS)}")
    return found


# ---------------------------------------------------------------------- finding


def backups_of(source: Path, name: str = "") -> list[Backup]:
    """List the backups beside a store, newest first."""
    return [_describe(found, source, name) for found in list_backups(source)]


def _describe(backup: Path, source: Path, name: str) -> Backup:
    at, _, rest = backup.stem.removeprefix(f"{source.stem}-").partition("-")
    return Backup(backup, at, rest.partition("-")[2], os.stat(backup).st_size, name)


def list_all(home: "Home", path: str | Path | None, name: str | None) -> list[Backup]:
    """List the backups of a store, of the file in `path`, or of every store, newest first."""
    found = [
        backup
        for store, place in _places(home, path, name).items()
        for backup in backups_of(place, store)
    ]
    now = now_ms()
    return sorted(found, key=lambda one: recency(stamp_time(one.at) or 0, now), reverse=True)


def _places(home: "Home", path: str | Path | None, name: str | None) -> dict[str, Path]:
    if name is not None:
        return {name: home.store_path(name, path)}
    if path is None:
        files = {kind: home.file(kind) for kind in KINDS}
        return {kind: file for kind, file in files.items() if file is not None}
    file = home.chat_path(path)
    kind = kind_in(file) if file.is_file() else None
    return {kind.name if kind else "": file}


def find_backup(
    home: "Home", wanted: str, path: str | Path | None = None, name: str | None = None
) -> Path:
    """Return a backup by its path, by the beginning of its name, or as `last`."""
    if Path(wanted).is_file():
        return Path(wanted)
    known = list_all(home, path, name)
    if wanted == _LAST and known:
        return _last_of(known)
    matching = [one.path for one in known if one.path.name.startswith(wanted)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        msg = f"{len(matching)} backups begin with {wanted!r}"
        raise Invalid(msg, hint="give more of the name, or the whole path")
    for kind in KINDS if path is None and not known else ():
        _refuse_server(home, kind, None)
    folders = sorted({str(backup_folder(place)) for place in _places(home, path, name).values()})
    msg = f"there is no backup {wanted!r}, neither as a path nor in {' or '.join(folders)}"
    raise NotFound(msg, hint=_LIST)


def _last_of(known: list[Backup]) -> Path:
    """The newest of one store; of several stores nobody can know which is meant."""
    stores = list(dict.fromkeys(one.store for one in known))
    if len(stores) > 1:
        msg = f"there are backups of {len(stores)} stores: {', '.join(stores)}"
        raise Invalid(msg, hint=f"say which: `threadkeep restore last --store {stores[0]}`")
    return known[0].path


# ---------------------------------------------------------------------- restoring


def kind_to_restore(home: "Home", backup: Path, name: str | None) -> Kind:
    """Tell which store a backup is of; one of another store than the named one is refused."""
    wanted = None if name is None else kind_of(name)
    if not backup.is_file():
        raise NotFound(f"there is no backup at {backup}", hint=_LIST)
    found = kind_in(backup)
    if found is None:
        return wanted or _listed_kind(home, backup)
    if wanted is not None and found is not wanted:
        msg = f"{backup} is a backup of the {found.name} store, not of the {wanted.name} store"
        raise Invalid(msg, hint=f"leave --store out, or give --store {found.name}")
    return found


def _listed_kind(home: "Home", backup: Path) -> Kind:
    """What cannot be read is at least listed as the backup of some store."""
    for one in list_all(home, None, None):
        if same_file(one.path, backup):
            return KINDS[one.store]
    problems = check_file(backup)
    if problems:  # a damaged file is told as one
        raise Damaged(f"the backup {backup} fails its check: {problems[0]}", hint=_LIST)
    msg = f"{backup} is not a backup of a store"
    raise Invalid(msg, hint=_LIST)


def check_backup(home: "Home", backup: Path, name: str | None = None) -> list[str]:
    """Check a backup row by row without restoring it; give what is wrong with it."""
    return check_file(backup, _restorable(kind_to_restore(home, backup, name)))


def _restorable(kind: Kind) -> Check:
    """Make the check of a backup: one that nobody here could read takes the place of no store."""

    def problems_of(backup: SqliteDatabase) -> list[str]:
        with SqliteDatabase(backup.path, kind.queries, read_only=True) as found, found.read() as tx:
            version = kind.read_version(tx)
        if version is not None and kind.newest is not None and version > kind.newest:
            msg = f"{backup.path} has {kind.name} schema version {version}"
            known = f"this program knows versions up to {kind.newest}"
            raise SchemaMismatch(f"{msg}; {known}", hint="upgrade threadkeep, then restore it")
        return kind.problems_of(backup)

    return problems_of


def restore(
    home: "Home", backup: Path, path: str | Path | None = None, name: str | None = None
) -> Path | None:
    """Put a checked backup in the place of its store; give where the old data went."""
    kind = kind_to_restore(home, backup, name)
    target = restore_target(home, path, kind.name)
    if same_file(backup, target):
        msg = f"{backup} is the store itself, not a backup of it"
        raise Conflict(msg, hint=_LIST)
    return restore_backup(backup, target, check=_restorable(kind))


def restore_target(
    home: "Home", path: str | Path | None, name: str | None, backup: Path | None = None
) -> Path:
    """Return the file that a restore replaces; a sound one that is something else is refused."""
    kind = kind_to_restore(home, backup, name) if backup else kind_of(name or "chat")
    _refuse_server(home, kind.name, path)
    target = home.store_path(kind.name, path)
    if target.is_file() and target.stat().st_size and not _is_of_kind(target, kind):
        _refuse_other(target, kind)
    return target


def _refuse_other(target: Path, kind: Kind) -> None:
    """What is damaged is moved aside whole; an empty database may be replaced."""
    other = kind_in(target)
    if other is None and not _is_used(target):
        return
    whose = f"a {other.name} store" if other else "a database of another program"
    msg = f"{target} is {whose}, not a {kind.name} store, and was left unchanged"
    raise Conflict(msg, hint="restore to another place (--db), or move that file away")


def _is_used(path: Path) -> bool:
    try:
        with SqliteDatabase(path, {}, read_only=True) as found, found.read() as tx:
            return not is_blank(tx)
    except Damaged:
        return False
