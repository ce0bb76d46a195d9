"""What of a state file is ours: made where it is missing, brought forward, and taken out again.

All of it is named `tk_`, but for the contract's full-text index, whose form is ours in a file that
we made. Triggers and views are compared word by word: another program that makes a table anew
drops them, and one that finds a trigger missing makes its own.
"""

from collections.abc import Callable, Mapping
from typing import Final

from threadkeep.base.database import Database
from threadkeep.base.fts import FullTextError
from threadkeep.base.schema import columns_of
from threadkeep.base.sql import load_text, split_statements
from threadkeep.base.tx import Tx
from threadkeep.state.context import MESSAGE_COLUMNS, SESSION_COLUMNS
from threadkeep.state.form import SIDE_VERSION
from threadkeep.state.layout import HEAD, INDEX, SIDE, add_columns, created_by, read_version
from threadkeep.state.versions import PACKAGE, SCHEMA_VERSION

_PLAIN_INDEX: Final = load_text(PACKAGE, "plain_index.sql")
_VIEW: Final = "tk_indexed_messages"
_COMPARED: Final = ("TRIGGER", "VIEW")


def read_side_version(tx: Tx) -> int:
    """Give the version of our side tables, 0 for a file without them."""
    if "tk_meta" not in _schema(tx):
        return 0
    value = tx.value("get_meta", {"key": "side_version"})
    return int(value) if value is not None and str(value).isdigit() else 0


def _schema(tx: Tx) -> dict[str, str]:
    """Give the names in a file, and how each was created, in single spaces."""
    rows = tx.execute("SELECT name, sql FROM sqlite_master").fetchall()
    return {str(name): " ".join(str(sql or "").split()) for name, sql in rows}


def _lacking(present: Mapping[str, str], script: str) -> list[str]:
    """Give the names of what a file lacks of a script, or has in another form."""
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
        set(SESSION_COLUMNS) <= set(columns_of(tx, "sessions"))
        and set(MESSAGE_COLUMNS) <= set(columns_of(tx, "messages"))
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
            drop_index(tx, "tk_search")  # its tables would be in the way
        made = _create_missing(tx, SIDE)
        _begin_again(tx, made if version == SIDE_VERSION else made - _triggers())
        if _index_is_lost(tx, _schema(tx)):
            build_index(tx)
        tx.execute("INSERT OR IGNORE INTO tk_meta VALUES ('indexed', '0'), ('active', '0')")
        if not version:
            tx.execute("INSERT OR IGNORE INTO tk_touched SELECT id FROM sessions")
        tx.run("set_meta", {"key": "side_version", "value": str(SIDE_VERSION)})


def _create_missing(tx: Tx, script: str) -> set[str]:
    """Create what a file lacks, or has in another form; give the names."""
    lacking = _lacking(_schema(tx), script)
    for made in created_by(script):
        if made.name in lacking:
            if made.kind in _COMPARED:
                tx.execute(f"DROP {made.kind} IF EXISTS {made.name}")
            tx.execute(made.statement)
    return set(lacking)


def _triggers() -> set[str]:
    return {made.name for made in created_by(SIDE) if made.kind == "TRIGGER"}


def _begin_again(tx: Tx, made: set[str]) -> None:
    """Read anew what a lost trigger or table would have kept right; fingerprints go on to count."""
    if made & {"tk_search", "tk_docs", "tk_dirty", "tk_message_gone", "tk_message_changed"}:
        tx.run("forget_docs")
        tx.run("clean_all")
        tx.execute("DELETE FROM tk_meta WHERE key = 'indexed'")
    if made & {"tk_message_gone"}:
        tx.execute(
            "DELETE FROM tk_exact WHERE owner = 'message' AND key NOT IN (SELECT id FROM messages)"
        )
        tx.execute("DELETE FROM tk_offloaded WHERE message_id NOT IN (SELECT id FROM messages)")
    if made & {"tk_session_gone"}:
        tx.execute("DELETE FROM tk_activity WHERE session_id NOT IN (SELECT id FROM sessions)")
    if made & (_triggers() | {"tk_activity", "tk_touched"}):
        tx.execute("INSERT OR IGNORE INTO tk_touched SELECT id FROM sessions")


# ---------------------------------------------------------------------- steps


def _to_2(tx: Tx) -> None:
    """Triggers without columns of Hermes's; an index with a row for every message."""
    for name, sql in _schema(tx).items():
        if name.startswith("tk_") and sql.startswith("CREATE TRIGGER"):
            tx.execute(f"DROP TRIGGER {name}")
    tx.execute("DROP INDEX IF EXISTS tk_messages_first_user")
    if "tk_flags" in _schema(tx) and "titled" not in columns_of(tx, "tk_flags"):
        tx.execute("ALTER TABLE tk_flags ADD COLUMN titled TEXT")
        tx.execute(
            "UPDATE tk_flags SET titled = (SELECT title FROM sessions WHERE id = session_id)"
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
    """Make the contract's index anew with its triggers, and fill it from the messages."""
    for trigger in tx.all("triggers_of_index"):
        tx.execute(f'DROP TRIGGER "{trigger[0]}"')
    drop_index(tx, "messages_fts")
    tx.execute(f"DROP VIEW IF EXISTS {_VIEW}")
    for statement in split_statements(script):
        tx.execute(statement)
    tx.execute("INSERT INTO messages_fts(messages_fts) VALUES ('rebuild')")


def drop_index(tx: Tx, table: str) -> None:
    """Drop an FTS5 table with its shadow tables, even one that SQLite cannot open any more."""
    try:
        tx.execute(f"DROP TABLE IF EXISTS {table}")
    except FullTextError:
        # Then its line is taken out of the schema, and what is left are ordinary tables.
        tx.execute("PRAGMA writable_schema = ON")
        try:
            tx.execute("DELETE FROM sqlite_master WHERE name = ?", (table,))
        finally:
            tx.execute("PRAGMA writable_schema = RESET")
    for shadow in ("data", "idx", "content", "docsize", "config"):
        tx.execute(f"DROP TABLE IF EXISTS {table}_{shadow}")


# ---------------------------------------------------------------------- taking out


def take_out(tx: Tx) -> list[str]:
    """Remove everything that is ours from a file; give the names of what was removed.

    Where the contract's index was ours, its own form comes back, filled.
    """
    present = _schema(tx)
    if has_our_index(present):
        build_index(tx, _PLAIN_INDEX)
    drop_index(tx, "tk_search")
    removed = []
    for kind in ("trigger", "view", "index", "table"):
        rows = tx.execute(
            r"SELECT name FROM sqlite_master WHERE type = ? AND sql IS NOT NULL"
            r" AND name LIKE 'tk\_%' ESCAPE '\'",
            (kind,),
        ).fetchall()
        for (name,) in rows:
            tx.execute(f'DROP {kind.upper()} IF EXISTS "{name}"')
            removed.append(str(name))
    return sorted({name for name in present if name.startswith("tk_")} | set(removed))
