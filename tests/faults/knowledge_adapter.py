"""The knowledge store behind the line protocol of the fault tools (protocol.py).

Its files of older versions keep the order of their columns. So `fresh` makes a file of the version
and brings it up undisturbed: that is how an interrupted one must end. The clock stands still, or
two runs would differ by their times.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "src"), str(REPO)]

from tests.faults.old_knowledge_files import make_old_knowledge, now  # noqa: E402
from tests.faults.protocol import Adapter, Save, patiently, speak, tell  # noqa: E402
from threadkeep.base.database import Database  # noqa: E402
from threadkeep.base.sqlite.checks import sqlite_problems  # noqa: E402
from threadkeep.base.tx import Sql, Tx  # noqa: E402
from threadkeep.knowledge.opening import open_knowledge  # noqa: E402
from threadkeep.knowledge.repair import is_whole  # noqa: E402

INSERT = (
    "INSERT INTO knowledge_nodes (uuid, content, embed_text, created_at, updated_at)"
    " VALUES (?, ?, ?, ?, ?)"
)
# The index keeps a copy of each node's text.
INDEXED = (
    "SELECT n.uuid, n.content, f.content FROM knowledge_nodes n"
    " LEFT JOIN knowledge_fts f ON f.rowid = n.id ORDER BY n.id"
)


def opened(path: str | Path) -> Database:
    return open_knowledge(path, lambda _: {}, clock=now).database


def digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()[:16]


# Writing ----------------------------------------------------------------------------------


def write(options: argparse.Namespace) -> None:
    """Store nodes one by one."""
    with closing(opened(options.db)) as database:
        for place in range(options.n):
            key = f"{options.iter}-{options.w}-{place}"
            content = json.dumps({"summary": f"node {key} " + "word " * (place % 50)})
            save = Save(key, 0, digest(content))
            took = patiently([save], partial(_store, database, key, content))
            tell("ACK", *save, took)


def _store(database: Database, key: str, content: str) -> None:
    with database.write() as tx:
        tx.run(Sql(INSERT), (key, content, content, now(), now()))


# Reading back -----------------------------------------------------------------------------


def show(path: str) -> list[str]:
    with closing(opened(path)) as database, database.read() as tx:
        return [*_nodes(tx), *sqlite_problems(tx), *([] if is_whole(tx) else ["it is not whole"])]


def _nodes(tx: Tx) -> Iterator[str]:
    """Print every node; give those that the index does not have as they are."""
    for uuid, content, indexed in tx.all(Sql(INDEXED)):
        tell("HAVE", uuid, 0, digest(content))
        if indexed != content:
            yield f"the index has node {uuid} as {indexed!r}"


# Schemas ----------------------------------------------------------------------------------


def migrate(path: Path) -> None:
    opened(path).close()


def fresh(path: Path, version: int) -> None:
    make_old_knowledge(path, version)
    migrate(path)


if __name__ == "__main__":
    speak(Adapter("knowledge store", ["nodes"], write, show, make_old_knowledge, migrate, fresh))
