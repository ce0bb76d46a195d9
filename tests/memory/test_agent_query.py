"""One question of an agent: evidence, freshness, confidence and contradictions."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from tests.support.memories import Notebook
from tests.support.tickets import add_event, insert
from threadkeep.base.tx import Sql
from threadkeep.errors import Invalid
from threadkeep.home.opening import all_sources
from threadkeep.knowledge.evidence import EvidencePacket, Freshness, FreshnessStatus, freshness_of
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.search_scope import NodeChoice
from threadkeep.memory.agent_query import (
    AgentHit,
    HitFacts,
    agent_query,
    assess,
    capped,
    find_conflicts,
)
from threadkeep.memory.memory import Memory
from threadkeep.testing import KnowledgeFactory

NOW = 1_800_000_000_000
DAY = 86_400_000
STATUSES = st.sampled_from(
    ["fresh", "stale", "failing", "suppressed_idle", "expected_absent", "unknown"]
)


def packet(status: FreshnessStatus = "fresh", kind: str = "shell", row: int = 1) -> EvidencePacket:
    fresh = Freshness(kind, status, 0, 1)
    return EvidencePacket(f"{kind}-{row}", kind, "events", row, NOW, "make", freshness=fresh)


def hit(outcome: str = "success", at: int = NOW, *chosen: str, fresh: bool = True) -> AgentHit:
    evidence = tuple(packet("fresh" if fresh else "stale", kind) for kind in ("shell", "claude"))
    decisions = tuple({"chosen": one} for one in chosen)
    sure = assess(HitFacts(1.0, at, "/p", "main"), evidence, NOW)
    return AgentHit(f"u{at}", 1.0, "s", at, "/p", "main", outcome, evidence, sure, decisions)


@given(st.floats(0, 1), st.lists(STATUSES, max_size=5), st.integers(0, NOW))
def test_confidence_has_reasons_and_needs_evidence(
    score: float, statuses: list[FreshnessStatus], at: int
) -> None:
    evidence = [packet(status, row=row) for row, status in enumerate(statuses)]
    found = assess(HitFacts(score, at), evidence, NOW)
    assert 0 <= found.score <= 1
    assert abs(sum(one.weight for one in found.factors) - 1) < 1e-9
    assert (found.level == "insufficient") == found.withheld == (not evidence)
    if any(one not in {"fresh", "suppressed_idle"} for one in statuses):
        assert found.level != "high"


def test_several_fresh_rows_of_several_sources_are_high() -> None:
    assert hit().confidence.level == "high"
    assert assess(HitFacts(0.1, NOW - 90 * DAY), [packet("stale")], NOW).level == "low"


def test_what_contradicts_itself_is_named_and_less_sure() -> None:
    hits = [hit("success"), hit("failure", NOW - 1)]
    report = find_conflicts(hits)
    assert [one.kind for one in report.conflicts] == ["outcome_disagreement"]
    assert [side.says for side in report.conflicts[0].sides] == ["failure", "success"]
    assert {one.confidence.level for one in capped(hits, report)} == {"medium"}
    decided = find_conflicts([hit("success", NOW - 1, "A"), hit("success", NOW, "B")])
    assert [one.kind for one in decided.conflicts] == ["decision_contradiction"]
    assert not find_conflicts([hit("success", NOW - 1, "A"), hit("success", NOW, "A")]).conflicts


def test_evidence_that_is_all_stale_is_named() -> None:
    report = find_conflicts([hit(fresh=False)])
    assert report.staleness is not None
    assert report.staleness.evidence_refs == ("shell-1", "claude-1")
    assert find_conflicts([hit(), hit(fresh=False)]).staleness is None
    assert find_conflicts([]) == msgspec.convert({}, type(report))


# ---------------------------------------------------------------------- in a store


@pytest.fixture
def book(knowledge_factory: KnowledgeFactory) -> Iterator[Notebook]:
    book = Notebook(knowledge_factory.open(schema=23))
    book.put("project_glaze.md", "# Glaze\n\nThe parser keeps the last line.\n")
    book.put("user_ada.md", "Ada fires the kiln at night.\n")
    book.learn()
    yield book
    book.store.close()


@pytest.fixture
def memory(book: Notebook) -> Memory:
    return Memory(book.store, all_sources([], [], []), clock=lambda: book.now)


def test_an_answer_carries_what_it_rests_on(memory: Memory) -> None:
    answer = agent_query(memory, "glaze parser", Query())
    (first, *_) = answer.hits
    assert [one.ref for one in first.evidence] == ["memory-1"]
    assert first.evidence[0].table == "memory_chunks"
    assert "The parser keeps" in first.evidence[0].excerpt
    assert answer.freshness["claude-auto-memory"].status == "fresh"
    assert "Memory: project_glaze.md" in answer.answer


def test_modes_and_limits(memory: Memory) -> None:
    assert agent_query(memory, "kiln", Query(), limit=0).hits == ()
    assert agent_query(memory, "kiln", Query(), mode="decisions").hits == ()
    recent = agent_query(memory, "zzz", Query(), mode="recent", limit=1)
    assert len(recent.hits) == 1
    assert recent.truncated
    assert "rows behind" in agent_query(memory, "kiln", Query(), mode="evidence").answer
    assert agent_query(memory, "zzz", Query()).answer == "Nothing is known about this."


def test_an_unknown_source_or_category_is_refused(memory: Memory) -> None:
    with pytest.raises(Invalid, match="unknown agent 'nobody'"):
        agent_query(memory, "kiln", Query(agent=("nobody",)))
    with pytest.raises(Invalid, match="no category"):
        memory.recall("kiln", nodes=NodeChoice(category="nothing"))
    for known in ("claude", "Claude-Code", "pi"):
        memory.recall("kiln", Query(agent=(known,)))


def test_hidden_evidence_is_no_evidence(book: Notebook, memory: Memory) -> None:
    book.miss("user_ada.md")
    words = "user_ada.md"
    assert not agent_query(memory, words, Query(), nodes=NodeChoice(category="user")).hits
    every = NodeChoice(excluded=True)
    (only,) = agent_query(memory, words, Query(), nodes=every, limit=1).hits
    assert [one.ref for one in only.evidence] == ["memory-2"]
    memory.include_excluded = True
    assert len(memory.recall("kiln", Query(kind=("node",))).hits) == 2


def test_freshness_tells_idle_from_failing(book: Notebook) -> None:
    with book.store.context.db.write() as tx:
        add_event(tx, at=book.now - 2 * DAY)
        health = "UPDATE source_health SET last_event_ts = :at WHERE source = 'shell'"
        tx.run(Sql(health), {"at": book.now - 2 * DAY})

        def status(kind: str) -> str:
            return freshness_of(tx, [kind], book.now)[kind].status

        assert status("shell") == "stale"
        assert status("gemini-cli") == "expected_absent"
        tx.run(Sql(health), {"at": book.now})
        assert status("shell") == "fresh"
        insert(
            *(tx, "capture_alarms"),
            invariant_id="I-1",
            raised_at=1,
            details_json='{"source": "shell"}',
        )
        assert status("shell") == "failing"
        assert freshness_of(tx, ["shell"], book.now)["shell"].alarms == ("I-1",)


# ---------------------------------------------------------------------- a file that is only read


def test_nodes_that_came_since_the_index_are_found_in_a_file_that_is_only_read(
    book: Notebook, memory: Memory, knowledge_factory: KnowledgeFactory
) -> None:
    memory.index()
    book.put("feedback_tests.md", "Run the quokka before a push.\n")
    book.learn()
    with knowledge_factory.reopen(book.store, read_only=True) as store:
        looking = Memory(store, all_sources([], [], []), clock=lambda: book.now)

        def found(words: str, project: str = "", **chosen: Any) -> list[str]:
            within = Query(kind=("node",), project=(project,) if project else ())
            hits = looking.recall(words, within, nodes=NodeChoice(**chosen), explain=True).hits
            return [hit.title for hit in hits]

        assert found("feedback_tests.md")[0] == "Memory: feedback_tests.md"
        assert len(found("kiln")) == 3
        assert found("")[0] == "Memory: feedback_tests.md"
        assert found("kiln", category="feedback") == ["Memory: feedback_tests.md"]
        assert len(found("kiln", evidence="memory", project="kiln")) == 3
        assert found("feedback_tests.md", project="other") == []
        assert found("feedback_tests.md", evidence="shell") == []
        assert found("?!") == []
        book.miss("feedback_tests.md")
        assert found("feedback_tests.md", category="feedback") == []
