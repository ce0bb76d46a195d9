"""The index of all entries rebuilt: who wants it, how far it is, what remains to be done.

A row of `tk_cleaning` says that there is work, from the transaction that made it until the file
is clean. So a run that is killed is finished by the next one, whoever starts it.
"""

from typing import NamedTuple

from threadkeep.base.tx import Sql, Tx
from threadkeep.knowledge.archive import LogRow, load_log_by_id
from threadkeep.knowledge.failures import drop_unfounded
from threadkeep.knowledge.node_words import rebuild_node_words
from threadkeep.knowledge.schema import ENTRY_WORDS, THING_WORDS
from threadkeep.knowledge.search_index import clear_things
from threadkeep.knowledge.vector_rows import tidy


class ReindexProgress(NamedTuple):
    """From which log on there is work, and up to which entry it is ours."""

    next_log: int
    last_entry: int


def want_index(tx: Tx) -> None:
    """Leave word that the index is to be rebuilt."""
    tx.run("want_cleaning")


def logs_to_index(tx: Tx) -> int | None:
    """Count the logs that are still to be indexed; None if nobody wants that."""
    wanted = tx.one("cleaning")
    return None if wanted is None else int(tx.value("count_logs_from", {"log": wanted[0] or 0}))


def take_up_index(tx: Tx) -> ReindexProgress:
    """Return how far the index is; one that is not begun is emptied first."""
    first, last = tx.one("cleaning") or (None, None)
    if first is not None:
        return ReindexProgress(first, last)
    ENTRY_WORDS.clear(tx)
    clear_things(tx)
    return ReindexProgress(0, int(tx.value("last_entry_id") or 0))


def leave_index(tx: Tx, done: ReindexProgress) -> None:
    """Note how far the index is."""
    tx.run("clean_on", {"next_log": max(1, done.next_log), "last_entry": done.last_entry})


def next_log(tx: Tx, first: int) -> LogRow | None:
    """Return the first log from a number on."""
    number = tx.value("next_log", {"log": first})
    return None if number is None else load_log_by_id(tx, number)


def entries_to_index(tx: Tx, log_id: int, last: int) -> dict[int, list[tuple[int, str]]]:
    """Return number and key of the entries of a log, up to a number, by their line."""
    wanted: dict[int, list[tuple[int, str]]] = {}
    for entry, line, key in tx.all("entries_to_index", {"log": log_id, "last": last}):
        wanted.setdefault(line, []).append((entry, key))
    return wanted


def finish_index(tx: Tx, now: int) -> None:
    """Take old text out of the indexes, and whatever rests on what is gone."""
    ENTRY_WORDS.merge(tx)
    THING_WORDS.merge(tx)
    rebuild_node_words(tx)
    drop_unfounded(tx)  # a lesson quotes the error that it was learned from
    tidy(tx, now)  # a vector tells something of its text
    if "sqlite_stat1" in tx.tables():
        tx.run(Sql("ANALYZE"))  # with statistics come samples of what was there


def index_is_done(tx: Tx) -> None:
    """Note that the file is clean."""
    tx.run("cleaned")
