"""Segments become rows of `agentic_sessions`, and tickets for enrichment when they have changed."""

import hashlib
import json
from typing import Any, NamedTuple

from threadkeep.base.clock import is_due
from threadkeep.base.tx import Tx
from threadkeep.knowledge.records import Segment

# ------------------------------------------------------------------------------
# The content hash of a segment: the contract's formula, byte for byte.


def compact(value: Any) -> str:
    """Render JSON the way the contract hashes it: no spaces, nothing escaped without need."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def tools_json(segment: Segment) -> str | None:
    """Render the tool calls as they are stored and hashed."""
    if segment.tools is None:
        return None
    return compact([{"name": name, "summary": summary} for name, summary in segment.tools])


def prompts_json(segment: Segment) -> str | None:
    """Render the prompts as they are stored and hashed."""
    return None if segment.prompts is None else compact(segment.prompts)


def content_hash(segment: Segment) -> str:
    """Hash what a slice holds; equal hashes mean there is nothing new to learn from it."""
    fields = (tools_json(segment) or "[]", prompts_json(segment) or "[]", "\n".join(segment.texts))
    common = "|".join(fields).encode("utf-8", "replace")
    return hashlib.sha256(segment.hashed or common).hexdigest()


# A ticket this young is left alone: a growing segment would else be enriched at every message.
SETTLE_MS = 300_000
# A segment that nothing was added to for so long, and that was never learned from as it is now,
# missed its ticket in the last minutes of its growth.
_AT_REST_MS = 30 * 60_000
_AT_ONCE = 10


class _Stored(NamedTuple):
    id: int
    last_enriched_hash: str | None


def write_segment(tx: Tx, harness: str, segment: Segment, source_file: str, now: int) -> bool:
    """Store a segment by its key, with a ticket if the gate lets it; tell whether it changed."""
    hashed = content_hash(segment)
    key = {"session_id": segment.session_id, "harness": harness, "index": segment.index}
    found = tx.one("segment_by_key", key)
    values = _values(harness, segment, source_file, hashed)
    if found is None:
        enqueue(tx, tx.insert("insert_segment", {**values, "now": now}), now)
        return True
    stored = _Stored(*found)
    if not tx.run("update_segment", {**values, "id": stored.id}):
        return False  # as it was
    tx.run("place_segment", {"id": stored.id, "cwd": segment.cwd})
    if _wants_ticket(tx, stored, hashed, now):
        enqueue(tx, stored.id, now)
    return True


def _wants_ticket(tx: Tx, stored: _Stored, hashed: str, now: int) -> bool:
    queued = tx.one("segment_ticket", {"id": stored.id})
    if queued is not None and queued[0] == "processing":
        return False
    if hashed == stored.last_enriched_hash:
        return False
    if queued is None or queued[1] is None:
        return True
    return is_due(queued[1] + SETTLE_MS, now, SETTLE_MS)


def enqueue(tx: Tx, segment_id: int, now: int) -> None:
    """Give a segment a ticket for enrichment, or renew the one it has."""
    tx.run("enqueue_segment", {"id": segment_id, "now": now})


def settle(tx: Tx, now: int) -> int:
    """Give tickets to segments that came to rest behind the gate; a few at a time, oldest first."""
    rows = tx.all("segments_at_rest", {"before": now - _AT_REST_MS, "limit": _AT_ONCE})
    for (segment_id,) in rows:
        enqueue(tx, segment_id, now)
    return len(rows)


def _values(harness: str, segment: Segment, source_file: str, hashed: str) -> dict[str, object]:
    return {
        "session_id": segment.session_id,
        "harness": harness,
        "index": segment.index,
        "model": segment.model,
        "agent": segment.agent,
        "project_dir": segment.project_dir,
        "cwd": segment.cwd,
        "git_branch": segment.git_branch,
        "slug": segment.slug,
        "title": segment.title,
        "parent": segment.parent_session_id,
        "is_subagent": int(segment.is_subagent),
        "summary": segment.summary,
        "tools": tools_json(segment),
        "prompts": prompts_json(segment),
        "source_file": source_file,
        "diffs": segment.diffs_json,
        "messages": segment.messages,
        "tokens": segment.tokens,
        "start": segment.start,
        "end": segment.end,
        "hash": hashed,
    }
