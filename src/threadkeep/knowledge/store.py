"""KnowledgeStore: what agents, shells, browsers and CI did, in one file; one line for each verb."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from threadkeep.base.clock import Clock, now_ms
from threadkeep.base.database import DEFAULT_BUDGET, Database
from threadkeep.base.sql import load_queries
from threadkeep.base.tx import Tx
from threadkeep.base.verbs import Later, loaded_later, show_as_method
from threadkeep.knowledge.kinds import QueriesOfKinds
from threadkeep.knowledge.opening import Access, KnowledgeContext, open_knowledge, refuse_write
from threadkeep.knowledge.schema import SCHEMA_VERSION

if TYPE_CHECKING:
    from threadkeep.base.sqlite.backup import BackupRetention, Progress
    from threadkeep.knowledge import (
        command_list as events_,
        health as health_,
        session_list as listing_,
        sessions as reading_,
        usage as usage_,
    )
    from threadkeep.knowledge.checks import KnowledgeFacts
else:
    events_ = Later(f"{__package__}.command_list")
    health_ = Later(f"{__package__}.health")
    listing_ = Later(f"{__package__}.session_list")
    reading_ = Later(f"{__package__}.sessions")
    usage_ = Later(f"{__package__}.usage")

QUERIES = QueriesOfKinds(
    load_queries(
        __package__,
        *("queries.sql", "forget.sql", "observed.sql", "workflows.sql", "tickets.sql", "nodes.sql"),
        *("recall.sql", "vectors.sql", "model.sql", "alarms.sql", "failures.sql", "service.sql"),
        "evidence.sql",
        "memory_views.sql",
        "browse.sql",
        "agent_views.sql",
        "tail.sql",
        "memory.sql",
    )
)


P = ParamSpec("P")
R = TypeVar("R")


@loaded_later
def reads(function: Callable[Concatenate[Tx, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Make a verb of a function that takes `tx` first: it runs in one snapshot."""

    @wraps(function)
    def verb(store: "KnowledgeStore", /, *args: P.args, **kwargs: P.kwargs) -> R:
        with store.read() as tx:
            return function(tx, *args, **kwargs)

    show_as_method(verb, function, given=1)
    return verb


class KnowledgeStore:
    """A knowledge file: the contract's tables, and the archive of everything captured."""

    def __init__(self, context: KnowledgeContext) -> None:
        self.context = context

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        read_only: bool = False,
        schema: int = SCHEMA_VERSION,
        timeout: float = DEFAULT_BUDGET,
        clock: Clock = now_ms,
    ) -> Self:
        """Open a file, create it, or bring an older one up to `schema`; look at a newer one."""
        opened = open_knowledge(
            path, QUERIES, read_only=read_only, schema=schema, budget=timeout, clock=clock
        )
        return cls(KnowledgeContext(opened.database, opened.access, clock))

    @property
    def database(self) -> Database:
        """The file as a whole: where it is, whether it changed, its copies; no tables."""
        return self.context.db

    @property
    def access(self) -> Access:
        """What may be done with this file, and why not more."""
        return self.context.access

    @property
    def clock(self) -> Clock:
        """What tells the time, in epoch milliseconds."""
        return self.context.clock

    @property
    def path(self) -> Path:
        """The file, by the name it was opened by."""
        return self.context.db.path

    @property
    def file(self) -> Path:
        """The file itself, behind whatever links lead to it."""
        return self.context.db.file

    def read(self, *, lenient: bool = False) -> AbstractContextManager[Tx]:
        """Give a snapshot, for functions of this package that take `tx` first."""
        return self.context.db.read(lenient=lenient)

    def write(
        self, *, durable: bool = True, budget: float | None = None, foreign_keys: bool = True
    ) -> AbstractContextManager[Tx]:
        """Give the one write transaction there is at a time, for the same functions."""
        return self.context.db.write(durable=durable, budget=budget, foreign_keys=foreign_keys)

    sessions = reads(listing_.list_sessions)
    missing_words = reads(listing_.missing_words)
    find_session = reads(reading_.find_session)
    children_of = reads(reading_.children_of)
    links_of = reads(reading_.links_of)
    entries_of = reads(reading_.entries_of)
    search_rows = reads(reading_.search_rows)
    usage = reads(usage_.usage_of)
    spent_in = reads(usage_.spent_in)
    list_events = reads(events_.list_events)
    list_shell_sessions = reads(events_.list_shell_sessions)
    list_visits = reads(events_.list_visits)
    list_entities = reads(events_.list_entities)
    count_today = reads(events_.count_today)
    health = reads(health_.all_health)
    drops = reads(health_.all_drops)
    alarms = reads(health_.list_alarms)

    def index(
        self,
        limit: int | None = None,
        *,
        budget: float | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> int:
        """Index what is new or has changed, at most `limit` rows; give how many were.

        Whoever writes does this behind it, so that a question only reads.
        """
        from threadkeep.knowledge import search_index as index_  # noqa: PLC0415  (not for lists)

        done, some = 0, 1
        while some and self.access.writable and (limit is None or done < limit):
            if stop is not None and stop():
                break
            with self.read() as tx:
                if not index_.is_behind(tx):
                    break
            room = index_.BATCH if limit is None else min(index_.BATCH, limit - done)
            with self.write(durable=False, budget=budget) as tx:
                some = index_.index_things(tx, room)
            done += some
        return done

    def facts(self) -> "KnowledgeFacts":
        """Tell how much was captured into the file, and what was made of it."""
        from threadkeep.knowledge.checks import facts  # noqa: PLC0415  (for `status` alone)

        with self.read() as tx:
            return facts(tx, self.clock())

    def acknowledge(self, number: int, note: str | None = None) -> "health_.Alarm":
        """Note that a person has seen an alarm; done again, the first note stays."""
        from threadkeep.knowledge.health import ack_alarm  # noqa: PLC0415  (few have alarms)

        refuse_write(self.access)
        with self.write() as tx:
            return ack_alarm(tx, number, self.clock(), note)

    def put_away(self) -> int:
        """Put away the alarms that went away by themselves; give how many."""
        from threadkeep.knowledge.health import prune_alarms  # noqa: PLC0415

        refuse_write(self.access)
        with self.write() as tx:
            return prune_alarms(tx, self.clock())

    def backup(
        self,
        target: Path | None = None,
        *,
        reason: str = "manual",
        progress: "Progress | None" = None,
        keep: "BackupRetention | None" = None,
    ) -> Path:
        """Copy the store to a new file while others go on working, and check the copy."""
        from threadkeep.base.sqlite.backup import make_backup  # noqa: PLC0415  (loaded when it is used)

        return make_backup(self.context.db, target, reason=reason, progress=progress, keep=keep)

    def vacuum(self) -> None:
        """Write the file anew, without free pages and what they held."""
        self.context.db.vacuum()

    def truncate_log(self) -> bool:
        """Empty the write-ahead log into the file; False if a reader is in the way."""
        return self.context.db.truncate_log()

    def unlock_vectors(self) -> bool:
        """Make the contract's vectors writable, where a file has some; tell whether they are."""
        from threadkeep.knowledge.vectors import unlock  # noqa: PLC0415  (few need vectors)

        return unlock(self.context.db)

    def close(self) -> None:
        """Close the file."""
        self.context.db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
