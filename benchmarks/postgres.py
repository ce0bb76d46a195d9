"""`postgres`: messages, chunks and logs on a server, beside psycopg running the same statements.

The server is one of its own, with fsync on. What a call of ours sends is noted, and sent again by
hand: the difference is what the store adds. `postgres-large` asks questions over 1,000,000
messages; there nothing is synced, as the time goes into making them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import psycopg

from benchmarks.contest import Contest, contest
from benchmarks.measure import Counters, in_turn, median_of, used_by
from benchmarks.place import Place
from benchmarks.recall import speed
from benchmarks.recall.corpus import Words, write_log
from benchmarks.recall.run import TIMES, times_row
from benchmarks.report import Goal, Result, Table, figure, ratio, times
from tests.support.postgres import OwnServer, fresh_database
from threadkeep.base.postgres.database import PostgresDatabase
from threadkeep.base.postgres.schema import StorePlace, enter
from threadkeep.base.sql import load_queries
from threadkeep.chat.store import ChatStore
from threadkeep.home.home import Home
from threadkeep.knowledge.store import KnowledgeStore

_LIMIT: Final = 1 / 0.7  # seven tenths of what psycopg itself does
_MICRO: Final = 1e6
_COLUMNS: Final = ("way", "wall µs", "to raw", "client CPU µs")
_WRITING: Final = ("50 processes", "ops/s", "p50 ms", "p99 ms", "max ms", "fairness", "refused")
_SIZES: Final = ("what", "MB", "bytes a message")
_WRITERS: Final = 50
_MESSAGES: Final = 1_000_000
_P95_MS: Final = 150.0
_TEXT: Final = "A paragraph of an ordinary message, as people write them. " * 15
_DELTA: Final = {"type": "text-delta", "id": "t", "delta": "some words "}


class Statement(NamedTuple):
    """What was sent, and over which connection."""

    connection: psycopg.Connection[Any]
    sql: Any
    params: Any
    binary: bool = False
    prepare: bool | None = None
    many: bool = False


def run(place: Place) -> Result:
    """Say messages, record chunks and capture logs, each beside psycopg; then contend."""
    with OwnServer(max_connections="300") as server, place.fresh() as folder:
        url = f"{fresh_database(server.place, 'bench')}&home=bench"
        written = _written(place, url)
        bulk = _bulk(place, url.replace("home=bench", "home=bulk"))
        ingested = _ingested(place, url, folder)
        contests = {
            name: contest(url, ("benchmarks.contend_ways", name), _WRITERS, place.either(10, 2))
            for name in ("FULL: threadkeep say()", "NORMAL: threadkeep feed()")
        }
    tables = [
        _table("postgres: one client, local socket, fsync on", written),
        _table("postgres: rows of a batch, per row", bulk),
        _table("postgres: logs of 200 messages, per message", ingested),
        Table("postgres: 50 writers", _WRITING, [_contest_row(*one) for one in contests.items()]),
    ]
    goals = [*_goals(written), *_goals(bulk)]
    goals += [
        Goal(f"postgres: writes refused, 50 writers, {name}", 0, one.refused, "")
        for name, one in contests.items()
    ]
    return Result(tables, goals, [])


def run_large(place: Place) -> Result:
    """Ask over a million messages, and tell how much room they take."""
    many = place.either(_MESSAGES, _MESSAGES // 50)
    quick = {"fsync": "off", "full_page_writes": "off", "autovacuum": "on"}
    with OwnServer(**quick, shared_buffers="1GB") as server, place.fresh() as folder:
        url = f"{fresh_database(server.place, 'large')}&home=large"
        timed, _ = speed.measure(folder, many, many // 10, lambda _: None, url)
        with psycopg.connect(server.place, dbname="large") as connection:
            sizes = [
                (name, figure(size / 1e6, 0), figure(size / many, 0))
                for name, size in connection.execute(_LARGEST).fetchall()
            ]
    name = f"{many:,} messages on a server"
    tables = [
        Table(f"Recall over {name}", TIMES, [times_row(one) for one in timed]),
        Table(f"Room of {name}", _SIZES, sizes),
    ]
    return Result(tables, [Goal(f"recall p95, {name}", _P95_MS, timed[-1].p95, " ms")])


_LARGEST: Final = """
SELECT relname, pg_total_relation_size(oid) FROM pg_class WHERE relkind = 'r'
AND relnamespace = 'tk_large_knowledge'::regnamespace ORDER BY 2 DESC LIMIT 8"""


# ---------------------------------------------------------------------- messages and chunks

Timed = Mapping[str, tuple[Counters, int]]  # what a way used, and for how many


def _written(place: Place, url: str) -> Timed:
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
    sizes = dict(zip(ways, (batch, batch, chunks, chunks), strict=True))
    return {name: (median_of(found), sizes[name]) for name, found in runs.items()}


@contextmanager
def _raw(url: str, durable: str, store: str = "chat") -> Iterator[psycopg.Connection[Any]]:
    with (
        closing(PostgresDatabase(url, store, {})) as database,
        closing(database.connect()) as connection,
    ):
        enter(connection, StorePlace(database.address.home, store))
        connection.execute(f"SET synchronous_commit = {durable}".encode())
        yield connection


def _noted(call: Callable[[], object]) -> list[Statement]:
    """Return the statements that a call sends."""
    found: list[Statement] = []
    execute, many = psycopg.Cursor.execute, psycopg.Cursor.executemany

    def noting(
        cursor: Any, query: Any, params: Any = None, *, prepare: bool | None = None, **options: Any
    ) -> Any:
        binary = cursor.format == psycopg.pq.Format.BINARY
        found.append(Statement(cursor.connection, query, params, binary, prepare))
        return execute(cursor, query, params, prepare=prepare, **options)

    def noting_many(cursor: Any, query: Any, rows: Any, **options: Any) -> None:
        given = list(rows)
        found.append(Statement(cursor.connection, query, given, many=True))
        many(cursor, query, given, **options)

    with (
        patch.object(psycopg.Cursor, "execute", noting),
        patch.object(psycopg.Cursor, "executemany", noting_many),
    ):
        call()
    return [one for one in found if b"pg_try_advisory" not in _bytes(one.sql)]


def _bytes(sql: Any) -> bytes:
    return sql if isinstance(sql, bytes) else str(sql).encode()


_numbers: Final = count()


def _again(
    connection: psycopg.Connection[Any], statements: Sequence[Statement]
) -> Callable[[], object]:
    """Return what sends statements again, with new ids in the place of those that were made."""
    sent = [(one.sql, dict(one.params or {})) for one in statements]
    made = {
        value
        for sql, params in sent
        if sql.startswith(b"INSERT INTO chat_")
        for name, value in params.items()
        if name in {"id", "message_id"}
    }
    made &= {params.get("id") for _, params in sent}

    def work() -> None:
        number = next(_numbers)
        for sql, params in sent:
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


# ---------------------------------------------------------------------- logs


def _bulk(place: Place, url: str) -> Timed:
    """Put in a batch of rows as capturing does, and as psycopg does it."""
    size, numbers = 2_000, count()
    with (
        closing(KnowledgeStore.open(url)) as store,
        _raw(url, "on", "knowledge") as raw,
    ):
        database = store.context.db

        def rows() -> list[dict[str, int]]:
            begin = next(numbers) * size + 1
            return [
                {"entry": begin + n, "session": 1, "turn": begin + n, "words": 9}
                for n in range(size)
            ]

        def ours() -> None:
            with database.write() as tx:
                tx.run_bulk("place_entry", rows())

        sql = load_queries("threadkeep.knowledge", "recall.sql", engine="postgres")["place_entry"]

        def theirs() -> None:
            with raw.transaction(), raw.cursor() as cursor:
                cursor.executemany(sql.encode(), rows())

        ways = {"run_bulk()": _times(3, ours), "psycopg, executemany()": _times(3, theirs)}
        runs = in_turn(ways, place.either(9, 3))
    return {name: (median_of(found), 3 * size) for name, found in runs.items()}


def _ingested(place: Place, url: str, folder: Path) -> Timed:
    """Capture logs into a home, and send what that sent to another one, which is like it.

    Reading logs, masking secrets and stemming words is no affair of the server: no goal is set.
    """
    words, size = Words(7), 200
    # Neither has conversations of its own, which would be captured as well.
    homes = [url.replace("home=bench", f"home={name}") for name in ("ingested", "again")]
    write_log(folder / "user", words, 0, 1)
    captured: list[Counters] = []
    sent: list[Counters] = []
    with (
        Home(homes[0]).history(user_home=folder / "user") as ours,
        Home(homes[1]).history(user_home=folder / "user") as theirs,
        closing(PostgresDatabase(homes[1], "knowledge", {})) as database,
    ):
        connections: dict[int, psycopg.Connection[Any]] = {}

        def same(one: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
            if id(one) not in connections:
                made = connections[id(one)] = database.connect()
                enter(made, StorePlace(database.address.home, "knowledge"))
                durable = one.execute("SHOW synchronous_commit").fetchone() or ("on",)
                made.execute(f"SET synchronous_commit = {durable[0]}".encode())
            return connections[id(one)]

        rounds = place.either(12, 4)
        for number in range(rounds + 2):
            write_log(folder / "user", words, number, rounds + 2)
            if number == 0:  # both begin alike, and plans are made
                ours.capture()
                theirs.capture()
                continue
            noted: list[Statement] = []
            captured.append(used_by(lambda: noted.extend(_noted(ours.capture))))  # noqa: B023
            # Connections that are closed by now only looked whether there are other stores.
            lasting = [one for one in noted if not one.connection.closed]
            pairs = [(same(one.connection), one) for one in lasting]
            sent.append(used_by(partial(_send, pairs)))
        for connection in connections.values():
            connection.close()
    return {
        "capture()": (median_of(captured[1:]), size),
        "psycopg, the same statements of capture()": (median_of(sent[1:]), size),
    }


def _send(pairs: Sequence[tuple[psycopg.Connection[Any], Statement]]) -> None:
    for connection, one in pairs:
        cursor = connection.cursor(binary=one.binary)
        if one.many:
            cursor.executemany(one.sql, one.params)
            continue
        cursor.execute(one.sql, one.params, prepare=one.prepare)
        if cursor.description:
            cursor.fetchall()


# ---------------------------------------------------------------------- what is shown


def _pairs(costs: Timed) -> list[tuple[str, str]]:
    names = list(costs)
    return list(zip(names[::2], names[1::2], strict=True))


def _table(title: str, costs: Timed) -> Table:
    rows = [
        (
            name,
            figure(costs[name][0].wall / costs[name][1] * _MICRO, 0),
            times(ratio(costs[name][0].wall, costs[raw][0].wall)),
            figure(costs[name][0].cpu / costs[name][1] * _MICRO, 0),
        )
        for ours, raw in _pairs(costs)
        for name in (ours, raw)
    ]
    return Table(title, _COLUMNS, rows)


def _contest_row(name: str, found: Contest) -> tuple[str, ...]:
    return (
        name.partition(": ")[2],
        figure(found.rate, 0),
        figure(found.p50, 2),
        figure(found.p99, 1),
        figure(found.longest, 0),
        figure(found.fairness, 2),
        figure(found.refused, 0),
    )


def _goals(costs: Timed) -> list[Goal]:
    return [
        Goal(
            f"postgres: {ours} to the same in psycopg",
            _LIMIT,
            ratio(costs[ours][0].wall, costs[raw][0].wall),
        )
        for ours, raw in _pairs(costs)
    ]
