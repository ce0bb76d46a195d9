"""The knowledge store at the newest schema version, behind the line protocol of the fault tools.

Its old file is a whole store of ours at 18, with places of the kind that 22 moves; bringing it to
the newest version is asked for, as `knowledge migrate --to` does.
"""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "src"), str(REPO)]

from tests.faults import knowledge_adapter  # noqa: E402
from tests.faults.old_knowledge_files import THEN, insert, make_old_knowledge, now  # noqa: E402
from tests.faults.protocol import Adapter, speak  # noqa: E402
from threadkeep.knowledge.opening import open_knowledge  # noqa: E402
from threadkeep.knowledge.schema import NEWEST  # noqa: E402


def old(path: Path, version: int) -> None:
    """Make a store of ours at 18; `version` says no more than that."""
    make_old_knowledge(path, version - 1)
    knowledge_adapter.opened(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        for place in ("a", "b"):
            insert(
                connection, "claude_session_offsets", path=f"/u/.claude/{place}.jsonl",
                session_id=place, byte_offset=7, inode=1, device=2, updated_at=THEN,
            )  # fmt: skip


def migrate(path: Path) -> None:
    open_knowledge(path, lambda _: {}, schema=NEWEST, clock=now).database.close()


def fresh(path: Path, version: int) -> None:
    old(path, version)
    migrate(path)


if __name__ == "__main__":
    write, show = knowledge_adapter.write, knowledge_adapter.show
    speak(Adapter("newest knowledge store", ["nodes"], write, show, old, migrate, fresh))
