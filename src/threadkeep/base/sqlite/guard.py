"""What keeps a database that somebody else wrote from running away with this process.

A file is data only as long as nothing in it is run: a view, a virtual table and a generated column
are programs, which a query over them runs without an end or without a limit on memory. So only
ordinary tables are read; no value is larger than a limit; and whatever runs is counted, by its time
and by its steps. Damaged pages can make a walk through a table endless as well.
"""

import re
import resource
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from threadkeep.base.sqlite.errors import translate
from threadkeep.base.text import pattern
from threadkeep.base.tx import Row, Sql, Tx
from threadkeep.errors import Damaged, ThreadkeepError, TooLarge

# What is made of a value (its text, the line of the archive, the line masked, its words) takes
# seven to ten times its size (measured: 213 to 280 MB for one of 23 MiB), and may not take 300 MB.
LARGEST_VALUE: Final = 24 * 1024 * 1024
# No part, message or block of ours is near that; a column that somebody made generated may be.
LARGEST_OWN: Final = 256 * 1024 * 1024
_STEPS: Final = 20_000  # between two looks at the clock, about a third of a millisecond
# A function counts as one step however long it takes, so a typed query is looked at more often.
_TYPED_STEPS: Final = 100
# What a typed query may sort or gather; all of it is kept in memory. In the temporary folder, where
# SQLite keeps it otherwise, nothing bounds it.
_TYPED_MEMORY: Final = 256 * 1024**2
_BYTES_OF_PEAK: Final = 1 if sys.platform == "darwin" else 1024
# SQLite reads the whole schema, at some ten steps an entry and in a time that grows with the square
# of their number: 7,000 entries take 0.1 s, 30,000 take 4 s. No program known here has over 200.
_SCHEMA_STEPS: Final = 60_000
# `printf('%.*c', 2000000000, 'x')` counts to the end of a text that is refused only then.
_UNBOUNDED: Final = frozenset(("printf", "format"))
_NO_TABLE: Final = "not one of the tables; no view or recursive query can be read"
# At which ends of a text each takes characters off.
_TRIMS: Final = {"trim": (True, True), "ltrim": (True, False), "rtrim": (False, True)}
_LIMITS: Final = {
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1_000_000,
    sqlite3.SQLITE_LIMIT_COLUMN: 1_000,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 100_000,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1_000,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 10,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_MASTER: Final = frozenset(("sqlite_master", "sqlite_schema"))
_PRAGMAS: Final = frozenset(("table_info", "table_xinfo", "user_version", "journal_mode"))
_ALLOWED: Final = frozenset(
    (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_TRANSACTION)
)
# Those that reach outside are only there if somebody built SQLite so; the last two give pointers.
_NO_FUNCTIONS: Final = frozenset(
    ("load_extension", "readfile", "writefile", "edit", "fts3_tokenizer", "fts5")
)
# SQLite writes the beginning of every table's text in the schema itself, in just these letters.
_TABLE: Final = "CREATE TABLE "
_COMPUTED: Final = pattern(r"\bAS\b", re.IGNORECASE)
# No view or trigger of ours, or of a program known here, has a WITH.
_WITH: Final = pattern(r"\bwith\b", re.IGNORECASE)
_PROGRAMS: Final = """
    SELECT name, type, sql FROM sqlite_master
    WHERE type = 'view' OR type = 'table' AND rootpage = 0 OR type = 'trigger' AND sql LIKE '%with%'
"""
_GENERATED: Final = (2, 3)  # how table_xinfo marks columns that are computed, or were


class Budget(NamedTuple):
    """How long one file may keep SQLite busy, with how many steps, and how large a value may be."""

    seconds: float = 10.0
    steps: int = 2_000_000_000
    value: int = LARGEST_VALUE  # in bytes; a row as a whole has the same limit


class BudgetUsedUp(Damaged):
    """A file kept SQLite busy until the budget was used up."""


class Guard:
    """Watches what a connection to somebody else's file does."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        budget: Budget = Budget(),  # noqa: B008  (a constant)
        *,
        typed: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set the limits; nothing of the file has been looked at before.

        A query that was `typed` by somebody may name parts of itself (WITH), and asks no PRAGMA.
        """
        self._typed = typed
        self._connection = connection
        self._path = path
        self._budget = budget
        self._clock = clock
        self._seconds = budget.seconds
        self._steps = min(budget.steps, _SCHEMA_STEPS)
        self._began = clock()
        self._until = self._began + budget.seconds
        self._stopped: BaseException | None = None
        self._tables: dict[str, str] = {}
        self.names: set[str] = set()  # of all tables and views; only ordinary tables can be read
        self._known = False
        self._refused: tuple[str, str] | None = None
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, budget.value)
        for limit, value in _LIMITS.items():
            connection.setlimit(limit, min(value, connection.getlimit(limit)))
        self._step = _TYPED_STEPS if typed else _STEPS
        self._most_memory = _peak() + _TYPED_MEMORY
        self.is_too_large = False  # it was stopped for the memory that it took
        connection.set_progress_handler(self._look, self._step)
        if typed:
            connection.execute("PRAGMA temp_store = MEMORY")
            _bound_trims(connection)

    # ------------------------------------------------------------------ time and steps

    def _look(self) -> bool:
        """Tell SQLite to stop; Python would drop what a signal raises in here."""
        try:
            self._steps -= self._step
            self.is_too_large = self._typed and _peak() > self._most_memory
            return self.is_too_large or self._steps < 0 or self._clock() > self._until
        except BaseException as error:  # noqa: BLE001  (raised again by `trouble`)
            self._stopped = error
            return True

    def __enter__(self) -> None:
        """Count the time in which SQLite works; what is done with its rows is not the file's."""
        self._began = began = self._clock()
        self._until = began + self._seconds

    def __exit__(self, *_: object) -> None:
        """Take the time that was used off the budget."""
        self._seconds -= self._clock() - self._began

    def allow(self, seconds: float) -> None:
        """Count all time from now on."""
        self._seconds, self._until = seconds, self._clock() + seconds

    def trouble(self, error: sqlite3.Error, sql: str = "") -> ThreadkeepError:
        """Turn an error of SQLite into one of ours; an interrupt stays one."""
        code = getattr(error, "sqlite_errorcode", None)
        if code == sqlite3.SQLITE_INTERRUPT:
            stopped, self._stopped = self._stopped, None
            if stopped is not None:
                raise stopped
            if self._steps >= 0 and self._clock() <= self._until:
                raise KeyboardInterrupt  # dropped before it could be noted
            return self._spent()
        if self._refused and code in (sqlite3.SQLITE_AUTH, sqlite3.SQLITE_ERROR):
            return _program(*(self._named_in(sql) or self._refused), self._path)
        if code == sqlite3.SQLITE_TOOBIG:
            size = self._budget.value // 1024**2
            msg = f"{self._path} has a value of more than {size} MiB, which was not read"
            return TooLarge(msg, hint="its own program may be able to remove it")
        if code == sqlite3.SQLITE_ERROR:  # a column is missing, or a table has no row numbers
            msg = f"{self._path} does not have the expected structure: {error}"
            return Damaged(msg, hint="was its program updated, or were its tables changed?")
        return translate(error, self._path)

    def _named_in(self, sql: str) -> tuple[str, str] | None:
        """Find what a query named that is no table: SQLite may fail inside of it before it asks."""
        words = set(re.findall(r"\w+", sql.lower()))
        odd = ((name, self._tables[name]) for name in sorted(words & self._tables.keys()))
        return next(((repr(name), wrong) for name, wrong in odd if wrong), None)

    def _spent(self) -> BudgetUsedUp:
        if not self._known:
            msg = f"{self._path} has too large a schema, and was not read"
            return BudgetUsedUp(msg, hint="look at its tables: it may have been changed")
        steps, seconds = self._budget.steps, self._budget.seconds
        long = f"{steps:,} steps" if self._steps < 0 else f"{seconds:g} s"
        msg = f"{self._path} kept a query running for {long}"
        return BudgetUsedUp(msg, hint="look at its schema: it may have been changed")

    # ------------------------------------------------------------------ tables only

    def learn(self) -> None:
        """Learn what the names in the file stand for, inside the transaction that reads it.

        Only now may anything be read: SQLite asks before each statement, and again whenever
        the schema has changed under one.
        """
        self._tables = self._survey("main") | dict.fromkeys(_MASTER, "")
        self._connection.set_authorizer(self._permit)

    def refuse_programs(self, schema: str, path: Path) -> None:
        """Raise if a file, open under a name, has anything in it that is run when it is read."""
        for name, wrong in self._survey(schema).items():
            if wrong:
                raise _program(repr(name)[:80], wrong, path)

    def _survey(self, schema: str) -> dict[str, str]:
        """Return what is wrong with each table by its name: nothing if it is an ordinary one."""
        self._steps = min(self._steps, _SCHEMA_STEPS)
        sql = f"SELECT name, type, rootpage, sql FROM {schema}.sqlite_master"  # noqa: S608
        tables = {}
        for name, *told in self._connection.execute(f"{sql} WHERE type IN ('table', 'view')"):
            self.names.add(str(name))
            tables[str(name).lower()] = self._kind(schema, str(name), *told)
        self._steps = self._budget.steps
        self._known = True
        return tables

    def _kind(self, schema: str, name: str, kind: str, root: object, sql: object) -> str:
        if kind == "view":
            return "a view, not a table"
        if not isinstance(root, int) or root <= 0 or not str(sql).startswith(_TABLE):
            return "a virtual table"
        if _COMPUTED.search(str(sql)):
            quoted = name.replace('"', '""')
            asked = self._connection.execute(f'PRAGMA {schema}.table_xinfo("{quoted}")')
            if any(row[-1] in _GENERATED for row in asked):
                return "a table with generated columns"
        return ""

    def _permit(
        self, action: int, first: str | None, second: object, _db: object, by: str | None
    ) -> int:
        # Read for the sake of a view, whatever the schema calls it; or of a query's own WITH.
        if by is not None and (not self._typed or self._tables.get(by.lower())):
            return self._refuse(repr(by), "a view, not a table")
        if action == sqlite3.SQLITE_READ:
            name = str(first)
            wrong = self._tables.get(name.lower(), _NO_TABLE if self._typed else "unknown")
            return self._refuse(repr(name), wrong) if wrong else sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_PRAGMA:
            known = not self._typed and str(first).lower() in _PRAGMAS
            return sqlite3.SQLITE_OK if known else self._refuse(f"PRAGMA {first}", "not needed")
        if action == sqlite3.SQLITE_FUNCTION and not self._may_call(str(second).lower()):
            return self._refuse(f"the function {second}", "not allowed")
        if action in _ALLOWED:
            return sqlite3.SQLITE_OK
        return self._refuse("this", "not allowed" if self._typed else "a program")

    def _may_call(self, function: str) -> bool:
        return function not in _NO_FUNCTIONS and not (self._typed and function in _UNBOUNDED)

    def _refuse(self, name: str, wrong: str) -> int:
        self._refused = name[:80], wrong
        return sqlite3.SQLITE_DENY

    @property
    def refused(self) -> str:
        """What was refused last, and why; empty if nothing was."""
        return " is ".join(self._refused) if self._refused else ""

    def need_table(self, name: str) -> None:
        """Raise if a name stands for anything but an ordinary table; it may be missing."""
        wrong = self._tables.get(name.lower(), "")
        if wrong:
            raise _program(repr(name), wrong, self._path)


def _peak() -> int:
    """Return the most memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _BYTES_OF_PEAK


def _bound_trims(connection: sqlite3.Connection) -> None:
    """Take characters off the ends of a text in a time that grows with its length alone.

    SQLite compares each of them with each that is to be taken off: two texts of 1 MB took minutes.
    `str.strip` does the same where they differ from each other.
    """
    for name, ends in _TRIMS.items():

        def trimmed(text: object, characters: object, ends: Any = ends) -> str | None:
            if text is None or characters is None:
                return None
            value, taken = _text(text), set(_text(characters))
            start, end = 0, len(value)
            while ends[0] and start < end and value[start] in taken:
                start += 1
            while ends[1] and start < end and value[end - 1] in taken:
                end -= 1
            return value[start:end]

        connection.create_function(name, 2, trimmed, deterministic=True)


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _program(name: str, wrong: str, path: Path) -> Damaged:
    msg = f"{name} in {path} is {wrong}, and was not read"
    return Damaged(msg, hint="only ordinary tables are read; check who created it")


# ---------------------------------------------------------------------- stores of ours


def refuse_views(connection: sqlite3.Connection, queries: Mapping[str, str]) -> None:
    """Let a store be read through no view but those that are the content of its own indexes.

    A store may be another program's file that is used where it is, or a copy of one: a view in the
    place of a table of the contract would be run by the first look at it, and a trigger by the
    first row, while the store is locked. If one of them holds a WITH, no recursive query is run,
    the one kind without an end. A store without a view or such a trigger pays nothing later.
    """
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_OWN)
    found = connection.execute(_PROGRAMS).fetchall()
    views = {str(name).lower() for name, kind, _ in found if kind == "view"}
    if not views and all(kind != "trigger" for _, kind, _ in found):
        return
    indexes = _words(str(text) for _, kind, text in found if kind == "table")
    ours = {name for name in views if name.startswith("tk_")}  # also while its index is missing
    odd = views - ((indexes | ours) - _words(queries.values()))

    # SQLite tells of a recursive query by its own name alone, not by whose it is.
    recursive = bool(_endless(found))

    def permit(action: int, _first: object, _second: object, _db: object, by: str | None) -> int:
        endless = recursive and action == sqlite3.SQLITE_RECURSIVE
        refused = endless or (by is not None and by.lower() in odd)
        return sqlite3.SQLITE_DENY if refused else sqlite3.SQLITE_OK

    connection.set_authorizer(permit)


def refuse_endless(tx: Tx, path: Path) -> None:
    """Raise if a file that is to become a store has a view or a trigger that may never end."""
    for name in _endless(tx.all(Sql(_PROGRAMS))):
        msg = f"{name} in {path} contains a query that may never end"
        raise Damaged(msg, hint="check who created it")


def _endless(found: Iterable[Row]) -> list[str]:
    return [
        f"the {kind} {str(name)[:80]!r}"
        for name, kind, text in found
        if kind != "table" and _WITH.search(str(text))
    ]


def _words(texts: Iterable[str]) -> set[str]:
    return {word for text in texts for word in re.findall(r"\w+", text.lower())}
