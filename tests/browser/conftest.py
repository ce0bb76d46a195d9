"""A browser and a site for all tests; the extension and its host are new in each of them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.cdp import Pipe
from tests.browser.chromium import Chromium, chromium, manifest
from tests.browser.native import Message, NativeHost, install_host
from tests.browser.pages import HOSTILE, PAGES

EXTENSION_ID = "fohkhmbndhaehiffjgegjmlonnphnjck"  # follows from the key in the manifest
DOMAINS = [pattern[len("*://*.") : -len("/*")] for pattern in manifest()["host_permissions"]]


class World:
    """What a test has in hand; `config` is what the host answers when it is asked for settings."""

    def __init__(self, browser: Chromium, folder: Path) -> None:
        self.config: Message = {
            "status": "ok",
            "enabled": True,
            "domains": DOMAINS,
            "exclude": [],
            "min_dwell_ms": 0,
        }
        self.verdict: Message = {"status": "ok"}
        self.host = NativeHost(folder, self._answer)
        self.browser = browser

    def _answer(self, message: Message) -> Message:
        return self.config if message.get("type") == "config" else self.verdict

    def install_host(self) -> Path:
        return install_host(self.browser.profile, EXTENSION_ID, self.host.command())

    def start(self, **config: Any) -> Chromium:
        """Load the extension with a host that it can reach, and wait until it has its settings."""
        self.config |= config
        self.install_host()
        self.browser.load_extension()
        self.wait_for_config()
        return self.browser

    def wait_for_config(self) -> None:
        self.host.next("config")
        least, exclude = self.config["min_dwell_ms"], json.dumps(self.config["exclude"])
        self.browser.stored(
            "config",
            f"value.domains && value.minDwellMs === {least}"
            f" && JSON.stringify(value.exclude) === '{exclude}'",
        )

    def call_host(self) -> None:
        """Let the extension call its host now, as opening the popup does."""
        self.browser.run('chrome.runtime.sendMessage({kind: "call"})')

    def visit(self, url: str) -> Message:
        """Read a page, leave it, and give what arrives."""
        self.browser.read(url).leave()
        return self.host.next("visit")

    def nothing_came(self) -> bool:
        """Tell that no visit came until now: the next call comes after all that was sent before."""
        self.call_host()
        return self.host.visits_before("heartbeat") == []


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Pipe, Path]]:
    """Start the browser: that costs more than most of what is tested in it."""
    profile = tmp_path_factory.mktemp("profile")
    with chromium(profile, PAGES | {"/hostile": HOSTILE}) as pipe:
        yield pipe, profile


@pytest.fixture
def world(running: tuple[Pipe, Path], tmp_path: Path) -> Iterator[World]:
    browser = Chromium(*running, EXTENSION_ID)
    given = World(browser, tmp_path)
    yield given
    browser.clear()
    given.host.close()
