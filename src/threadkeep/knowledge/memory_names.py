"""What a memory is called: its lasting ids, and the category that the name of its file tells."""

import hashlib
from collections.abc import Iterable
from typing import Final
from uuid import UUID, uuid5

SOURCE_KIND: Final = "claude-auto-memory"
WATCHER: Final = "auto-memory-watcher"
INDEX_NAME: Final = "MEMORY.md"
# What the contract's own probes write: never queued, never shown.
PROBE_REPOSITORY: Final = "hippo/__hippo_probe__"
CATEGORIES: Final = ("user", "feedback", "project", "reference", "index")

_NAMESPACE: Final = UUID("0fc25921-9c30-4c16-85da-b489ea81f087")
_TOLD: Final = tuple(name for name in CATEGORIES if name != "index")  # what a model may say


def document_uuid(repository: str, logical_path: str) -> str:
    """Give the id of a document that is new; a renamed one keeps the one it has."""
    return str(uuid5(_NAMESPACE, f"{SOURCE_KIND}\0{repository}\0{logical_path}"))


def node_uuid(document: str, revision: int) -> str:
    """Give the id of the node of one revision, by the number that it has in its file."""
    return str(uuid5(_NAMESPACE, f"projection\0{document}\0{revision}"))


def hash_of(text: str) -> str:
    """Hash a text as the contract does."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def category_of(logical_path: str) -> str | None:
    """Give the category that the name of a file tells, None if it tells none."""
    name = logical_path.rpartition("/")[2]
    if name == INDEX_NAME:
        return "index"
    lowered = name.lower()
    if (lowered.rpartition(".")[0] or lowered) == "user":
        return "user"
    return next((one for one in _TOLD if lowered.startswith(f"{one}_")), None)


def known_categories(told: Iterable[str]) -> list[str]:
    """Give those of a model's categories that there are, each once; the index is told by name."""
    found = dict.fromkeys(one.strip().lower() for one in told)
    return [one for one in found if one in _TOLD]
