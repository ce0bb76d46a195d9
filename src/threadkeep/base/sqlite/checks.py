"""What SQLite itself can say about the health of a file."""

import os
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, Final

from threadkeep.base.sqlite.connect import connect_uri
from threadkeep.base.sqlite.pragmas import wal_reset_race
from threadkeep.base.tx import Sql, Tx, engine_words
from threadkeep.errors import Damaged

_FEW = 5


def sqlite_problems(tx: Tx, *, quick: bool = False, references: bool = True) -> list[str]:
    """Run SQLite's own checks and give what they find, in words; nothing when all is well."""
    try:
        problems = _page_problems(tx, quick=quick)
        return problems + _reference_problems(tx) if references else problems
    except Damaged as error:  # a lock, or a full disk, says nothing about the file
        return [f"the file cannot be read: {engine_words(error)}"]


def _page_problems(tx: Tx, *, quick: bool) -> list[str]:
    check = "quick_check" if quick else "integrity_check"
    found = [str(row[0]) for row in tx.all(Sql(f"PRAGMA {check}({_FEW})"))]
    return [] if found == ["ok"] else [f"{check}: {line}" for line in found]


def table_problems(tx: Tx, tables: Iterable[str]) -> list[str]:
    """Look at the pages of some tables only; those that are not there have none."""
    present = {str(row[0]) for row in tx.all(Sql("SELECT name FROM sqlite_master"))}
    found = []
    for table in tables:
        if table in present:
            said = [str(row[0]) for row in tx.all(Sql(f"PRAGMA quick_check('{table}')"))]
            found += [f"quick_check: {line}" for line in said if line != "ok"]
    return found


def is_blank(tx: Tx) -> bool:
    """Tell whether a file has nothing in it yet."""
    return tx.one(Sql("SELECT 1 FROM sqlite_master LIMIT 1")) is None


def journal_mode(tx: Tx) -> str:
    """Return the journal mode of a file: `wal`, or `delete` as a rule."""
    return str(tx.value(Sql("PRAGMA journal_mode")))


def _reference_problems(tx: Tx) -> list[str]:
    broken = islice(tx.each(Sql("PRAGMA foreign_key_check")), _FEW)
    return [f"a row of {row[0]} refers to a missing row of {row[2]}" for row in broken]


# ------------------------------------------------------------------------------
# What can be asked of a SQLite file from outside: is it sound, how large, in which mode.

_MALFORMED: Final = ("malformed database schema", "database disk image is malformed")
_PATIENCE: Final = 2.0


def source_id() -> str:
    """Name the build of the SQLite library."""
    with closing(sqlite3.connect(":memory:")) as connection:
        return str(connection.execute("SELECT sqlite_source_id()").fetchone()[0])


def has_reset_race(version: tuple[int, int, int] | None = None) -> bool:
    """Tell whether a version of SQLite, by default ours, can lose a write-ahead log's commits."""
    asked = sqlite3.sqlite_version_info if version is None else version
    return asked >= (3, 7, 0) and wal_reset_race(asked)


def is_malformed(error: BaseException) -> bool:
    """Tell whether an error says that a file is damaged in its structure."""
    sort = isinstance(error, (sqlite3.DatabaseError, Damaged))
    return sort and any(words in str(error).lower() for words in _MALFORMED)


def choose_journal(connection: Any, name: str, *, safe: bool, require_wal: bool = False) -> str:
    """Switch a file to a write-ahead log where that is safe; give the mode that it has then.

    A file that has one keeps it. A library that can lose its commits is not `safe` and gets none.
    """
    mode = str(connection.execute("PRAGMA journal_mode").fetchone()[0]).lower()
    if mode == "wal":
        return mode
    if safe:
        try:
            mode = str(connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]).lower()
        except sqlite3.OperationalError:
            mode = "delete"
    if mode != "wal" and require_wal:
        msg = f"{name} cannot have a write-ahead log here: its journal mode is {mode}"
        raise sqlite3.OperationalError(msg)
    return "wal" if mode == "wal" else "delete"


def refuse_read_only(path: Path, name: str) -> None:
    """Raise if a database, its folder or a file beside it cannot be written by this user."""
    if str(path) == ":memory:" or str(path).startswith("file:"):
        return
    beside = [path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm")]
    present = [path.parent] if path.parent.is_dir() else []
    for one in [*present, *(file for file in beside if file.is_file())]:
        if not os.access(one, os.R_OK | os.W_OK):
            right = "u+rwx" if one.is_dir() else "u+rw"
            msg = (
                f"{name} is not writable: {one} is read-only for this user. Run chmod {right}"
                f" '{one}' (with sudo if it is another user's); never delete a -wal file"
            )
            raise sqlite3.OperationalError(msg)


def trouble_of(path: Path, probes: tuple[str, ...] = ()) -> str | None:
    """Tell what is wrong with a file, None if it is sound; `probes` are tried and taken back."""
    try:
        with closing(sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode").fetchone()
            found = connection.execute("PRAGMA integrity_check").fetchone()
            if found is None or found[0] != "ok":
                return str(found[0] if found else "no answer")
            return _tried(connection, probes)
    except sqlite3.Error as error:
        return str(error)


def _tried(connection: sqlite3.Connection, probes: tuple[str, ...]) -> str | None:
    try:
        connection.execute("BEGIN IMMEDIATE")
        for probe in probes:
            connection.execute(probe)
    except sqlite3.OperationalError as error:
        # A table that is not there, or words that need a library, are no damage; nor is a lock.
        harmless = ("no such table", "no such column", "no such tokenizer", "locked", "readonly")
        return None if any(words in str(error) for words in harmless) else str(error)
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    return None


def ask(path: Path, questions: dict[str, str]) -> dict[str, Any]:
    """Answer each question with the first value of its statement, None where it has none."""
    answers: dict[str, Any] = dict.fromkeys(questions)
    try:
        address = connect_uri(path, "ro")
        with closing(sqlite3.connect(address, uri=True, timeout=_PATIENCE)) as connection:
            for name, sql in questions.items():
                answers[name] = _first(connection, sql)
    except sqlite3.Error:
        return answers
    return answers


def _first(connection: sqlite3.Connection, sql: str) -> Any:
    try:
        row = connection.execute(sql).fetchone()
    except sqlite3.Error:
        return None
    return row[0] if row else None
