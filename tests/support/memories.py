"""Memory files that come, change and go, told to a store one after the other."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from threadkeep.base.tx import Sql
from threadkeep.knowledge.memory_documents import hash_of
from threadkeep.knowledge.memory_intake import (
    Put,
    SeenMemory,
    absent_memories,
    miss_memory,
    put_memory,
)
from threadkeep.knowledge.nodes import publish_memory
from threadkeep.knowledge.queues import claim, give_back
from threadkeep.knowledge.records import NodeDraft
from threadkeep.knowledge.store import KnowledgeStore

START = 1_790_000_000_000
DOCUMENTS = """
SELECT d.logical_path, d.state, d.projection_status, c.revision_number, a.revision_number,
  d.last_error
FROM memory_documents AS d LEFT JOIN memory_revisions AS c ON c.id = d.current_revision_id
LEFT JOIN memory_revisions AS a ON a.id = d.active_revision_id ORDER BY 1"""
REVISIONS = """
SELECT d.uuid, d.logical_path, r.revision_number, r.change_kind, r.content_hash, r.source_hash,
  r.source_size
FROM memory_revisions AS r JOIN memory_documents AS d ON d.id = r.document_id ORDER BY 2, 3"""
BODIES = """
SELECT d.logical_path, r.revision_number, r.redacted_content IS NULL, r.diff_text IS NOT NULL,
  (SELECT count(*) FROM memory_chunks AS c WHERE c.revision_id = r.id),
  (SELECT count(*) FROM memory_chunks AS c JOIN knowledge_node_memory_chunks AS l
    ON l.memory_chunk_id = c.id WHERE c.revision_id = r.id)
FROM memory_revisions AS r JOIN memory_documents AS d ON d.id = r.document_id ORDER BY 1, 2"""
CHUNKS = """
SELECT d.logical_path, r.revision_number, c.ordinal, c.heading_path, c.start_offset, c.end_offset,
  c.token_count, c.content_hash
FROM memory_chunks AS c JOIN memory_revisions AS r ON r.id = c.revision_id
JOIN memory_documents AS d ON d.id = r.document_id ORDER BY 1, 2, 3"""
CATEGORIES = """
SELECT d.logical_path, c.category, c.source, c.confidence, c.model
FROM memory_document_categories AS c JOIN memory_documents AS d ON d.id = c.document_id
ORDER BY 1, 2, 3"""
LINKS = """
SELECT d.logical_path, l.target_logical_path, l.resolution, t.logical_path
FROM memory_document_links AS l JOIN memory_documents AS d ON d.id = l.source_document_id
LEFT JOIN memory_documents AS t ON t.id = l.target_document_id ORDER BY 1, 2"""
TICKETS = """
SELECT d.logical_path, r.revision_number, q.status, q.retry_count
FROM memory_enrichment_queue AS q JOIN memory_revisions AS r ON r.id = q.revision_id
JOIN memory_documents AS d ON d.id = r.document_id ORDER BY 1, 2"""
NODES = """
SELECT DISTINCT d.logical_path, d.state, r.revision_number, n.uuid
FROM knowledge_node_memory_chunks AS l JOIN knowledge_nodes AS n ON n.id = l.knowledge_node_id
JOIN memory_chunks AS c ON c.id = l.memory_chunk_id
JOIN memory_revisions AS r ON r.id = c.revision_id
JOIN memory_documents AS d ON d.id = r.document_id ORDER BY 1, 3"""


class Notebook:
    """A store at 23, and a folder of files that exists in this object only."""

    def __init__(self, store: KnowledgeStore, repository: str = "ada/kiln") -> None:
        self.store = store
        self.repository = repository
        self.files: dict[str, str] = {}
        self.now = START

    def put(self, name: str, text: str, mask: Callable[[str], str] = str) -> Put:
        """Write a file, and have it taken in a second later."""
        self.now += 1_000
        self.files[name] = text
        seen = SeenMemory(
            self.repository,
            name,
            f"/m/{name}",
            mask(text),
            mtime_ms=self.now,
            size=len(text.encode()),
            source_hash=hash_of(text),
        )
        with self.store.context.db.write() as tx:
            return put_memory(tx, seen, now=self.now, is_there=lambda path: path[3:] in self.files)

    def rename(self, old: str, new: str) -> Put:
        """Give a file another name."""
        return self.put(new, self.files.pop(old))

    def miss(self, *names: str) -> None:
        """Look for files a minute later, these are not there."""
        self.now += 61_000
        with self.store.context.db.write() as tx:
            for one in absent_memories(tx, lambda path: path[3:] in names, now=self.now):
                miss_memory(tx, one, now=self.now)

    def learn(
        self, categories: Mapping[str, Iterable[str]] | None = None, fail: Iterable[str] = ()
    ) -> None:
        """Publish all that waits, but for those that fail."""
        self.now += 1_000
        with self.store.context.db.write() as tx:
            for ticket in claim(tx, "memory", worker="w", now=self.now, limit=100):
                name = tx.value(
                    Sql(
                        "SELECT d.logical_path FROM memory_documents AS d JOIN"
                        " memory_revisions AS r ON r.document_id = d.id WHERE r.id = :id"
                    ),
                    {"id": ticket.target},
                )
                if name in fail:
                    give_back(tx, ticket, "model gone", self.now)
                    continue
                draft = NodeDraft(
                    summary=f"Memory: {name}",
                    intent="remember",
                    embed_text=f"kiln {name}",
                    memory_categories=tuple((categories or {}).get(name, ())),
                )
                publish_memory(tx, draft, ticket.target, model="model-a", now=self.now)

    def ask(self, sql: str) -> list[list[Any]]:
        """Ask the store."""
        with self.store.context.db.read() as tx:
            return [list(row) for row in tx.all(Sql(sql))]
