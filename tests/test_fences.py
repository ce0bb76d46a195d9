"""A store is the only one who knows its tables.

Outside a store's package nobody names one of its queries, runs SQL, or reaches for what is below
the store. What still does is listed with its number of places, and the lists may only shrink.
"""

import ast
from collections import Counter
from collections.abc import Iterator

from tests.test_layers import STORES, modules, room_of

# Names of queries are given to these methods of a transaction.
_BY_NAME = {"all", "one", "value", "run", "many"}
_OF_SQLITE = {"execute", "executemany", "executescript"}
_BELOW = {"context"}

# Module -> places, each to be taken away.
STILL: dict[str, int] = {
    "aio.py": 2,
    "capture/capture.py": 5,
    "capture/coverage.py": 3,
    "capture/engine.py": 2,
    "capture/forget.py": 30,
    "capture/forget_selection.py": 7,
    "capture/intake.py": 6,
    "capture/logs.py": 5,
    "capture/observed/collector.py": 6,
    "capture/observed/observed.py": 1,
    "capture/rebuild.py": 11,
    "capture/records.py": 2,
    "capture/rescan.py": 19,
    "home/backups.py": 1,
    "home/hand_off.py": 1,
    "home/home.py": 2,
    "home/opening.py": 8,
    "home/status.py": 18,
    "home/statusline.py": 5,
    "home/stores.py": 13,
    "memory/agent_query.py": 1,
    "memory/candidates.py": 2,
    "memory/context.py": 1,
    "memory/fixed.py": 10,
    "memory/hits.py": 4,
    "memory/learn/evidence.py": 14,
    "memory/learn/worker.py": 3,
    "memory/memory.py": 6,
    "memory/opened.py": 13,
    "memory/recall.py": 1,
    "memory/timeline.py": 5,
    "memory/vectors/backfill.py": 2,
    "service/doctor/doctor.py": 12,
    "service/doctor/inspection.py": 19,
    "service/doctor/observations.py": 12,
    "service/health.py": 2,
    "service/learn.py": 6,
    "service/maintenance.py": 5,
    "service/parts.py": 5,
    "service/serve.py": 3,
    "service/tail.py": 5,
    "service/watchdog.py": 11,
    "sources/mailboxes.py": 3,
    "transfer/adopt_knowledge.py": 1,
    "transfer/adopt_mail.py": 5,
    "transfer/originals.py": 1,
}


def broken(module: str, tree: ast.Module) -> Iterator[str]:
    """Yield the places of one module that know what only a store may know."""
    if room_of(module) in {"base", *STORES}:
        return
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="tx"), attr=verb),
                args=[ast.Constant(value=str()) | ast.JoinedStr(), *_],
            ) if verb in _BY_NAME:
                yield f"{module}:{node.lineno} names a query"
            case ast.Call(func=ast.Attribute(attr=verb)) if verb in _OF_SQLITE:
                yield f"{module}:{node.lineno} runs SQL"
            case ast.Attribute(
                value=ast.Name(id="store" | "chat" | "state" | "knowledge")
                | ast.Attribute(attr="store" | "chat" | "state" | "knowledge"),
                attr=name,
            ) if name in _BELOW:
                yield f"{module}:{node.lineno} reaches below a store"


def test_only_a_store_knows_its_tables() -> None:
    found = [place for module, tree in modules() for place in broken(module, tree)]
    counted = Counter(place.split(":")[0] for place in found)
    worse = {m: n for m, n in counted.items() if n > STILL.get(m, 0)}
    assert worse == {}, [place for place in found if place.split(":")[0] in worse]


def test_the_list_is_not_longer_than_needed() -> None:
    counted = Counter(p.split(":")[0] for m, tree in modules() for p in broken(m, tree))
    assert {m: n for m, n in STILL.items() if counted[m] != n} == {}
