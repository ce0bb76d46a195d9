"""The pages that look over everything: first page, recall, timeline, usage, memory, mail, health.

What a page shows is read from its twin; one pass of a real browser sees that all of it is drawn.
"""

import csv
import io
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser

from tests.cli.histories import CLAUDE
from tests.web.conftest import let_in
from tests.web.site import Site
from tests.web.views import make_site, twin
from threadkeep.knowledge.results import Sum, UsageReport
from threadkeep.web.pages.usage import as_csv

DAY = "2026-03-02"  # of the demo's longest session


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    found = make_site(tmp_path_factory.mktemp("views"))
    yield found
    found.close()


# ---------------------------------------------------------------------- the first page


def test_the_first_page_has_sessions_and_alarms(site: Site) -> None:
    found = twin(site, "/")
    assert CLAUDE in {one["session"]["session_id"] for one in found["today"]["recent"]}
    assert [one["rule"] for one in found["alarms"]] == ["I-1"]
    assert len(found["week"]) == 7


def test_without_a_store_the_first_page_says_what_to_do(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    empty = Site(tmp_path_factory.mktemp("empty"))
    try:
        assert twin(empty, "/")["today"] is None
        assert "threadkeep capture" in empty.get("/").text
        assert twin(empty, "/health")["trouble"] == "nothing captured yet"
        assert twin(empty, "/mail")["boxes"] == []
        assert empty.get("/usage").status == 404
        (empty.folder / "knowledge.db").write_bytes(b"no database")
        assert "knowledge.db" in twin(empty, "/")["trouble"]
        assert twin(empty, "/health")["trouble"]
    finally:
        empty.close()


# ---------------------------------------------------------------------- recall


def test_recall_marks_words_and_opens_at_the_message(site: Site) -> None:
    best = twin(site, "/recall?q=flaky+departures")["hits"][0]
    assert best["hit"]["why"]["terms"]
    assert best["href"].startswith(f"/sessions/{best['hit']['agent']}:")
    assert f"at={best['hit']['key']}" in best["href"]
    page = site.get("/recall?q=flaky+departures")
    assert "<mark>flaky</mark>" in page.text
    assert float(page.headers["server-timing"].partition("dur=")[2]) > 0


def test_a_facet_narrows_and_lets_go_again(site: Site) -> None:
    found = twin(site, "/recall?q=test")
    kinds = next(one for one in found["facets"] if one["name"] == "kind")
    chosen = next(one for one in kinds["choices"] if one["value"] == "node")
    narrowed = twin(site, chosen["href"])
    assert {row["hit"]["kind"] for row in narrowed["hits"]} == {"node"}
    again = next(one for one in narrowed["facets"] if one["name"] == "kind")["choices"][0]
    assert again["chosen"]
    assert twin(site, again["href"])["asked"] == {}


def test_recall_reads_the_language_of_the_filter_bar(site: Site) -> None:
    found = twin(site, "/recall?q=agent%3Aclaude-code+test")
    assert {row["hit"]["agent"] for row in found["hits"]} == {"claude-code"}


def test_a_word_that_is_typed_halfway_finds_something(site: Site) -> None:
    assert twin(site, "/recall?q=departur")["hits"]
    assert twin(site, "/recall?q=zzzzqq")["hits"] == []


def test_a_reference_opens_where_it_belongs(site: Site) -> None:
    ref = twin(site, "/recall?q=flaky&kind=message")["hits"][0]["hit"]["ref"]
    answer = site.get(f"/open/{ref}")
    assert (answer.status, answer.headers["location"][:10]) == (303, "/sessions/")
    node = twin(site, "/nodes")["nodes"]["items"][0]
    assert site.get(f"/open/node:{node['id']}").headers["location"] == f"/nodes/{node['uuid']}"
    assert twin(site, "/open/lesson:1")["opened"]["facts"]["occurrences"] == 3
    assert site.get("/open/message:999999").status == 404
    assert site.get("/open/nonsense").status == 400


def test_an_answer_is_made_of_quotations_that_open(site: Site) -> None:
    found = twin(site, "/ask?q=why+is+the+departures+test+flaky")
    cited = found["answer"]["citations"]
    assert cited
    assert all(site.get(f"/open/{one['ref']}").status in {200, 303} for one in cited)
    assert twin(site, "/ask")["answer"] is None


def test_similar_things_and_fixed_errors_are_found(site: Site) -> None:
    ref = twin(site, "/recall?q=flaky+test")["hits"][0]["hit"]["ref"]
    alike = twin(site, f"/similar/{ref}")
    assert alike["ref"] == ref
    assert ref not in {row["hit"]["ref"] for row in alike["hits"]}
    assert twin(site, "/fixed?q=AssertionError+departures")["q"] == "AssertionError departures"
    assert twin(site, "/fixed")["fixes"] == []


# ---------------------------------------------------------------------- time and sums


def test_a_day_is_told_in_order_and_in_lanes(site: Site) -> None:
    found = twin(site, f"/timeline?day={DAY}")
    moments = [row["moment"] for hour in found["hours"] for row in hour["rows"]]
    assert [one["at"] for one in moments] == sorted(one["at"] for one in moments)
    assert "agents" in found["lanes"]
    assert {row["lane"] for hour in found["hours"] for row in hour["rows"]} <= {1, 2, 3, 4}
    assert found["before"] == "/timeline?day=2026-03-01"
    nothing = twin(site, "/timeline?day=2001-01-01&project=harbor")
    assert (nothing["hours"], nothing["after"]) == ([], "/timeline?day=2001-01-02&project=harbor")
    assert twin(site, "/timeline?day=no+day")["day"] == twin(site, "/timeline")["day"]


def test_usage_adds_up_on_the_page_and_in_the_table(site: Site) -> None:
    report = twin(site, "/usage")["report"]
    total = report["total"]["output"]
    assert total > 0
    for by in ("by_model", "by_project", "by_agent"):
        assert sum(one["output"] for one in report[by].values()) == total
    table = site.get("/usage.csv")
    assert "attachment" in table.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(table.text)))
    assert sum(int(row["output"]) for row in rows) == total


def test_no_cell_of_the_table_is_a_formula() -> None:
    spent = {DAY: {"=cmd()": Sum(input=1), "m": Sum(output=2)}}
    report = UsageReport(Sum(), spent, {}, {}, {}, (), priced=True)
    rows = list(csv.reader(io.StringIO(as_csv(report))))
    assert [row[1] for row in rows] == ["model", "'=cmd()", "m"]


def test_a_click_on_usage_is_a_filter(site: Site) -> None:
    model, one = next(iter(twin(site, "/usage")["report"]["by_model"].items()))
    only = twin(site, f"/usage?q=model%3A{quote(model)}&by=cost")
    assert (list(only["report"]["by_model"]), only["by"]) == ([model], "cost")
    assert only["report"]["total"]["output"] == one["output"]
    page = site.get("/usage").text
    assert f"model%3A{quote(model, safe='')}" in page
    assert f"on%3A{DAY}" in page


# ---------------------------------------------------------------------- memory


def test_nodes_are_listed_filtered_and_opened_with_their_evidence(site: Site) -> None:
    first = twin(site, "/nodes?limit=2")
    assert len(first["nodes"]["items"]) == 2
    after = twin(site, f"/nodes?limit=2&after={quote(first['nodes']['next'])}")
    ids = {one["id"] for one in first["nodes"]["items"]}
    assert not ids & {one["id"] for one in after["nodes"]["items"]}
    for one in twin(site, "/nodes?project=harbor")["nodes"]["items"]:
        assert one["project"] == "harbor"
    shown = twin(site, f"/nodes/{first['nodes']['items'][0]['uuid']}")
    assert shown["node"]["evidence"]
    assert all(row["href"].startswith(("/sessions/", "/open/")) for row in shown["evidence"])
    assert site.get("/nodes/no-such-node").status == 404


def test_entities_lead_to_nodes_and_to_each_other(site: Site) -> None:
    listed = twin(site, "/entities")
    most = max(listed["entities"], key=lambda one: one["nodes"])
    shown = twin(site, f"/entities/{most['id']}")
    assert shown["entity"]["nodes"]
    assert shown["graph"]["entities"][0]["id"] == most["id"]
    only = twin(site, "/entities?type=project")
    assert {one["type"] for one in only["entities"]} == {"project"}
    graph = twin(site, "/entities/graph")["graph"]
    known = {one["id"] for one in graph["entities"]}
    assert all(edge["a"] in known and edge["b"] in known for edge in graph["edges"])
    assert twin(site, "/lessons")["lessons"][0]["occurrences"] == 3


# ---------------------------------------------------------------------- mail


def test_a_mailbox_shows_both_sides_and_tries_again(site: Site) -> None:
    (box,) = twin(site, "/mail")["boxes"]
    mailbox = twin(site, f"/mail/{box['id']}")["mailbox"]
    for one in mailbox["letters"]:
        assert one["direction"] == ("out" if one["seq"] % 2 else "in")
    assert len(mailbox["tasks"][0]["runs"]) == 5
    (dead,) = (one for one in mailbox["letters"] if one["state"] == "failed")
    assert "not today" in dead["reason"]
    failed = twin(site, f"/mail/{box['id']}?state=failed")["mailbox"]["letters"]
    assert [one["id"] for one in failed] == [dead["id"]]
    tried = site.post(f"/mail/{box['id']}/retry/{dead['id']}", {})
    assert tried.json["now"] not in {dead["id"], ""}
    letters = twin(site, f"/mail/{box['id']}")["mailbox"]["letters"]
    assert tried.json["now"] in {one["id"] for one in letters if one["state"] == "pending"}
    assert site.post(f"/mail/{box['id']}/retry/{dead['id']}", {}).status == 409


def test_the_name_of_a_mailbox_is_never_a_folder(site: Site) -> None:
    (box,) = twin(site, "/mail")["boxes"]
    for name in ("..", ".", quote(str(site.folder / "mailbox"), safe="")):
        assert site.get(f"/mail/{name}").status == 404
    assert twin(site, f"/mail/{box['id'][:-3]}")["mailbox"]["box"]["id"] == box["id"]


# ---------------------------------------------------------------------- health


def test_health_names_sources_stores_and_what_helps(site: Site) -> None:
    found = twin(site, "/health")
    assert "agentic-session-claude" in {one["source"] for one in found["sources"]}
    stores = {one["name"]: one for one in found["stores"]}
    assert stores["knowledge"]["bytes"] > 0
    assert not stores["state"]["exists"]
    assert found["serving"]["running"] is False
    assert "claude-code" in {one["name"] for one in twin(site, "/health/coverage")["covered"]}
    fixes = {one["fix"] for one in twin(site, "/health/findings")["findings"]}
    assert "threadkeep serve" in fixes


# ---------------------------------------------------------------------- in a browser


def test_every_page_is_drawn_and_nothing_hostile_runs(site: Site, browser: Browser) -> None:
    """At the end an alarm is acknowledged: it is the last test that needs one."""
    uuid = twin(site, "/nodes")["nodes"]["items"][0]["uuid"]
    entity = twin(site, "/entities")["entities"][0]["id"]
    box = twin(site, "/mail")["boxes"][0]["id"]
    ref = twin(site, "/recall?q=quayside&kind=message")["hits"][0]["hit"]["ref"]
    command = twin(site, "/recall?q=quayside&kind=command")["hits"][0]["hit"]["ref"]
    pages = (
        *(
            "/",
            "/recall?q=quayside",
            "/ask?q=what+about+quayside",
            "/fixed?q=quayside",
            "/timeline",
        ),
        *("/timeline?day=2026-03-01", "/usage", "/usage?by=cost", "/nodes?q=quayside"),
        *("/nodes", f"/nodes/{uuid}", "/entities", f"/entities/{entity}", "/lessons", "/mail"),
        *(f"/mail/{box}", f"/similar/{ref}", f"/open/{command}", "/open/lesson:1"),
    )
    context, watched = let_in(browser, site, viewport={"width": 390, "height": 800})
    page = context.new_page()
    for address in pages:
        answer = page.goto(address)
        assert answer is not None
        assert answer.status == 200, address
        assert page.locator("main h1").count() >= 1, address
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{address} is wider than a phone by {wide}"

    page.goto("/recall")
    page.locator("#recall-field").press_sequentially("flaky")
    page.locator("#found mark").first.wait_for()
    page.wait_for_url("**/recall?q=flaky")

    page.goto("/entities/graph")
    drawn = page.locator(".graph.narrow")
    drawn.locator("[data-dot]").first.focus()
    assert page.locator(".graph.chosen a.near").count() >= 1
    drawn.get_by_role("button", name="Zoom in").click()
    assert "scale(1.3)" in (drawn.locator("[data-moved]").get_attribute("transform") or "")

    page.goto("/health")
    page.locator(".findings").wait_for()
    page.locator(".coverage").wait_for()
    page.get_by_role("textbox", name="Note").fill("seen & known")
    page.get_by_role("button", name="Acknowledge").click()
    page.get_by_text("acknowledged or resolved").wait_for()
    context.close()
    assert watched.troubles == []
    (alarm,) = twin(site, "/health")["alarms"]
    assert (alarm["state"], alarm["note"]) == ("seen", "seen & known")
    assert site.post("/health/alarms/77/ack", {}).status == 404
    assert site.post(f"/health/alarms/{alarm['id']}/ack", {"note": 3}).status == 400
