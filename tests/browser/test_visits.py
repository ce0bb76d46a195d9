"""Pages that are read in a real Chromium arrive at the host as they should, and others do not."""

import time

import pytest

from tests.browser.chromium import Page
from tests.browser.conftest import World
from tests.browser.pages import PROSE

pytestmark = pytest.mark.slow

A_LITTLE_LATER = """new Promise((done) => {
    const start = performance.now();
    const look = () => (performance.now() - start > 5 ? done() : setTimeout(look));
    look();
})"""


def test_a_visit_arrives_with_all_its_fields(world: World) -> None:
    world.start()
    before = int(time.time() * 1000)
    got = world.visit("http://docs.rs/?page=2#top")
    assert before - 1 <= got.pop("timestamp") <= time.time() * 1000
    assert 0 <= got.pop("dwell_ms") < 60_000
    assert got == {
        "url": "http://docs.rs/?page=2#top",
        "title": "Spools & threads",
        "domain": "docs.rs",
        "scroll_depth": 1,
        "extracted_text": PROSE.strip(),
        "search_query": None,
        "referrer": None,
    }


def test_the_question_to_a_search_engine_is_kept(world: World) -> None:
    page = world.start().open()
    referrer = "https://www.google.com/search?q=wind+a+spool&hl=en"
    page.call("Page.enable")
    page.call("Page.navigate", url="http://docs.rs/", referrer=referrer, referrerPolicy="unsafeUrl")
    page.event("Page.loadEventFired")
    page.watched().leave()
    got = world.host.next("visit")
    assert (got["referrer"], got["search_query"]) == (referrer, "wind a spool")


def test_sites_that_are_not_listed_never_see_the_content_script(world: World) -> None:
    browser = world.start(exclude=["internal.docs.rs"])
    for address in ("http://evildocs.rs/", "http://docs.rs.test/", "http://internal.docs.rs/"):
        page = browser.open(address)
        assert "threadkeep" not in worlds(page)
        page.leave()
    assert world.visit("http://sub.docs.rs/")["domain"] == "sub.docs.rs"


def worlds(page: Page) -> list[str]:
    """Name the worlds that scripts of this page live in, those of its frames among them."""
    page.call("Runtime.disable")
    while page.known("Runtime.executionContextCreated"):
        pass
    page.call("Runtime.enable")
    page.run("1")
    found = iter(lambda: page.known("Runtime.executionContextCreated"), None)
    return [event["context"]["name"] for event in found]


def test_frames_within_a_page_are_not_visits(world: World) -> None:
    browser = world.start()
    page = browser.read("http://docs.rs/")
    page.run("""new Promise((loaded) => {
        const frame = document.createElement("iframe");
        frame.onload = loaded;
        frame.src = "/other";
        document.body.append(frame);
    })""")
    assert worlds(page).count("threadkeep") == 1
    browser.put_aside(page)
    assert world.host.next("visit")["title"] == "Spools & threads"
    assert world.nothing_came()


def test_a_short_look_is_no_visit(world: World) -> None:
    browser = world.start(min_dwell_ms=1_000_000_000)
    browser.put_aside(browser.read("http://docs.rs/"))
    assert world.nothing_came()


def test_scroll_depth_is_the_lowest_point_that_was_seen(world: World) -> None:
    page = world.start().read("http://docs.rs/tall")
    page.call(
        "Emulation.setDeviceMetricsOverride",
        width=800,
        height=500,
        deviceScaleFactor=1,
        mobile=False,
    )
    for top in (4500, 0):
        page.run(f"""new Promise((scrolled) => {{
            addEventListener("scroll", () => requestAnimationFrame(scrolled), {{once: true}});
            scrollTo(0, {top});
        }})""")
    page.leave()
    assert world.host.next("visit")["scroll_depth"] == pytest.approx(0.5)


def test_the_text_is_what_a_reader_sees(world: World) -> None:
    world.start()
    assert world.visit("http://docs.rs/article")["extracted_text"].split("\n") == [
        "How to wind",
        "First bold and plain.",
        "Next line.",
        PROSE.strip(),
        "def wind(spool):",
        "    return spool + 1",
        "name turns",
        "red 12",
        "Password",
    ]


def test_a_page_without_main_gives_its_heaviest_block(world: World) -> None:
    world.start()
    text = world.visit("http://docs.rs/blocks")["extracted_text"]
    assert text == f"{PROSE.strip()}\n{PROSE.strip()}"


def test_each_address_of_a_single_page_application_is_a_visit(world: World) -> None:
    page = world.start().read("http://docs.rs/app")
    page.run("""history.pushState({}, "", "/app/second");
        document.title = "Second view"; document.querySelector("main").textContent = "second view";
        history.replaceState({}, "", "/app/second");""")
    page.run('location.hash = "part"')
    page.leave()
    got = [world.host.next("visit") for _ in range(3)]
    assert [(one["url"], one["title"], one["extracted_text"]) for one in got] == [
        ("http://docs.rs/app", "First view", "first view"),
        ("http://docs.rs/app/second", "Second view", "second view"),
        ("http://docs.rs/app/second#part", "Second view", "second view"),
    ]
    assert [one["referrer"] for one in got[1:]] == [one["url"] for one in got[:-1]]


def test_a_page_that_is_seen_again_is_reported_again_with_the_whole_time(world: World) -> None:
    browser = world.start()
    page, other = browser.read("http://docs.rs/"), browser.open()
    first = world.host.next("visit")
    browser.front(page)
    page.run(A_LITTLE_LATER)
    browser.front(other)
    second = world.host.next("visit")
    assert second["dwell_ms"] >= first["dwell_ms"] + 5
    # The same time of the same address: the host sees that it is the same visit.
    assert [second[key] for key in ("url", "timestamp")] == [first["url"], first["timestamp"]]


def test_a_page_from_the_back_forward_cache_is_a_new_visit(world: World) -> None:
    page = world.start().read("http://docs.rs/")
    page.run("globalThis.stillHere = true")
    page.go("http://docs.rs/other").watched()
    first = world.host.next("visit")
    history = page.call("Page.getNavigationHistory")
    entry = history["entries"][history["currentIndex"] - 1]["id"]
    page.call("Page.navigateToHistoryEntry", entryId=entry)
    assert world.host.next("visit")["url"] == "http://docs.rs/other"
    page = world.browser.find("http://docs.rs/")
    assert page.run("globalThis.stillHere") is True
    page.run(A_LITTLE_LATER)
    page.leave()
    again = world.host.next("visit")
    assert (again["url"], again["timestamp"] > first["timestamp"]) == ("http://docs.rs/", True)


def test_closing_a_tab_ends_the_visit(world: World) -> None:
    browser = world.start()
    page = browser.read("http://docs.rs/")
    browser.pipe.call("Target.closeTarget", targetId=page.target)
    assert world.host.next("visit")["url"] == "http://docs.rs/"


def test_private_windows_are_none_of_our_business(world: World) -> None:
    browser = world.start()
    private = browser.pipe.call("Target.createBrowserContext")["browserContextId"]
    made = browser.pipe.call("Target.createTarget", url="about:blank", browserContextId=private)
    page = Page(browser.pipe, made["targetId"]).go("http://docs.rs/")
    assert "threadkeep" not in worlds(page)
    page.leave()
    assert world.nothing_came()
