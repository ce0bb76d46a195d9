"""`load`: a session of 1,000 messages, read back as objects."""

import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

from benchmarks import plain
from benchmarks.corpus import Json, messages
from benchmarks.measure import Counters, in_turn, median_of, used_by
from benchmarks.place import Place
from benchmarks.report import Goal, Result, Table, figure, ratio, times
from threadkeep.chat.store import ChatStore

COUNT = 1_000
_LIMIT = 1.5
_MILLI = 1e3
_COLUMNS = ("way", "CPU ms", "to raw", "wall ms")
_OURS, _RAW, _RAW_THREE = "threadkeep ui_messages()", "raw, one table", "raw, the three tables"


def run(place: Place) -> Result:
    """Load the same conversation in every way, in turn."""
    with place.fresh() as folder:
        session = _fill_store(folder / "chat.db")
        _fill_plain(folder / "raw.db")
        with (
            ChatStore.open(folder / "chat.db") as store,
            closing(sqlite3.connect(folder / "chat.db")) as three,
            closing(sqlite3.connect(folder / "raw.db")) as one,
        ):
            ways: dict[str, Callable[[], list[Json]]] = {
                _OURS: partial(store.ui_messages, session),
                _RAW: partial(_load_one_table, one),
                _RAW_THREE: partial(_load_three_tables, three, session),
            }
            _check(ways)
            timed = {name: partial(used_by, way) for name, way in ways.items()}
            runs = in_turn(timed, place.either(40, 10))
    costs = {name: median_of(found) for name, found in runs.items()}
    return Result([_table(costs)], [_goal(costs)])


def _fill_store(path: Path) -> str:
    with ChatStore.open(path) as store:
        session = store.create_session(agent="bench", model="none/none")
        for message in messages(COUNT):
            store.put_message(session, message)
        return session.id


def _fill_plain(path: Path) -> None:
    with closing(plain.connect(path, "NORMAL", plain.MESSAGES)) as connection:
        connection.execute("BEGIN")
        for number, message in enumerate(messages(COUNT)):
            content = json.dumps(message["parts"])
            row = (f"msg_{number:06}", "ses", message["role"], content, number)
            connection.execute(plain.INSERT_MESSAGE, row)
        connection.execute("COMMIT")


def _load_one_table(connection: sqlite3.Connection) -> list[Json]:
    rows = connection.execute(
        "SELECT id, role, content FROM messages WHERE session_id = 'ses' ORDER BY created_at"
    )
    return [
        {"id": message_id, "role": role, "parts": json.loads(content)}
        for message_id, role, content in rows
    ]


def _load_three_tables(connection: sqlite3.Connection, session: str) -> list[Json]:
    rows = connection.execute(
        "SELECT id, role FROM chat_messages WHERE session_id = ? ORDER BY created_at, id",
        (session,),
    )
    loaded: dict[str, Json] = {
        message_id: {"id": message_id, "role": role, "parts": []} for message_id, role in rows
    }
    parts = connection.execute(
        'SELECT message_id, data_json FROM chat_parts WHERE session_id = ? ORDER BY "index"',
        (session,),
    )
    for message_id, data_json in parts:
        loaded[message_id]["parts"].append(json.loads(data_json))
    return list(loaded.values())


def _check(ways: Mapping[str, Callable[[], list[Json]]]) -> None:
    """All of them must give the same conversation, or there is nothing to compare."""
    expected = [(message["role"], message["parts"]) for message in messages(COUNT)]
    for name, way in ways.items():
        if [(message["role"], message["parts"]) for message in way()] != expected:
            raise AssertionError(name)


def _table(costs: Mapping[str, Counters]) -> Table:
    raw = costs[_RAW]
    rows = [
        (
            name,
            figure(cost.cpu * _MILLI, 2),
            times(ratio(cost.cpu, raw.cpu)),
            figure(cost.wall * _MILLI, 2),
        )
        for name, cost in costs.items()
    ]
    return Table(f"load: a session of {COUNT:,} messages", _COLUMNS, rows)


def _goal(costs: Mapping[str, Counters]) -> Goal:
    what = f"load: CPU of {COUNT:,} messages to raw rows with json.loads"
    return Goal(what, _LIMIT, ratio(costs[_OURS].cpu, costs[_RAW].cpu))
