"""Logins: the page has a host of its own, cookies count there alone, and can be taken back."""

import http.client
import os
import socket
import stat
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given, strategies as st

from tests.web.site import Site
from tests.web.transcripts import Log
from threadkeep.base import local_socket
from threadkeep.base.tokens import GivenSigns, make_secret, new_sign
from threadkeep.errors import NotFound
from threadkeep.home.home import Home
from threadkeep.service import web_access
from threadkeep.service.web_access import IDLE_SECONDS, Logins, browser_of, own_name
from threadkeep.web import gate
from threadkeep.web.guard import Bucket

LIST = "/api/sessions"
HTML = {"accept": "text/html,*/*", "authorization": None}
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
SAFARI = (
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko)"
    " Version/17.4 Safari/605.1.15"
)


@pytest.fixture(autouse=True)
def patient(site: Site) -> None:
    """Give each test all that strangers may ask for."""
    found: Any = site.server.config.app
    found._known, found._strangers = Bucket(600, 0), Bucket(600, 0)


def asked(site: Site, path: str, cookie: str, host: str = "", **more: str | None) -> int:
    given = {"authorization": None, "cookie": cookie, "host": host or site.own} | more
    return site.get(path, **given).status


def path_of(link: str) -> str:
    found = urlsplit(link)
    return f"{found.path}?{found.query}"


# ---------------------------------------------------------------------- where a cookie counts


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]", "LOCALHOST"])
def test_a_cookie_counts_under_the_own_name_alone(site: Site, name: str) -> None:
    cookie = site.let_in()
    assert asked(site, LIST, cookie) == 200
    assert asked(site, LIST, cookie, f"{name}:{site.port}") == 401
    value = cookie.partition("=")[2]
    assert asked(site, LIST, f"threadkeep_{site.port}={value}", f"{name}:{site.port}") == 401
    assert asked(site, LIST, f"threadkeep_{site.port}={value}") == 401  # nor under its old name


def test_what_an_older_version_left_with_loopback_is_deleted_on_sight(site: Site) -> None:
    name = f"threadkeep_{site.port}"
    for path, more in ((LIST, {}), ("/", HTML), (LIST, {"authorization": None})):
        told = site.get(path, cookie=f"a=1; {name}=x", **more).headers["set-cookie"]
        assert told.startswith(f'{name}=""; ')
        assert "Max-Age=0" in told
        assert "Path=/" in told
    assert "set-cookie" not in site.get(LIST, cookie="a=1; threadkeep_1=x").headers
    assert "set-cookie" not in site.get(LIST, cookie=f"{name}=x", host=site.own).headers


@pytest.mark.parametrize("port", [0, 1])
@pytest.mark.parametrize("prefix", ["x.", "", "a"])
def test_no_other_name_of_localhost_is_answered(site: Site, prefix: str, port: int) -> None:
    label = own_name("another token") if not prefix else prefix + own_name(site.token)
    assert site.get("/alive", host=f"{label}:{site.port + port}").status == 421
    assert site.get("/alive", host=f"{own_name(site.token)}:{site.port + 1}").status == 421
    assert site.get("/alive", host=own_name(site.token)).status == 421
    assert site.get("/alive", host=site.own.upper()).status == 204


def test_other_pages_of_loopback_may_not_ask_under_the_own_name(site: Site) -> None:
    cookie = site.let_in()
    for origin in (site.url, f"http://localhost:{site.port}", "http://x.localhost", "null"):
        assert asked(site, LIST, cookie, origin=origin) == 403
    assert asked(site, LIST, cookie, origin=site.page) == 200
    assert asked(site, LIST, cookie, sec_fetch_site="same-site") == 403


def test_the_token_counts_everywhere(site: Site) -> None:
    for host in (f"127.0.0.1:{site.port}", f"localhost:{site.port}", site.own):
        assert site.get(LIST, host=host).status == 200
        assert site.get("/sessions", host=host, accept="text/html").status == 200


# ---------------------------------------------------------------------- the way to the own name


@pytest.mark.parametrize("path", ["/", "/sessions?q=a%20b&x=%2F", "//evil.example/x", "/api/x"])
def test_who_wants_a_page_at_loopback_is_sent_to_the_own_name(site: Site, path: str) -> None:
    for host in (f"127.0.0.1:{site.port}", f"localhost:{site.port}"):
        answer = site.get(path, host=host, **HTML)
        assert (answer.status, answer.headers["location"]) == (307, f"{site.page}{path}")
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"


def test_programs_are_not_sent_anywhere(site: Site) -> None:
    assert site.get(LIST, authorization=None).status == 401
    assert site.get("/", authorization="Bearer wrong", accept="*/*").status == 401
    assert site.post("/api/chat/sessions", {}, **HTML).status == 401
    assert site.get("/sessions", accept="text/html").status == 200  # it has the token


def test_a_link_at_loopback_leads_on_and_is_used_up_at_the_own_name(site: Site) -> None:
    link = site.link()
    assert urlsplit(link).netloc == f"127.0.0.1:{site.port}"
    for _ in range(2):  # looking does not use it up
        moved = site.get(path_of(link), **HTML)
        assert moved.status == 307
        assert "set-cookie" not in moved.headers
    address = urlsplit(moved.headers["location"])
    assert address.netloc == site.own
    there = path_of(moved.headers["location"])
    assert site.get(there, host=site.own, **HTML).status == 303
    assert site.get(there, host=site.own, **HTML).status == 403
    used = site.get(path_of(link), **HTML)
    assert used.status == 403
    assert own_name(site.token) not in used.text


def test_the_own_name_is_told_to_nobody_who_may_be_another_user(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for user, wanted, by_link in ((os.getuid() + 1, 401, 403), (None, 401, 307)):
        monkeypatch.setattr(gate, "peer_user", lambda *_, user=user: user)
        answer = site.get("/", **HTML)
        assert answer.status == wanted
        assert own_name(site.token) not in f"{answer.headers}{answer.text}"
        assert site.get(path_of(site.link()), **HTML).status == by_link


def test_safari_is_told_what_helps_and_keeps_its_link(site: Site) -> None:
    link = path_of(site.link())
    told = site.get(link, user_agent=SAFARI, **HTML)
    assert told.status == 403
    assert "own_name = false" in told.text
    assert site.get(link, user_agent=FIREFOX, **HTML).status == 307


def test_without_an_own_name_the_page_stays_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(0o700)
    (tmp_path / "home" / "config.toml").write_text("[web]\nown_name = false\n")
    found = Site(tmp_path / "home")
    try:
        answer = found.get(path_of(found.link()), **HTML)
        assert answer.status == 303
        cookie, *flags = answer.headers["set-cookie"].split("; ")
        assert cookie.startswith(f"threadkeep_{found.port}=")
        assert {"HttpOnly", "SameSite=strict"} <= set(flags)
        assert found.get("/alive", host=found.own).status == 421
        known = {"authorization": None, "cookie": cookie}
        assert found.get("/api/chat/sessions", **known).status == 200
        assert found.get("/", **HTML).status == 401
    finally:
        found.close()


# ---------------------------------------------------------------------- listed and taken back


def test_logins_are_listed_and_ended_one_by_one_or_all(site: Site) -> None:
    first, second = site.let_in(FIREFOX), site.let_in("<b>\x1b[31mrobot</b>" * 40)
    listed = site.get("/api/web/logins").json["items"]
    assert {"Firefox 128 on Linux"} < {one["browser"] for one in listed}
    robot = next(one for one in listed if "robot" in one["browser"])
    assert robot["browser"].isprintable()
    assert len(robot["browser"]) <= 60
    assert not any(first.partition("=")[2] in str(one) for one in listed)
    shown = site.get("/logins", authorization=None, cookie=second, host=site.own)
    assert "<b>" not in shown.text.partition("<main")[2]
    (here,) = [one for one in site_logins(site, second) if one["here"]]
    assert here["id"] == robot["id"]

    assert site.run("web", "revoke", robot["id"][:6]) == ""
    assert asked(site, LIST, second) == 401
    assert asked(site, LIST, first) == 200
    assert site.post(f"/api/web/logins/{robot['id']}/revoke", {}).status == 404
    assert site.post("/api/web/logins/revoke", {}).json["revoked"] != []
    assert asked(site, LIST, first) == 401
    assert site.get("/api/web/logins").json["items"] == []
    assert "[]" in site.run("web", "logins", "--json")
    assert site.get(LIST).status == 200  # the token holds


def site_logins(site: Site, cookie: str) -> list[dict[str, Any]]:
    answer = site.get("/logins.json", authorization=None, cookie=cookie, host=site.own)
    found: list[dict[str, Any]] = answer.json["logins"]
    return found


def test_who_is_logged_out_hears_nothing_more(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cookie = site.let_in()
    assert asked(site, "/sessions", cookie) == 200  # the store is open
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=30)
    connection.request("GET", "/events", headers={"host": site.own, "cookie": cookie})
    heard = connection.getresponse()
    assert heard.readline() == b"retry: 2000\n"
    site.run("web", "revoke", "--all")
    log = Log(tmp_path, "unheard-1")
    log.ask("Is anybody listening?")
    log.write()
    site.run("capture", "--quiet", "--user-home", str(tmp_path))
    assert heard.read() == b"\n"  # and that was the end
    connection.close()
    while site.server.server_state.tasks:  # the request, until it is given up
        assert site.get("/alive").status == 204
    assert caplog.text == ""


def test_what_is_kept_of_a_login_is_a_hash_that_only_the_owner_reads(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", environ=os.environ)
    before = os.umask(0)
    try:
        cookie = Logins(home).add("token", FIREFOX)
    finally:
        os.umask(before)
    (kept,) = (home.paths().state / "logins").iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    assert not set(cookie.split(".")[::2]) & set(f"{kept.name}\n{kept.read_text()}".split())
    assert cookie not in kept.name + kept.read_text()


def test_a_login_ends_unused_after_a_week_and_in_any_case_after_a_month(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, day = [10**12], 86_400_000
    monkeypatch.setattr(web_access, "now_ms", lambda: now[0])
    logins = Logins(Home(tmp_path / "home", environ=os.environ))
    idle, used = logins.add("token", ""), logins.add("token", "")
    for kept in (tmp_path / "home").rglob("logins/*"):
        os.utime(kept, ns=(now[0] * 10**6, now[0] * 10**6))
    for _ in range(5):
        now[0] += 6 * day - 1
        assert logins.find("token", used) is not None
    assert logins.find("token", idle) is None
    assert len(logins.listed("token")) == 1
    now[0] += 5
    assert logins.find("token", used) is None
    assert logins.listed("token") == []
    assert IDLE_SECONDS == 7 * 86_400


def test_logins_of_another_token_are_void_and_too_many_push_out_the_oldest(tmp_path: Path) -> None:
    signs = GivenSigns(tmp_path / "signs")
    first, second = make_secret(tmp_path / "a"), make_secret(tmp_path / "b")
    given_out = [new_sign(first, "cookie", 9 * 10**14) for _ in range(5)]
    for number, sign in enumerate(given_out):
        signs.add(first, sign, str(number), 1, most=3)
    assert len(signs.listed(first)) == 3
    assert signs.listed(second) == []
    assert [signs.use(sign, 1, 10**15) is None for sign in given_out].count(True) == 2
    logins = Logins(Home(tmp_path / "home", environ=os.environ))
    cookie = logins.add(first, "")
    assert logins.find(second, cookie) is None
    for wrong in ("", "x"):
        with pytest.raises(NotFound, match="no login"):
            logins.revoke(first, wrong)


@given(st.text(max_size=3000))
@example(FIREFOX)
@example("Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/120.0 Safari/537.36 Edg/120.0")
@example("\x00\n\x1b[2J")
def test_whatever_a_browser_calls_itself_is_a_short_plain_text(said: str) -> None:
    named = browser_of(said)
    assert 0 < len(named) <= 60
    assert named.isascii()
    assert named.isprintable()


# ---------------------------------------------------------------------- whose a connection is


def test_the_system_says_whose_a_connection_is() -> None:
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        try:
            listener = socket.create_server((host, 0), family=family)
        except OSError:
            continue  # a machine without it
        with listener, socket.create_connection(listener.getsockname()[:2]) as near:
            far, client = listener.accept()
            with far:
                found = local_socket.peer_user(client[:2], listener.getsockname()[:2])
                assert found == (os.getuid() if Path("/proc/net/tcp").exists() else None)
                assert local_socket.peer_user((host, 1), listener.getsockname()[:2]) is None
                assert near.getsockname()[:2] == client[:2]
    assert local_socket.peer_user(("testclient", 1), ("127.0.0.1", 1)) is None
    table = ["  0: 0100007F:1E25 0100007F:C350 01 0:0 00:0 0  1001   0 1 1"]
    assert local_socket.user_in(table, "0100007F:1E25", "0100007F:C350") == 1001
    assert local_socket.user_in(table, "0100007F:C350", "0100007F:1E25") is None


def test_the_name_has_160_bits_that_do_not_tell_the_token(tmp_path: Path) -> None:
    token = make_secret(tmp_path / "token")
    label = own_name(token).removesuffix(".localhost")
    assert own_name(token) == own_name(token) != own_name(make_secret(tmp_path / "other"))
    assert len(label) == 32
    assert label.isalnum()
    assert token.lower() not in label
