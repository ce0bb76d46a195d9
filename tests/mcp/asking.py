"""How tests ask: in this process, or through the official client."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from tests.conftest import REPO
from threadkeep.mcp.server import offered
from threadkeep.mcp.tools import ToolContext, ToolOutput, call

TOOLS = {tool.name: tool for tool in offered(write=True)}
PATIENCE = 60.0  # only a test that is broken ever waits this long


def ask(room: ToolContext, name: str, **arguments: Any) -> ToolOutput:
    """Call a tool that must answer."""
    answer = call(TOOLS[name], room, arguments)
    assert not answer.is_error, answer.text
    return answer


def data(room: ToolContext, name: str, **arguments: Any) -> dict[str, Any]:
    """Return what a tool answers as plain data."""
    found = ask(room, name, **arguments).data
    assert found is not None
    return found


def refused(room: ToolContext, name: str, **arguments: Any) -> str:
    """Return what a tool says that must refuse."""
    answer = call(TOOLS[name], room, arguments)
    assert answer.is_error
    assert "failed inside" not in answer.text
    return answer.text


def command_of(home: Path, *words: str) -> list[str]:
    """Return the command that serves a home over a pipe."""
    return [sys.executable, "-P", "-m", "threadkeep", "--home", str(home), "mcp", *words]


def parameters(home: Path, *words: str) -> StdioServerParameters:
    """Tell the official client how to start the server."""
    command, *rest = command_of(home, *words)
    environment = {**os.environ, "PYTHONPATH": str(REPO / "src")}
    return StdioServerParameters(command=command, args=rest, env=environment)


def with_client(server: Any, talk: Callable[[Client], Awaitable[None]], **options: Any) -> None:
    """Talk to a server through the official client."""

    async def run() -> None:
        async with asyncio.timeout(PATIENCE), Client(server, **options) as client:
            await talk(client)

    asyncio.run(run())
