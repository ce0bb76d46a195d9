"""The rules for visits: which are kept, what is cut out of addresses, and when two are one."""

import string
import uuid
from typing import Any

import pytest
from hypothesis import given, strategies as st

from threadkeep.base.config import BrowserSettings
from threadkeep.capture.observed.envelopes import read_line, write_line
from threadkeep.capture.observed.visits import (
    DEFAULT_DOMAINS,
    VisitRejection,
    VisitRules,
    is_allowed,
    plain_domain,
    rules_of,
    split_address,
    stripped,
    visit_id,
    visit_of,
)
from threadkeep.errors import Invalid, TooLarge
from threadkeep.knowledge.records import Visit

NOW = 1_777_629_600_000
DAY = 86_400_000
RULES = VisitRules()


def message(**changes: Any) -> dict[str, Any]:
    page = {
        "url": "https://docs.rs/x",
        "title": "X",
        "domain": "docs.rs",
        "dwell_ms": 5000,
        "scroll_depth": 0.5,
        "timestamp": NOW,
    }
    return {k: v for k, v in (page | changes).items() if v is not ...}


def kept(rules: VisitRules = RULES, **changes: Any) -> Visit:
    found = visit_of(message(**changes), rules, NOW)
    assert isinstance(found, Visit), found
    return found


def reason(rules: VisitRules = RULES, **changes: Any) -> str:
    found = visit_of(message(**changes), rules, NOW)
    assert isinstance(found, VisitRejection), found
    return found.reason


def clean(url: str, *params: str) -> str:
    address = split_address(url)
    assert address is not None
    return stripped(address, params or RULES.strip_params)


# --- domains


def test_the_default_list_has_the_places_where_developers_read() -> None:
    named = "github.com gitlab.com crates.io docs.rs docs.python.org developer.mozilla.org"
    assert {*named.split(), "stackoverflow.com", "arxiv.org"} <= set(DEFAULT_DOMAINS)
    assert len(set(DEFAULT_DOMAINS)) == len(DEFAULT_DOMAINS)
    assert all(plain_domain(domain) == domain for domain in DEFAULT_DOMAINS)
    assert not any(is_allowed(d, DEFAULT_DOMAINS) for d in ("google.com", "gmail.com", "localhost"))


@pytest.mark.parametrize(
    "domain, entry",
    [
        ("github.com", "github.com"),
        ("gist.github.com", "github.com"),
        ("GitHub.COM", "github.com"),
        ("github.com", "GITHUB.com"),
        ("github.com.", "github.com"),
        ("github.com", "github.com."),
        ("a.github.com", "*.github.com"),
        ("github.com", ".github.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "BÜCHER.example"),
        ("xn--strae-oqa.example", "Straße.example"),
        ("ｇｉｔｈｕｂ。com", "github.com"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "[::1]"),
    ],
)
def test_a_site_and_what_is_below_it_are_listed(domain: str, entry: str) -> None:
    assert is_allowed(domain, [entry])
    assert not is_allowed(domain, [entry], [entry])


@pytest.mark.parametrize(
    "domain",
    [
        *("evilgithub.com", "evil-github.com", "github.com.evil.com", "com", "", "."),
        *("evil.com/.github.com", "evil.com#.github.com", "a b.github.com", "github..com"),
        *("x." * 130 + "github.com", "℀.github.com", "evil.com\n.github.com", "g\ud800.com"),
    ],
)
def test_a_name_that_only_looks_alike_is_not_listed(domain: str) -> None:
    assert not is_allowed(domain, ["github.com"])


def test_an_exclusion_wins_over_the_list() -> None:
    assert not is_allowed("a.b.github.com", ["b.github.com", "github.com"], ["GitHub.com"])
    assert is_allowed("gist.github.com", ["github.com"], ["x.github.com", "not a name"])


@given(st.text(max_size=40), st.text(max_size=20))
def test_only_the_site_itself_or_a_name_that_ends_with_it_is_listed(domain: str, more: str) -> None:
    for name in (domain, f"{more}.{domain}", more + domain):
        if is_allowed(name, [domain]):
            whole, end = plain_domain(name), plain_domain(domain.removeprefix("*.").lstrip("."))
            assert whole is not None
            assert f".{whole}".endswith(f".{end}")


@given(st.text(max_size=30))
def test_the_plain_form_of_a_name_is_its_own_plain_form(name: str) -> None:
    plain = plain_domain(name)
    assert plain is None or plain_domain(plain) == plain


# --- addresses


@pytest.mark.parametrize(
    "url, left",
    [
        ("https://docs.rs/x?token=abc&q=1&Key=z#frag", "https://docs.rs/x?q=1#frag"),
        ("https://docs.rs/x?token=abc", "https://docs.rs/x"),
        ("https://docs.rs/x?token=abc#f", "https://docs.rs/x#f"),
        ("https://docs.rs/x?%74oken=abc&b", "https://docs.rs/x?b="),
        ("https://docs.rs/x?a=1;sig=2;b=3&SIG=4", "https://docs.rs/x?a=1%3Bb%3D3"),
        ("https://docs.rs/x?access_token=1&X-Amz-Signature=2&a", "https://docs.rs/x?a="),
        ("https://docs.rs/x?token&a", "https://docs.rs/x?a="),
        ("https://me:pw@docs.rs/x", "https://docs.rs/x"),
        ("https://me@x@docs.rs:8443/x", "https://docs.rs:8443/x"),
        ("https://docs.rs/x#access_token=abc", "https://docs.rs/x"),
        ("https://docs.rs/x#access_token=a/b=&n=1&id_token=c", "https://docs.rs/x#n=1"),
        ("https://docs.rs/x#/y?token=abc", "https://docs.rs/x#/y"),
        ("https://docs.rs/x#/y?token=abc&a=1", "https://docs.rs/x#/y?a=1"),
        ("https://docs.rs/x#/back/access_token=abc", "https://docs.rs/x"),
        ("https://docs.rs/x#!token=abc&/a=1&/b/key=2", "https://docs.rs/x#/a=1"),
        ("https://docs.rs/x#token=abc?password=p&b", "https://docs.rs/x#?b"),
    ],
)
def test_secret_parameters_go(url: str, left: str) -> None:
    assert clean(url) == left


@pytest.mark.parametrize(
    "url",
    [
        "https://docs.rs/",
        "https://docs.rs/a%2fb?q=a+b&monkey=1&keys=2#L10-L20",
        "https://docs.rs/#",
        "https://docs.rs/token=1/key",
        "https://docs.rs/x#:~:text=the%20token",
        "https://docs.rs/x#key",
        "https://docs.rs/x#/a/b",
        "https://[::1]:8080/x?a=1",
    ],
)
def test_everything_else_in_an_address_stays(url: str) -> None:
    assert clean(url) == url


@pytest.mark.parametrize(
    "url, written",
    [
        ("HTTPS://Docs.RS:443", "https://docs.rs/"),
        ("http://docs.rs:80/x?", "http://docs.rs/x"),
        ("https://docs.rs/x?#", "https://docs.rs/x#"),
        ("https://docs.rs/x?q=a%20b&flag&&c=(d)~'e,f:/[]", None),
        ("https://docs.rs/\u00e4 b?q=\u00fc#\u00fc", "https://docs.rs/%C3%A4%20b?q=%C3%BC#%C3%BC"),
        ("https://docs.rs/x?a=%zz&b=%ff", "https://docs.rs/x?a=%25zz&b=%EF%BF%BD"),
        ("https://docs.rs/x@y?mail=a@b.example", "https://docs.rs/x@y?mail=a%40b.example"),
    ],
)
def test_an_address_has_the_form_that_hippo_gives_it(url: str, written: str | None) -> None:
    form = "https://docs.rs/x?q=a+b&flag=&c=%28d%29%7E%27e%2Cf%3A%2F%5B%5D"
    assert clean(url) == (written or form)


def test_the_configured_parameters_are_cut_whatever_their_case() -> None:
    assert clean("https://docs.rs/?Ticket=1&key=2", "TICKET") == "https://docs.rs/?key=2"


LETTERS = string.ascii_letters + string.digits + "%_-.~/:@+!$'*,=&;?"
PIECES = st.lists(st.sampled_from(["token", "KEY", *"=&/?!" * 3, *LETTERS])).map("".join)


@given(PIECES, PIECES, PIECES)
def test_cleaning_twice_is_cleaning_once(path: str, query: str, fragment: str) -> None:
    once = clean(f"https://docs.rs/{path}?{query}#{fragment}")
    assert clean(once) == once


@given(
    st.lists(st.sampled_from(["a=1", "b", "", "keyed=2", "q=%20", "u=ä+"]), min_size=1),
    st.sampled_from(["token", "TOKEN", "api_key", "Sig", "access_token", "%6bey"]),
    st.integers(0, 9),
    st.sampled_from(["?", "#/p?"]),
)
def test_a_secret_goes_from_any_place_and_the_rest_keeps_its_order(
    pairs: list[str], secret: str, place: int, sign: str
) -> None:
    within = [*pairs[:place], f"{secret}=hush", *pairs[place:]]
    left = clean(f"https://docs.rs/x{sign}{'&'.join(within)}")
    assert "hush" not in left
    rest = clean(f"https://docs.rs/x{sign}{'&'.join(pairs)}")
    assert left == rest or not "".join(pairs)


# --- which visits are kept


def test_a_visit_is_read_whole() -> None:
    found = kept(
        url="https://docs.rs/x?token=1",
        extracted_text="hello",
        referrer="https://docs.rs/?key=1",
        search_query="why",
    )
    assert found == Visit(
        envelope_id=visit_id("https://docs.rs/x", NOW, 30),
        at=NOW,
        url="https://docs.rs/x",
        domain="docs.rs",
        title="X",
        dwell_ms=5000,
        scroll_depth=0.5,
        extracted_text="hello",
        search_query="why",
        referrer="https://docs.rs/",
    )


def test_both_the_named_domain_and_the_real_host_must_be_listed() -> None:
    assert kept(domain="sub.docs.rs").domain == "sub.docs.rs"
    assert kept(domain="DOCS.rs.").domain == "docs.rs"
    assert kept(domain=...).domain == "docs.rs"
    assert "list" in reason(domain="evil.com")
    assert "list" in reason(url="https://evil.com/")
    assert "list" in reason(url="https://docs.rs@evil.com/")
    assert "list" in reason(url="https://evil.com\\@docs.rs/")


def test_an_excluded_domain_is_kept_out_and_is_not_named_as_the_way_here() -> None:
    rules = VisitRules(exclude=("secret.docs.rs", "google.com"))
    assert reason(rules, url="https://secret.docs.rs/")
    assert reason(rules, domain="a.secret.docs.rs")
    came = kept(rules, referrer="https://www.google.com/search?q=private", search_query="private")
    assert (came.referrer, came.search_query) == (None, None)


@pytest.mark.parametrize("url", ["file:///etc/hosts", "about:blank", "chrome://x/", "data:,x"])
def test_only_pages_of_the_web_are_kept(url: str) -> None:
    assert "http" in reason(url=url)


def test_nothing_is_kept_when_switched_off() -> None:
    assert "off" in reason(rules_of(BrowserSettings(enabled=False)))


def test_short_visits_are_for_the_extension_to_leave_out() -> None:
    assert kept(dwell_ms=10).dwell_ms == 10
    assert kept(dwell_ms=-5).dwell_ms == 0


def test_absurd_numbers_are_brought_into_their_range() -> None:
    assert kept(dwell_ms=10**30).dwell_ms == DAY
    assert kept(dwell_ms=float("inf")).dwell_ms == DAY
    assert kept(dwell_ms=4000.7).dwell_ms == 4000
    assert [kept(scroll_depth=d).scroll_depth for d in (-1, 7, 10**400, None, float("nan"))] == [
        *(0.0, 1.0, 1.0, None, None),
    ]


@pytest.mark.parametrize("at", [..., None, 0, -1, NOW + 2 * DAY, 10**40, float("nan")])
def test_a_time_that_cannot_be_true_is_now(at: object) -> None:
    assert kept(timestamp=at).at == NOW
    assert kept(timestamp=NOW - 5000).at == NOW - 5000


@pytest.mark.parametrize(
    "changes",
    [
        *({"url": ...}, {"url": 7}, {"url": ""}, {"url": "docs.rs/x"}, {"url": "https://"}),
        *({"url": "https://docs.rs/a\nb"}, {"url": "https:docs.rs"}, {"domain": 5}),
        *({"domain": "a b"}, {"title": 1}, {"dwell_ms": "5"}, {"dwell_ms": True}),
        *({"scroll_depth": []}, {"timestamp": "today"}, {"extracted_text": {}}),
        *({"referrer": 3}, {"search_query": 3}, {"probe_tag": 1}),
    ],
)
def test_a_message_that_makes_no_sense_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        visit_of(message(**changes), RULES, NOW)


def test_texts_are_bounded_and_marked() -> None:
    found = kept(title="ü" * 1_000_000, extracted_text="x" * 300_000)
    assert found.title is not None
    assert found.extracted_text is not None
    assert (len(found.title.encode()), len(found.extracted_text)) <= (4096, 200 * 1024)
    assert found.title.startswith("üü")
    assert found.title.endswith("[truncated, 1000000 characters]")
    with pytest.raises(TooLarge):
        kept(url="https://docs.rs/" + "x" * 9000)
    assert kept(referrer="https://docs.rs/" + "x" * 9000).referrer is None


def test_half_a_character_does_no_harm() -> None:
    found = kept(title="a\ud800b", url="https://docs.rs/\ud83d\ude00\udc00")
    assert found.title == "a\ufffdb"
    assert found.url == "https://docs.rs/%F0%9F%98%80%EF%BF%BD"


def test_empty_texts_stay_empty_and_missing_ones_missing() -> None:
    found = kept(title="", extracted_text="", referrer="", search_query="")
    assert (found.title, found.extracted_text, found.referrer, found.search_query) == ("",) * 4
    found = kept(title=None, extracted_text=None, referrer=None, search_query=None)
    assert (found.title, found.extracted_text, found.referrer, found.search_query) == (None,) * 4


@pytest.mark.parametrize("referrer", ["about:blank", "android-app://x/", "nonsense", "https:///"])
def test_a_referrer_that_is_no_page_stays_as_it_is(referrer: str) -> None:
    assert kept(referrer=referrer).referrer == referrer


# --- search words


@pytest.mark.parametrize(
    "referrer, words",
    [
        ("https://www.google.com/search?q=rust+async&sig=1", "rust async"),
        ("https://www.google.co.uk/search?x=1&q=caf%C3%A9", "café"),
        ("https://google.de/search?q=a%26b", "a&b"),
        ("https://duckduckgo.com/?q=a", "a"),
        ("https://www.bing.com/search?q=a", "a"),
        ("https://kagi.com/search?q=a", "a"),
        ("https://www.ecosia.org/search?q=a", "a"),
        ("https://github.com/search?q=repo%3Ax+y&type=code", "repo:x y"),
        ("https://github.com/x/y/issues?q=is%3Aopen", None),
        ("https://google.evil.com/search?q=a", None),
        ("https://notgoogle.com/search?q=a", None),
        ("https://www.google.com/search?q=+", None),
        ("https://www.google.com/", None),
    ],
)
def test_search_words_come_from_the_page_before(referrer: str, words: str | None) -> None:
    assert kept(referrer=referrer).search_query == words


def test_what_the_extension_found_out_itself_counts() -> None:
    came = "https://www.google.com/search?q=theirs"
    assert kept(referrer=came, search_query="ours").search_query == "ours"
    assert kept(referrer=came, search_query=None).search_query is None


# --- ids


def test_one_address_within_one_window_is_one_visit() -> None:
    ids = [kept(timestamp=NOW + m * 60_000 - 3 * DAY).envelope_id for m in (0, 29, 30)]
    assert ids[0] == ids[1] != ids[2]
    no_window = VisitRules(dedup_window_minutes=0)
    assert kept(no_window).envelope_id == visit_id("https://docs.rs/x", NOW, 1)


def test_secrets_do_not_make_another_visit() -> None:
    assert kept(url="https://docs.rs/x?token=1").envelope_id == kept().envelope_id


PROBE: dict[str, Any] = {"url": "https://probe.hippo.local/x", "domain": "probe.hippo.local"}


def test_a_probe_is_always_allowed_and_known_by_its_tag() -> None:
    found = kept(**PROBE, probe_tag="abc", dwell_ms=0)
    space = uuid.UUID("8a3b7c01-d4e5-4f6a-9b2c-1e0fa85d3c7e")
    assert found.envelope_id == str(uuid.uuid5(space, "probe:abc"))
    assert found.probe_tag == "abc"


def test_the_probe_domain_opens_no_way_around_the_list() -> None:
    assert reason(**PROBE)  # no tag: it would be shown to people
    assert reason(url="https://evil.com/", domain="probe.hippo.local", probe_tag="t")
    assert reason(url="https://probe.hippo.local/", domain="evil.com", probe_tag="t")
    assert kept(probe_tag="t").probe_tag == "t"


# --- any message at all

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=2),
    max_leaves=3,
)
FIELDS = ["url", "title", "domain", "dwell_ms", "scroll_depth", "extracted_text", "search_query"]
FIELDS += ["referrer", "timestamp", "probe_tag"]


@given(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4))
def test_any_message_is_kept_filtered_or_refused(changes: dict[str, Any]) -> None:
    try:
        found = visit_of(message(**changes), RULES, NOW)
    except Invalid:
        return
    if isinstance(found, Visit):
        assert read_line(write_line(found), "socket") == found
