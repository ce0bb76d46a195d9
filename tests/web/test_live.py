"""Live events: who follows is told which sessions changed, whoever wrote; nobody costs a thread."""

import asyncio
import http.client
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.web.site import Site
from tests.web.transcripts import Log
from threadkeep.home.home import Home
from threadkeep.home.stores import Stores
from threadkeep.web.app import Follower, StoreWatcher


def stream(site: Site) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    """Open the stream of events, and read its greeting."""
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=30)
    connection.request("GET", "/events", headers={"authorization": f"Bearer {site.token}"})
    answer = connection.getresponse()
    assert answer.readline() == b"retry: 2000\n"
    assert answer.readline() == b"\n"
    return connection, answer


def watchers() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name == "threadkeep-live"]


def test_every_follower_is_told_of_what_another_program_captured(
    site: Site, tmp_path: Path
) -> None:
    assert site.get("/sessions").status == 200  # the store is open
    first, heard = stream(site)
    second, heard_too = stream(site)
    assert heard.headers["content-type"].startswith("text/event-stream")
    assert heard.headers["cache-control"] == "no-cache"
    assert watchers() == ["threadkeep-live"]
    log = Log(tmp_path, "told-1")
    log.ask("Is anybody listening?")
    log.write()
    site.run("capture", "--quiet", "--user-home", str(tmp_path))
    for one in (heard, heard_too):
        told = b""
        while b"claude-code:told-1" not in told:
            told = one.readline()
        assert told.startswith(b'data: {"sessions":[')
    first.close()
    second.close()


def test_the_stream_needs_the_token(site: Site) -> None:
    assert site.get("/events", authorization=None).status == 401


def test_a_follower_hears_all_at_once_and_waits_no_longer_than_it_said() -> None:
    async def scene() -> list[list[str] | None]:
        follower = Follower(asyncio.get_running_loop())
        follower.tell(["a", "b"])
        follower.tell(["b", "c"])
        return [await follower.wait(30), await follower.wait(0)]

    assert asyncio.run(scene()) == [["a", "b", "c"], None]


@given(st.lists(st.lists(st.text(max_size=3))))
def test_nothing_told_is_lost_or_said_twice(told: list[list[str]]) -> None:
    async def scene() -> list[str]:
        follower = Follower(asyncio.get_running_loop())
        for refs in [[], *told]:
            follower.tell(refs)
        return await follower.wait(30) or []

    heard = asyncio.run(scene())
    assert sorted(heard) == sorted({ref for refs in told for ref in refs})


def test_a_home_without_a_store_can_be_followed_and_left(tmp_path: Path) -> None:
    loop = asyncio.new_event_loop()
    live = StoreWatcher(Stores(Home(tmp_path / "home")))
    follower = Follower(loop)
    assert live.join(follower)
    live.leave(follower)
    live.close()
    assert not live.join(follower), "after the end nobody is let in"
    loop.close()


@pytest.mark.parametrize("most", [100])
def test_there_is_an_end_to_followers(tmp_path: Path, most: int) -> None:
    loop = asyncio.new_event_loop()
    live = StoreWatcher(Stores(Home(tmp_path / "home")))
    followers: list[Any] = [Follower(loop) for _ in range(most + 1)]
    assert [live.join(one) for one in followers] == [True] * most + [False]
    live.close()
    loop.close()
