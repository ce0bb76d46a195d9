"""The list of sessions: its filter is its address, its choices are links, its rows go on."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

from hypothesis import given, strategies as st
from playwright.sync_api import Page, expect

from tests.cli.histories import CLAUDE, HARNESSES
from tests.web.site import Site
from tests.web.transcripts import Log
from threadkeep.knowledge.query import Query, unread
from threadkeep.web.pages.sessions import toggled


def items(site: Site, words: str = "", **more: Any) -> list[str]:
    given = "&".join(f"{name}={quote(str(value))}" for name, value in {"q": words, **more}.items())
    page = site.get(f"/sessions.json?{given}").json["page"]
    return [one["ref"] for one in page["items"]]


def test_the_list_has_everything_latest_first_and_goes_on_where_it_ended(site: Site) -> None:
    first = site.get("/sessions.json?limit=3").json
    assert len(first["page"]["items"]) == 3
    rest = items(site, after=first["page"]["next"])
    whole = items(site)
    assert [one["ref"] for one in first["page"]["items"]] + rest == whole
    assert {ref.partition(":")[0] for ref in whole} == set(HARNESSES)


def test_a_filter_narrows_and_its_choices_widen_again(site: Site) -> None:
    narrowed = site.get("/sessions.json?q=agent:codex").json
    assert [one["session"]["agent"] for one in narrowed["page"]["items"]] == ["codex"]
    facets = site.get("/sessions/facets.json?q=agent:codex").json["facets"]
    [agents] = [one for one in facets if one["name"] == "agent"]
    [codex] = [one for one in agents["choices"] if one["name"] == "codex"]
    assert codex["on"]
    assert codex["q"] == ""
    assert items(site, "nothing-has-this-word-in-it") == []


def test_the_page_says_how_long_it_took_and_knows_when_nothing_changed(site: Site) -> None:
    answer = site.get("/sessions")
    assert answer.headers["server-timing"].startswith("page;dur=")
    assert site.get("/sessions", if_none_match=answer.headers["etag"]).status == 304


def test_a_bad_cursor_is_refused_and_a_home_without_sessions_says_what_to_do(
    site: Site, tmp_path: Path
) -> None:
    assert site.get("/sessions?after=nonsense").status == 400
    empty = Site(tmp_path / "home")
    try:
        assert "threadkeep capture" in empty.get("/sessions").text
        assert empty.get("/sessions.json").json["missing"]
    finally:
        empty.close()


def test_typing_filters_and_the_address_follows(site: Site, page: Page) -> None:
    page.goto("/sessions")
    everything = page.locator("[data-row]").count()
    assert everything == len(HARNESSES)
    page.keyboard.press("/")
    page.keyboard.type("agent:codex")
    expect(page.locator("[data-row]")).to_have_count(1)
    page.wait_for_url("**/sessions?q=agent%3Acodex")
    page.reload()
    expect(page.locator("#filter")).to_have_value("agent:codex")
    expect(page.locator("[data-row]")).to_have_count(1)
    page.get_by_role("link", name="codex 1").click()
    expect(page.locator("[data-row]")).to_have_count(everything)


def test_rows_are_reached_by_keys_and_come_when_the_end_is_near(site: Site, page: Page) -> None:
    page.goto("/sessions?limit=3")
    expect(page.locator("[data-row]")).to_have_count(len(HARNESSES))
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator("[data-row]").nth(1)).to_be_focused()
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page.locator(":is(.transcript, .piece) > .block").first).to_be_visible()


def test_the_palette_goes_to_a_page_or_a_session(site: Site, page: Page) -> None:
    page.goto("/sessions")
    page.keyboard.press("Control+k")
    page.keyboard.type("departures")
    choice = page.locator("#palette-found li").first
    expect(choice).to_contain_text("departures")
    page.keyboard.press("Enter")
    page.wait_for_url("**/sessions/*")
    expect(page.locator("h1")).to_contain_text("departures")


def test_a_subagent_opens_in_place(site: Site, page: Page) -> None:
    page.goto(f"/sessions/claude-code:{CLAUDE}")
    nested = page.locator(".transcript .subagent")
    expect(nested).to_have_count(1)
    nested.locator("summary").first.click()
    expect(nested.locator(".inner > .prompts.block")).to_contain_text("reads the current time")
    nested.get_by_role("link", name="Open this session on its own").click()
    expect(page.locator(".crumbs")).to_contain_text("Fix the flaky test")


def test_light_and_dark_are_kept(site: Site, page: Page) -> None:
    page.goto("/sessions")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Light or dark").click()
    after = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert before != after
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == after


@given(st.lists(st.sampled_from("abc")), st.sampled_from("abc"))
def test_choosing_twice_changes_nothing(chosen: list[str], value: str) -> None:
    query = Query(agent=tuple(dict.fromkeys(chosen)))
    once = toggled(query, "agent", value)
    assert (value in once.agent) is not (value in query.agent)
    assert set(toggled(once, "agent", value).agent) == set(query.agent)


def test_what_looks_like_a_filter_and_is_none_is_named(site: Site) -> None:
    assert unread('agnt:codex "tool:Edit" cost:abc https://example.org/x word') == (
        "agnt:codex",
        "cost:abc",
    )
    assert (
        "<code>agnt:codex</code> is not a known filter" in site.get("/sessions?q=agnt:codex").text
    )
    assert "is no filter" not in site.get("/sessions?q=agent:nobody").text


@given(st.text(alphabet='ab: "/-', max_size=30))
def test_only_words_of_the_query_are_named(words: str) -> None:
    assert set(unread(words)) <= set(words.replace('"', " ").split())


def test_new_sessions_come_by_themselves_but_not_under_a_reader(
    site: Site, page: Page, tmp_path: Path
) -> None:
    def appears(name: str, prompt: str) -> None:
        log = Log(tmp_path, name)
        log.ask(prompt)
        log.write()
        site.run("capture", "--quiet", "--user-home", str(tmp_path))

    page.goto("/sessions")
    page.wait_for_function("document.documentElement.classList.contains('connected')")
    appears("new-1", "Is this seen at once?")
    expect(page.get_by_text("Is this seen at once?")).to_be_visible()
    page.keyboard.press("j")
    appears("new-2", "Is this one asked about?")
    page.get_by_role("button", name="Show what is new").click()
    expect(page.get_by_text("Is this one asked about?")).to_be_visible()
    expect(page.locator("#news")).to_be_hidden()
