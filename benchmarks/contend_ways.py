"""What each of the contending processes does, again and again."""

import sqlite3
import time
from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks import plain
from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.chat.store import ChatStore
from threadkeep.errors import Busy

Step = Callable[[], Any]
# Opens the shared file, or the store of a URL, and gives the function that writes once.
Way = Callable[[Any, int], AbstractContextManager[Step]]

_TEXT = "a sentence of some length, as people write them when they talk to an agent. " * 8
_TABLE = "CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, owner INTEGER, text TEXT)"
_INSERT = "INSERT INTO rows(owner, text) VALUES (:owner, :text)"
_BUSY_MS = 5000


class Waits(NamedTuple):
    """How long each write of one process took, and how many were refused."""

    seconds: "array[float]"
    refused: int


@contextmanager
def said(path: Path | str, _number: int) -> Iterator[Step]:
    """Each process talks in a session of its own."""
    with ChatStore.open(path) as store:
        session = store.create_session(agent="bench", model="none/none").id
        yield lambda: store.say(session, _TEXT)


@contextmanager
def recorded(path: Path | str, _number: int) -> Iterator[Step]:
    """Each process records a reply of its own, chunk by chunk."""
    delta = {"type": "text-delta", "id": "p", "delta": "ten letter"}
    with ChatStore.open(path) as store:
        session = store.create_session(agent="bench", model="none/none")
        with store.record(session) as recorder:
            recorder.feed({"type": "start"})
            recorder.feed({"type": "text-start", "id": "p"})
            yield lambda: recorder.feed(delta)


def behind_fair_lock(*, durable: bool) -> Way:
    """One plain insert inside a transaction of threadkeep's database: what the lock alone does."""

    @contextmanager
    def way(path: Path, number: int) -> Iterator[Step]:
        database = SqliteDatabase(path, {"create": _TABLE, "insert": _INSERT})
        row = {"owner": number, "text": _TEXT}

        def step() -> None:
            with database.write(durable=durable) as tx:
                tx.run("insert", row)

        with closing(database):
            with database.write() as tx:
                tx.run("create")
            yield step

    return way


def behind_busy_timeout(synchronous: str) -> Way:
    """The same insert by plain sqlite3: BEGIN IMMEDIATE, and patience of five seconds."""

    @contextmanager
    def way(path: Path, number: int) -> Iterator[Step]:
        row = {"owner": number, "text": _TEXT}
        with closing(plain.connect(path, synchronous)) as connection:
            connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
            connection.execute(_TABLE)

            def step() -> None:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute(_INSERT, row)
                connection.execute("COMMIT")

            yield step

    return way


WAYS: Final[Mapping[str, Way]] = {
    "FULL: busy_timeout, raw insert": behind_busy_timeout("FULL"),
    "FULL: fair lock, raw insert": behind_fair_lock(durable=True),
    "FULL: threadkeep say()": said,
    "NORMAL: busy_timeout, raw insert": behind_busy_timeout("NORMAL"),
    "NORMAL: fair lock, raw insert": behind_fair_lock(durable=False),
    "NORMAL: threadkeep feed()": recorded,
}


def write_for(seconds: float, step: Step) -> Waits:
    """Write without a pause for so long; count what each write took."""
    waits, refused = array("d"), 0
    now = time.perf_counter()
    deadline = now + seconds
    while now < deadline:
        started = now
        try:
            step()
        except (Busy, sqlite3.OperationalError):
            refused += 1
        now = time.perf_counter()
        waits.append(now - started)
    return Waits(waits, refused)
