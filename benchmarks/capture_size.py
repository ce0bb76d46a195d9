"""How large the archive is, part by part, for each byte of the transcripts in it."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from benchmarks.capture_run import MEGA
from benchmarks.report import Goal, Table, figure, ratio
from benchmarks.state_file import sizes

_LIMIT: Final = 0.35
_COLUMNS: Final = ("part of knowledge.db", "MB", "per byte of source")
_INDEXES: Final = "SELECT name, tbl_name FROM sqlite_master WHERE type = 'index'"
_ARCHIVE: Final = {
    "blocks of lines": ("tk_blocks", "tk_log_blocks"),
    "entries and their indexes": ("tk_entries",),
    "full-text index": ("tk_entry_words",),
    "logs": ("tk_logs",),
}
_REST: Final = "segments, tool events, usage, sessions, all else"


def size_table(path: Path, source: int, what: str) -> tuple[Table, Goal]:
    """Count the pages of a closed file by what they are for."""
    parts = by_part(path)
    archive = sum(parts[name] for name in _ARCHIVE)
    rows = [_row(name, size, source) for name, size in parts.items()]
    rows += [_row("archive: all but the last part", archive, source)]
    rows += [_row("whole file", path.stat().st_size, source)]
    title = f"capture: bytes on disk, {what}, {source / MEGA:,.1f} MB"
    goal = Goal("capture: archive bytes per source byte", _LIMIT, ratio(archive, source), "")
    return Table(title, _COLUMNS, rows), goal


def by_part(path: Path) -> dict[str, int]:
    """Sum up the sizes of tables with their indexes."""
    found = sizes(path)
    whole = path.stat().st_size
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        owner = dict(connection.execute(_INDEXES).fetchall())
    parts = {
        name: sum(size for table, size in found.items() if _belongs(owner.get(table, table), to))
        for name, to in _ARCHIVE.items()
    }
    return {**parts, _REST: whole - sum(parts.values())}


def _belongs(table: str, tables: tuple[str, ...]) -> bool:
    """Tell whether a table is one of these, or one that FTS5 keeps beneath it."""
    return table in tables or any(
        table.startswith(f"{name}_") for name in tables if "words" in name
    )


def _row(name: str, size: int, source: int) -> tuple[str, ...]:
    return name, figure(size / MEGA, 2), figure(ratio(size, source), 3)
