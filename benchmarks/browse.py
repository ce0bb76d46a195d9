"""`browse`: pages, filters, words and sums over very many captured sessions."""

from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.browse_made import BLOCKS, EVERY_MS, LONG, make_store
from benchmarks.measure import in_turn, median_of, used_by
from benchmarks.place import Place
from benchmarks.report import Goal, Result, Table, figure
from threadkeep.knowledge.library import Browse
from threadkeep.knowledge.query import Query, parse_query
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.sources.pi import SOURCE as PI

SESSIONS, PAGE = 100_000, 50
_LIMIT_MS, _WINDOW_MS, _WORDS_MS = 20.0, 60.0, 100.0
_MILLI = 1e3
_FIRST, _DEEP, _WORDS, _WINDOW = (
    "first page",
    "deep page",
    "words, common",
    "window of a long session",
)
_NOW = 1_800_000_000_000


def run(place: Place) -> Result:
    """List, filter, find and sum up; and read a window of one long session."""
    with place.fresh() as folder:
        path = folder / "knowledge.db"
        sources = {"pi": PI}
        make_store(folder, path, _NOW, SESSIONS)
        with KnowledgeStore.open(path, read_only=True) as store:
            make = partial(Browse, store, sources, clock=lambda: _NOW)
            ways = {name: partial(used_by, way) for name, way in _ways(make)}
            runs = in_turn(ways, place.either(9, 3))
    costs = {name: median_of(found) for name, found in runs.items()}
    rows = [
        (name, figure(cost.wall * _MILLI, 1), figure(cost.cpu * _MILLI, 1))
        for name, cost in costs.items()
    ]
    goals = [
        Goal(f"browse: {name}", limit, costs[name].wall * _MILLI, " ms")
        for name, limit in (
            (_FIRST, _LIMIT_MS),
            (_DEEP, _LIMIT_MS),
            (_WORDS, _WORDS_MS),
            (_WINDOW, _WINDOW_MS),
        )
    ]
    return Result(
        [Table(f"browse: {SESSIONS:,} sessions", ("what", "wall ms", "CPU ms"), rows)], goals
    )


def _ways(make: Callable[[], Browse]) -> Iterator[tuple[str, Callable[[], object]]]:
    """Name what is measured; `anew` is with nothing remembered, as after somebody's commit."""
    browse = make()

    def asked(text: str, after: str | None = None) -> Callable[[], object]:
        query = parse_query(text, _NOW)
        return lambda: browse.sessions(query, cursor=after, limit=PAGE)

    def anew(work: Callable[[Browse], object]) -> Callable[[], object]:
        return lambda: work(make())

    yield _FIRST, asked("")
    yield _DEEP, asked("", f"{_NOW - SESSIONS // 2 * EVERY_MS}.1")
    for text in ("agent:codex", "project:rare", "model:gpt", "branch:branch-7", "until:2024-06-01"):
        yield text, asked(text)
    yield "agent:codex project:rare", asked("agent:codex project:rare")
    yield "cost:>1 (none)", asked("cost:>1")
    yield _WORDS, anew(lambda one: one.sessions(Query("often"), limit=PAGE))
    yield "words, seldom", anew(lambda one: one.sessions(Query("seldom"), limit=PAGE))
    yield "count", browse.count
    yield "facets", anew(Browse.facets)
    yield "facets, agent:codex", anew(lambda one: one.facets(parse_query("agent:codex", _NOW)))
    yield "facets, once more", browse.facets
    yield "projects", anew(Browse.projects)
    yield "today", browse.today
    yield "usage of everything", anew(Browse.usage)
    yield "usage of a week", anew(lambda one: one.usage(parse_query("since:7d", _NOW)))
    yield "block of five hours, now", browse.block_now
    yield "detail of a long session", anew(lambda one: one.session(f"pi:{LONG}"))
    yield _WINDOW, anew(lambda one: one.window(f"pi:{LONG}", at=BLOCKS // 2))
    yield "the next window", partial(browse.window, f"pi:{LONG}", after=BLOCKS // 2)
    yield "find in a long session", anew(lambda one: one.find(f"pi:{LONG}", "number 77"))
    yield "find in it once more", partial(browse.find, f"pi:{LONG}", "number 78")
