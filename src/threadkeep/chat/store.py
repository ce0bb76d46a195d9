"""ChatStore: sessions, messages and parts in the AI SDK's shape, in one file or on a server.

Every verb is one function in a module of this package; here they come together. A verb that
writes is one transaction, durable when it returns; the recorder says for itself when a chunk is.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Self

from threadkeep.base.clock import Clock, now_ms
from threadkeep.base.database import DEFAULT_BUDGET, Database
from threadkeep.base.engines import Place, open_database, prepare
from threadkeep.base.ids import IdSource
from threadkeep.base.sqlite.backup import BackupRetention, Progress, make_backup
from threadkeep.base.sqlite.schema import refuse_newer
from threadkeep.base.sqlite.upkeep import sqlite_file
from threadkeep.base.text import Redact
from threadkeep.base.verbs import Later, calls, reads, writes
from threadkeep.chat import (
    eventlog,
    history,
    messages as turns,
    recorder,
    recovery,
    recovery as orphans,
    runs as runs_,
    schema as verify_,
    search as search_,
    sessions as lookup,
    sessions as retention,
    sessions as sessions_,
    tail as tail_,
    usage,
    usage as timeline_,
)
from threadkeep.chat.context import PART_LIMIT, ChatContext
from threadkeep.chat.records import session_key
from threadkeep.chat.schema import SCHEMA, TUNING, queries, read_version
from threadkeep.errors import Invalid

if TYPE_CHECKING:
    from threadkeep.chat import diff as diff_, transfer
else:  # few commands compare, export or import
    diff_, transfer = Later("threadkeep.chat.diff"), Later("threadkeep.chat.transfer")


class ChatStore:
    """Agent conversations, recorded chunk by chunk so that a crash loses nothing."""

    def __init__(self, context: ChatContext) -> None:
        """Use `ChatStore.open`."""
        self.context = context

    @classmethod
    def open(
        cls,
        path: Place,
        *,
        read_only: bool = False,
        event_log: bool | None = None,
        redact: Redact | None = None,
        budget: float = DEFAULT_BUDGET,
        part_limit: int = PART_LIMIT,
        clock: Clock = now_ms,
        ids: IdSource | None = None,
    ) -> Self:
        """Open a chat store by its path or URL, create it if it is missing, or bring it up.

        What a crashed recorder left is folded in. `event_log` None keeps the file's setting.
        `redact` sees every text before it is stored. `budget` is how long a write may wait.
        """
        database = open_database(
            path, "chat", queries, budget=budget, read_only=read_only, tuning=TUNING
        )
        store = cls(ChatContext(database, clock, ids or IdSource(clock), redact, part_limit))
        try:
            if read_only and database.engine == "sqlite":
                store._check_readable()
            elif read_only:
                prepare(database, SCHEMA)
            else:
                prepare(database, SCHEMA, store._backup_before_upgrade)
                recovery.settle_when_possible(store.context)
                if event_log is not None:
                    eventlog.switch(store.context, on=event_log)
        except BaseException:
            database.close()
            raise
        return store

    def _check_readable(self) -> None:
        with self.context.db.read() as tx:
            version = read_version(tx)
        if not version:
            msg = f"{self.context.db.name} is not a chat store, or one that must be migrated first"
            raise Invalid(msg, hint="open it for writing; `threadkeep chat verify --adopt` does")
        refuse_newer(self.context.db, SCHEMA, version)

    def _backup_before_upgrade(self, reason: str) -> None:
        make_backup(self.context.db, reason=reason, clock=self.context.clock)

    @property
    def path(self) -> Path:
        """The file of the store."""
        return sqlite_file(self.context.db).path

    @property
    def database(self) -> Database:
        """The file as a whole: whether it changed, its size, its copies; no tables."""
        return self.context.db

    facts = reads(verify_.facts)

    def close(self) -> None:
        """Close the store; recorders still open keep what they have stored."""
        self.context.db.close()

    def __enter__(self) -> Self:
        """Use the store in a `with` block, which closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the store."""
        self.close()

    def backup(
        self,
        target: str | Path | None = None,
        *,
        reason: str = "manual",
        progress: Progress | None = None,
        keep: BackupRetention | None = None,
    ) -> Path:
        """Copy the live store to a backup file, and check the copy row by row."""
        return make_backup(
            self.context.db,
            None if target is None else Path(target),
            reason=reason,
            check=verify_.problems_of,
            progress=progress,
            keep=keep,
            clock=self.context.clock,
        )

    # sessions
    create_session = writes(sessions_.create_session)
    session = reads(sessions_.get_session)
    sessions = reads(sessions_.list_sessions)
    set_title = writes(sessions_.set_title)
    set_metadata = writes(sessions_.set_metadata)
    set_permissions = writes(sessions_.set_permissions)
    change = writes(sessions_.change)
    archive = writes(sessions_.archive)
    unarchive = writes(sessions_.unarchive)
    delete = writes(sessions_.delete_session)

    # messages
    say = writes(turns.say, key=session_key)
    put_message = writes(turns.put_message, key=session_key)
    ui_messages = reads(turns.ui_messages)
    messages = reads(turns.message_page)
    message = reads(turns.ui_message)
    timeline = reads(timeline_.timeline)
    find_session = reads(lookup.find_session)
    find_message = reads(lookup.find_message)
    search = calls(search_.search)

    # streams
    record = calls(recorder.record)
    tail = calls(tail_.tail)
    read_tail = calls(tail_.read_events)
    journal = calls(tail_.journal_page)
    record_usage = writes(usage.record_usage, key=session_key)
    spend = reads(usage.spend)
    repair_orphans = writes(orphans.repair_orphans)

    # history
    rewind = writes(history.rewind)
    unrewind = writes(history.unrewind)
    fork = writes(history.fork)
    compact = writes(history.compact)

    # the queue of pending turns
    enqueue = writes(turns.enqueue)
    queued = reads(turns.queued)
    fire = writes(turns.fire)
    unfire = writes(turns.unfire)
    cancel = writes(turns.cancel)

    # permissions, runs, prompts
    judge = calls(runs_.judge)
    runs = reads(runs_.session_runs)
    put_system_prompt = writes(runs_.put_system_prompt)
    system_prompt = reads(runs_.get_system_prompt)

    # out, in, and side by side
    export = calls(transfer.export)
    export_all = calls(transfer.export_all)
    import_sessions = calls(transfer.import_sessions)
    diff = reads(diff_.diff)

    # care
    verify = calls(verify_.verify)
    size = calls(retention.size_report)
    prune = calls(retention.prune)
    vacuum = calls(retention.vacuum)
    reindex = calls(search_.reindex)
    rebuild = calls(eventlog.rebuild)
    compact_log = calls(eventlog.compact_log)
