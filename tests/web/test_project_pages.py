"""The project pages: what a project shows, and how it is renamed from there."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.web.site import Site, captured_home


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    found = Site(captured_home(tmp_path / "home"))
    yield found
    found.close()


def test_a_project_shows_its_work_and_is_renamed(site: Site, page: Page) -> None:
    [project] = site.get("/projects.json").json["projects"]
    assert project["name"] == "harbor"
    shown = site.get("/projects/harbor.json").json
    assert shown["count"] == project["sessions"]
    assert shown["report"]["total"]["answers"] > 0
    assert shown["project"]["files"]
    assert site.get("/projects/nowhere").status == 404
    page.goto("/projects/harbor")
    page.get_by_text("Rename or merge").click()
    page.get_by_label("New name").fill("port")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("port")
    expect(page.locator("main")).to_contain_text("Also harbor")
    assert site.get("/sessions.json?q=project:port").json["count"] == project["sessions"]
    page.get_by_text("Rename or merge").click()
    page.get_by_role("button", name="Split again").click()
    expect(page.get_by_role("link", name="harbor", exact=True)).to_be_visible()
