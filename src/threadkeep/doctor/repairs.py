"""What can be mended inside a knowledge store: indexes are made anew, lost work is given back."""

from threadkeep.base.sqlite import Tx
from threadkeep.knowledge.layout import FILL_INDEX, names
from threadkeep.knowledge.things import clear_things, is_indexable
from threadkeep.knowledge.tickets import QUEUES, reap, requeue


def clear_indexes(tx: Tx) -> int:
    """Index every node anew, and have everything else indexed anew; give how many nodes."""
    tx.execute("DELETE FROM knowledge_fts")
    if is_indexable(tx):
        clear_things(tx)
    return tx.execute(FILL_INDEX).rowcount


def give_back_tickets(tx: Tx, now: int) -> int:
    """Let every ticket that failed, or whose worker is gone, be tried again; give how many.

    Segments with more than one equal node are among them: the next one takes their place.
    """
    count = reap(tx, now)
    present = names(tx, "table")
    for queue, table in QUEUES.items():
        if table.name in present:
            failed = f"SELECT {table.target} FROM {table.name} WHERE status = 'failed'"  # noqa: S608  (names of our own)
            targets = {int(row[0]) for row in tx.execute(failed)}
            if queue == "agentic":
                targets |= {int(row[0]) for row in tx.all("segments_told_twice")}
            count += requeue(tx, queue, targets, now) if targets else 0
    return count
