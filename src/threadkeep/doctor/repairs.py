"""What can be mended inside a knowledge store: indexes are made anew, lost work is given back."""

from collections import defaultdict

from threadkeep.base.json import decode
from threadkeep.base.sqlite import Tx
from threadkeep.knowledge.forgetting import erase_nodes
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
    """Let every ticket that failed, or whose worker is gone, be tried again; give how many."""
    count = reap(tx, now)
    present = names(tx, "table")
    for queue, table in QUEUES.items():
        if table.name in present:
            failed = f"SELECT {table.target} FROM {table.name} WHERE status = 'failed'"  # noqa: S608  (names of our own)
            targets = {int(row[0]) for row in tx.execute(failed)}
            count += requeue(tx, queue, targets, now) if targets else 0
    return count


def drop_twins(tx: Tx) -> int:
    """Take out nodes that are there more than once, but for the first; give how many.

    One that also tells of another segment only leaves those where it has a twin.
    """
    if not names(tx, "table") >= {"knowledge_nodes", "knowledge_node_agentic_sessions"}:
        return 0
    later: dict[int, set[int]] = defaultdict(set)
    for segment, nodes in tx.all("twin_nodes"):
        for node in sorted(decode(nodes))[1:]:
            later[node].add(segment)
    for node, segments in later.items():
        for segment in segments:
            tx.run("unlink_twin", {"node": node, "segment": segment})
    left = [node for node in later if not tx.all("segments_of_twin", {"node": node})]
    erase_nodes(tx, left)
    return len(later)
