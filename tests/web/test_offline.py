"""A session as one file: it opens with nothing but itself, and everything is in it."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.cli.histories import CLAUDE
from tests.web.site import Site
from threadkeep.errors import NotFound
from threadkeep.web.renderer import offline_html

REF = f"claude-code:{CLAUDE}"


@pytest.fixture(scope="module")
def text(site: Site) -> str:
    return offline_html(site.home, REF)


def test_it_opens_from_the_disk_without_a_script_and_without_a_request(
    text: str, browser: Browser, tmp_path: Path
) -> None:
    file = tmp_path / "session.html"
    file.write_text(text, "utf-8")
    context = browser.new_context(java_script_enabled=False, offline=True)
    asked: list[str] = []
    said: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    context.on("console", lambda message: said.append(message.text))
    page = context.new_page()
    page.goto(file.as_uri())
    expect(page.locator("h1")).to_have_text("Fix the flaky test of the departures board")
    expect(page.locator(".rail li")).to_have_count(1)
    expect(page.locator(".tools.block").first).to_be_visible()
    page.get_by_text("Tools", exact=True).click()
    expect(page.locator(".tools.block").first).to_be_hidden()
    page.get_by_text("Tools", exact=True).click()
    inner = page.locator(".tools .subagent .inner .block")
    expect(inner.first).to_be_hidden()
    page.locator(".tools .subagent > summary").first.click()
    expect(inner.first).to_be_visible()
    # Its style is allowed by its own hash: without it the chips would have no round corners.
    expect(page.locator(".chip").first).to_have_css("border-radius", "16px")
    context.close()
    assert asked == [file.as_uri()]
    assert said == []


def test_nothing_in_it_leads_to_the_server_or_runs(text: str) -> None:
    assert 'content="default-src &#39;none&#39;; style-src &#39;sha256-' in text
    assert "<script" not in text
    assert "<link" not in text
    addresses = re.findall(r'(?:src|href|action|hx-get)="([^"]*)"', text)
    assert {one[:1] for one in addresses} == {"#"}


def test_every_entry_is_in_it(site: Site, text: str) -> None:
    blocks = site.get(f"/sessions/{REF}/messages.json").json["window"]["messages"]
    assert blocks
    for block in blocks:
        assert f'data-key="{block["key"]}"' in text


def test_the_page_gives_the_same_file(site: Site, text: str) -> None:
    answer = site.get(f"/sessions/{REF}/export?format=html")
    name = "claude-code-fix-the-flaky-test-of-the-departures-board.html"
    assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'
    stamp = re.compile(r"saved by threadkeep on [^<]*")
    assert stamp.sub("", answer.text) == stamp.sub("", text)


def test_a_session_that_is_not_there_and_a_form_that_is_none(site: Site) -> None:
    with pytest.raises(NotFound):
        offline_html(site.home, "claude-code:nobody")
    assert site.get(f"/sessions/{REF}/export?format=word").status == 400
    assert site.get("/sessions/claude-code:nobody/export").status == 404
