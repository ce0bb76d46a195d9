"""Evidence that something happened: what shells remember, which browsers run, what waits."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from threadkeep.base.spool import Spool
from threadkeep.collect.rules import matches
from threadkeep.doctor.memory import SeenHistory
from threadkeep.doctor.snapshot import MissingCommands, PendingReports
from threadkeep.errors import ThreadkeepError
from threadkeep.sources.shell_history import HistoryCommand, HistoryFile, Tally, read_past

# Histories keep whole seconds, and a command is stored when it has ended.
_SLACK_MS: Final = 2_000
_BROWSERS: Final = (*("firefox", "librewolf", "chrome", "chromium", "brave", "msedge", "vivaldi"),)
_PROC: Final = Path("/proc")


def hooked_shells(hooks: Path) -> dict[str, int]:
    """Give the shells whose hook was written, and when that was."""
    found = {}
    try:
        entries = sorted(hooks.iterdir())
    except OSError:
        return {}
    for entry in entries:
        if entry.name.startswith("hook."):
            found[entry.name.removeprefix("hook.")] = entry.stat().st_mtime_ns // 1_000_000
    return found


def typed_since(
    histories: Iterable[HistoryFile],
    hooks: Mapping[str, int],
    last_stored: int | None,
    patterns: tuple[str, ...],
    before: Mapping[str, SeenHistory],
) -> tuple[MissingCommands | None, dict[str, SeenHistory]]:
    """Find commands that a history has and the store has not, and what to remember.

    Only shells with the hook count, from the time on at which they got it. A history that looks
    as it did is not read again.
    """
    seen = {}
    for file in histories:
        began = max(hooks.values(), default=None) if file.kind == "atuin" else hooks.get(file.kind)
        if began is None:
            continue
        after = max(began, last_stored or 0) + _SLACK_MS
        found = _read_history(file, after, patterns, before.get(str(file.path)))
        if found is not None:
            seen[str(file.path)] = found
    missing = [(one.since, path, one.commands) for path, one in seen.items() if one.commands]
    if not missing:
        return None, seen
    since, path, commands = min(missing)
    return MissingCommands(since, commands, path), seen


def _read_history(
    file: HistoryFile, after: int, patterns: tuple[str, ...], before: SeenHistory | None
) -> SeenHistory | None:
    try:
        found = os.stat(file.path)
        looks = (found.st_mtime_ns, found.st_size)
        if before is not None and (before.looks, before.after) == (looks, after):
            return before
        if found.st_mtime_ns // 1_000_000 <= after:
            return None
        times = [at for at in _times(read_past(file, Tally()), patterns) if at > after]
    except (OSError, ThreadkeepError):
        return None  # a history that cannot be read is no evidence
    return SeenHistory(looks, after, min(times, default=0), len(times))


def _times(entries: Iterable[HistoryCommand], patterns: tuple[str, ...]) -> Iterator[int]:
    """Yield when commands were typed that nobody keeps out."""
    for entry in entries:
        hidden = entry.command.startswith(" ") or matches(entry.command, patterns)
        if entry.at_ms is not None and not hidden:
            yield entry.at_ms


def waiting_in(place: str, folder: Path) -> PendingReports | None:
    """Tell how much waits in a folder of reports, and since when; None if nothing does."""
    try:
        files = Spool(folder).waiting()
    except ThreadkeepError:
        return None  # the doctor says so
    times = [at for at in map(_modified, files) if at is not None]
    return PendingReports(place, len(times), min(times)) if times else None


def _modified(path: Path) -> int | None:
    try:
        return path.lstat().st_mtime_ns // 1_000_000
    except OSError:
        return None


def browser_runs(proc: Path = _PROC) -> bool:
    """Tell whether a browser of this user runs, as far as the system tells."""
    try:
        numbers = [entry for entry in os.listdir(proc) if entry.isdigit()]  # noqa: PTH208  (quick)
    except OSError:
        return False
    return any(_is_browser(proc / number / "exe") for number in numbers)


def _is_browser(link: Path) -> bool:
    try:
        name = os.path.basename(os.readlink(link)).lower()  # noqa: PTH115, PTH119  (quick)
    except OSError:
        return False
    return name.startswith(_BROWSERS)
