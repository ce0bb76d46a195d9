"""What a home makes of what it captured: nodes, an index, lessons, vectors; each a step at a time.

`serve` runs these steps again and again, commands run them once. Each can be stopped between two
transactions and continues from there the next time.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from threadkeep.capture.capture import History
from threadkeep.errors import Conflict, NotFound
from threadkeep.knowledge.failures import learn_failures
from threadkeep.knowledge.kinds import Queue
from threadkeep.knowledge.lessons import LessonRules
from threadkeep.knowledge.opening import refuse_write
from threadkeep.knowledge.queues import release_own
from threadkeep.knowledge.recent_entries import RecentEntries
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.memory.fixed import archived_runs
from threadkeep.memory.learn.identifiers import project_roots
from threadkeep.memory.learn.worker import BATCH, Enricher, EnrichReport, Show, silent
from threadkeep.memory.vectors.backfill import (
    EmbedReport,
    Show as ShowEmbedded,
    archived_texts,
    embed_anew,
    embed_pending,
)
from threadkeep.memory.vectors.choice import EmbedderChoice, choose, choose_in_child

if TYPE_CHECKING:
    from threadkeep.home.home import Home


Stop = Callable[[], bool]

# Rows of one transaction: others who want to write wait for some tens of milliseconds.
_LESSON_ROWS: Final = 200
_UPGRADES: Final = 10


def never() -> bool:
    """Go on to the end."""
    return False


# ---------------------------------------------------------------------- nodes


def enrich(
    home: "Home",
    history: History,
    *,
    limit: int | None = None,
    at_once: bool = False,
    with_model: bool = True,
    upgrade: int = _UPGRADES,
    stop: Stop = never,
    show: Show = silent,
    tell: Callable[[str], None] = lambda _: None,
    queues: Sequence[Queue] = tuple(BATCH),
    recent: RecentEntries | None = None,
) -> EnrichReport:
    """Make nodes of what waits; with a model, also `upgrade` that only rules have written.

    `recent` are entries that need not be read from the archive.
    """
    refuse_write(history.store.access)
    config, store = home.config, history.store
    author = None
    if with_model:
        from threadkeep.memory.learn.model import make_author  # noqa: PLC0415  (rules need no HTTP)

        author = make_author(config.model, store, home.environ, tell=tell)
    enricher = Enricher(
        store,
        history.sources,
        new_uuid=lambda: str(uuid4()),
        roots=project_roots(config.enrich, home.environ),
        author=author,
        recent=recent,
    )
    report = enricher.run(queues=queues, limit=limit, at_once=at_once, stop=stop, show=show)
    if author is not None and upgrade and not report.taken and not stop():
        return enricher.upgrade(upgrade, stop=stop, show=show)
    return report


def learn_recent(home: "Home", history: History, recent: RecentEntries) -> int:
    """Make nodes of conversations, and lessons, while capture has their texts at hand.

    Gives how many nodes were written. Commands wait: those of a session that is still to be read
    are told of by its node.
    """
    done = enrich(home, history, with_model=False, queues=("agentic",), recent=recent)
    learn_all(home, history, recent=recent)
    return done.nodes


def reap_tickets(store: KnowledgeStore, now: int) -> int:
    """Take back the tickets of workers that died or never came back; give how many."""
    # A look at 100,000 tickets takes 10 ms.
    lost = any(queue.lost for queue in store.queues.locks(now).values())
    return store.queues.reap(now) if lost else 0


def release_claims(store: KnowledgeStore, budget: float | None = None) -> int:
    """Give back the tickets that this process holds, which is ending; it counts as no try.

    A worker that is still busy finds that it lost its ticket, and writes nothing.
    """
    if not store.queues.holders():
        return 0
    with store.write(budget=budget) as tx:
        return release_own(tx)


# ---------------------------------------------------------------------- words and lessons


def learn(home: "Home", history: History, recent: RecentEntries | None = None) -> int:
    """Count some of the failures that nobody has counted yet, in one step; give how many."""
    refuse_write(history.store.access)
    github, store = home.config.github, history.store
    rules = LessonRules(github.lesson_min_occurrences, github.lesson_window_days)
    with store.write(durable=False) as tx:
        return learn_failures(
            *(tx, rules, store.clock(), _LESSON_ROWS), archived_runs(history.sources, recent)
        )


def learn_all(
    home: "Home",
    history: History,
    stop: Stop = never,
    show: Callable[[int], None] = lambda _: None,
    recent: RecentEntries | None = None,
) -> int:
    """Count all failures that nobody has counted yet, step by step; give how many."""
    counted = 0
    learned_to = history.store.evidence.learned_to
    before, seen = None, learned_to()
    while before != seen and not stop():
        counted += learn(home, history, recent)
        show(counted)
        before, seen = seen, learned_to()
    return counted


# ---------------------------------------------------------------------- vectors


def embedder_in_child(home: "Home") -> EmbedderChoice:
    """Tell which embedder the settings mean, without loading it."""
    return choose_in_child(home.config.embeddings, home.paths().cache, home.environ)


def embed(
    home: "Home",
    history: History,
    stop: Stop = never,
    *,
    limit: int | None = None,
    rebuild: bool = False,
    show: ShowEmbedded = lambda _: None,
    progress: Callable[[int, int], None] | None = None,
) -> EmbedReport:
    """Make the vectors that are missing, in this process; Conflict if there are another model's.

    `rebuild` drops all that exist first. `progress` is called while our embedder's table is
    made, which is done once.
    """
    refuse_write(history.store.access)
    settings, cache = home.config.embeddings, home.paths().cache
    choice = choose(settings, cache, home.environ, make=True, progress=progress)
    if choice.embedder is None:
        hint = "`threadkeep doctor --explain` says what is needed"
        raise NotFound(f"vectors are off: {choice.reason}", hint=hint)
    store = history.store
    try:
        if rebuild:
            embed_anew(store, choice.embedder)
        texts = archived_texts(history.sources)
        done = embed_pending(store, choice.embedder, texts, limit=limit, stop=stop, show=show)
    finally:
        choice.embedder.close()
    if done.drift:
        raise Conflict(done.drift, hint="`threadkeep embed --rebuild` rebuilds all vectors")
    return done
