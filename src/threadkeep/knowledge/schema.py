"""What a knowledge file is made of: its objects by name, its version, the rows it begins with."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

import msgspec

from threadkeep.base.database import Database
from threadkeep.base.sql import load_text
from threadkeep.base.sqlite import catalogue
from threadkeep.base.sqlite.catalogue import object_names
from threadkeep.base.sqlite.connect import Tuning
from threadkeep.base.sqlite.schema import Schema
from threadkeep.base.sqlite.statements import split_statements
from threadkeep.base.sqlite.upkeep import sqlite_file
from threadkeep.base.text import pattern
from threadkeep.base.tx import Sql, Tx
from threadkeep.base.word_index import WordIndex
from threadkeep.errors import Damaged, SchemaMismatch
from threadkeep.knowledge.kinds import triggers

# ------------------------------------------------------------------------------
# What a file's schema version means, what each one changed since 18, and what to do about it.
#
# What differs between versions stands in `CHANGES` and nowhere else: fresh files, the steps between
# versions and the queries that fit a file are all made from it.

# The version of new stores, and the first one that can be read.
SCHEMA_VERSION: Final = 18
# The versions that are written; a file between them is brought to the next one.
WRITTEN: Final = (SCHEMA_VERSION, 23)
NEWEST: Final = WRITTEN[-1]

Kind = Literal["empty", "older", "between", "current", "unknown", "no version"]
_BY_HAND = "do not set user_version by hand: it says that a step was made, and makes none"
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class VersionChange(NamedTuple):
    """What one version changed in a file; its script is `NNNN_name.sql`, if it adds tables."""

    number: int
    name: str
    tables: tuple[str, ...] = ()  # added
    dropped: tuple[str, ...] = ()  # those that refer to others first
    renamed: Mapping[str, str] = _NOTHING  # new table -> the one whose rows it took over
    health: tuple[str, ...] = ()  # rows that source_health begins with
    beside: str = ""  # a script of ours, for what its Hippo does otherwise
    hides: bool = False  # Hippo shows no node that rests on nothing settled


CHANGES: Final = (
    VersionChange(
        *(19, "memory"),
        tables=(
            *("memory_documents", "memory_revisions", "memory_chunks", "memory_enrichment_queue"),
            "knowledge_node_memory_chunks",
        ),
        health=("claude-auto-memory",),
        hides=True,
    ),
    VersionChange(
        20, "memory_links", tables=("memory_document_categories", "memory_document_links")
    ),
    VersionChange(21, "memory_watcher", health=("auto-memory-watcher",)),
    VersionChange(
        *(22, "offsets", ("agentic_session_offsets",)),
        renamed={"agentic_session_offsets": "claude_session_offsets"},
    ),
    VersionChange(
        *(23, "no_frozen_family"),
        dropped=(
            *("knowledge_node_claude_sessions", "claude_enrichment_queue", "claude_sessions"),
            *("claude_session_parity", "claude_session_offsets"),
        ),
        beside="tk_own_tickets.sql",
    ),
)


def changes_until(version: int) -> Iterator[VersionChange]:
    """Return what changed since 18 in a file of a version."""
    return (change for change in CHANGES if change.number <= version)


def target_of(version: int | None, wanted: int = SCHEMA_VERSION) -> int:
    """Return the version that a file is brought to when it is written, if `wanted` is asked for.

    There is no way back: a file beyond `wanted` stays, or is migrated to the next that is written.
    """
    least = max(version or 0, wanted)
    return next((written for written in WRITTEN if written >= least), NEWEST)


class SchemaFinding(msgspec.Struct, frozen=True):
    """A schema version, what it comes from, and the next step."""

    version: int
    kind: Kind
    cause: str
    fix: str
    readable: bool = False
    writable: bool = False


def explain_version(version: int) -> SchemaFinding:
    """Say what a version means for this program, and how to continue."""
    if version in WRITTEN:
        cause = "this is the version that we write"
        if version != SCHEMA_VERSION:
            cause = "this is a version that we write, and the one of today's Hippo"
        return SchemaFinding(version, "current", cause, "", readable=True, writable=True)
    if version == 0:
        return _empty()
    if version < 0:
        return _no_version(version)
    if version < SCHEMA_VERSION:
        return _older(version)
    return _between(version) if version < NEWEST else _unknown(version)


def _empty() -> SchemaFinding:
    cause = "the file has no version yet: it is new, or was left while it was made"
    fix = "open it for writing, which makes them; Hippo's daemon does the same when it starts"
    return SchemaFinding(0, "empty", cause, fix, writable=True)


def _no_version(version: int) -> SchemaFinding:
    cause = f"no program writes schema version {version}: the file's header is damaged"
    fix = "restore a backup with `threadkeep restore`; keep the file"
    return SchemaFinding(version, "no version", cause, fix)


def _older(version: int) -> SchemaFinding:
    cause = (
        f"the file was last written at schema version {version}, by a Hippo older than"
        f" version {SCHEMA_VERSION}; nothing has upgraded it since"
    )
    fix = (
        "open it for writing or run `threadkeep knowledge migrate` on it: a backup is made first,"
        f" then the file goes forward step by step; {_BY_HAND}"
    )
    return SchemaFinding(version, "older", cause, fix, writable=True)


def _between(version: int) -> SchemaFinding:
    cause = (
        f"schema version {version} lies between those that we write"
        f" ({' and '.join(map(str, WRITTEN))}): nothing has brought the file up since"
    )
    fix = (
        f"open it for writing or run `threadkeep knowledge migrate --to {NEWEST}` on it: a backup"
        f" is made first. Until then it can be read; {_BY_HAND}"
    )
    return SchemaFinding(version, "between", cause, fix, readable=True, writable=True)


def _unknown(version: int) -> SchemaFinding:
    cause = (
        f"a newer Hippo has brought the file to schema version {version};"
        f" this program knows versions up to {NEWEST}, and reads of it what it knows"
    )
    fix = (
        "upgrade threadkeep; until then the file can be read. There is no way back but a backup"
        f" from before the upgrade; {_BY_HAND}"
    )
    return SchemaFinding(version, "unknown", cause, fix, readable=True)


PACKAGE: Final = "threadkeep.knowledge"
# The archive first; then what recall, vectors, models and health keep of their own.
_SIDE: Final = (
    *("", "_recall", "_vectors", "_model", "_health", "_service", "_lessons", "_browse"),
    *("_tickets", "_labels", "_projects"),
)
FILL_INDEX: Final = load_text(PACKAGE, "fill_index.sql")

# A health row is updated by its source and made by nobody: without these it would never be there.
SEEDED: Final = (
    *("shell", "claude-tool", "browser", "brain-preflight"),
    *(f"agentic-session-{agent}" for agent in ("claude", "opencode", "codex", "cursor")),
)


def seeded(version: int) -> tuple[str, ...]:
    """Name the health rows that a file of a version begins with."""
    return (*SEEDED, *(source for change in changes_until(version) for source in change.health))


def script_of(change: VersionChange) -> str:
    """Return the script of what a version adds; an empty one if it adds no table."""
    return load_text(PACKAGE, f"{change.number:04d}_{change.name}.sql") if change.tables else ""


@cache
def head_of(version: int) -> str:
    """Return the contract's part of a fresh file of a version."""
    changes = tuple(changes_until(version))
    frozen = "" if any(change.dropped for change in changes) else load_text(PACKAGE, "frozen.sql")
    return "\n".join((load_text(PACKAGE, "head.sql"), frozen, *map(script_of, changes)))


@cache
def side_of(version: int) -> str:
    """Return what is ours in a file of a version."""
    ours = (f"tk{part}.sql" for part in _SIDE)
    beside = (change.beside for change in changes_until(version) if change.beside)
    scripts = (load_text(PACKAGE, script) for script in (*ours, *beside))
    return "\n".join((*scripts, triggers()))


@cache
def server_script() -> str:
    """Give the tables of every version and ours: a server has them all, so any file fits there."""
    every = (*map(script_of, CHANGES), load_text(PACKAGE, "orphans.sql"))
    return "\n".join((head_of(SCHEMA_VERSION), *every, side_of(SCHEMA_VERSION)))


_CREATES: Final = pattern(
    r"CREATE (?:UNIQUE |VIRTUAL |TEMP )?(TABLE|INDEX|TRIGGER|VIEW) (?:IF NOT EXISTS )?(\w+)"
)
_COLUMN: Final = pattern(r"  (\w+) (?:TEXT|INTEGER|REAL)\b")
# Enough to tell a knowledge file of any version from another program's `events` and `sessions`.
_MARKS: Final = {
    "sessions": {"id", "start_time", "shell", "hostname", "username"},
    "events": {"id", "session_id", "timestamp", "command", "duration_ms", "cwd", "enriched"},
}


def refuse_newer_now(tx: Tx, opened: int = NEWEST) -> None:
    """Raise if another program brought the file beyond the version that we opened."""
    version = user_version(tx)
    if version > opened:
        fix = explain_version(version).fix or "open the store again"
        msg = f"another program has migrated the file to schema version {version}"
        raise SchemaMismatch(msg, hint=fix)


# A line of a log that is watched changes a few bytes of some twenty pages: with pages of 8 KB that
# wrote 168 KB, with those of 4 KB 93, in a file that is 5 % smaller and read as fast. One that may
# shrink in small steps never has to be rewritten. FTS5 is not on
# SQLite 3.40's list of tables that a trigger of an untrusted schema may use; the contract's do.
TUNING: Final = Tuning(
    fresh=("PRAGMA page_size = 4096", "PRAGMA auto_vacuum = INCREMENTAL"),
    writer=("PRAGMA trusted_schema = ON",),
    guard=refuse_newer_now,
)


# ---------------------------------------------------------------------- statements


def created(statement: str) -> tuple[str, str]:
    """Return the kind and the name of what a statement creates; two empty texts if nothing."""
    lines = (line for line in statement.splitlines() if not line.lstrip().startswith("--"))
    found = _CREATES.match("\n".join(lines).strip())
    return (found[1], found[2]) if found else ("", "")


def created_names(script: str) -> frozenset[str]:
    """Name everything that a script creates."""
    return frozenset(name for _, name in map(created, split_statements(script)) if name)


def columns_by_table(script: str) -> dict[str, tuple[str, ...]]:
    """Return the columns of each plain table of a script that has one line for each column."""
    tables = {}
    for statement in split_statements(script):
        kind, name = created(statement)
        columns = tuple(m[1] for m in map(_COLUMN.match, statement.splitlines()) if m)
        if kind == "TABLE" and columns:
            tables[name] = columns
    return tables


@cache
def contract_tables() -> Mapping[str, tuple[str, ...]]:
    """Return the contract's tables of a fresh file, with their columns."""
    return columns_by_table(head_of(SCHEMA_VERSION))


@cache
def known_tables() -> Mapping[str, tuple[str, ...]]:
    """Return the contract's tables of every version that we know."""
    return {**contract_tables(), **columns_by_table("\n".join(map(script_of, CHANGES)))}


ENTRY_WORDS: Final = WordIndex("tk_entry_words")
THING_WORDS: Final = WordIndex("tk_thing_words")
NODE_WORDS: Final = WordIndex("knowledge_fts")  # the contract's; filled by its triggers
# What else a file may have: SQLite's and the index's own tables, vectors and their model, ours.
_BESIDE: Final = (
    *("sqlite_", NODE_WORDS.table, "knowledge_vectors", "embed_model_meta", "tk_"),
    "capture_alarm_lesson_cursor",
)


@cache
def _names_of(version: int) -> frozenset[str]:
    return created_names(head_of(version)) | created_names(side_of(version))


def create_missing(tx: Tx, script: str) -> set[str]:
    """Create what a file lacks; give the names."""
    present = object_names(tx)
    made = set[str]()
    for statement in split_statements(script):
        _, name = created(statement)
        if name and name not in present:
            tx.run(Sql(statement))
            made.add(name)
    return made


# ---------------------------------------------------------------------- what a file has


def has_everything(tx: Tx) -> bool:
    """Tell whether no object of the contract or of ours is missing, by the file's version."""
    return object_names(tx) >= _names_of(user_version(tx))


def present_tables(tx: Tx) -> list[str]:
    """Name the plain tables of the contract that a file has, in the contract's order."""
    present = tx.tables()
    return [table for table in known_tables() if table in present]


def unknown_tables(tx: Tx) -> list[str]:
    """Name the tables of a file that belong neither to a version that we know nor to us."""
    found = (name for name in tx.tables() if not name.startswith(_BESIDE))
    return sorted(name for name in found if name not in known_tables())


def count_rows(tx: Tx) -> dict[str, int]:
    """Count the rows of each table that a file has, its index included, our own left out."""
    counted = [*present_tables(tx), *({NODE_WORDS.table} & tx.tables()), *unknown_tables(tx)]
    sql = 'SELECT count(*) FROM "{}"'
    return {table: int(tx.value(Sql(sql.format(table)))) for table in counted}


def is_begun(tx: Tx) -> bool:
    """Tell whether a file without a version was begun by Hippo, which makes table after table.

    Every table in it is the contract's, column by column; nothing else is taken for ours.
    """
    plain = {name for name in tx.tables() if not name.startswith(_BESIDE)}
    return (
        user_version(tx) == 0
        and bool(plain)
        and plain <= known_tables().keys()
        and all(set(tx.columns(name)) == set(known_tables()[name]) for name in plain)
    )


def begun_version(tx: Tx) -> int:
    """Return the version that a file without one was meant to get, by the tables it has."""
    present = tx.tables()
    return NEWEST if any(present & set(change.tables) for change in CHANGES) else SCHEMA_VERSION


# ---------------------------------------------------------------------- versions


def user_version(tx: Tx) -> int:
    """Return the number in the file's header, 0 for one that says nothing.

    On a server all tables of the newest version are there, and no Hippo beside us.
    """
    return catalogue.user_version(tx) if tx.engine == "sqlite" else NEWEST


def read_version(tx: Tx) -> int | None:
    """Return the version of a knowledge file, None for an empty one or another program's."""
    version = user_version(tx)
    if version == 0 or not all(want <= set(tx.columns(t)) for t, want in _MARKS.items()):
        return None
    if version < 0:
        msg = f"the file says that its schema version is {version}"
        raise Damaged(msg, hint="restore a backup with `threadkeep restore`; keep the file")
    return version


def write_version(tx: Tx, version: int) -> None:
    """Write the version into the file's header, with the rest of the transaction."""
    catalogue.set_user_version(tx, version)


# ---------------------------------------------------------------------- first rows


def seed_health(tx: Tx, sources: Iterable[str], now: int) -> None:
    """Make the health rows that are not there yet."""
    sql = "INSERT INTO source_health (source, updated_at) VALUES (:source, :now)"
    for source in sources:
        tx.run(Sql(f"{sql} ON CONFLICT DO NOTHING"), {"source": source, "now": now})


def unseeded(tx: Tx) -> set[str]:
    """Name the sources without a health row."""
    rows = tx.all(Sql("SELECT source FROM source_health"))
    return set(seeded(user_version(tx))) - {str(row[0]) for row in rows}


def head_with_rows(version: int, now: int) -> str:
    """Return the script of a fresh file: the contract, our tables, and the health rows."""
    rows = ", ".join(f"('{source}', {now:d})" for source in seeded(version))
    put = f"INSERT INTO source_health (source, updated_at) VALUES {rows}"  # noqa: S608
    return f"{head_of(version)}\n{side_of(version)}\n{put};\n"


# ---------------------------------------------------------------------- on a server


@cache
def schema_on_server() -> Schema:
    """Return what makes the tables of a store on a server, where nobody else brings them up."""
    return Schema("knowledge", 1, server_script(), (), read_version, write_version)


@cache
def file_schemas() -> tuple[Schema, ...]:
    """Return what makes a file, by the versions that are written."""
    server = schema_on_server()
    heads = ((version, f"{head_of(version)}\n{side_of(version)}") for version in WRITTEN)
    return tuple(server._replace(version=version, head=head) for version, head in heads)


# What is moved between a file and a server, and what is made from it there.
NO_QUERIES: Final[Mapping[str, str]] = MappingProxyType({})
MADE_AGAIN: Final = frozenset(
    {"tk_things", "tk_indexed", "tk_stale", "tk_turns", "tk_cleaning", "embed_model_meta"}
)


def want_index(tx: Tx) -> None:
    """Note that all words are to be indexed; whoever finds it does it."""
    tx.run(Sql("INSERT INTO tk_cleaning (id) VALUES (1) ON CONFLICT DO NOTHING"))


# ------------------------------------------------------------------------------
# Named queries made to fit a file: they name the newest tables, and a file may lack some.
#
# A table that a file does not have counts as empty: what is asked of it gives nothing, what is put
# into it goes nowhere. One that only bears an older name there is asked under that name. So nobody
# who runs a query needs to know the version of the file.

_OLD_NAMES: Final = {new: old for change in CHANGES for new, old in change.renamed.items()}
# A statement that changes no row and takes any named values.
_FIT_NOTHING: Final = "UPDATE source_health SET source = source WHERE 0"


class FittedQueries(Mapping[str, str]):
    """Named queries that fit one file; each is rewritten when it is first needed."""

    def __init__(self, queries: Mapping[str, str]) -> None:
        self._queries = queries
        self._present: frozenset[str] | None = None  # until the tables are known nothing is changed
        self._absent: re.Pattern[str] | None = None
        self._fitted: dict[str, str] = {}

    def fit(self, present: Collection[str]) -> None:
        """Fit the queries to a file that has these tables."""
        absent = sorted(known_tables().keys() - set(present))
        self._present = frozenset(present)
        self._absent = re.compile(rf"\b(?:{'|'.join(absent)})\b") if absent else None
        self._fitted = {}

    def __getitem__(self, name: str) -> str:
        found = self._fitted.get(name)
        if found is None:
            found = self._fitted[name] = self._fit(self._queries[name])
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._queries)

    def __len__(self) -> int:
        return len(self._queries)

    def _fit(self, sql: str) -> str:
        if self._absent is None or self._present is None:
            return sql
        named = self._absent.findall(sql)
        return fit_query(sql, named, self._present) if named else sql


def fit_query(sql: str, absent: Collection[str], present: Collection[str]) -> str:
    """Write a query so that it goes without some tables."""
    for table in sorted(set(absent)):
        if _OLD_NAMES.get(table) in present:
            sql = re.sub(rf"\b{table}\b", _OLD_NAMES[table], sql)
        elif re.search(rf"\b(?:INTO|UPDATE|DELETE\s+FROM)\s+{table}\b", sql, re.IGNORECASE):
            return _FIT_NOTHING
        else:
            sql = _reads(table).sub(partial(_fit_empty, table), sql)
    return sql


@cache
def _reads(table: str) -> re.Pattern[str]:
    return re.compile(rf"\b(FROM|JOIN)\s+{table}\b(?:\s+AS\s+(\w+))?", re.IGNORECASE)


def _fit_empty(table: str, at: re.Match[str]) -> str:
    columns = ", ".join(f"NULL AS {column}" for column in ("rowid", *known_tables()[table]))
    return f"{at[1]} (SELECT {columns} WHERE 0) AS {at[2] or table}"


# ------------------------------------------------------------------------------
# The tables of memory in a file of version 18, which has none of its own.
#
# Versions 19 and 20 added them and changed nothing else: a Hippo of 18 does not look at them, and a
# step to 23 finds them there and keeps their rows.

_LAST: Final = 20
_CHANGES: Final = tuple(change for change in CHANGES if change.number <= _LAST)
MEMORY: Final = frozenset(table for change in _CHANGES for table in change.tables)


def make_memory_tables(database: Database) -> bool:
    """Make the tables of memory in a file that lacks them; False if there was nothing to do."""
    with database.read() as tx:
        if tx.tables() >= MEMORY:
            return False
    with database.write() as tx:
        for change in _CHANGES:
            create_missing(tx, script_of(change))
        present = tx.tables()
    queries = sqlite_file(database).queries
    if isinstance(queries, FittedQueries):
        queries.fit(present)
    return True
