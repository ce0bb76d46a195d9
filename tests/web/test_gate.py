"""The server as a stranger sees it: real sockets, whatever is sent through them."""

import asyncio
import http.client
import logging
import os
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from uvicorn.server import ServerState

from tests.conftest import need_tool
from tests.web.site import Answer, Site
from threadkeep.base.config import WebSettings
from threadkeep.errors import Conflict, Invalid
from threadkeep.home.home import Home
from threadkeep.service.web_access import address_of, listen, make_token, token_path
from threadkeep.web.guard import RESPONSE_HEADERS, Bucket, place_of, refuse_shape, refuse_stranger
from threadkeep.web.worker import SILENT_SECONDS, ConnectionCounter, WebServer

LIMIT = 100_000
JSON = b"content-type: application/json\r\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("gate") / "home"
    folder.mkdir(0o700)
    (folder / "config.toml").write_text(f"[web]\nbody_limit = {LIMIT}\n")
    found = Site(folder)
    yield found
    found.close()


@pytest.fixture(autouse=True)
def patient(site: Site) -> None:
    """Give each test all that strangers may ask for."""
    gate: Any = site.server.config.app
    gate._known, gate._strangers = Bucket(600, 0), Bucket(60, 0)


def head(site: Site, method: bytes, target: bytes, *, known: bool = False) -> bytes:
    token = f"authorization: Bearer {site.token}\r\n".encode() if known else b""
    return b"%s %s HTTP/1.1\r\nhost: 127.0.0.1:%d\r\n%s" % (method, target, site.port, token)


def sent(site: Site, data: bytes) -> bytes:
    """Send bytes, and give all that comes until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", site.port), 60) as one:
        one.sendall(data)
        answer = b""
        while piece := one.recv(65536):
            answer += piece
        return answer


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


# ---------------------------------------------------------------------- what every answer has


def check_headers(answer: Answer) -> None:
    for name, value in RESPONSE_HEADERS:
        assert answer.headers.get(name) == value
    assert "cache-control" in answer.headers
    assert "server" not in answer.headers


def test_every_kind_of_answer_has_the_headers_that_protect_it(site: Site) -> None:
    tag = site.get("/api/chat/sessions").headers["etag"]
    answers = {
        200: site.get("/static/site.css"),
        204: site.get("/alive", authorization=None),
        304: site.get("/api/chat/sessions", if_none_match=tag),
        307: site.get("/static/site.css/"),
        400: site.get("/?token=x"),
        401: site.get("/", authorization=None, accept="text/html", host=site.own),
        403: site.get("/open?link=x"),
        404: site.get("/nothing", accept="text/html"),
        405: site.ask("OPTIONS", "/recall"),
        413: site.ask("POST", "/api/chat/sessions", b"", content_length=str(LIMIT + 1)),
        415: site.ask("POST", "/api/chat/sessions", b"{}", content_type="text/plain"),
        421: site.get("/alive", host="evil.example"),
    }
    assert {wanted: answer.status for wanted, answer in answers.items()} == {
        wanted: wanted for wanted in answers
    }
    for answer in answers.values():
        check_headers(answer)
    assert answers[401].headers["www-authenticate"] == "Bearer"
    assert "GET" in answers[405].headers["allow"]
    assert answers[307].headers["location"] == f"{site.url}/static/site.css"


def test_what_is_no_http_is_answered_as_anything_else(site: Site) -> None:
    answer = sent(site, b"\x16\x03\x01 hello\r\n\r\n").lower()
    assert status(answer) == 400
    for name, value in RESPONSE_HEADERS:
        assert f"{name}: {value}\r\n".lower().encode() in answer


def test_a_browser_that_nobody_let_in_gets_a_page_with_nothing_to_load(site: Site) -> None:
    page = site.get("/", authorization=None, accept="text/html", host=site.own).text
    assert "threadkeep up --link" in page
    assert not any(word in page for word in ("src=", "href=", "<script", "<style"))


def test_only_the_address_that_changes_with_a_file_is_kept(site: Site) -> None:
    page = site.get("/nothing", accept="text/html").text
    address = page.partition('rel="stylesheet" href="')[2].partition('"')[0]
    assert "immutable" in site.get(address).headers["cache-control"]
    assert site.get("/static/site.css").headers["cache-control"] == "no-cache"
    assert site.get("/static/site.css?v=old").headers["cache-control"] == "no-cache"


# ---------------------------------------------------------------------- odd requests


ODD: dict[str, tuple[bytes, bytes, bytes, int]] = {
    "absolute": (b"GET", b"http://evil.example/alive", b"", 400),
    "star": (b"OPTIONS", b"*", b"", 400),
    "two origins": (b"GET", b"/alive", b"origin: http://a\r\norigin: http://b\r\n", 400),
    "two sites": (b"GET", b"/", b"sec-fetch-site: none\r\nsec-fetch-site: cross-site\r\n", 400),
    "two tokens": (b"GET", b"/", b"authorization: Bearer x\r\n", 400),
    "two lengths": (b"POST", b"/", b"content-length: 1\r\ntransfer-encoding: chunked\r\n", 400),
    "many headers": (b"GET", b"/alive", b"".join(b"x%d:\r\n" % n for n in range(9000)), 431),
    "endless address": (b"GET", b"/" + b"a" * 9000, b"", 414),
    "trace": (b"TRACE", b"/", b"", 405),
}


@pytest.mark.parametrize("name", list(ODD))
def test_odd_requests_are_refused_and_the_connection_ends(site: Site, name: str) -> None:
    method, target, extra, wanted = ODD[name]
    assert status(sent(site, head(site, method, target, known=True) + extra + b"\r\n")) == wanted


@pytest.mark.parametrize("target", [b"/alive", b"/", b"/open?link=x", b"/static/site.css"])
def test_a_stranger_has_one_answer_for_each_connection(site: Site, target: bytes) -> None:
    answers = sent(site, (head(site, b"GET", target) + b"\r\n") * 5)
    assert answers.count(b"HTTP/1.1 ") == 1


def test_a_stranger_is_not_asked_for_the_body(site: Site) -> None:
    waits = head(site, b"POST", b"/api/chat/sessions") + JSON + b"expect: 100-continue\r\n"
    assert status(sent(site, waits + b"content-length: 9\r\n\r\n")) == 401


@pytest.mark.parametrize("kind", [b"application/json", b"text/event-stream"])
def test_a_body_that_does_not_say_its_length_ends_at_the_limit(site: Site, kind: bytes) -> None:
    ask = head(site, b"POST", b"/api/chat/one/record", known=True)
    chunk = b"%x\r\n%s\r\n" % (LIMIT // 2, b"x" * (LIMIT // 2))
    told = b"content-type: %s\r\ntransfer-encoding: chunked\r\n\r\n" % kind
    answer = sent(site, ask + told + chunk * 2 + b"1\r\nx\r\n")  # and there is no end
    assert status(answer) == 413


@pytest.mark.parametrize(
    "name", ["..%2fapp.py", "..%252fapp.py", "%2e%2e/app.py", "site.css%00", "%ff", ".", ""]
)
def test_only_files_of_the_page_are_given(site: Site, name: str) -> None:
    assert site.get(f"/static/{name}").status == 404


def test_endless_numbers_are_no_failure(site: Site) -> None:
    assert site.get("/sessions?limit=" + "9" * 5000).status < 500


# ---------------------------------------------------------------------- who is let in


def path_of(link: str) -> str:
    found = urlsplit(link)
    return f"{found.path}?{found.query}"


def test_of_many_who_use_a_link_at_once_one_is_let_in(site: Site) -> None:
    link, at = path_of(site.link()), {"authorization": None, "host": site.own}
    looked = site.ask("HEAD", link, authorization=None, host=site.own)
    assert looked.status == 405  # a look does not use it up
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda _: site.get(link, **at), range(6)))
    assert sorted(one.status for one in found) == [303, *[403] * 5]
    (let_in,) = [one.headers for one in found if one.status == 303]
    assert let_in["location"] == "/"
    cookie, *flags = let_in["set-cookie"].split("; ")
    assert set(flags) == {"HttpOnly", "SameSite=strict", "Path=/", "Max-Age=2592000", "Secure"}
    name = cookie.partition("=")[0]
    assert name == f"__Host-threadkeep_{site.port}"
    for shown in (cookie, f"{name}=left-by-another-port; {cookie}"):
        assert site.get("/api/chat/sessions", **at, cookie=shown).status == 200
    assert site.get("/api/chat/sessions", **at, cookie=f"{name}=x").status == 401


def test_a_token_that_is_deleted_or_replaced_holds_no_longer(site: Site) -> None:
    place = token_path(site.home)
    aside = place.with_name("aside")
    at = {"authorization": None, "host": site.own, "cookie": site.let_in()}
    assert site.get("/api/chat/sessions", **at).status == 200
    place.rename(aside)
    try:
        assert site.get("/api/chat/sessions").status == 401
        assert site.get("/api/chat/sessions", **at).status == 421  # nor does the name
        new = make_token(site.home)
        assert site.get("/api/chat/sessions", authorization=f"Bearer {new}").status == 200
        moved = site.get(path_of(site.link())).headers["location"]
        assert urlsplit(moved).netloc not in {site.own, ""}
        let_in = site.get(path_of(moved), authorization=None, host=urlsplit(moved).netloc)
        assert let_in.status == 303
        here = at | {"host": urlsplit(moved).netloc}
        assert site.get("/api/chat/sessions", **here).status == 401
        place.chmod(0o644)  # it may have been read by anybody
        assert site.get("/api/chat/sessions", authorization=f"Bearer {new}").status == 401
    finally:
        aside.rename(place)
    assert site.get("/api/chat/sessions").status == 200


def test_strangers_cannot_use_up_what_the_owner_has(site: Site) -> None:
    asked = [site.get("/", authorization=None) for _ in range(61)]
    assert [one.status for one in asked] == [*[401] * 60, 429]
    assert asked[-1].headers["retry-after"] == "1"
    assert site.get("/api/chat/sessions").status == 200


# ---------------------------------------------------------------------- failures


def test_a_failure_says_little_to_whoever_asked_and_all_to_the_log(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    def breaks(_: Request) -> Response:
        raise RuntimeError("what only the log may say")

    gate: Any = site.server.config.app
    gate._app.router.routes.insert(0, Route("/breaks", breaks))
    with caplog.at_level(logging.ERROR):
        plain, page = site.get("/breaks"), site.get("/breaks", accept="text/html")
    for answer in (plain, page):
        assert answer.status == 500
        assert b"only the log" not in answer.body
        check_headers(answer)
    assert "what only the log may say" in caplog.text
    assert site.get("/alive").status == 204


def test_who_leaves_in_the_middle_is_no_failure(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    ask = head(site, b"POST", b"/api/chat/sessions", known=True) + JSON
    with socket.create_connection(("127.0.0.1", site.port), 60) as one:
        one.sendall(ask + b"content-length: 50\r\nexpect: 100-continue\r\n\r\n")
        assert b"100 Continue" in one.recv(100)  # the body is waited for now
    while site.server.server_state.tasks:  # the request, until it is given up
        assert site.get("/alive").status == 204
    assert caplog.text == ""


# ---------------------------------------------------------------------- connections


class Line:
    """A transport that only knows whether it was cut."""

    def __init__(self) -> None:
        self.cut = False

    def abort(self) -> None:
        self.cut = True

    def is_closing(self) -> bool:
        return self.cut


class Busy:
    """A request that is being answered."""

    response_complete = False


class Crowd:
    """A room whose clock is a number."""

    def __init__(self, most: int) -> None:
        self.now = 0.0
        self.room = ConnectionCounter(most, lambda: self.now)
        self._loop = asyncio.new_event_loop()
        self._loop.close()
        self._config = uvicorn.Config(lambda: None, log_config=None)

    def enter(self, *, busy: bool = False) -> Line:
        self.now += 1
        given = {"config": self._config, "server_state": ServerState(), "app_state": {}}
        one: Any = self.room.enter(**given, _loop=self._loop)
        one.transport = line = Line()
        one.cycle = Busy() if busy else None
        return line


def test_when_it_is_full_the_longest_silent_one_goes() -> None:
    crowd = Crowd(3)
    busy, first, second = crowd.enter(busy=True), crowd.enter(), crowd.enter()
    third = crowd.enter()
    assert [one.cut for one in (busy, first, second, third)] == [False, True, False, False]
    crowd.enter()
    assert [one.cut for one in (busy, second, third)] == [False, True, False]


def test_nobody_with_a_request_is_ever_cut() -> None:
    crowd = Crowd(2)
    lines = [crowd.enter(busy=True) for _ in range(4)]
    crowd.now += 10 * SILENT_SECONDS
    crowd.room.look()
    assert not any(line.cut for line in lines)


def test_who_says_nothing_for_long_is_cut_and_forgotten() -> None:
    crowd = Crowd(9)
    line = crowd.enter()
    crowd.now += SILENT_SECONDS
    crowd.room.look()
    assert not line.cut
    crowd.now += 1
    crowd.room.look()
    assert line.cut
    assert crowd.room.is_empty()


# ---------------------------------------------------------------------- beginning and end


def listening(tmp_path: Path) -> tuple[Home, socket.socket]:
    return Home(tmp_path / "home", environ=os.environ), socket.create_server(("127.0.0.1", 0))


def in_a_thread(server: WebServer, idle_seconds: float) -> threading.Thread:
    """Let a server run beside us: a browser that is open has the loop of this thread."""
    running = threading.Thread(target=lambda: asyncio.run(server.serve(idle_seconds)), daemon=True)
    running.start()
    return running


def ended(running: threading.Thread) -> None:
    running.join(60)
    assert not running.is_alive()


def test_a_server_to_which_nobody_comes_ends_and_the_next_caller_waits(tmp_path: Path) -> None:
    home, listener = listening(tmp_path)
    with listener.dup() as kept:  # as the process does that listens
        ended(in_a_thread(WebServer(home, listener, None), 0.0))
        with socket.create_connection(kept.getsockname()), kept.accept()[0]:
            pass


def test_a_server_ends_under_somebody_who_follows_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home, listener = listening(tmp_path)
    server = WebServer(home, listener, None)
    running = in_a_thread(server, 3600.0)
    port = listener.getsockname()[1]
    with socket.create_connection(("127.0.0.1", port), 60) as one:
        token = f"authorization: Bearer {make_token(home)}\r\n"
        one.sendall(f"GET /events HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n{token}\r\n".encode())
        assert status(one.recv(4096)) == 200
        server.end()
        ended(running)
    assert caplog.text == ""


def test_with_a_certificate_everything_is_said_over_tls(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    named = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    made = [*words.split(), *named, "-keyout", str(key), "-out", str(cert)]
    subprocess.run([need_tool("openssl"), *made], check=True, capture_output=True)
    (tmp_path / "home").mkdir(0o700)
    settings = f'[web]\ntls_cert = "{cert}"\ntls_key = "{key}"\n'
    (tmp_path / "home" / "config.toml").write_text(settings)
    site = Site(tmp_path / "home")
    try:
        assert site.url.startswith("https://")
        trusted = ssl.create_default_context(cafile=cert)

        def ask(path: str, **headers: str) -> tuple[int, str]:
            one = http.client.HTTPSConnection("localhost", site.port, timeout=60, context=trusted)
            with closing(one):
                one.request("GET", path, headers=headers)
                answer = one.getresponse()
                return answer.status, answer.headers.get("set-cookie", "")

        _, cookie = ask(path_of(site.link()))
        assert cookie.startswith(f"__Host-threadkeep_{site.port}=")
        assert "; Secure" in cookie
        own = {"cookie": cookie.partition(";")[0], "origin": f"https://localhost:{site.port}"}
        assert ask("/api/chat/sessions", **own)[0] == 200
        other = own | {"origin": f"http://localhost:{site.port}"}
        assert ask("/api/chat/sessions", **other)[0] == 403
    finally:
        site.close()


# ---------------------------------------------------------------------- where it listens


def test_other_machines_are_kept_out_unless_the_user_says_so() -> None:
    for host in ("0.0.0.0", "::", "", "192.0.2.1"):
        with pytest.raises(Invalid, match="other machines"):
            listen(WebSettings(host=host), exactly=True)
    with pytest.raises(Invalid, match="one of tls_cert and tls_key"):
        listen(WebSettings(tls_cert="x"), exactly=True)


def test_a_port_that_is_taken_is_named_or_the_next_one_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        web = WebSettings(port=taken.getsockname()[1])
        with pytest.raises(Conflict, match="is taken"):
            listen(web, exactly=True)
        with listen(web, exactly=False) as found:
            assert address_of(web, found) != f"http://127.0.0.1:{web.port}"


def test_who_listens_everywhere_answers_for_the_address_that_was_reached() -> None:
    place = place_of("0.0.0.0", 7717, "https", 1, "Desk")

    def refused(host: str, reached: str, **headers: str) -> int:
        named = {"host": host} | headers
        scope: dict[str, Any] = {"method": "GET", "server": (reached, 7717)}
        found = refuse_stranger(place, scope, named)
        return 0 if found is None else found.status

    assert refused("10.0.0.5:7717", "10.0.0.5", origin="https://10.0.0.5:7717") == 0
    assert refused("10.0.0.5:7717", "::ffff:10.0.0.5") == 0
    assert refused("desk:7717", "10.0.0.5") == refused("localhost:7717", "127.0.0.1") == 0
    assert refused("10.0.0.6:7717", "10.0.0.5") == refused("evil.example:7717", "10.0.0.5") == 421
    assert refused("10.0.0.5:7717", "10.0.0.5", origin="https://10.0.0.6:7717") == 403


def test_a_usual_request_has_the_right_shape() -> None:
    scope = {"raw_path": b"/", "query_string": b"", "headers": [(b"host", b"a"), (b"x", b"1")]}
    assert refuse_shape(scope) is None
