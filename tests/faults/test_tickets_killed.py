"""Several workers on one queue, and one is killed: nothing is done twice, nothing is lost."""

from pathlib import Path

import pytest

from tests.support.children import Child
from tests.support.tickets import LONG_AGO, NOW, add_event, add_ticket, column
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.knowledge.tickets import LOCK_TIMEOUT_MS, depths, reap

pytestmark = pytest.mark.faults

EVENTS = 60
WORKER = """
import sys, uuid
from threadkeep.knowledge.drafts import Draft, Evidence, Mentions
from threadkeep.knowledge.nodes import write_node
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.knowledge.tickets import claim, held

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
