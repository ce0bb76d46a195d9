"""Tables built anew, for what SQLite cannot change in place: a CHECK, a UNIQUE."""

import re
from typing import Final

from threadkeep.base.schema import columns_of
from threadkeep.base.tx import Tx
from threadkeep.errors import Damaged, Invalid

# Which agents' conversations may be stored; as in head.sql, which a test compares.
HIPPOS: Final = ("claude-code", "opencode", "codex", "cursor")  # those that Hippo reads itself
HARNESSES: Final = (
    *HIPPOS,
    *("gemini-cli", "copilot-cli", "pi", "aider", "hermes", "nanoclaw", "chat", "state", "mailbox"),
)
_TABLE: Final = "agentic_sessions"
_LIST: Final = re.compile(r"(\bharness\b[\"`\]]?\s+IN\s*\()([^)]*)", re.IGNORECASE)
_NAME: Final = re.compile(
    r"(CREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?)[\"`\[]?agentic_sessions[\"`\]]?", re.IGNORECASE
)


def rebuild(tx: Tx, table: str, create: str) -> None:
    """Put a table of the same name in the place of one, with its rows; `create` makes `<name>_new`.

    Columns that only the new one has get their default. Indexes and triggers go with the old one.
    """
    _refuse_foreign_keys(tx, table)
    spare = f"{table}_new"
    tx.execute(f'DROP TABLE IF EXISTS "{spare}"')
    tx.execute(create)
    new = columns_of(tx, spare)
    both = ", ".join(f'"{name}"' for name in columns_of(tx, table) if name in new)
    tx.execute(f'INSERT INTO "{spare}" ({both}) SELECT {both} FROM "{table}"')  # noqa: S608
    tx.execute(f'DROP TABLE "{table}"')
    # Somebody's view of the table would stop the rename: for a moment there is no such table.
    tx.execute("PRAGMA legacy_alter_table = ON")
    try:
        tx.execute(f'ALTER TABLE "{spare}" RENAME TO "{table}"')
    finally:
        tx.execute("PRAGMA legacy_alter_table = OFF")


def _refuse_foreign_keys(tx: Tx, table: str) -> None:
    """With foreign keys on, dropping the old table would delete what refers to it."""
    if tx.execute("PRAGMA foreign_keys").fetchone()[0]:
        msg = f"{table} cannot be rebuilt in a transaction that enforces foreign keys"
        raise Invalid(msg, hint="begin it with `database.write(foreign_keys=False)`")


def allowed_harnesses(create: str) -> tuple[str, ...] | None:
    """Read the harnesses that a CREATE TABLE allows; None if it allows any."""
    found = _LIST.search(create)
    return None if found is None else tuple(re.findall(r"'([^']*)'", found[2]))


def widen_check(create: str) -> str:
    """Write a CREATE TABLE of agentic_sessions anew: under a spare name, with every harness."""
    known = allowed_harnesses(create) or ()
    listed = ", ".join(f"'{name}'" for name in dict.fromkeys((*known, *HARNESSES)))
    widened = _LIST.sub(rf"\g<1>{listed}", create, count=1)
    return _NAME.sub(rf"\1{_TABLE}_new", widened, count=1)


def harness_is_allowed(tx: Tx, harness: str) -> bool:
    """Tell whether the file takes conversations of this agent."""
    allowed = allowed_harnesses(_created_by(tx))
    return allowed is None or harness in allowed


def widen_harness(tx: Tx) -> bool:
    """Let a file that Hippo made take every agent we know; False if it does already.

    Rows, their numbers and all that refers to them stay. The transaction must have been begun with
    `foreign_keys=False`.
    """
    create = _created_by(tx)
    allowed = allowed_harnesses(create)
    if allowed is None or set(HARNESSES) <= set(allowed):
        return False
    sql = "SELECT sql FROM sqlite_master WHERE tbl_name = ? AND type IN ('index', 'trigger')"
    beside = [row[0] for row in tx.execute(sql, (_TABLE,)) if row[0] is not None]
    rebuild(tx, _TABLE, widen_check(create))
    for statement in beside:
        tx.execute(statement)
    return True


def _created_by(tx: Tx) -> str:
    sql = "SELECT sql FROM sqlite_master WHERE name = ? AND type = 'table'"
    row = tx.execute(sql, (_TABLE,)).fetchone()
    if row is None:
        msg = f"the file has no table {_TABLE}"
        raise Damaged(msg, hint="open it for writing once, which makes what is missing")
    return str(row[0])
