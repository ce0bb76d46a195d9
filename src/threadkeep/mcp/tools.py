"""What a tool is, how its arguments and answers are described, and how it is called."""

import logging
from collections.abc import Callable
from datetime import tzinfo
from typing import Any, Final, NamedTuple

import msgspec

from threadkeep.errors import ThreadkeepError
from threadkeep.home.stores import Desk
from threadkeep.mcp.arguments import read_arguments
from threadkeep.mcp.replies import ToolOutput, ToolReply, written

log = logging.getLogger(__name__)

_PLACE: Final = "#/$defs/{name}"


class ToolContext(NamedTuple):
    """What every tool is given: whom to ask, what time it is, and who asks."""

    desk: Desk
    now: Callable[[], int]
    zone: tzinfo
    fence_id: Callable[[], str]
    client: str = "unknown"


class Tool(NamedTuple):
    """A tool as agents see it, and what it does."""

    name: str
    title: str
    description: str
    arguments: type[msgspec.Struct]
    run: Callable[[ToolContext, Any], ToolReply]
    answer: type[msgspec.Struct] | None = None  # None: text alone
    writes: bool = False


def schema_of(shape: type[msgspec.Struct]) -> dict[str, Any]:
    """Describe a record as JSON Schema, an object at its root."""
    _, parts = msgspec.json.schema_components([shape], ref_template=_PLACE)
    root = parts.pop(shape.__name__)
    root.pop("title", None)
    return {**root, "$defs": parts} if parts else root


def input_schema(tool: Tool) -> dict[str, Any]:
    """Describe the arguments of a tool; others are refused."""
    described = schema_of(tool.arguments)
    described.pop("description", None)
    return {**described, "additionalProperties": False}


def call(tool: Tool, room: ToolContext, given: dict[str, Any]) -> ToolOutput:
    """Call a tool; whatever goes wrong is an answer that says so and what to do next."""
    try:
        with room.desk.stores.using():
            reply = tool.run(room, read_arguments(tool.arguments, given))
        return written(reply, room.fence_id())
    except ThreadkeepError as error:
        hint = f"\nWhat to do: {error.hint}" if error.hint else ""
        return written(ToolReply(f"{error.message}{hint}", is_error=True), "")
    except Exception as error:  # one question must not end the server for all others
        log.exception("the tool %s failed", tool.name)
        msg = f"{tool.name} failed inside threadkeep ({type(error).__name__})"
        hint = "try another question; `threadkeep doctor` looks for what is wrong"
        return written(ToolReply(f"{msg}\nWhat to do: {hint}", is_error=True), "")
