"""The page of a session in a real browser: what is shown, folded, found and followed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.web.conftest import let_in
from tests.web.site import Site, captured_home
from tests.web.transcripts import PIXEL, Log, Rich, long_session, rich_session

# A window of a hundred blocks, and more than ten of them: enough to see that windows work.
TURNS = 120


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("user")


@pytest.fixture(scope="module")
def rich(user: Path) -> Rich:
    long_session(user, TURNS)
    return rich_session(user)


@pytest.fixture(scope="module")
def site(user: Path, rich: Rich, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    assert rich
    found = Site(captured_home(tmp_path_factory.mktemp("site") / "home", user))
    yield found
    found.close()


@pytest.fixture(scope="module")
def reader(browser: Browser, site: Site) -> Iterator[Page]:
    """Return one page for all tests here; at the end nothing bad may have happened in it."""
    context, watched = let_in(browser, site, viewport={"width": 1280, "height": 800})
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    yield context.new_page()
    context.close()
    assert watched.troubles == []


def address(name: str) -> str:
    return f"/sessions/claude-code:{name}"


def positions(page: Page) -> list[int]:
    found = page.evaluate(
        "[...document.querySelectorAll(':is(.transcript, .piece) > .block,"
        " :is(.transcript, .piece) > .block > .result')]"
        ".map(one => Number(one.dataset.pos))"
    )
    assert isinstance(found, list)
    return found


def test_a_rich_session_is_shown_with_all_that_is_in_it(reader: Page, rich: Rich) -> None:
    reader.goto(address(rich.name))
    expect(reader.locator("h1")).to_contain_text("wrong berth")
    expect(reader.locator(".resume code")).to_have_text(
        "cd /home/demo/code/quay && claude --resume rich-1"
    )
    expect(reader.locator(".prompts .prose li").first).to_have_text("keep the indent")
    expect(reader.locator(".answers pre code").first).to_have_text("berths = {}\n")
    expect(reader.locator(".answers td").nth(1)).to_have_text("Aurora")
    links = reader.locator(".answers a[target=_blank]")
    expect(links).to_have_count(2)
    expect(links.first).to_have_attribute("rel", "noopener noreferrer")
    expect(reader.locator(".transcript img")).to_have_attribute(
        "src", f"data:image/png;base64,{PIXEL}"
    )
    edit = reader.locator(f".block[data-key='{rich.edit}']")
    expect(edit.locator("ins")).to_have_text("    CACHE.refresh()\n")
    expect(edit.locator(".result .good").first).to_contain_text("ok")
    expect(reader.locator(".result.failed")).to_contain_text("grep: no such folder")
    expect(reader.locator(".rail li")).to_have_count(4)
    expect(reader.locator(".branch")).to_contain_text(["one of 2 branches"] * 2)
    compaction = reader.locator(".compaction")
    expect(compaction.locator("strong")).to_be_hidden()
    compaction.locator("summary").click()
    expect(compaction.locator("strong")).to_have_text("Berths")


def test_long_things_are_folded_or_cut_and_come_when_asked_for(reader: Page, rich: Rich) -> None:
    reader.goto(address(rich.name))
    output = reader.locator(f".block[data-key='{rich.long}'] .result")
    expect(output.get_by_text("line 150 of")).to_be_hidden()
    output.get_by_text("show all 200 lines").click()
    expect(output.get_by_text("line 150 of")).to_be_visible()
    huge = reader.locator(f".block[data-key='{rich.huge}']")
    expect(huge).not_to_contain_text("zebra")
    huge.get_by_role("link", name="show all").click()
    expect(huge).to_contain_text("zebra at its end")
    thought = reader.locator(".reasoning.block")
    expect(thought.locator("strong")).to_be_hidden()
    thought.locator("summary").click()
    expect(thought.locator("strong")).to_have_text("Look")


def test_filters_hide_and_the_focused_mode_leaves_prompts_and_last_answers(
    reader: Page, rich: Rich
) -> None:
    reader.goto(address(rich.name))
    tools = reader.locator(".tools.block").first
    expect(tools).to_be_visible()
    reader.get_by_label("Tools").uncheck(force=True)
    expect(tools).to_be_hidden()
    reader.get_by_label("Tools").check(force=True)
    reader.get_by_label("Focused").check(force=True)
    shown = reader.evaluate(
        "[...document.querySelectorAll(':is(.transcript, .piece) > .block')]"
        ".filter(one => one.checkVisibility()).map(one => one.classList[1])"
    )
    assert shown == ["prompts", "answers"] * 4


def test_raw_shows_what_was_written(reader: Page, rich: Rich) -> None:
    reader.goto(f"{address(rich.name)}?raw=1")
    expect(reader.locator(".answers pre").first).to_contain_text("| 4 | Aurora |")
    expect(reader.locator(f".block[data-key='{rich.edit}'] .input")).to_contain_text("old_string")
    reader.get_by_role("link", name="Show formatted").click()
    expect(reader.locator(".answers td").nth(1)).to_have_text("Aurora")


def test_a_permalink_opens_the_right_window_and_windows_come_from_both_sides(reader: Page) -> None:
    reader.goto(f"{address('long-1')}?at=long-1-605")
    target = reader.locator(".is-target")
    expect(target).to_be_in_viewport()
    expect(target).to_have_attribute("data-key", "long-1-605")
    seen = positions(reader)
    assert 604 in seen
    assert seen[0] > 300, "a window, not the whole session"
    reader.locator(".more.later").scroll_into_view_if_needed()
    expect(reader.locator("[data-pos='700']")).to_be_attached()
    top = reader.locator(":is(.transcript, .piece) > .block").first
    number = int(top.get_attribute("data-pos") or "0")
    top.scroll_into_view_if_needed()
    expect(reader.locator(f"[data-pos='{number - 1}']")).to_be_attached()
    found = positions(reader)
    assert found == list(range(found[0], found[-1] + 1)), "nothing is missing, nothing twice"
    reader.evaluate("document.querySelector('[data-turn-link=\"60\"]').click()")
    expect(reader.locator("[data-key='long-1-601']")).to_be_in_viewport()


def test_what_is_read_stays_where_it_is_while_earlier_blocks_come(reader: Page) -> None:
    reader.goto(f"{address('long-1')}?before=600")
    first = reader.locator("[data-pos='500']")
    expect(reader.locator("[data-pos='499']")).to_be_attached()
    expect(first).to_be_in_viewport()


def test_finding_lists_places_and_goes_to_them(reader: Page) -> None:
    reader.goto(address("long-1"))
    reader.keyboard.press("/")
    reader.keyboard.type("berth-70-1")
    expect(reader.locator(".spots li")).to_have_count(1)
    expect(reader.locator(".spots mark")).to_have_text("berth-70-1")
    reader.keyboard.press("Enter")
    reader.wait_for_url("**at=*")
    expect(reader.locator(".is-target .headline")).to_have_text("cat berth-70-1.txt")
    assert reader.evaluate("CSS.highlights.get('found').size") == 1
    expect(reader.locator(".spots li")).to_have_count(1)


def test_a_word_in_something_folded_is_unfolded_and_brought_into_sight(
    reader: Page, rich: Rich
) -> None:
    reader.goto(address(rich.name))
    reader.keyboard.press("/")
    reader.keyboard.type("line 150 of")
    expect(reader.locator(".spots li")).to_have_count(1)
    reader.keyboard.press("Enter")
    output = reader.locator(f".block[data-key='{rich.long}'] .result")
    expect(output.get_by_text("line 150 of")).to_be_visible()
    reader.wait_for_function(
        "(([word]) => word && Math.abs(word.getBoundingClientRect().top - innerHeight / 2) < 60)"
        "([...CSS.highlights.get('found')])"
    )
    expect(reader.locator("#spot")).to_have_text("1/1")


def test_keys_move_copy_and_open(reader: Page, rich: Rich) -> None:
    reader.goto(address(rich.name))
    here = reader.locator(".block.is-here")
    reader.keyboard.press("j")
    expect(here).to_have_attribute("data-pos", "1")
    reader.keyboard.press("J")
    expect(here).to_have_attribute("data-key", rich.picture)
    reader.keyboard.press("K")
    expect(here).to_have_attribute("data-pos", "0")
    reader.keyboard.press("y")
    expect(reader.locator("#said")).to_have_text("Copied.")
    assert f"{address('rich-1').replace(':', '%3A')}?at=" in reader.evaluate(
        "navigator.clipboard.readText()"
    )
    reader.keyboard.press("?")
    expect(reader.locator("#help")).to_be_visible()
    reader.keyboard.press("Escape")
    expect(reader.locator("#help")).to_be_hidden()
    reader.keyboard.press("e")
    expect(reader.locator("details.export a").first).to_be_focused()
    reader.keyboard.press("Escape")
    reader.keyboard.press("[")
    reader.wait_for_url(f"**{address('long-1').replace(':', '%3A')}")


def test_what_another_process_writes_appears_while_one_reads(
    reader: Page, site: Site, user: Path
) -> None:
    log = Log(user, "live-1")
    log.ask("Is anybody there?")
    log.answer("One moment.")
    log.write()
    site.run("capture", "--quiet", "--user-home", str(user))
    reader.goto(address("live-1"))
    expect(reader.locator(":is(.transcript, .piece) > .block")).to_have_count(2)
    expect(reader.locator("html.connected")).to_be_attached()
    log.call("Bash", {"command": "date"}, "Sunday")
    log.answer("Yes, and it is Sunday.")
    log.write()
    site.run("capture", "--quiet", "--user-home", str(user))
    expect(reader.get_by_text("Yes, and it is Sunday.")).to_be_visible()
    expect(reader.locator(".fresh")).to_have_text("new messages")
    expect(reader.locator(".tools .result")).to_contain_text("Sunday")
    assert positions(reader) == [0, 1, 2, 3, 4]
    log.answer("A long answer.\n\n" * 60)
    log.write()
    site.run("capture", "--quiet", "--user-home", str(user))
    expect(reader.locator("[data-pos='5']")).to_be_attached()
    reader.keyboard.press("K")  # away from the end: nothing may pull the reader back
    log.answer("And on it goes.")
    log.write()
    site.run("capture", "--quiet", "--user-home", str(user))
    expect(reader.locator("#to-new")).to_contain_text("1 new")
    expect(reader.locator("[data-pos='0']")).to_be_in_viewport()
    reader.keyboard.press("f")
    expect(reader.get_by_text("And on it goes.")).to_be_in_viewport()
    expect(reader.locator("#to-new")).to_be_hidden()


def test_who_reads_far_from_the_end_is_told_of_what_is_new(
    reader: Page, site: Site, user: Path
) -> None:
    log = Log(user, "live-2")
    for number in range(130):
        log.answer(f"answer {number}")
    log.write()
    site.run("capture", "--quiet", "--user-home", str(user))
    reader.goto(address("live-2"))
    reader.locator("html.connected").wait_for()
    before = len(positions(reader))
    assert before < 130  # the end is not on the page
    log.answer("the very last answer")
    log.write()
    site.run("capture", "--quiet", "--user-home", str(user))
    expect(reader.locator("#to-new")).to_have_text("1 new")
    assert len(positions(reader)) == before
    reader.locator("#to-new").click()
    expect(reader.get_by_text("the very last answer")).to_be_in_viewport()


def test_a_session_that_is_not_there_is_said_so(site: Site) -> None:
    answer = site.get("/sessions/claude-code:nobody", accept="text/html")
    assert answer.status == 404
    assert 'class="problem"' in answer.text
    assert site.get(f"{address('rich-1')}?at=nothing").status == 404
    assert site.get(f"{address('rich-1')}/message?at=nothing").status == 404


def test_every_piece_has_a_twin(site: Site, rich: Rich) -> None:
    whole = site.get(f"{address(rich.name)}.json").json
    assert whole["detail"]["listed"]["session"]["session_id"] == rich.name
    assert [one["position"] for one in whole["window"]["messages"]] == list(
        range(whole["window"]["total"])
    )
    found = site.get(f"{address(rich.name)}/find.json?words=Aurora").json
    assert [one["part"] for one in found["spots"]] == ["text"]
    block = site.get(f"{address(rich.name)}/message.json?at={rich.huge}").json["message"]
    assert block["text"].endswith("zebra at its end")
    assert len(site.get(f"{address(rich.name)}/turns.json").json["turns"]) == 4
    blocks = site.get(f"{address('long-1')}/messages.json?after=1190").json["window"]["messages"]
    assert [one["position"] for one in blocks] == list(range(1191, 1200))
