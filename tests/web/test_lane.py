"""The lane of reads: in order, one answer for all who ask the same, and nobody held up for long."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from starlette.responses import Response

from tests.web.site import Site
from tests.web.transcripts import Log
from threadkeep.web.page import Lane
from threadkeep.web.renderer import Renderer

PATIENCE = 30.0
PROBLEM = {"demo": False, "title": "no", "path": "/x", "query": {}, "hint": "", "status": 404}


class Job:
    """A piece of work that waits to be let go."""

    def __init__(self, fails: bool = False) -> None:  # noqa: FBT001, FBT002
        self.begun, self.go = threading.Event(), threading.Event()
        self.times = 0
        self._fails = fails

    def __call__(self) -> Response:
        self.times += 1
        self.begun.set()
        assert self.go.wait(PATIENCE)
        if self._fails:
            raise ValueError("no")
        return Response(f"time {self.times}")


def going() -> Job:
    """Return a piece of work that does not wait."""
    job = Job()
    job.go.set()
    return job


async def begun(job: Job) -> None:
    """Let everything else go on until a piece of work has begun."""
    assert await asyncio.to_thread(job.begun.wait, PATIENCE)


async def asked(lane: Lane, key: str, job: Job) -> "asyncio.Task[Response]":
    """Ask, and come back when that is in the lane."""
    task = asyncio.create_task(lane.run(key, job))
    await asyncio.sleep(0)
    return task


def test_all_who_wait_for_the_same_get_one_answer_and_who_comes_later_a_new_one() -> None:
    async def scene() -> None:
        lane = Lane(4, patience=3600)
        first, same = Job(), going()
        ahead = await asked(lane, "other", first)
        await begun(first)
        waiting = [await asked(lane, "same", same) for _ in range(20)]
        first.go.set()
        found = [await one for one in waiting]
        assert same.times == 1
        assert len({id(one) for one in found}) == 1
        assert (await ahead).body == b"time 1"
        assert (await lane.run("same", same)).body == b"time 2"

    asyncio.run(scene())


def test_what_has_begun_is_not_shared_with_who_asks_then() -> None:
    async def scene() -> None:
        lane = Lane(4, patience=3600)
        slow, fresh = Job(), going()
        early = await asked(lane, "same", slow)
        await begun(slow)
        late = await asked(lane, "same", fresh)  # it may know of something that was written since
        slow.go.set()
        assert (await early) is not (await late)
        assert (slow.times, fresh.times) == (1, 1)

    asyncio.run(scene())


def test_one_at_a_time_in_the_order_in_which_they_came() -> None:
    async def scene() -> None:
        lane = Lane(4, patience=3600)
        jobs = [Job() for _ in range(4)]
        tasks = [await asked(lane, str(number), job) for number, job in enumerate(jobs)]
        for number, job in enumerate(jobs):
            await begun(job)
            assert not any(later.begun.is_set() for later in jobs[number + 1 :])
            job.go.set()
            await tasks[number]

    asyncio.run(scene())


def test_who_is_behind_something_long_goes_past_it() -> None:
    async def scene() -> None:
        lane = Lane(3, patience=0)
        long = [Job(), Job()]
        tasks = [await asked(lane, str(number), job) for number, job in enumerate(long)]
        assert (await lane.run("short", going())).body == b"time 1"
        third, fourth = Job(), Job()
        tasks += [await asked(lane, "third", third), await asked(lane, "fourth", fourth)]
        await begun(third)
        assert not fourth.begun.is_set()  # there are no more threads than that
        for job in (*long, third, fourth):
            job.go.set()
        for task in tasks:
            await task

    asyncio.run(scene())


def test_a_failure_is_told_to_all_and_the_lane_goes_on() -> None:
    async def scene() -> None:
        lane = Lane(1, patience=3600)
        first, bad = Job(), Job(fails=True)
        bad.go.set()
        ahead = await asked(lane, "other", first)
        waiting = [await asked(lane, "bad", bad) for _ in range(2)]
        waiting[0].cancel()  # whoever leaves does not take it from the others
        first.go.set()
        with pytest.raises(ValueError, match="no"):
            await waiting[1]
        await ahead
        assert (await lane.run("good", going())).body == b"time 1"

    asyncio.run(scene())


# ---------------------------------------------------------------------- the site


def test_fifty_at_once_need_few_threads_and_all_get_their_answer(site: Site) -> None:
    pages = ("/", "/sessions", "/usage", "/nodes", "/sessions.json", "/health", "/recall?q=deploy")
    before = set(threading.enumerate())  # those of other sites end a while after them
    with ThreadPoolExecutor(50) as pool:
        found = list(pool.map(lambda number: site.get(pages[number % len(pages)]), range(200)))
    assert {answer.status for answer in found} == {200}
    assert sum("AnyIO" in one.name for one in set(threading.enumerate()) - before) <= 8


def test_an_answer_that_is_kept_knows_every_commit(site: Site, tmp_path: Path) -> None:
    for number in range(3):
        log = Log(tmp_path, f"kept-{number}")
        log.ask("Do you know me?")
        log.write()
        assert f"kept-{number}" not in site.get("/sessions").text
        site.run("capture", "--quiet", "--user-home", str(tmp_path))
        for path in ("/sessions", "/sessions.json", "/api/sessions"):
            assert f"kept-{number}" in site.get(path).text


def test_each_browser_sees_itself_among_the_logins(site: Site) -> None:
    cookies = [site.let_in(f"robot {number}") for number in range(6)]

    def here(cookie: str) -> str:
        answer = site.get("/logins.json", authorization=None, cookie=cookie, host=site.own)
        (one,) = [login["browser"] for login in answer.json["logins"] if login["here"]]
        return str(one)

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(here, cookies)) == [f"robot {number}" for number in range(6)]


def test_what_is_known_is_not_sent_again(site: Site) -> None:
    first = site.get("/sessions.json")
    tag = first.headers["etag"]
    assert site.get("/sessions.json", if_none_match=tag).status == 304
    again = site.get("/sessions.json")
    assert (again.status, again.body) == (200, first.body)


# ---------------------------------------------------------------------- what pages are made of


def test_templates_are_compiled_once_and_a_disk_that_takes_nothing_does_no_harm(
    site: Site, tmp_path: Path
) -> None:
    assert site.get("/usage").status == 200
    folder = site.folder / "cache" / "pages"
    assert list(folder.iterdir())
    assert [path for path in folder.rglob("*") if path.lstat().st_mode & 0o077] == []
    shown = Renderer(ZoneInfo("UTC")).render("problem.html", PROBLEM)
    (tmp_path / "full").write_text("no folder")  # what it writes there fails
    assert (
        Renderer(ZoneInfo("UTC"), lambda: tmp_path / "full").render("problem.html", PROBLEM)
        == shown
    )
    (tmp_path / "torn").mkdir()
    for _ in range(2):
        for kept in (tmp_path / "torn").iterdir():
            kept.write_bytes(kept.read_bytes()[:50])
        again = Renderer(ZoneInfo("UTC"), lambda: tmp_path / "torn")
        assert again.render("problem.html", PROBLEM) == shown
