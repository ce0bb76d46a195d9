"""`python -m benchmarks [NAME…] [--quick]`: measure, print tables, then goals met and missed.

The same goes into a folder: `bench.json`, and the goals and the growth as pictures.
"""

import argparse
import os
import platform
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks import (
    append,
    browse,
    capture,
    capture_peers,
    charts,
    contend,
    growth,
    listing,
    load,
    mail_poll,
    mail_syncs,
    mail_throughput,
    micro,
    peers,
    postgres,
    prompt,
    redact,
    search,
    start_up,
    state_append,
    state_contend,
    state_file,
    state_listing,
    state_load,
    state_search,
    stream,
    web,
    web_load,
)
from benchmarks.place import Place
from benchmarks.recall import run as recall
from benchmarks.report import Goal, Growth, Result, goals_text, json_text, table_text

CACHE: Final = Path(__file__).parent.parent / ".cache"

BENCHMARKS: Final[Mapping[str, Callable[[Place], Result]]] = {
    "stream": stream.run,
    "append": append.run,
    "peers": peers.run,
    "postgres": postgres.run,
    "postgres-large": postgres.run_large,
    "load": load.run,
    "list": listing.run,
    "search": search.run,
    "contend": contend.run,
    "growth": growth.run,
    "state-append": state_append.run,
    "state-file": state_file.run,
    "state-search": state_search.run,
    "state-contend": state_contend.run,
    "state-list": state_listing.run,
    "state-load": state_load.run,
    "mail-poll": mail_poll.run,
    "mail-syncs": mail_syncs.run,
    "mail-throughput": mail_throughput.run,
    "start": start_up.run,
    "capture": capture.run,
    "redact": redact.run,
    "prompt": prompt.run,
    "browse": browse.run,
    "web": web.run,
    "web-load": web_load.run,
    "recall": recall.run,
    "recall-speed": recall.run_speed,
    "recall-large": recall.run_large,
    "ids": micro.run_ids,
    "json": micro.run_json,
}
# Made only when they are named: minutes of making a store come before the first figure.
ON_REQUEST: Final = frozenset(("recall-large", "postgres-large"))
# What all of `--quick` is: two minutes of CPU. The others can be named.
QUICK: Final = (
    *("append", "peers", "load", "list", "growth", "ids", "json"),
    *("state-append", "state-file", "state-search", "state-load"),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the named benchmarks, or all of them."""
    options = _parser().parse_args(arguments)
    if options.install_peers:
        peers.install(CACHE)
        capture_peers.install(CACHE)
    place = Place(CACHE / "bench", options.quick)
    about = {
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "quick": options.quick,
    }
    print(", ".join(f"{name} {value}" for name, value in about.items()))
    results: dict[str, Result] = {}
    try:
        for name in options.names or _usual(quick=options.quick):
            results[name] = _show(name, place)
    finally:
        shutil.rmtree(place.folder, ignore_errors=True)
        _keep(options.out, results, about)
    _summarise([*results.values()])
    print(f"\n{options.out}: bench.json, goals.svg, growth.svg")


def _usual(*, quick: bool) -> list[str]:
    return list(QUICK) if quick else [name for name in BENCHMARKS if name not in ON_REQUEST]


def _keep(folder: Path, results: Mapping[str, Result], about: Mapping[str, Any]) -> None:
    """Write what was measured as JSON and as pictures, also where a later benchmark failed."""
    folder.mkdir(parents=True, exist_ok=True)
    goals: list[Goal] = [goal for result in results.values() for goal in result.goals]
    growths: list[Growth] = [one for result in results.values() for one in result.growths]
    (folder / "bench.json").write_text(json_text(results, about), encoding="utf-8")
    (folder / "goals.svg").write_text(charts.goals_svg(goals), encoding="utf-8")
    (folder / "growth.svg").write_text(charts.growth_svg(growths), encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", choices=[*BENCHMARKS, []], help=", ".join(BENCHMARKS)
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="fewer repeats, smaller sizes, and what takes long only if it is named: two minutes"
        " of CPU",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("build/bench"),
        metavar="FOLDER",
        help="where bench.json, goals.svg and growth.svg are put (build/bench)",
    )
    parser.add_argument(
        "--install-peers",
        action="store_true",
        help="first install other programs, each in an environment of its own under .cache",
    )
    return parser


def _show(name: str, place: Place) -> Result:
    print(f"\n{name} …", file=sys.stderr)
    started = time.monotonic()
    result = BENCHMARKS[name](place)
    for table in result.tables:
        print(f"\n{table_text(table)}")
    print(f"\n{name}: {time.monotonic() - started:.0f} s", file=sys.stderr)
    return result


def _summarise(results: Sequence[Result]) -> None:
    facts = [fact for result in results for fact in result.facts]
    goals: list[Goal] = [goal for result in results for goal in result.goals]
    if facts:
        print("\n" + "\n".join(facts))
    if goals:
        met = sum(goal.met for goal in goals)
        print(f"\n{goals_text(goals)}\n\n{met} of {len(goals)} goals met in this run")


if __name__ == "__main__":
    main()
