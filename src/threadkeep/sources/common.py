"""What most sources need: times, the text of tool calls, and a quick walk over folders."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from threadkeep.sources.records import Stamp
from threadkeep.sources.segments import compact

_TOO_BIG = 2**63
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def iso_ms(text: object) -> int | None:
    """Read an ISO time as epoch milliseconds; None if it is no time. Without a zone it is UTC."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MILLISECOND


def number(value: object) -> int:
    """Give a count from a log as an integer, 0 if it is none that a database can hold."""
    return int(value) if isinstance(value, (int, float)) and abs(value) < _TOO_BIG else 0


def text(value: object) -> str:
    """Give a text from a log, empty if it is none."""
    return value if isinstance(value, str) else ""


def table(value: object) -> dict[str, Any]:
    """Give an object from a log, empty if it is none."""
    return value if isinstance(value, dict) else {}


def rows(value: object) -> list[Any]:
    """Give a list from a log, empty if it is none."""
    return value if isinstance(value, list) else []


def describe_input(given: object) -> str:
    """Write out a tool's input to be read and searched: commands bare, else `key: value`."""
    if isinstance(given, str):
        return given
    if not isinstance(given, dict):
        return "" if given is None else _rendered(given)
    lines = []
    for key, value in given.items():
        shown = value if isinstance(value, str) else _rendered(value)
        lines.append(shown if key in {"command", "cmd"} and value is shown else f"{key}: {shown}")
    return "\n".join(lines)


def _rendered(value: object) -> str:
    try:
        return compact(value)
    except (RecursionError, ValueError):  # nested beyond reason
        return "…"


def block_text(content: object) -> str:
    """Join the texts of a message's content: a string, or blocks with a `text`."""
    if isinstance(content, str):
        return content
    found = [
        block if isinstance(block, str) else text(table(block).get("text"))
        for block in rows(content)
    ]
    return "\n".join(piece for piece in found if piece)


def stamp_of(status: os.stat_result) -> Stamp:
    """Make the stamp of a file from its status."""
    return Stamp(status.st_size, status.st_mtime_ns, status.st_dev, status.st_ino)


def database_stamp(path: Path) -> Stamp | None:
    """Make the stamp of a database with its write-ahead log; None if there is no such file."""
    try:
        status = path.stat()
    except OSError:
        return None
    try:
        wal = Path(f"{path}-wal").stat()
    except OSError:
        return stamp_of(status)
    size, newest = status.st_size + wal.st_size, max(status.st_mtime_ns, wal.st_mtime_ns)
    return Stamp(size, newest, status.st_dev, status.st_ino)


def files_below(root: Path, *suffixes: str, depth: int = 12) -> Iterator[tuple[Path, Stamp]]:
    """Yield the regular files below a folder in the order of their paths, with their stamps.

    What cannot be looked into is passed over. Links to files count, links to folders do not.
    """
    for path, stamp in paths_below(str(root), suffixes, depth):
        yield Path(path), stamp


def paths_below(root: str, suffixes: tuple[str, ...], depth: int) -> Iterator[tuple[str, Stamp]]:
    """Do the same with plain strings: of thousands of files, `Path` takes most of the time."""
    try:
        with os.scandir(root) as found:
            below = sorted(found, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in below:
        try:
            if entry.is_dir(follow_symlinks=False):
                if depth > 0:
                    yield from paths_below(entry.path, suffixes, depth - 1)
            elif entry.name.endswith(suffixes) and entry.is_file():
                yield entry.path, stamp_of(entry.stat())
        except OSError:
            continue  # it went away while we looked
