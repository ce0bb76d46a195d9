"""Backups of any store: which kinds there are, how one is found, described and judged."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from threadkeep.base.backup import Check, backup_folder, list_backups
from threadkeep.base.checks import sqlite_problems
from threadkeep.base.sqlite import Database, Tx
from threadkeep.chat import layout as chat_layout, verify as chat_verify
from threadkeep.errors import Conflict, Damaged, Invalid, NotFound, SchemaMismatch
from threadkeep.knowledge import layout as knowledge_layout
from threadkeep.mailbox import index_layout
from threadkeep.state import check as state_check, layout as state_layout

_LAST = "last"


class Backup(msgspec.Struct, frozen=True):
    """One backup of a store: where it is, when and why it was made."""

    path: Path
    at: str
    reason: str
    bytes: int


class Kind(NamedTuple):
    """How a kind of store is recognised and checked."""

    name: str
    queries: Mapping[str, str]
    read_version: Callable[[Tx], int | None]
    problems_of: Check


def _index_problems(database: Database) -> list[str]:
    with database.read() as tx:
        return sqlite_problems(tx)


KINDS: Final = {
    kind.name: kind
    for kind in (
        Kind("chat", chat_layout.QUERIES, chat_layout.read_version, chat_verify.problems_of),
        Kind("state", state_layout.QUERIES, state_layout.read_version, state_check.problems_of),
        # The index alone: the folders of the sessions are the mail itself.
        Kind("mailbox", index_layout.QUERIES, index_layout.read_version, _index_problems),
        Kind("knowledge", {}, knowledge_layout.read_version, _index_problems),
    )
}


def kind_of(name: str) -> Kind:
    """Give a kind of store by its name."""
    if name not in KINDS:
        raise Invalid(f"there is no store {name!r}", hint=f"the stores are {', '.join(KINDS)}")
    return KINDS[name]


def backups_of(source: Path) -> list[Backup]:
    """List the backups beside a store, newest first."""
    return [_describe(found, source) for found in list_backups(source)]


def _describe(backup: Path, source: Path) -> Backup:
    at, _, rest = backup.stem.removeprefix(f"{source.stem}-").partition("-")
    return Backup(backup, at, rest.partition("-")[2], os.stat(backup).st_size)


def find_backup(source: Path, name: str) -> Path:
    """Give a backup by its path, by the beginning of its name, or as `last`."""
    if Path(name).is_file():
        return Path(name)
    known = [backup.path for backup in backups_of(source)]
    if name == _LAST and known:
        return known[0]
    matching = [found for found in known if found.name.startswith(name)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        msg = f"{len(matching)} backups begin with {name!r}"
        raise Invalid(msg, hint="give more of the name, or the whole path")
    msg = f"there is no backup {name!r}, neither as a path nor in {backup_folder(source)}"
    raise NotFound(msg, hint="`threadkeep backup --list` shows the backups")


def refuse_foreign(target: Path, kind: Kind) -> None:
    """Refuse to replace the sound database of another program."""
    if target.is_file() and target.stat().st_size and _is_foreign(target, kind):
        msg = f"{target} is a database of another program and was left as it is"
        raise Conflict(msg, hint="restore to another place (--db), or move that file away")


def _is_foreign(path: Path, kind: Kind) -> bool:
    """Tell whether a sound database holds something, but nothing of this kind."""
    try:
        with Database(path, kind.queries, read_only=True) as found, found.read() as tx:
            used = tx.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is not None
            return used and kind.read_version(tx) is None
    except (Damaged, SchemaMismatch):
        return False  # what is damaged is moved aside whole; a newer version is still a store
