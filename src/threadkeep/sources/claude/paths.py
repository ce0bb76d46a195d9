"""Where Claude Code keeps its transcripts, and what a transcript's path says about it."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from threadkeep.sources.folders import folders_in, listed, paths_below, tell_unseen
from threadkeep.sources.records import Log, Stamp, UserHome

_DESKTOP: Final = Path("Claude", "local-agent-mode-sessions")
_DESKTOP_DEPTH: Final = 8
_DEPTH: Final = 12
# The agent's workspaces lie beside its transcripts; these two are deep and never hold any.
_NOT_WORTH_A_LOOK: Final = frozenset({".git", "node_modules"})
_NO_TRANSCRIPTS: Final = frozenset({"memory", "tool-results"})
_JOURNAL: Final = "journal"


def project_folders(user: UserHome) -> list[Path]:
    """Name the folders that hold one folder of transcripts per project."""
    named = user.env.get("CLAUDE_CONFIG_DIR", "").split(",")
    moved = [_expanded(place.strip(), user.home) for place in named if place.strip()]
    usual = [user.home / ".claude", _settings(user) / "claude"]
    return [place / "projects" for place in dict.fromkeys([*moved, *usual])]


def desktop_folders(user: UserHome) -> list[Path]:
    """Name the folders in which the desktop program hides such folders, several levels deep."""
    local = Path(user.env.get("LOCALAPPDATA") or user.home / "AppData" / "Local")
    parents = [
        _settings(user),
        user.home / "Library" / "Application Support",
        Path(user.env.get("APPDATA") or user.home / "AppData" / "Roaming"),
        *(package / "LocalCache" / "Roaming" for package in _packages(local / "Packages", user)),
    ]
    return [parent / _DESKTOP for parent in dict.fromkeys(parents)]


def find_logs(user: UserHome) -> Iterator[Log]:
    """Yield every transcript in the order of its path; a folder with two names is read once."""
    hidden = [found for place in desktop_folders(user) for found in _hidden(place, user)]
    return logs_in({*project_folders(user), *hidden}, user)


def logs_in(folders: Iterable[Path], user: UserHome) -> Iterator[Log]:
    """Yield the transcripts below folders that hold one folder per project."""
    seen: set[tuple[int, int]] = set()
    for folder in sorted(folders):
        try:
            status = folder.stat()
        except OSError as error:
            tell_unseen(str(folder), error, user)
            continue
        if (status.st_dev, status.st_ino) not in seen:
            seen.add((status.st_dev, status.st_ino))
            place = str(folder)
            for path, stamp in paths_below(place, user, (".jsonl",), _DEPTH, is_root=True):
                yield from _log(path, stamp, path[len(place) + 1 :].split("/"))


def is_journal(log: Log) -> bool:
    """Tell whether a log is the journal of a workflow: it names agents, and nobody speaks in it."""
    path = Path(log.path)
    return path.stem == _JOURNAL and path.parent.parent.name == "workflows"


def is_loose_agent(log: Log) -> bool:
    """Tell whether a log is a subagent's that older versions kept beside the sessions."""
    return not log.is_subagent and log.session_id.startswith("agent-")


def _log(path: str, stamp: Stamp, parts: list[str]) -> Iterator[Log]:
    """Read a path: `project/session.jsonl`, or below `project/session/subagents/`."""
    if not _NO_TRANSCRIPTS.isdisjoint(parts[1:-1]):
        return
    stem = readable(parts[-1].removesuffix(".jsonl"))
    folders = [readable(part) for part in parts[:-1]]
    if "subagents" not in folders[2:]:
        yield Log(path, stamp, stem, folders[-1] if folders else "projects")
        return
    at = folders.index("subagents", 2)
    if stem == _JOURNAL:
        stem = f"{_JOURNAL}-{folders[-1]}"  # the bare name would be that of all journals
    yield Log(path, stamp, stem, folders[at - 2], folders[at - 1], is_subagent=True)


def readable(name: str) -> str:
    """Replace the bytes of a name that are not UTF-8: a database would refuse them."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _expanded(place: str, home: Path) -> Path:
    return home / place[2:] if place.startswith("~/") else home / place


def _settings(user: UserHome) -> Path:
    return Path(user.env.get("XDG_CONFIG_HOME") or user.home / ".config")


def _packages(folder: Path, user: UserHome) -> list[Path]:
    """Name the places of the desktop program as the Windows store installs it."""
    below = listed(str(folder), user, is_root=True)
    return [Path(entry.path) for entry in below if "Claude_" in entry.name]


def _hidden(
    folder: Path, user: UserHome, depth: int = _DESKTOP_DEPTH, *, is_root: bool = True
) -> Iterator[Path]:
    """Yield the folders of projects that lie somewhere below a folder of the desktop program."""
    for below in folders_in(folder, user, is_root=is_root):
        if below.name == "projects":
            yield below
        elif depth > 1 and below.name not in _NOT_WORTH_A_LOOK:
            yield from _hidden(below, user, depth - 1, is_root=False)
