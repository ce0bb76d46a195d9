"""Hostile texts through every page of sessions and every export: they stay texts."""

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, strategies as st
from playwright.sync_api import Browser, Page, expect

from tests.web.conftest import let_in
from tests.web.hostile import PAYLOADS, hostile_history
from tests.web.site import Site, captured_home
from threadkeep.web.code import CLASSES
from threadkeep.web.markup import anchor, markdown, marked

HOSTILE = "/sessions/claude-code:hostile-1"
OPEN_ALL = "document.querySelectorAll('details').forEach(one => { one.open = true })"
# What no page of ours has, whoever wrote the text on it; the page itself has no inline script.
FOREIGN = """[...document.querySelectorAll('*')].filter(one =>
  one.matches('script:not([src^="/static/"]),iframe,object,embed,base,style,math,video,audio')
  || one.matches('img:not([src^="data:image/png;base64,"])')
  || [...one.attributes].some(a => a.name.startsWith('on') || a.name === 'style')
  || /^\\s*(javascript|data|vbscript|file):/i.test(one.getAttribute('href') ?? '')
).map(one => one.outerHTML.slice(0, 200))"""
ALLOWED_TAGS = {
    *("a", "blockquote", "br", "code", "del", "div", "em", "h4", "h5", "h6", "hr", "li", "ol"),
    *("p", "pre", "span", "s", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    user = tmp_path_factory.mktemp("user")
    hostile_history(user)
    found = Site(captured_home(tmp_path_factory.mktemp("site") / "home", user))
    yield found
    found.close()


def look(page: Page, address: str) -> None:
    """Open an address and everything that is folded on it."""
    page.goto(address)
    page.evaluate(OPEN_ALL)
    assert page.evaluate(FOREIGN) == []


def test_nothing_runs_and_nothing_leaves_on_any_page(site: Site, page: Page) -> None:
    look(page, f"{HOSTILE}?limit=500")
    expect(page.locator(":is(.transcript, .piece) > .block")).to_have_count(len(PAYLOADS) * 5 + 6)
    expect(page.locator(".transcript img")).to_have_count(2)
    page.mouse.wheel(0, 100_000)
    look(page, f"{HOSTILE}?limit=500&raw=1")
    look(page, "/sessions?q=needle")
    expect(page.locator(".rows [data-row]")).to_have_count(len(PAYLOADS[::4]))
    look(page, f"/sessions?q={quote(PAYLOADS[3])}")
    look(page, f"{HOSTILE}?words={quote('<img')}")
    expect(page.locator(".spots li").first).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.type("needle")
    expect(page.locator("#palette-found li").nth(5)).to_be_attached()
    assert page.evaluate(FOREIGN) == []


def test_the_offline_file_asks_for_nothing(site: Site, browser: Browser, tmp_path: Path) -> None:
    answer = site.get(f"{HOSTILE}/export?format=html")
    assert answer.headers["content-disposition"].startswith("attachment; filename=")
    file = tmp_path / "hostile.html"
    file.write_bytes(answer.body)
    context, watched = let_in(browser, site)
    asked: list[str] = []
    page = context.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    page.evaluate(OPEN_ALL)
    expect(page.locator(":is(.transcript, .piece) > .block").first).to_be_visible()
    foreign = page.evaluate(FOREIGN)
    context.close()
    assert [one for one in foreign if not one.startswith("<style>")] == []
    assert [one for one in asked if not one.startswith("data:")] == [file.as_uri()]
    assert [one for one in watched.troubles if "hostile.html" not in one] == []


@pytest.mark.parametrize("form", ["markdown", "json", "jsonl", "ai-sdk", "openai", "claude-code"])
def test_other_exports_are_files_and_never_pages(site: Site, form: str) -> None:
    answer = site.get(f"{HOSTILE}/export?format={form}")
    assert answer.status == 200
    assert answer.headers["content-disposition"].startswith('attachment; filename="claude-code-')
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert not answer.headers["content-type"].startswith("text/html")


class Tags(HTMLParser):
    """Reads which tags and attributes a text really has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


TRICKS = st.sampled_from(PAYLOADS) | st.text() | st.sampled_from(list("<>[]()!*_`|&;:#-\n \t\"'"))


@given(st.lists(TRICKS, max_size=12).map("".join))
def test_markdown_has_only_the_tags_and_addresses_it_may_have(text: str) -> None:
    for tag, attributes in Tags(str(markdown(text))).found:
        assert tag in ALLOWED_TAGS
        assert set(attributes) <= {"href", "title", "rel", "target", "start", "class", "tabindex"}
        if tag == "span":
            assert attributes["class"] in CLASSES
        if tag == "a" and "href" in attributes:
            assert (attributes["href"] or "").lower().startswith(("http://", "https://"))
            assert attributes["rel"] == "noopener noreferrer"


@given(st.lists(TRICKS | st.sampled_from([">>>", "<<<"]), max_size=12).map("".join))
def test_marked_text_has_harmless_tags_without_attributes(text: str) -> None:
    found = Tags(str(marked(text))).found
    assert {tag for tag, _ in found} <= {"mark", "code", "em", "strong", "s", "del"}
    assert all(not given for _, given in found)


def test_snippets_are_markdown_with_found_words_marked() -> None:
    assert marked("**very** >>>slow<<< `tests`") == (
        "<strong>very</strong> <mark>slow</mark> <code>tests</code>"
    )
    assert marked("<b> >>>a<<< </b>") == "&lt;b&gt; <mark>a</mark> &lt;/b&gt;"
    header = "Chunk ID: ab12\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\n"
    assert marked(f"{header}12 >>>passed<<<") == "12 <mark>passed</mark>"


@given(st.text())
def test_an_anchor_is_a_plain_word(key: str) -> None:
    assert anchor(key).isascii()
    assert anchor(key).isalnum()
    assert anchor(key) == anchor(key)
