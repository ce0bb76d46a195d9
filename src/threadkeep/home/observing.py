"""How a home's observations are opened: its spool, its store, and what its user keeps out."""

from typing import TYPE_CHECKING

import msgspec

from threadkeep.base.clock import now_ms
from threadkeep.base.spool import Spool
from threadkeep.capture.exclusion import Exclusion
from threadkeep.capture.harvesting import this_machine
from threadkeep.collect.collector import waiting_in
from threadkeep.collect.observing import Observations
from threadkeep.collect.reporting import report
from threadkeep.collect.rules import Rules
from threadkeep.collect.storing import Facts, Store
from threadkeep.collect.visits import VisitRules, rules_of
from threadkeep.home.history import excluded_places
from threadkeep.home.originals import AdoptReport
from threadkeep.home.waiting import FALLBACK, fallback_folders, spool_folder
from threadkeep.knowledge.observed import Observed
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.sources.git_facts import GitCache, facts_at

if TYPE_CHECKING:
    from threadkeep.home.facade import Home


class Reporter(msgspec.Struct, frozen=True):
    """Leaves what was observed in the spool of a home; its store need not even exist."""

    spool: Spool
    rules: Rules
    visits: VisitRules

    def report(self, thing: Observed) -> bool:
        """Leave a report, its secrets masked; False if the user keeps it out."""
        return report(self.spool, self.rules, thing)


def make_reporter(home: "Home") -> Reporter:
    """Put the spool of a home and its rules together."""
    return Reporter(Spool(spool_folder(home)), make_rules(home), rules_of(home.config.browser))


def make_rules(home: "Home") -> Rules:
    """Take what a home's user keeps out, and how secrets are masked, from its configuration."""
    config = home.config
    return Rules(
        clean=home.redactor().text,
        folders=Exclusion(excluded_places(config, home.environ)),
        commands=config.shell.exclude,
        visits=config.browser.enabled,
        sites=rules_of(config.browser).domains,
        domains=config.browser.exclude,
        strip_params=config.browser.strip_params,
    )


def open_observations(home: "Home", store: KnowledgeStore) -> Observations:
    """Put a store, the spool and the rules together; if that fails, the store is closed."""
    try:
        around = Store(
            db=store.context.db,
            rules=make_rules(home),
            clock=now_ms,
            facts=_fresh_facts,
            user=this_machine().username,
        )
        spool = Spool(spool_folder(home))
        fallbacks = fallback_folders(home, store.context.db.file)
        return Observations(store, around, spool, rules_of(home.config.browser), fallbacks)
    except BaseException:
        store.close()
        raise


def with_fallback(home: "Home", done: AdoptReport) -> AdoptReport:
    """Add what Hippo's programs could not deliver to what was imported; its files stay."""
    folder = done.original.path.parent / FALLBACK
    if done.dry_run or not waiting_in(folder):
        return done
    with home.observations(done.target) as observations:
        came = observations.copy(folder)
    note = f"{came.new} events that Hippo had not delivered were brought in from {folder}"
    return msgspec.structs.replace(done, notes=[*done.notes, note])


def _fresh_facts() -> Facts:
    cache = GitCache()
    return lambda cwd, at: facts_at(cwd, at, cache)
