"""Lists as people use them: half-typed words, suggestions, order, views, selections, labels."""

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.cli.histories import CLAUDE, HARNESSES
from tests.web.site import Site, captured_home

REF = f"claude-code:{CLAUDE}"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    found = Site(captured_home(tmp_path / "home"))
    yield found
    found.close()


def refs(site: Site, words: str) -> list[str]:
    page = site.get(f"/sessions.json?q={quote(words)}").json["page"]
    return [one["ref"] for one in page["items"]]


def test_a_word_that_is_typed_halfway_finds_sessions(site: Site, page: Page) -> None:
    assert REF in refs(site, "departu")
    assert REF in refs(site, "flaky departu")
    assert refs(site, "agent:codex qqqqq") == []
    page.goto("/sessions")
    page.keyboard.press("Control+k")
    page.keyboard.type("departu")
    expect(page.locator("#palette-found li").first).to_contain_text("departures")
    page.keyboard.press("Escape")
    expect(page.locator("#palette")).to_be_hidden()
    for words in ("departu", "flaky departu"):
        page.locator("#search").fill(words)
        page.keyboard.press("Enter")
        expect(page.locator("#found mark", has_text="departures").first).to_be_visible()
        expect(page.locator("#found")).not_to_contain_text("Missing")


def test_the_filter_bar_suggests_keys_and_values(site: Site, page: Page) -> None:
    page.goto("/sessions")
    page.keyboard.press("/")
    page.keyboard.type("age")
    expect(page.locator("#suggested li")).to_have_text(["agent:"])
    page.keyboard.type("nt:co")
    suggested = page.locator("#suggested li")
    expect(suggested).to_have_count(4)
    expect(suggested.first).to_contain_text("agent:co")  # what begins so comes first
    page.keyboard.press("Escape")
    expect(page.locator("#suggested")).to_be_hidden()
    expect(page.locator("#filter")).to_be_focused()
    page.keyboard.type("de")
    expect(suggested.first).to_contain_text("agent:codex")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#filter")).to_have_value("agent:codex ")
    expect(page.locator("[data-row]")).to_have_count(1)
    for where in ("/recall", "/usage"):
        page.goto(where)
        page.keyboard.press("/")
        page.keyboard.type("flaky agent:co")
        expect(suggested.first).to_contain_text("agent:co")


def test_lists_are_sorted_grouped_and_kept_as_views(site: Site, page: Page) -> None:
    page.goto("/sessions")
    page.get_by_text("Sort: Latest").click()
    page.get_by_role("link", name="Messages", exact=True).click()
    expect(page.locator("#filter")).to_have_value("sort:messages")
    counts = [
        int(text.split()[0])
        for text in page.locator(".about .num > :first-child").all_inner_texts()
    ]
    assert counts == sorted(counts, reverse=True)
    page.get_by_text("Group: None").click()
    page.keyboard.press("Escape")
    expect(page.get_by_role("link", name="Agent", exact=True)).to_be_hidden()
    page.get_by_text("Group: None").click()
    page.get_by_role("link", name="Agent", exact=True).click()
    expect(page.locator(".group")).to_have_count(len(HARNESSES))
    page.get_by_role("button", name="Save view").click()
    page.locator("#view-name input").fill("Busiest")
    page.keyboard.press("Enter")
    page.goto("/sessions")
    page.get_by_role("link", name="Busiest").click()
    expect(page.locator(".group")).to_have_count(len(HARNESSES))
    page.get_by_role("button", name="Remove the view Busiest").click()
    expect(page.get_by_role("link", name="Busiest")).to_have_count(0)
    rows = site.get("/sessions.json").json["page"]["items"]
    days = {one["session"]["ended_at"] // 86_400_000 for one in rows}
    assert site.get("/sessions?group=day").text.count('class="day"') == len(days)


def test_selected_sessions_are_tagged_starred_exported_and_forgotten(
    site: Site, page: Page
) -> None:
    page.goto("/sessions")
    picks = page.locator(".pick")
    picks.nth(0).check()
    picks.nth(1).check()
    bar = page.get_by_role("region", name="Selected sessions")
    expect(bar).to_contain_text("2 selected")
    bar.get_by_role("button", name="Tag…").click()
    page.locator("#tagging input").fill("look later")
    page.keyboard.press("Enter")
    expect(page.locator(".labels .tag")).to_have_text(["#later", "#look"] * 2)
    assert len(refs(site, "tag:look tag:nothing")) == 2
    bar.get_by_role("button", name="Star", exact=True).click()
    expect(page.locator('.star[aria-pressed="true"]')).to_have_count(2)
    with page.expect_download() as download:
        bar.get_by_role("link", name="Export").click()
    archive = zipfile.ZipFile(io.BytesIO(Path(download.value.path()).read_bytes()))
    assert len(archive.namelist()) == 2
    assert all(b"<title>" in archive.read(name) for name in archive.namelist())
    picks.nth(1).uncheck()
    bar.get_by_role("button", name="Forget…").click()
    dialog = page.locator("#forgetting")
    expect(dialog).to_contain_text("1 sessions")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert len(refs(site, "")) == len(HARNESSES)
    bar.get_by_role("button", name="Forget…").click()
    dialog.get_by_role("button", name="Forget").click()
    expect(page.locator("[data-row]")).to_have_count(len(HARNESSES) - 1)
    assert len(refs(site, "is:starred")) == 1


def test_a_session_and_its_messages_are_labelled_where_they_are_read(
    site: Site, page: Page
) -> None:
    page.goto(f"/sessions/{REF}")
    page.keyboard.press("s")
    expect(page.locator(".session-head .star")).to_have_attribute("aria-pressed", "true")
    page.locator(".session-head [data-edit]").click()
    page.locator("#label [name=tags]").fill("Flaky ci")
    page.locator("#label [name=note]").fill("read this <b>again</b>")
    page.locator("#label").get_by_role("button", name="Save").click()
    expect(page.locator(".session-head .note-text")).to_have_text("read this <b>again</b>")
    first = page.locator(".transcript .block").first
    first.hover()
    first.locator(".star").first.click()
    expect(first.locator(".labels")).to_contain_text("Tags and note…")
    page.reload()
    expect(page.locator(".session-head .tag")).to_have_text(["#ci", "#flaky"])
    expect(page.locator(".transcript .block .labels")).to_have_count(1)
    page.locator(".session-head .tag").first.click()
    expect(page.locator("[data-row]")).to_have_count(1)
