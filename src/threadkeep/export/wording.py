"""What every writer needs: times, JSON lines, and words for what a format cannot hold."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from threadkeep.base import json
from threadkeep.base.clock import iso
from threadkeep.errors import Invalid
from threadkeep.export.records import Conversation, ExportMessage, Picture, ToolResult
from threadkeep.knowledge.records import Image

_LATEST: Final = 253_402_300_799_999  # the end of the year 9999


def timed(told: Conversation, now: int) -> Iterator[tuple[ExportMessage, int]]:
    """Yield the messages with their times; one that says none has that of the one before it."""
    last = told.about.started_at
    if last is None:
        last = next((one.at for one in told.messages if one.at is not None), now)
    for message in told.messages:
        last = last if message.at is None else message.at
        yield message, last


def stamp(at: int) -> str:
    """Write a time as logs have it."""
    return iso(min(max(at, 0), _LATEST))


def json_lines(records: Iterable[Any]) -> str:
    """Write records, one a line."""
    return "".join(f"{encoded(record)}\n" for record in records)


def encoded(value: Any) -> str:
    """Write a value as JSON; what cannot be written so (nested beyond reason) as text in it."""
    try:
        return json.encode(value)
    except Invalid:
        return json.encode(_shallow(value, 24))


def _shallow(value: Any, depth: int) -> Any:
    """Write out what is nested deeper than any format means, and numbers that are none."""
    if isinstance(value, (str, int)) or value is None:
        return value
    if isinstance(value, dict) and depth:
        return {str(key): _shallow(inner, depth - 1) for key, inner in value.items()}
    if isinstance(value, (list, tuple)) and depth:
        return [_shallow(inner, depth - 1) for inner in value]
    if isinstance(value, float) and value - value == 0:
        return value
    return _written(value)


def _written(value: Any) -> str:
    try:
        return repr(value)
    except RecursionError:
        return "…"


def as_object(given: Any) -> dict[str, Any]:
    """Give arguments as an object, which most formats want."""
    return given if isinstance(given, dict) else {"input": given}


def data_url(image: Image) -> str:
    """Give the address of a picture, with its bytes in it if they are known."""
    return f"data:{image.media_type};base64,{image.data}" if image.data else image.url


def described(image: Image) -> str:
    """Say in words which picture was there, where a format has no place for it."""
    if image.data:
        return f"[image {image.media_type}, {len(image.data):,} characters of base64]"
    return f"[image {data_url(image)[:200]}]"


def loose_result(result: ToolResult) -> str:
    """Say in words what came back, where the call that it is of is not known."""
    failed = " (failed)" if result.error else ""
    name = result.name or result.id or "a tool"
    return f"[result of {name}{failed}]\n{result.output}"


def pictures_in(message: ExportMessage) -> list[Image]:
    """Give the pictures of a message."""
    return [block.image for block in message.blocks if isinstance(block, Picture)]
