"""What a chunk of an AI SDK stream must look like before the reducer may see it."""

from collections.abc import Mapping
from typing import Any, Final

from threadkeep.errors import Invalid

Chunk = dict[str, Any]

_TYPE_NAMES: Final = {str: "a string", bool: "true or false", dict: "an object", list: "an array"}

# Optional fields may also be null: the SDK's own reducer treats most of them as absent then.
_PROVIDER: Final = {"providerMetadata": dict}
_TOOL: Final = {**_PROVIDER, "toolMetadata": dict, "providerExecuted": bool, "dynamic": bool}
_METADATA: Final = {"messageMetadata": dict}

_Fields = Mapping[str, type]


def _strings(*names: str) -> dict[str, type]:
    return dict.fromkeys(names, str)


# Type of chunk -> (required fields, optional fields). Fields of any type (`input`, `output`,
# `data`) are not listed: JSON.stringify drops them when a tool returned undefined.
_FIELDS: Final[dict[str, tuple[_Fields, _Fields]]] = {
    "start": ({}, {**_strings("messageId"), **_METADATA}),
    "finish": ({}, {**_strings("finishReason"), **_METADATA}),
    "message-metadata": ({}, _METADATA),
    "start-step": ({}, {}),
    "finish-step": ({}, {}),
    "reset-step": ({}, {}),
    "abort": ({}, _strings("reason")),
    "error": (_strings("errorText"), {}),
    "text-start": (_strings("id"), _PROVIDER),
    "text-delta": (_strings("id", "delta"), _PROVIDER),
    "text-end": (_strings("id"), {**_PROVIDER, "citations": list}),
    "reasoning-start": (_strings("id"), _PROVIDER),
    "reasoning-delta": (_strings("id", "delta"), _PROVIDER),
    "reasoning-end": (_strings("id"), _PROVIDER),
    "file": (_strings("url", "mediaType"), _PROVIDER),
    "reasoning-file": (_strings("url", "mediaType"), _PROVIDER),
    "custom": (_strings("kind"), _PROVIDER),
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
    "tool-approval-response": (
        {"approvalId": str, "approved": bool},
        {**_PROVIDER, **_strings("reason"), "providerExecuted": bool},
    ),
}
_DATA: Final[tuple[_Fields, _Fields]] = ({}, {"id": str, "transient": bool})
_UNKNOWN: Final[tuple[_Fields, _Fields]] = ({}, {})


def validate_chunk(chunk: object) -> Chunk:
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
    required, optional = _FIELDS.get(kind) or (_DATA if kind.startswith("data-") else _UNKNOWN)
    for name, wanted in required.items():
        if not isinstance(chunk.get(name), wanted):
            raise _wrong_field(chunk, name, wanted)
    for name, wanted in optional.items():
        value = chunk.get(name)
        if value is not None and not isinstance(value, wanted):
            raise _wrong_field(chunk, name, wanted)
    return chunk


def _wrong_field(chunk: Chunk, name: str, wanted: type) -> Invalid:
    found = type(chunk[name]).__name__ if name in chunk else "nothing"
    return Invalid(
        f'chunk {chunk["type"]}: "{name}" must be {_TYPE_NAMES[wanted]}, found {found}',
        hint=f'send "{name}" as the AI SDK stream protocol defines it, or leave the chunk out',
    )
