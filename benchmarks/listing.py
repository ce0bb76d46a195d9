"""`list`: one page of 50 out of very many sessions."""

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

from benchmarks.measure import Counters, in_turn, median_of, used_by
from benchmarks.place import Place
from benchmarks.report import Goal, Result, Table, figure, ratio, times
from threadkeep.chat.store import ChatStore

SESSIONS, PAGE = 100_000, 50
_LIMIT_MS = 1.0
_MILLI = 1e3
_COLUMNS = ("what", "wall ms", "CPU ms", "to raw")
_FIRST, _RAW = "first page", "raw query, rows only"
# Another program filling the table: one session in a thousand belongs to an agent of its own.
_FILL = """
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?)
INSERT INTO chat_sessions(
  id, agent, workspace_root, model_json, permissions_json, metadata_json, created_at, updated_at,
  title)
SELECT printf('ses_%026d', i), CASE WHEN i % 1000 = 7 THEN 'rare' ELSE 'agent' || (i % 5) END,
  '/home/user/project' || (i % 40), '{"provider_id":"acme","model_id":"large"}', '[]',
  CASE WHEN i % 10 = 3 THEN '{"ephemeral":true}' ELSE '{}' END, 1800000000000 + i,
  1800000000000 + i, 'Conversation number ' || i
FROM n
"""
_SELECT = """
SELECT * FROM chat_sessions INDEXED BY idx_chat_sessions_updated WHERE archived_at IS NULL
ORDER BY updated_at DESC, id DESC LIMIT ?
"""


def run(place: Place) -> Result:
    """List the newest, a later page, and filtered pages, with the bare query beside them."""
    with place.fresh() as folder:
        path = folder / "chat.db"
        _fill(path)
        with ChatStore.open(path) as store, closing(sqlite3.connect(path)) as connection:
            ways = _ways(store, connection)
            timed = {name: partial(used_by, way) for name, way in ways.items()}
            runs = in_turn(timed, place.either(60, 20))
    costs = {name: median_of(found) for name, found in runs.items()}
    goal = Goal(
        f"list: {PAGE} of {SESSIONS:,} sessions", _LIMIT_MS, costs[_FIRST].wall * _MILLI, " ms"
    )
    return Result([_table(costs)], [goal])


def _fill(path: Path) -> None:
    ChatStore.open(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(_FILL, (SESSIONS,))


def _ways(store: ChatStore, connection: sqlite3.Connection) -> dict[str, Callable[[], object]]:
    middle = f"{1_800_000_000_000 + SESSIONS // 2}:"
    return {
        _FIRST: partial(store.sessions, limit=PAGE),
        _RAW: lambda: connection.execute(_SELECT, (PAGE,)).fetchall(),
        "a page in the middle": partial(store.sessions, limit=PAGE, cursor=middle),
        "one agent of five": partial(store.sessions, limit=PAGE, agent="agent3"),
        "one workspace of forty": partial(
            store.sessions, limit=PAGE, workspace="/home/user/project7"
        ),
        "an agent with 100 sessions": partial(store.sessions, limit=PAGE, agent="rare"),
        "words of the title, 11 match": partial(store.sessions, limit=PAGE, title="r 9999"),
    }


def _table(costs: Mapping[str, Counters]) -> Table:
    raw = costs[_RAW]
    rows = [
        (
            name,
            figure(cost.wall * _MILLI, 2),
            figure(cost.cpu * _MILLI, 2),
            times(ratio(cost.cpu, raw.cpu)),
        )
        for name, cost in costs.items()
    ]
    return Table(f"list: {PAGE} of {SESSIONS:,} sessions", _COLUMNS, rows)
