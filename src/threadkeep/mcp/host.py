"""The server of a home behind its socket: the first process hosts it, all others are its clients.

It runs in a thread of its own, and loads the SDK there: who only relays never does.
"""

import asyncio
import logging
import os
import socket
import threading
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Final, cast

from threadkeep.base.local_socket import LocalSocket, peer_uid
from threadkeep.mcp.relay_state import LONGEST_LINE

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server


log = logging.getLogger(__name__)

_ROOM: Final = LONGEST_LINE + 1  # with its line feed

Build = Callable[[], "Server[Any]"]


def host(build: Build, listener: LocalSocket | None) -> socket.socket:
    """Start the server, and give our own connection to it; others come by the socket."""
    ours, its = socket.socketpair()
    thread = threading.Thread(
        target=_serve, args=(build, listener, its), name="mcp-server", daemon=True
    )
    thread.start()
    return ours


def _serve(build: Build, listener: LocalSocket | None, own: socket.socket) -> None:
    try:
        asyncio.run(_serve_all(build(), listener, own))
    except Exception:  # the relay of this process continues elsewhere, or says that it cannot
        log.exception("the MCP server ended")
    finally:
        own.close()
        if listener is not None:
            listener.close()


async def _serve_all(
    server: "Server[Any]", listener: LocalSocket | None, own: socket.socket
) -> None:
    async def arrive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = writer.get_extra_info("socket")
        if peer_uid(link) in {None, os.getuid()}:
            await _session(server, reader, writer)
        writer.close()

    if listener is not None:
        await asyncio.start_unix_server(arrive, sock=listener.socket, limit=_ROOM)
    reader, writer = await asyncio.open_connection(sock=own, limit=_ROOM)
    await _session(server, reader, writer)
    await asyncio.Event().wait()  # our own client is gone; the process ends when it likes


async def _session(
    server: "Server[Any]", reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Serve one client until it goes away."""
    from mcp.server.stdio import stdio_server  # noqa: PLC0415  (takes a second to load)

    said, told = cast("Any", _Said(reader)), cast("Any", _Told(writer))
    try:
        async with stdio_server(stdin=said, stdout=told) as (read, write):
            await server.run(read, write, server.create_initialization_options())
    except Exception:
        log.exception("a session ended")


class _Said:
    """What a client says, line by line, in the form that the SDK reads a file."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def __aiter__(self) -> AsyncIterator[str]:
        while line := await self._line():
            yield line.decode("utf-8", "replace")

    async def _line(self) -> bytes:
        try:
            return await self._reader.readline()
        except (ConnectionError, ValueError):  # gone, or a line that nobody can mean
            return b""


class _Told:
    """What is told to a client, in the form that the SDK writes a file."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def write(self, text: str) -> None:
        """Send text; a client that is gone hears nothing."""
        self._writer.write(text.encode("utf-8", "replace"))

    async def flush(self) -> None:
        """Wait until it is on its way."""
        try:
            await self._writer.drain()
        except ConnectionError:
            return
