"""Where processes of one home meet: a socket that one of them listens at, and all others find.

Loading this loads no store: whoever only passes messages on stays small.
"""

import hashlib
from pathlib import Path
from typing import NamedTuple

from threadkeep.base.config import load_config
from threadkeep.base.paths import environment, find_paths


class Meeting(NamedTuple):
    """Where the processes of a home meet for one purpose, and whether they may write."""

    place: Path
    write: bool


def meeting(home: str | None, path: str | None, *, version: str, write: bool) -> Meeting:
    """Name the socket of a home's MCP server.

    There is one for each store, for each version of the program, and for those that may write.
    """
    paths = find_paths(environment(), None if home is None else Path(home))
    config = load_config(paths.config)
    may_write = write or config.mcp.write
    store = (path and Path(path).absolute(), paths.data.absolute(), config.stores.knowledge)
    told = f"{store} {version} {may_write}"
    mark = hashlib.sha256(told.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return Meeting(paths.runtime.absolute() / f"mcp-{mark}.sock", may_write)
