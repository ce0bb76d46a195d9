"""Several workers on one queue, and one is killed: nothing is done twice, nothing is lost."""

import os
import signal
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.children import Child, exit_code, fork
from tests.support.tickets import LONG_AGO, NOW, add_event, add_ticket, column, waiting
from threadkeep.base.clock import now_ms
from threadkeep.base.json import encode
from threadkeep.base.processes import my_mark, my_place
from threadkeep.home.home import Home
from threadkeep.knowledge.queues import LOCK_TIMEOUT_MS, QUEUES, Locks, claim, depths, locks, reap
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.memory.learn.evidence_text import Material
from threadkeep.memory.learn.worker import Enricher
from threadkeep.service.doctor.doctor import diagnose
from threadkeep.service.doctor.facts import Finding

pytestmark = pytest.mark.faults

EVENTS = 60
# A store at 18 has no queue of memories.
OF_18 = [queue for queue in QUEUES if queue != "memory"]
HOLDER = """
import sys
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.knowledge.queues import QUEUES, claim, worker_name

with KnowledgeStore.open(sys.argv[1]) as store, store.context.db.write() as tx:
    worker = worker_name("w")
    for queue in (one for one in QUEUES if one != "memory"):
        assert claim(tx, queue, worker=worker, now=int(sys.argv[2]), at_once=True)
say(worker)
hear()
"""
WORKER = """
import sys, uuid
from threadkeep.knowledge.records import NodeDraft as Draft, Evidence, Mentions
from threadkeep.knowledge.nodes import write_node
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.knowledge.queues import claim, held

path, worker, now = sys.argv[1], sys.argv[2], int(sys.argv[3])
with KnowledgeStore.open(path) as store:
    say("ready")
    while hear() == "go":
        with store.context.db.write() as tx:
            tickets = claim(tx, "shell", worker=worker, now=now, limit=3)
        say(" ".join(str(ticket.target) for ticket in tickets) or "nothing")
        if not tickets or hear() != "write":
            continue
        for ticket in tickets:
            with store.context.db.write() as tx:
                for mine in held(tx, [ticket]):
                    said = f"command {mine.target}"
                    draft = Draft(said, "work", entities=Mentions(tools=("make",)), embed_text=said)
                    evidence = Evidence(events=(mine.target,))
                    write_node(
                        tx, "shell", draft, evidence, model="m", now=now, uuid=str(uuid.uuid4())
                    )
        say("written")
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with KnowledgeStore.open(tmp_path / "knowledge.db") as store, store.context.db.write() as tx:
        for n in range(EVENTS):
            add_ticket(tx, "shell", add_event(tx, session=n + 1, at=LONG_AGO + n))
    return tmp_path / "knowledge.db"


def checked(home: Home) -> dict[str, Finding]:
    found = diagnose(home, version="1").findings
    return {one.check: one for one in found if one.check.startswith("queue")}


def test_the_locks_of_a_dead_process_are_told_and_taken_at_once(tmp_path: Path) -> None:
    home, now = Home(tmp_path, environ={"HOME": str(tmp_path)}), now_ms()
    with home.knowledge() as store:
        database, path = store.context.db, home.knowledge_path()
        with database.write() as tx:
            for queue in OF_18:
                waiting(tx, queue)
        with Child(HOLDER, path, now) as holder:
            assert holder.hear().startswith("threadkeep-")
            with database.write() as tx:
                assert locks(tx, now)["shell"] == Locks(held=1, lost=0)
                assert reap(tx, now) == 0
            assert checked(home)["queues"].what == "0 queued, 4 in hand, none failed"
            busy = Enricher(store, {}, new_uuid=lambda: str(uuid4())).run(at_once=True)
            assert (busy.taken, [one.held for one in busy.queues.values()]) == (0, [1, 1, 1, 1])
            holder.kill()
        with database.read() as tx:
            assert locks(tx, now)["shell"] == Locks(held=1, lost=1)
        told = checked(home)
        assert set(told) == {f"queue {queue}" for queue in OF_18}
        assert {(one.level, one.fix) for one in told.values()} == {("warn", "threadkeep enrich")}
        report = Enricher(store, {}, new_uuid=lambda: str(uuid4())).run(at_once=True)
        assert report.taken == len(OF_18)
        assert report.errors == []
    assert checked(home)["queues"].what == "0 queued, none failed"


def test_what_nobody_here_can_tell_keeps_its_ten_minutes(path: Path) -> None:
    pid, start, boot = my_mark().split(":")
    places = (f"elsewhere/{my_mark()}", f"elsewhere/1:1:{boot}", "hippo-brain-7", "threadkeep-7")
    with KnowledgeStore.open(path) as store, store.context.db.write() as tx:
        for place in places:
            name = place if "/" not in place else f"threadkeep-{place}/w"
            assert len(claim(tx, "shell", worker=name, now=NOW, limit=1)) == 1
        assert reap(tx, NOW + LOCK_TIMEOUT_MS - 1) == 0
        assert reap(tx, NOW + LOCK_TIMEOUT_MS) == len(places)
        host = my_place().partition("/")[0]
        for mark in (f"{pid}:{int(start) + 1}:{boot}", f"{pid}:{start}:another-boot"):
            name = f"threadkeep-{host}/{mark}/w"
            assert len(claim(tx, "shell", worker=name, now=NOW, limit=1)) == 1
            assert reap(tx, NOW) == 1


def dies_of_a_bomb(material: Material) -> None:
    if "bomb" in str(material):
        os.kill(os.getpid(), signal.SIGKILL)


def learn(path: Path) -> None:
    with KnowledgeStore.open(path) as store:
        worker = Enricher(store, {}, new_uuid=lambda: str(uuid4()), author=dies_of_a_bomb)
        worker.run(at_once=True)


def test_a_ticket_that_ends_its_workers_fails_alone(tmp_path: Path) -> None:
    path, names = tmp_path / "k.db", ["bomb", *(f"part{n}" for n in range(9))]
    with KnowledgeStore.open(path) as store, store.context.db.write() as tx:
        for name in names:
            waiting(tx, "agentic", user_prompts_json=encode([f"Fix {name}."]), message_count=9)
    ends = [exit_code(fork(lambda: learn(path))) for _ in range(6)]
    assert ends == [-signal.SIGKILL] * 5 + [0]
    with KnowledgeStore.open(path) as store, store.context.db.read() as tx:
        assert depths(tx)["agentic"] == {"done": 9, "failed": 1}


def drain(*workers: Child) -> list[str]:
    """Let workers take and write side by side until nothing is left; give what they took."""
    taken: list[str] = []
    busy = list(workers)
    while busy:
        for worker in busy:
            worker.tell("go")
        said = [worker.hear() for worker in busy]
        busy = [worker for worker, words in zip(busy, said, strict=True) if words != "nothing"]
        for worker in busy:
            worker.tell("write")
        for worker in busy:
            worker.expect("written")
        taken += (target for words in said if words != "nothing" for target in words.split())
    return taken


def test_a_worker_that_dies_leaves_its_tickets_to_the_others(path: Path) -> None:
    later = NOW + LOCK_TIMEOUT_MS
    with (
        Child(WORKER, path, "one", NOW) as one,
        Child(WORKER, path, "two", NOW) as two,
        Child(WORKER, path, "dead", NOW) as dead,
        Child(WORKER, path, "late", later) as late,
        KnowledgeStore.open(path) as store,
    ):
        for worker in (one, two, dead, late):
            worker.expect("ready")
        dead.tell("go")
        lost = dead.hear().split()
        dead.kill()
        taken = drain(one, two)
        with store.context.db.write() as tx:
            assert depths(tx)["shell"] == {"done": EVENTS - 3, "processing": 3}
            assert reap(tx, later - 1) == 0
            assert reap(tx, later) == 3
        taken += drain(late)
        assert sorted(map(int, taken)) == list(range(1, EVENTS + 1))
        assert taken[-3:] == lost
        with store.context.db.read() as tx:
            assert depths(tx)["shell"] == {"done": EVENTS}
            told = column(tx, "SELECT event_id FROM knowledge_node_events ORDER BY event_id")
            assert told == list(range(1, EVENTS + 1))
            assert column(tx, "SELECT count(*) FROM knowledge_nodes") == [EVENTS]
            assert column(tx, "SELECT count(*) FROM entities") == [1]
