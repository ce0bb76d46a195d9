"""A site over a small captured history, and a real browser that is let in and watched."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, sync_playwright

from tests.conftest import need_tool
from tests.web.site import Site, captured_home, host_of

FLAGS = [
    *("--disable-gpu", "--no-first-run", "--no-sandbox", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-quic", "--password-store=basic"),
]
LISTEN = """document.addEventListener('securitypolicyviolation',
  event => console.error('CSP ' + event.violatedDirective + ' ' + event.blockedURI))"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    found = Site(captured_home(tmp_path_factory.mktemp("site") / "home"))
    yield found
    found.close()


# Not longer than a module: while Playwright runs, no other test here can run a loop of its own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = need_tool("chromium")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield found
        found.close()


class Watched:
    """What a browser did that it must not do: errors, violations, requests to other hosts."""

    def __init__(self, context: BrowserContext, host: str) -> None:
        self.troubles: list[str] = []
        self._host = host
        context.add_init_script(LISTEN)
        context.on("page", self._watch)
        context.on("request", self._look)

    def _watch(self, page: Page) -> None:
        page.on("console", lambda message: self._note(message.type == "error", message.text))
        page.on("pageerror", lambda error: self._note(True, f"page error: {error}"))  # noqa: FBT003
        page.on("dialog", lambda dialog: self._note(True, f"dialog: {dialog.message}"))  # noqa: FBT003

    def _note(self, bad: bool, text: str) -> None:  # noqa: FBT001
        if bad:
            self.troubles.append(text)

    def _look(self, request: Request) -> None:
        here = request.url.startswith(("data:", "blob:", "about:")) or (
            host_of(request.url) == self._host
        )
        self._note(not here, f"request: {request.url[:200]}")


def let_in(browser: Browser, site: Site, **options: Any) -> tuple[BrowserContext, Watched]:
    """Return a browser context that came with a one-time link, and what watches it."""
    context = browser.new_context(base_url=site.page, **options)
    watched = Watched(context, site.own)
    page = context.new_page()
    page.goto(site.link())
    page.close()
    # The first page may not be there in the home of a test, and the link is at another host.
    watched.troubles.clear()
    return context, watched


@pytest.fixture
def page(browser: Browser, site: Site) -> Iterator[Page]:
    """Return a page of a browser that is let in; at the end nothing bad may have happened."""
    context, watched = let_in(browser, site)
    yield context.new_page()
    context.close()
    assert watched.troubles == []
