"""Who is let in: the rules themselves, on plain values."""

from typing import Any

import pytest

from threadkeep.web.guard import (
    Bucket,
    bearer_of,
    cookies_of,
    place_of,
    refuse_body,
    refuse_shape,
    refuse_stranger,
    token_in_address,
)

PLACE = place_of("127.0.0.1", 7717, "http", 1000)


def asked(method: str = "GET", **headers: str) -> tuple[dict[str, Any], Any]:
    named = {"host": "127.0.0.1:7717"} | {k.replace("_", "-"): v for k, v in headers.items()}
    raw = [(name.encode(), value.encode()) for name, value in named.items()]
    scope = {"method": method, "raw_path": b"/", "path": "/", "query_string": b"", "headers": raw}
    return scope, named


def with_query(query: bytes) -> tuple[dict[str, Any], Any]:
    scope, headers = asked()
    return scope | {"query_string": query}, headers


@pytest.mark.parametrize(
    "host", ["127.0.0.1:7717", "localhost:7717", "LOCALHOST:7717", "[::1]:7717"]
)
def test_loopback_has_three_names(host: str) -> None:
    assert refuse_stranger(PLACE, *asked(host=host)) is None


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost", "localhost:80", "127.0.0.1.nip.io:7717", "0.0.0.0:7717", ""],
)
def test_any_other_host_is_refused(host: str) -> None:
    refused = refuse_stranger(PLACE, *asked(host=host))
    assert refused is not None
    assert refused.status == 421


def test_two_hosts_are_refused() -> None:
    scope, _headers = asked()
    scope["headers"] = scope["headers"] * 2
    assert refuse_shape(scope) is not None


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "https://127.0.0.1:7717"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": ""},
    ],
)
def test_pages_of_others_are_refused(headers: dict[str, str]) -> None:
    refused = refuse_stranger(PLACE, *asked("GET", **headers))
    assert refused is not None
    assert refused.status == 403


def test_our_own_pages_may_ask() -> None:
    own = {"origin": "http://localhost:7717", "sec_fetch_site": "same-origin"}
    assert refuse_stranger(PLACE, *asked("POST", **own)) is None


def test_odd_methods_and_endless_addresses_are_refused() -> None:
    assert refuse_stranger(PLACE, *asked("TRACE")) is not None
    assert refuse_stranger(PLACE, *asked("CONNECT")) is not None
    assert refuse_shape(with_query(b"a" * 9000)[0]) is not None


@pytest.mark.parametrize(
    "kind",
    ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"],
)
def test_what_a_form_can_send_is_refused(kind: str) -> None:
    refused = refuse_body(PLACE, *asked("POST", content_type=kind, content_length="2"))
    assert refused is not None
    assert refused.status == 415


def test_json_is_taken_up_to_the_limit() -> None:
    json = {"content_type": "application/json; charset=utf-8"}
    assert refuse_body(PLACE, *asked("POST", **json, content_length="1000")) is None
    for length in ("1001", "-1", "x", "１"):
        assert refuse_body(PLACE, *asked("POST", **json, content_length=length)) is not None
    assert refuse_body(PLACE, *asked("GET", content_length="1001")) is not None
    assert refuse_body(PLACE, *asked("DELETE")) is None
    assert refuse_body(PLACE, *asked("DELETE", transfer_encoding="chunked")) is not None


def test_a_token_in_an_address_is_seen() -> None:
    assert token_in_address(with_query(b"a=1&token=x")[0])
    assert not token_in_address(with_query(b"q=token")[0])


def test_the_token_and_the_cookie_of_a_request() -> None:
    assert bearer_of({"authorization": "bearer  abc "}) == "abc"
    assert bearer_of({"authorization": "Basic abc"}) is None
    assert bearer_of({}) is None
    assert cookies_of({"cookie": "a=1; tk=x.y.z; b=2; tk=other"}, "tk") == ["x.y.z", "other"]
    assert cookies_of({"cookie": "xtk=1"}, "tk") == []


def test_a_bucket_gives_so_many_at_once_and_so_many_a_second() -> None:
    now = [0.0]
    bucket = Bucket(3, 2, lambda: now[0])
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    now[0] += 1
    assert [bucket.take() for _ in range(3)] == [True, True, False]


def test_other_places_are_named_as_they_are() -> None:
    assert place_of("10.0.0.5", 443, "https", 1).hosts == {"10.0.0.5:443", "10.0.0.5"}
    assert place_of("fd00::1", 8443, "https", 1).origins == {"https://[fd00::1]:8443"}
