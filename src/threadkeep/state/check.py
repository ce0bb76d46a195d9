"""Checking a state file: SQLite's own checks, its schema, then every row against its fingerprint.

SQLite does not see a flipped bit in a text; the fingerprints do. A row without one was written by
another program: it is taken as it is, and fingerprinted when nothing else is wrong. The counts in
a session are not compared with its messages: a program that deletes messages with SQL of its own
need not count them, and what it did is no damage.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

from threadkeep.base.database import Database
from threadkeep.base.engines import engine_problems, give_back_space, store_size
from threadkeep.base.hashes import fingerprint
from threadkeep.base.sqlite.catalogue import object_names
from threadkeep.base.tx import BROKEN_TABLE, Row, Sql, Tx, engine_words
from threadkeep.base.word_index import WordIndex
from threadkeep.errors import ThreadkeepError
from threadkeep.state.context import (
    MESSAGE_COLUMNS,
    SCHEMA_VERSION,
    SESSION_COLUMNS,
    Json,
    StateContext,
    reading,
)
from threadkeep.state.rows import adopt_message, refresh_session_hash
from threadkeep.state.schema import HEAD, QUERIES, SIDE, created_by, read_version
from threadkeep.state.search.index_fill import check_index, reindex
from threadkeep.state.side_values import (
    FIELDS,
    checked_text,
    fingerprint_of_exact,
    load,
    read_pieces,
    still_fits,
    to_column,
)
from threadkeep.state.verbs import get_meta, put_meta, write

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
    """Return the problems of the store, one sentence each; empty if there are none.

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
    """Return the problems of a copy, for backups to be judged by.

    Rows without a parent and a broken index are no reason to refuse one: a true copy of a store
    that has them has them, too, and an index can be rebuilt.
    """
    return _problems(database, quick=False, references=False)


def _problems(database: Database, *, quick: bool, references: bool) -> list[str]:
    """Look at a file without changing it, and without the named queries of a store."""
    found: list[str] = []
    hashed = False
    with _noting(found, database), database.read() as tx:
        found += engine_problems(tx, quick=quick, references=False)
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
    """Note that a part of the file cannot be read, and continue with the rest of the check."""
    try:
        yield
    except ThreadkeepError as error:
        if not _is_damage(error):
            raise
        found.append(f"{database.name} cannot be read any further here: {engine_words(error)}")


def _is_damage(error: ThreadkeepError) -> bool:
    """Tell damage from a lock or a full disk; some of it SQLite gives no code of its own."""
    return type(error) is ThreadkeepError or isinstance(error, BROKEN_TABLE)


def _query(tx: Tx, name: str) -> str:
    """Return a named query; a copy of a file is opened without the queries of its store."""
    return Sql(QUERIES[name]) if tx.engine == "sqlite" else name


# ---------------------------------------------------------------------- schema, references


def _has(tx: Tx, name: str) -> bool:
    return name in (object_names(tx) if tx.engine == "sqlite" else tx.tables())


def _schema_problems(tx: Tx) -> list[str]:
    """A file of an older version is no damaged one, nor is one without our side tables."""
    if (read_version(tx) or 0) < SCHEMA_VERSION:
        return []
    wanted = {"sessions": SESSION_COLUMNS, "messages": MESSAGE_COLUMNS}
    problems = [
        f"the table {table} has no column {column}"
        for table, columns in wanted.items()
        for column in columns
        if column not in tx.columns(table)
    ]
    scripts = HEAD + SIDE if tx.engine == "sqlite" and _has(tx, "tk_meta") else ""
    problems += [
        f"the {kind.lower()} {name} is missing; opening the store for writing rebuilds it"
        for kind, name, _ in created_by(scripts)
        if not _has(tx, name)
    ]
    return problems


def _reference_problems(tx: Tx) -> list[str]:
    orphans = tx.all(_query(tx, "messages_without_session"), {"limit": _FEW})
    children = tx.all(_query(tx, "sessions_without_parent"), {"limit": _FEW})
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
        lost = tx.all(_query(tx, kind.lost), {"limit": _FEW})
    return problems + [f"{kind.name} {row[0]!r} is missing" for row in lost]


def _page_problems(database: Database, kind: _Kind, after: Any, problems: list[str]) -> Any:
    """Compare some rows, one at a time in memory; give the last of them, None at the end."""
    last = after
    try:
        with database.read() as tx:
            for row in tx.each(_query(tx, kind.rows), {"after": after, "limit": _PAGE}):
                last = row[0]
                if row[-1] is not None and fingerprint(row[:-1]) != row[-1]:
                    problems.append(f"{kind.name} {last!r} has changed since it was written")
    except ThreadkeepError as error:
        if not _is_damage(error):
            raise
        with database.read() as tx:
            last = tx.value(_query(tx, kind.following), {"after": last})
        problems.append(f"{kind.name} {last!r} cannot be read: {engine_words(error)}")
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
    for owner, key, field, kind, value, hash_, exists, beside, column in tx.each(
        _query(tx, "exact_with_columns")
    ):
        what = f"the exact value of {field} of {owner} {key!r}"
        if not exists:
            yield f"{what} has no {owner}"
            continue
        try:
            written = fingerprint_of_exact(owner, key, field, kind, value)
        except ValueError:
            written = None
        if written != hash_:
            yield f"{what} has changed since it was written"
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
    row = tx.one(_query(tx, "get_blob"), {"hash": blob_hash})
    if row is None:
        msg = f"the blob {blob_hash} is missing"
        raise ValueError(msg)
    return checked_text(blob_hash, *row)


def _offload_problems(tx: Tx) -> Iterator[str]:
    rows = tx.each(_query(tx, "offloaded_with_columns"))
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
            if tx.one(_query(tx, "has_blob"), {"hash": part.hash}) is None:
                yield f"{what} is lost: the blob {part.hash} is missing"


def _blob_problems(tx: Tx) -> Iterator[str]:
    for blob_hash, codec, data in tx.each(_query(tx, "blobs_with_data")):
        try:
            checked_text(blob_hash, codec, data)
        except ValueError as error:
            yield str(error)


# ------------------------------------------------------------------------------
# What a state file takes on disk, and where it goes.

_LARGEST: Final = 10
_GROUPS: Final = ("messages", "sessions", "indexes", "full_text", "side_tables", "other")
_FULL_TEXT: Final = ("messages_fts", "tk_search")
_MESSAGE_PARTS: Final = (
    *("content", "tool_calls", "reasoning", "reasoning_details"),
    "codex_reasoning_items",
)
_SESSION_PARTS: Final = ("system_prompt", "model_config")


def size_report(ctx: StateContext, tx: Tx) -> Json:
    """Measure a store: bytes by kind of data and by column, the largest sessions, counts.

    Where SQLite cannot tell the pages of each table, `measured` is False: `by_group` is then
    estimated from the lengths of the values, and `indexes` is what remains.
    """
    messages = tx.one("payload_by_column") or (0,) * 6
    sessions = tx.one("session_payload") or (0,) * 3
    payload = dict(zip(_MESSAGE_PARTS, messages[1:], strict=True))
    payload |= dict(zip(_SESSION_PARTS, sessions[1:], strict=True))
    measured = bool(tx.value("has_dbstat"))
    size = store_size(ctx.db, tx)
    groups = _measured(tx) if measured else _estimated(ctx, tx, size.used_bytes, payload)
    return {
        "path": ctx.db.name,
        "file_bytes": size.bytes,
        "wal_bytes": size.log_bytes,
        "free_bytes": size.free_bytes,
        "measured": measured,
        "by_group": groups,
        "payload_bytes": payload,
        "counts": {"sessions": sessions[0], "messages": messages[0], **_side_counts(ctx, tx)},
        "largest": [_largest(row) for row in tx.all("largest_sessions", {"limit": _LARGEST})],
    }


def _side_counts(ctx: StateContext, tx: Tx) -> dict[str, int]:
    if not ctx.side:
        return {}
    blobs = tx.one("blob_sizes") or (0, 0, 0)
    rewound, offloaded = tx.one("side_counts") or (0, 0)
    return {"rewound_messages": rewound, "offloaded_values": offloaded, "blobs": blobs[0]}


def _largest(row: Row) -> Json:
    return dict(zip(("id", "title", "source", "messages", "bytes"), row, strict=True))


# ---------------------------------------------------------------------- groups


def _measured(tx: Tx) -> dict[str, int]:
    return _sums((_group(str(row[1]), str(row[2])), int(row[3])) for row in tx.all("pages_by_tree"))


def _group(table: str, kind: str) -> str:
    if table.startswith(_FULL_TEXT):
        return "full_text"
    if table.startswith("tk_"):
        return "side_tables"
    if table in ("messages", "sessions"):
        return "indexes" if kind == "index" else table
    return "other"


def _sums(sizes: Iterable[tuple[str, int]]) -> dict[str, int]:
    sums = dict.fromkeys(_GROUPS, 0)
    for group, size in sizes:
        sums[group] += size
    return sums


def _estimated(ctx: StateContext, tx: Tx, used: int, payload: dict[str, int]) -> dict[str, int]:
    known = {
        "messages": sum(payload[name] for name in _MESSAGE_PARTS),
        "sessions": sum(payload[name] for name in _SESSION_PARTS),
        "full_text": _text_index(ctx, tx),
        "side_tables": int((tx.one("blob_sizes") or (0, 0, 0))[2]) if ctx.side else 0,
    }
    return _sums([*known.items(), ("indexes", max(0, used - sum(known.values())))])


def _text_index(ctx: StateContext, tx: Tx) -> int:
    has_contracts = tx.one("has_text_index") is not None
    return (int(tx.value("text_index_bytes")) if has_contracts else 0) + (
        int(tx.value("side_index_bytes")) if ctx.side else 0
    )


# ------------------------------------------------------------------------------
# Care of Hermes's own full-text tables: how far a rebuild is, one more step of it, merging.
#
# Their layout is Hermes's to change. A rebuild that it has begun is carried on in the layout that
# the
# file has, which is read from the definitions of the tables.

log = logging.getLogger(__name__)

_WORDS, _TRIGRAMS, _CJK = "messages_fts", "messages_fts_trigram", "messages_fts_cjk"
_TABLES: Final = (_WORDS, _TRIGRAMS, _CJK)
_MAIN, _OF_CJK = "fts_rebuild", "fts_cjk_rebuild"
# So many ids are indexed in one transaction.
_CHUNK: Final = 2_000
_CONTENT: Final = re.compile(r"""\bcontent\s*=\s*['"]?(\w+)""", re.IGNORECASE)
_ROWID: Final = re.compile(r"""\bcontent_rowid\s*=\s*['"]?(\w+)""", re.IGNORECASE)


class Layout(NamedTuple):
    """A full-text table that takes its rows from another table or view."""

    name: str
    source: str
    rowid: str
    columns: tuple[str, ...]


def fts_rebuild_status(ctx: StateContext, tx: Tx) -> Json | None:
    """Return the progress of a rebuild of the full-text tables, None if none is running."""
    return _status(ctx, tx, _MAIN)


def fts_cjk_rebuild_status(ctx: StateContext, tx: Tx) -> Json | None:
    """Return the progress of a rebuild of the table for CJK, None if none is running."""
    return _status(ctx, tx, _OF_CJK)


def _status(ctx: StateContext, tx: Tx, rebuild: str) -> Json | None:
    total = _number(get_meta(ctx, tx, f"{rebuild}_high_water"))
    if total <= 0:
        return None
    done = _number(get_meta(ctx, tx, f"{rebuild}_progress"))
    return {
        "pending": True,
        "total": total,
        "indexed": done,
        "percent": min(100, 100 * done // total),
    }


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdigit() else 0


def fts_optimize_available(ctx: StateContext, tx: Tx) -> bool:
    """Return whether a rebuild that Hermes has begun can be continued here."""
    return not ctx.db.read_only and fts_rebuild_status(ctx, tx) is not None


def fts_rebuild_step(ctx: StateContext) -> bool:
    """Continue a rebuild of the full-text tables by one step; True if more is left."""
    return _step(ctx, _MAIN, (_WORDS, _TRIGRAMS))


def fts_cjk_rebuild_step(ctx: StateContext) -> bool:
    """Continue a rebuild of the table for CJK by one step; needs Hermes's library."""
    return _step(ctx, _OF_CJK, (_CJK,))


def _step(ctx: StateContext, rebuild: str, tables: tuple[str, ...]) -> bool:
    try:
        return write(ctx, _index_some, rebuild, tables)
    except ThreadkeepError as error:
        log.warning("the full-text tables of %s were not filled: %s", ctx.db.name, error)
        return False


def _index_some(ctx: StateContext, tx: Tx, rebuild: str, tables: tuple[str, ...]) -> bool:
    """Index the next ids and note how far that is, in one transaction: nobody does them twice."""
    status = _status(ctx, tx, rebuild)
    if status is None:
        return False
    layouts = [layout for name in tables if (layout := layout_of(tx, name)) is not None]
    if not layouts:
        return False
    first, last = status["indexed"], min(status["indexed"] + _CHUNK, status["total"])
    for layout in layouts:
        names = ", ".join(layout.columns)
        tx.run(
            Sql(
                f"INSERT INTO {layout.name}(rowid, {names}) SELECT {layout.rowid}, {names}"  # noqa: S608
                f" FROM {layout.source} WHERE {layout.rowid} > ? AND {layout.rowid} <= ?"
            ),
            (first, last),
        )
    if last < status["total"]:
        put_meta(ctx, tx, f"{rebuild}_progress", str(last))
        return True
    for key in ("high_water", "progress"):
        tx.run("drop_state_value", {"key": f"{rebuild}_{key}"})
    return False


def layout_of(tx: Tx, name: str) -> Layout | None:
    """Read the layout of a full-text table; None if there is none, or it keeps its own rows."""
    sql = str(tx.value("definition_of", {"name": name}) or "")
    source, rowid = _CONTENT.search(sql), _ROWID.search(sql)
    if source is None:
        return None
    columns = tx.columns(name)
    return Layout(name, source[1], "rowid" if rowid is None else rowid[1], tuple(columns))


def optimize_fts_storage(
    ctx: StateContext,
    *,
    progress_cb: Callable[[Json], None] | None = None,
    vacuum: bool = True,
) -> Json:
    """Complete a rebuild that Hermes has begun; the layout is not changed."""
    if ctx.db.read_only:
        return {"ok": False, "reason": "read_only"}
    steps = 0
    more = reading(ctx, lambda tx: fts_optimize_available(ctx, tx))
    while more:
        more = fts_rebuild_step(ctx)
        steps += 1
        if progress_cb is not None:
            progress_cb(_told(ctx, "backfill"))
    left = reading(ctx, lambda tx: fts_rebuild_status(ctx, tx))
    if left is not None:
        return {"ok": False, "reason": "unknown_layout", **left}
    if vacuum and steps:
        give_back_space(ctx.db)
    return {"ok": True, "steps": steps, "vacuumed": bool(vacuum and steps)}


def _told(ctx: StateContext, phase: str) -> Json:
    status = reading(ctx, lambda tx: fts_rebuild_status(ctx, tx))
    done = {"percent": 100, "indexed": 0, "total": 0}
    return {"phase": phase, **({k: status[k] for k in done} if status is not None else done)}


def optimize_fts(ctx: StateContext) -> int:
    """Merge each full-text table into one piece; count those that were merged."""
    return sum(_run(ctx, name, WordIndex.merge) for name in _TABLES)


def rebuild_fts(ctx: StateContext) -> int:
    """Refill each full-text table from the messages; count those that were filled."""
    if not ctx.side:
        return sum(_run(ctx, name, WordIndex.rebuild) for name in _TABLES)
    reindex(ctx)
    return reading(ctx, lambda tx: sum(_is_there(tx, name) for name in _TABLES))


def _run(ctx: StateContext, name: str, command: Callable[[WordIndex, Tx], object]) -> bool:
    def act(_ctx: StateContext, tx: Tx) -> bool:
        if not _is_there(tx, name):
            return False
        command(WordIndex(name), tx)
        return True

    try:
        return write(ctx, act)
    except ThreadkeepError as error:  # the words of one table may need a library that is not here
        log.warning("%s of %s in %s failed: %s", command.__name__, name, ctx.db.name, error)
        return False


def _is_there(tx: Tx, name: str) -> bool:
    return tx.value("definition_of", {"name": name}) is not None
