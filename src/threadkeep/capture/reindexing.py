"""The index of all entries made anew, and what was forgotten taken out of the file itself.

A row of `tk_cleaning` says that there is work, from the transaction that made it until the file
is clean. So a run that is killed is finished by the next one, whoever starts it.
"""

import logging
from collections.abc import Mapping

from threadkeep.base.tx import Tx
from threadkeep.capture.batches import BATCH_BYTES
from threadkeep.capture.context import CaptureContext
from threadkeep.capture.report import Progress, Watcher, silent
from threadkeep.capture.transcripts import entries_in
from threadkeep.knowledge.archive import read_lines
from threadkeep.knowledge.entries import Words, index_words, words_of
from threadkeep.knowledge.failures import drop_unfounded
from threadkeep.knowledge.logs import LogRow, load_log_by_id
from threadkeep.knowledge.things import clear_things, index_things
from threadkeep.knowledge.vector_rows import tidy
from threadkeep.sources.records import Source

log = logging.getLogger(__name__)


def reindex(around: CaptureContext, sources: Mapping[str, Source], show: Watcher = silent) -> int:
    """Make the index of all entries anew from the archive; give how many were indexed."""
    with around.db.write() as tx:
        tx.run("want_cleaning")
    return clean(around, sources, show)


def clean(around: CaptureContext, sources: Mapping[str, Source], show: Watcher = silent) -> int:
    """Finish what a change of the archive began, if anything did; give how many were indexed.

    The words are indexed anew, in several transactions: others may write meanwhile. Then the
    file is written anew, since free pages and the index's own pages may hold old text.
    """
    with around.db.read() as tx:
        wanted = tx.one("cleaning")
        if wanted is None:
            return 0
        progress = Progress(logs_total=tx.value("count_logs_from", {"log": wanted[0] or 0}))
    while _index_some(around, sources, progress):
        show(progress)
    while _index_things(around):
        show(progress)
    show(progress)
    with around.db.write() as tx:
        tx.run("merge_words")
        tx.run("merge_thing_words")
        tx.run("rebuild_index")
        drop_unfounded(tx)  # a lesson quotes the error that it was learned from
        tidy(tx, around.clock())  # a vector tells something of its text
        if tx.execute("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_stat1'").fetchone():
            tx.execute("ANALYZE")  # with statistics come samples of what was there
    around.db.vacuum()
    if not around.db.truncate_log():
        log.warning("%s: a reader is in the way; it is cleaned at the next run", around.db.path)
        return progress.entries
    with around.db.write() as tx:
        tx.run("cleaned")
    around.db.truncate_log()
    return progress.entries


def _index_some(around: CaptureContext, sources: Mapping[str, Source], progress: Progress) -> bool:
    """Index some logs in one transaction; tell whether there are more."""
    with around.db.write() as tx:
        next_log, last = tx.one("cleaning") or (None, None)
        if next_log is None:
            tx.run("clear_words")
            clear_things(tx)
            next_log, last = 0, int(tx.value("last_entry_id") or 0)
        words: Words = []
        size = 0
        while size < BATCH_BYTES:
            row = _next(tx, next_log)
            if row is None:
                next_log = max(1, next_log)
                break
            fresh = _words_of(tx, sources, row, last)
            size += sum(len(text) for _, text in fresh)
            words += fresh
            next_log = row.id + 1
            progress.logs_done += 1
            progress.path = row.path
        index_words(tx, words)
        progress.entries += len(words)
        tx.run("clean_on", {"next_log": next_log, "last_entry": last})
        return tx.value("next_log", {"log": next_log}) is not None


def _index_things(around: CaptureContext) -> int:
    """Index some of what is no message; give how many rows were looked at."""
    with around.db.write() as tx:
        return index_things(tx)


def _next(tx: Tx, first: int) -> LogRow | None:
    number = tx.value("next_log", {"log": first})
    return None if number is None else load_log_by_id(tx, number)


def _words_of(tx: Tx, sources: Mapping[str, Source], row: LogRow, last: int) -> Words:
    """Give what the entries of one log are found by."""
    wanted: dict[int, list[tuple[int, str]]] = {}
    for entry, line, key in tx.all("entries_to_index", {"log": row.id, "last": last}):
        wanted.setdefault(line, []).append((entry, key))
    words: Words = []
    for number, text in enumerate(read_lines(tx, row.id)) if wanted else ():
        places = wanted.get(number)
        if places is not None:
            entries = entries_in(sources, row, text, number)
            words += [
                (entry, words_of(entries[key].text))
                for entry, key in places
                if key in entries and entries[key].text
            ]
    return words
