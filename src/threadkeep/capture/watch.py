"""Watching: the store follows the logs within seconds, at almost no cost while nothing happens.

Where the package watchfiles is installed, the system tells which folders changed; without it every
log is looked at again and again. Either way all of them are looked at twice a minute: folders come
into being, and systems lose events.
"""

import importlib.util
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from threadkeep.capture.engine import CaptureFilter, capture
from threadkeep.capture.intake import CaptureContext
from threadkeep.capture.records import CaptureReport, index_behind
from threadkeep.knowledge.health import heartbeat
from threadkeep.knowledge.memory_documents import WATCHER
from threadkeep.knowledge.segments import settle
from threadkeep.sources.records import Source

log = logging.getLogger(__name__)

Stop = Callable[[], bool]
Tell = Callable[[CaptureReport], None]

_FULL_LOOK_SECONDS: Final = 30.0
_DEBOUNCE_MS: Final = 400
_STEP_MS: Final = 200  # with the package's own 50 it wakes up twenty times a second
_TICK_MS: Final = 500
_TICKS_BETWEEN_PLACES: Final = 20
# Their logs lie among the user's own files, in trees too large to be watched; twice a minute does.
_NOT_WATCHED: Final = frozenset({"aider", "crush", "vscode-copilot"})


def watch(
    around: CaptureContext,
    sources: Mapping[str, Source],
    stop: Stop,
    show: Tell,
    *,
    poll_seconds: float = 2.0,
    wait: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Capture, and keep capturing what changes, until `stop` is set.

    `show` gets the report of every run that brought something or failed.
    """

    def look(among: Mapping[str, Source], wanted: CaptureFilter = CaptureFilter()) -> None:  # noqa: B008
        report = capture(around, among, wanted, show=lambda _: _end_if(stop))
        came = report.errors or any(p.lines or p.memories for p in report.agents.values())
        if came or wanted.again:
            index_behind(around.store, live=not wanted.again)
        if came:
            show(report)

    with suppress(_Ended):
        _watch(around, sources, stop, look, poll_seconds, wait, clock)


class _Ended(Exception):
    """It is the end, in the middle of a run: what is not committed is read again the next time."""


def _end_if(stop: Stop) -> None:
    if stop():
        raise _Ended


def _watch(
    around: CaptureContext,
    sources: Mapping[str, Source],
    stop: Stop,
    look: Callable[..., None],
    poll_seconds: float,
    wait: Callable[[float], None],
    clock: Callable[[], float],
) -> None:
    look(sources)
    last = clock()

    def places() -> list[Path]:
        return _existing(around, sources)

    for changed in _changes(places, stop, poll_seconds, wait):
        if stop():
            return
        if clock() - last >= _FULL_LOOK_SECONDS:
            last = clock()
            _beat(around, sources)
            look(sources)
        elif changed is None:
            look(sources, CaptureFilter(again=False))
        elif touched := _touched(around, sources, changed):
            look(touched, CaptureFilter(again=False))


def _beat(around: CaptureContext, sources: Mapping[str, Source]) -> None:
    """Say that somebody is watching, and give tickets to segments that came to rest unseen."""
    now = around.clock()
    with around.store.write() as tx:
        heartbeat(tx, "claude-session-watcher", now)
        if any(source.kind == "memory" for source in sources.values()):
            heartbeat(tx, WATCHER, now)
        settle(tx, now)


def _touched(
    around: CaptureContext, sources: Mapping[str, Source], changed: set[str]
) -> dict[str, Source]:
    file = around.store.file
    paths = [path for path in changed if file is None or not path.startswith(str(file))]
    return {
        name: source
        for name, source in sources.items()
        if any(_is_below(path, root) for root in source.roots(around.user) for path in paths)
    }


def _is_below(path: str, root: Path) -> bool:
    # Beside a database lie its log files; their names begin with its own.
    place = os.path.realpath(root)
    return path.startswith((place, str(root)))


def _existing(around: CaptureContext, sources: Mapping[str, Source]) -> list[Path]:
    """Return the folders to watch: roots that are there, of files the folder they lie in."""
    watched = [source for name, source in sources.items() if name not in _NOT_WATCHED]
    found = {root for source in watched for root in source.roots(around.user)}
    folders = {root if root.is_dir() else root.parent for root in found if root.exists()}
    return sorted(folders)


# ---------------------------------------------------------------------- how changes are noticed


def _changes(
    places: Callable[[], list[Path]], stop: Stop, poll_seconds: float, wait: Callable[[float], None]
) -> Iterator[set[str] | None]:
    """Yield what changed whenever something may have; None means that anything may."""
    told = importlib.util.find_spec("watchfiles") is not None
    while not stop():
        roots = places()
        if not (told and roots):
            _pause(poll_seconds, stop, wait)
            yield None
            continue
        try:
            for tick, changed in enumerate(_told(roots), 1):
                yield changed
                # A program may have been used for the first time. To look for that at every tick
                # took 0.4 % of a core.
                if stop() or (tick % _TICKS_BETWEEN_PLACES == 0 and places() != roots):
                    break
        except (OSError, RuntimeError, ImportError) as error:
            # Too many watches, an odd file system, a package that does not fit this machine.
            told = False
            log.warning("the system cannot tell what changes (%s): looking regularly", error)


def _pause(seconds: float, stop: Stop, wait: Callable[[float], None]) -> None:
    """Wait in ticks: a sleep continues after a signal, so the end would come that late."""
    left = seconds
    while left > 0 and not stop():
        wait(min(left, _TICK_MS / 1000))
        left -= _TICK_MS / 1000


def _told(roots: Iterable[Path]) -> Iterator[set[str] | None]:
    from watchfiles import watch as told  # noqa: PLC0415  (an extra)

    telling = told(
        *roots,
        watch_filter=None,
        debounce=_DEBOUNCE_MS,
        step=_STEP_MS,
        rust_timeout=_TICK_MS,
        yield_on_timeout=True,
        ignore_permission_denied=True,
        raise_interrupt=True,
    )
    for number, changes in enumerate(telling):
        # Nobody tells what changed after the last look and before the system was asked.
        yield {path for _, path in changes} if number else None
