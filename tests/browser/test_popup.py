"""The popup in a real Chromium: what it shows, and that the switch means what it says."""

import pytest

from tests.browser.chromium import Page
from tests.browser.conftest import World

pytestmark = pytest.mark.slow


def shows(popup: Page, name: str, text: str) -> None:
    """Wait until an element of the popup says something."""
    popup.until(f"document.getElementById('{name}').textContent.includes({text!r})")


def hidden(popup: Page, name: str) -> bool:
    return bool(popup.run(f"!document.getElementById('{name}').checkVisibility()"))


def press(popup: Page, name: str) -> None:
    """Press a button, as soon as the popup is ready for it."""
    popup.until(f"!document.getElementById('{name}').disabled")
    popup.run(f"document.getElementById('{name}').click()")


def badge(world: World) -> str:
    return str(world.browser.run("chrome.action.getBadgeText({})"))


def test_off_means_that_nothing_is_sent(world: World) -> None:
    browser = world.start()
    open_page = browser.read("http://docs.rs/")
    popup = browser.popup()
    world.host.next("visit")  # the popup has hidden the page
    shows(popup, "host", "connected")
    press(popup, "enabled")
    while world.host.next("heartbeat")["enabled_state"]:
        pass  # the last word is that it is off
    shows(popup, "page", "not kept: you switched it off")
    assert (badge(world), hidden(popup, "pause")) == ("off", True)

    browser.front(open_page)
    browser.put_aside(open_page)
    assert open_page.run("typeof threadkeepStop", open_page.content_context()) == "undefined"
    browser.open("http://docs.rs/other").leave()
    world.call_host()
    press(popup, "enabled")
    assert world.host.visits_before("heartbeat") == []
    shows(popup, "page", "not kept: it is not a web page")
    assert badge(world) == ""
    assert world.visit("http://docs.rs/other")["title"] == "Other"


def test_switching_on_watches_pages_that_are_open_already(world: World) -> None:
    browser = world.start()
    popup = browser.popup()
    press(popup, "enabled")
    shows(popup, "page", "you switched it off")
    page = browser.open("http://docs.rs/")
    press(popup, "enabled")
    shows(popup, "page", "not a web page")
    page.watched().leave()
    assert world.host.next("visit")["url"] == "http://docs.rs/"


def test_a_pause_ends_by_itself_or_by_hand(world: World) -> None:
    browser = world.start()
    popup = browser.popup()
    press(popup, "pause")
    shows(popup, "page", "not kept: it is paused")
    assert badge(world) == "||"
    alarm = browser.run("chrome.alarms.get('resume').then((a) => a.scheduledTime - Date.now())")
    assert 3_500_000 < alarm <= 3_600_000
    browser.open("http://docs.rs/").leave()
    press(popup, "pause")
    shows(popup, "page", "not a web page")
    assert world.visit("http://docs.rs/other")["title"] == "Other"


def test_the_popup_counts_what_was_stored_today(world: World) -> None:
    browser = world.start()
    world.visit("http://docs.rs/")
    world.verdict = {"status": "filtered"}
    world.visit("http://docs.rs/other")
    browser.stored("outbox", "value.items.length === 0")
    popup = browser.popup()
    shows(popup, "sent", "1")
    shows(popup, "waiting", "0")


def test_a_domain_is_added_from_the_popup(world: World) -> None:
    # The manifest allows docs.rs, the host's list does not have it: so no question of the browser.
    browser = world.start(domains=["crates.io"])
    page = browser.open("http://docs.rs/")
    popup = real_popup(world, page)
    shows(popup, "page", "not kept: its site is not in the list")
    shows(popup, "add", "Keep pages of docs.rs")
    press(popup, "add")
    shows(popup, "page", "the list in the configuration of threadkeep lacks its site")
    shows(popup, "hint", 'Add "docs.rs" to domains under [browser]')
    world.config["domains"] = ["crates.io", "docs.rs"]
    page.watched().leave()
    assert world.host.next("visit")["domain"] == "docs.rs"


def real_popup(world: World, page: Page) -> Page:
    """Open the popup as a click on the button does, over a page in front."""
    world.browser.front(page)
    world.browser.run("chrome.action.openPopup()")
    return world.browser.find("popup.html")


def test_the_popup_says_that_a_page_is_kept(world: World) -> None:
    page = world.start().read("http://docs.rs/")
    popup = real_popup(world, page)
    shows(popup, "page", "This page is kept when you have read it.")
    assert hidden(popup, "add")


def test_everything_in_the_popup_has_a_name_and_can_be_reached_by_keyboard(world: World) -> None:
    popup = world.start().popup()
    shows(popup, "host", "connected")
    nodes = popup.call("Accessibility.getFullAXTree")["nodes"]
    named = {
        (node["role"]["value"], node["name"]["value"])
        for node in nodes
        if node.get("role", {}).get("value") in {"switch", "button"}
    }
    assert named == {("switch", "Keep the pages that I read"), ("button", "Pause for an hour")}
    popup.run("document.body.focus()")
    reached = []
    for _ in range(2):
        for kind in ("keyDown", "keyUp"):
            popup.call(
                "Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9
            )
        reached.append(popup.run("document.activeElement.id"))
    assert reached == ["enabled", "pause"]
