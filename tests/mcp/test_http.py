"""The server over HTTP: behind a token, on loopback, for requests that were meant for it."""

import asyncio
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.mcp.asking import PATIENCE
from threadkeep.home.home import Home
from threadkeep.mcp.http import HttpApp, http_app
from threadkeep.mcp.server import offered
from threadkeep.service.web_access import make_token

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
ACCEPT = {"accept": "application/json, text/event-stream"}


def caller(app: HttpApp, host: str = "127.0.0.1:7718", **headers: str) -> httpx2.AsyncClient:
    """Return a client of HTTP that speaks to the application without a network."""
    transport = httpx2.ASGITransport(app=app)
    return httpx2.AsyncClient(transport=transport, base_url=f"http://{host}", headers=headers)


def test_the_official_client_asks_over_http(filled: Path) -> None:
    home = Home(filled)
    token = make_token(home)
    app = http_app(home)

    async def talk() -> None:
        async with (
            asyncio.timeout(PATIENCE),
            app.run(),
            caller(app, authorization=f"Bearer {token}") as http,
            Client(streamable_http_client("http://127.0.0.1:7718/mcp", http_client=http)) as client,
        ):
            assert len((await client.list_tools()).tools) == len(offered(write=False))
            answer = await client.call_tool("recall", {"query": "tide"})
            assert answer.structured_content is not None
            assert answer.structured_content["hits"]

    asyncio.run(talk())


@pytest.mark.parametrize(
    "headers, host, status",
    [
        ({}, "127.0.0.1:7718", 401),
        ({"authorization": "Bearer wrong"}, "127.0.0.1:7718", 401),
        ({"authorization": "Basic {token}"}, "127.0.0.1:7718", 401),
        ({"authorization": "Bearer {token}"}, "evil.example", 421),
        ({"authorization": "Bearer {token}"}, "127.0.0.1.evil.example:7718", 421),
        ({"authorization": "Bearer {token}", "origin": "https://evil.example"}, "localhost:1", 403),
    ],
)
def test_others_are_refused(filled: Path, headers: dict[str, str], host: str, status: int) -> None:
    home = Home(filled)
    token = make_token(home)
    app = http_app(home)
    told = {name: value.format(token=token) for name, value in headers.items()}

    async def ask() -> int:
        async with app.run(), caller(app, host) as http:
            answer = await http.post("/mcp", json=LIST, headers={**ACCEPT, **told})
            return answer.status_code

    assert asyncio.run(ask()) == status


@pytest.mark.parametrize(
    "said, code",
    [
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
        (b"[]", -32600),
        (b'{"a":"' + b"x" * (1 << 24) + b'"}', -32600),
        (b"{", -32700),
        (b"", -32700),
    ],
)
def test_what_is_no_request_is_answered(filled: Path, said: bytes, code: int) -> None:
    home = Home(filled)
    app = http_app(home)
    headers = {**ACCEPT, "authorization": f"Bearer {make_token(home)}"}

    async def ask() -> httpx2.Response:
        async with app.run(), caller(app) as http:
            kind = {"content-type": "application/json"}
            return await http.post("/mcp", content=said, headers={**headers, **kind})

    answer = asyncio.run(ask())
    assert answer.status_code == 400
    assert (answer.json()["id"], answer.json()["error"]["code"]) == (None, code)
