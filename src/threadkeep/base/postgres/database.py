"""A store's schema on a PostgreSQL server: transactions, keys, retries, and a wake-up."""

import hashlib
import logging
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Final, NamedTuple, Self, TypeVar
from weakref import WeakKeyDictionary

import psycopg

from threadkeep.base.database import DEFAULT_BUDGET
from threadkeep.base.postgres.errors import is_lost, may_be_retried, translate
from threadkeep.base.postgres.listen import Announcer, Commits, Listener
from threadkeep.base.postgres.pool import Connection, ConnectionPool, HomeAddress, connect
from threadkeep.base.postgres.tx import Insert, PostgresTx
from threadkeep.base.tx import Params, Tx
from threadkeep.errors import Busy, Closed, Conflict, ReadOnly, ThreadkeepError, Unreachable

log = logging.getLogger(__name__)
R = TypeVar("R")

_READ_SECONDS: Final = 30.0  # what one statement of a reader may take
_MORE_SECONDS: Final = 5.0  # ... of a writer, beyond the time that it may wait
_IDLE_MS: Final = 60_000  # how long a transaction may do nothing
_IN_FUTURE: Final = "22023"  # the number of a transaction that is still to come
_ATTEMPTS: Final = 5  # runs of a transaction that others stand in the way of
_PAUSE: Final = 0.02  # before the second run, then twice as long each time

_BEGIN_READ: Final = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_OUTCOME: Final = b"SELECT pg_xact_status(CAST(%(xid)s AS xid8))"
# Another text after a crash or a restart: with a crash, statistics begin again.
_LIFE: Final = b"SELECT concat(pg_postmaster_start_time(), stats_reset) FROM pg_stat_bgwriter"


class _Kind(NamedTuple):
    """A kind of connection, by the settings that it keeps for as long as it lasts."""

    synchronous_commit: str
    statement_seconds: float


class PostgresDatabase:
    """One store of a home on a server; safe to share between threads, usable after a fork."""

    engine: Final = "postgres"
    forgets: Final = True

    def __init__(
        self,
        place: str,
        store: str,
        queries: Mapping[str, str],
        *,
        budget: float = DEFAULT_BUDGET,
        read_only: bool = False,
    ) -> None:
        """Connect, so that a wrong URL is told at once; the schema need not be there yet.

        Once it is, `enter` says what every connection does before it is used.
        """
        self.address = HomeAddress.read(place)
        self.store = store
        self.name = self.address.shown
        self.schema = f"tk_{self.address.home}_{store}"
        self._path = f"{self.schema},tk_{self.address.home}"  # the functions of a home stand once
        self.queries = queries
        self.budget = budget
        self.read_only = read_only
        self.known_tables: set[str] | None = None
        self.numbers: dict[str, str] = {}  # the column with the number of a row, by table
        self.inserts: dict[str, Insert | None] = {}  # as they take arrays, by their text
        self._home_lock = _number_of(self.schema)
        self.enter: Callable[[Connection], object] = _stay
        self._start()
        self.connect().close()

    def _start(self) -> None:
        """Set what belongs to this process; run again in a forked child."""
        self._pid = os.getpid()
        self._closed = False
        self._lives: WeakKeyDictionary[Connection, str] = WeakKeyDictionary()
        reading = _Kind("on", _READ_SECONDS)
        durable = _Kind("on", self.budget + _MORE_SECONDS)
        quick = _Kind("off", self.budget + _MORE_SECONDS)
        self._reading = self._pool(reading)
        self._writing = {True: self._pool(durable), False: self._pool(quick)}
        self._commits = Commits()
        locks = (_number_of(self.schema, "listen"), _number_of(self.schema, "follow"))
        self._listener = Listener(self.connect, self.schema, locks, self._commits)
        self._announcer = Announcer(self.connect, self.schema, locks[0], self._listener)

    def _pool(self, kind: _Kind) -> ConnectionPool:
        return ConnectionPool(lambda: self._connect(kind), self.name)

    def _connect(self, kind: _Kind) -> Connection:
        connection = connect(
            self.address,
            self._path,
            synchronous_commit=kind.synchronous_commit,
            statement_timeout=_ms(kind.statement_seconds),
            lock_timeout=_ms(self.budget),
            idle_in_transaction_session_timeout=_IDLE_MS,
        )
        try:
            self.enter(connection)
            self._lives[connection] = _life_of(connection)
        except BaseException as error:
            connection.close()
            if isinstance(error, psycopg.Error):
                raise self.trouble(error) from error
            raise
        return connection

    def connect(self) -> Connection:
        """Open a connection of its own, without time-outs, for upkeep; the caller closes it."""
        return connect(self.address, self._path, synchronous_commit="on")

    # ------------------------------------------------------------------ the schema

    def vacuum(self) -> None:
        """Give space that nothing uses back to the server's disk."""
        with self.read() as tx:
            tables = sorted(tx.tables())
        with closing(self.connect()) as connection:
            try:
                for table in tables:
                    words = f'VACUUM (FULL, ANALYZE) {self.schema}."{table}"'
                    connection.execute(words.encode())
            except psycopg.Error as error:
                raise self.trouble(error) from error

    # ------------------------------------------------------------------ reading

    @contextmanager
    def read(self, *, lenient: bool = False) -> Iterator[PostgresTx]:  # noqa: ARG002  (all is UTF-8)
        """Begin a read transaction: one consistent snapshot."""
        self._check_alive()
        pool = self._reading
        connection = self._begun(pool, _BEGIN_READ, self.budget)
        tx = PostgresTx(self, connection)
        try:
            yield tx
        finally:
            tx.end()
            _end(connection, b"COMMIT")
            pool.take_back(connection)

    def _begun(self, pool: ConnectionPool, begin: bytes, budget: float) -> Connection:
        """Lend a connection with a transaction on it; nothing is lost if the first was dead."""
        deadline = time.monotonic() + budget
        while True:
            connection = pool.lend(max(0.0, deadline - time.monotonic()))
            try:
                connection.execute(begin)
            except psycopg.Error as error:
                pool.take_back(connection)
                if not is_lost(error) or time.monotonic() > deadline:
                    raise self.trouble(error) from error
            else:
                return connection

    # ------------------------------------------------------------------ writing

    @contextmanager
    def write(
        self, *, durable: bool = True, key: str | None = None, budget: float | None = None
    ) -> Iterator[PostgresTx]:
        """Begin a write transaction; with `durable` its commit survives a crash of the server.

        Writes of one `key` take turns, those of different keys overlap; one without is alone.
        """
        self._check_alive()
        if self.read_only:
            msg = f"{self.name} is open read-only"
            raise ReadOnly(msg, hint="open it for writing")
        pool = self._writing[durable]
        allowed = self.budget if budget is None else budget
        connection = self._begun(pool, b"BEGIN", allowed)
        tx = PostgresTx(self, connection)
        committed = False
        try:
            xid = self._take_turn(connection, key, budget)
            yield tx
            tx.flush()
            tx.end()
            committed = self._commit(connection, xid)
        finally:
            tx.end()
            if not committed:
                _end(connection, b"ROLLBACK")
            elif not connection.closed:
                self._announce(connection)
            pool.take_back(connection)
        self._commits.note()

    def _take_turn(self, connection: Connection, key: str | None, budget: float | None) -> str:
        """Take the locks of a write; give the number of its transaction."""
        if key is None:
            locks = f"pg_advisory_xact_lock({self._home_lock})"
        else:
            locks = (
                f"pg_advisory_xact_lock_shared({self._home_lock}),"
                f" pg_advisory_xact_lock({_number_of(self.schema, key)})"
            )
        patience = "" if budget is None else f"set_config('lock_timeout', '{_ms(budget)}', true), "
        asked = f"SELECT {patience}{locks}, CAST(pg_current_xact_id() AS text)"
        try:
            row = connection.execute(asked.encode(), prepare=False).fetchone()
        except psycopg.Error as error:
            raise self.trouble(error, self.budget if budget is None else budget) from error
        assert row is not None  # noqa: S101  (a SELECT without FROM)
        return str(row[-1])

    def _commit(self, connection: Connection, xid: str) -> bool:
        """Commit; where the connection is lost over it, ask what became of the transaction."""
        try:
            done = connection.execute(b"COMMIT")
        except psycopg.Error as error:
            if not is_lost(error):
                raise self.trouble(error) from error
            if self._was_committed(self._lives.get(connection), xid, error):
                return True
            raise self.trouble(error) from error
        if done.statusmessage != "COMMIT":
            msg = f"{self.name} refused to continue after an error in the same transaction"
            raise Conflict(msg, hint="none of it was stored; look at the first error")
        return True

    def _was_committed(self, life: str | None, xid: str, error: psycopg.Error) -> bool:
        """Ask what became of a transaction; raise where nobody can say.

        A server that crashed may give the number of one that it lost to another: then it tells for
        certain only what was not committed.
        """
        deadline = time.monotonic() + self.budget
        while True:
            try:
                status, same_life = self._outcome(life, xid, deadline)
            except (Unreachable, Busy):
                break
            if status == "aborted" or (status in {"in progress", "unknown"} and not same_life):
                return False
            if status == "committed" and same_life:
                return True
            if status != "in progress" or time.monotonic() > deadline:
                break
            time.sleep(_PAUSE)
        msg = f"{self.name} was lost while a transaction was being stored"
        # Not `from error`: `again` must not take it for one that left nothing behind.
        log.warning("%s: %s", msg, error)
        raise Unreachable(
            msg, hint="it may or may not be stored: check before you write it again"
        ) from None

    def _outcome(self, life: str | None, xid: str, deadline: float) -> tuple[str | None, bool]:
        """Return the state of a transaction, and whether the server lives on since it began.

        `unknown` is one that the server has never seen; None one that is too long ago.
        """
        connection = self._reading.lend(max(0.0, deadline - time.monotonic()))
        try:
            row = connection.execute(_OUTCOME, {"xid": xid}).fetchone()
        except psycopg.Error as error:
            if is_lost(error):
                return "in progress", True
            return ("unknown" if error.sqlstate == _IN_FUTURE else None), self._lives.get(
                connection
            ) == life
        finally:
            self._reading.take_back(connection)
        return row and row[0], self._lives.get(connection) == life

    def again(
        self,
        verb: Callable[[Tx], R],
        *,
        durable: bool = True,
        key: str | None = None,
        idempotent: bool = False,
    ) -> R:
        """Run a function in a write transaction, and again if others or the network broke it."""
        deadline = time.monotonic() + self.budget
        pause, attempt = _PAUSE, 1
        while True:
            try:
                with self.write(durable=durable, key=key) as tx:
                    return verb(tx)
            except ThreadkeepError as error:
                lost = isinstance(error, Unreachable)
                may_run = may_be_retried(error) or (lost and idempotent)
                if not may_run or time.monotonic() + pause > deadline:
                    raise
                if attempt >= _ATTEMPTS and not lost:
                    raise
                log.debug("%s: again after %s", self.name, error)
            time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311  (who collided must part)
            pause, attempt = min(pause * 2, 1.0), attempt + 1

    def send(self, name: str, params: Params, *, durable: bool = False) -> int:
        """Run one statement as its own transaction; give the number of rows it changed."""
        self._check_alive()
        pool = self._writing[durable]
        connection = pool.lend(self.budget)
        tx = PostgresTx(self, connection)
        try:
            changed = tx.count(name, params)
            self._announce(connection)
        finally:
            tx.end()
            pool.take_back(connection)
        self._commits.note()
        return changed

    def _announce(self, connection: Connection) -> None:
        try:
            self._announcer.committed(connection)
        except psycopg.Error as error:  # the next commit, or a look, makes up for it
            log.debug("%s: a commit was not announced: %s", self.name, error)

    def trouble(self, error: psycopg.Error, budget: float | None = None) -> ThreadkeepError:
        """Turn an error of a statement into one of ours."""
        if error.sqlstate == "55P03" and budget is not None:
            msg = f"{self.name} is locked by another writer; waited {budget:g} s"
            return Busy(msg, hint="try again, or raise the time budget")
        return translate(error, self.name)

    # ------------------------------------------------------------------ wake-up

    def changes(self) -> int:
        """Return a number that differs after anybody's commit; hand it to `changed`."""
        self._check_alive()
        self._listener.start()
        return self._commits.number

    def changed(self, seen: int, timeout: float | None = None) -> int:
        """Wait until somebody, here or in another process, commits after `seen`.

        Gives the new number, or `seen` again when `timeout` seconds pass first.
        """
        self._check_alive()
        self._listener.start()
        now = self._commits.wait(seen, timeout)
        self._check_alive()
        return now

    def announce(self, mark: str) -> None:
        """Hold a lock of the server for the process of this mark, as long as we are open."""
        self._check_alive()
        self._listener.hold(self.lock_of(mark))

    def lock_of(self, mark: str) -> int:
        """Return the number of the lock that a process holds."""
        return _number_of(self.schema, "process", mark)

    def follow(self) -> None:
        """Announce a live reader."""
        self._check_alive()
        self._listener.follow(on=True)

    def unfollow(self) -> None:
        """Take back a `follow`; closing takes back all."""
        if self._pid == os.getpid() and not self._closed:
            self._listener.follow(on=False)

    def followed(self) -> bool:
        """Tell whether anybody follows this store live."""
        self._check_alive()
        lock = _number_of(self.schema, "follow")
        connection = self._reading.lend(self.budget)
        try:
            row = connection.execute(
                "SELECT pg_try_advisory_xact_lock(%s)", (lock,), prepare=True
            ).fetchone()
        except psycopg.Error as error:
            raise self.trouble(error) from error
        finally:
            self._reading.take_back(connection)
        return not (row and row[0])

    # ------------------------------------------------------------------ forks and the end

    def _check_alive(self) -> None:
        if self._pid != os.getpid():
            closed = self._closed
            self._inherited = (self._reading, self._writing, self._listener, self._announcer)
            self._start()
            self._closed = closed
        if self._closed:
            msg = f"{self.name} was closed"
            raise Closed(msg, hint="open the store again")

    @property
    def closed(self) -> bool:
        """Tell whether `close` was called."""
        return self._closed

    def close(self) -> None:
        """Close every connection."""
        if self._closed:
            return
        if self._pid != os.getpid():
            self._check_alive()
        self._closed = True
        self._announcer.close()
        self._listener.close()
        for pool in (*self._writing.values(), self._reading):
            pool.close(self.budget)
        self._commits.note()

    def __enter__(self) -> Self:
        """Use the database in a `with` block, which closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the database."""
        self.close()


def _life_of(connection: Connection) -> str:
    row = connection.execute(_LIFE).fetchone()
    return "" if row is None else str(row[0])


def _stay(_: Connection) -> None:
    """Do nothing: the schema is not there yet."""


def _ms(seconds: float) -> int:
    """Return a time-out as the server takes it: 0 would be none."""
    return max(1, round(seconds * 1000))


def _number_of(*names: str) -> int:
    """Return the number of a lock."""
    digest = hashlib.blake2b("\0".join(names).encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "big", signed=True)


def _end(connection: Connection, word: bytes) -> None:
    """End a transaction that has nothing to say any more; a dead connection has ended it."""
    try:
        connection.execute(word)
    except psycopg.Error as error:
        log.debug("%s: %s", word.decode(), error)
