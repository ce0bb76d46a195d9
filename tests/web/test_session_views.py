"""Other views: the waterfall of a session, two side by side, and queries over the tables."""

import csv
import io
from typing import Any
from urllib.parse import quote

from hypothesis import given, strategies as st

from tests.cli.histories import CLAUDE
from tests.web.site import Site
from threadkeep.knowledge.results import TranscriptMessage, TurnSum
from threadkeep.web.charts import rounded_up
from threadkeep.web.pages.session_views import waterfall
from threadkeep.web.pages.sql import EXAMPLES

REF = f"claude-code:{CLAUDE}"


def test_a_waterfall_has_every_turn_and_call_in_order(site: Site) -> None:
    found = site.get(f"/sessions/{REF}/waterfall.json").json
    turns = found["turns"]
    assert [one["span"]["key"] for one in turns] == [one["key"] for one in found["detail"]["turns"]]
    calls = [call for one in turns for call in one["calls"]]
    assert len(calls) == found["detail"]["listed"]["session"]["tool_calls"]
    assert all(call["name"] and 0 <= call["begin"] <= 100 for call in calls)
    page = site.get(f"/sessions/{REF}/waterfall").text
    assert all(call["name"] in page for call in calls)
    assert site.get("/sessions/nobody/waterfall").status == 404


TIMES = st.lists(st.integers(0, 10**9), min_size=1, max_size=6)


@given(TIMES, TIMES)
def test_no_span_leaves_the_page(starts: list[int], ends: list[int]) -> None:
    turns = [
        TurnSum(n, n, f"k{n}", "", at, end, 1, 1, 0, 0, None, 0, 0)
        for n, (at, end) in enumerate(zip(starts, ends, strict=False))
    ]
    messages = []
    for n, turn in enumerate(turns):
        call: dict[str, Any] = {"role": "assistant", "text": "", "call_id": f"c{n}", "turn": n}
        messages += [
            TranscriptMessage(2 * n, "", f"a{n}", part="tool_call", at=turn.ended_at, **call),
            TranscriptMessage(2 * n + 1, "", f"b{n}", part="tool_result", at=turn.at, **call),
        ]
    laid, worked = waterfall(turns, messages)
    spans = [span for one in laid for span in (one.span, *one.calls)]
    assert len(spans) == 2 * len(turns)
    assert all(span.begin >= 0 and span.begin + span.width <= 100.001 for span in spans)
    assert worked == sum(one.span.took for one in laid)


def test_two_sessions_are_compared(site: Site) -> None:
    other = site.get("/sessions.json?q=agent:codex").json["page"]["items"][0]["ref"]
    found = site.get(f"/compare.json?left={REF}&right={other}").json
    assert [found[side]["detail"]["listed"]["ref"] for side in ("left", "right")] == [REF, other]
    assert sum(count for _, count in found["left"]["tools"]) > 0
    assert found["left"]["answer"]
    page = site.get(f"/compare?left={REF}&right={other}").text
    assert "codex" in page
    assert "claude-code" in page
    refused = site.get(f"/compare?left={REF}")
    assert refused.status == 400


@given(st.floats(1e-6, 1e15))
def test_the_top_of_an_axis_is_round_and_no_less(value: float) -> None:
    top = rounded_up(value)
    assert value <= top <= 2.01 * value
    assert f"{top:.6e}"[:3] in {"1.0", "1.2", "1.6", "2.0", "2.4", "3.2", "4.0", "6.0", "8.0"}


# ---------------------------------------------------------------------- SQL


def asked(site: Site, sql: str, end: str = ".json") -> str:
    return site.get(f"/sql{end}?q={quote(sql)}").text


def test_every_example_runs_and_links_back(site: Site) -> None:
    for sql in EXAMPLES.values():
        found = site.get(f"/sql.json?q={quote(sql)}").json
        assert (found["problem"], bool(found["columns"])) == ("", True)
    page = asked(site, EXAMPLES["Longest sessions"], "")
    assert f'href="/sessions/{REF}"' in page
    ref = "SELECT 'message:' || id AS ref FROM tk_entries LIMIT 1"
    assert 'href="/open/message:' in asked(site, ref, "")
    own = "SELECT harness, session_id FROM tk_sessions"
    assert f'href="/sessions/{REF}"' in asked(site, own, "")


def test_rows_are_given_as_csv_and_json(site: Site) -> None:
    sql = "SELECT harness, entries, '=1+1' AS odd FROM tk_sessions ORDER BY 1"
    rows = list(csv.reader(io.StringIO(asked(site, sql, ".csv"))))
    assert rows[0] == ["harness", "entries", "odd"]
    assert {row[2] for row in rows[1:]} == {"'=1+1"}
    answer = site.get(f"/api/sql?q={quote(sql)}").json
    assert [[str(one) for one in row[:2]] for row in answer["rows"]] == [r[:2] for r in rows[1:]]
    assert {one["name"] for one in site.get("/api/sql/tables").json["items"]} > {"tk_sessions"}


def test_the_tables_that_people_ask_come_first_and_say_what_they_hold(site: Site) -> None:
    tables = site.get("/api/sql/tables").json["items"]
    described = [bool(one["about"]) for one in tables]
    assert described == sorted(described, reverse=True)
    assert tables[0]["name"] == "tk_sessions"
    page = asked(site, "SELECT count(*) FROM sessions", "")
    assert "sessions of agents are in tk_sessions" in page.partition("<details")[0]
    assert "sessions of agents are in" not in asked(site, "SELECT 1", "").partition("<details")[0]


def test_what_is_no_query_is_refused_beside_it(site: Site) -> None:
    page = asked(site, "DELETE FROM tk_sessions", "")
    assert "Only queries can be run" in page
    assert "DELETE FROM tk_sessions</textarea>" in page
    assert site.get(f"/api/sql?q={quote('PRAGMA user_version')}").status == 400
    assert site.get(f"/sql.csv?q={quote('DROP TABLE events')}").status == 400
    told = asked(site, "SELECT '<script>alert(1)</script>' AS \"<b>\"", "")
    assert "<script>alert" not in told
    assert "<b>" not in told
