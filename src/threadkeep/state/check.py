"""Checking a state file: SQLite's own checks, its schema, then every row against its fingerprint.

SQLite does not see a flipped bit in a text; the fingerprints do. A row without one was written by
another program: it is taken as it is, and fingerprinted when nothing else is wrong. The counts in
a session are not compared with its messages: a program that deletes messages with SQL of its own
need not count them, and what it did is no damage.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

from threadkeep.base.database import Database
from threadkeep.base.hashes import fingerprint
from threadkeep.base.schema import columns_of
from threadkeep.base.sqlite.checks import sqlite_problems
from threadkeep.base.tx import Tx
from threadkeep.errors import Damaged, ThreadkeepError
from threadkeep.state.context import MESSAGE_COLUMNS, SESSION_COLUMNS, StateContext
from threadkeep.state.exact import load, to_column
from threadkeep.state.index import check_index
from threadkeep.state.layout import HEAD, QUERIES, SIDE, created_by, read_version
from threadkeep.state.offload import FIELDS, checked_text, read_pieces, still_fits
from threadkeep.state.rows import adopt_message, refresh_session_hash
from threadkeep.state.versions import SCHEMA_VERSION

# Twenty sentences say what is wrong; two million would say no more.
_FEW: Final = 20
_PAGE: Final = 2_000


class _Kind(NamedTuple):
    """Rows with fingerprints: how they are called, and the queries that read them."""

    name: str
    rows: str
    following: str
    lost: str
    unhashed: str
    begin: Any


_MESSAGES: Final = _Kind(
    *("message", "hashed_messages", "next_message_id", "lost_messages", "messages_without_hash"),
    begin=0,
)
_REWOUND: Final = _Kind(
    *("rewound message", "hashed_rewound", "next_rewound_id", "lost_rewound", "lost_rewound"),
    begin=0,
)
_SESSIONS: Final = _Kind(
    *("session", "hashed_sessions", "next_session_id", "lost_sessions", "sessions_without_hash"),
    begin="",
)


def check(ctx: StateContext, *, quick: bool = False) -> list[str]:
    """Give what is wrong with the store, one sentence each; nothing when all is well.

    With `quick` neither the rows nor the words of the index are looked at. Nothing is repaired;
    rows of other programs get a fingerprint, so that later damage to them is noticed.
    """
    problems = _problems(ctx.db, quick=quick, references=True)
    if problems or quick:  # a damaged message makes the index differ: the message is the news
        return problems
    problems = check_index(ctx)
    if not problems and not ctx.db.read_only:
        _adopt(ctx)
    return problems


def problems_of(database: Database) -> list[str]:
    """Give the problems of a copy, for backups to be judged by.

    Rows without a parent and a broken index are no reason to refuse one: a true copy of a store
    that has them has them, too, and an index can be built anew.
    """
    return _problems(database, quick=False, references=False)


def _problems(database: Database, *, quick: bool, references: bool) -> list[str]:
    """Look at a file without changing it, and without the named queries of a store."""
    found: list[str] = []
    hashed = False
    with _noting(found, database), database.read() as tx:
        found += sqlite_problems(tx, quick=quick, references=False)
        missing = _schema_problems(tx)
        found += missing
        hashed = not missing and _has(tx, "tk_hashes")
        found += _reference_problems(tx) if references and not missing else []
    if hashed and not quick:
        for kind in (_MESSAGES, _REWOUND, _SESSIONS):
            with _noting(found, database):
                found += _row_problems(database, kind)
        for look in (_exact_problems, _offload_problems, _blob_problems):
            with _noting(found, database), database.read() as tx:
                found += islice(look(tx), _FEW)
    return found


@contextmanager
def _noting(found: list[str], database: Database) -> Iterator[None]:
    """Note that a part of the file cannot be read, and go on with the rest of the check."""
    try:
        yield
    except ThreadkeepError as error:
        if not _is_damage(error):
            raise
        found.append(f"{database.path} cannot be read any further here: {_cause(error)}")


def _is_damage(error: ThreadkeepError) -> bool:
    """Tell damage from a lock or a full disk; some of it SQLite gives no code of its own."""
    return type(error) is ThreadkeepError or isinstance(error, Damaged)


def _cause(error: ThreadkeepError) -> str:
    """Say what SQLite said; where it quotes the text of a message, leave that out."""
    return str(error.__cause__ or error.message).partition(" with text ")[0]


# ---------------------------------------------------------------------- schema, references


def _has(tx: Tx, name: str) -> bool:
    return tx.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone() is not None


def _schema_problems(tx: Tx) -> list[str]:
    """A file of an older version is no damaged one, nor is one without our side tables."""
    if (read_version(tx) or 0) < SCHEMA_VERSION:
        return []
    wanted = {"sessions": SESSION_COLUMNS, "messages": MESSAGE_COLUMNS}
    problems = [
        f"the table {table} has no column {column}"
        for table, columns in wanted.items()
        for column in columns
        if column not in columns_of(tx, table)
    ]
    scripts = HEAD + SIDE if _has(tx, "tk_meta") else ""
    problems += [
        f"the {kind.lower()} {name} is missing; opening the store for writing makes it anew"
        for kind, name, _ in created_by(scripts)
        if not _has(tx, name)
    ]
    return problems


def _reference_problems(tx: Tx) -> list[str]:
    orphans = tx.execute(QUERIES["messages_without_session"], {"limit": _FEW}).fetchall()
    children = tx.execute(QUERIES["sessions_without_parent"], {"limit": _FEW}).fetchall()
    return [
        *(f"message {row[0]} is of a session {row[1]!r} that does not exist" for row in orphans),
        *(f"session {row[0]!r} has a parent {row[1]!r} that does not exist" for row in children),
    ]


# ---------------------------------------------------------------------- fingerprints


def _row_problems(database: Database, kind: _Kind) -> list[str]:
    problems: list[str] = []
    after: Any = kind.begin
    while after is not None and len(problems) < _FEW:
        after = _page_problems(database, kind, after, problems)
    with database.read() as tx:
        lost = tx.execute(QUERIES[kind.lost], {"limit": _FEW}).fetchall()
    return problems + [f"{kind.name} {row[0]!r} is missing" for row in lost]


def _page_problems(database: Database, kind: _Kind, after: Any, problems: list[str]) -> Any:
    """Compare some rows, one at a time in memory; give the last of them, None at the end."""
    last = after
    try:
        with database.read() as tx:
            for row in tx.execute(QUERIES[kind.rows], {"after": after, "limit": _PAGE}):
                last = row[0]
                if row[-1] is not None and fingerprint(row[:-1]) != row[-1]:
                    problems.append(f"{kind.name} {last!r} is not as it was written")
    except ThreadkeepError as error:
        if not _is_damage(error):
            raise
        with database.read() as tx:
            last = tx.execute(QUERIES[kind.following], {"after": last}).fetchone()[0]
        problems.append(f"{kind.name} {last!r} cannot be read: {_cause(error)}")
    return None if last == after else last


def _adopt(ctx: StateContext) -> None:
    """Give the rows of other programs a fingerprint, a page in each transaction."""
    for kind, put in ((_MESSAGES, adopt_message), (_SESSIONS, refresh_session_hash)):
        while _adopt_page(ctx, kind, put) == _PAGE:
            pass


def _adopt_page(ctx: StateContext, kind: _Kind, put: Callable[[Tx, Any], None]) -> int:
    params = {"after": kind.begin, "limit": _PAGE}
    with ctx.db.read() as tx:
        if tx.one(kind.unhashed, params) is None:
            return 0
    with ctx.db.write(durable=False) as tx:  # what a power cut takes is found again
        ids = tx.all(kind.unhashed, params)
        for (row_id,) in ids:
            put(tx, row_id)
    return len(ids)


# ---------------------------------------------------------------------- what lies beside


def _exact_problems(tx: Tx) -> Iterator[str]:
    for owner, key, field, kind, value, hash_, exists, beside, column in tx.execute(
        QUERIES["exact_with_columns"]
    ):
        what = f"the exact value of {field} of {owner} {key!r}"
        if not exists:
            yield f"{what} has no {owner}"
            continue
        if fingerprint((owner, key, field, kind, value)) != hash_:
            yield f"{what} is not as it was written"
            continue
        try:
            readable = to_column(load(kind, value, partial(_blob_text, tx)), field).column
        except ValueError as error:
            yield f"{what} cannot be read: {error}"
            continue
        # Of a session another program may have changed the column; messages stay as they are.
        if beside and readable != column:
            yield f"{what} does not fit the text beside it"


def _blob_text(tx: Tx, blob_hash: str) -> str:
    row = tx.execute(QUERIES["get_blob"], {"hash": blob_hash}).fetchone()
    if row is None:
        msg = f"the blob {blob_hash} is missing"
        raise ValueError(msg)
    return checked_text(blob_hash, *row)


def _offload_problems(tx: Tx) -> Iterator[str]:
    rows = tx.execute(QUERIES["offloaded_with_columns"])
    for message_id, field, pieces, exists, ours, column in rows:
        what = f"what was offloaded from {field} of message {message_id}"
        try:
            parts = read_pieces(pieces)
        except ValueError:
            yield f"{what} cannot be told: its note is damaged"
            continue
        if not exists or field not in FIELDS:
            yield f"{what} belongs nowhere"
        elif ours and not still_fits(column, pieces):
            yield f"{what} does not fit the text that is left"
        for part in parts:
            if tx.execute(QUERIES["has_blob"], {"hash": part.hash}).fetchone() is None:
                yield f"{what} is lost: the blob {part.hash} is missing"


def _blob_problems(tx: Tx) -> Iterator[str]:
    for blob_hash, codec, data in tx.execute(QUERIES["blobs_with_data"]):
        try:
            checked_text(blob_hash, codec, data)
        except ValueError as error:
            yield str(error)
