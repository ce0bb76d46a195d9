"""`web-load`: fifty clients at once, each of whom asks as soon as it has its answer."""

import asyncio
import os
import random
import time
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final, NamedTuple
from urllib.parse import quote

from benchmarks.browse_made import BLOCKS, LONG, RECENT, recent
from benchmarks.place import Place
from benchmarks.report import Goal, Result, Table, figure
from benchmarks.web import Running, cpu_of, peak_memory, served_store

SESSIONS: Final = 100_000
CLIENTS: Final = 50
FOLLOWERS: Final = 5  # beside them; each has a page open that renews itself
_P99_MS, _MEGABYTES = 500.0, 200.0
_LONG: Final = f"/sessions/{quote(f'pi:{LONG}', safe='')}"
_TYPED: Final = ("d", "do", "doc", "dock", "docker", "the", "seldom", "docker data")


class Answered(NamedTuple):
    """One request: what kind it was, how long it took in milliseconds, how it was answered."""

    kind: str
    took: float
    status: int


def run(place: Place) -> Result:
    """Let fifty clients ask for all kinds of things at once."""
    now = time.time_ns() // 1_000_000
    with served_store(place, now, SESSIONS) as running:
        load(running, 1)  # what everybody waits for once: modules, prices, sums of all time
        before = cpu_of(running.process.pid)
        answered, seconds = load(running, place.either(40, 20))
        spent = cpu_of(running.process.pid) - before
        megabytes = peak_memory(running.process.pid) / 1024
    return _result(answered, (seconds, spent), megabytes)


def load(running: Running, rounds: int) -> tuple[list[Answered], float]:
    """Let every client ask so many times; give all answers, and how long it took."""
    began = time.perf_counter()
    answered = asyncio.run(_all(running, rounds))
    return answered, time.perf_counter() - began


def _asked(number: int) -> tuple[str, str]:
    """Choose what a client asks for next: mostly lists and transcripts, sometimes the rest."""
    choose = random.Random(number)
    typed, after = choose.choice(_TYPED), choose.randrange(0, BLOCKS, 100)
    read = quote(f"pi:{recent(choose.randrange(RECENT))}", safe="")
    agent = choose.choice(("codex", "cursor", "claude-code"))
    kinds = (
        *[("page: sessions", "/sessions")] * 3,
        *[("page: sessions, filtered", f"/sessions?q=agent:{agent}")] * 2,
        *[("typed", f"/sessions?q={quote(typed)}")] * 3,
        ("palette", f"/sessions.json?q={quote(typed)}&limit=12&only=list"),
        *[("transcript", f"{_LONG}/messages?after={after}")] * 2,
        *[("page: session", f"/sessions/{read}")] * 2,
        ("page: home", "/"),
        ("page: usage", "/usage"),
        ("page: memory", "/nodes"),
        ("page: recall", f"/recall?q={quote(typed)}"),
        *[("API: sessions", f"/api/sessions?limit=50&q=agent:{agent}")] * 2,
        ("API: usage", "/api/usage"),
        ("file", "/static/site.css"),
    )
    return choose.choice(kinds)


async def _all(running: Running, rounds: int) -> list[Answered]:
    following = [asyncio.create_task(_follow(running)) for _ in range(FOLLOWERS)]
    try:
        found = await asyncio.gather(*(_client(running, one, rounds) for one in range(CLIENTS)))
    finally:
        for one in following:
            one.cancel()
    return [answer for answers in found for answer in answers]


async def _client(running: Running, number: int, rounds: int) -> list[Answered]:
    """Ask again and again over one connection, as a browser does."""
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    answered = []
    try:
        for turn in range(rounds):
            kind, path = _asked(number * rounds + turn)
            began = time.perf_counter()
            writer.write(_request(running, path))
            status = await _read(reader)
            answered.append(Answered(kind, (time.perf_counter() - began) * 1000, status))
    finally:
        writer.close()
    return answered


async def _follow(running: Running) -> None:
    """Have a page open that is told of changes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    try:
        writer.write(_request(running, "/events"))
        while await reader.readline():
            pass
    finally:
        writer.close()


def _request(running: Running, path: str) -> bytes:
    lines = (
        f"GET {path} HTTP/1.1",
        f"host: 127.0.0.1:{running.port}",
        f"authorization: Bearer {running.token}",
        "accept: text/html",
    )
    return "\r\n".join((*lines, "", "")).encode()


async def _read(reader: asyncio.StreamReader) -> int:
    """Read an answer to its end, and give its status."""
    head = await reader.readuntil(b"\r\n\r\n")
    named = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
    if b"content-length" in named:
        await reader.readexactly(int(named[b"content-length"]))
    else:
        while size := int(await reader.readline(), 16):
            await reader.readexactly(size + 2)
        await reader.readline()
    return int(head.split(b" ", 2)[1])


# ---------------------------------------------------------------------- figures


def quantile(values: Sequence[float], part: float) -> float:
    """Return the value that so many of all are below."""
    return sorted(values)[min(int(len(values) * part), len(values) - 1)]


def _result(answered: Sequence[Answered], used: tuple[float, float], megabytes: float) -> Result:
    seconds, spent = used
    by_kind: Mapping[str, list[float]] = {
        kind: [one.took for one in answered if one.kind == kind]
        for kind in sorted({one.kind for one in answered})
    }
    took = [one.took for one in answered]
    errors = sum(one.status != 200 for one in answered)
    rows = [
        (kind, str(len(some)), *(figure(quantile(some, part)) for part in (0.5, 0.9, 0.99)))
        for kind, some in {**by_kind, "all": took}.items()
    ]
    goals = [
        Goal("web-load: 99 of 100 requests", _P99_MS, quantile(took, 0.99), " ms"),
        Goal("web-load: errors", 0.0, float(errors), ""),
        Goal("web-load: memory at most", _MEGABYTES, megabytes, " MB"),
    ]
    waits, each = os.getloadavg()[0], spent * 1000 / len(answered)
    fact = (
        f"{CLIENTS} clients and {FOLLOWERS} followers: {len(answered) / seconds:.0f} requests"
        f" a second, half of them within {median(took):.0f} ms, {each:.1f} ms of the server's CPU"
        f" for each; the machine's load was {waits:.1f}"
    )
    columns = ("request", "count", "p50 ms", "p90 ms", "p99 ms")
    return Result([Table("Fifty clients at once", columns, rows)], goals, [fact])
