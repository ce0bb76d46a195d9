"""The schema of `mailbox.db`; its version is SQLite's own `user_version`."""

from threadkeep.base.schema import Schema, SchemaStep
from threadkeep.base.sql import load_queries, load_text
from threadkeep.base.tx import Tx

PACKAGE = "threadkeep.mailbox"
VERSION = 2

QUERIES = load_queries(PACKAGE, "index_queries.sql")


def read_version(tx: Tx) -> int | None:
    """Give the version of an index of mailboxes, None for a file that is none.

    NanoClaw's own central file has the same tables, and no number: it is not ours to write.
    """
    sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'messaging_group_agents'"
    if tx.execute(sql).fetchone() is None:
        return None
    return int(tx.execute("PRAGMA user_version").fetchone()[0]) or None


def write_version(tx: Tx, version: int) -> None:
    """Write down the version."""
    tx.execute(f"PRAGMA user_version = {version:d}")


SCHEMA = Schema(
    name="mailbox",
    version=VERSION,
    head=load_text(PACKAGE, "index.sql"),
    steps=(SchemaStep(2, "0002_zones", "ALTER TABLE agent_groups ADD COLUMN zone TEXT;"),),
    read_version=read_version,
    write_version=write_version,
)
