"""Which sessions an agent means: the filter language, narrowed by what was given beside it."""

from typing import Any

import msgspec

from threadkeep.knowledge.query import parse_query
from threadkeep.knowledge.results import Query
from threadkeep.mcp.arguments import moment
from threadkeep.mcp.tools import ToolContext


def query_of(room: ToolContext, given: Any, text: str) -> Query:
    """Read what is typed in the filter language, narrowed by what was given beside it."""
    query = parse_query(text, room.now(), room.zone)
    since = moment(given.since, room.now(), room.zone)
    until = moment(given.until, room.now(), room.zone, end=True)
    return msgspec.structs.replace(
        query,
        agent=(given.agent,) if given.agent else query.agent,
        project=(given.project,) if given.project else query.project,
        since=query.since if since is None else since,
        until=query.until if until is None else until,
    )
