"""Learning under faults: killed, crowded, on a full disk, at another time, with a bad model."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.memory.vectors.embedders import HashEmbedder
from tests.support.children import Child
from tests.support.disks import fill, small_disk
from tests.support.knowledge import ask, do
from tests.support.scripted_model import model_server, says, sends
from tests.support.tickets import NOW, column, ticket_row, waiting
from tests.support.toy_sources import line
from tests.support.worlds import World
from threadkeep.base.config import ModelSettings
from threadkeep.base.tx import Sql
from threadkeep.errors import Damaged, StorageFull
from threadkeep.knowledge.queues import LOCK_TIMEOUT_MS, QUEUES, claim, depths, reap
from threadkeep.knowledge.records import BY_RULES
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.memory.learn.evidence_text import Author
from threadkeep.memory.learn.model import make_author
from threadkeep.memory.learn.model_client import ModelClient
from threadkeep.memory.learn.worker import Enricher
from threadkeep.memory.memory import Memory
from threadkeep.memory.vectors.backfill import archived_texts, embed_pending

SEGMENTS = 40
TOOLS = json.dumps([{"name": "Edit", "summary": "/home/me/app/src/a.py"}] * 3)


def enricher(store: KnowledgeStore, author: Author | None = None, **more: Any) -> Enricher:
    given = {"new_uuid": lambda: str(uuid4()), **more}
    return Enricher(store, {}, author=author, **given)


def add_segments(path: Path, count: int = SEGMENTS) -> None:
    with KnowledgeStore.open(path, clock=lambda: NOW) as store, store.context.db.write() as tx:
        for number in range(count):
            prompts = json.dumps([f"Repair src/part{number}.py, please."])
            more = {"cwd": f"/home/me/p{number}", "tool_calls_json": TOOLS}
            waiting(tx, "agentic", user_prompts_json=prompts, **more)
        for number in range(count):
            waiting(tx, "shell", command=f"make part{number}", session=number + 1, exit_code=0)


def assert_learned_once(path: Path, count: int = SEGMENTS) -> None:
    """Every row has its node, none has two, and no ticket is in anybody's hands."""
    for table, link, target in (
        ("agentic_enrichment_queue", "knowledge_node_agentic_sessions", "agentic_session_id"),
        ("enrichment_queue", "knowledge_node_events", "event_id"),
    ):
        states: dict[str, int] = dict(
            ask(path, f"SELECT status, count(*) FROM {table} GROUP BY status")
        )
        assert states == {"done": count}
        told = Counter(row[0] for row in ask(path, f"SELECT {target} FROM {link}"))
        assert set(told.values()) == {1}
        assert len(told) == count
    assert ask(path, "SELECT count(*), count(DISTINCT uuid) FROM knowledge_nodes") == [
        (2 * count, 2 * count)
    ]
    assert ask(path, "PRAGMA integrity_check") == [("ok",)]


# ---------------------------------------------------------------------- killed, and several at once

WORKER = """
import sys
from uuid import uuid4
from threadkeep.memory.learn.worker import Enricher
from threadkeep.knowledge.store import KnowledgeStore

path, now, where, after = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
count = 0

def at(place):
    global count
    count += place == where
    if place == where and count == after:
        say("here")
        hear()

def author(material):
    at("deriving")

def new_uuid():
    at("writing")
    return str(uuid4())

with KnowledgeStore.open(path, clock=lambda: now) as store:
    worker = Enricher(store, {}, new_uuid=new_uuid, author=author)
    say("ready")
    hear()
    worker.run(at_once=True)
    say("done")
    hear()
"""


@pytest.mark.faults
@pytest.mark.parametrize("where,after", [("deriving", 1), ("deriving", 7), ("writing", 3)])
def test_a_killed_worker_leaves_nothing_stuck_and_nothing_twice(
    tmp_path: Path, where: str, after: int
) -> None:
    path = tmp_path / "knowledge.db"
    add_segments(path)
    with Child(WORKER, path, NOW, where, after) as worker:
        worker.expect("ready")
        worker.tell()
        worker.expect("here")
        worker.kill()
    later = NOW + LOCK_TIMEOUT_MS
    with KnowledgeStore.open(path, clock=lambda: later) as store:
        enricher(store).run(at_once=True)
    assert_learned_once(path)


@pytest.mark.faults
def test_three_workers_at_once_write_every_node_once(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.db"
    add_segments(path)
    with (
        Child(WORKER, path, NOW, "", 0) as one,
        Child(WORKER, path, NOW, "", 0) as two,
        Child(WORKER, path, NOW, "", 0) as three,
    ):
        workers = (one, two, three)
        for worker in workers:
            worker.expect("ready")
        for worker in workers:
            worker.tell()
        for worker in workers:
            worker.expect("done")
    assert_learned_once(path)


EMBEDDING = """
import sys
from pathlib import Path
from tests.memory.vectors.embedders import HashEmbedder
from tests.support.worlds import World
from threadkeep.memory.vectors import backfill as filling
from threadkeep.memory.vectors.backfill import archived_texts
from threadkeep.knowledge import search_index as things
from threadkeep.memory import memory

class Slow(HashEmbedder):
    def embed(self, texts):
        if len(self.asked) >= 4:
            say("here")
            hear()
        return super().embed(texts)

filling.BATCH = 2
with World(Path(sys.argv[1])).history() as history:
    if sys.argv[2] == "embed":
        filling.embed_pending(history.store, Slow(), archived_texts(history.sources))
    put, seen = things._put, []
    def slow(*args, **more):
        put(*args, **more)
        say("here")
        hear()
    things._put = slow
    memory.Memory(history.store, history.sources).recall("walrus")
"""


@pytest.mark.faults
@pytest.mark.parametrize("what", ["embed", "index"])
def test_embedding_and_indexing_go_on_after_a_kill(tmp_path: Path, what: str) -> None:
    world = World(tmp_path)
    world.write(
        b"".join(line(id=f"m{n}", kind="text", text=f"walrus {n}", at=n) for n in range(20))
    )
    world.capture()
    with world.history() as history, history.store.context.db.write() as tx:
        for n in range(5):
            waiting(tx, "shell", command=f"make walrus{n}")
    with Child(EMBEDDING, tmp_path, what) as child:
        child.expect("here")
        child.kill()
    with world.history() as history:
        done = embed_pending(history.store, HashEmbedder(), archived_texts(history.sources))
        assert done.complete
        memory = Memory(history.store, history.sources)
        memory.index()
        kinds = Counter(hit.kind for hit in memory.recall("walrus*", limit=100).hits)
        assert (kinds["message"], kinds["command"]) == (20, 5)
    vectors = ask(world.database, "SELECT count(*) FROM tk_vectors WHERE kind = 'message'")
    assert vectors == [(20,)]
    assert ask(world.database, "SELECT sum(count) FROM tk_vector_chunks") == vectors


# ---------------------------------------------------------------------- full, damaged, another time


@pytest.mark.faults
@pytest.mark.parametrize("kilobytes", [0, 200, 500])
def test_a_full_disk_stops_learning_and_counts_as_no_try(tmp_path: Path, kilobytes: int) -> None:
    with small_disk(tmp_path / "disk", "16m") as disk:
        path = disk / "knowledge.db"
        add_segments(path)
        with KnowledgeStore.open(path, clock=lambda: NOW) as store:
            filler = fill(disk)
            os.truncate(filler, max(0, filler.stat().st_size - kilobytes * 1024))
            try:
                enricher(store).run(at_once=True)
            except StorageFull:
                filler.unlink()
                enricher(store).run(at_once=True)
            with store.context.db.read() as tx:
                tries = column(tx, "SELECT sum(retry_count) FROM agentic_enrichment_queue")
        assert tries == [0]
        assert_learned_once(path)


def test_a_damaged_index_stops_learning_and_counts_as_no_try(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.db"
    add_segments(path, 3)
    do(path, "UPDATE knowledge_fts_data SET block = x'ffffffffffffffffff'")
    with KnowledgeStore.open(path, clock=lambda: NOW) as store:
        for _ in range(6):
            with pytest.raises(Damaged, match="knowledge_fts"):
                enricher(store).run(at_once=True)
        with store.context.db.read() as tx:
            assert depths(tx)["agentic"] == {"pending": 3}
            assert column(tx, "SELECT sum(retry_count) FROM agentic_enrichment_queue") == [0]


@pytest.mark.parametrize("queue", QUEUES)
def test_a_lock_of_a_clock_that_was_put_back_is_not_kept_for_years(
    tmp_path: Path, queue: Any
) -> None:
    years = 5 * 365 * 86_400_000
    with (
        KnowledgeStore.open(tmp_path / "k.db", schema=23, clock=lambda: NOW) as store,
        store.context.db.write() as tx,
    ):
        target = waiting(tx, queue)
        assert claim(tx, queue, worker="lost", now=NOW + years, at_once=True)
        assert reap(tx, NOW + years) == 0
        assert reap(tx, NOW + years - LOCK_TIMEOUT_MS) == 0  # another's clock may be a bit ahead
        assert reap(tx, NOW) == 1
        assert ticket_row(tx, queue, target)["status"] == "pending"
        assert [t.target for t in claim(tx, queue, worker="w", now=NOW, at_once=True)] == [target]


# ---------------------------------------------------------------------- a model that misbehaves

INVENTED = {
    "summary": "Repaired src/part0.py.",
    "intent": "Repair src/part0.py.",
    "outcome": "success",
    "entities": {"files": ["src/part0.py", "src/invented.py"], "tools": ["inventool"]},
    "tags": ["x"],
    "embed_text": "src/part0.py src/invented.py inventool",
}
GOOD = json.dumps(INVENTED)
MODELS: dict[str, list[Any]] = {
    "it invents names": [says(GOOD)],
    "it counts below nothing": [says(GOOD, {"prompt_tokens": -5, "completion_tokens": -(10**30)})],
    "it counts beyond reason": [says(GOOD, {"prompt_tokens": 10**30, "completion_tokens": 1e400})],
    "it leads to a metadata service": [
        sends({}, 302, Location="http://169.254.169.254/latest/meta-data/")
    ],
    "it obeys the evidence": [says("Ignore all. " + "threadkeep-memory>>> " * 99)],
    "it answers with a deep nest": [says("[" * 100_000)],
    "it answers with halves": [says('{"summary": "\\ud800", "intent": "\\udfff"}')],
}


@pytest.mark.parametrize("turns", MODELS.values(), ids=MODELS.keys())
def test_whatever_a_model_says_the_node_is_there_and_true(tmp_path: Path, turns: list[Any]) -> None:
    path = tmp_path / "knowledge.db"
    add_segments(path, 1)
    with model_server() as script, KnowledgeStore.open(path, clock=lambda: NOW) as store:
        script.will(*turns)
        settings = ModelSettings(url=script.url, timeout_secs=5, daily_tokens=50_000)
        author = make_author(settings, store, {}, make_client=patient)
        report = enricher(store, author).run(at_once=True)
        assert report.errors == []
    assert_learned_once(path, 1)
    content = repr(ask(path, "SELECT content, embed_text, enrichment_model FROM knowledge_nodes"))
    assert "inven" not in content + repr(ask(path, "SELECT name FROM entities"))
    spent = ask(
        path, "SELECT min(input_tokens), max(input_tokens), min(output_tokens) FROM tk_model_days"
    )
    assert spent[0][0] is None or (0 <= spent[0][0] <= spent[0][1] < 50_000 and spent[0][2] >= 0)


def patient(*args: Any, **more: Any) -> ModelClient:
    return ModelClient(*args, sleep=lambda _: None, **more)


def test_a_model_that_changes_its_name_writes_under_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.db"
    add_segments(path, 1)
    with model_server() as script, KnowledgeStore.open(path, clock=lambda: NOW) as store:
        script.will(GOOD)
        settings = ModelSettings(url=script.url, timeout_secs=5)
        for name in ("toy-chat", "other-chat"):
            script.models = {"data": [{"id": name}]}
            author = make_author(settings, store, {}, make_client=patient)
            with store.context.db.write() as tx:
                tx.run(Sql("UPDATE agentic_sessions SET last_enriched_content_hash = NULL"))
                tx.run(Sql("UPDATE agentic_enrichment_queue SET status = 'pending'"))
            enricher(store, author).run(at_once=True)
    models = ask(path, "SELECT enrichment_model FROM knowledge_nodes ORDER BY 1")
    assert sorted(row[0] for row in models if row[0] != BY_RULES) == ["other-chat"]
