"""Reporting: one thing that was observed, left in the spool. No store is opened for it."""

from threadkeep.base.spool import Spool
from threadkeep.collect.envelopes import write_line
from threadkeep.collect.rules import Rules, prepare
from threadkeep.knowledge.observed import Observed


def report(spool: Spool, rules: Rules, thing: Observed) -> bool:
    """Leave a report in a spool, its secrets masked; False if the user keeps it out."""
    ready = prepare(thing, rules)
    if ready is None:
        return False
    spool.put(write_line(ready) + b"\n")
    return True
