"""The state of a home: what its files are like, found out without changing them."""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from threadkeep.base.config import store_path
from threadkeep.base.paths import Paths
from threadkeep.base.processes import is_alive
from threadkeep.base.spool import Spool
from threadkeep.base.sqlite.pragmas import Engine
from threadkeep.base.text import from_sql
from threadkeep.base.tx import Tx
from threadkeep.chat import schema as chat_layout
from threadkeep.chat.records import Json
from threadkeep.chat.store import ChatStore
from threadkeep.errors import ThreadkeepError
from threadkeep.home.backups import Backup, backups_of
from threadkeep.knowledge import schema as knowledge_layout
from threadkeep.knowledge.ledger import ModelUsage, day_of, spent
from threadkeep.mailbox import index_records
from threadkeep.mailbox.index import MailIndex
from threadkeep.state import schema as state_layout
from threadkeep.state.session_db import SessionDB

if TYPE_CHECKING:
    from threadkeep.home.home import Home


class StoreStatus(msgspec.Struct, frozen=True):
    """What a chat store's file is like; `problem` says why it could not be looked into."""

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


class StateStatus(msgspec.Struct, frozen=True):
    """What a state store's file is like; `adopted` tells whether it has our side tables."""

    path: Path
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


class MailStatus(msgspec.Struct, frozen=True):
    """What the index of mailboxes is like, and how many sessions have a mailbox."""

    path: Path
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


class LearningStatus(msgspec.Struct, frozen=True):
    """What was made of what was captured, what waits for it, and what a model used today."""

    nodes: int = 0
    vectors: int = 0
    waiting: int = 0  # tickets of all queues
    failed: int = 0
    model: list[ModelUsage] = []  # the ledger of this day, in UTC


class KnowledgeStatus(msgspec.Struct, frozen=True):
    """What a knowledge store's file is like, and how much was captured into it."""

    path: Path
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


def chat_status(path: Path) -> StoreStatus:
    """Look at a chat store without changing anything."""
    return _status(StoreStatus, path, _look_into_chat)


def state_status(path: Path) -> StateStatus:
    """Look at a state store without changing anything."""
    return _status(StateStatus, path, _look_into_state)


def mail_status(path: Path) -> MailStatus:
    """Look at an index of mailboxes without changing anything."""
    return _status(MailStatus, path, _look_into_mail)


def knowledge_status(path: Path) -> KnowledgeStatus:
    """Look at a knowledge store without changing anything."""
    return _status(KnowledgeStatus, path, _look_into_knowledge)


def _status(kind: type[S], path: Path, look: Callable[[Path], S]) -> S:
    """Look into a store if there is one; what cannot be looked into has a problem."""
    if not path.exists():
        return kind(path=path, exists=False)
    try:
        return look(path)
    except ThreadkeepError as error:
        return kind(path=path, exists=True, bytes=os.stat(path).st_size, problem=str(error))


def _look_into_chat(path: Path) -> StoreStatus:
    backups = backups_of(path)
    with ChatStore.open(path, read_only=True) as store, store.context.db.read() as tx:
        live = [row for row in tx.all("all_recordings") if is_alive(row[3])]
        return StoreStatus(
            path=path,
            exists=True,
            bytes=os.stat(path).st_size,
            wal_bytes=store.context.db.wal.size(),
            schema_version=chat_layout.read_version(tx),
            journal_mode=_journal_mode(tx),
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


def _look_into_state(path: Path) -> StateStatus:
    backups = backups_of(path)
    with SessionDB(path, read_only=True) as store, store.context.db.read() as tx:
        return StateStatus(
            path=path,
            exists=True,
            bytes=os.stat(path).st_size,
            wal_bytes=store.context.db.wal.size(),
            schema_version=state_layout.read_version(tx),
            journal_mode=_journal_mode(tx),
            adopted=store.context.side,
            sessions=int(tx.value("count_sessions")),
            messages=int(tx.value("count_messages", {"session_id": None})),
            backups=len(backups),
            last_backup=backups[0] if backups else None,
        )


def _look_into_mail(path: Path) -> MailStatus:
    backups = backups_of(path)
    with MailIndex.open(path, read_only=True) as index:
        sessions = index.sessions()
        with index.context.db.read() as tx:
            version = index_records.read_version(tx)
        return MailStatus(
            path=path,
            exists=True,
            bytes=os.stat(path).st_size,
            wal_bytes=index.context.db.wal.size(),
            schema_version=version,
            agents=len(index.agent_groups()),
            chats=len(index.messaging_groups()),
            sessions=len(sessions),
            active=sum(one.status == "active" for one in sessions),
            backups=len(backups),
            last_backup=backups[0] if backups else None,
        )


def _look_into_knowledge(path: Path) -> KnowledgeStatus:
    from threadkeep.knowledge.copies import copies_by_harness
    from threadkeep.knowledge.store import KnowledgeStore

    backups = backups_of(path)
    with KnowledgeStore.open(path, read_only=True) as store, store.context.db.read() as tx:
        # A file that only Hippo wrote has no such table.
        captured = "tk_sessions" in knowledge_layout.names(tx, "table")
        totals = tx.all("session_totals") if captured else []
        copies = sum(copies_by_harness(tx).values())
        return KnowledgeStatus(
            path=path,
            exists=True,
            bytes=os.stat(path).st_size,
            wal_bytes=store.context.db.wal.size(),
            schema_version=knowledge_layout.read_version(tx),
            writable=store.access.finding.writable,
            sessions=sum(int(row[1]) for row in totals),
            messages=sum(int(row[2]) for row in totals) - copies,
            learned=_learned(tx, store.context.clock()),
            backups=len(backups),
            last_backup=backups[0] if backups else None,
        )


def _learned(tx: Tx, now: int) -> LearningStatus:
    from threadkeep.knowledge.queues import depths

    tables = knowledge_layout.names(tx, "table")
    vectors = tx.all("count_vectors") if "tk_vectors" in tables else []
    states = Counter[str]()
    for depth in depths(tx).values():
        states.update(depth)
    return LearningStatus(
        nodes=int(tx.execute("SELECT count(*) FROM knowledge_nodes").fetchone()[0]),
        vectors=sum(int(row[1]) for row in vectors),
        waiting=states["pending"] + states["processing"],
        failed=states["failed"],
        model=spent(tx, day_of(now)),
    )


def _journal_mode(tx: Tx) -> str:
    return str(tx.execute("PRAGMA journal_mode").fetchone()[0])


# ------------------------------------------------------------------------------
# Where reports lie until they are collected, and how many do; loads nothing of what collects.

FALLBACK: Final = "fallback"  # where Hippo's programs leave what they cannot deliver
_SPOOL: Final = "spool"
_SOCKET: Final = "daemon.sock"


def spool_folder(home: "Home") -> Path:
    """Give the folder of a home in which reports lie until they are collected."""
    return home.paths().data / _SPOOL


def socket_path(home: "Home") -> Path:
    """Give the place where a home listens for reports."""
    named = home.config.socket.path
    if named is None:
        return home.paths().data / _SOCKET
    return store_path(named, home.paths().config, home.environ)


def fallback_folders(home: "Home", store: Path) -> tuple[Path, ...]:
    """Give where Hippo's programs leave what they cannot deliver: by the store, by the socket."""
    return tuple(dict.fromkeys(near.parent / FALLBACK for near in (store, socket_path(home))))


def reports_waiting(home: "Home", path: str | Path | None = None) -> int:
    """Count the files that wait to be collected: in the spool, and where Hippo leaves them."""
    folders = (spool_folder(home), *fallback_folders(home, home.knowledge_path(path)))
    return sum(len(Spool(folder).waiting()) for folder in folders)
