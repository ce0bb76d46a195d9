"""A running site: the real application on a real socket, over a home with a small history."""

import asyncio
import http.client
import json
import os
import socket
import threading
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import uvicorn
from click.testing import CliRunner

from tests.cli.histories import DEMO
from threadkeep.cli.root import cli
from threadkeep.home.home import Home
from threadkeep.service.web_access import address_of, make_token, one_time_link, own_name
from threadkeep.web.worker import WebServer


class Answer(NamedTuple):
    """What the server said."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


class Site:
    """A server in a thread of this process; `url` has no slash at its end."""

    def __init__(self, folder: Path, db: str | None = None) -> None:
        self.folder = folder
        self.home = Home(folder, environ=os.environ | {"TZ": "UTC"})
        self.token = make_token(self.home)
        self._listener = self._bind()
        self.url = address_of(self.home.config.web, self._listener)
        self.port: int = self._listener.getsockname()[1]
        self._server = WebServer(self.home, self._listener, db)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _bind(self) -> socket.socket:
        found = socket.socket()
        found.bind(("127.0.0.1", 0))
        found.listen(64)
        return found

    def _run(self) -> None:
        asyncio.run(self._server.serve(3600.0))

    @property
    def server(self) -> uvicorn.Server:
        return self._server.running

    def close(self) -> None:
        self._server.end()
        self._thread.join(20)
        self._listener.close()
        assert not self._thread.is_alive()

    @property
    def own(self) -> str:
        """Return the host under which browsers see the page."""
        return f"{own_name(self.token)}:{self.port}"

    @property
    def page(self) -> str:
        """Return the address at which browsers see the page."""
        return f"http://{self.own}"

    def link(self) -> str:
        return one_time_link(self.home, self.url)

    def let_in(self, user_agent: str = "", **headers: str) -> str:
        """Use a link as a browser does; give the cookie."""
        link = urlsplit(self.link())
        given = {"authorization": None, "host": self.own, "user_agent": user_agent} | headers
        answer = self.get(f"{link.path}?{link.query}", **given)
        assert answer.status == 303, answer
        return answer.headers["set-cookie"].partition(";")[0]

    def ask(
        self, method: str, path: str, body: bytes | None = None, **headers: str | None
    ) -> Answer:
        """Send a request; a header that is None is left out, an underscore stands for a dash."""
        sent = {"authorization": f"Bearer {self.token}"}
        if body is not None:
            sent["content-type"] = "application/json"
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}  # type: ignore[misc]
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            shown = {name: value for name, value in sent.items() if value is not None}
            connection.request(method, path, body, shown)
            answer = connection.getresponse()
            named = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, named, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str | None) -> Answer:
        return self.ask("GET", path, None, **headers)

    def post(self, path: str, value: Any, **headers: str | None) -> Answer:
        return self.ask("POST", path, json.dumps(value).encode(), **headers)

    def run(self, *words: str) -> str:
        """Run a command on this home."""
        done = CliRunner().invoke(cli, ["--home", str(self.folder), *words])
        assert done.exit_code == 0, (done.stdout, done.stderr)
        return str(done.stdout)


def captured_home(folder: Path, user: Path = DEMO) -> Path:
    """Capture a history into a new home."""
    done = CliRunner().invoke(
        cli, ["--home", str(folder), "capture", "--quiet", "--user-home", str(user)]
    )
    assert done.exit_code == 0, (done.stdout, done.stderr)
    return folder


def host_of(url: str) -> str:
    """Return host and port of an address."""
    return urlsplit(url).netloc
