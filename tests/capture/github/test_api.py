"""The client over real HTTP: retries, limits, tags, pages, redirects, bad answers, the token."""

import itertools
import ssl
import subprocess
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.capture.github.conftest import TOKEN
from tests.capture.github.server import (
    REPO,
    Ci,
    cut_short,
    hang_up,
    listening,
    redirect,
    refuse,
    run_json,
    stall,
    stream,
)
from tests.conftest import need_tool
from threadkeep.capture.github import client as api_module
from threadkeep.capture.github.client import RETRIES, Api
from threadkeep.capture.github.http import (
    GithubBadAnswer,
    GithubRateLimit,
    GithubRefusal,
    Interrupted,
)
from threadkeep.errors import Invalid, NotFound, ThreadkeepError, TooLarge

RUNS = f"/repos/{REPO}/actions/runs?per_page=20"
NOW = 1_800_000_000.0


class Client:
    def __init__(self, url: str) -> None:
        self.url = url
        self.slept: list[float] = []
        self.api = self.new()

    def new(self, url: str = "", **options: Any) -> Api:
        given: dict[str, Any] = {"sleep": self.slept.append, "clock": lambda: NOW}
        return Api(url or self.url, TOKEN, **(given | options))


@pytest.fixture
def client(url: str) -> Client:
    return Client(url)


def test_a_request_names_its_version_and_who_asks(ci: Ci, client: Client) -> None:
    ci.token = TOKEN
    assert client.api.get(RUNS).value["workflow_runs"] == []
    headers = ci.asked[0].headers
    assert headers["x-github-api-version"] == "2022-11-28"
    assert headers["accept"] == "application/vnd.github+json"
    assert headers["user-agent"] == "threadkeep"


def test_a_server_below_a_path_is_asked_there(ci: Ci, url: str) -> None:
    reply = Client(f"{url}/api/v3/").api.get(RUNS)
    assert reply.value["total_count"] == 0
    assert ci.paths() == [f"/api/v3{RUNS}"]


@pytest.mark.parametrize(
    "fault, seconds",
    [
        (refuse(429, Retry_After="7"), 7.0),
        (refuse(429), 60.0),
        (refuse(403, Retry_After="9"), 9.0),
        (refuse(403, X_RateLimit_Remaining="0", X_RateLimit_Reset="1800000042"), 42.0),
        (refuse(403, X_RateLimit_Remaining="0", X_RateLimit_Reset="1800009999"), 300.0),
        (refuse(403, X_RateLimit_Remaining="0", X_RateLimit_Reset="1799999999"), 1.0),
        (refuse(403, X_RateLimit_Remaining="0", X_RateLimit_Reset="soon"), 60.0),
        (refuse(429, Retry_After="Fri, 15 Jan 2027 08:00:30 GMT"), 30.0),
        (refuse(503, Retry_After="9999"), 300.0),
        (refuse(500), 1.0),
        (hang_up, 1.0),
        (cut_short(b'{"workflow_', 400), 1.0),
    ],
)
def test_what_passes_is_waited_for(ci: Ci, client: Client, fault: Any, seconds: float) -> None:
    ci.misbehave("/runs", fault)
    assert client.api.get(RUNS).value["workflow_runs"] == []
    assert client.slept == [seconds]


def test_trouble_that_stays_is_given_up_after_eight_retries(ci: Ci, client: Client) -> None:
    ci.misbehave("/runs", *[refuse(502)] * (RETRIES + 1))
    with pytest.raises(
        GithubBadAnswer, match=r"GET 127\.0\.0\.1/repos/octo/app/actions/runs: HTTP 502"
    ):
        client.api.get(RUNS)
    assert client.slept == [1, 2, 4, 8, 16, 32, 64, 128]


def test_a_limit_that_stays_is_named(ci: Ci, client: Client) -> None:
    ci.misbehave("/runs", *[refuse(429, Retry_After="1")] * (RETRIES + 1))
    with pytest.raises(GithubRateLimit, match="too many requests"):
        client.api.get(RUNS)
    assert len(ci.asked) == RETRIES + 1


def test_a_server_that_was_given_up_is_asked_once_until_it_answers(ci: Ci, client: Client) -> None:
    ci.misbehave("/runs", *[refuse(500)] * (RETRIES + 1), refuse(500))
    for _ in range(2):
        with pytest.raises(GithubBadAnswer):
            client.api.get(RUNS)
    assert len(ci.asked) == RETRIES + 2
    client.api.get(RUNS)
    ci.misbehave("/runs", refuse(500))
    assert client.api.get(RUNS).value is not None


def test_an_unchanged_answer_is_not_sent_again(ci: Ci, client: Client) -> None:
    first = client.api.get(RUNS)
    again = client.api.get(RUNS, first.etag)
    assert (again.is_same, again.value) == (True, None)
    ci.add_run(1)
    changed = client.api.get(RUNS, first.etag)
    assert not changed.is_same
    assert [run["id"] for run in changed.value["workflow_runs"]] == [1]


def test_pages_are_followed_on_the_own_server_and_are_bounded(ci: Ci, client: Client) -> None:
    ci.runs[REPO] = [run_json(number) for number in range(45)]
    pages = list(client.api.pages(RUNS))
    assert [len(page["workflow_runs"]) for page in pages] == [20, 20, 5]
    assert len(list(client.api.pages(RUNS, most=2))) == 2


def test_a_log_comes_from_another_host_without_the_token(ci: Ci, client: Client) -> None:
    ci.logs[5] = b"line one\nline two\n"
    tail = client.api.tail(f"/repos/{REPO}/actions/jobs/5/logs", 9)
    assert tail == (b"line two\n", 18)
    assert ci.asked[0].headers["authorization"] == f"Bearer {TOKEN}"
    assert "authorization" not in ci.blobs_asked[0].headers
    assert TOKEN not in str(ci.blobs_asked)


def test_a_renamed_repository_is_followed_with_the_token(ci: Ci, client: Client) -> None:
    ci.token = TOKEN
    ci.misbehave("/runs", redirect(RUNS, status=301))
    assert client.api.get(RUNS).value["workflow_runs"] == []


def test_redirects_end(ci: Ci, client: Client) -> None:
    ci.misbehave("/runs", *[redirect(RUNS)] * 10)
    with pytest.raises(GithubBadAnswer, match="too many redirects"):
        client.api.get(RUNS)


@pytest.mark.parametrize("where", ["ftp://x/", "http://[::1", "http://:80/", "http://h:99999/"])
def test_a_redirect_to_nowhere_is_an_error(ci: Ci, client: Client, where: str) -> None:
    ci.misbehave("/runs", redirect(where))
    with pytest.raises(Invalid):
        client.api.get(RUNS)


def test_a_huge_log_is_streamed(ci: Ci, client: Client) -> None:
    ci.misbehave("/logs", stream(b"0123456789abcdef" * 4096, 1024))
    tracemalloc.start()
    try:
        tail = client.api.tail(f"/repos/{REPO}/actions/jobs/5/logs", 1000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert tail.total == 64 * 1024 * 1024
    assert tail.data == (b"0123456789abcdef" * 63)[-1000:]
    assert peak < 8 * 1024 * 1024


def test_an_answer_that_is_too_long_is_refused(
    ci: Ci, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_module, "_MOST_JSON", 100_000)
    ci.misbehave("/runs", stream(b" " * 1000, 200))
    with pytest.raises(TooLarge, match="longer than 100,000 bytes"):
        client.api.get(RUNS)


def test_a_server_that_stalls_is_not_waited_for(ci: Ci, client: Client) -> None:
    over = threading.Event()
    ci.misbehave("/runs", *[stall(over)] * (RETRIES + 1))
    try:
        with pytest.raises(Interrupted, match=r"no answer within 0\.05 seconds"):
            client.new(timeout=0.05).get(RUNS)
    finally:
        over.set()


def test_a_server_that_trickles_is_not_waited_for(ci: Ci, client: Client) -> None:
    ci.misbehave("/runs", *[stream(b" " * 10, 500)] * (RETRIES + 1))
    ticks = itertools.count(step=20)
    with pytest.raises(Interrupted, match="took longer than 30 seconds"):
        client.new(ticks=lambda: float(next(ticks))).get(RUNS)


@pytest.mark.parametrize(
    "body, said",
    [(b"<html>Sign in</html>", "a web page"), (b'{"workflow_runs": [', "not JSON"), (b"", "JSON")],
)
def test_an_answer_that_is_no_answer(ci: Ci, client: Client, body: bytes, said: str) -> None:
    ci.misbehave("/runs", refuse(200, body))
    with pytest.raises(GithubBadAnswer, match=said):
        client.api.get(RUNS)
    assert client.slept == []


@pytest.mark.parametrize(
    "status, kind",
    [
        (401, GithubRefusal),
        (403, GithubRefusal),
        (404, NotFound),
        (410, NotFound),
        (422, GithubRefusal),
    ],
)
def test_a_refusal_is_named_with_the_words_of_the_server(
    ci: Ci, client: Client, status: int, kind: type[ThreadkeepError]
) -> None:
    body = f'{{"message": "Bad credentials {TOKEN}"}}'.encode()
    ci.misbehave("/runs", refuse(status, body))
    with pytest.raises(kind, match="Bad credentials") as caught:
        client.api.get(RUNS)
    assert TOKEN not in str(caught.value)
    assert client.slept == []


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    with listening(Ci()) as url:
        client = Client(url)
    with pytest.raises(Interrupted, match=r"GET 127\.0\.0\.1/repos/octo/app/actions/runs"):
        client.api.get(RUNS)


def test_a_token_goes_nowhere_in_the_open() -> None:
    with pytest.raises(Invalid, match="without encryption"):
        Api("http://ghe.example/api/v3", TOKEN)
    Api("http://ghe.example/api/v3")
    Api("http://ghe.example/api/v3", TOKEN, allow_open=True)
    Api("http://localhost:1/", TOKEN)
    Api("http://[::1]:1/", TOKEN)


@pytest.mark.parametrize("token", ["two words", "line\nbreak", "käse", "nul\0"])
def test_a_token_that_is_none_is_not_shown(token: str) -> None:
    with pytest.raises(Invalid) as caught:
        Api("https://api.github.com", token)
    assert token not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["", "api.github.com", "ftp://x", "https://", "https://h:x", "http://[::1"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(Invalid, match="not the address of a server"):
        Api(url)


# ---------------------------------------------------------------------- TLS


@contextmanager
def serving_safely(ci: Ci, folder: Path) -> Iterator[tuple[str, Path]]:
    """Serve with a certificate that nobody knows."""
    key, cert = folder / "key.pem", folder / "cert.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    make = [need_tool("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt"]
    make += ["ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(key), "-out", str(cert)]
    subprocess.run([*make, "-days", "2", *subject], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with listening(ci, tls=context) as url:
        yield url, cert


def test_a_certificate_is_checked(ci: Ci, tmp_path: Path) -> None:
    with serving_safely(ci, tmp_path) as (url, cert):
        client = Client(url)
        with pytest.raises(GithubRefusal, match="certificate of the server is not trusted"):
            client.api.get(RUNS)
        assert ci.asked == []
        trusted = client.new(tls=ssl.create_default_context(cafile=str(cert)))
        assert trusted.get(RUNS).value["total_count"] == 0


def test_a_safe_connection_is_not_left_for_an_open_one(ci: Ci, tmp_path: Path) -> None:
    ci.misbehave("/runs", redirect(f"{ci.blobs}/1"))
    with serving_safely(ci, tmp_path) as (url, cert):
        api = Client(url).new(tls=ssl.create_default_context(cafile=str(cert)))
        with pytest.raises(GithubRefusal, match="without encryption"):
            api.get(RUNS)
    assert ci.blobs_asked == []
