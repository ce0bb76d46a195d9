"""What is seen while capture runs: a bar on stderr for a person, nothing for a program."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import TYPE_CHECKING

from threadkeep.cli.output import is_terminal, one_line, size_text

if TYPE_CHECKING:
    from threadkeep.capture.records import Progress, Watcher


_EVERY = 0.1  # seconds between two changes of what is shown
_NAME = 28


@contextmanager
def progress_bar(*, wanted: bool = True) -> Iterator["Watcher"]:
    """Return what capture tells its progress to; it is shown on stderr if somebody looks there."""
    if not wanted or not is_terminal(err=True):
        yield _nothing
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress as Bar, TextColumn
    from rich.table import Column

    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    whole = Column(no_wrap=True, overflow="ellipsis")
    columns = (
        BarColumn(bar_width=12, table_column=Column(no_wrap=True, min_width=12)),
        TextColumn("{task.description}", markup=False, table_column=whole),
    )
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None, visible=False)  # until there is something to show
        started, shown = time.monotonic(), 0.0

        def show(progress: "Progress") -> None:
            nonlocal shown
            now = time.monotonic()
            if now - shown < _EVERY:
                return
            shown = now
            told = progress_words(progress, now - started)
            done, total = progress.bytes_done, progress.bytes_total
            if progress.doing:
                done, total = progress.logs_done, progress.logs_total
            bar.update(task, completed=done, total=total or None, description=told, visible=True)

        yield show


def _nothing(_: "Progress") -> None:
    pass


def progress_words(progress: "Progress", seconds: float) -> str:
    """Say how far a run is: logs, bytes, speed, messages, errors, and what is being read."""
    done, total = progress.bytes_done, progress.bytes_total
    told = [
        progress.doing,
        f"{progress.logs_done:,}/{progress.logs_total:,}{'' if progress.doing else ' logs'}",
        f"{size_text(done)} of {size_text(total)}" if total else "",
        speed_text(done, seconds) if total else "",
        f"{progress.entries:,} messages" if total else "",
        f"{progress.errors:,} errors" if progress.errors else "",
        "" if progress.doing else short_name(progress.path),
    ]
    return "  ".join(words for words in told if words)


def speed_text(size: int, seconds: float) -> str:
    """Write how fast bytes went by."""
    return f"{size_text(size / seconds)}/s" if seconds > 0 else ""


def short_name(path: str, limit: int = _NAME) -> str:
    """Return the end of a path's last name: what tells logs apart stands there."""
    name = one_line(PurePath(path).name)
    return name if len(name) <= limit else "…" + name[1 - limit :]


@contextmanager
def without_log() -> Iterator[None]:
    """Keep what capture writes to the program's log out of the way: it is shown here anyhow."""
    logger = logging.getLogger("threadkeep.capture")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)
