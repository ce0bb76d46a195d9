"""Files that are removed or replaced under a server: it serves what is there, and nothing else."""

import contextvars
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.asking import data, refused
from tests.support.children import wait_until
from tests.web.site import Answer, Site
from tests.web.test_live import stream
from tests.web.test_streams import BEGINNING, Follower
from tests.web.transcripts import Log
from threadkeep import Home
from threadkeep.base.tx import Sql
from threadkeep.errors import Closed, NotFound
from threadkeep.home.stores import Stores
from threadkeep.knowledge.library import Browse
from threadkeep.mcp.server import make_room
from threadkeep.web import app as live_module
from threadkeep.web.app import StoreWatcher

SIDECARS = ("", "-wal", "-shm")
READS = (
    "/api/sessions",
    "/api/sessions/facets",
    "/api/projects",
    "/api/chat/sessions",
    "/api/state/sessions",
    "/sessions",
    "/",
    "/usage.json",
)


def remove(path: Path) -> None:
    for suffix in SIDECARS:
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def filled(folder: Path, name: str) -> Home:
    """Make a home in which every store has something that is called `name`."""
    home = Home(folder / "home")
    log = Log(folder / "user", f"{name}-1", f"/home/demo/{name}")
    log.ask(f"{name} asks")
    log.answer(f"{name} answers")
    log.write()
    with home.history(user_home=folder / "user") as history:
        history.capture()
    with home.chat() as chat:
        chat.create_session(agent=name, model="m", session_id=name)
    with home.state() as state:
        state.create_session(name, "cli")
    return home


def paths_of(home: Home) -> list[Path]:
    return [home.store_path(name) for name in ("chat", "state", "knowledge")]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    filled(tmp_path / "one", "quagga")
    found = Site(tmp_path / "one" / "home")
    yield found
    found.close()


def read(site: Site, path: str) -> Answer:
    answer = site.get(path)
    assert answer.status in (200, 404), (path, answer.text)
    return answer


def shown(site: Site, name: str) -> list[str]:
    """Return the addresses whose answer has a name in it."""
    return [path for path in READS if name in read(site, path).text]


def test_a_server_shows_what_is_there_now(site: Site, tmp_path: Path) -> None:
    everywhere = shown(site, "quagga")
    assert set(READS) - set(everywhere) <= {"/", "/usage.json"}
    tags = {path: read(site, path).headers.get("etag") for path in READS[:5]}
    other = filled(tmp_path / "two", "okapi")
    for mine, theirs in zip(paths_of(site.home), paths_of(other), strict=True):
        remove(mine)
        assert not Path(f"{theirs}-wal").exists()
        theirs.rename(mine)
    assert shown(site, "quagga") == []
    assert shown(site, "okapi") == everywhere
    assert {path: read(site, path).headers.get("etag") for path in READS[:5]} != tags
    made = site.post("/api/chat/sessions", {"agent": "third", "model": "m"})
    assert made.status == 201
    with site.home.chat(read_only=True) as chat:
        assert {one.agent for one in chat.sessions().items} == {"okapi", "third"}


def test_what_is_gone_is_not_served_on(site: Site, tmp_path: Path) -> None:
    shown(site, "quagga")
    for file in paths_of(site.home):
        remove(file)
    fresh = Site(tmp_path / "fresh" / "home")
    try:
        for path in READS:
            answer, wanted = read(site, path), read(fresh, path)
            assert "quagga" not in answer.text
            assert answer.status == wanted.status, path
            if path.startswith("/api"):
                assert answer.text.replace(str(site.folder), "") == wanted.text.replace(
                    str(fresh.folder), ""
                )
    finally:
        fresh.close()
    assert not any(file.exists() for file in paths_of(site.home)), "looking makes no store"


def test_a_page_that_is_open_is_told_of_another_file(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    following, follow = threading.Event(), StoreWatcher._follow

    def watched(live: StoreWatcher, browse: Browse) -> None:
        following.set()
        follow(live, browse)

    monkeypatch.setattr(StoreWatcher, "_follow", watched)
    monkeypatch.setattr(live_module, "_MISSING_SECONDS", 0.01)
    knowledge = site.home.store_path("knowledge")
    other = filled(tmp_path / "two", "okapi").store_path("knowledge")
    connection, heard = stream(site)
    assert following.wait(60)
    remove(knowledge)
    assert next_event(heard) == b'data: {"sessions":[]}\n'
    other.rename(knowledge)
    assert next_event(heard) == b'data: {"sessions":[]}\n'
    connection.close()


def next_event(heard: Any) -> bytes:
    while not (line := heard.readline()).startswith(b"data: "):
        assert line
    return line  # type: ignore[no-any-return]


def test_a_reply_that_is_followed_ends_with_its_file(site: Site) -> None:
    with site.home.chat() as chat:
        session = chat.create_session(agent="a", model="m", session_id="followed")
        recorder = chat.record(session)
        for chunk in BEGINNING:
            recorder.feed(chunk)
        follower = Follower(site, "followed")
        assert follower.status == 200
        assert len(follower.next(len(BEGINNING))) == len(BEGINNING)
        remove(site.home.store_path("chat"))
        assert follower.rest() == ["data: [DONE]"]
        follower.close()
    assert site.get("/api/chat/followed/stream").status == 204


# ---------------------------------------------------------------------- those who are at it


def closed(database: Any) -> bool:
    return bool(database.closed)


def test_who_uses_a_store_goes_on_with_it_and_the_last_one_closes_it(tmp_path: Path) -> None:
    home = filled(tmp_path / "one", "quagga")
    stores = Stores(home)
    with stores.using():
        browse, memory, chat = stores.browse(), stores.memory(), stores.chat("begin")
        with stores.using():
            assert stores.browse() is browse
        for path in paths_of(home):
            remove(path)
        told: list[str] = []

        def ask() -> None:
            with stores.using():
                try:
                    stores.browse()
                except NotFound as error:
                    told.append(error.message)

        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        assert len(told) == 1
        assert len(browse.sessions().items) == 1
        with memory.store.context.db.read() as tx:
            assert tx.one(Sql("SELECT count(*) FROM tk_sessions")) == (1,)
        assert stores.chat("begin") is not chat  # one that is not there is begun
        assert len(chat.sessions().items) == 1
    wait_until(lambda: closed(browse.database) and closed(chat.context.db))
    assert not closed(stores.chat("begin").context.db)
    memory_open = not closed(memory.store.context.db)
    assert memory_open, "nobody asked for it again"
    stores.close()
    assert closed(memory.store.context.db)


def test_a_thread_that_works_on_after_its_answer_keeps_nothing_open(tmp_path: Path) -> None:
    home = filled(tmp_path / "one", "quagga")
    stores = Stores(home)
    with stores.using():
        late = contextvars.copy_context()
    browse = late.run(stores.browse)
    stores.close()
    with pytest.raises(Closed):
        browse.sessions()


def test_agents_are_told_of_what_is_there_now(tmp_path: Path) -> None:
    home = filled(tmp_path / "one", "quagga")
    room = make_room(Stores(home))
    assert [one["project"] for one in data(room, "list_sessions")["sessions"]] == ["quagga"]
    knowledge = home.store_path("knowledge")
    remove(knowledge)
    assert data(room, "list_sessions")["sessions"] == []  # as over HTTP
    assert "there is no knowledge store" in refused(room, "recall", query="asks")
    filled(tmp_path / "two", "okapi").store_path("knowledge").rename(knowledge)
    assert [one["project"] for one in data(room, "list_sessions")["sessions"]] == ["okapi"]
    room.stores.close()


def test_a_link_that_leads_elsewhere_is_another_file(tmp_path: Path) -> None:
    home = filled(tmp_path / "one", "quagga")
    other = filled(tmp_path / "two", "okapi")
    link = tmp_path / "link.db"
    link.symlink_to(home.store_path("knowledge"))
    stores = Stores(home, str(link))
    assert stores.browse().sessions().items[0].session.project == "quagga"
    link.unlink()
    link.symlink_to(other.store_path("knowledge"))
    assert stores.browse().sessions().items[0].session.project == "okapi"
    stores.close()


def test_a_request_that_is_answered_meanwhile_ends_well(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions, nested = Browse.sessions, list[Answer]()

    def interrupted(browse: Browse, *args: Any, **options: Any) -> Any:
        if not nested and options["limit"] > 1:  # one is what the server warms up with
            monkeypatch.setattr(Browse, "sessions", sessions)
            remove(site.home.store_path("knowledge"))
            nested.append(read(site, "/api/sessions"))  # it notices, and opens anew
        return sessions(browse, *args, **options)

    monkeypatch.setattr(Browse, "sessions", interrupted)
    answer = read(site, "/api/sessions")
    assert "quagga" in answer.text
    assert "quagga" not in nested[0].text
    assert "quagga" not in read(site, "/api/sessions").text


# ---------------------------------------------------------------------- what others write meanwhile


def test_memory_that_only_reads_gives_way_when_the_index_falls_behind(site: Site) -> None:
    home = site.home
    with home.history(must_exist=True) as history:
        history.store.index()
    stores = Stores(home)
    try:
        assert not stores.memory().store.access.writable
        with home.knowledge() as store:
            with store.write() as tx:  # as another program would
                sql = "INSERT INTO knowledge_nodes"
                sql += " (uuid, content, embed_text, created_at, updated_at)"
                tx.run(Sql(sql + " VALUES ('n-1', '{}', 'the quokka sleeps', 1, 1)"))
            (hit,) = stores.memory().recall("quokka").hits
            assert hit.uuid == "n-1"
            assert store.index() == 0  # the question has brought it up
    finally:
        stores.close()
