"""The server over a pipe, driven by the official client; several of them share one server."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.conftest import REPO
from tests.mcp.asking import PATIENCE, TOOLS, command_of, parameters, with_client
from tests.mcp.conftest import REPOSITORY
from threadkeep.mcp.stdio import is_adopted

GIVEN: dict[str, dict[str, Any]] = {
    "ask": {"question": "How does the tide feed retry?"},
    "search_knowledge": {"query": "tide"},
    "search_hybrid": {"query": "tide"},
    "agent_query": {"query": "tide"},
    "query_memory_history": {"document_uuid": "none"},
    "get_context": {"query": "tide"},
    "get_ci_status": {"repo": REPOSITORY},
    "recall": {"query": "tide"},
    "get_session": {"session": "codex:"},
    "get_messages": {"around": "message:1"},
    "remember": {"note": "The tide feed is at port 7000."},
}
BEGIN = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "probe", "version": "1"},
}


def test_the_official_client_drives_every_tool(filled: Path) -> None:
    async def talk(client: Client) -> None:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(listed) == set(TOOLS)
        found = await client.call_tool("list_sessions", {"agent": "codex"})
        assert found.structured_content is not None
        session = found.structured_content["sessions"][0]["session"]
        GIVEN["get_session"] = {"session": session}
        GIVEN["label"] = {"ref": session, "add": ["probe"]}
        for name, tool in listed.items():
            answer = await client.call_tool(name, GIVEN.get(name, {}))
            assert not answer.is_error, (name, answer.content)
            assert answer.content[0].type == "text"
            # The client has compared it with the schema.
            assert (answer.structured_content is None) is (tool.output_schema is None)
        assert (await client.call_tool("drop_everything", {})).is_error

    with_client(parameters(filled, "--write"), talk)


# ---------------------------------------------------------------------- several at once


class Piped:
    """A server process with a pipe at each end, spoken to line by line."""

    def __init__(self, home: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(REPO / "src")}
        self.process = subprocess.Popen(
            command_of(home), env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._held = b""

    def say(self, method: str, number: int | None = None, **params: Any) -> None:
        told = {"jsonrpc": "2.0", "method": method, "params": params}
        line = json.dumps(told if number is None else {**told, "id": number})
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        while b"\n" not in self._held:
            assert select.select([self.process.stdout], [], [], PATIENCE)[0]
            data = os.read(self.process.stdout.fileno(), 65536)
            assert data, "it ended"
            self._held += data
        line, _, self._held = self._held.partition(b"\n")
        heard: dict[str, Any] = json.loads(line)
        return heard

    def begin(self) -> None:
        self.say("initialize", 0, **BEGIN)
        assert self.hear()["id"] == 0
        self.say("notifications/initialized")

    def ask(self, number: int) -> None:
        self.say("tools/call", number, name="list_projects", arguments={"limit": 1})

    def has_sdk(self) -> bool:
        """Tell whether it hosts the server: then the SDK's compiled parts are mapped."""
        return "pydantic_core" in Path(f"/proc/{self.process.pid}/maps").read_text()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def three(filled: Path) -> Iterator[list[Piped]]:
    started = [Piped(filled)]
    started[0].begin()  # it is the first, and hosts the server
    started += [Piped(filled), Piped(filled)]
    for one in started[1:]:
        one.begin()
    yield started
    for one in started:
        one.end()


needs_proc = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")


@needs_proc
def test_one_server_is_shared_and_another_takes_over(three: list[Piped]) -> None:
    first, *others = three
    assert [one.has_sdk() for one in three] == [True, False, False]
    os.kill(first.process.pid, signal.SIGSTOP)  # it hears the question, and never answers
    for one in others:
        one.ask(7)
    first.process.kill()
    for one in others:
        answer = one.hear()
        assert answer["id"] == 7
        assert answer["result"]["structuredContent"]["result"]
    assert sorted(one.has_sdk() for one in others) == [False, True]
    for number in (8, 9):
        for one in others:
            one.ask(number)
            assert one.hear()["id"] == number
    last = others[0].process
    others[0].ask(10)
    assert last.stdin is not None
    assert others[0].hear()["id"] == 10
    last.stdin.write(b'{"jsonrpc":"2.0","id":null,"method":"ping"}\n')
    last.stdin.close()  # what was said before is answered all the same
    assert others[0].hear()["error"]["code"] == -32600
    assert last.wait(PATIENCE) == 0


@pytest.mark.parametrize(
    "session, parents, expected",
    [(4, 4, "no"), (9, 4, "no"), (4, 1, "yes"), (4, 0, "yes"), (4, None, "no")],
)
def test_an_orphan_knows_itself_by_its_session(
    session: int, parents: int | None, expected: str
) -> None:
    assert is_adopted(9, session, parents) is (expected == "yes")


@pytest.mark.faults
def test_it_ends_with_whoever_started_it(shared_data: Path, tmp_path: Path) -> None:
    tool = shared_data / "faults" / "orphan.py"
    server = " ".join(command_of(tmp_path / "home"))
    words = [sys.executable, str(tool), "--server", server, "--settle", "0.5"]
    environment = {**os.environ, "PYTHONPATH": str(REPO / "src")}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "PASS" in done.stdout
