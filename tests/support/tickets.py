"""Rows that wait for enrichment, each with its ticket, put straight into the contract's tables."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from threadkeep.base.tx import Sql, Tx
from threadkeep.knowledge.kinds import Queue
from threadkeep.knowledge.queues import QUEUES
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.testing import StoreFactory

Factory = StoreFactory[KnowledgeStore]
NOW = 1_800_000_000_000
LONG_AGO = NOW - 86_400_000
TARGETS = {queue: table.target for queue, table in QUEUES.items()}


class _EnoughError(Exception):
    """Ends a transaction without a trace."""


@contextmanager
def undone(store: KnowledgeStore) -> Iterator[Tx]:
    """Write in a file, and leave it as it was: fifty times as quick as a fresh file."""
    with suppress(_EnoughError), store.context.db.write() as tx:
        yield tx
        raise _EnoughError


def insert(tx: Tx, table: str, **values: Any) -> int:
    return tx.insert(_insert(table, values), values)


def put(tx: Tx, table: str, **values: Any) -> None:
    """Add a row that has no number."""
    tx.run(_insert(table, values), values)


def _insert(table: str, values: dict[str, Any]) -> Sql:
    columns, given = ", ".join(values), ", ".join(f":{name}" for name in values)
    return Sql(f"INSERT INTO {table} ({columns}) VALUES ({given})")


def add_event(tx: Tx, *, session: int = 1, at: int = LONG_AGO, **values: Any) -> int:
    tx.run(
        Sql(
            "INSERT INTO sessions (id, start_time, shell, hostname, username, created_at)"
            " VALUES (:id, 1, 'zsh', 'vm', 'me', 1) ON CONFLICT DO NOTHING"
        ),
        {"id": session},
    )
    given = {"command": "make", "duration_ms": 500, "cwd": "/home/me/app", **values}
    fixed = {"session_id": session, "timestamp": at, "hostname": "vm", "shell": "zsh"}
    return insert(tx, "events", created_at=at, **fixed, **given)


def add_segment(tx: Tx, *, at: int = LONG_AGO, **values: Any) -> int:
    number = int(tx.value(Sql("SELECT count(*) FROM agentic_sessions")))
    given = {
        "session_id": f"s{number}",
        "harness": "codex",
        "project_dir": "app",
        "cwd": "/home/me/app",
        "summary_text": "asked and done",
        "message_count": 5,
        "content_hash": f"hash {number}",
        "start_time": at,
        "end_time": at + 1000,
        **values,
    }
    return insert(tx, "agentic_sessions", created_at=at, **given)


def add_visit(tx: Tx, *, at: int = LONG_AGO, **values: Any) -> int:
    given = {"url": "https://example.org/", "domain": "example.org", "dwell_ms": 5000, **values}
    return insert(tx, "browser_events", timestamp=at, created_at=at, **given)


def add_run(tx: Tx, run: int = 900, *, at: int = LONG_AGO, **values: Any) -> int:
    given = {
        "repo": "me/app",
        "head_sha": "a" * 40,
        "event": "push",
        "status": "completed",
        "conclusion": "failure",
        "html_url": "https://example.org/run",
        "raw_json": "{}",
        "started_at": at,
        **values,
    }
    return insert(tx, "workflow_runs", id=run, first_seen_at=at, last_seen_at=at, **given)


def add_revision(tx: Tx, *, at: int = LONG_AGO, **values: Any) -> int:
    """Add the only revision of a document."""
    number = int(tx.value(Sql("SELECT count(*) FROM memory_documents")))
    repository = "hippo/__hippo_probe__" if values.pop("probe_tag", None) else "me/app"
    names = {"logical_path": f"note_{number}.md", "source_path": f"/m/note_{number}.md"}
    times = {"observed_at": at, "created_at": at, "updated_at": at}
    document = insert(
        tx, "memory_documents", uuid=f"u{number}", repository=repository, **names, **times
    )
    given = {"revision_number": 1, "content_hash": "h", "source_hash": "h", "created_at": at}
    file = {"source_mtime_ms": at, "source_size": 1, "chunker_name": "markdown-headings"}
    revision = insert(tx, "memory_revisions", document_id=document, **given, **file, **values)
    sql = "UPDATE memory_documents SET current_revision_id = :revision WHERE id = :id"
    tx.run(Sql(sql), {"revision": revision, "id": document})
    return revision


def add_row(tx: Tx, queue: Queue, **values: Any) -> int:
    """Add a row of the kind that a queue is for."""
    if queue == "shell":
        return add_event(tx, **values)
    if queue == "agentic":
        return add_segment(tx, **values)
    if queue == "browser":
        return add_visit(tx, **values)
    if queue == "memory":
        return add_revision(tx, **values)
    runs = int(tx.value(Sql("SELECT count(*) FROM workflow_runs")))
    return add_run(tx, 900 + runs, **values)


def add_ticket(tx: Tx, queue: Queue, target: int, *, at: int = LONG_AGO, **values: Any) -> int:
    table = QUEUES[queue]
    times = {table.since: at, "updated_at": at}
    return insert(tx, table.name, **{table.target: target}, **times, **values)


def waiting(tx: Tx, queue: Queue, **values: Any) -> int:
    """Add a row and its ticket; give the row's number."""
    target = add_row(tx, queue, **values)
    add_ticket(tx, queue, target)
    return target


def ticket_row(tx: Tx, queue: Queue, target: int) -> dict[str, Any]:
    """Return a ticket as it is stored."""
    table = QUEUES[queue]
    sql = f"SELECT * FROM {table.name} WHERE {table.target} = :target"
    return tx.dicts(Sql(sql), {"target": target})[0]


def status_of(tx: Tx, queue: Queue, target: int) -> str:
    return str(ticket_row(tx, queue, target)["status"])


def column(tx: Tx, sql: str, **params: Any) -> list[Any]:
    return [row[0] for row in tx.all(Sql(sql), params)]
