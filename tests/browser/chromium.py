"""A real Chromium without a screen, with our extension in it, whose sites are all served here."""

import json
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from tests.browser.cdp import Message, Pipe
from tests.browser.native import HOST_MANIFEST
from tests.conftest import REPO, need_tool

EXTENSION = REPO / "src" / "threadkeep" / "capture" / "observed" / "extension"

FLAGS = (
    *("--headless", "--disable-gpu", "--no-first-run", "--no-default-browser-check"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-quic", "--password-store=basic", "--disable-dev-shm-usage", "--no-sandbox"),
    *("--remote-debugging-pipe", "--enable-unsafe-extension-debugging"),
    "--disable-features=HttpsUpgrades,HttpsFirstBalancedModeAutoEnable",
)


class Site:
    """Pages by path, the same ones on every host name."""

    def __init__(self, pages: Mapping[str, str]) -> None:
        served = {path: html.encode() for path, html in pages.items()}

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                page = served.get(self.path.partition("?")[0])
                self.send_response(404 if page is None else 200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(page or b"")))
                self.end_headers()
                self.wfile.write(page or b"")

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Page:
    """One target of the browser, with a session of its own."""

    def __init__(self, pipe: Pipe, target: str) -> None:
        self._pipe = pipe
        self.target = target
        attached = pipe.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session: str = attached["sessionId"]

    def call(self, method: str, **params: Any) -> Message:
        return self._pipe.call(method, self._session, **params)

    def event(self, method: str) -> Message:
        return self._pipe.event(method, lambda event: event.get("sessionId") == self._session)

    def known(self, method: str) -> Message | None:
        """Return an event that has come already, or None."""
        return self._pipe.known(method, lambda event: event.get("sessionId") == self._session)

    def run(self, expression: str, context: int | None = None) -> Any:
        """Evaluate JavaScript, await it, and give its value."""
        place = {} if context is None else {"contextId": context}
        done = self.call(
            "Runtime.evaluate",
            expression=expression,
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
            **place,
        )
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait until a JavaScript condition about the document holds."""
        self.run(f"""new Promise((met) => {{
            const look = () => ({condition}) && met();
            const changes = {{subtree: true, childList: true, attributes: true}};
            new MutationObserver(look).observe(document, changes);
            look();
        }})""")

    def go(self, url: str) -> Self:
        """Load a page and wait until it is there."""
        self.call("Page.enable")
        went = self.call("Page.navigate", url=url)
        assert "errorText" not in went, went
        self.event("Page.loadEventFired")
        return self

    def content_context(self) -> int:
        """Return the world of our content script, which is another one than the page's."""
        self.call("Runtime.disable")
        self.call("Runtime.enable")
        while True:
            context = self.event("Runtime.executionContextCreated")["context"]
            if context["name"] == "threadkeep":
                return int(context["id"])

    def watched(self) -> Self:
        """Wait until the content script knows the rules: answers come in the order of questions."""
        self.run('chrome.runtime.sendMessage({kind: "rules"})', self.content_context())
        return self

    def leave(self) -> None:
        self.go("about:blank")


class Chromium:
    """A browser that runs, its extension's id, and its profile."""

    def __init__(self, pipe: Pipe, profile: Path, extension_id: str) -> None:
        self.pipe = pipe
        self.profile = profile
        self.extension_id = extension_id
        self._console: Page | None = None

    def load_extension(self, folder: Path = EXTENSION) -> None:
        """Load the extension as a developer would, unpacked."""
        self.pipe.call("Target.setDiscoverTargets", discover=True)
        loaded = self.pipe.call("Extensions.loadUnpacked", path=str(folder))
        assert loaded["id"] == self.extension_id

    def clear(self) -> None:
        """Remove the extension with all that it keeps, its host, and every page and window."""
        blank = self.open()
        self.pipe.call("Extensions.uninstall", id=self.extension_id)
        (self.profile / HOST_MANIFEST).unlink(missing_ok=True)
        for context in self.pipe.call("Target.getBrowserContexts")["browserContextIds"]:
            self.pipe.call("Target.disposeBrowserContext", browserContextId=context)
        for target in self.pipe.call("Target.getTargets")["targetInfos"]:
            if target["type"] == "page" and target["targetId"] != blank.target:
                self.pipe.call("Target.closeTarget", targetId=target["targetId"])
        self.pipe.call("Target.setDiscoverTargets", discover=False)
        self.pipe.forget()

    def open(self, url: str = "about:blank") -> Page:
        page = Page(self.pipe, self.pipe.call("Target.createTarget", url="about:blank")["targetId"])
        return page if url == "about:blank" else page.go(url)

    def read(self, url: str) -> Page:
        """Open a page that is captured, and wait until it is watched."""
        return self.open(url).watched()

    def worker_target(self) -> str:
        """Return the target of the extension's background, waiting until it is awake."""
        while True:
            for target in self.pipe.call("Target.getTargets")["targetInfos"]:
                if self._is_worker(target):
                    return str(target["targetId"])
            self.pipe.event(
                "Target.targetCreated", lambda event: self._is_worker(event["params"]["targetInfo"])
            )

    def _is_worker(self, target: Message) -> bool:
        return target["type"] == "service_worker" and self.extension_id in target["url"]

    def run(self, expression: str) -> Any:
        """Evaluate JavaScript with the rights of the extension, in a tab of its own."""
        return self._extension_page().run(expression)

    def _extension_page(self) -> Page:
        if self._console is None:
            self._console = self.open(f"chrome-extension://{self.extension_id}/manifest.json")
        return self._console

    def front(self, page: Page) -> None:
        """Bring a tab to the front, which hides the one that was there."""
        self.pipe.call("Target.activateTarget", targetId=page.target)

    def put_aside(self, page: Page) -> None:
        """Hide a page behind a new tab; what it had to report is with the background then."""
        self.open()
        assert page.run("document.visibilityState", page.content_context()) == "hidden"
        page.watched()

    def find(self, end: str) -> Page:
        """Return the page whose address ends so, waiting until there is one."""
        while True:
            for one in self.pipe.call("Target.getTargets")["targetInfos"]:
                if one["type"] == "page" and one["url"].endswith(end):
                    return Page(self.pipe, one["targetId"])
            self.pipe.event("Target.targetInfoChanged", lambda _: True)

    def stop_worker(self) -> None:
        """Stop the extension's background, as the browser does when it was idle for a while."""
        worker, console = self.worker_target(), self._extension_page()
        console.call("ServiceWorker.enable")
        console.call("ServiceWorker.stopAllWorkers")
        self.pipe.event("Target.targetDestroyed", lambda e: e["params"]["targetId"] == worker)

    def popup(self) -> Page:
        return self.open(f"chrome-extension://{self.extension_id}/popup.html")

    def stored(self, key: str, condition: str) -> Any:
        """Wait until what the extension keeps under a key satisfies a JavaScript condition."""
        return self.run(f"""new Promise((found) => {{
            const look = async () => {{
                const value = (await chrome.storage.local.get("{key}"))["{key}"];
                if (value !== undefined && ({condition})) {{
                    chrome.storage.onChanged.removeListener(look);
                    found(value);
                }}
            }};
            chrome.storage.onChanged.addListener(look);
            look();
        }})""")


@contextmanager
def chromium(profile: Path, pages: Mapping[str, str]) -> Iterator[Pipe]:
    """Start Chromium; every host name leads to the pages that are given."""
    program = need_tool("chromium")
    site = Site(pages)
    to_browser, from_test = os.pipe()
    to_test, from_browser = os.pipe()
    flags = (f"--user-data-dir={profile}", f"--host-resolver-rules=MAP * 127.0.0.1:{site.port}")
    # The browser expects its pipes as descriptors 3 and 4; a shell puts them there.
    redirect = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
    process = subprocess.Popen(
        ["bash", "-c", redirect, "chromium", program, *FLAGS, *flags],
        pass_fds=(to_browser, from_browser),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"HOME": str(profile)},
    )
    os.close(to_browser)
    os.close(from_browser)
    pipe = Pipe(to_test, from_test)
    try:
        yield pipe
    finally:
        _end(process, pipe)
        pipe.close()
        site.close()


def _end(process: subprocess.Popen[bytes], pipe: Pipe) -> None:
    try:
        pipe.call("Browser.close")
    except (AssertionError, OSError):  # it does not answer any more
        process.kill()
    process.wait()


def manifest(name: str = "manifest.json") -> dict[str, Any]:
    described: dict[str, Any] = json.loads((EXTENSION / name).read_text("utf-8"))
    return described
