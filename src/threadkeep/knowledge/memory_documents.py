"""What is known of memories: what they say now, what they said, and how their capture fares."""

import hashlib
from collections.abc import Iterable
from typing import Any, Final
from uuid import UUID, uuid5

import msgspec

from threadkeep.base.tx import Row, Sql, Tx
from threadkeep.errors import Invalid
from threadkeep.knowledge.schema import changes_until, user_version

# ------------------------------------------------------------------------------
# What a memory is called: its lasting ids, and the category that the name of its file tells.

SOURCE_KIND: Final = "claude-auto-memory"
WATCHER: Final = "auto-memory-watcher"
INDEX_NAME: Final = "MEMORY.md"
# What the contract's own probes write: never queued, never shown.
PROBE_REPOSITORY: Final = "hippo/__hippo_probe__"
CATEGORIES: Final = ("user", "feedback", "project", "reference", "index")

_NAMESPACE: Final = UUID("0fc25921-9c30-4c16-85da-b489ea81f087")
_TOLD: Final = tuple(name for name in CATEGORIES if name != "index")  # what a model may say


def document_uuid(repository: str, logical_path: str) -> str:
    """Return the id of a document that is new; a renamed one keeps the one it has."""
    return str(uuid5(_NAMESPACE, f"{SOURCE_KIND}\0{repository}\0{logical_path}"))


def node_uuid(document: str, revision: int) -> str:
    """Return the id of the node of one revision, by the number that it has in its file."""
    return str(uuid5(_NAMESPACE, f"projection\0{document}\0{revision}"))


def hash_of(text: str) -> str:
    """Hash a text as the contract does."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def category_of(logical_path: str) -> str | None:
    """Return the category that the name of a file tells, None if it tells none."""
    name = logical_path.rpartition("/")[2]
    if name == INDEX_NAME:
        return "index"
    lowered = name.lower()
    if (lowered.rpartition(".")[0] or lowered) == "user":
        return "user"
    return next((one for one in _TOLD if lowered.startswith(f"{one}_")), None)


def known_categories(told: Iterable[str]) -> list[str]:
    """Return those of a model's categories that there are, each once; the index is told by name."""
    found = dict.fromkeys(one.strip().lower() for one in told)
    return [one for one in found if one in _TOLD]


_EXCERPT: Final = 600
_STALE_MS: Final = 30 * 60_000
_TABLES: Final = frozenset({"memory_documents", "memory_document_categories"})


class MemoryCategory(msgspec.Struct, frozen=True):
    """A category of a memory, and who says so."""

    category: str
    source: str  # filename or model
    confidence: float | None
    model: str | None
    enrichment_version: int | None
    created_at: int
    updated_at: int


class MemoryLink(msgspec.Struct, frozen=True):
    """Where the index of a folder leads."""

    target_logical_path: str
    anchor_text: str
    resolution: str  # resolved, unresolved, external, ambiguous, circular
    target_document_id: int | None


class MemoryPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """A section of a memory as it is published, or a memory that has nothing published."""

    document_uuid: str
    repository: str
    logical_path: str
    document_state: str
    projection_status: str
    source_kind: str
    evidence_excerpt: str
    revision_number: int | None = None
    content_hash: str | None = None
    chunk_id: int | None = None
    chunk_ordinal: int | None = None
    heading_path: str | None = None
    source_mtime_ms: int | None = None
    revision_created_at: int | None = None
    enriched_at: int | None = None
    observed_at: int | None = None
    updated_at: int | None = None
    last_error: str | None = None
    knowledge_node_uuid: str | None = None
    memory_categories: list[MemoryCategory] | None = None
    memory_links: list[MemoryLink] | None = None
    source_path: str | None = None  # where it is asked for


class MemoryRevision(msgspec.Struct, frozen=True):
    """What happened to a memory once."""

    document_uuid: str
    repository: str
    logical_path: str
    document_state: str
    revision_number: int
    content_hash: str
    change_kind: str
    summary: str | None
    diff_text: str | None
    source_mtime_ms: int
    revision_created_at: int
    enriched_at: int | None
    source_path: str | None = None


class MemoryFilter(msgspec.Struct, frozen=True):
    """Which memories are meant; empty means any."""

    text: str = ""
    repository: str = ""
    category: str = ""
    logical_path: str = ""
    document_uuid: str = ""
    since: int | None = None
    limit: int = 20
    offset: int = 0
    unpublished: bool = False  # tell of those that have nothing published, where nothing is found
    paths: bool = False  # say where the files lie


class MemoryHealth(msgspec.Struct, frozen=True):
    """How the capture of memories fares."""

    watcher_last_heartbeat_ms: int | None = None
    ingest_last_event_ms: int | None = None
    ingest_consecutive_failures: int = 0
    pending_enrichment: int = 0
    failed_enrichment: int = 0
    stale_projection_count: int = 0
    orphan_chunk_links: int = 0
    # Since when the last two are so; epoch milliseconds.
    stale_since: int | None = None
    orphans_since: int | None = None


def has_memories(tx: Tx) -> bool:
    """Tell whether a file can hold memories."""
    return tx.tables() >= _TABLES


def takes_memories(tx: Tx) -> bool:
    """Tell whether a file is of a version that has a place for notes.

    One at 18 may have the tables too, with what was imported: nothing is added to that.
    """
    known = changes_until(user_version(tx))
    return has_memories(tx) and any("memory_documents" in change.tables for change in known)


# ---------------------------------------------------------------------- asking


def query_memories(tx: Tx, asked: MemoryFilter) -> tuple[list[MemoryPart], bool]:
    """Return what memories say, changed last first, and whether there is more."""
    _check(asked)
    if not has_memories(tx):
        return [], False
    values = _values(asked)
    rows = tx.all("current_memories", values)
    found = [_part(tx, row, asked) for row in rows[: asked.limit]]
    if not found and asked.unpublished:
        rows = tx.all("unpublished_memories", values)
        found = [_waiting(row, asked) for row in rows[: asked.limit]]
    return found, len(rows) > asked.limit


def memory_history(tx: Tx, asked: MemoryFilter) -> tuple[list[MemoryRevision], bool]:
    """Return the revisions of one memory, the newest first, and whether there are more."""
    if not asked.document_uuid and not (asked.repository and asked.logical_path):
        msg = "the history of a memory needs its document"
        raise Invalid(msg, hint="give document_uuid, or repository and logical_path")
    _check(asked)
    if not has_memories(tx):
        return [], False
    rows = tx.all("memory_history", _values(asked))
    found = [_revision(row, asked) for row in rows[: asked.limit]]
    return found, len(rows) > asked.limit


def _check(asked: MemoryFilter) -> None:
    if asked.category and asked.category not in CATEGORIES:
        msg = f"there is no category {asked.category!r} of memories"
        raise Invalid(msg, hint="known: " + ", ".join(CATEGORIES))
    if asked.limit < 1:
        raise Invalid("the limit must be above 0", hint="leave it out for the default")


def _values(asked: MemoryFilter) -> dict[str, Any]:
    plain = asked.text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return {
        "probe": PROBE_REPOSITORY,
        "text": f"%{plain}%" if plain else None,
        "repository": asked.repository or None,
        "category": asked.category or None,
        "logical_path": asked.logical_path or None,
        "uuid": asked.document_uuid or None,
        "since": asked.since,
        "limit": asked.limit + 1,
        "offset": max(0, asked.offset),
    }


def _part(tx: Tx, row: Row, asked: MemoryFilter) -> MemoryPart:
    number, uuid, repository, logical_path, path, state, status, kind, *rest = row
    revision, hashed, chunk, ordinal, heading, mtime, created, enriched, seen, node, text = rest
    values = {"document": number}
    return MemoryPart(
        *(uuid, repository, logical_path, state, status, kind, _cut(text)),
        revision_number=revision,
        content_hash=hashed,
        chunk_id=chunk,
        chunk_ordinal=ordinal,
        heading_path=heading,
        source_mtime_ms=mtime,
        revision_created_at=created,
        enriched_at=enriched,
        observed_at=seen,
        knowledge_node_uuid=node or "",
        memory_categories=[MemoryCategory(*one) for one in tx.all("categories_of_memory", values)],
        memory_links=[MemoryLink(*one) for one in tx.all("links_of_memory", values)],
        source_path=path if asked.paths else None,
    )


def _waiting(row: Row, asked: MemoryFilter) -> MemoryPart:
    _, uuid, repository, logical_path, path, state, status, kind, seen, updated, error = row
    return MemoryPart(
        *(uuid, repository, logical_path, state, status, kind, ""),
        observed_at=seen,
        updated_at=updated,
        last_error=error,
        source_path=path if asked.paths else None,
    )


def _revision(row: Row, asked: MemoryFilter) -> MemoryRevision:
    uuid, repository, logical_path, path, *rest = row
    found = MemoryRevision(uuid, repository, logical_path, *rest)
    return msgspec.structs.replace(found, source_path=path) if asked.paths else found


def _cut(text: str) -> str:
    return text if len(text) <= _EXCERPT else f"{text[: _EXCERPT - 1]}…"


# ---------------------------------------------------------------------- health


def memory_health(tx: Tx, now: int) -> MemoryHealth | None:
    """Tell how the capture of memories fares; None for a file that can hold none."""
    if not has_memories(tx):
        return None
    sql = "SELECT source, last_heartbeat_ts, last_event_ts, consecutive_failures FROM source_health"
    rows = tx.all(Sql(sql))
    health = {source: rest for source, *rest in rows}
    waiting: dict[str, int] = dict(tx.all("memory_tickets", {"probe": PROBE_REPOSITORY}))
    old = {"probe": PROBE_REPOSITORY, "before": now - _STALE_MS}
    stale, stale_since = tx.one("memories_waiting", old) or (0, None)
    bare, bare_since = tx.one("memory_chunks_without_node", old) or (0, None)
    _, event, failures = health.get(SOURCE_KIND, (None, None, 0))
    return MemoryHealth(
        watcher_last_heartbeat_ms=health.get(WATCHER, (None, None, 0))[0],
        ingest_last_event_ms=event,
        ingest_consecutive_failures=failures or 0,
        pending_enrichment=waiting.get("pending", 0),
        failed_enrichment=waiting.get("failed", 0),
        stale_projection_count=stale,
        orphan_chunk_links=bare,
        stale_since=stale_since,
        orphans_since=bare_since,
    )
