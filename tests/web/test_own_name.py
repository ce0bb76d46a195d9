"""The page's own name in a real browser: links, the cookie, other servers, logins."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from tests.web.site import Site


class Listener:
    """Another program that listens on loopback, and keeps every cookie that it is shown."""

    def __init__(self) -> None:
        self.cookies: list[str] = []
        self.asked: list[str] = []
        keeps = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                keeps.asked.append(self.headers["host"])
                keeps.cookies += self.headers.get_all("cookie", [])
                body = b"<!doctype html><title>other</title><img src=/picture>"
                self.send_response(200)
                self.send_header("content-type", "text/html")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    found = Listener()
    yield found
    found.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    found = browser.new_context()
    yield found
    found.close()


def opened(context: BrowserContext, address: str) -> tuple[Page, int]:
    page = context.new_page()
    answer = page.goto(address)
    assert answer is not None
    return page, answer.status


def test_no_other_server_of_the_machine_is_shown_the_cookie(
    context: BrowserContext, site: Site, listener: Listener
) -> None:
    page, status = opened(context, site.link())
    assert (status, page.url) == (200, f"{site.page}/")
    (cookie,) = context.cookies()
    assert cookie["domain"] == urlsplit(site.page).hostname  # without a dot: this host alone
    assert (cookie["httpOnly"], cookie["secure"], cookie["sameSite"]) == (True, True, "Strict")
    assert page.evaluate("document.cookie") == ""
    for host in ("127.0.0.1", "localhost", "other.localhost", "threadkeep.localhost"):
        opened(context, f"http://{host}:{listener.port}/")
    assert {urlsplit(f"//{host}").hostname for host in listener.asked} == {
        *("127.0.0.1", "localhost", "other.localhost", "threadkeep.localhost")
    }
    assert listener.cookies == []


def test_loopback_leads_to_the_page_that_was_meant(context: BrowserContext, site: Site) -> None:
    opened(context, site.link())
    for host in ("127.0.0.1", "localhost"):
        page, status = opened(context, f"http://{host}:{site.port}/sessions?q=agent:codex")
        assert (status, page.url) == (200, f"{site.page}/sessions?q=agent:codex")


def test_a_link_lets_one_browser_in_and_no_other(
    browser: Browser, context: BrowserContext, site: Site
) -> None:
    link = site.link()
    assert opened(context, link)[1] == 200
    other = browser.new_context()
    try:
        page, status = opened(other, link)
        assert status == 403
        assert "this link was used" in page.content()
        page, status = opened(other, f"{site.url}/sessions")
        assert status == 401
        assert "threadkeep up --link" in page.content()
        assert other.cookies() == []
    finally:
        other.close()
    assert opened(context, site.link())[1] == 200  # another link is as good


def test_a_cookie_of_an_older_version_is_refused_and_deleted(
    context: BrowserContext, site: Site
) -> None:
    name = f"threadkeep_{site.port}"
    context.add_cookies([{"name": name, "value": "old", "domain": "127.0.0.1", "path": "/"}])
    page, status = opened(context, f"{site.url}/sessions")
    assert (status, page.url) == (401, f"{site.page}/sessions")
    assert context.cookies() == []


def test_logins_are_seen_and_ended_on_the_page(
    browser: Browser, context: BrowserContext, site: Site
) -> None:
    site.run("web", "revoke", "--all")
    other = browser.new_context()
    try:
        there, _ = opened(other, site.link())
        page, _ = opened(context, site.link())
        page.goto(f"{site.page}/health")
        rows = page.locator("#logins tbody tr")
        rows.nth(1).wait_for()
        assert rows.count() == 2
        assert rows.get_by_text("this one").count() == 1
        rows.get_by_role("button", name="Revoke").click()
        rows.nth(1).wait_for(state="detached")
        again = there.goto(f"{site.page}/sessions")
        assert again is not None
        assert again.status == 401
    finally:
        other.close()
    page.once("dialog", lambda dialog: dialog.accept())
    rows.get_by_role("button", name="Log out").click()
    page.get_by_text("a token or the cookie of a link is needed").wait_for()
