"""Reporting: one thing that was observed, left in the spool. No store is opened for it."""

from collections.abc import Iterable

from threadkeep.base.spool import Spool
from threadkeep.collect.envelopes import write_line
from threadkeep.collect.rules import Rules, prepare
from threadkeep.knowledge.observed import Observed


def report(spool: Spool, rules: Rules, thing: Observed) -> bool:
    """Leave a report in a spool, its secrets masked; False if the user keeps it out."""
    return report_all(spool, rules, [thing]) == 1


def report_all(spool: Spool, rules: Rules, things: Iterable[Observed]) -> int:
    """Leave reports in one file of a spool, on the disk when this returns; count them."""
    ready = [done for thing in things if (done := prepare(thing, rules)) is not None]
    if ready:
        spool.put(b"".join(map(write_line, ready)))
    return len(ready)
