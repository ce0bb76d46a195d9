"""Queries that somebody typed, over the tables of a store on a server: read, and do nothing else.

What a statement may do is held by the server: the member's own rights and rows, a read-only
transaction, a time-out. But a function may take locks, sleep, read files or change settings even
there, and only its name tells. So every name before a parenthesis is compared with a list; and the
plan of the query says which tables it would read, whatever they are called in it.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any, Final, NamedTuple

import psycopg
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus

from threadkeep.base.postgres.database import PostgresDatabase
from threadkeep.base.postgres.errors import is_lost
from threadkeep.base.postgres.pool import Connection, connect
from threadkeep.base.postgres.values import escape
from threadkeep.base.sqlite.foreign import ONE_QUERY, SelectedRows
from threadkeep.base.sqlite.guard import Budget
from threadkeep.errors import Invalid, ThreadkeepError, TooLarge

# All take a time and a memory that grow with what they are given, and end when the query is
# cancelled. Left out for that: trim() and translate(), which compare each character with each;
# repeat(), replace(), string_agg() and others that make a large value of small ones.
_FUNCTIONS: Final = frozenset(
    re.findall(
        r"\w+",
        """
    abs age avg bool_and bool_or ceil ceiling char_length coalesce count cume_dist current_date date
    date_part date_trunc dense_rank div every exp extract first_value floor greatest grouping instr
    json_array_length json_extract json_typeof jsonb_array_length jsonb_typeof lag last_value lead
    least left length ln log lower make_interval max min mod mode now nth_value ntile nullif
    octet_length percent_rank percentile_cont percentile_disc position power rank right round
    row_number sign split_part sqrt starts_with stddev strpos substr substring sum to_char
    to_timestamp trunc typeof upper variance width_bucket
    """,
    )
)
_KEYWORDS: Final = frozenset(
    re.findall(
        r"\w+",
        """
    all and any as between both by case cast distinct else end escape except exists filter from
    group having ilike in interval intersect is join lateral like limit not numeric
    offset on or order over partition select set similar some then to union using values varchar
    when where window with
    """,
    )
)
_BEGINNINGS: Final = frozenset(("select", "with", "values"))
_TOKEN: Final = re.compile(
    r"""
    (?P<space> [ \t\n\r\f\v]+ | --[^\n\r]* )
    | (?P<odd> [uU]&['"] | \$ | (?>\d[\d.]*(?:[eE][-+]?\d+)?)(?=[A-Za-z_$\x80-\U0010ffff]) )
    | (?P<text> [eE]'(?:[^'\\]|\\.|'')*' | [bBxXnN]?'(?:[^']|'')*' )
    | (?P<quoted> "(?:[^"]|"")+" )
    | (?P<word> [A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]* )
    | (?P<number> \d[\d.]*(?:[eE][-+]?\d+)? )
    | (?P<mark> [^'"\w] )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT: Final = re.compile(r"/\*|\*/")
_NUMBERS: Final = frozenset((16, 20, 21, 23, 26, 700, 701, 1700))  # types that are small
_BYTES: Final = 17
_LARGEST: Final = 100_000  # names, once each nested query stands where it is named
_TEMPORARY_KB: Final = 500_000  # on the server's disk
_SETTINGS: Final = {
    "default_transaction_read_only": "on",
    "standard_conforming_strings": "on",
    "max_parallel_workers_per_gather": 0,
    "jit": "off",
}


class _Token(NamedTuple):
    kind: str
    text: str
    end: int


# ---------------------------------------------------------------------- what may be asked


def checked(sql: str) -> str:
    """Return a query as it may run, without what stands behind it; raise if it may not."""
    found = list(_tokens(sql))
    while found and found[-1].text == ";":
        found.pop()
    first = next((one for one in found if one.text != "("), None)
    if first is None or first.text.lower() not in _BEGINNINGS:
        hint = "begin it with SELECT or WITH; nothing can be changed here"
        raise Invalid("only queries can be run", hint=hint)
    for before, token, behind in zip([None, *found], found, [*found[1:], None], strict=False):
        if token.text == ";":
            raise Invalid("that isn't one query", hint=ONE_QUERY)
        if token.text.lower() == "recursive":
            raise _refused("a recursive query")
        if behind is not None and behind.text == "(" and not _may_open(token, before):
            raise _refused(f"the function {token.text[:80]}")
    return _unfolded(sql, found)


class _Level:
    """What stands in a pair of parentheses."""

    def __init__(self, *, selects: bool, named: bool) -> None:
        self.selects = selects
        self.named = named  # of a WITH
        self.words = 1
        self.inner = 1


def _unfolded(sql: str, tokens: Sequence[_Token]) -> str:
    """Have each query of a WITH run by itself; refuse others that multiply inside of each other.

    The server puts a nested query in the place of each column that is named of it, and so on
    inside: twenty levels of `x + x` took 6.7 GB and did not stop when they were cancelled.
    """
    written, done = [], 0
    levels = [_Level(selects=True, named=False)]
    for number, token in enumerate(tokens):
        if token.text == "(":
            behind = tokens[number + 1].text.lower() if number + 1 < len(tokens) else ""
            selects = behind in _BEGINNINGS
            named = selects and number > 0 and tokens[number - 1].text.lower() == "as"
            levels.append(_Level(selects=selects, named=named))
            if named:
                written += [sql[done : token.end - 1], " MATERIALIZED "]
                done = token.end - 1
        elif token.text == ")":
            level = levels.pop()
            if not levels:
                raise Invalid("that isn't one query", hint=ONE_QUERY)
            _close(level, levels[-1])
        elif token.kind in {"word", "quoted"} or token.text == "*":
            levels[-1].words += 1
    if len(levels) != 1:
        raise Invalid("that isn't one query", hint=ONE_QUERY)
    _close(levels[0], levels[0])
    return "".join([*written, sql[done : tokens[-1].end]])


def _close(level: _Level, outer: _Level) -> None:
    size = level.inner * (level.words if level.selects else 1)
    if size > _LARGEST:
        msg = "the queries inside of the query are too large"
        raise TooLarge(msg, hint="give them names: WITH part AS (SELECT …)")
    if not level.selects:
        outer.words += level.words
    outer.inner = max(outer.inner, 1 if level.named else size)


def _may_open(token: _Token, before: _Token | None) -> bool:
    """Tell whether a parenthesis may stand behind a token."""
    if token.kind not in {"word", "quoted"}:
        return True
    if before is not None and before.text == ".":  # in a schema that anybody may have made
        return False
    if token.kind == "quoted":
        return token.text[1:-1] in _FUNCTIONS
    return token.text.lower() in _FUNCTIONS | _KEYWORDS


def _tokens(sql: str) -> Iterator[_Token]:
    place = 0
    while place < len(sql):
        if sql.startswith("/*", place):
            place = _behind_comment(sql, place)
            continue
        found = _TOKEN.match(sql, place)
        if found is None or found.lastgroup == "odd" or found[0] == "\0":
            raise Invalid(
                f"the query can't run: unclear at {sql[place : place + 20]!r}", hint=ONE_QUERY
            )
        place = found.end()
        if found.lastgroup != "space":
            yield _Token(str(found.lastgroup), found[0], place)


def _behind_comment(sql: str, place: int) -> int:
    """Return where a comment ends, which may have others in it."""
    depth = 0
    for found in _COMMENT.finditer(sql, place):
        depth += 1 if found[0] == "/*" else -1
        if depth == 0:
            return found.end()
    raise Invalid("the query can't run: a comment has no end", hint=ONE_QUERY)


def _refused(what: str) -> Invalid:
    return Invalid(f"the query can't run: {what} is not allowed", hint=ONE_QUERY)


# ---------------------------------------------------------------------- running it


def select(
    database: PostgresDatabase,
    sql: str,
    tables: Collection[str],
    *,
    budget: Budget,
    rows: int,
    size: int,
) -> SelectedRows:
    """Run a query that somebody typed, over these tables of the store's own schema alone.

    It ends after so much time, so many rows, or so many bytes.
    """
    text = checked(sql)
    with closing(_connection(database, budget)) as connection:
        try:
            names, query = _bounded(connection, text, rows, budget.value)
            _refuse_others(connection, query, database.schema, tables)
            return _rows(connection, query, names, rows, size, budget.value)
        except psycopg.Error as error:
            raise _problem(error, database, budget) from error


def _connection(database: PostgresDatabase, budget: Budget) -> Connection:
    """Open a connection of its own: whatever was set on it ends with it."""
    path = f"{database.schema},tk_{database.address.home}"
    limit = round(budget.seconds * 1000)
    connection = connect(database.address, path, statement_timeout=limit, **_SETTINGS)
    try:
        # Only a superuser may, or a login that was granted it; else the server's own limit holds.
        with suppress(psycopg.errors.InsufficientPrivilege):
            connection.execute(f"SET temp_file_limit = {_TEMPORARY_KB}".encode())
        database.enter(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _bounded(
    connection: Connection, sql: str, rows: int, value: int
) -> tuple[tuple[str, ...], bytes]:
    """Return the names of the columns, and the query with an end to its rows and values."""
    text = escape(sql).encode()
    prepared = connection.pgconn.prepare(b"", text)  # refuses several statements
    if prepared.status != ExecStatus.COMMAND_OK:
        raise error_from_result(prepared, encoding="utf-8")
    told = connection.pgconn.describe_prepared(b"")
    places = range(told.nfields)
    names = tuple(str(told.fname(n) or b"", "utf-8") for n in places)
    shown = ", ".join(_shown(f"c{n}", told.ftype(n), value) for n in places)
    columns = ", ".join(f"c{n}" for n in places)
    if not columns:
        raise Invalid("the query can't run: it has no columns", hint=ONE_QUERY)
    ours = f"SELECT {shown} FROM (%b\n) AS typed({columns}) LIMIT {rows + 1}"  # noqa: S608
    return names, ours.encode().replace(b"%b", text)


def _shown(column: str, kind: int, value: int) -> str:
    if kind in _NUMBERS:
        return column
    if kind == _BYTES:
        return f"'<' || to_char(octet_length({column}), 'FM999,999,999,990') || ' bytes>'"
    return f"left(CAST({column} AS text), {value + 1})"


def _refuse_others(
    connection: Connection, query: bytes, schema: str, tables: Collection[str]
) -> None:
    """Raise if the plan of a query reads anything but tables of the store."""
    row = connection.execute(b"EXPLAIN (VERBOSE, FORMAT JSON) " + query, prepare=False).fetchone()
    assert row is not None  # noqa: S101  (EXPLAIN gives one)
    for node in _nodes(row[0]):
        name = node.get("Relation Name") or node.get("Function Name")
        if name and (node.get("Schema") != schema or name not in tables):
            raise Invalid(f"the query can't run: {name!r} is not one of the tables", hint=ONE_QUERY)


def _nodes(plan: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(plan, dict):
        yield plan
        plan = list(plan.values())
    if isinstance(plan, list):
        for one in plan:
            yield from _nodes(one)


def _rows(
    connection: Connection,
    query: bytes,
    names: Sequence[str],
    rows: int,
    size: int,
    value: int,
) -> SelectedRows:
    kept: list[tuple[Any, ...]] = []
    left = size
    # One row at a time: a row that is too large for us never meets others in memory.
    for row in connection.cursor(binary=True).stream(query, binary=True):
        if any(isinstance(one, str) and len(one) > value for one in row):
            raise TooLarge("the query makes a value that is too large", hint="select a part of it")
        left -= sum(len(one) if isinstance(one, str) else 8 for one in row)
        if len(kept) == rows or left < 0:
            return SelectedRows(tuple(names), tuple(kept), cut=True)
        kept.append(tuple(row))
    return SelectedRows(tuple(names), tuple(kept), cut=False)


def _problem(error: psycopg.Error, database: PostgresDatabase, budget: Budget) -> ThreadkeepError:
    """Say what is wrong with a typed query: it is its author's, not the store's."""
    if is_lost(error):
        return database.trouble(error)
    state = error.sqlstate or ""
    if state == "57014":
        long = f"the query was stopped after {budget.seconds:g} s"
        return TooLarge(long, hint="narrow it down, or add a LIMIT")
    if state[:2] in {"53", "54"}:
        return TooLarge(
            f"the query needs too much of the server: {error.diag.message_primary}",
            hint="narrow it down, or add a LIMIT",
        )
    words = error.diag.message_primary or str(error).strip().partition("\n")[0]
    return Invalid(f"the query can't run: {words}", hint=ONE_QUERY)
