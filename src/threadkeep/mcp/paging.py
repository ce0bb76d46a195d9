"""Where an answer ends and the next one begins."""

from typing import Any

import msgspec

from threadkeep.base.clock import iso
from threadkeep.errors import Invalid
from threadkeep.knowledge.query import Query, fill_query
from threadkeep.mcp.tools import ReplyRows, ToolContext, cut, moment


def read_place(cursor: str) -> int:
    """Read a cursor of ours; none means the beginning."""
    if not cursor:
        return 0
    if not cursor.isdecimal() or not cursor.isascii() or len(cursor) > 16:  # noqa: PLR2004
        msg = f"{cut(cursor, 60)!r} is no cursor"
        raise Invalid(msg, hint="give the `next` of the answer before, as it is")
    return int(cursor)


def go_on(more: str | None, what: str = "more") -> str:
    """Say that there is more, and how to have it."""
    return f"There is {what}: ask again with cursor={more}." if more else ""


def left_with(found: ReplyRows, more: str | None) -> str:
    """Say that some did not fit, and how to have them."""
    return go_on(more) if found.left_out else ""


def later(found: ReplyRows) -> str:
    """Say that some did not fit."""
    return f"{found.left_out} more did not fit into the answer." if found.left_out else ""


def when(at: int | None) -> str | None:
    """Write a moment."""
    return None if at is None else iso(at)


# ------------------------------------------------------------------------------
# Which sessions an agent means: the filter language, narrowed by what was given beside it.


def query_of(room: ToolContext, given: Any, text: str) -> Query:
    """Read what is typed in the filter language, narrowed by what was given beside it."""
    now, zone = room.now(), room.zone
    times = {
        "since": moment(given.since, now, zone),
        "until": moment(given.until, now, zone, end=True),
    }
    return fill_query({**msgspec.structs.asdict(given), "q": text, **times}, now, zone)
