"""Which parts run, when they work, and what a process that was killed had in hand."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.collect_world import World, end
from threadkeep.base.config import EnrichSettings
from threadkeep.base.database import Database
from threadkeep.base.tx import Sql
from threadkeep.capture.observed.server import CollectorServer
from threadkeep.errors import ThreadkeepError
from threadkeep.knowledge.queues import claim, worker_name
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.memory.learn.identifiers import project_roots
from threadkeep.service.learn import (
    enrich,
    learn,
    reap_tickets,
    release_claims,
)
from threadkeep.service.parts import ServiceContext, all_parts, when_changed
from threadkeep.service.supervisor import Bell

LATER = 2_000_000_000_000


def names(world: World) -> set[str]:
    with (
        world.home.observations() as observations,
        world.home.history(user_home=world.folder) as history,
    ):
        sockets = (world.folder / "daemon.sock",)
        around = ServiceContext(world.home, history, observations, "1", sockets, lambda _: None)
        return {part.name.partition(" ")[0] for part in all_parts(around)}


def test_the_configuration_says_which_parts_run(tmp_path: Path) -> None:
    always = {"capture", "collect", "socket", "probes", "index", "lessons"}
    usual = names(World(tmp_path / "usual", '[embeddings]\nprovider = "off"\n'))
    assert usual == always | {"enrich", "watchdog", "maintenance"}
    off = "[serve]\nenrich = false\nwatchdog = false\nmaintenance = false\n"
    few = names(World(tmp_path / "few", off + '[embeddings]\nprovider = "off"\n'))
    assert few == always
    ci = names(World(tmp_path / "ci", "[github]\nenabled = true\n[enrich]\nenabled = false\n"))
    assert "ci" in ci
    assert "enrich" not in ci


def test_a_socket_that_breaks_down_ends_its_part_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(_: CollectorServer) -> None:
        raise OSError("out of descriptors")

    monkeypatch.setattr(CollectorServer, "_listen", break_down)
    world = World(tmp_path / "home")
    bell, told = Bell(threading.Event()), list[str]()
    with (
        world.home.observations() as observations,
        world.home.history(user_home=world.folder) as history,
    ):
        place = tmp_path / "daemon.sock"
        around = ServiceContext(world.home, history, observations, "1", (place,), told.append)
        (part,) = (one for one in all_parts(around) if one.name.startswith("socket"))
        with pytest.raises(ThreadkeepError, match="out of descriptors"):
            part.run(bell)
    assert not bell.stop.is_set()
    assert not place.exists()


class Rounds:
    """A bell that does something in each pause, and stops after the last."""

    def __init__(self, *pauses: Callable[[], None]) -> None:
        self.stop = threading.Event()
        self._pauses = list(pauses)

    def wait(self, _: float | None) -> bool:
        if not self._pauses:
            self.stop.set()
        else:
            self._pauses.pop(0)()
        return not self.stop.is_set()


def test_work_is_done_when_somebody_wrote_and_now_and_then_without(tmp_path: Path) -> None:
    with KnowledgeStore.open(tmp_path / "k.db") as store:
        database, now, worked = store.context.db, 0.0, list[float]()

        def write() -> None:
            with database.write() as tx:
                tx.run(Sql("UPDATE source_health SET updated_at = updated_at + 1"))

        def pass_by() -> None:
            nonlocal now
            now += 100

        bell = Rounds(lambda: None, write, lambda: None, pass_by)
        part = when_changed(
            database, lambda _: worked.append(now), anyway=60.0, monotonic=lambda: now
        )
        part(bell)  # type: ignore[arg-type]
        assert worked == [0.0, 0.0, 100.0]


def hold(database: Database, worker: str) -> int:
    with database.write() as tx:
        return len(claim(tx, "shell", worker=worker, now=LATER, limit=1, at_once=True))


def test_only_what_this_process_held_is_given_back(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    world.append(end(1, "make a", session="a") + end(2, "make b", session="b"))
    world.collect()
    with world.home.knowledge() as store:
        database = store.context.db
        assert hold(database, worker_name("1")) == hold(database, "hippo-brain-7") == 1
        assert not store.queues.tickets_wait()
        assert reap_tickets(store, LATER) == 0
        assert release_claims(store) == 1
        assert store.queues.tickets_wait()
        assert release_claims(store) == 0
    held = "SELECT locked_by, retry_count FROM enrichment_queue ORDER BY locked_by"
    assert world.rows(held) == [(None, 0), ("hippo-brain-7", 0)]


def test_commands_become_knowledge_that_is_found(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    world.append(b"".join(end(n, f"cargo test --package widget{n}") for n in range(4)))
    world.collect()
    with world.home.history(user_home=world.folder) as history:
        report = enrich(world.home, history, at_once=True, tell=lambda _: None)
        assert report.nodes > 0
        assert history.store.index() > 0
        assert history.store.index() == 0
        assert learn(world.home, history) == 0
    (found,) = world.rows("SELECT count(*) FROM tk_things WHERE kind IN ('node', 'command')")
    assert found[0] >= 5


def test_roots_of_projects_are_named_or_found(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    assert project_roots(EnrichSettings(), environ) == ()
    for name in ("b/.git", "a/.git", "plain"):
        (tmp_path / "projects" / name).mkdir(parents=True)
    below = tmp_path / "projects"
    assert project_roots(EnrichSettings(), environ) == (str(below / "a"), str(below / "b"))
    named = EnrichSettings(project_roots=("~/x", "/y"))
    assert project_roots(named, environ) == (str(tmp_path / "x"), "/y")
    assert project_roots(EnrichSettings(), {}) == ()
