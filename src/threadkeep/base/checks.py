"""What SQLite itself can say about the health of a file."""

import sqlite3

from threadkeep.base.trouble import is_damage
from threadkeep.base.tx import Tx

_FEW = 5


def sqlite_problems(tx: Tx, *, quick: bool = False, references: bool = True) -> list[str]:
    """Run SQLite's own checks and give what they find, in words; nothing when all is well."""
    try:
        problems = _page_problems(tx, quick=quick)
        return problems + _reference_problems(tx) if references else problems
    except sqlite3.Error as error:
        if not is_damage(error):  # a lock, or a full disk, says nothing about the file
            raise
        return [f"the file cannot be read: {error}"]


def _page_problems(tx: Tx, *, quick: bool) -> list[str]:
    check = "quick_check" if quick else "integrity_check"
    found = [str(row[0]) for row in tx.execute(f"PRAGMA {check}({_FEW})")]
    return [] if found == ["ok"] else [f"{check}: {line}" for line in found]


def _reference_problems(tx: Tx) -> list[str]:
    broken = tx.execute("PRAGMA foreign_key_check").fetchmany(_FEW)
    return [f"a row of {row[0]} refers to a missing row of {row[2]}" for row in broken]
