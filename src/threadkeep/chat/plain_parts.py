"""Files, sources, custom content and steering: chunks that become a part as they are."""

from typing import Any, Final

from threadkeep.chat.chunks import Chunk

PLAIN_PARTS: Final[dict[str, tuple[str, ...]]] = {
    "file": ("type", "mediaType", "url"),
    "reasoning-file": ("type", "mediaType", "url"),
    "source-url": ("type", "sourceId", "url", "title", "providerMetadata"),
    "source-document": (
        *("type", "sourceId", "mediaType", "title", "filename", "providerMetadata"),
    ),
    "custom": ("type", "kind", "providerMetadata"),
    "steering-message": ("type", "id", "parts"),
}
"""Types of chunks, and the fields that their parts keep."""

_FILES: Final = frozenset({"file", "reasoning-file"})


def plain_part(chunk: Chunk) -> dict[str, Any]:
    """Return the part of such a chunk; files drop provider metadata that is null."""
    fields = PLAIN_PARTS[chunk["type"]]
    part = {name: chunk[name] for name in fields if name in chunk}
    if chunk["type"] in _FILES and chunk.get("providerMetadata") is not None:
        part["providerMetadata"] = chunk["providerMetadata"]
    return part
