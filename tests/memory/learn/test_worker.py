"""The worker: every ticket dealt with once, failures alone, nothing left in hand."""

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.support.tickets import (
    LONG_AGO,
    NOW,
    add_ticket,
    add_visit,
    column,
    insert,
    status_of,
    ticket_row,
    waiting,
)
from tests.support.user_homes import made_up_home, open_history, real_home
from threadkeep.base.tx import Sql, Tx
from threadkeep.capture.engine import CaptureFilter
from threadkeep.errors import ReadOnly
from threadkeep.knowledge.kinds import Queue
from threadkeep.knowledge.queues import requeue
from threadkeep.knowledge.records import BY_RULES, NodeDraft
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.memory.learn.evidence_text import Author, Material
from threadkeep.memory.learn.worker import Enricher, EnrichReport
from threadkeep.testing import KnowledgeFactory

TOOLS = json.dumps([{"name": "Edit", "summary": "/home/me/app/src/a.py"}])
PROMPTS = json.dumps(["Fix the parser in src/a.py."])


@pytest.fixture
def store(knowledge_factory: KnowledgeFactory) -> Iterator[KnowledgeStore]:
    with knowledge_factory.open(clock=lambda: NOW) as opened:
        yield opened


def enricher(store: KnowledgeStore, author: Author | None = None) -> Enricher:
    return Enricher(store, {}, new_uuid=lambda: str(uuid4()), author=author)


def segment(tx: Tx, name: str = "a", **values: Any) -> int:
    given = {"tool_calls_json": TOOLS, "user_prompts_json": PROMPTS.replace("a.py", f"{name}.py")}
    return waiting(tx, "agentic", **{**given, **values})


def nodes(store: KnowledgeStore) -> list[tuple[str, str, str, str]]:
    sql = "SELECT content, outcome, node_type, enrichment_model FROM knowledge_nodes ORDER BY id"
    with store.context.db.read() as tx:
        return tx.all(Sql(sql))


def by_model(name: str) -> Author:
    def write(material: Material) -> tuple[NodeDraft, str]:
        return NodeDraft(f"written by {name}", material.project, embed_text="said"), name

    return write


def test_every_queue_becomes_nodes_with_links_entities_and_tickets_done(
    store: KnowledgeStore,
) -> None:
    with store.context.db.write() as tx:
        targets: dict[Queue, int] = {
            "agentic": segment(tx),
            "shell": waiting(tx, "shell", command="make test", exit_code=0, git_branch="main"),
            "browser": waiting(tx, "browser", title="WAL", dwell_ms=200_000),
            "workflow": waiting(tx, "workflow", conclusion="timed_out"),
        }
    report = enricher(store).run()
    assert (report.nodes, report.by_author, report.errors) == (4, 0, [])
    for queue, target in targets.items():
        assert (report.queues[queue].done, report.queues[queue].waiting) == (1, 0)
        with store.context.db.read() as tx:
            assert status_of(tx, queue, target) == "done"
    found = {content["intent"]: row for row in nodes(store) if (content := json.loads(row[0]))}
    assert found["Fix the parser in src/a.py."][2:] == ("observation", BY_RULES)
    ci = next(row for row in found.values() if row[2] == "change_outcome")
    assert ci[1] == "timed_out"
    assert json.loads(ci[0])["outcome"] == "failure"
    with store.context.db.read() as tx:
        assert column(tx, "SELECT enriched FROM events") == [1]
        assert "src/a.py" in column(tx, "SELECT name FROM entities WHERE type = 'file'")
        linked = column(tx, "SELECT agentic_session_id FROM knowledge_node_agentic_sessions")
    assert linked == [targets["agentic"]] * 2  # its own node, and that of the run of its project


def test_a_second_run_finds_nothing_to_do(store: KnowledgeStore) -> None:
    with store.context.db.write() as tx:
        segment(tx)
    enricher(store).run()
    before = nodes(store)
    assert enricher(store).run().taken == 0
    assert nodes(store) == before


def test_commands_of_a_session_become_one_node_with_the_pages_read_meanwhile(
    store: KnowledgeStore,
) -> None:
    with store.context.db.write() as tx:
        for at, text in enumerate(("make", "clear", "make test")):
            waiting(tx, "shell", command=text, at=LONG_AGO + at * 1000, duration_ms=50)
        add_visit(tx, at=LONG_AGO + 60_000, title="GNU make manual")
        probe = add_visit(tx, at=LONG_AGO, title="synthetic page")
        tx.run(Sql("UPDATE browser_events SET probe_tag = 'p' WHERE id = :id"), {"id": probe})
    report = enricher(store).run()
    assert (report.queues["shell"].nodes, report.queues["shell"].skipped) == (1, 1)
    ((content, *_),) = nodes(store)
    assert "GNU make manual" in content
    assert "synthetic" not in content
    with store.context.db.read() as tx:
        reasons = column(tx, "SELECT error_message FROM enrichment_queue WHERE status = 'skipped'")
    assert reasons == ["'clear' without output, over after 50 ms"]


def test_a_session_that_still_runs_is_waited_for_unless_it_is_wanted_at_once(
    store: KnowledgeStore,
) -> None:
    with store.context.db.write() as tx:
        waiting(tx, "shell", at=NOW - 1000)
    report = enricher(store).run()
    assert (report.nodes, report.queues["shell"].waiting) == (0, 1)
    assert enricher(store).run(at_once=True).nodes == 1


def test_what_fails_is_given_back_alone_with_its_reason(store: KnowledgeStore) -> None:
    def picky(material: Material) -> None:
        if "src/b.py" in material.source:
            raise RuntimeError("no words for b")

    with store.context.db.write() as tx:
        targets = [segment(tx, name) for name in ("a", "b", "c")]
    report = enricher(store, picky).run()
    counts = report.queues["agentic"]
    assert (counts.nodes, counts.failed, counts.waiting) == (2, 1, 1)
    assert report.errors == ["RuntimeError: no words for b"]
    with store.context.db.read() as tx:
        assert [status_of(tx, "agentic", one) for one in targets] == ["done", "pending", "done"]
        row = ticket_row(tx, "agentic", targets[1])
    assert (row["retry_count"], row["locked_by"]) == (1, None)
    assert row["error_message"] == "RuntimeError: no words for b"


def test_a_node_that_cannot_be_stored_leaves_no_trace_and_stops_no_other(
    store: KnowledgeStore,
) -> None:
    def wordless(material: Material) -> tuple[NodeDraft, str] | None:
        return (NodeDraft("x", "", embed_text=""), "m") if "src/b.py" in material.source else None

    with store.context.db.write() as tx:
        targets = [segment(tx, name) for name in ("a", "b", "c")]
    assert enricher(store, wordless).run().nodes == 2
    with store.context.db.read() as tx:
        assert [status_of(tx, "agentic", one) for one in targets] == ["done", "pending", "done"]
    assert len(nodes(store)) == 2


def test_an_interruption_gives_everything_back_without_counting_a_try(
    store: KnowledgeStore,
) -> None:
    def interrupted(_: Material) -> None:
        raise KeyboardInterrupt

    with store.context.db.write() as tx:
        target = segment(tx)
    with pytest.raises(KeyboardInterrupt):
        enricher(store, interrupted).run()
    with store.context.db.read() as tx:
        row = ticket_row(tx, "agentic", target)
    assert (row["status"], row["locked_by"], row["retry_count"]) == ("pending", None, 0)


def test_limit_and_stop_leave_the_rest_waiting(store: KnowledgeStore) -> None:
    with store.context.db.write() as tx:
        for number in range(25):
            segment(tx, f"f{number}")
    shown: list[int] = []
    report = enricher(store).run(limit=5)
    assert (report.nodes, report.queues["agentic"].waiting) == (5, 20)

    def show(so_far: EnrichReport) -> None:
        shown.append(so_far.nodes)

    report = enricher(store).run(stop=lambda: bool(shown), show=show)
    assert (shown, report.queues["agentic"].waiting) == ([10], 10)


def test_a_lock_that_another_worker_took_over_is_not_written_twice(store: KnowledgeStore) -> None:
    def slow(_: Material) -> None:
        with store.context.db.write() as tx:  # the lock was too old, and somebody else has it now
            sql = "UPDATE agentic_enrichment_queue SET locked_by = 'b', locked_at = :at"
            tx.run(Sql(sql), {"at": NOW + 1})

    with store.context.db.write() as tx:
        target = segment(tx)
    assert enricher(store, slow).run().nodes == 0
    with store.context.db.read() as tx:
        assert ticket_row(tx, "agentic", target)["locked_by"] == "b"
    assert nodes(store) == []


def test_a_model_writes_in_place_of_the_rules_and_upgrades_what_they_wrote(
    store: KnowledgeStore,
) -> None:
    with store.context.db.write() as tx:
        segment(tx, "a")
        waiting(tx, "shell", command="make")
    assert enricher(store).upgrade().taken == 0
    enricher(store).run()
    assert [row[3] for row in nodes(store)] == [BY_RULES, BY_RULES]
    report = enricher(store, by_model("m1")).upgrade()
    assert (report.nodes, report.by_author) == (2, 2)
    assert [row[3] for row in nodes(store)] == ["m1", "m1"]
    assert enricher(store, by_model("m2")).upgrade().taken == 0
    with store.context.db.read() as tx:
        assert column(tx, "SELECT count(*) FROM knowledge_node_events") == [1]


def test_a_segment_that_grew_gets_a_new_node_in_place_of_the_old_one(
    store: KnowledgeStore,
) -> None:
    with store.context.db.write() as tx:
        target = segment(tx)
    enricher(store).run()
    grown = json.dumps(["Fix the parser in src/a.py.", "And add a test in tests/test_a.py."])
    with store.context.db.write() as tx:
        sql = "UPDATE agentic_sessions SET user_prompts_json = :grown, content_hash = 'new'"
        tx.run(Sql(f"{sql} WHERE id = :id"), {"grown": grown, "id": target})
        requeue(tx, "agentic", [target], NOW)
    enricher(store).run()
    ((content, *_),) = nodes(store)
    assert "And add a test" in content
    with store.context.db.read() as tx:
        assert column(tx, "SELECT last_enriched_content_hash FROM agentic_sessions") == ["new"]


def test_a_ticket_for_nothing_is_never_stuck(store: KnowledgeStore) -> None:
    with store.context.db.write() as tx:
        silent = waiting(tx, "agentic", user_prompts_json='["<context>x</context>"]')
        insert(tx, "workflow_runs", **_running())
        add_ticket(tx, "workflow", 1)
    enricher(store).run()
    with store.context.db.read() as tx:
        row = ticket_row(tx, "agentic", silent)
        assert status_of(tx, "workflow", 1) == "done"
    assert (row["status"], row["error_message"]) == (
        "skipped",
        "nothing was asked, said or done in it",
    )


def _running() -> dict[str, Any]:
    names = ("first_seen_at", "last_seen_at")
    texts = {"repo": "me/app", "head_sha": "b" * 40, "event": "push", "status": "completed"}
    return {"id": 1, **texts, "html_url": "u", "raw_json": "[]", **dict.fromkeys(names, LONG_AGO)}


def test_a_store_that_may_only_be_read_is_refused(tmp_path: Path) -> None:
    KnowledgeStore.open(tmp_path / "k.db").close()
    with (
        KnowledgeStore.open(tmp_path / "k.db", read_only=True) as read_only,
        pytest.raises(ReadOnly),
    ):
        enricher(read_only).run()


def test_a_damaged_archive_fails_only_the_segments_that_need_it(tmp_path: Path) -> None:
    with open_history(tmp_path / "home", made_up_home(tmp_path / "user")) as history:
        history.capture()
        with history.store.context.db.write() as tx:
            of = (
                "SELECT block_id FROM tk_log_blocks JOIN tk_logs ON id = log_id WHERE harness = :of"
            )
            for block in column(tx, of, of="codex"):
                spoil = "UPDATE tk_blocks SET data = :data WHERE id = :id"
                tx.run(Sql(spoil), {"data": b"\0", "id": block})
        work = Enricher(history.store, history.sources, new_uuid=lambda: str(uuid4()))
        report = work.run(at_once=True)
        with history.store.context.db.read() as tx:
            told = column(
                tx,
                "SELECT DISTINCT harness FROM agentic_enrichment_queue AS q"
                " JOIN agentic_sessions AS a ON a.id = q.session_id WHERE q.retry_count = 1",
            )
    assert report.queues["agentic"].failed > 0
    assert report.queues["agentic"].nodes > 0
    assert told == ["codex"]
    assert "of the archive is damaged" in report.errors[0]


# ---------------------------------------------------------------------- real transcripts


@pytest.fixture(scope="module")
def real(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Capture real transcripts of two programs and enrich them; give the nodes."""
    place = tmp_path_factory.mktemp("real")
    user = real_home(shared_data, place / "user")
    numbers = count()
    with open_history(place / "home", user) as history:
        history.capture(CaptureFilter(agents=frozenset({"codex", "gemini-cli"})))
        work = Enricher(history.store, history.sources, new_uuid=lambda: f"u{next(numbers)}")
        assert work.run(at_once=True).errors == []
        with history.store.context.db.read() as tx:
            rows = column(tx, "SELECT content FROM knowledge_nodes")
        assert work.run(at_once=True).nodes == 0
    return [json.loads(row) for row in rows]


def has_raw_parts(text: str) -> bool:
    signs = ("<environment_context", "<INSTRUCTIONS", "system-reminder", '{"')
    return any(sign in text for sign in signs)


def test_real_sessions_read_like_notes(real: list[dict[str, Any]]) -> None:
    assert len(real) > 20
    for node in real:
        assert not has_raw_parts(node["intent"]), node["intent"]
        assert not has_raw_parts(node["summary"]), node["summary"]
        assert all(len(names) <= 20 for names in node["entities"].values())
    told = [node for node in real if node["summary"].startswith("Asked")]
    assert len(told) > len(real) * 0.8
    assert sum(node["outcome"] != "unknown" for node in real) > len(real) // 2
    assert sum(bool(node["entities"]["files"]) for node in real) > len(real) // 2
