"""How long recall takes for those who ask it: in the process, over HTTP, over MCP.

All three ask the same question in turn, over one connection each: the page's process as `serve`
runs it, and `threadkeep mcp` through the official client.
"""

import asyncio
import http.client
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import quote

from mcp import Client, StdioServerParameters

from benchmarks.capture_run import REPO
from benchmarks.recall.corpus import NOW
from benchmarks.recall.speed import Asked, Timed, query_set, timed
from benchmarks.web import Running, serving
from threadkeep.home.home import Home
from threadkeep.knowledge.query import Query
from threadkeep.memory.memory import Memory

INSIDE = "in the process"
_WARM = 10
_SEED = 21  # other questions than those that are asked in the process alone
_IDLE_SECONDS = 120

Ask = Callable[[Asked], Awaitable[object]]


def measure(home: Home, user: Path) -> list[Timed]:
    """Ask each question through each door, and time it from the asker's side."""
    with home.history(user_home=user) as history:
        memory = Memory(history.store, history.sources, clock=lambda: NOW)
        with serving(home, home.knowledge_path()) as running:
            return asyncio.run(_all(home, memory, running))


async def _all(home: Home, memory: Memory, running: Running) -> list[Timed]:
    words = ["-P", "-m", "threadkeep", "--home", str(home.paths().data), "mcp"]
    environ = {**os.environ, "PYTHONPATH": str(REPO / "src")}
    server = StdioServerParameters(command=sys.executable, args=words, env=environ)
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=_IDLE_SECONDS)

    async def inside(asked: Asked) -> None:
        memory.recall(asked.text, asked.within, fold="session")

    async def over_http(asked: Asked) -> None:
        project = "".join(f"&project={quote(one)}" for one in asked.within.project)
        path = f"/api/recall?q={quote(asked.text)}{project}"
        connection.request("GET", path, headers={"authorization": f"Bearer {running.token}"})
        answer = connection.getresponse()
        if not answer.read() or answer.status != http.HTTPStatus.OK:
            raise RuntimeError(f"{path}: {answer.status}")

    async with Client(server) as client:

        async def over_mcp(asked: Asked) -> None:
            found = await client.call_tool("recall", _arguments(asked))
            if found.is_error:
                raise RuntimeError(found.content)

        doors: dict[str, Ask] = {
            INSIDE: inside,
            "HTTP": over_http,
            "MCP": over_mcp,
        }
        return [timed(name, times) for name, times in (await _in_turn(doors)).items()]


def _arguments(asked: Asked) -> dict[str, object]:
    given: dict[str, object] = {"q": asked.text}
    if asked.within != Query():
        given["project"] = asked.within.project[0]
    return given


async def _in_turn(doors: dict[str, Ask]) -> dict[str, list[float]]:
    spent: dict[str, list[float]] = {name: [] for name in doors}
    for number, asked in enumerate(query_set(_SEED)):
        for name, ask in doors.items():
            started = time.perf_counter()
            await ask(asked)
            if number >= _WARM:
                spent[name].append((time.perf_counter() - started) * 1000)
    return spent
