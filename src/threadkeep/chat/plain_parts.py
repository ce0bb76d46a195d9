"""Files, sources and custom content: chunks that become a part as they are."""

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
}
"""Types of chunks, and the fields that their parts keep."""


def plain_part(chunk: Chunk) -> dict[str, Any]:
    """Return the part of such a chunk; files drop provider metadata that is null."""
    fields = PLAIN_PARTS[chunk["type"]]
    part = {name: chunk[name] for name in fields if name in chunk}
    if chunk.get("providerMetadata") is not None:
        part["providerMetadata"] = chunk["providerMetadata"]
    return part
