"""Rows as the programs of the contract write them: the fewest columns that make a whole row."""

from typing import Any, NamedTuple

from threadkeep.testing.clock import NOON
from threadkeep.testing.factories import KnowledgeFactory

Factory = KnowledgeFactory
Row = dict[str, Any]


class QueuedKind(NamedTuple):
    """What is enriched: its table, its queue, the links of nodes to it, and how both name it."""

    table: str
    queue: str
    queued: str
    links: str
    linked: str


KINDS = {
    "shell": QueuedKind(
        "events", "enrichment_queue", "event_id", "knowledge_node_events", "event_id"
    ),
    "agentic": QueuedKind(
        "agentic_sessions",
        "agentic_enrichment_queue",
        "session_id",
        "knowledge_node_agentic_sessions",
        "agentic_session_id",
    ),
    "browser": QueuedKind(
        "browser_events",
        "browser_enrichment_queue",
        "browser_event_id",
        "knowledge_node_browser_events",
        "browser_event_id",
    ),
    "workflow": QueuedKind(
        "workflow_runs",
        "workflow_enrichment_queue",
        "run_id",
        "knowledge_node_workflow_runs",
        "run_id",
    ),
}


class RowWriter:
    """A program that writes to one store: each method adds a row and gives its number."""

    def __init__(self, factory: Factory, store: Any = None) -> None:
        self.factory = factory
        self.store = store or factory.open()

    def insert(self, table: str, **values: Any) -> int:
        """Add any row."""
        return self.factory.insert(self.store, table, **values)

    def table(self, name: str) -> list[Row]:
        """Return the rows of a table in the order of their numbers."""
        found = self.factory.rows(self.store, f"SELECT * FROM {name}")  # noqa: S608
        return sorted(found, key=lambda row: row.get("id") or 0)

    def session(self) -> int:
        """Add a session of a shell."""
        who = {"shell": "zsh", "hostname": "vm", "username": "me"}
        return self.insert("sessions", **who, start_time=NOON, created_at=NOON)

    def event(self, **values: Any) -> int:
        """Add a command of a session of its own."""
        session = values.pop("session_id", None) or self.session()
        given = {"command": "make", "duration_ms": 500, "cwd": "/home/me/app", **values}
        where = {"hostname": "vm", "shell": "zsh", "timestamp": NOON, "created_at": NOON}
        return self.insert("events", session_id=session, **where, **given)

    def segment(self, session_id: str = "s1", **values: Any) -> int:
        """Add a slice of a conversation with an agent."""
        times = {"start_time": NOON, "end_time": NOON + 1000, "created_at": NOON}
        given = {"harness": "codex", "project_dir": "app", "cwd": "/home/me/app", **values}
        said = {"summary_text": "asked and done", "message_count": 2}
        return self.insert("agentic_sessions", session_id=session_id, **times, **said, **given)

    def visit(self, **values: Any) -> int:
        """Add a web page that was read."""
        given = {"url": "https://example.org/", "domain": "example.org", "dwell_ms": 5000}
        times = {"timestamp": NOON, "created_at": NOON}
        return self.insert("browser_events", **times, **given, **values)

    def run(self, number: int = 900, **values: Any) -> int:
        """Add a run of CI."""
        given = {"repo": "me/app", "head_sha": "a" * 40, "event": "push", "status": "completed"}
        more = {"html_url": "https://example.org/run", "raw_json": "{}"}
        times = {"first_seen_at": NOON, "last_seen_at": NOON}
        return self.insert("workflow_runs", id=number, **given, **more, **times, **values)

    def of_kind(self, kind: str) -> int:
        """Add a row of what a queue is for."""
        made: int = getattr(self, _MAKERS[kind])()
        return made

    def ticket(self, kind: str, target: int, **values: Any) -> int:
        """Add the ticket by which a row waits to be enriched."""
        since = "enqueued_at" if kind in {"agentic", "workflow"} else "created_at"
        times = {since: NOON, "updated_at": NOON}
        return self.insert(KINDS[kind].queue, **{KINDS[kind].queued: target}, **times, **values)

    def node(self, uuid: str = "n1", content: str = "{}", embed_text: str = "x") -> int:
        """Add a node of knowledge."""
        times = {"created_at": NOON, "updated_at": NOON}
        said = {"content": content, "embed_text": embed_text}
        return self.insert("knowledge_nodes", uuid=uuid, **said, **times)

    def entity(self, kind: str = "tool", canonical: str = "make", **values: Any) -> int:
        """Add something that nodes mention."""
        times = {"first_seen": NOON, "last_seen": NOON, "created_at": NOON}
        given = {"name": canonical, **values}
        return self.insert("entities", type=kind, canonical=canonical, **times, **given)


_MAKERS = {"shell": "event", "agentic": "segment", "browser": "visit", "workflow": "run"}
