"""What a chunk of an AI SDK stream must look like before the reducer may see it."""

from typing import Any, Final

from threadkeep.chat.protocol import NEWEST, PROTOCOLS, Fields
from threadkeep.errors import Invalid

Chunk = dict[str, Any]

_TYPE_NAMES: Final = {str: "a string", bool: "true or false", dict: "an object", list: "an array"}

_KNOWN: Final = {version: protocol.chunks for version, protocol in PROTOCOLS.items()}
_DATA: Final[tuple[Fields, Fields]] = ({}, {"id": str, "transient": bool})
_UNKNOWN: Final[tuple[Fields, Fields]] = ({}, {})


def validate_chunk(chunk: object, protocol: int = NEWEST) -> Chunk:
    """Return `chunk` itself when it is well formed, else raise `Invalid`.

    Unknown types and extra fields pass. Message metadata must be an object: there is no
    place for anything else beside the metadata that a host adds to a message.
    """
    if not isinstance(chunk, dict):
        raise Invalid(
            f"a chunk must be a JSON object, not {type(chunk).__name__}",
            hint='pass one chunk of the stream as a dict with a "type"',
        )
    kind = chunk.get("type")
    if not isinstance(kind, str):
        raise Invalid('a chunk has no string "type"', hint='every chunk names its "type"')
    known = _KNOWN[protocol].get(kind)
    required, optional = known or (_DATA if kind.startswith("data-") else _UNKNOWN)
    for name, wanted in required.items():
        if not isinstance(chunk.get(name), wanted):
            raise _wrong_field(chunk, name, wanted)
    for name, wanted in optional.items():
        value = chunk.get(name)
        if value is not None and not isinstance(value, wanted):
            raise _wrong_field(chunk, name, wanted)
    return chunk


def with_real_id(chunk: Chunk) -> Chunk:
    """Give a chunk without an empty message id: some servers send one, and mean none."""
    empty = chunk["type"] == "start" and chunk.get("messageId") == ""
    return {key: chunk[key] for key in chunk if key != "messageId"} if empty else chunk


def _wrong_field(chunk: Chunk, name: str, wanted: type) -> Invalid:
    found = type(chunk[name]).__name__ if name in chunk else "nothing"
    return Invalid(
        f'chunk {chunk["type"]}: "{name}" must be {_TYPE_NAMES[wanted]}, found {found}',
        hint=f'send "{name}" as the AI SDK stream protocol defines it, or leave the chunk out',
    )
