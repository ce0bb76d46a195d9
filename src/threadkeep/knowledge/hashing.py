"""The content hash of a segment: the contract's formula, byte for byte."""

import hashlib
import json
from typing import Any

from threadkeep.knowledge.records import Segment


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
