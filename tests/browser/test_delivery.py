"""What was read reaches the host, however the host, the background or the page behave."""

import pytest

from tests.browser.conftest import World
from tests.browser.pages import MADE_UP_EVENTS, PROSE

pytestmark = pytest.mark.slow


def test_visits_wait_until_there_is_a_host(world: World) -> None:
    browser = world.browser
    browser.load_extension()
    world.call_host()
    assert browser.run("chrome.action.getBadgeText({})") == "!"
    browser.run("""chrome.storage.local.set({config:
        {enabled: true, domains: null, exclude: [], minDwellMs: 0}})""")
    for path in ("", "other"):
        browser.read(f"http://docs.rs/{path}").leave()
    box = browser.stored("outbox", "value.items.length === 2")
    assert box["dropped"] == 0

    popup = browser.popup()
    popup.until("document.getElementById('missing').checkVisibility()")
    command = popup.run("document.getElementById('command').textContent")
    assert command == "threadkeep browser install chromium"

    world.install_host()
    world.call_host()
    got = [world.host.next("visit")["url"] for _ in range(2)]
    assert got == ["http://docs.rs/", "http://docs.rs/other"]
    browser.stored("outbox", "value.items.length === 0")
    world.call_host()
    assert browser.run("chrome.action.getBadgeText({})") == ""


def test_what_the_host_could_not_store_is_tried_again_but_not_for_ever(world: World) -> None:
    browser = world.start()
    world.verdict = {"status": "error", "error": "the disk is full"}
    world.visit("http://docs.rs/")
    for tries in range(1, 5):
        browser.stored("outbox", f"value.items[0]?.tries === {tries}")
        world.call_host()
        assert world.host.next("visit")["url"] == "http://docs.rs/"
    assert browser.stored("outbox", "value.items.length === 0")["dropped"] == 1


def test_a_page_outlives_the_background(world: World) -> None:
    browser = world.start()
    page = browser.read("http://docs.rs/")
    browser.stop_worker()
    page.leave()
    assert world.host.next("visit")["url"] == "http://docs.rs/"


def test_signs_of_life_come_at_the_start_and_regularly(world: World) -> None:
    world.install_host()
    world.browser.load_extension()
    first = world.host.next("heartbeat")
    assert first.pop("sent_at_ms") > 1_700_000_000_000
    assert first == {"type": "heartbeat", "extension_version": "0.1.0", "enabled_state": True}
    world.wait_for_config()
    alarm = world.browser.run("chrome.alarms.get('heartbeat')")
    assert alarm["periodInMinutes"] == 5
    # An extension that is loaded unpacked may ask for less than the usual minute.
    world.browser.run('chrome.alarms.create("heartbeat", {delayInMinutes: 0.0001})')
    assert world.host.next("heartbeat")["enabled_state"] is True


def test_a_host_that_answers_nonsense_changes_nothing(world: World) -> None:
    world.config = {"status": "error", "error": "unknown type config"}  # such is Hippo's
    world.install_host()
    world.browser.load_extension()
    world.host.next("config")
    assert world.browser.run("chrome.storage.local.get('host').then(({host}) => host.reached)")
    page = world.browser.read("http://docs.rs/")
    rules = page.run('chrome.runtime.sendMessage({kind: "rules"})', page.content_context())
    assert rules == {"capture": True, "minDwellMs": 3000}


def test_the_configuration_can_switch_it_off(world: World) -> None:
    browser = world.start(enabled=False)
    browser.open("http://docs.rs/").leave()
    assert world.nothing_came()
    world.config["enabled"] = True
    world.call_host()
    browser.stored("config", "value.enabled === true")


def test_a_title_of_a_megabyte_is_cut(world: World) -> None:
    page = world.start().read("http://docs.rs/")
    page.run("document.title = '\\u{1F9F5}'.repeat(250_000); null")
    page.leave()
    assert world.host.next("visit")["title"] == "\N{SPOOL OF THREAD}" * 1024


def test_an_address_that_is_far_too_long_is_no_visit(world: World) -> None:
    browser = world.start()
    page = browser.read("http://docs.rs/")
    page.run("history.replaceState({}, '', '/?' + 'x'.repeat(100_000))")
    browser.put_aside(page)
    assert world.host.next("visit")["url"] == "http://docs.rs/"
    assert world.nothing_came()


def test_ten_megabytes_of_text_are_cut_at_a_character(world: World) -> None:
    browser = world.start()
    page = browser.read("http://docs.rs/")
    # Not laid out where it is out of sight, which alone would take the browser many seconds.
    page.run("""document.querySelector("main").innerHTML =
        `<p style="content-visibility: auto; contain-intrinsic-size: 9px 900px">${
            "\u20ac".repeat(1000)}</p>`.repeat(10_000); null""")
    browser.put_aside(page)
    text = world.host.next("visit")["extracted_text"]
    assert set(text) == {"\N{EURO SIGN}", "\n"}
    assert 50 * 1024 - 3 < len(text.encode()) <= 50 * 1024


def test_a_hundred_thousand_nodes_are_not_all_looked_at(world: World) -> None:
    browser = world.start()
    page = browser.read("http://docs.rs/")
    page.run("""document.body.innerHTML = "<p>at the start</p>" + "<i></i>".repeat(100_000)
        + "<div>".repeat(400) + "too far"; null""")
    browser.put_aside(page)
    assert world.host.next("visit")["extracted_text"] == "at the start"


def test_a_hostile_page_reads_like_any_other(world: World) -> None:
    browser = world.start()
    page = browser.read("http://docs.rs/hostile")
    page.run(MADE_UP_EVENTS)
    browser.put_aside(page)
    got = world.host.next("visit")
    assert got["url"] == "http://docs.rs/hostile"
    assert (got["title"], got["domain"]) == ("Hostile", "docs.rs")
    assert got["extracted_text"] == f"What it says\n{PROSE.strip()}\nBefore\nIn a form"
    assert got["dwell_ms"] >= 0
    assert world.nothing_came()  # one visit, not two


def test_a_page_speaks_for_its_own_site_alone(world: World) -> None:
    page = world.start().read("http://docs.rs/")
    context = page.content_context()
    visit = '{url: "http://crates.io/", dwell_ms: 9, scroll_depth: 1, timestamp: 1}'
    said = (
        f'{{kind: "visit", visit: {visit}}}',
        '{kind: "visit", visit: {url: "http://docs.rs/"}}',
        '{kind: "visit", visit: null}',
        '{kind: "switch", on: false}',
        '{kind: "status", url: "http://docs.rs/"}',
        '{kind: "__proto__"}',
    )
    for message in said:
        assert page.run(f"chrome.runtime.sendMessage({message})", context) in {None, False}
    assert page.run("chrome.storage.local.get(null).catch(() => 'kept out')", context) == "kept out"
    page.leave()  # and it is still on
    assert world.host.next("visit")["url"] == "http://docs.rs/"
    assert world.nothing_came()
