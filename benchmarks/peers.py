"""`peers`: other stores doing the same work, each in its own durable default, beside ours.

They live in an environment of their own, made by `python -m benchmarks --install-peers`; a peer
that is not there is left out, with a line that says so.
"""

import json
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks import append_ways, peer_worker
from benchmarks.corpus import Json, messages
from benchmarks.measure import Counters, in_turn, median_of, used_by
from benchmarks.place import Place
from benchmarks.report import Goal, Result, Table, figure, ratio, times
from threadkeep.chat.store import ChatStore

# The versions that were measured, and how each package is named when it is installed.
REQUIREMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "openai-agents": ("openai-agents==0.24.0",),
    "langchain-community": ("langchain-community==0.4.2", "sqlalchemy[asyncio]==2.1.8"),
    "llm": ("llm==0.36",),
}
_MICRO, _MILLI = 1e6, 1e3
_COLUMNS = ("store", "append CPU µs", "to ours", "append wall µs", "load CPU ms", "to ours")
_OURS, _RAW = "threadkeep", "raw, one table, no load"
Order = Callable[[Any], Counters]


def environment(cache: Path) -> Path:
    """Name the folder of the peers' environment."""
    return cache / "bench-venv"


def install(cache: Path) -> None:
    """Make the environment and install every peer that can be had."""
    folder = environment(cache)
    venv.create(folder, with_pip=True, clear=True)
    for name, wanted in REQUIREMENTS.items():
        print(f"installing {name} …", file=sys.stderr)
        quiet = ("--quiet", "--disable-pip-version-check")
        command = [_python(folder), "-m", "pip", "install", *quiet, *wanted]
        if subprocess.run(command, check=False).returncode:
            print(f"{name} could not be installed; it will be left out", file=sys.stderr)


def _python(folder: Path) -> str:
    return str(folder / "bin" / "python")


def run(place: Place) -> Result:
    """Append a batch with each store in turn, then load what was appended."""
    given = messages(place.either(1000, 200))
    rounds = place.either(5, 2)
    batches = [given[start::rounds] for start in range(rounds)]
    with ExitStack() as stack:
        stores: dict[str, Order] = {
            _OURS: stack.enter_context(_ourselves(place)),
            _RAW: stack.enter_context(_raw(place)),
        }
        missing = []
        for name in peer_worker.PEERS:
            try:
                stores[name] = stack.enter_context(_peer(place, name))
            except (OSError, ValueError):
                missing.append(f"peers: {name} is not installed; `--install-peers` would do it")
        appended = in_turn(_appends(stores, batches), rounds)
        loading = {name: partial(order, "load") for name, order in stores.items()}
        loading.pop(_RAW)
        loaded = in_turn(loading, place.either(9, 3))
    per_message = len(given) // rounds
    appends = {name: median_of(runs) for name, runs in appended.items()}
    loads = {name: median_of(runs) for name, runs in loaded.items()}
    table = _table(appends, loads, per_message, len(given))
    return Result([table], _goals(appends), missing)


def _appends(
    stores: Mapping[str, Order], batches: list[list[Json]]
) -> dict[str, Callable[[], Counters]]:
    def batch_after_batch(order: Order) -> Callable[[], Counters]:
        left = iter(batches)
        return lambda: order(next(left))

    return {name: batch_after_batch(order) for name, order in stores.items()}


# ------------------------------------------------------------------ who takes part


@contextmanager
def _ourselves(place: Place) -> Iterator[Order]:
    with place.fresh() as folder, ChatStore.open(folder / "chat.db") as store:
        session = store.create_session(agent="bench", model="none/none").id

        def append(batch: list[Json]) -> None:
            for message in batch:
                store.say(session, _text_only(message)["parts"])

        def obey(order: Any) -> Counters:
            if order == "load":
                return used_by(partial(store.ui_messages, session))
            return used_by(partial(append, order))

        yield obey


@contextmanager
def _raw(place: Place) -> Iterator[Order]:
    with place.fresh() as folder, append_ways.WAYS[append_ways.RAW](folder) as append:

        def each(batch: list[Json]) -> None:
            for message in batch:
                append(_text_only(message))

        yield lambda order: used_by(partial(each, order))


def _text_only(message: Json) -> Json:
    """What every store can hold: a role and a text."""
    return {"role": message["role"], "parts": message["parts"][:1]}


@contextmanager
def _peer(place: Place, name: str) -> Iterator[Order]:
    python = _python(environment(place.folder.parent))
    with place.fresh() as folder:
        process = subprocess.Popen(
            [python, peer_worker.__file__, name, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        with process:
            try:
                _answer(process)
                yield partial(_ask, process)
            finally:
                process.kill()


def _answer(process: "subprocess.Popen[str]") -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())  # ValueError when it has died


def _ask(process: "subprocess.Popen[str]", order: Any) -> Counters:
    assert process.stdin is not None
    told = order
    if order != "load":
        told = [(message["role"], message["parts"][0]["text"]) for message in order]
    process.stdin.write(json.dumps(told) + "\n")
    process.stdin.flush()
    _, cpu, wall = _answer(process)
    return Counters(cpu, wall, 0)


# ------------------------------------------------------------------ what is shown


def _table(
    appends: Mapping[str, Counters], loads: Mapping[str, Counters], batch: int, count: int
) -> Table:
    rows = []
    for name, cost in appends.items():
        load = loads.get(name, Counters(float("nan"), float("nan"), 0))
        rows.append(
            (
                name,
                figure(cost.cpu / batch * _MICRO, 0),
                times(ratio(cost.cpu, appends[_OURS].cpu)),
                figure(cost.wall / batch * _MICRO, 0),
                figure(load.cpu * _MILLI, 2),
                times(ratio(load.cpu, loads[_OURS].cpu)),
            )
        )
    return Table(f"peers: append one message, load {count:,}", _COLUMNS, rows)


def _goals(appends: Mapping[str, Counters]) -> list[Goal]:
    peers = [cost.cpu for name, cost in appends.items() if name not in (_OURS, _RAW)]
    if not peers:
        return []
    what = "peers: CPU of an append to the cheapest durable peer"
    return [Goal(what, 1.0, ratio(appends[_OURS].cpu, min(peers)))]
