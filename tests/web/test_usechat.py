"""The real AI SDK client in a real browser: it chats, is reloaded in mid-stream, resumes and stops.

The application is usechat/app.mjs: it streams to the browser, records what it streams with us, and
passes on who wants to resume or to stop. The model says what the test tells it, so nothing races.
"""

import json
import os
import re
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.conftest import REPO, need_tool
from tests.support.npm import installed_together
from tests.web.conftest import Watched
from tests.web.site import Site

Json = dict[str, Any]
APP = Path(__file__).with_name("usechat") / "app.mjs"
# @ai-sdk/react brings the version of ai that it was made for.
REACT = {6: "3.0.322", 7: "4.0.167"}
PACKAGES = {"esbuild": "0.28.2", "react": "19.3.1", "react-dom": "19.3.1"}
PATIENCE = 60_000  # only a test that is broken ever waits this long
USAGE = {"inputTokens": {"total": 3}, "outputTokens": {"total": 5}}


def finish(why: str = "stop") -> Json:
    return {"type": "finish", "finishReason": {"unified": why, "raw": why}, "usage": USAGE}


def begin(text: str) -> list[Json]:
    return [
        {"type": "stream-start", "warnings": []},
        {"type": "text-start", "id": "t"},
        {"type": "text-delta", "id": "t", "delta": text},
    ]


def end(text: str) -> list[Json]:
    delta = {"type": "text-delta", "id": "t", "delta": text}
    return [delta, {"type": "text-end", "id": "t"}, finish()]


def look_up(thought: str) -> list[Json]:
    place = '{"place":"Bonn"}'
    return [
        {"type": "stream-start", "warnings": []},
        {"type": "reasoning-start", "id": "r"},
        {"type": "reasoning-delta", "id": "r", "delta": thought},
        {"type": "reasoning-end", "id": "r"},
        {"type": "tool-call", "toolCallId": "c", "toolName": "weather", "input": place},
        finish("tool-calls"),
    ]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    found = Site(tmp_path_factory.mktemp("usechat") / "home")
    yield found
    found.close()


class App:
    """The application, its model, and a chat in a browser."""

    def __init__(self, site: Site, process: "subprocess.Popen[bytes]", protocol: int) -> None:
        assert process.stdout is not None
        self.protocol = protocol
        self.url = f"http://127.0.0.1:{int(process.stdout.readline())}"
        self.site = site
        self.chat = secrets.token_urlsafe(12)  # as the SDK makes them: 16 characters

    def says(self, parts: list[Json]) -> None:
        """Let the model say something."""
        urlopen(Request(f"{self.url}/model", json.dumps(parts).encode())).close()

    def steer(self, text: str) -> None:
        """Let the user say something while the reply streams."""
        urlopen(Request(f"{self.url}/api/chat/{self.chat}/steer", text.encode())).close()

    def recorded(self) -> Json:
        """Wait until everything that was streamed is recorded; give what came of the last."""
        with urlopen(f"{self.url}/recorded") as answer:
            last: Json = json.load(answer)[-1]
            return last

    def stored(self) -> list[Json]:
        found: list[Json] = self.site.get(f"/api/chat/{self.chat}/ui-messages").json
        return found


@pytest.fixture(scope="module", params=[6, 7])
def app(request: pytest.FixtureRequest, site: Site) -> Iterator[App]:
    protocol: int = request.param
    wanted = PACKAGES | {"@ai-sdk/react": REACT[protocol]}
    modules = installed_together(f"usechat{protocol}", wanted)
    with subprocess.Popen(
        [need_tool("node"), str(APP), str(modules), site.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"KEEP_TOKEN": site.token},
    ) as process:
        yield App(site, process, protocol)
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture
def page(browser: Browser, app: App) -> Iterator[Page]:
    context = browser.new_context(base_url=app.url)
    watched = Watched(context, app.url.removeprefix("http://"))
    yield context.new_page()
    context.close()
    assert watched.troubles == []


def shown(page: Page) -> list[Json]:
    found: list[Json] = json.loads(page.inner_text("#messages"))
    return found


def ask(page: Page, text: str) -> None:
    page.fill("#text", text)
    page.click("#send")


def sees(page: Page, text: str) -> None:
    expect(page.locator("#messages")).to_contain_text(json.dumps(text)[1:-1], timeout=PATIENCE)


def rests(page: Page) -> None:
    expect(page.locator("#status")).to_have_text("ready", timeout=PATIENCE)


@pytest.mark.slow
def test_a_chat_is_the_same_on_both_sides_through_reload_resume_and_stop(
    page: Page, app: App
) -> None:
    page.goto(f"/?id={app.chat}")
    rests(page)

    ask(page, "How is the weather?")
    app.says(look_up("I have to look."))
    app.says([*begin("It is warm"), *end(" in Bonn.")])
    sees(page, "It is warm in Bonn.")
    rests(page)
    assert app.recorded()["status"] == "finish"
    kinds = [part["type"] for part in shown(page)[1]["parts"]]
    assert kinds == ["step-start", "reasoning", "tool-weather", "step-start", "text"]
    assert shown(page) == app.stored()

    ask(page, "Tell me more.")  # reloaded in mid-stream: the rest comes after the resume
    app.says(begin("The sun"))
    sees(page, "The sun")
    page.reload()
    sees(page, "The sun")
    app.says(end(" shines."))
    sees(page, "The sun shines.")
    rests(page)
    assert app.recorded()["status"] == "finish"
    assert len(shown(page)) == 4
    assert shown(page) == app.stored()

    ask(page, "And tomorrow?")  # stopped by a browser that did not begin it
    app.says(begin("Maybe"))
    sees(page, "Maybe")
    page.reload()
    sees(page, "Maybe")
    page.click("#stop")
    rests(page)
    told = app.recorded()
    assert (told["status"], told["aborted"]) == ("abort", True)
    assert shown(page)[-1]["parts"][-1]["text"] == "Maybe"
    assert shown(page) == app.stored()

    page.click("#again")  # another reply takes the place of the one that was stopped
    app.says([*begin("Rain"), *end(" tomorrow.")])
    sees(page, "Rain tomorrow.")
    rests(page)
    assert app.recorded()["status"] == "finish"
    assert len(shown(page)) == 6
    assert shown(page) == app.stored()
    page.reload()
    sees(page, "Rain tomorrow.")
    assert shown(page) == app.stored()

    if app.protocol >= 7:
        steered(page, app)


def steered(page: Page, app: App) -> None:
    """The user says something in the middle of the reply; the page is reloaded, then it is cut."""
    ask(page, "And how warm is it?")
    *looking, looked = look_up("I look again.")  # words of this reply alone: then it has begun
    app.says(looking)
    sees(page, "I look again.")
    app.steer("In Kelvin, please.")
    app.says([looked, *begin("294")])
    sees(page, "In Kelvin, please.")
    page.reload()
    sees(page, "In Kelvin, please.")
    sees(page, "294")
    app.says(end(" K."))
    sees(page, "294 K.")
    rests(page)
    assert app.recorded()["status"] == "finish"
    kinds = [part["type"] for part in shown(page)[-1]["parts"]]
    assert "steering-message" in kinds
    assert shown(page) == app.stored()

    ask(page, "Thanks.")
    app.says(begin("You are"))
    sees(page, "You are")
    page.click("#stop")
    rests(page)
    assert app.recorded()["status"] == "abort"
    page.reload()
    sees(page, "You are")
    assert shown(page) == app.stored()


def test_the_code_of_the_documentation_is_the_code_that_runs_here() -> None:
    page = (REPO / "docs" / "usechat.md").read_text("utf-8")
    runs = "".join(file.read_text("utf-8") for file in APP.parent.iterdir())
    blocks = re.findall(r"```js\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 5
    assert [block for block in blocks if block not in runs] == []
