"""The schema of the state files that we make, and of versions 1 to 6; for others see `context`."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Final, NamedTuple

from threadkeep.base.database import Database
from threadkeep.base.sql import load_queries, load_text
from threadkeep.base.sqlite.catalogue import definitions
from threadkeep.base.sqlite.connect import Tuning
from threadkeep.base.sqlite.schema import Schema, SchemaStep, add_missing_columns
from threadkeep.base.sqlite.statements import split_statements
from threadkeep.base.tx import Sql, Tx
from threadkeep.base.word_index import WordIndex
from threadkeep.errors import Damaged
from threadkeep.state.context import (
    LATER_COLUMNS,
    MESSAGE_COLUMNS,
    PACKAGE,
    SCHEMA_VERSION,
    SESSION_COLUMNS,
    SIDE_VERSION,
)

_FILES: Final = (
    *("queries.sql", "sessions.sql", "search.sql", "upkeep.sql", "gateway.sql", "care.sql"),
)
QUERIES: Final = load_queries(PACKAGE, *_FILES)


@cache
def server_queries() -> Mapping[str, str]:
    """Return the named queries as PostgreSQL takes them."""
    return load_queries(PACKAGE, *_FILES, engine="postgres")


HEAD: Final = load_text(PACKAGE, "head.sql")
INDEX: Final = load_text(PACKAGE, "index.sql")
SIDE: Final = load_text(PACKAGE, "side.sql")
MESSAGE_WORDS: Final = WordIndex(
    "messages_fts", stemmed=False
)  # the contract's; filled by triggers
TRIGRAMS: Final = WordIndex("messages_fts_trigram", stemmed=False)  # Hermes's; parts of words
SEARCH_WORDS: Final = WordIndex(
    "tk_search", stemmed=False
)  # ours: what the contract's cannot serve
_CREATED: Final = re.compile(
    r"^CREATE (?:VIRTUAL |UNIQUE )?(TABLE|INDEX|TRIGGER|VIEW) (\w+)", re.MULTILINE
)


# Rows of one to four kilobytes waste a third of a page of 4 KB, a sixth of one of 8 KB; and a file
# that may shrink in small steps never has to be rewritten. FTS5 is not on SQLite 3.40's list of
# tables that a trigger of an untrusted schema may use, and the contract's triggers use it.
TUNING: Final = Tuning(
    fresh=("PRAGMA page_size = 8192", "PRAGMA auto_vacuum = INCREMENTAL"),
    # 900 such pages stay just below the length from which a log is cut off; each copy into the file
    # then serves more commits: 3 % of an append's CPU against 500 pages.
    writer=("PRAGMA trusted_schema = ON", "PRAGMA wal_autocheckpoint = 900"),
    # A search reads 300 of these pages, and SQLite keeps 2 MB, whatever the size of a page: reading
    # them again took a sixth of its CPU time.
    reader=("PRAGMA cache_size = -8000",),
)

_BILLING: Final = {
    "cache_read_tokens": "INTEGER DEFAULT 0",
    "cache_write_tokens": "INTEGER DEFAULT 0",
    "reasoning_tokens": "INTEGER DEFAULT 0",
    "billing_provider": "TEXT",
    "billing_base_url": "TEXT",
    "billing_mode": "TEXT",
    "estimated_cost_usd": "REAL",
    "actual_cost_usd": "REAL",
    "cost_status": "TEXT",
    "cost_source": "TEXT",
    "pricing_version": "TEXT",
}
_REASONING: Final = {
    "reasoning": "TEXT",
    "reasoning_details": "TEXT",
    "codex_reasoning_items": "TEXT",
}
# What a file of any version may lack: its program stopped half-way, or counted differently.
_SESSION_TYPES: Final = {
    "user_id": "TEXT",
    "model": "TEXT",
    "model_config": "TEXT",
    "system_prompt": "TEXT",
    "parent_session_id": "TEXT REFERENCES sessions(id)",
    "ended_at": "REAL",
    "end_reason": "TEXT",
    "message_count": "INTEGER DEFAULT 0",
    "tool_call_count": "INTEGER DEFAULT 0",
    "input_tokens": "INTEGER DEFAULT 0",
    "output_tokens": "INTEGER DEFAULT 0",
    **_BILLING,
    "title": "TEXT",
}
_MESSAGE_TYPES: Final = {
    "content": "TEXT",
    "tool_call_id": "TEXT",
    "tool_calls": "TEXT",
    "tool_name": "TEXT",
    "token_count": "INTEGER",
    "finish_reason": "TEXT",
    **_REASONING,
}


# ---------------------------------------------------------------------- versions


class StateFacts(NamedTuple):
    """What is in a state file; `adopted` tells whether it has our side tables."""

    schema_version: int | None
    journal_mode: str
    adopted: bool
    sessions: int
    messages: int


def read_version(tx: Tx) -> int | None:
    """Return the version of a state file; 1 for one that does not say, None for no state file."""
    tables = tx.tables()
    if not {"sessions", "messages"} <= tables:
        return None
    if "schema_version" not in tables:
        return 1
    version = tx.value(Sql("SELECT max(version) FROM schema_version"))
    if version is None:
        return 1
    if not isinstance(version, int) or version < 0:
        msg = f"the file says that its schema version is {version!r}"
        raise Damaged(msg, hint="restore a backup with `threadkeep restore`; keep the file")
    return version


def write_version(tx: Tx, version: int) -> None:
    """Write down the version, in the one row of the contract."""
    tx.run(Sql("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)"))
    tx.run(Sql("DELETE FROM schema_version"))
    tx.run(Sql("INSERT INTO schema_version(version) VALUES (?)"), (version,))


# ---------------------------------------------------------------------- steps


def _add_finish_reason(tx: Tx) -> None:
    add_missing_columns(tx, "messages", {"finish_reason": "TEXT"})


def _add_title(tx: Tx) -> None:
    add_missing_columns(tx, "sessions", {"title": "TEXT"})


def _make_titles_unique(tx: Tx) -> None:
    add_missing_columns(tx, "sessions", {"title": "TEXT"})
    _separate_equal_titles(tx)
    tx.run(
        Sql(
            "CREATE UNIQUE INDEX IF NOT EXISTS idx_sessions_title_unique"
            " ON sessions(title) WHERE title IS NOT NULL"
        )
    )


def _separate_equal_titles(tx: Tx) -> None:
    """Version 3 let two sessions have one title; the later ones get a number, as in a lineage."""
    twice = (
        "SELECT rowid, title FROM sessions WHERE title IN (SELECT title FROM sessions"
        " WHERE title IS NOT NULL GROUP BY title HAVING count(*) > 1) ORDER BY started_at, rowid"
    )
    seen: set[str] = set()
    for rowid, title in tx.all(Sql(twice)):
        if title not in seen:
            seen.add(title)
            continue
        number = 2
        taken = "SELECT 1 FROM sessions WHERE title = ?"
        while tx.one(Sql(taken), (f"{title} #{number}",)) is not None:
            number += 1
        sql = "UPDATE sessions SET title = ? WHERE rowid = ?"
        tx.run(Sql(sql), (f"{title} #{number}", rowid))


def _add_billing(tx: Tx) -> None:
    add_missing_columns(tx, "sessions", _BILLING)


def _add_reasoning(tx: Tx) -> None:
    add_missing_columns(tx, "messages", _REASONING)


SCHEMA: Final = Schema(
    name="state",
    version=SCHEMA_VERSION,
    head=f"{HEAD}\n{INDEX}\n{SIDE}\nINSERT INTO tk_meta VALUES ('side_version', '{SIDE_VERSION}'),"
    " ('indexed', '0'), ('active', '0');\n",
    steps=(
        SchemaStep(2, "0002_finish_reason", code=_add_finish_reason),
        SchemaStep(3, "0003_title", code=_add_title),
        SchemaStep(4, "0004_unique_titles", code=_make_titles_unique),
        SchemaStep(5, "0005_billing", code=_add_billing),
        SchemaStep(6, "0006_reasoning", code=_add_reasoning),
    ),
    read_version=read_version,
    write_version=write_version,
)


# On a server all tables are there from the beginning, in their newest form; what fills the
# contract's index there is our own indexer.
_LATER: Final = "".join(
    f"ALTER TABLE sessions ADD COLUMN {name} {kind};\n" for name, kind in LATER_COLUMNS.items()
)
_OF_MESSAGE: Final = "owner = 'message' AND key = old.id"
SERVER_SCHEMA: Final = Schema(
    name="state",
    version=1,
    head="CREATE TABLE schema_version (version INTEGER NOT NULL);\n"  # noqa: S608
    + load_text(PACKAGE, "newest.sql")
    + _LATER
    + load_text(PACKAGE, "telegram.sql")
    + load_text(PACKAGE, "backends.sql")
    # The key of an exact value has one type there: that of a session's id.
    + SIDE.replace(_OF_MESSAGE, _OF_MESSAGE.replace("old.id", "CAST(old.id AS TEXT)"))
    + "CREATE VIRTUAL TABLE messages_fts USING fts5(content, tokenize='unicode61');\n"
    f"INSERT INTO schema_version VALUES ({SCHEMA_VERSION});\n"
    f"INSERT INTO tk_meta VALUES ('side_version', '{SIDE_VERSION}'), ('indexed', '0'),"
    " ('active', '0');\n",
    steps=(),
    read_version=read_version,
    write_version=write_version,
)


def finish_copy(tx: Tx) -> None:
    """Give a file whose rows came from a server its index, and exact values the types they had."""
    tx.run(Sql("UPDATE tk_exact SET key = CAST(key AS INTEGER) WHERE owner = 'message'"))
    told = "SELECT owner, key, field, value FROM tk_exact WHERE kind = 'bytes'"
    put = "UPDATE tk_exact SET value = :v WHERE owner = :o AND key = :k AND field = :f"
    for owner, key, field, value in tx.all(Sql(told)):
        tx.run(Sql(put), {"v": bytes.fromhex(value), "o": owner, "k": key, "f": field})
    tx.run("set_meta", {"key": "indexed", "value": "0"})
    MESSAGE_WORDS.rebuild(tx)


# ---------------------------------------------------------------------- beginning


def finish_making(database: Database) -> None:
    """Finish a file that another program has begun: Hermes makes its tables one by one.

    Only one without a row in it; `heal` brings the rest.
    """
    with database.read() as tx:
        if not _is_begun(tx):
            return
    with database.write() as tx:
        if _is_begun(tx):
            present = tx.tables()
            for made in created_by(HEAD):
                if made.kind == "TABLE" and made.name not in present:
                    tx.run(Sql(made.statement))
            write_version(tx, SCHEMA_VERSION)


def _is_begun(tx: Tx) -> bool:
    tables = {name for name in tx.tables() if not name.startswith("sqlite_")}
    return (
        bool(tables)
        and tables < {"schema_version", "sessions", "messages"}
        and not {"sessions", "messages"} <= tables
        and not any(tx.one(Sql(f"SELECT 1 FROM {name} LIMIT 1")) for name in tables)  # noqa: S608
    )


def add_columns(tx: Tx) -> None:
    """Bring the columns that a file of version 6 may lack, and make its titles unique."""
    add_missing_columns(tx, "sessions", _SESSION_TYPES)
    add_missing_columns(tx, "messages", _MESSAGE_TYPES)
    _separate_equal_titles(tx)


class Made(NamedTuple):
    """Something that a statement of a schema creates."""

    kind: str
    name: str
    statement: str


def created_by(script: str) -> Iterator[Made]:
    """Give what the statements of a script create, in their order, without the comments before."""
    for statement in split_statements(script):
        found = _CREATED.search(statement)
        if found is not None:
            yield Made(found[1], found[2], statement[found.start() :].rstrip("; \n"))


# ---------------------------------------------------------------------- looking only


def views_for(tx: Tx) -> tuple[str, ...]:
    """Return temporary views through which any state file reads like one of version 6.

    They stand before the tables of the same name on one connection; the file is not touched.
    """
    return tuple(
        view
        for table, columns in (("sessions", SESSION_COLUMNS), ("messages", MESSAGE_COLUMNS))
        if (view := _view(table, columns, set(tx.columns(table)))) is not None
    )


def _view(table: str, columns: tuple[str, ...], present: set[str]) -> str | None:
    if set(columns) <= present:
        return None
    counters = {name for name, kind in _SESSION_TYPES.items() if "DEFAULT 0" in kind}
    added = (
        f"{0 if name in counters else 'NULL'} AS {name}" for name in columns if name not in present
    )
    return f"CREATE TEMP VIEW {table} AS SELECT *, {', '.join(added)} FROM main.{table}"  # noqa: S608


# ------------------------------------------------------------------------------
# What of a state file is ours: made where it is missing, brought forward, and taken out again.
#
# All of it is named `tk_`, but for the contract's full-text index, whose form is ours in a file
# that
# we made. Triggers and views are compared word by word: another program that rebuilds a table
# drops them, and one that finds a trigger missing makes its own.

_PLAIN_INDEX: Final = load_text(PACKAGE, "plain_index.sql")
_VIEW: Final = "tk_indexed_messages"
_COMPARED: Final = ("TRIGGER", "VIEW")


def read_side_version(tx: Tx) -> int:
    """Return the version of our side tables, 0 for a file without them."""
    if "tk_meta" not in _schema(tx):
        return 0
    value = tx.value("get_meta", {"key": "side_version"})
    return int(value) if value is not None and str(value).isdigit() else 0


def _schema(tx: Tx) -> dict[str, str]:
    """Return the names in a file, and how each was created, in single spaces."""
    return {name: " ".join(sql.split()) for name, sql in definitions(tx).items()}


def _lacking(present: Mapping[str, str], script: str) -> list[str]:
    """Return the names of what a file lacks of a script, or has in another form."""
    return [
        made.name
        for made in created_by(script)
        if made.name not in present
        or (made.kind in _COMPARED and present[made.name] != " ".join(made.statement.split()))
    ]


def is_whole(tx: Tx) -> bool:
    """Tell whether a file has every column, index and table that we rely on."""
    present = _schema(tx)
    return (
        set(SESSION_COLUMNS) <= set(tx.columns("sessions"))
        and set(MESSAGE_COLUMNS) <= set(tx.columns("messages"))
        and not _lacking(present, HEAD)
        and not _lacking(present, SIDE)
        and not _index_is_lost(tx, present)
        and read_side_version(tx) == SIDE_VERSION
    )


def heal(database: Database) -> None:
    """Bring what is missing into a file, in one transaction: columns, indexes, what is ours."""
    with database.read() as tx:
        if is_whole(tx):
            return
    with database.write() as tx:
        version = read_side_version(tx)
        add_columns(tx)
        _create_missing(tx, HEAD)
        for number in range(version + 1, SIDE_VERSION + 1) if version else ():
            _STEPS[number](tx)
        if "tk_search" not in _schema(tx):
            SEARCH_WORDS.drop(tx)  # its tables would be in the way
        made = _create_missing(tx, SIDE)
        _begin_again(tx, made if version == SIDE_VERSION else made - _triggers())
        if _index_is_lost(tx, _schema(tx)):
            build_index(tx)
        tx.run(Sql("INSERT OR IGNORE INTO tk_meta VALUES ('indexed', '0'), ('active', '0')"))
        if not version:
            tx.run(Sql("INSERT OR IGNORE INTO tk_touched SELECT id FROM sessions"))
        tx.run("set_meta", {"key": "side_version", "value": str(SIDE_VERSION)})


def _create_missing(tx: Tx, script: str) -> set[str]:
    """Create what a file lacks, or has in another form; give the names."""
    lacking = _lacking(_schema(tx), script)
    for made in created_by(script):
        if made.name in lacking:
            if made.kind in _COMPARED:
                tx.run(Sql(f"DROP {made.kind} IF EXISTS {made.name}"))
            tx.run(Sql(made.statement))
    return set(lacking)


def _triggers() -> set[str]:
    return {made.name for made in created_by(SIDE) if made.kind == "TRIGGER"}


def _begin_again(tx: Tx, made: set[str]) -> None:
    """Read again what a lost trigger or table would have kept right; fingerprints still count."""
    if made & {"tk_search", "tk_docs", "tk_dirty", "tk_message_gone", "tk_message_changed"}:
        tx.run("forget_docs")
        tx.run("clean_all")
        tx.run(Sql("DELETE FROM tk_meta WHERE key = 'indexed'"))
    if made & {"tk_message_gone"}:
        gone = "key NOT IN (SELECT id FROM messages)"
        tx.run(Sql(f"DELETE FROM tk_exact WHERE owner = 'message' AND {gone}"))  # noqa: S608
        tx.run(Sql("DELETE FROM tk_offloaded WHERE message_id NOT IN (SELECT id FROM messages)"))
    if made & {"tk_session_gone"}:
        tx.run(Sql("DELETE FROM tk_activity WHERE session_id NOT IN (SELECT id FROM sessions)"))
    if made & (_triggers() | {"tk_activity", "tk_touched"}):
        tx.run(Sql("INSERT OR IGNORE INTO tk_touched SELECT id FROM sessions"))


# ---------------------------------------------------------------------- steps


def _to_2(tx: Tx) -> None:
    """Triggers without columns of Hermes's; an index with a row for every message."""
    for name, sql in _schema(tx).items():
        if name.startswith("tk_") and sql.startswith("CREATE TRIGGER"):
            tx.run(Sql(f"DROP TRIGGER {name}"))
    tx.run(Sql("DROP INDEX IF EXISTS tk_messages_first_user"))
    if "tk_flags" in _schema(tx) and "titled" not in tx.columns("tk_flags"):
        tx.run(Sql("ALTER TABLE tk_flags ADD COLUMN titled TEXT"))
        tx.run(
            Sql("UPDATE tk_flags SET titled = (SELECT title FROM sessions WHERE id = session_id)")
        )


_STEPS: Final[Mapping[int, Callable[[Tx], None]]] = {2: _to_2}


# ---------------------------------------------------------------------- the contract's index


def has_our_index(present: Mapping[str, str]) -> bool:
    """Tell whether the contract's index is there in our form."""
    return _VIEW in present.get("messages_fts", "")


def _index_is_lost(tx: Tx, present: Mapping[str, str]) -> bool:
    """Tell whether we have to build it: not in a file that Hermes has brought further."""
    if read_version(tx) != SCHEMA_VERSION:
        return False
    if "messages_fts" not in present:
        return True
    return has_our_index(present) and bool(_lacking(present, INDEX))


def build_index(tx: Tx, script: str = INDEX) -> None:
    """Rebuild the contract's index with its triggers, and fill it from the messages."""
    for trigger in tx.all("triggers_of_index"):
        tx.run(Sql(f'DROP TRIGGER "{trigger[0]}"'))
    MESSAGE_WORDS.drop(tx)
    tx.run(Sql(f"DROP VIEW IF EXISTS {_VIEW}"))
    for statement in split_statements(script):
        tx.run(Sql(statement))
    MESSAGE_WORDS.rebuild(tx)


# ---------------------------------------------------------------------- taking out


def take_out(tx: Tx) -> list[str]:
    """Remove everything that is ours from a file; give the names of what was removed.

    Where the contract's index was ours, its own form comes back, filled.
    """
    present = _schema(tx)
    if has_our_index(present):
        build_index(tx, _PLAIN_INDEX)
    SEARCH_WORDS.drop(tx)
    removed = []
    for kind in ("trigger", "view", "index", "table"):
        for name, sql in definitions(tx, kind).items():
            if sql and name.startswith("tk_"):
                tx.run(Sql(f'DROP {kind.upper()} IF EXISTS "{name}"'))
                removed.append(name)
    return sorted({name for name in present if name.startswith("tk_")} | set(removed))
