"""KnowledgeStore: what agents, shells, browsers and CI did, in one file; one line for each verb."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Self

from threadkeep.base.backup import BackupRetention, Progress, make_backup
from threadkeep.base.clock import Clock, now_ms
from threadkeep.base.database import DEFAULT_BUDGET
from threadkeep.base.sql import load_queries
from threadkeep.base.tx import Tx
from threadkeep.base.verbs import reads
from threadkeep.knowledge import (
    command_list as events_,
    health as health_,
    sessions as reading_,
    spending as spending_,
)
from threadkeep.knowledge.opening import Access, KnowledgeContext, open_knowledge
from threadkeep.knowledge.schema import SCHEMA_VERSION

QUERIES = load_queries(
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
    def access(self) -> Access:
        """What may be done with this file, and why not more."""
        return self.context.access

    def read(self, *, lenient: bool = False) -> AbstractContextManager[Tx]:
        """Give a snapshot, for functions of this package that take `tx` first."""
        return self.context.db.read(lenient=lenient)

    def write(
        self, *, durable: bool = True, budget: float | None = None
    ) -> AbstractContextManager[Tx]:
        """Give the one write transaction there is at a time, for the same functions."""
        return self.context.db.write(durable=durable, budget=budget)

    list_sessions = reads(reading_.list_sessions)
    find_session = reads(reading_.find_session)
    children_of = reads(reading_.children_of)
    links_of = reads(reading_.links_of)
    entries_of = reads(reading_.entries_of)
    search_rows = reads(reading_.search_rows)
    spending = reads(spending_.spending)
    list_events = reads(events_.list_events)
    list_shell_sessions = reads(events_.list_shell_sessions)
    list_visits = reads(events_.list_visits)
    list_entities = reads(events_.list_entities)
    count_today = reads(events_.count_today)
    health = reads(health_.all_health)
    drops = reads(health_.all_drops)

    def backup(
        self,
        target: Path | None = None,
        *,
        reason: str = "manual",
        progress: Progress | None = None,
        keep: BackupRetention | None = None,
    ) -> Path:
        """Copy the store to a new file while others go on working, and check the copy."""
        return make_backup(self.context.db, target, reason=reason, progress=progress, keep=keep)

    def close(self) -> None:
        """Close the file."""
        self.context.db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
