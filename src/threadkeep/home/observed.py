"""What surfaces need of commands and visits, named in one place, so that none imports a service.

Loading this loads the collector: a surface does so when a command needs it.
"""

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID, uuid4

from threadkeep.collect.observing import Observations
from threadkeep.collect.protocol import RegisterWatchSha, watch_of
from threadkeep.collect.storing import BatchReport
from threadkeep.errors import ThreadkeepError
from threadkeep.home.observing import open_observations
from threadkeep.home.waiting import reports_waiting
from threadkeep.knowledge.commands import ALLOWED_VARIABLES
from threadkeep.knowledge.observed import GitState, Watch
from threadkeep.sources.git_facts import GitCache, facts_at, find_repository, read_history

if TYPE_CHECKING:
    from threadkeep.home.facade import Home


# Whoever only wants to look does not wait long for somebody who writes.
_PATIENCE: Final = 2.0


@contextmanager
def collected(
    home: "Home", path: str | Path | None = None
) -> Iterator[tuple[Observations, ThreadkeepError | None]]:
    """Open the observations to look at them, with what waits collected first.

    Where that is not possible now they are opened as they are, and the reason is given. NotFound
    if there is neither a store nor anything to collect.
    """
    trouble = _collect(home) if path is None and reports_waiting(home) else None
    if trouble is not None and not home.knowledge_path().exists():
        raise trouble
    with home.observations(path, read_only=True) as observations:
        yield observations, trouble


def collect_now(home: "Home", path: str | Path | None = None) -> BatchReport:
    """Store what waits, without opening a store where nothing does."""
    if not reports_waiting(home, path):
        return BatchReport()
    with home.observations(path) as observations:
        return observations.collect()


def _collect(home: "Home") -> ThreadkeepError | None:
    try:
        with open_observations(home, home.knowledge(budget=_PATIENCE)) as observations:
            observations.collect()
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


class Head(NamedTuple):
    """What is checked out in a folder, and where it came from; None if nobody can tell."""

    sha: str | None = None
    repo: str | None = None  # owner/name


def head_of(folder: str) -> Head:
    """Tell the commit that a folder has checked out, and the repository of its `origin`."""
    repository = find_repository(folder)
    if repository is None:
        return Head()
    history = read_history(repository)
    return Head(history.moments[-1].commit, history.repo if "/" in history.repo else None)


def commit_to_watch(sha: str, repo: str, ttl_secs: int, now: int) -> Watch:
    """Make a report of a commit to wait for; what is no commit or no repository is refused."""
    return watch_of(RegisterWatchSha(sha, repo, ttl_secs), now)
