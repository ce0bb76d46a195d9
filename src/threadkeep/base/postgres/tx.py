"""A transaction of PostgreSQL: what the stores see of it."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import psycopg
from psycopg import Cursor, ServerCursor

from threadkeep.base.postgres.errors import is_lost
from threadkeep.base.postgres.pool import Connection
from threadkeep.base.postgres.values import TYPES, Packed, pack_values, plain_list
from threadkeep.base.processes import is_alive, is_of_this_machine
from threadkeep.base.sql import OWNER, fill_pieces
from threadkeep.base.tx import Params, Row
from threadkeep.errors import Closed

if TYPE_CHECKING:
    from threadkeep.base.postgres.database import PostgresDatabase

T = TypeVar("T")

_PIPELINED: Final = 3  # deferred statements from which on a pipeline costs less than it saves
_AT_ONCE: Final = 2_000  # rows of one insert
_NONE: Final[Mapping[str, Any]] = {}
_FETCHED: Final = 500  # rows that `each` asks for at once
# A plan that is made once for all values cannot leave out a condition that is not asked for: 37 to
# 86 ms where the plan for the values at hand takes 0.2.
_OPTIONAL: Final = re.compile(r"\bIS NULL\s+OR\b|\bOR\s+%\(\w+\)s\s+IS NULL")
_TEXTS: Final = re.compile(r"json_array_elements_text\(CAST\(%\((\w+)\)s AS json\)\)")
_INSERTED: Final = re.compile(r"\s*(?:WITH\b.*?\)\s*)?INSERT\s+INTO\s+\"?(\w+)", re.DOTALL)

_OWN: Final = frozenset({"tk_owner", "tk_scope"})  # columns of every table that no store sees
_TABLES: Final = (
    "SELECT relname FROM pg_class WHERE relnamespace = {schema} AND relkind IN ('r', 'p')"
)
_COLUMNS: Final = """
SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(quote_ident(%(table)s))
  AND attnum > 0 AND NOT attisdropped AND attname NOT IN ('tk_owner', 'tk_scope') ORDER BY attnum"""
_KINDS: Final = """
SELECT attname, atttypid::bigint FROM pg_attribute
WHERE attrelid = to_regclass(quote_ident(%(table)s)) AND attnum > 0 AND NOT attisdropped"""
# The one whole number in the key of a table, else `id`.
_NUMBER: Final = """
SELECT a.attname FROM pg_index AS i
JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
WHERE i.indrelid = to_regclass(quote_ident(%(table)s)) AND i.indisprimary
  AND a.atttypid = 'bigint'::regtype AND a.attname NOT IN ('tk_owner', 'tk_scope')"""

# Whether a session holds an advisory lock, and whether the server began lately: its statistics
# begin again with a crash, which the time of its start does not tell.
_HOLDER: Final = """
SELECT EXISTS (SELECT 1 FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND objsubid = 1
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND (CAST(classid AS bigint) << 32 | CAST(objid AS bigint)) = CAST(%(lock)s AS bigint)),
  clock_timestamp() < greatest(pg_postmaster_start_time(), stats_reset)
    + make_interval(secs => CAST(%(grace)s AS double precision))
FROM pg_stat_bgwriter"""
_GRACE: Final = 10.0  # seconds in which everybody is connected again
# An insert of nothing but its parameters.
_INSERT: Final = re.compile(
    r"""\s*INSERT\s+INTO\s+"?(?P<table>\w+)"?\s*\((?P<columns>[^()]+)\)
    \s*VALUES\s*\((?P<values>(?:\s*%\(\w+\)s\s*,?)+)\)
    (?P<rest>\s*(?:ON\s+CONFLICT\s*(?:\((?P<key>[^()]+)\))?\s*DO\s+(?P<then>NOTHING|UPDATE)[^%]*)?)""",
    re.VERBOSE,
)


class Insert(NamedTuple):
    """A statement that inserts rows, given an array for each column.

    Capturing logs sends a dozen rows a message, nearly all of them postings: row by row a message
    took 1.7 ms, as arrays 0.6, of which the client had 0.29 and has 0.19.
    """

    statement: bytes
    columns: Sequence[tuple[str, int]]  # the parameter of each, and its type
    key: Sequence[str]  # the parameters by which rows are updated that are there already

    @classmethod
    def read(cls, found: re.Match[str], kinds: Mapping[str, int]) -> "Insert":
        """Read the insert of one row."""
        names = re.findall(r"%\((\w+)\)s", found["values"])
        columns = dict(zip(_names_in(found["columns"]), names, strict=True))
        taken = [(name, kinds.get(column, 0)) for column, name in columns.items()]
        key = [columns[one] for one in _names_in(found["key"] or "") if one != OWNER]
        arrays = ", ".join(
            f"CAST(%(a{place})s AS {TYPES.get(kind, 'text')}[])"
            for place, (_, kind) in enumerate(taken)
        )
        start = f'INSERT INTO "{found["table"]}" ({found["columns"]})'
        text = f"{start} SELECT * FROM unnest({arrays}) {found['rest']}"  # noqa: S608
        return cls(text.encode(), taken, key if found["then"] == "UPDATE" else ())

    def arrays(self, rows: Sequence[Params]) -> dict[str, Packed] | None:
        """Return rows as arrays; None where they have to go one by one."""
        named = [row for row in rows if isinstance(row, Mapping)]
        if len(rows) < _PIPELINED or len(named) < len(rows):
            return None
        # One statement does not update what it has inserted itself.
        if self.key and len({tuple([row[one] for one in self.key]) for row in named}) < len(rows):
            return None
        found = {}
        for place, (name, kind) in enumerate(self.columns):
            packed = pack_values(kind, [row[name] for row in named])
            if packed is None:
                return None
            found[f"a{place}"] = packed
        return found


def _names_in(listed: str) -> list[str]:
    return [name for one in listed.split(",") if (name := one.strip(' \n"'))]


class PostgresTx:
    """A transaction: runs the named queries of its database.

    What `run` is given is sent with the next query that gives something, at the end, or at an edge
    of a `step`: an error of it comes then.
    """

    __slots__ = ("_connection", "_cursors", "_database", "_kept", "_waiting")
    engine: Final = "postgres"

    def __init__(self, database: "PostgresDatabase", connection: Connection) -> None:
        self._database = database
        self._connection: Connection | None = connection
        self._waiting: list[tuple[str, Params]] = []
        self._cursors: list[ServerCursor[Any]] = []  # of `each`
        self._kept: dict[object, Any] = {}

    # ------------------------------------------------------------------ statements

    def _sql(self, name: str) -> str:
        if name.__class__ is str:
            return self._database.queries[name]
        return fill_pieces(name, "postgres")

    def _live(self) -> Connection:
        if self._connection is None:
            msg = "this transaction has ended"
            raise Closed(msg, hint="use a transaction inside its `with` block only")
        return self._connection

    def _execute(self, sql: str, params: Params) -> Cursor[Any]:
        connection = self._live()
        if self._waiting:
            self.flush()
        cursor = connection.cursor(binary=True)
        text, prepare = _statement(sql)
        try:
            return cursor.execute(text, _given(sql, params), prepare=prepare)
        except psycopg.Error as error:
            raise self._database.trouble(error) from error

    def flush(self) -> None:
        """Send what waits."""
        waiting, self._waiting = self._waiting, []
        connection = self._live()
        try:
            if len(waiting) < _PIPELINED:
                _send(connection, waiting)
            else:
                with connection.pipeline():
                    _send(connection, waiting)
        except psycopg.Error as error:
            raise self._database.trouble(error) from error

    def run(self, name: str, params: Params = ()) -> None:
        """Run a query that gives nothing; it is sent with the next that does."""
        self._live()
        self._kept.clear()
        given = dict(params) if isinstance(params, Mapping) else tuple(params)
        self._waiting.append((self._sql(name), given))

    def count(self, name: str, params: Params = ()) -> int:
        """Run a query and give the number of rows that it changed."""
        self._kept.clear()
        return self._execute(self._sql(name), params).rowcount

    def insert(self, name: str, params: Params = ()) -> int:
        """Run a query that inserts one row and give its id, 0 if it had nothing to insert."""
        self._kept.clear()
        sql = self._sql(name)
        if "RETURNING" not in sql:
            sql = f"{sql.rstrip().rstrip(';')} RETURNING {self._number(sql)}"
        row = self._execute(sql, params).fetchone()
        return 0 if row is None else int(row[0])

    def _number(self, sql: str) -> str:
        """Name the column with the number of a row, in the table that a statement inserts into."""
        found = _INSERTED.match(sql)
        assert found is not None, sql  # noqa: S101  (`insert` is given inserts)
        table = found[1]
        numbers = self._database.numbers
        if table not in numbers:
            columns = self._execute(_NUMBER, {"table": table}).fetchall()
            numbers[table] = f'"{columns[0][0]}"' if len(columns) == 1 else "id"
        return numbers[table]

    def run_bulk(self, name: str, rows: Iterable[Params]) -> None:
        """Run a query for many rows, as one batch."""
        self._kept.clear()
        self.flush()
        sql = self._sql(name)
        insert = self._insert(sql)
        left = iter(rows)
        while batch := list(islice(left, _AT_ONCE)):
            arrays = None if insert is None else insert.arrays(batch)
            try:
                if insert is None or arrays is None:
                    self._live().cursor().executemany(_statement(sql)[0], batch)
                else:
                    self._live().execute(insert.statement, arrays, prepare=True)
            except psycopg.Error as error:
                raise self._database.trouble(error) from error

    def _insert(self, sql: str) -> "Insert | None":
        """Read an insert that can take arrays; None if a statement is none."""
        known = self._database.inserts
        if sql not in known:
            found = _INSERT.fullmatch(sql)
            kinds = found and dict(self._execute(_KINDS, {"table": found["table"]}))
            known[sql] = found and Insert.read(found, kinds or {})
        return known[sql]

    def one(self, name: str, params: Params = ()) -> Row | None:
        """Return the first row of a query, None if there is none."""
        cursor = self._execute(self._sql(name), params)
        try:
            row: Row | None = cursor.fetchone()
        except psycopg.ProgrammingError:  # it gives no rows; asking before took 15 µs
            return None
        return row

    def all(self, name: str, params: Params = ()) -> list[Row]:
        """Return every row of a query."""
        return self._execute(self._sql(name), params).fetchall()

    def value(self, name: str, params: Params = ()) -> Any:
        """Return the first column of the first row, None if there is no row."""
        row = self.one(name, params)
        return None if row is None else row[0]

    def dicts(self, name: str, params: Params = ()) -> list[dict[str, Any]]:
        """Return every row of a query by the names of its columns, known and unknown ones."""
        cursor = self._execute(self._sql(name), params)
        names = [column.name for column in cursor.description or ()]
        ours = [place for place, name in enumerate(names) if name not in _OWN]
        return [{names[place]: row[place] for place in ours} for row in cursor]

    def each(self, name: str, params: Params = ()) -> Iterator[Row]:
        """Return the rows of a query one after the other, for results that may be large."""
        connection = self._live()
        if self._waiting:
            self.flush()
        cursor = connection.cursor(f"each_{len(self._cursors)}", binary=True)
        cursor.itersize = _FETCHED
        self._cursors.append(cursor)
        try:
            sql = self._sql(name)
            yield from cursor.execute(_statement(sql)[0], _given(sql, params))
        except psycopg.Error as error:
            raise self._database.trouble(error) from error
        finally:
            _close(cursor)

    # ------------------------------------------------------------------ the schema

    def tables(self) -> set[str]:
        """Name the tables of the store."""
        known = self._database.known_tables
        if known is None:  # kept until a script changes them, for some stores ask often
            sql = _TABLES.format(schema="current_schema()::regnamespace")
            known = {row[0] for row in self._execute(sql, ())}
            self._database.known_tables = known or None
        return set(known)

    def columns(self, table: str) -> list[str]:
        """Name the columns that a table really has, in order; none if no such table exists."""
        return [row[0] for row in self._execute(_COLUMNS, {"table": table})]

    def is_alive(self, mark: str) -> bool:
        """Tell whether the process of a mark runs: here, or with its lock on the server.

        After a crash the server has no locks: of other machines nobody is taken for dead then.
        """
        if is_of_this_machine(mark) and is_alive(mark):
            return True
        lock = self._database.lock_of(mark)
        row = self._execute(_HOLDER, {"lock": lock, "grace": _GRACE}).fetchone()
        held, is_young = row or (0, 0)
        return bool(held or (is_young and not is_of_this_machine(mark)))

    def script(self, sql: str) -> None:
        """Run the statements of a script, which shape the schema, inside this transaction."""
        connection = self._live()
        self._kept.clear()
        self._database.known_tables = None
        self.flush()
        try:
            connection.execute(sql.encode())
        except psycopg.Error as error:
            raise self._database.trouble(error) from error

    # ------------------------------------------------------------------ steps

    @contextmanager
    def step(self) -> Iterator[None]:
        """Do what is inside whole or not at all; what an error takes back is this step alone."""
        self._execute("SAVEPOINT step", ())
        try:
            yield
            self.flush()
        except Exception as error:
            self._waiting.clear()
            if not is_lost(error) and not is_lost(error.__cause__ or error):
                self._execute("ROLLBACK TO step", ())
                self._execute("RELEASE step", ())
            raise
        self._execute("RELEASE step", ())

    def kept(self, name: object, make: Callable[[], T]) -> T:
        """Return what was made under a name in this transaction, or make it."""
        if name not in self._kept:
            self._kept[name] = make()
        found: T = self._kept[name]
        return found

    def end(self) -> None:
        """Refuse everything from now on."""
        for cursor in self._cursors:  # what closes one later must not reach another transaction
            _close(cursor)
        self._connection = None
        self._waiting = []


def _close(cursor: ServerCursor[Any]) -> None:
    with suppress(psycopg.Error):
        cursor.close()


def _send(connection: Connection, statements: list[tuple[str, Params]]) -> None:
    for sql, params in statements:
        text, prepare = _statement(sql)
        connection.execute(text, _given(sql, params), prepare=prepare)


def _given(sql: str, params: Params) -> Params:
    """Return what a query is given, its lists of texts as PostgreSQL can read them."""
    lists = _lists_of(sql)
    if lists and isinstance(params, Mapping):
        return {**params, **{name: plain_list(params[name]) for name in lists if params[name]}}
    return params or _NONE


@lru_cache(maxsize=4096)
def _lists_of(sql: str) -> tuple[str, ...]:
    """Name the parameters of a query that are lists of texts."""
    return tuple(_TEXTS.findall(sql))


@lru_cache(maxsize=4096)
def _statement(sql: str) -> tuple[bytes, bool]:
    """Return the text of a query, and whether the server is to keep its plan."""
    return sql.encode(), _OPTIONAL.search(sql) is None
