"""What a knowledge file is made of: its objects by name, its version, the rows it begins with."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

from threadkeep.base.connect import Tuning
from threadkeep.base.schema import columns_of
from threadkeep.base.sql import load_text, split_statements
from threadkeep.base.tx import Tx
from threadkeep.errors import Damaged, SchemaMismatch
from threadkeep.knowledge.versions import (
    CHANGES,
    NEWEST,
    SCHEMA_VERSION,
    VersionChange,
    changes_until,
    explain_version,
)

PACKAGE: Final = "threadkeep.knowledge"
# The archive first; then what recall, vectors, models and health keep of their own.
SIDE: Final = "\n".join(
    load_text(PACKAGE, f"tk{part}.sql")
    for part in (
        "",
        "_recall",
        "_vectors",
        "_model",
        "_health",
        "_service",
        "_lessons",
        "_browse",
        "_tickets",
    )
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
    """Give the script of what a version adds; an empty one if it adds no table."""
    return load_text(PACKAGE, f"{change.number:04d}_{change.name}.sql") if change.tables else ""


@cache
def head_of(version: int) -> str:
    """Give the contract's part of a fresh file of a version."""
    changes = tuple(changes_until(version))
    frozen = "" if any(change.dropped for change in changes) else load_text(PACKAGE, "frozen.sql")
    return "\n".join((load_text(PACKAGE, "head.sql"), frozen, *map(script_of, changes)))


@cache
def side_of(version: int) -> str:
    """Give what is ours in a file of a version."""
    scripts = (change.beside for change in changes_until(version))
    return "\n".join((SIDE, *(load_text(PACKAGE, script) for script in scripts if script)))


HEAD: Final = head_of(SCHEMA_VERSION)
_CREATES: Final = re.compile(
    r"CREATE (?:UNIQUE |VIRTUAL |TEMP )?(TABLE|INDEX|TRIGGER|VIEW) (?:IF NOT EXISTS )?(\w+)"
)
_COLUMN: Final = re.compile(r"  (\w+) (?:TEXT|INTEGER|REAL)\b")
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
        msg = f"another program has brought the file to schema version {version}"
        raise SchemaMismatch(msg, hint=fix)


# A line of a log that is watched changes a few bytes of some twenty pages: with pages of 8 KB that
# wrote 168 KB, with those of 4 KB 93, in a file that is 5 % smaller and read as fast. One that may
# shrink in small steps never has to be written anew. FTS5 is not on
# SQLite 3.40's list of tables that a trigger of an untrusted schema may use; the contract's do.
TUNING: Final = Tuning(
    fresh=("PRAGMA page_size = 4096", "PRAGMA auto_vacuum = INCREMENTAL"),
    writer=("PRAGMA trusted_schema = ON",),
    guard=refuse_newer_now,
)


# ---------------------------------------------------------------------- statements


def created(statement: str) -> tuple[str, str]:
    """Give the kind and the name of what a statement creates; two empty texts if nothing."""
    lines = (line for line in statement.splitlines() if not line.lstrip().startswith("--"))
    found = _CREATES.match("\n".join(lines).strip())
    return (found[1], found[2]) if found else ("", "")


def created_names(script: str) -> frozenset[str]:
    """Name everything that a script creates."""
    return frozenset(name for _, name in map(created, split_statements(script)) if name)


def columns_by_table(script: str) -> dict[str, tuple[str, ...]]:
    """Give the columns of each plain table of a script that has one line for each column."""
    tables = {}
    for statement in split_statements(script):
        kind, name = created(statement)
        columns = tuple(m[1] for m in map(_COLUMN.match, statement.splitlines()) if m)
        if kind == "TABLE" and columns:
            tables[name] = columns
    return tables


TABLES: Final[Mapping[str, tuple[str, ...]]] = columns_by_table(HEAD)
# The tables of every version that we know.
ALL_TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    **TABLES,
    **columns_by_table("\n".join(map(script_of, CHANGES))),
}
INDEX: Final = "knowledge_fts"
# What else a file may have: SQLite's and the index's own tables, vectors and their model, ours.
_BESIDE: Final = (
    *("sqlite_", INDEX, "knowledge_vectors", "embed_model_meta", "tk_"),
    "capture_alarm_lesson_cursor",
)


@cache
def _names_of(version: int) -> frozenset[str]:
    return created_names(head_of(version)) | created_names(side_of(version))


def run_script(tx: Tx, script: str) -> None:
    """Run every statement of a script inside a transaction."""
    for statement in split_statements(script):
        tx.execute(statement)


def create_missing(tx: Tx, script: str) -> set[str]:
    """Create what a file lacks; give the names."""
    present = names(tx)
    made = set[str]()
    for statement in split_statements(script):
        _, name = created(statement)
        if name and name not in present:
            tx.execute(statement)
            made.add(name)
    return made


# ---------------------------------------------------------------------- what a file has


def names(tx: Tx, kind: str = "") -> set[str]:
    """Name everything in a file, or everything of one kind: `table`, `index`, `trigger`."""
    sql = "SELECT name FROM sqlite_master WHERE ? IN ('', type)"
    return {str(row[0]) for row in tx.execute(sql, (kind,))}


def has_everything(tx: Tx) -> bool:
    """Tell whether no object of the contract or of ours is missing, by the file's version."""
    return names(tx) >= _names_of(user_version(tx))


def present_tables(tx: Tx) -> list[str]:
    """Name the plain tables of the contract that a file has, in the contract's order."""
    present = names(tx, "table")
    return [table for table in ALL_TABLES if table in present]


def unknown_tables(tx: Tx) -> list[str]:
    """Name the tables of a file that belong neither to a version that we know nor to us."""
    found = (name for name in names(tx, "table") if not name.startswith(_BESIDE))
    return sorted(name for name in found if name not in ALL_TABLES)


def count_rows(tx: Tx) -> dict[str, int]:
    """Count the rows of each table that a file has, its index included, our own left out."""
    counted = [*present_tables(tx), *({INDEX} & names(tx, "table")), *unknown_tables(tx)]
    sql = 'SELECT count(*) FROM "{}"'
    return {table: int(tx.execute(sql.format(table)).fetchone()[0]) for table in counted}


def is_begun(tx: Tx) -> bool:
    """Tell whether a file without a version was begun by Hippo, which makes table after table.

    Every table in it is the contract's, column by column; nothing else is taken for ours.
    """
    plain = {name for name in names(tx, "table") if not name.startswith(_BESIDE)}
    return (
        user_version(tx) == 0
        and bool(plain)
        and plain <= ALL_TABLES.keys()
        and all(set(columns_of(tx, name)) == set(ALL_TABLES[name]) for name in plain)
    )


def begun_version(tx: Tx) -> int:
    """Give the version that a file without one was meant to get, by the tables it has."""
    present = names(tx, "table")
    return NEWEST if any(present & set(change.tables) for change in CHANGES) else SCHEMA_VERSION


# ---------------------------------------------------------------------- versions


def user_version(tx: Tx) -> int:
    """Give the number in the file's header, 0 for one that says nothing."""
    return int(tx.execute("PRAGMA user_version").fetchone()[0])


def read_version(tx: Tx) -> int | None:
    """Give the version of a knowledge file, None for an empty one or another program's."""
    version = user_version(tx)
    if version == 0 or not all(want <= set(columns_of(tx, t)) for t, want in _MARKS.items()):
        return None
    if version < 0:
        msg = f"the file says that its schema version is {version}"
        raise Damaged(msg, hint="restore a backup with `threadkeep restore`; keep the file")
    return version


def write_version(tx: Tx, version: int) -> None:
    """Write the version into the file's header, with the rest of the transaction."""
    tx.execute(f"PRAGMA user_version = {version:d}")


# ---------------------------------------------------------------------- first rows


def seed_health(tx: Tx, sources: Iterable[str], now: int) -> None:
    """Make the health rows that are not there yet."""
    sql = "INSERT OR IGNORE INTO source_health (source, updated_at) VALUES (?, ?)"
    for source in sources:
        tx.execute(sql, (source, now))


def unseeded(tx: Tx) -> set[str]:
    """Name the sources without a health row."""
    rows = tx.execute("SELECT source FROM source_health")
    return set(seeded(user_version(tx))) - {str(row[0]) for row in rows}


def head_with_rows(version: int, now: int) -> str:
    """Give the script of a fresh file: the contract, our tables, and the health rows."""
    rows = ", ".join(f"('{source}', {now:d})" for source in seeded(version))
    put = f"INSERT INTO source_health (source, updated_at) VALUES {rows}"  # noqa: S608
    return f"{head_of(version)}\n{side_of(version)}\n{put};\n"
