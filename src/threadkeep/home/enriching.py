"""Enrichment of a home: what was captured becomes nodes, by rules or with the configured model."""

import uuid
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from threadkeep.base.paths import expand
from threadkeep.capture.history import History
from threadkeep.enrich.modelling import make_author
from threadkeep.enrich.worker import Enriched, Enricher, Show, silent
from threadkeep.knowledge.failures import learn_failures
from threadkeep.knowledge.lessons import LessonRules
from threadkeep.recall.calls import archived_runs

if TYPE_CHECKING:
    from threadkeep.home.facade import Home

__all__ = ["Enriched", "enrich", "learn", "project_roots"]

Tell = Callable[[str], None]

_MOST_ROOTS: Final = 500


def enrich(
    home: "Home",
    history: History,
    *,
    limit: int | None = None,
    at_once: bool = False,
    upgrade: int = 0,
    with_model: bool = True,
    stop: Callable[[], bool] = lambda: False,
    show: Show = silent,
    tell: Tell = lambda _: None,
) -> Enriched:
    """Work through what waits; then let a model write up to `upgrade` nodes of the rules anew."""
    context = history.store.context
    model = home.config.model
    author = make_author(model, context, home.environ, tell=tell) if with_model else None
    enricher = Enricher(
        context,
        history.sources,
        new_uuid=lambda: str(uuid.uuid4()),
        roots=project_roots(home.config.enrich.project_roots, home.environ),
        author=author,
    )
    done = enricher.run(limit=limit, at_once=at_once, stop=stop, show=show)
    if upgrade and author is not None and not stop():
        again = enricher.upgrade(upgrade, stop=stop, show=show)
        done.by_author += again.by_author
        done.errors += again.errors
    return done


def learn(home: "Home", history: History, limit: int = 500) -> int:
    """Count failures that came back since the last time; give how many are lessons."""
    settings = home.config.github
    rules = LessonRules(settings.lesson_min_occurrences, settings.lesson_window_days)
    context = history.store.context
    with context.db.write() as tx:
        return learn_failures(
            tx, rules, context.clock(), limit, archived=archived_runs(history.sources)
        )


def project_roots(named: tuple[str, ...] | None, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Give the folders whose names are cut off files: those of the settings, else repositories.

    The variable that Hippo's programs use is heard as well.
    """
    told = environ.get("HIPPO_PROJECT_ROOTS", "")
    if told:
        return tuple(part for part in told.split(":") if part)
    if named is not None:
        return tuple(str(expand(one, environ)) for one in named)
    folder = Path(environ.get("HOME") or Path.home()) / "projects"
    found = islice(folder.glob("*/.git"), _MOST_ROOTS)
    return tuple(sorted(str(one.parent) for one in found))
