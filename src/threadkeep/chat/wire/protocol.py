"""The versions of the AI SDK's stream, and everything in which they differ.

A stream does not name its version, so whoever records it does. Each version is one entry of the
table below: the chunks it knows with their fields, and what it makes of them. A chunk that a
version does not know is no error: it changes no part and is kept as it came.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from threadkeep.errors import Invalid

Fields = Mapping[str, type]
Known = Mapping[str, tuple[Fields, Fields]]

# Optional fields may also be null: the SDK's own reducer treats most of them as absent then.
_PROVIDER: Final = {"providerMetadata": dict}
_TOOL: Final = {**_PROVIDER, "toolMetadata": dict, "providerExecuted": bool, "dynamic": bool}
_METADATA: Final = {"messageMetadata": dict}


def _strings(*names: str) -> dict[str, type]:
    return dict.fromkeys(names, str)


# Type of chunk -> (required fields, optional fields). Fields of any type (`input`, `output`,
# `data`) are not listed: JSON.stringify drops them when a tool returned undefined.
_CHUNKS_6: Final[Known] = {
    "start": ({}, {**_strings("messageId"), **_METADATA}),
    "finish": ({}, {**_strings("finishReason"), **_METADATA}),
    "message-metadata": ({}, _METADATA),
    "start-step": ({}, {}),
    "finish-step": ({}, {}),
    "abort": ({}, _strings("reason")),
    "error": (_strings("errorText"), {}),
    "text-start": (_strings("id"), _PROVIDER),
    "text-delta": (_strings("id", "delta"), _PROVIDER),
    "text-end": (_strings("id"), _PROVIDER),
    "reasoning-start": (_strings("id"), _PROVIDER),
    "reasoning-delta": (_strings("id", "delta"), _PROVIDER),
    "reasoning-end": (_strings("id"), _PROVIDER),
    "file": (_strings("url", "mediaType"), _PROVIDER),
    "source-url": (_strings("sourceId", "url"), {**_PROVIDER, **_strings("title")}),
    "source-document": (
        _strings("sourceId", "mediaType", "title"),
        {**_PROVIDER, **_strings("filename")},
    ),
    "tool-input-start": (
        _strings("toolCallId", "toolName"),
        {**_TOOL, **_strings("title", "inputEncoding")},
    ),
    "tool-input-delta": (_strings("toolCallId", "inputTextDelta"), {}),
    "tool-input-available": (
        _strings("toolCallId", "toolName"),
        {**_TOOL, **_strings("title")},
    ),
    "tool-input-error": (
        _strings("toolCallId", "toolName", "errorText"),
        {**_TOOL, **_strings("title")},
    ),
    "tool-output-available": (_strings("toolCallId"), {**_TOOL, "preliminary": bool}),
    "tool-output-error": (_strings("toolCallId", "errorText"), _TOOL),
    "tool-output-denied": (_strings("toolCallId"), {}),
    "tool-approval-request": (_strings("approvalId", "toolCallId"), _strings("signature")),
}

_CHUNKS_7: Final[Known] = {
    **_CHUNKS_6,
    "text-end": (_strings("id"), {**_PROVIDER, "citations": list}),
    "reset-step": ({}, {}),
    "steering-message": ({"id": str, "parts": list}, {}),
    "reasoning-file": (_strings("url", "mediaType"), _PROVIDER),
    "custom": (_strings("kind"), _PROVIDER),
    "tool-approval-request": (
        _strings("approvalId", "toolCallId"),
        {**_strings("signature", "reason"), "isAutomatic": bool},
    ),
    "tool-approval-response": (
        {"approvalId": str, "approved": bool},
        {**_PROVIDER, **_strings("reason"), "providerExecuted": bool},
    ),
}


class Protocol(NamedTuple):
    """One version of the stream."""

    version: int
    chunks: Known
    """The types of chunks that it knows."""
    ends_of_texts: frozenset[str]
    """Chunks after which no open text or reasoning can grow."""
    unusable_input: str
    """Where the part of a static tool keeps an input that the tool could not take."""
    trusts_first_item: bool
    """Whether an input that is still arriving cannot be read while it ends in `[-`."""
    text_end: tuple[str, ...]
    """What the end of a text adds to its part."""
    approval: Mapping[str, str]
    """What an approval keeps of its request: field of the chunk -> name in the approval."""


# Before recordings named their version: 6, with those chunks of 7 that were understood then.
UNNAMED: Final = 0

PROTOCOLS: Final[Mapping[int, Protocol]] = {
    UNNAMED: Protocol(
        version=UNNAMED,
        chunks={kind: _CHUNKS_7[kind] for kind in _CHUNKS_7 if kind != "steering-message"},
        ends_of_texts=frozenset({"finish-step", "reset-step"}),
        unusable_input="rawInput",
        trusts_first_item=True,
        text_end=("citations",),
        approval={},
    ),
    6: Protocol(
        version=6,
        chunks=_CHUNKS_6,
        ends_of_texts=frozenset({"finish-step"}),
        unusable_input="rawInput",
        trusts_first_item=True,
        text_end=(),
        approval={},
    ),
    7: Protocol(
        version=7,
        chunks=_CHUNKS_7,
        ends_of_texts=frozenset({"reset-step"}),
        unusable_input="input",
        trusts_first_item=False,
        text_end=("citations",),
        approval={"reason": "requestReason", "isAutomatic": "isAutomatic"},
    ),
}
VERSIONS: Final = (6, 7)
NEWEST: Final = 7


def need_version(version: object) -> int:
    """Return the version that somebody records, or say which there are."""
    if version not in VERSIONS or type(version) is not int:
        msg = f"there is no version {version!r} of the AI SDK's stream here"
        raise Invalid(msg, hint="use protocol " + " or ".join(map(str, VERSIONS)))
    return version


def is_known(protocol: Protocol, kind: str) -> bool:
    """Tell whether a version of the stream has chunks of this type; `data-…` are everybody's."""
    return kind in protocol.chunks or kind.startswith("data-")


# ------------------------------------------------------------------------------
# What a chunk of an AI SDK stream must look like before the reducer may see it.

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
    if len(chunk) == len(required) + 1:
        return chunk  # nothing but what it must have, as nearly every delta
    for name, wanted in optional.items():
        value = chunk.get(name)
        if value is not None and not isinstance(value, wanted):
            raise _wrong_field(chunk, name, wanted)
    return chunk


def with_real_id(chunk: Chunk) -> Chunk:
    """Return a chunk without an empty message id: some servers send one, and mean none."""
    empty = chunk["type"] == "start" and chunk.get("messageId") == ""
    return {key: chunk[key] for key in chunk if key != "messageId"} if empty else chunk


def _wrong_field(chunk: Chunk, name: str, wanted: type) -> Invalid:
    found = type(chunk[name]).__name__ if name in chunk else "nothing"
    return Invalid(
        f'chunk {chunk["type"]}: "{name}" must be {_TYPE_NAMES[wanted]}, found {found}',
        hint=f'send "{name}" as the AI SDK stream protocol defines it, or leave the chunk out',
    )


# ------------------------------------------------------------------------------
# Names inside a part: the AI SDK's camelCase, at rest too. Older writers stored other ones.

_PART_FIELDS: Final = {
    "tool_call_id": "toolCallId",
    "tool_name": "toolName",
    "tool_metadata": "toolMetadata",
    "error_text": "errorText",
    "raw_input": "rawInput",
    "input_encoding": "inputEncoding",
    "provider_executed": "providerExecuted",
    "provider_metadata": "providerMetadata",
    "call_provider_metadata": "callProviderMetadata",
    "result_provider_metadata": "resultProviderMetadata",
    "media_type": "mediaType",
    "source_id": "sourceId",
}


def normalize_part(part: Mapping[str, Any]) -> dict[str, Any]:
    """Read a stored part under the AI SDK's field names, whoever wrote it.

    camelCase wins where both are there. A `data-*` part belongs to the application and stays.
    """
    if str(part.get("type", "")).startswith("data-"):
        return dict(part)
    return {
        _PART_FIELDS.get(name, name): value
        for name, value in part.items()
        if _PART_FIELDS.get(name) not in part
    }
