"""What belongs to a run of CI: the commands that led to it, and the sessions that worked on it.

A command belongs to a run when it ran on the same commit; where none did, a push at about the time
of the run. A session belongs to it when it was at work then, in the same project: working at the
same time on something else is no reason.
"""

from collections.abc import Iterable
from typing import Final

from threadkeep.base.tx import Tx
from threadkeep.errors import NotFound
from threadkeep.knowledge.drafts import Evidence
from threadkeep.knowledge.entities import strip_worktrees

AROUND_MS: Final = 15 * 60_000
_COMMANDS: Final = 20
_SEGMENTS: Final = 10


def evidence_of_run(tx: Tx, run: int) -> Evidence:
    """Give a run with the commands and the segments that belong to it."""
    found = tx.one("run_to_link", {"id": run})
    if found is None:
        msg = f"there is no run {run} of CI"
        raise NotFound(msg, hint="it was forgotten meanwhile, or never stored")
    repo, sha, at = found
    window = {"since": at - AROUND_MS, "until": at + AROUND_MS, "at": at}
    on_commit = tx.all("events_of_commit", {"sha": sha, "limit": _COMMANDS})
    events = [event for event, _ in on_commit] or _pushes(tx, repo, window)
    folders = [cwd for _, cwd in on_commit]
    segments = [
        segment
        for segment, cwd, project_dir in tx.all("segments_around", window)
        if in_project(repo, cwd or project_dir, folders)
    ]
    return Evidence(events=tuple(events), segments=tuple(segments[:_SEGMENTS]), runs=(run,))


def in_project(repo: str, folder: str, folders: Iterable[str] = ()) -> bool:
    """Tell whether work in a folder is work on a repository.

    One of the folders on the way to it has the repository's name, or it is one of the `folders` in
    which commands ran on the repository's commits, or below one.
    """
    path = _plain(folder)
    named = repo.rpartition("/")[2].lower() in path.split("/")
    return named or any(
        path == known or path.startswith(known + "/") for known in map(_plain, folders) if known
    )


def _plain(folder: str) -> str:
    return strip_worktrees(folder.replace("\\", "/")).rstrip("/").lower()


def _pushes(tx: Tx, repo: str, window: dict[str, int]) -> list[int]:
    name = repo.rpartition("/")[2]
    values = {**window, "repo": repo, "name": name, "limit": _COMMANDS}
    return [event for (event,) in tx.all("pushes_around", values)]
