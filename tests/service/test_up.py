"""`threadkeep up`: one command from nothing to a page, and a link to it."""

import http.client
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import sync_playwright

from tests.cli.histories import DEMO
from tests.conftest import REPO, need_tool
from tests.service.test_web import PATIENCE, free_port
from tests.web.conftest import FLAGS
from threadkeep.base import json


def words(home: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "threadkeep", "--home", str(home), "up", "--no-open", *more]


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(REPO / "src")}


@pytest.fixture
def running(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Start it where no agent has left a log."""
    (tmp_path / "user").mkdir()
    more = ("--json", "--user-home", str(tmp_path / "user"), "--port", str(free_port()))
    with subprocess.Popen(
        words(tmp_path / "home", *more), env=environment(), stdout=subprocess.PIPE
    ) as process:
        yield process
        process.kill()


def ask(address: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    place = urlsplit(address)
    # A browser looks for every name below `localhost` on its own machine; this library does not.
    connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=PATIENCE)
    connection.request(
        "GET", f"{place.path}?{place.query}", headers={"host": place.netloc, **headers}
    )
    answer = connection.getresponse()
    found = answer.status, {name.lower(): value for name, value in answer.getheaders()}
    body = answer.read()
    connection.close()
    return (*found, body)


def test_a_machine_without_agents_sees_the_demo_through_a_link_that_works_once(
    tmp_path: Path, running: "subprocess.Popen[bytes]"
) -> None:
    assert running.stdout is not None
    told: dict[str, Any] = json.decode(running.stdout.readline())
    status, headers, _ = ask(told["link"])
    assert status == 307
    own = headers["location"]
    assert urlsplit(told["address"]).hostname == "127.0.0.1"
    assert str(urlsplit(own).hostname).endswith(".localhost")
    status, headers, _ = ask(own)
    assert (status, headers["location"]) == (303, "/")
    assert ask(told["link"])[0] == 403
    cookie = headers["set-cookie"].partition(";")[0]
    assert ask(f"{told['address']}/sessions.json", cookie=cookie)[0] == 401
    listed = json.decode(ask(f"http://{urlsplit(own).netloc}/sessions.json", cookie=cookie)[2])
    assert {"codex", "claude-code"} <= {one["session"]["agent"] for one in listed["page"]["items"]}

    again = subprocess.run(
        words(tmp_path / "home", "--link", "--json"),
        env=environment(),
        capture_output=True,
        check=True,
    )
    other = json.decode(again.stdout)["link"]
    assert other != told["link"]
    assert seen_by_a_browser(other) == (f"http://{urlsplit(own).netloc}/", 200)

    running.send_signal(signal.SIGINT)
    assert running.wait(PATIENCE) == 0
    with pytest.raises(OSError):  # noqa: PT011  (nobody listens there any more)
        ask(f"{told['address']}/alive")


def seen_by_a_browser(link: str) -> tuple[str, int]:
    """Open a link as a person does; give where that leads, and how it is answered."""
    path = need_tool("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        page = browser.new_page()
        answer = page.goto(link)
        assert answer is not None
        found = (page.url, answer.status)
        browser.close()
    return found


def test_without_a_page_there_is_no_link(tmp_path: Path) -> None:
    done = subprocess.run(
        words(tmp_path / "home", "--link"), env=environment(), capture_output=True, check=False
    )
    assert done.returncode == 1
    assert b"the page is not running" in done.stderr
    assert b"`threadkeep up` starts it" in done.stderr


def test_the_latest_sessions_are_there_when_the_link_is(tmp_path: Path) -> None:
    user = tmp_path / "user"
    shutil.copytree(DEMO, user)
    more = ("--json", "--user-home", str(user), "--port", str(free_port()))
    with subprocess.Popen(
        words(tmp_path / "home", *more), env=environment(), stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        told: dict[str, Any] = json.decode(process.stdout.readline())
        token = (tmp_path / "home" / "web.token").read_text()
        bearer = {"authorization": f"Bearer {token.strip()}"}
        status, _, body = ask(f"{told['address']}/api/sessions", **bearer)
        assert (status, bool(json.decode(body)["items"])) == (200, True)
        status, _, body = ask(f"{told['address']}/progress.json", **bearer)
        assert "capturing" in json.decode(body)
        process.kill()


def test_who_serves_without_a_page_is_told_of_before_a_link_is_given(tmp_path: Path) -> None:
    home, user = tmp_path / "home", tmp_path / "user"
    shutil.copytree(DEMO / ".codex", user / ".codex")
    noted = home / "state" / "web.address"
    noted.parent.mkdir(parents=True)
    noted.write_text("http://127.0.0.1:1")
    with subprocess.Popen(
        [*words(home)[:-2], "serve", "--no-web", "--json", "--user-home", str(user)],
        env=environment(),
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert any(b" serves " in line for line in process.stdout)
        done = subprocess.run(
            words(home, "--user-home", str(user)),
            env=environment(),
            capture_output=True,
            check=False,
        )
        process.kill()
    assert done.returncode == 1
    assert b"link=" not in done.stdout
    assert b"there is no page" in done.stderr
    assert noted.read_text() == "http://127.0.0.1:1"
