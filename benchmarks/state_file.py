"""`state-file`: how many bytes a file has for each byte of text in it, table by table."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from benchmarks.place import Place
from benchmarks.report import NOTHING, Goal, Result, Table, figure, ratio
from benchmarks.state_files import Filled, filled

_LIMIT = 1.8
_MEGA = 1e6
_SHOWN = 0.001  # of the payload; smaller tables are summed up
_SUM, _FREE, _REST = "whole file", "free pages", "all smaller ones"
_COLUMNS = ("table or index", "threadkeep MB", "per byte", "v6 MB", "per byte")
_BY_NAME = "SELECT name, sum(pgsize) FROM dbstat GROUP BY name ORDER BY 2 DESC"


def run(place: Place) -> Result:
    """Fill both files, then count their pages."""
    files = filled(place, place.either(200_000, 20_000))
    ours, plain = sizes(files.ours), sizes(files.plain)
    title = f"state-file: {files.messages:,} messages, {files.payload / _MEGA:,.1f} MB of text"
    table = Table(title, _COLUMNS, _rows(files, ours, plain))
    goal = Goal("state-file: bytes per byte of text", _LIMIT, ratio(ours[_SUM], files.payload), "")
    return Result([table], [goal])


def sizes(path: Path) -> dict[str, int]:
    """Return the bytes of each table and index of a closed file, and of all together."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        page = int(connection.execute("PRAGMA page_size").fetchone()[0])
        free = int(connection.execute("PRAGMA freelist_count").fetchone()[0])
        tables = dict(connection.execute(_BY_NAME))
    return {_SUM: path.stat().st_size, **tables, _FREE: free * page}


def _rows(
    files: Filled, ours: Mapping[str, int], plain: Mapping[str, int]
) -> list[tuple[str, ...]]:
    least = files.payload * _SHOWN
    names = [
        name for name in {**ours, **plain} if max(ours.get(name, 0), plain.get(name, 0)) > least
    ]
    names.sort(key=lambda name: -max(ours.get(name, 0), plain.get(name, 0)))
    rows = [_row(name, files.payload, ours.get(name), plain.get(name)) for name in names]
    small = [sum(n for name, n in file.items() if name not in names) for file in (ours, plain)]
    return [*rows, _row(_REST, files.payload, *small)]


def _row(name: str, payload: int, ours: int | None, plain: int | None) -> tuple[str, ...]:
    return (name, *_cells(payload, ours), *_cells(payload, plain))


def _cells(payload: int, size: int | None) -> tuple[str, str]:
    if size is None:
        return NOTHING, NOTHING
    return figure(size / _MEGA, 2), figure(ratio(size, payload), 3)
