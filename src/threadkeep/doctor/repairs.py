"""What can be mended inside a knowledge store: indexes are made anew, lost work is given back."""

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress

import msgspec

from threadkeep.base.fts_mending import mend_index
from threadkeep.base.json import decode
from threadkeep.base.tx import Tx
from threadkeep.capture.places import Places
from threadkeep.capture.troubles import TROUBLES
from threadkeep.knowledge.archive import read_lines
from threadkeep.knowledge.forgetting import erase_nodes
from threadkeep.knowledge.layout import FILL_INDEX, names
from threadkeep.knowledge.logs import all_logs, save_log
from threadkeep.knowledge.things import clear_things, is_indexable
from threadkeep.knowledge.tickets import QUEUES, reap, requeue
from threadkeep.sources.decoding import decode_line
from threadkeep.sources.records import Log, Source


def clear_indexes(tx: Tx) -> int:
    """Index every node anew, and have everything else indexed anew; give how many nodes."""
    for index in sorted(names(tx, "table") & {"tk_entry_words", "tk_thing_words"}):
        mend_index(tx, index)
    mend_index(tx, "knowledge_fts")
    tx.run("rebuild_index")  # nothing can be taken out of an index that does not have it
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


def remake_positions(places: Places, tx: Tx) -> int:
    """Find out anew where the parsers of logs stopped, where that cannot be read any more.

    All that they had read is in the archive, line by line. Gives how many there were; a step of
    `places`.
    """
    count = 0
    for row in all_logs(tx):
        source = places.sources.get(row.reader)
        if row.error is None or row.parser is None or source is None or source.kind != "lines":
            continue
        log = msgspec.structs.replace(places.log(tx, row), session_id=row.session_id)
        if not _goes_on(source, log, row.parser):
            row.parser = _position_behind(source, log, read_lines(tx, row.id))
            save_log(tx, row)
            count += 1
    return count


def _goes_on(source: Source, log: Log, position: bytes) -> bool:
    try:
        source.parser(log, position)
    except TROUBLES:
        return False
    return True


def _position_behind(source: Source, log: Log, lines: Iterable[bytes]) -> bytes:
    parser = source.parser(log, None)
    for number, line in enumerate(lines):
        with suppress(*TROUBLES):  # it was reported when it was captured
            for record in decode_line(line):
                list(parser.feed(record, line, number))
    parser.harvest()
    return parser.state()
