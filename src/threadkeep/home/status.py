"""The state of a home: what its files are like, found out without changing them."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec.structs import asdict

from threadkeep.base.database import Database
from threadkeep.base.engines import Place, is_url, store_size, without_password
from threadkeep.base.paths import Paths
from threadkeep.base.sqlite.pragmas import Engine
from threadkeep.base.sqlite.upkeep import sqlite_file
from threadkeep.chat.records import Json
from threadkeep.chat.store import ChatStore
from threadkeep.errors import NoStore, ThreadkeepError
from threadkeep.home.backups import Backup, backups_of
from threadkeep.knowledge.checks import LearningStatus
from threadkeep.mailbox.index import MailIndex
from threadkeep.state.session_db import SessionDB

if TYPE_CHECKING:
    pass


class StoreStatus(msgspec.Struct, frozen=True):
    """What a chat store's file is like; `problem` says why it could not be looked into."""

    path: Path | None  # of a store on a server there is none
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
    url: str = ""  # where it is, if it is on a server


class StateStatus(msgspec.Struct, frozen=True):
    """What a state store's file is like; `adopted` tells whether it has our side tables."""

    path: Path | None  # of a store on a server there is none
    exists: bool
    bytes: int = 0
    wal_bytes: int = 0
    schema_version: int | None = None
    journal_mode: str = ""
    adopted: bool = False
    sessions: int = 0
    messages: int = 0
    backups: int = 0
    last_backup: Backup | None = None
    problem: str = ""
    url: str = ""  # where it is, if it is on a server


class MailStatus(msgspec.Struct, frozen=True):
    """What the index of mailboxes is like, and how many sessions have a mailbox."""

    path: Path | None  # of a store on a server there is none
    exists: bool
    bytes: int = 0
    wal_bytes: int = 0
    schema_version: int | None = None
    agents: int = 0
    chats: int = 0
    sessions: int = 0
    active: int = 0
    backups: int = 0
    last_backup: Backup | None = None
    problem: str = ""
    url: str = ""  # where it is, if it is on a server


class KnowledgeStatus(msgspec.Struct, frozen=True):
    """What a knowledge store's file is like, and how much was captured into it."""

    path: Path | None  # of a store on a server there is none
    exists: bool
    bytes: int = 0
    wal_bytes: int = 0
    schema_version: int | None = None
    writable: bool = False
    sessions: int = 0
    messages: int = 0
    learned: LearningStatus = LearningStatus()
    backups: int = 0
    last_backup: Backup | None = None
    problem: str = ""
    url: str = ""  # where it is, if it is on a server


S = TypeVar("S", StoreStatus, StateStatus, MailStatus, KnowledgeStatus)


class Status(msgspec.Struct, frozen=True):
    """The state of a home."""

    paths: Paths
    config_exists: bool
    sqlite: Engine
    chat: StoreStatus
    state: StateStatus
    mailbox: MailStatus
    knowledge: KnowledgeStatus


def chat_status(path: Place) -> StoreStatus:
    """Look at a chat store without changing anything."""
    return _status(StoreStatus, path, _look_into_chat)


def state_status(path: Place) -> StateStatus:
    """Look at a state store without changing anything."""
    return _status(StateStatus, path, _look_into_state)


def mail_status(path: Place) -> MailStatus:
    """Look at an index of mailboxes without changing anything."""
    return _status(MailStatus, path, _look_into_mail)


def knowledge_status(path: Place) -> KnowledgeStatus:
    """Look at a knowledge store without changing anything."""
    return _status(KnowledgeStatus, path, _look_into_knowledge)


def _status(kind: type[S], path: Place, look: Callable[[Place], S]) -> S:
    """Look into a store if there is one; what cannot be read has a problem."""
    file = None if is_url(path) else Path(path)
    url = "" if file is not None else str(without_password(path))
    if file is not None and not file.exists():
        return kind(path=file, exists=False)
    try:
        return look(path)
    except NoStore:
        return kind(path=file, exists=False, url=url)
    except ThreadkeepError as error:
        size = 0 if file is None else os.stat(file).st_size
        return kind(path=file, exists=True, bytes=size, problem=str(error), url=url)


def _file(path: Place, database: Database) -> dict[str, Any]:
    """Tell what every store's file is like, and how many backups it has."""
    if is_url(path):
        with database.read() as tx:
            size = store_size(database, tx).bytes
        return {"path": None, "exists": True, "bytes": size, "url": database.name}
    path = Path(path)
    backups = backups_of(path)
    return {
        "path": path,
        "exists": True,
        "bytes": os.stat(path).st_size,
        "wal_bytes": sqlite_file(database).wal.size(),
        "backups": len(backups),
        "last_backup": backups[0] if backups else None,
    }


def _look_into_chat(path: Place) -> StoreStatus:

    with ChatStore.open(path, read_only=True) as store:
        return StoreStatus(**_file(path, store.database), **asdict(store.facts()))


def _look_into_state(path: Place) -> StateStatus:

    with SessionDB(path, read_only=True) as store:
        return StateStatus(**_file(path, store.database), **store.facts()._asdict())


def _look_into_mail(path: Place) -> MailStatus:

    with MailIndex.open(path, read_only=True) as index:
        sessions = index.sessions()
        return MailStatus(
            **_file(path, index.database),
            schema_version=index.version,
            agents=len(index.agent_groups()),
            chats=len(index.messaging_groups()),
            sessions=len(sessions),
            active=sum(one.status == "active" for one in sessions),
        )


def _look_into_knowledge(path: Place) -> KnowledgeStatus:
    from threadkeep.knowledge.store import KnowledgeStore

    with KnowledgeStore.open(path, read_only=True) as store:
        return KnowledgeStatus(
            **_file(path, store.database),
            writable=store.access.finding.writable,
            **asdict(store.facts()),
        )
