"""What surfaces need of commands, visits and CI, named in one place, so that none imports a service.

Loading this loads the collector: a surface does so when a command needs it.
"""

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import UUID, uuid4

from threadkeep.base.spool import Spool
from threadkeep.collect.collector import waiting_in
from threadkeep.collect.observing import FALLBACK, Observations
from threadkeep.collect.probing import Probed
from threadkeep.collect.storing import Stored
from threadkeep.errors import NotFound, ThreadkeepError
from threadkeep.home.observing import Reporter, open_observations, spool_folder
from threadkeep.knowledge.commands import ALLOWED_VARIABLES
from threadkeep.knowledge.events import Event, StoredVisit, Wanted
from threadkeep.knowledge.observed import Command, GitState, Output, Watch
from threadkeep.sources.git_facts import GitCache, facts_at

if TYPE_CHECKING:
    from threadkeep.home.facade import Home

__all__ = [
    "Command",
    "Event",
    "GitState",
    "Observations",
    "Output",
    "Probed",
    "Reporter",
    "Stored",
    "StoredVisit",
    "Wanted",
    "Watch",
    "collected",
    "found_in_folder",
    "host_name",
    "kept_variables",
    "reports_waiting",
    "session_id",
    "shell_name",
]

# Whoever only wants to look does not wait long for somebody who writes.
_PATIENCE: Final = 2.0


def reports_waiting(home: "Home", path: str | Path | None = None) -> int:
    """Count the files that wait to be collected: in the spool, and where Hippo leaves them."""
    fallback = home.knowledge_path(path).parent / FALLBACK
    return len(Spool(spool_folder(home)).waiting()) + waiting_in(fallback)


@contextmanager
def collected(
    home: "Home", path: str | Path | None = None
) -> Iterator[tuple[Observations, ThreadkeepError | None]]:
    """Open the observations to look at them, with what waits collected first.

    Where that is not possible now they are opened as they are, and the reason is given. NotFound
    if there is neither a store nor anything to collect.
    """
    trouble = None
    if path is None and reports_waiting(home):
        trouble = _collect(home)
    with home.observations(path, read_only=True) as observations:
        yield observations, trouble


def _collect(home: "Home") -> ThreadkeepError | None:
    try:
        with open_observations(home, home.knowledge(budget=_PATIENCE)) as observations:
            observations.collect()
    except NotFound:
        raise
    except ThreadkeepError as error:
        return error
    return None


# ---------------------------------------------------------------------- what a report says


def session_id(environ: Mapping[str, str]) -> str:
    """Give the session of the shell around us; a new one where there is none."""
    for name in ("HIPPO_SESSION_ID", "THREADKEEP_SESSION_ID"):
        try:
            return str(UUID(environ.get(name, "")))
        except ValueError:
            continue
    return str(uuid4())


def shell_name(environ: Mapping[str, str]) -> str:
    """Name the user's shell."""
    return os.path.basename(environ.get("SHELL", "")) or "unknown"  # noqa: PTH119  (any text)


def host_name() -> str:
    """Name this machine."""
    return socket.gethostname()


def kept_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Give the variables that may be kept with a command."""
    return {name: text for name, text in environ.items() if name in ALLOWED_VARIABLES}


def found_in_folder(cwd: str, at_ms: int) -> GitState | None:
    """Tell repository, branch and commit of a folder, from its files alone."""
    return facts_at(cwd, at_ms, GitCache())
