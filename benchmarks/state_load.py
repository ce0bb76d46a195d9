"""`state-load`: a long session read back, opening a large file, and pruning it."""

import os
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measure import Counters, in_turn, median_of, used_by
from benchmarks.place import Place
from benchmarks.report import Goal, Result, Table, figure, ratio, times
from benchmarks.state_corpus import Json, Session, sessions
from benchmarks.state_files import Filled, copied, filled, memory
from benchmarks.state_v6 import Plain, messages_of, rows_of
from threadkeep.state.hermes_state import SessionDB
from threadkeep.state.retention import prune_sessions

COUNT = 2_000
_LIMIT = 1.5
_MILLI, _MEGA = 1e3, 1e6
_COLUMNS = ("what", "CPU ms", "to raw", "wall ms")
_GET, _CONVERSATION, _PAGE = "get_messages()", "get_messages_as_conversation()", "the latest 50"
_ROWS, _RAW = "raw rows only", "raw, as dicts, tool calls decoded"
_PRUNED = 10  # one session in so many is pruned
_DAY = 86_400.0
_OLD = "SELECT id FROM sessions WHERE ended_at IS NOT NULL AND started_at < ?"
_DELETE = (
    f"DELETE FROM messages WHERE session_id IN ({_OLD})",
    f"DELETE FROM sessions WHERE id IN ({_OLD})",
)


def run(place: Place) -> Result:
    """Load, open and prune in every way."""
    files = filled(place, place.either(200_000, 20_000))
    loaded = _load(files, place.either(40, 10))
    opened = _open(files, place.either(41, 11))
    pruned = _prune(place, files)
    goal = ratio(loaded[_GET].cpu, loaded[_RAW].cpu)
    goals = [Goal(f"state-load: CPU of {COUNT:,} messages to raw dicts", _LIMIT, goal)]
    title = f"state-load: a session of {COUNT:,} messages, in a file of {files.messages:,}"
    return Result([_table(title, loaded, _RAW), opened, pruned], goals)


# ------------------------------------------------------------------ reading


def _messages() -> list[Json]:
    found = [message for session in sessions(COUNT) for message in session.messages]
    return [{**message, "timestamp": float(place)} for place, message in enumerate(found)]


def _load(files: Filled, rounds: int) -> dict[str, Counters]:
    """Read a long session that is one of very many: who looks at the others is found out."""
    given = _messages()
    with (
        memory() as folder,
        SessionDB(copied(files.ours, folder)) as store,
        closing(Plain(copied(files.plain, folder))) as plain,
    ):
        for name in ("long", "later"):
            store.create_session(name, "cli")
            store.append_messages(name, given)
            plain.begin_session(Session(name, "cli", "none", "", 0.0, ended=False, messages=given))
            plain.append_all(name, given)
        ways: dict[str, Callable[[], list[Any]]] = {
            _GET: partial(store.get_messages, "long"),
            _CONVERSATION: partial(store.get_messages_as_conversation, "long"),
            _PAGE: partial(store.get_messages, "long", limit=50, latest=True),
            _RAW: partial(messages_of, plain.connection, "long"),
            _ROWS: partial(rows_of, plain.connection, "long"),
        }
        _check(ways)
        timed = {name: partial(used_by, way) for name, way in ways.items()}
        runs = in_turn(timed, rounds)
    return {name: median_of(found) for name, found in runs.items()}


def _check(ways: Mapping[str, Callable[[], list[Any]]]) -> None:
    """Both must give the same messages, or there is nothing to compare; ours have newer fields."""
    ours, raw = ways[_GET](), ways[_RAW]()
    shown = [{name: one[name] for name in same} for one, same in zip(ours, raw, strict=True)]
    if len(ours) != COUNT or shown != raw:
        raise AssertionError(_GET)


def _table(title: str, costs: Mapping[str, Counters], base: str) -> Table:
    rows = [
        (
            name,
            figure(cost.cpu * _MILLI, 2),
            times(ratio(cost.cpu, costs[base].cpu)),
            figure(cost.wall * _MILLI, 2),
        )
        for name, cost in costs.items()
    ]
    return Table(title, _COLUMNS, rows)


# ------------------------------------------------------------------ opening


def _open(files: Filled, rounds: int) -> Table:
    raw, ours = "raw open and close", "SessionDB open and close"
    with memory() as folder:
        path = copied(files.ours, folder)
        ways = {
            ours: lambda: SessionDB(path).close(),
            "SessionDB, read-only": lambda: SessionDB(path, read_only=True).close(),
            raw: lambda: _look(path),
        }
        timed = {name: partial(used_by, way) for name, way in ways.items()}
        costs = {name: median_of(found) for name, found in in_turn(timed, rounds).items()}
    return _table(f"state-load: opening a file of {files.messages:,} messages", costs, raw)


def _look(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT version FROM schema_version").fetchone()


# ------------------------------------------------------------------ pruning


def _prune(place: Place, files: Filled) -> Table:
    """Prune a tenth of the sessions, the oldest, in a file on disk."""
    rows = []
    with place.fresh() as folder:
        for name, prune, source in (
            ("prune_sessions()", _prune_ours, files.ours),
            ("version 6's way", _prune_plain, files.plain),
        ):
            path = copied(source, folder)
            before = path.stat().st_size
            used = used_by(partial(prune, path, _cutoff(path)))
            sizes = (figure(size / _MEGA, 1) for size in (before, path.stat().st_size))
            rows.append((name, figure(used.cpu * _MILLI, 0), figure(used.wall * _MILLI, 0), *sizes))
            os.unlink(path)  # noqa: PTH108
    columns = ("way", "CPU ms", "wall ms", "MB before", "MB after")
    return Table(f"state-load: pruning one session in {_PRUNED}", columns, rows)


def _cutoff(path: Path) -> float:
    """Return the time before which a tenth of the sessions began."""
    with closing(sqlite3.connect(path)) as connection:
        begun = [row[0] for row in connection.execute("SELECT started_at FROM sessions")]
    return float(sorted(begun)[len(begun) // _PRUNED])


def _prune_ours(path: Path, cutoff: float) -> None:
    days = 90
    with SessionDB(path, clock=lambda: cutoff + days * _DAY) as store:
        prune_sessions(store.context, days)


def _prune_plain(path: Path, cutoff: float) -> None:
    with closing(Plain(path)) as plain:
        plain.connection.execute("BEGIN IMMEDIATE")
        for statement in _DELETE:
            plain.connection.execute(statement, (cutoff,))
        plain.connection.execute("COMMIT")
