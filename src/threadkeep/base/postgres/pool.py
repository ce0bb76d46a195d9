"""Connections to one home: lent to a transaction, taken back, and left alone after a fork."""

import os
import select
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from threadkeep.base.clock import zone_name
from threadkeep.base.postgres.errors import ADDRESS_FORM, refusal
from threadkeep.base.postgres.values import adapt
from threadkeep.errors import Busy, Closed, Invalid, Unreachable, UnsupportedEngine

Connection = psycopg.Connection[Any]

_HOME: Final = "main"
_LONGEST_NAME: Final = 30  # of a home: the names of schemas and roles are made of it
_OLDEST: Final = 13  # what is in functions_of_15.sql is built in later
_LARGEST: Final = 16  # connections of one kind; who asks for more waits
_IDLE_SECONDS: Final = 300.0  # after which a connection that nobody needs is closed
_FIRST_PAUSE, _LAST_PAUSE = 0.02, 0.5  # between two attempts to connect
_KEEPALIVE: Final = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
    "connect_timeout": 10,
}


class HomeAddress(NamedTuple):
    """Where a home is: the URL that the server takes, the name of the home, and what is shown.

    `postgresql://user:password@host:port/database?home=team`: a database has as many homes as one
    likes. `home` is ours, the rest of the URL is as libpq has it.
    """

    url: str
    home: str
    shown: str

    @classmethod
    def read(cls, place: str) -> "HomeAddress":
        """Read a URL; the one that is shown has no password."""
        try:
            parts = urlsplit(place)
        except ValueError as error:  # without the URL itself: there may be a password in it
            msg = f"the URL of a home cannot be read: {error}"
            raise Invalid(msg, hint=f"write {ADDRESS_FORM}") from None
        given = parse_qsl(parts.query, keep_blank_values=True)
        home = dict(given).get("home", _HOME)
        if not (
            home.isascii() and home.isidentifier() and home.islower() and len(home) <= _LONGEST_NAME
        ):
            msg = f"{home!r} is not the name of a home"
            raise Invalid(msg, hint="use lowercase letters, digits and _, at most 30")
        rest = [one for one in given if one[0] != "home"]
        user, _, host = parts.netloc.rpartition("@")
        netloc = f"{user.partition(':')[0]}@{host}" if user else host
        told = [*(one for one in rest if "password" not in one[0]), ("home", home)]
        # Written by hand: urlunsplit() drops the slashes of an empty host.
        url = f"postgresql://{parts.netloc}{parts.path}?{_query(rest)}"
        shown = f"postgresql://{netloc}{parts.path}?{_query(told)}"
        return cls(url, home, shown)


def _query(given: list[tuple[str, str]]) -> str:
    return urlencode(given, quote_via=quote, safe="/")


def connect(address: HomeAddress, schema: str, **settings: object) -> Connection:
    """Open a connection that sees one schema, with settings of the server for as long as it lasts.

    Raises what went wrong in our words.
    """
    chosen = {"search_path": schema, "timezone": zone_name(None, os.environ), **settings}
    try:
        given = conninfo_to_dict(address.url)
        options = " ".join(
            [str(given.get("options", "")), *(f"-c {key}={one}" for key, one in chosen.items())]
        )
        conninfo = make_conninfo("", **{**_KEEPALIVE, **given, "options": options})
        connection: Connection = psycopg.connect(conninfo, autocommit=True)
    except psycopg.Error as error:
        raise refusal(error, address.shown) from error
    _refuse_old(connection, address.shown)
    adapt(connection)
    return connection


def _refuse_old(connection: Connection, name: str) -> None:
    version = connection.info.server_version
    if version < _OLDEST * 10_000:
        connection.close()
        msg = f"{name} is a server of PostgreSQL {version // 10_000}"
        raise UnsupportedEngine(msg, hint=f"use PostgreSQL {_OLDEST} or later")


class ConnectionPool:
    """Connections of one kind; safe to share between threads."""

    def __init__(self, make: Callable[[], Connection], name: str) -> None:
        self._make = make
        self._name = name
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._guard = threading.Lock()
        self._free = threading.BoundedSemaphore(_LARGEST)
        self._lent: dict[Connection, int] = {}
        self._returned = threading.Condition()
        self._idle: list[tuple[float, Connection]] = []
        self._closed = False

    def lend(self, budget: float) -> Connection:
        """Lend a connection that works; wait so long for one, and for a server that restarts."""
        if self._pid != os.getpid():
            self._inherited = self._idle  # never closed here: that would end the parent's
            self._start()
        deadline = time.monotonic() + budget
        if not self._free.acquire(timeout=max(budget, 0.001)):
            msg = f"{self._name}: all {_LARGEST} connections of this process are in use"
            raise Busy(msg, hint="let fewer threads use the store at once")
        try:
            connection = self._idle_one() or self._new_one(deadline)
        except BaseException:
            self._free.release()
            raise
        self._lent[connection] = threading.get_ident()
        return connection

    def _idle_one(self) -> Connection | None:
        while True:
            with self._guard:
                if self._closed:
                    raise Closed(f"{self._name} was closed", hint="open the store again")
                if not self._idle:
                    return None
                _, connection = self._idle.pop()
            if _is_alive(connection):
                return connection
            _close(connection)

    def _new_one(self, deadline: float) -> Connection:
        pause = _FIRST_PAUSE
        while True:
            try:
                return self._make()
            except (Unreachable, Busy):
                if time.monotonic() + pause > deadline:
                    raise
            time.sleep(pause)
            pause = min(pause * 2, _LAST_PAUSE)

    def take_back(self, connection: Connection) -> None:
        """Take a connection back; one in the middle of something is closed."""
        if self._pid != os.getpid():
            return
        now = time.monotonic()
        old: Connection | None = None
        with self._guard:
            keep = not self._closed and _is_idle(connection)
            if keep:
                self._idle.append((now, connection))
                if now - self._idle[0][0] > _IDLE_SECONDS:
                    _, old = self._idle.pop(0)
        if not keep:
            old = connection
        if old is not None:
            _close(old)
        self._lent.pop(connection, None)
        if self._closed:  # nobody else waits
            with self._returned:
                self._returned.notify_all()
        self._free.release()

    def close(self, budget: float) -> None:
        """Close what is idle, and wait so long for what other threads have; then it closes itself.

        A transaction of this thread is not waited for.
        """
        if self._pid != os.getpid():
            self._inherited = self._idle
            self._start()
        with self._guard:
            self._closed = True
        me = threading.get_ident()
        with self._returned:
            self._returned.wait_for(lambda: not {*self._lent.values()} - {me}, budget)
        with self._guard:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            _close(connection)


def _is_idle(connection: Connection) -> bool:
    return connection.pgconn.transaction_status == TransactionStatus.IDLE


def _is_alive(connection: Connection) -> bool:
    """Tell whether the server did not say goodbye while nobody used the connection."""
    if not _is_idle(connection):
        return False
    poll = select.poll()
    poll.register(connection.pgconn.socket, select.POLLIN)
    return not poll.poll(0)


def _close(connection: Connection) -> None:
    with suppress(psycopg.Error, OSError):
        connection.close()
