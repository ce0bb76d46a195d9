"""Files of memory as rows: written into a knowledge file as Hippo's brain writes them."""

import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path

from threadkeep.knowledge.memory_documents import document_uuid, node_uuid

REPOSITORY = "ada/kiln"


def remember(file: Path, path: str, text: str, at: int, repository: str = REPOSITORY) -> int:
    """Note a new state of a file of memory and publish its node; the one before it is replaced."""
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("PRAGMA foreign_keys = ON")
        uuid = document_uuid(repository, path)
        db.execute(
            "INSERT OR IGNORE INTO memory_documents (uuid, repository, logical_path, source_path,"
            " observed_at, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (uuid, repository, path, f"/home/ada/.claude/{path}", at, at, at),
        )
        known = "SELECT id FROM memory_documents WHERE uuid = ?"
        document = int(db.execute(known, (uuid,)).fetchone()[0])
        of = "FROM memory_revisions WHERE document_id = ?"
        (number,) = db.execute(f"SELECT count(*) + 1 {of}", (document,)).fetchone()
        hashed = sha256(text.encode()).hexdigest()
        db.execute(
            "UPDATE memory_revisions SET redacted_content = NULL, diff_text = ?"
            " WHERE document_id = ?",
            (f"+{text}", document),
        )
        revision = db.execute(
            "INSERT INTO memory_revisions (document_id, revision_number, content_hash,"
            " source_hash, redacted_content, source_mtime_ms, source_size, change_kind,"
            " chunker_name, created_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'markdown-headings', ?)",
            (
                *(document, number, hashed, hashed, text, at, len(text)),
                *("create" if number == 1 else "update", at),
            ),
        ).lastrowid
        assert revision is not None
        chunk = db.execute(
            "INSERT INTO memory_chunks (revision_id, ordinal, content, content_hash, created_at)"
            " VALUES (?, 0, ?, ?, ?)",
            (revision, text, hashed, at),
        ).lastrowid
        db.execute(
            "INSERT INTO memory_enrichment_queue (revision_id, status, enqueued_at, updated_at)"
            " VALUES (?, 'done', ?, ?)",
            (revision, at, at),
        )
        db.execute(
            "DELETE FROM knowledge_nodes WHERE id IN (SELECT knowledge_node_id FROM"
            " knowledge_node_memory_chunks JOIN memory_chunks AS c ON c.id = memory_chunk_id"
            " JOIN memory_revisions AS r ON r.id = c.revision_id WHERE r.document_id = ?)",
            (document,),
        )
        node = db.execute(
            "INSERT INTO knowledge_nodes (uuid, content, embed_text, created_at, updated_at)"
            " VALUES (?, json_object('summary', ?), ?, ?, ?)",
            (node_uuid(uuid, revision), text, text, at, at),
        ).lastrowid
        db.execute("INSERT INTO knowledge_node_memory_chunks VALUES (?, ?)", (node, chunk))
        db.execute(
            "INSERT OR IGNORE INTO memory_document_categories (document_id, category, source,"
            " created_at, updated_at) VALUES (?, 'project', 'filename', ?, ?)",
            (document, at, at),
        )
        db.execute(
            "UPDATE memory_documents SET current_revision_id = ?, active_revision_id = ?,"
            " projection_status = 'ready', updated_at = ? WHERE id = ?",
            (revision, revision, at, document),
        )
        return document
