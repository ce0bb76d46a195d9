"""`web`: pages over very many sessions, as the real server answers and a browser shows them."""

import http.client
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple
from urllib.parse import quote

import msgspec

from benchmarks.browse_made import BLOCKS, EVERY_MS, LONG, make_store
from benchmarks.measure import in_turn
from benchmarks.place import Place
from benchmarks.report import NOTHING, Goal, Result, Table, figure
from benchmarks.web_browser import Seen, browse_long_session
from threadkeep.home.home import Home
from threadkeep.service.web_access import address_of, listen, make_token, one_time_link
from threadkeep.web.part import WorkerTask

SESSIONS: Final = 100_000
_FIRST_MS, _TYPED_MS, _SHOWN_MS, _TASK_MS = 50.0, 100.0, 1000.0, 200.0
_LONG: Final = f"/sessions/{quote(f'pi:{LONG}', safe='')}"
_TICKS: Final = 100.0  # of CPU time in a second, as Linux counts it
_TIMING: Final = re.compile(r"page;dur=([0-9.]+)")
_IDLE_SECONDS: Final = 3600.0
_TYPED: Final = ("d", "do", "doc", "dock", "docker")
_ROUND: Final = count()


class Timed(NamedTuple):
    """What one request took, in milliseconds."""

    server: float  # as the server says itself; NaN where it does not
    cpu: float  # of its process, in whole hundredths of a second
    whole: float


class Running(NamedTuple):
    """A server that runs."""

    port: int
    token: str
    process: "subprocess.Popen[bytes]"
    link: str


def run(place: Place) -> Result:
    """Ask for every page in turn, then let a browser scroll through the longest session."""
    now = time.time_ns() // 1_000_000
    with served_store(place, now, SESSIONS) as running:
        ways = {name: partial(_ask, running, way) for name, way in _ways(now).items()}
        cold = {name: way() for name, way in ways.items()}
        runs = in_turn(ways, place.either(7, 3))
        seen = browse_long_session(running.link, _LONG)
        kilobytes = _memory(running.process.pid)
    return _result(cold, runs, seen, kilobytes / 1024)


@contextmanager
def served_store(place: Place, now: int, sessions: int) -> Iterator[Running]:
    """Make a store with so many sessions, a tenth of them for a quick run, and serve it."""
    with place.fresh() as folder:
        home = Home(folder / "home")
        path = home.knowledge_path()
        path.parent.mkdir(parents=True)
        make_store(folder / "user", path, now, place.either(sessions, sessions // 10))
        with serving(home, path) as running:
            yield running


def _ways(now: int) -> dict[str, str]:
    """Name the addresses that are asked for."""
    asked = ("agent:codex", "project:rare", "model:gpt", "branch:branch-7", "since:7d", "cost:>1")
    words = ("the", "seldom", "docker data", "doc*")
    deep = f"{now - SESSIONS // 20 * EVERY_MS}.1"
    return {
        "home": "/",
        "sessions": "/sessions",
        **{f"sessions, {text}": f"/sessions?q={quote(text)}" for text in asked},
        **{f"words: {text}": f"/sessions?q={quote(text)}" for text in words},
        **{f"typed: {text}": f"/sessions?q={text}" for text in _TYPED},
        "palette: docker": "/sessions.json?q=docker&limit=12&only=list",
        "sessions, a deep page": f"/sessions?after={deep}",
        "recall: docker": "/recall?q=docker",
        "usage": "/usage",
        "memory": "/nodes",
        "entities": "/entities",
        "graph of entities": "/entities/graph",
        "long session": _LONG,
        "long session, its middle": f"{_LONG}/messages?after={BLOCKS // 2}",
        "long session, its turns": f"{_LONG}/turns",
        "long session, found in it": f"{_LONG}/find?words=number+77",
    }


# ---------------------------------------------------------------------- the server


@contextmanager
def serving(home: Home, path: Path) -> Iterator[Running]:
    """Run the process that answers, as `threadkeep serve` does."""
    with listen(home.config.web, exactly=False) as listener:
        order = WorkerTask(listener.fileno(), str(home.paths().data), str(path), _IDLE_SECONDS)
        words = [sys.executable, "-P", "-m", "threadkeep.web.worker"]
        with subprocess.Popen(
            [*words, msgspec.json.encode(order).decode()],
            stdin=subprocess.PIPE,
            pass_fds=(order.descriptor,),
        ) as process:
            address = address_of(home.config.web, listener)
            link = one_time_link(home, address)
            try:
                yield Running(listener.getsockname()[1], make_token(home), process, link)
            finally:
                process.terminate()


def _ask(running: Running, path: str) -> Timed:
    # No two are the same: an answer that the server has kept would say nothing about its work.
    path += f"{'&' if '?' in path else '?'}round={next(_ROUND)}"
    began_cpu, began = cpu_of(running.process.pid), time.perf_counter()
    headers = {"authorization": f"Bearer {running.token}", "accept": "text/html"}
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=120)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        answer.read()
    finally:
        connection.close()
    whole = time.perf_counter() - began
    if answer.status != http.client.OK:
        raise RuntimeError(f"{path} was answered with {answer.status}")
    told = _TIMING.search(answer.headers.get("server-timing", ""))
    server = float(told[1]) if told else float("nan")
    return Timed(server, (cpu_of(running.process.pid) - began_cpu) * 1000, whole * 1000)


def cpu_of(process: int) -> float:
    """Return the CPU time of a process; 0 where the system does not tell."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text("ascii").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def peak_memory(process: int) -> float:
    """Give the most memory that a process had in kilobytes; NaN where the system does not tell."""
    return _memory(process, "VmHWM")


def _memory(process: int, figure_: str = "VmRSS") -> float:
    try:
        text = Path(f"/proc/{process}/status").read_text("ascii", "replace")
    except OSError:
        return float("nan")
    found = re.search(rf"{figure_}:\s+([0-9]+)", text)
    return float(found[1]) if found else float("nan")


# ---------------------------------------------------------------------- figures


def _result(
    cold: Mapping[str, Timed],
    runs: Mapping[str, list[Timed]],
    seen: Seen | None,
    megabytes: float,
) -> Result:
    warm = {name: _median(found) for name, found in runs.items()}
    limits = {name: limit for name in warm if (limit := _limit(name)) is not None}
    rows = [
        (
            name,
            f"{limits[name]:g}" if name in limits else NOTHING,
            figure(one.server),
            figure(one.cpu),
            figure(one.whole),
            figure(cold[name].whole),
        )
        for name, one in warm.items()
    ]
    columns = ("page", "goal", "server ms", "CPU ms", "whole ms", "first ms")
    goals = [
        Goal(f"web: {name}", limit, _told(warm[name]), " ms") for name, limit in limits.items()
    ]
    facts = [f"the server's process had {megabytes:.0f} MB at the end of the tour"]
    if seen is None:
        facts.append("no browser was found: the long session was not looked at")
        return Result([Table("The server's pages", columns, rows)], goals, facts)
    shown = [
        Goal("web: first content of the long session", _SHOWN_MS, seen.painted, " ms"),
        Goal("web: first block of the long session", _SHOWN_MS, seen.first_block, " ms"),
        Goal("web: longest task while scrolling", _TASK_MS, seen.longest_task, " ms"),
    ]
    facts.append(
        f"the browser went through {seen.blocks:,} blocks in {seen.scrolled / 1000:.1f} s,"
        f" with {seen.tasks} tasks over 50 ms"
    )
    return Result([Table("The server's pages", columns, rows)], [*goals, *shown], facts)


def _limit(name: str) -> float | None:
    if name == "sessions":
        return _FIRST_MS
    return _TYPED_MS if name.startswith(("typed", "words", "palette")) else None


def _told(one: Timed) -> float:
    """Return what the server says that it took; of who does not say, the whole request."""
    return one.whole if one.server != one.server else one.server


def _median(found: list[Timed]) -> Timed:
    return Timed(*(median(column) for column in zip(*found, strict=True)))
