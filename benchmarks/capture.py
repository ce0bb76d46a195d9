"""`capture`: transcripts of coding agents, from their files to a searchable archive.

Each run is a fresh process, as a user starts it, and everything it uses counts. Beside it stand
the limit (parse each line, throw it away) and other programs that read the same transcripts. They
differ in what they keep, so the tables tell what each makes of it.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from benchmarks import capture_limits
from benchmarks.capture_asking import asking_table
from benchmarks.capture_corpus import Corpus, build
from benchmarks.capture_peers import PEERS, Made, environment, installed, run_peer
from benchmarks.capture_run import MEGA, Failed, Used, answer, launch, middle, ours
from benchmarks.capture_shapes import again_row, long_logs, many_logs
from benchmarks.capture_size import size_table
from benchmarks.measure import in_turn
from benchmarks.place import Place
from benchmarks.report import Goal, Result, Table, figure, ratio, times

_OURS, _UNMASKED = "threadkeep", "threadkeep without redaction"
_TYPED: Final = "threadkeep capture, as typed"  # with what the rules learn of it
_START, _LIMIT = "nothing", "json"
_PARSERS: Final = {"json": "json.loads", "msgspec": "msgspec", "orjson": "orjson"}
_TO_LIMIT: Final = 8.33  # 0.12 of its rate
_TO_PYTHON, _TO_AGENTSVIEW, _TYPED_TO_AGENTSVIEW = 0.33, 1.0, 0.8
_COLUMNS: Final = (
    "program",
    *("source MB", "CPU s", "seconds", "MB per CPU-second", "CPU per MB to ours", "peak MB"),
    "MB written",
)
_LIMIT_COLUMNS: Final = ("each line parsed by", "CPU s", "MB per CPU-second", "ours to it")
_MAKES: Final = "lossless archive, full text, segments"

Run = Callable[[], Made]


class Homes(NamedTuple):
    """The transcripts to read: once, which is what the slow ones get, and repeated."""

    once: Corpus
    all: Corpus


def run(place: Place) -> Result:
    """Measure the whole, then its parts."""
    cache = place.folder.parent / "bench-capture-cache"
    with place.fresh() as folder:
        homes = _homes(place, folder)
        ours("capture", folder / "warm", folder, cache=cache)  # compiles what is not compiled yet
        runs, failed = _in_turn(place, homes, cache)
        kept = _kept(homes, folder, cache)
        asking = asking_table(place, folder / "kept")
    long_table, long_goals = long_logs(place, cache)
    many_table = many_logs(place, cache)
    programs = {name: made for name, made in runs.items() if name not in (*_PARSERS, _START)}
    tables = [_programs(homes, programs), _limits(runs), *kept.tables, asking]
    goals = [*_goals(runs), *kept.goals, *long_goals]
    facts = [*_facts(homes, runs), *_missing(place), *failed]
    return Result([*tables, long_table, many_table], goals, facts)


def _homes(place: Place, folder: Path) -> Homes:
    once = build(folder / "once", 1)
    return Homes(once, once if place.quick else build(folder / "all", 4))


def _missing(place: Place) -> list[str]:
    there = set(installed(place.folder.parent))
    names = [name for name in PEERS if name not in there]
    return [f"capture: {name} is not installed; `--install-peers` would do it" for name in names]


# ------------------------------------------------------------------ who takes part


def _in_turn(place: Place, homes: Homes, cache: Path) -> tuple[dict[str, list[Made]], list[str]]:
    """Run everybody in turn; a peer that fails is left out, with a line that says why."""
    ways: dict[str, Run] = {
        _OURS: partial(_ourselves, place, homes.all, "capture", cache),
        _UNMASKED: partial(_ourselves, place, homes.all, "unmasked", cache),
        _TYPED: partial(_typed, place, homes.all, cache),
    }
    ways |= {name: partial(_parse, place, homes.all, name) for name in (_START, *_PARSERS)}
    for name in installed(place.folder.parent):
        corpus = homes.once if PEERS[name].slow else homes.all
        ways[name] = partial(run_peer, place, name, corpus)
    failed: dict[str, str] = {}
    for name in (*PEERS, "orjson"):
        if name in ways:
            ways[name] = partial(_try, name, ways[name], failed)
    runs = in_turn(ways, place.either(3, 1))
    found = {name: made for name, made in runs.items() if name not in failed}
    return found, [f"capture: {name} left out: {why}" for name, why in failed.items()]


def _try(name: str, way: Run, failed: dict[str, str]) -> Made:
    try:
        return way()
    except (Failed, OSError) as error:
        failed[name] = str(error).replace("\n", " ")
        return Made(Used(0, 0, 0, ""), 0, 0)


def _ourselves(place: Place, corpus: Corpus, order: str, cache: Path) -> Made:
    with place.fresh() as folder:
        used = ours(order, folder, corpus.home, cache=cache)
        written = sum(path.stat().st_size for path in folder.iterdir())
    told = answer(used)
    if told["errors"] or told["changed"] != told["logs"]:
        raise Failed(f"capture did not take everything: {told}")
    return Made(used, corpus.size, written)


def _typed(place: Place, corpus: Corpus, cache: Path) -> Made:
    """Run the command that a user types."""
    with place.fresh() as folder:
        words = ("-m", "threadkeep", "--home", str(folder), "capture", "--quiet")
        env = {"HOME": str(corpus.home), "PYTHONPYCACHEPREFIX": str(cache)}
        used = launch([sys.executable, *words], env)
        written = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return Made(used, corpus.size, written)


def _parse(place: Place, corpus: Corpus, name: str) -> Made:
    python = environment(place.folder.parent) / "bin" / "python"
    program = str(python) if name == "orjson" else sys.executable
    used = launch([program, capture_limits.__file__, name, str(corpus.home)], {})
    return Made(used, corpus.size, 0)


# ------------------------------------------------------------------ what is kept


def _kept(homes: Homes, folder: Path, cache: Path) -> Result:
    """Capture once more and keep the store: its size, and how quick a second run over it is."""
    if homes.all is not homes.once:
        ours("capture", folder / "kept", homes.all.home, cache=cache)
    store = folder / ("kept" if homes.all is homes.once else "kept-once")
    first = ours("capture", store, homes.once.home, cache=cache)
    again = [ours("capture", store, homes.once.home, cache=cache) for _ in range(3)]
    row, again_goal = again_row(again)
    columns = ("run over the transcripts", "logs", "read", "CPU s", "seconds", "µs of CPU per log")
    second = Table("capture: a second run", columns, [row])
    what = "real transcripts" if homes.once.real else "made-up transcripts"
    sizes, size_goal = size_table(store / "knowledge.db", answer(first)["bytes"], what)
    return Result([second, sizes], [again_goal, size_goal])


# ------------------------------------------------------------------ what is shown


def _rate(runs: Sequence[Made], start: float = 0.0) -> float:
    """Return the megabytes of source per second of CPU time."""
    return ratio(runs[0].read / MEGA, median(made.used.cpu for made in runs) - start)


def _programs(homes: Homes, programs: Mapping[str, Sequence[Made]]) -> Table:
    rows = [_program(name, runs, _rate(programs[_OURS])) for name, runs in programs.items()]
    kind = "real" if homes.all.real else "made-up"
    title = f"capture: {kind} transcripts, {homes.all.size / MEGA:,.0f} MB, each in a fresh process"
    makes = [f"{name}: {PEERS[name].makes}" for name in programs if name in PEERS]
    return Table(title, _COLUMNS, rows, "; ".join([f"{_OURS}: {_MAKES}", *makes]))


def _program(name: str, runs: Sequence[Made], our_rate: float) -> tuple[str, ...]:
    used = middle([made.used for made in runs])
    return (
        name,
        figure(runs[0].read / MEGA),
        *(figure(used.cpu, 2), figure(used.wall, 2), figure(_rate(runs))),
        times(ratio(our_rate, _rate(runs))),
        *(figure(used.peak / MEGA, 0), figure(runs[-1].written / MEGA)),
    )


def _limits(runs: Mapping[str, Sequence[Made]]) -> Table:
    start, ours_rate = _start(runs), _rate(runs[_OURS])
    rows = []
    for name, title in _PARSERS.items():
        if name in runs:
            cpu = median(made.used.cpu for made in runs[name]) - start
            rate = _rate(runs[name], start)
            share = figure(ratio(ours_rate, rate), 3)
            rows.append((title, figure(cpu, 2), figure(rate), share))
    note = "Without the start of Python, which ours is shown with."
    return Table("capture: the limit", _LIMIT_COLUMNS, rows, note)


def _start(runs: Mapping[str, Sequence[Made]]) -> float:
    return median(made.used.cpu for made in runs[_START])


def _goals(runs: Mapping[str, Sequence[Made]]) -> list[Goal]:
    own = _rate(runs[_OURS])
    limit = _rate(runs[_LIMIT], _start(runs))
    goals = [Goal("capture: CPU to the json.loads loop", _TO_LIMIT,
                  ratio(limit, own))]  # fmt: skip
    if "agentsview" in runs:
        rate = _rate(runs["agentsview"])
        goals.append(Goal("capture: CPU to agentsview", _TO_AGENTSVIEW, ratio(rate, own)))
        typed = ratio(rate, _rate(runs[_TYPED]))
        goals.append(Goal("capture: CPU as typed to agentsview", _TYPED_TO_AGENTSVIEW, typed))
    python = {
        name: _rate(runs[name]) for name, peer in PEERS.items() if peer.python and name in runs
    }
    whole = [rate for name, rate in python.items() if PEERS[name].whole]
    for what, rates in (("that keeps tool results", whole), ("of any kind", python.values())):
        if rates:
            name = f"capture: CPU to the fastest Python peer {what}"
            goals.append(Goal(name, _TO_PYTHON, ratio(max(rates), own)))
    return goals


def _facts(homes: Homes, runs: Mapping[str, Sequence[Made]]) -> list[str]:
    masked, plain = (median(made.used.cpu for made in runs[name]) for name in (_OURS, _UNMASKED))
    told = answer(runs[_OURS][-1].used)
    share = f"capture: redaction is {ratio(masked - plain, masked):.0%} of the CPU"
    facts = [f"{share}; {told['masked']:,} lines had a secret, {told['bad']:,} were no JSON"]
    if not homes.all.real:
        facts.append("capture: no real transcripts (THREADKEEP_SHARED); these are made up")
    return facts
