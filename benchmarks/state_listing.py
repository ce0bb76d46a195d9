"""`state-list`: twenty sessions out of 200 and out of 200,000."""

import sqlite3
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.measure import in_turn, median_of, used_by
from benchmarks.place import Place
from benchmarks.report import Goal, Result, Table, figure, ratio, times
from benchmarks.state_files import memory
from benchmarks.state_v6 import Plain, listing
from threadkeep.state.hermes_state import SessionDB
from threadkeep.state.search.index_fill import drain

_PAGE = 20
_MILLI = 1e3
_LIMIT = 2.0  # a deeper index, and no more
_SIZES: Final = (200, 2_000, 20_000, 200_000)
_V6, _NEWEST, _ACTIVE = "version 6's statement", "list_sessions_rich(20)", "by last activity"
_SOURCE, _CHILDREN = "of one source", "with children"

# Another program filling the file: one session in ten is a child of the one before it.
_SESSIONS = """
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?)
INSERT INTO sessions(id, source, model, started_at, message_count, parent_session_id)
SELECT printf('session_%08d', i), CASE WHEN i % 100 = 5 THEN 'slack' ELSE 'cli' END, 'none',
  1e9 + i * 60, 2, CASE WHEN i % 10 = 9 THEN printf('session_%08d', i - 1) END
FROM n
"""
_MESSAGES = """
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?)
INSERT INTO messages(session_id, role, content, timestamp)
SELECT printf('session_%08d', i), role, said, 1e9 + i * 60 + more
FROM n, (SELECT 'user' AS role, 'please look at the log' AS said, 1 AS more
         UNION ALL SELECT 'assistant', 'it says that all is well', 2)
"""


def run(place: Place) -> Result:
    """List in files of every size, in turn."""
    sizes = _SIZES[: place.either(4, 3)]
    with memory() as folder, ExitStack() as stack:
        ways: dict[tuple[str, int], Callable[[], object]] = {}
        for size in sizes:
            ways |= _ways(stack, folder, size)
        timed = {name: partial(used_by, way) for name, way in ways.items()}
        runs = in_turn(timed, place.either(21, 7))
    costs = {name: median_of(found).cpu for name, found in runs.items()}
    names = list(dict.fromkeys(name for name, _ in ways))
    columns = ("CPU ms, one page of 20 of", *(f"{size:,}" for size in sizes), "largest : smallest")
    rows = [_row(name, costs, sizes) for name in names]
    grown = ratio(costs[_NEWEST, sizes[-1]], costs[_NEWEST, sizes[0]])
    goal = Goal(f"state-list: {sizes[-1]:,} sessions to {sizes[0]:,}", _LIMIT, grown)
    return Result([Table("state-list: sessions", columns, rows)], [goal])


def _row(name: str, costs: dict[tuple[str, int], float], sizes: tuple[int, ...]) -> tuple[str, ...]:
    found = [costs[name, size] for size in sizes]
    return (name, *(figure(cost * _MILLI, 2) for cost in found), times(ratio(found[-1], found[0])))


def _ways(stack: ExitStack, folder: Path, size: int) -> dict[tuple[str, int], Callable[[], object]]:
    store = stack.enter_context(SessionDB(_filled_store(folder / f"ours-{size}.db", size)))
    drain(store.context)
    plain = stack.enter_context(closing(Plain.create(folder / f"plain-{size}.db")))
    _fill(plain.connection, size)
    pages: dict[str, Callable[[], object]] = {
        _NEWEST: partial(store.list_sessions_rich, limit=_PAGE),
        _ACTIVE: partial(store.list_sessions_rich, limit=_PAGE, order_by_last_active=True),
        _SOURCE: partial(store.list_sessions_rich, "slack", limit=_PAGE),
        _CHILDREN: partial(store.list_sessions_rich, limit=_PAGE, include_children=True),
        _V6: partial(listing, plain.connection, _PAGE),
    }
    return {(name, size): page for name, page in pages.items()}


def _filled_store(path: Path, size: int) -> Path:
    SessionDB(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        _fill(connection, size)
    return path


def _fill(connection: sqlite3.Connection, size: int) -> None:
    connection.execute("BEGIN")
    connection.execute(_SESSIONS, (size,))
    connection.execute(_MESSAGES, (size,))
    connection.execute("COMMIT")
