"""`postgres`: messages and chunks on a server, beside psycopg running the same statements.

The server is one of its own, with fsync on. What a call of ours sends is noted once and then sent
again by hand, with other ids: the difference is what the store adds.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import count
from typing import Any, Final
from unittest.mock import patch

import psycopg

from benchmarks.measure import Counters, in_turn, median_of, used_by
from benchmarks.place import Place
from benchmarks.report import Goal, Result, Table, figure, ratio, times
from tests.support.postgres import OwnServer, fresh_database
from threadkeep.base.postgres.database import PostgresDatabase
from threadkeep.base.postgres.schema import StorePlace, enter
from threadkeep.chat.store import ChatStore

_LIMIT: Final = 1 / 0.7  # seven tenths of what psycopg itself does
_MICRO: Final = 1e6
_COLUMNS: Final = ("way", "wall µs", "to raw", "client CPU µs")
_TEXT: Final = "A paragraph of an ordinary message, as people write them. " * 15
_DELTA: Final = {"type": "text-delta", "id": "t", "delta": "some words "}

Statement = tuple[bytes, Mapping[str, Any]]


def run(place: Place) -> Result:
    """Say messages and record chunks, a batch of each way in turn."""
    with OwnServer() as server:
        url = f"{fresh_database(server.place, 'bench')}&home=bench"
        with closing(ChatStore.open(url)) as store, _raw(url, "on") as on, _raw(url, "off") as off:
            session = store.create_session(agent="a", model="m")
            store.say(session, _TEXT)  # plans are made
            said = _noted(lambda: store.say(session, _TEXT))
            batch, chunks = place.either(150, 40), place.either(2000, 300)
            with store.record(session) as recorder:
                for chunk in ({"type": "start"}, {"type": "text-start", "id": "t"}, _DELTA):
                    recorder.feed(chunk)
                fed: list[Statement] = []
                while len(fed) != 1:  # now and then a delta folds what came before it
                    fed = _noted(lambda: recorder.feed(_DELTA))
                ways = {
                    "say()": _times(batch, lambda: store.say(session, _TEXT)),
                    "psycopg, the same statements of say()": _times(batch, _again(on, said)),
                    "feed() of a delta": _times(chunks, lambda: recorder.feed(_DELTA)),
                    "psycopg, the same statement of feed()": _times(chunks, _again(off, fed)),
                }
                runs = in_turn(ways, place.either(9, 3))
    costs = {name: median_of(found) for name, found in runs.items()}
    sizes = dict(zip(costs, (batch, batch, chunks, chunks), strict=True))
    return Result([_table(costs, sizes)], _goals(costs), [])


@contextmanager
def _raw(url: str, durable: str) -> Iterator[psycopg.Connection[Any]]:
    with (
        closing(PostgresDatabase(url, "chat", {})) as database,
        closing(database.connect()) as connection,
    ):
        enter(connection, StorePlace(database.address.home, "chat"))
        connection.execute(f"SET synchronous_commit = {durable}".encode())
        yield connection


def _noted(call: Callable[[], object]) -> list[Statement]:
    """Give the statements that a call sends."""
    found: list[Statement] = []
    execute = psycopg.Cursor.execute

    def noting(cursor: Any, query: Any, params: Any = None, **options: Any) -> Any:
        found.append((query, dict(params or {})))
        return execute(cursor, query, params, **options)

    with patch.object(psycopg.Cursor, "execute", noting):
        call()
    return [one for one in found if b"pg_try_advisory" not in one[0]]


_numbers: Final = count()


def _again(
    connection: psycopg.Connection[Any], statements: list[Statement]
) -> Callable[[], object]:
    """Give what sends statements again, with new ids in the place of those that were made."""
    made = {
        value
        for sql, params in statements
        if sql.startswith(b"INSERT INTO chat_")
        for name, value in params.items()
        if name in {"id", "message_id"}
    }
    made &= {params.get("id") for _, params in statements}

    def work() -> None:
        number = next(_numbers)
        for sql, params in statements:
            given: dict[str, Any] = {
                name: f"{value}-{number}" if value in made else value
                for name, value in params.items()
            }
            given |= {"created_at": given["created_at"] + number} if "created_at" in given else {}
            cursor = connection.execute(sql, given, prepare=not sql.startswith((b"BEGIN", b"COMM")))
            if cursor.description:
                cursor.fetchall()

    return work


def _times(number: int, call: Callable[[], object]) -> Callable[[], Counters]:
    def work() -> None:
        for _ in range(number):
            call()

    return lambda: used_by(work)


def _pairs(costs: Mapping[str, Counters]) -> list[tuple[str, str]]:
    names = list(costs)
    return list(zip(names[::2], names[1::2], strict=True))


def _table(costs: Mapping[str, Counters], sizes: Mapping[str, int]) -> Table:
    rows = [
        (
            name,
            figure(costs[name].wall / sizes[name] * _MICRO, 0),
            times(ratio(costs[name].wall, costs[raw].wall)),
            figure(costs[name].cpu / sizes[name] * _MICRO, 0),
        )
        for ours, raw in _pairs(costs)
        for name in (ours, raw)
    ]
    return Table("postgres: one client, local socket, fsync on", _COLUMNS, rows)


def _goals(costs: Mapping[str, Counters]) -> list[Goal]:
    return [
        Goal(
            f"postgres: {ours} to the same in psycopg",
            _LIMIT,
            ratio(costs[ours].wall, costs[raw].wall),
        )
        for ours, raw in _pairs(costs)
    ]
