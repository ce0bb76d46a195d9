"""The extension's own decisions, run in Chromium: they agree with those of the host."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st

from tests.browser.cdp import Pipe
from tests.browser.chromium import Chromium
from tests.browser.conftest import EXTENSION_ID
from tests.lengths import examples
from threadkeep.capture.observed.visits import is_allowed, search_query_of, split_address

pytestmark = pytest.mark.slow

Evaluate = Callable[..., Any]


@pytest.fixture(scope="module")
def js(running: tuple[Pipe, Path]) -> Iterator[Evaluate]:
    """Give a function that evaluates JavaScript with the extension's modules; `x` is its input."""
    browser = Chromium(*running, EXTENSION_ID)
    browser.load_extension()
    browser.run("""Promise.all(["rules", "outbox"].map((name) => import(`./${name}.js`)))
        .then(([rules, outbox]) => Object.assign(globalThis, {rules, outbox}))
        .then(() => new Promise((done) => {
            const script = Object.assign(document.createElement("script"), {src: "visit.js"});
            script.onload = () => done();
            document.documentElement.append(script);
        }))""")
    yield lambda expression, x=None: browser.run(f"((x) => ({expression}))({json.dumps(x)})")
    browser.clear()


def allowed_in_browser(js: Evaluate, cases: list[Any]) -> list[bool]:
    return list(
        js(
            """x.map(([host, domains, exclude]) => {
                const reply = {status: "ok", enabled: true, domains, exclude, min_dwell_ms: 0};
                const config = rules.configOf(reply);
                const address = rules.hostOf(`http://${host}/`);
                return rules.whyNot(address, rules.FIRST_CHOICES, config, [], 0) === null;
            })""",
            cases,
        )
    )


HOSTS = st.sampled_from(
    (
        *("docs.rs", "DOCS.rs", "docs.rs.", "a.docs.rs", "evildocs.rs", "docs.rs.evil.test"),
        *("rs", "a.b.docs.rs", "xn--bcher-kva.example", "Bücher.example", "faß.example"),
        *("fass.example", "127.0.0.1", "localhost", "[::1]"),
    )
)
LISTED = st.lists(HOSTS | st.sampled_from(["*.docs.rs", ".docs.rs", "", "not a host"]), max_size=4)


@settings(max_examples=examples(20))
@example(cases=[("[::1]", ["[::1]"], []), ("127.0.0.1", ["127.0.0.1"], [])])
@given(cases=st.lists(st.tuples(HOSTS, LISTED, LISTED), min_size=1, max_size=50))
def test_the_browser_allows_what_the_host_allows(js: Evaluate, cases: list[Any]) -> None:
    assert allowed_in_browser(js, cases) == [is_allowed(*case) for case in cases]


REFERRERS = [
    "https://www.google.com/search?q=wind+a+spool",
    "https://google.co.uk/search?q=caf%C3%A9&hl=en",
    "https://google.evil.test/search?q=no",
    "https://notgoogle.com/search?q=no",
    "https://duckduckgo.com/?q=%22exact%22",
    "https://html.duckduckgo.com/html/?q=plain",
    "https://www.bing.com/search?form=x&q=second",
    "https://kagi.com/search?q=",
    "https://www.ecosia.org/search?q=a%26b",
    "https://github.com/search?q=repo%3Ax+y&type=code",
    "https://github.com/x/y?q=no",
    "https://example.com/?q=no",
]


def test_search_words_are_found_where_the_host_finds_them(js: Evaluate) -> None:
    addresses = [split_address(referrer) for referrer in REFERRERS]
    expected = [search_query_of(address) for address in addresses if address is not None]
    assert len(expected) == len(REFERRERS)
    assert js("x.map(rules.searchQuery)", REFERRERS) == expected
    assert expected.count(None) == 5
    assert js("x.map(rules.searchQuery)", ["", None, "javascript:1", "about:blank"]) == [None] * 4


GOOD = {"status": "ok", "enabled": True, "domains": ["A.b"], "exclude": [], "min_dwell_ms": 5}


def test_only_a_whole_answer_becomes_the_settings(js: Evaluate) -> None:
    wrong = [
        *(GOOD | {"status": "error"}, GOOD | {"enabled": 1}, GOOD | {"domains": "a.b"}),
        *(GOOD | {"domains": [1]}, GOOD | {"exclude": None}, GOOD | {"min_dwell_ms": -1}),
        *(GOOD | {"min_dwell_ms": "5"}, {"status": "ok"}),
    ]
    assert js("x.map(rules.configOf)", [GOOD]) == [
        {"enabled": True, "domains": ["a.b"], "exclude": [], "minDwellMs": 5}
    ]
    assert js("x.map(rules.configOf)", wrong) == [None] * len(wrong)


def message(url: str, text: str = "", dwell: int = 1) -> dict[str, Any]:
    return {"url": url, "timestamp": 1, "dwell_ms": dwell, "extracted_text": text}


def fill(js: Evaluate, messages: list[dict[str, Any]]) -> dict[str, Any]:
    return dict(js("x.reduce(outbox.put, outbox.EMPTY)", messages))


def test_the_oldest_visits_are_given_up_when_too_many_wait(js: Evaluate) -> None:
    box = fill(js, [message(f"http://docs.rs/{n}") for n in range(203)])
    assert (len(box["items"]), box["dropped"]) == (200, 3)
    assert box["items"][0]["message"]["url"] == "http://docs.rs/3"


def test_the_oldest_visits_are_given_up_when_they_are_too_large(js: Evaluate) -> None:
    box = fill(js, [message(f"http://docs.rs/{n}", "\N{EURO SIGN}" * 400_000) for n in range(6)])
    assert (len(box["items"]), box["dropped"]) == (4, 2)
    assert sum(item["bytes"] for item in box["items"]) <= 5_000_000


def test_a_longer_report_takes_the_place_of_the_one_that_waits(js: Evaluate) -> None:
    short, long = message("http://docs.rs/", dwell=1), message("http://docs.rs/", dwell=2)
    box = fill(js, [short, long])
    assert [item["message"] for item in box["items"]] == [long]
    # The host took the shorter one in the meantime: the longer one still goes.
    assert js("outbox.taken(...x)", [box, short])["items"] == box["items"]
    assert js("outbox.taken(...x)", [box, long])["items"] == []


CLOCK = """
    const at = (ms) => ({wall: 1_000_000 + ms, tick: ms});
    const v = threadkeepVisit;
"""


def clocked(js: Evaluate, steps: str) -> Any:
    return js(f"(() => {{ {CLOCK} {steps} }})()")


def test_only_time_on_the_screen_counts(js: Evaluate) -> None:
    steps = """
        const seen = v.hide(v.begin("u", "", true, at(0)), at(40));
        const again = v.show(seen, at(1000)), still = v.show(again, at(1001));
        return [v.dwell(seen, at(900)), v.dwell(again, at(1002)), v.dwell(still, at(1002))];
    """
    assert clocked(js, steps) == [40, 42, 42]


def test_a_page_that_comes_back_after_long_is_read_anew(js: Evaluate) -> None:
    steps = """
        const left = v.hide(v.begin("u", "", true, at(0)), at(10));
        const soon = v.show(left, at(10 + 1_800_000)), late = v.show(left, at(11 + 1_800_000));
        return [soon.startedAt, late.startedAt - 1_000_000, v.dwell(late, at(12 + 1_800_000))];
    """
    assert clocked(js, steps) == [1_000_000, 1_800_011, 1]


def test_a_visit_is_due_when_long_enough_and_again_when_longer(js: Evaluate) -> None:
    steps = """
        const visit = v.begin("u", "", true, at(0)), told = {...visit, reportedMs: 5};
        return [v.isDue(visit, 5, at(4)), v.isDue(visit, 5, at(5)), v.isDue(told, 5, at(5)),
                v.isDue(told, 5, at(6))];
    """
    assert clocked(js, steps) == [False, True, False, True]


def test_depth_is_a_share_whatever_the_numbers(js: Evaluate) -> None:
    pairs = [[50, 100], [500, 100], [-5, 100], [5, 0]]
    assert js("x.map(([lowest, height]) => threadkeepVisit.depth({lowest}, height))", pairs) == [
        *(0.5, 1, 0, 0),
    ]
