"""Field names at the boundary: snake_case at rest, camelCase on the wire.

Only records of the guide are renamed: sessions, messages, models, usage, triggers, rules, status.
What another party owns is passed through untouched: the key is renamed, its value is not.
Message parts are such values; inside them the AI SDK's camelCase names are kept at rest too.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

# Fields whose values belong to a tool, a provider, a client or the AI SDK, in their stored names.
OPAQUE: Final = frozenset(
    (
        *("input", "raw_input", "output", "raw_output"),
        *("data", "metadata", "tool_metadata", "message_metadata", "_meta"),
        *("provider_metadata", "call_provider_metadata", "result_provider_metadata"),
        *("provider_options", "input_schema", "output_schema", "parameters", "headers"),
        *("part", "parts"),
    )
)

# What older writers stored inside a part, and the AI SDK's name for it.
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

# Only names that come back the same are renamed: `x_1` and `HTTPStatus` stay as they are.
_SNAKE: Final = re.compile(r"[a-z][a-z0-9]*(?:_[a-z][a-z0-9]*)+")
_CAMEL: Final = re.compile(r"[a-z][a-z0-9]*(?:[A-Z][a-z0-9]*)+")


def to_wire(obj: Any) -> Any:
    """Rename the fields of a stored record for the wire: `session_id` to `sessionId`.

    If a record has a field under both names, the camelCase one counts.
    """
    return _renamed(obj, _to_camel)


def from_wire(obj: Any) -> Any:
    """Rename the fields of a record from the wire for storage: `sessionId` to `session_id`.

    If a record has a field under both names, the camelCase one counts.
    """
    return _renamed(obj, _to_snake)


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


def _renamed(obj: Any, rename: Callable[[str], str]) -> Any:
    if isinstance(obj, list | tuple):
        return [_renamed(item, rename) for item in obj]
    if not isinstance(obj, Mapping):
        return obj
    record: dict[Any, Any] = {}
    for name, value in obj.items():
        new = rename(name) if isinstance(name, str) else name
        is_camel = isinstance(name, str) and _CAMEL.fullmatch(name) is not None
        if new not in record or is_camel:
            opaque = isinstance(name, str) and _to_snake(name) in OPAQUE
            record[new] = value if opaque else _renamed(value, rename)
    return record


def _to_camel(name: str) -> str:
    if not _SNAKE.fullmatch(name):
        return name
    return re.sub("_([a-z])", lambda found: found[1].upper(), name)


def _to_snake(name: str) -> str:
    if not _CAMEL.fullmatch(name):
        return name
    return re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name)
