"""`peers`: other stores doing the same work, each in its own durable default, beside ours.

Each lives in an environment of its own, made by `python -m benchmarks --install-peers`; a peer
that is not there is left out, with a line that says so. None of them sets `synchronous`, so all
commit as SQLite does by itself: durably, in whatever journal mode they choose.
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
    "google-adk": ("google-adk==2.13.0", "sqlalchemy", "aiosqlite", "greenlet"),
    "langgraph-checkpoint-sqlite": ("langgraph-checkpoint-sqlite==3.1.2",),
}
_MICRO, _MILLI = 1e6, 1e3
_COLUMNS = ("store", "append CPU µs", "to ours", "append wall µs", "load CPU ms", "to ours")
_OURS, _AGENTS = "threadkeep say()", "openai-agents"
# By hand, and not loaded: one plain table, and the three of the contract, without which no chat
# store that others can read is possible.
_BY_HAND: Final = (append_ways.RAW, append_ways.RAW_THREE)
Order = Callable[[Any], Any]


def environment(cache: Path, name: str) -> Path:
    """Name the folder of a peer's environment."""
    return cache / "bench-peers" / name


def install(cache: Path) -> None:
    """Make the environments and install every peer that can be had."""
    for name, wanted in REQUIREMENTS.items():
        print(f"installing {name} …", file=sys.stderr)
        folder = environment(cache, name)
        venv.create(folder, with_pip=True, clear=True)
        quiet = ("--quiet", "--disable-pip-version-check")
        command = [_python(folder), "-m", "pip", "install", *quiet, *wanted]
        if subprocess.run(command, check=False).returncode:
            print(f"{name} could not be installed; it will be left out", file=sys.stderr)


def _python(folder: Path) -> str:
    return str(folder / "bin" / "python")


def run(place: Place) -> Result:
    """Append a batch with each store in turn, then load what was appended."""
    given = messages(place.either(1000, 210))
    rounds = place.either(5, 3)
    batches = [given[start::rounds] for start in range(rounds)]
    with ExitStack() as stack:
        stores: dict[str, Order] = {
            _OURS: stack.enter_context(_ourselves(place)),
            **{name: stack.enter_context(_by_hand(place, name)) for name in _BY_HAND},
        }
        missing = []
        for name in peer_worker.PEERS:
            try:
                stores[name] = stack.enter_context(_peer(place, name))
            except (OSError, ValueError):
                missing.append(f"peers: {name} is not installed; `--install-peers` would do it")
        appended = in_turn(_appends(stores, batches), rounds)
        loading = {
            name: partial(order, "load") for name, order in stores.items() if name not in _BY_HAND
        }
        loaded = in_turn(loading, place.either(9, 3))
        told = {name: order("about") for name, order in stores.items() if name in REQUIREMENTS}
    per_message = len(given) // rounds
    # The first batch warms up: openai-agents opens a connection in each of its threads.
    appends = {name: median_of(runs[1:]) for name, runs in appended.items()}
    loads = {name: median_of(runs) for name, runs in loaded.items()}
    table = _table(appends, loads, per_message, len(given))
    facts = [
        f"peers: {name} {version}, journal_mode={mode}, synchronous as SQLite has it: FULL"
        for name, (version, mode) in told.items()
    ]
    return Result([table], _goals(appends, loads), [*facts, *missing])


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
def _by_hand(place: Place, name: str) -> Iterator[Order]:
    with place.fresh() as folder, append_ways.WAYS[name](folder) as append:

        def each(batch: list[Json]) -> None:
            for message in batch:
                append(_text_only(message))

        yield lambda order: used_by(partial(each, order))


def _text_only(message: Json) -> Json:
    """What every store can hold: a role and a text."""
    return {"role": message["role"], "parts": message["parts"][:1]}


@contextmanager
def _peer(place: Place, name: str) -> Iterator[Order]:
    python = _python(environment(place.folder.parent, name))
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


def _ask(process: "subprocess.Popen[str]", order: Any) -> Any:
    assert process.stdin is not None
    told = order
    if not isinstance(order, str):
        told = [(message["role"], message["parts"][0]["text"]) for message in order]
    process.stdin.write(json.dumps(told) + "\n")
    process.stdin.flush()
    answer = _answer(process)
    return answer if order == "about" else Counters(answer[1], answer[2], 0)


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


def _goals(appends: Mapping[str, Counters], loads: Mapping[str, Counters]) -> list[Goal]:
    if _AGENTS not in appends:
        return []
    said, floor = (appends[name].cpu for name in (_OURS, append_ways.RAW_THREE))
    theirs = appends[_AGENTS].cpu
    return [
        Goal(f"peers: CPU of say() to {_AGENTS}", 1.0, ratio(said, theirs)),
        Goal(
            f"peers: the same of the contract's rows by hand to {_AGENTS}",
            1.0,
            ratio(floor, theirs),
        ),
        Goal(
            f"peers: CPU of loading to {_AGENTS}", 1.2, ratio(loads[_OURS].cpu, loads[_AGENTS].cpu)
        ),
    ]
