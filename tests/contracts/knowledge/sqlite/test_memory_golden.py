"""What Hippo's own brain made of memory files, and what we make of the same files."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import memories as asked
from tests.support.memories import Notebook
from threadkeep.base.tx import Sql, Tx
from threadkeep.home.opening import all_sources
from threadkeep.knowledge.evidence import eligible_nodes
from threadkeep.knowledge.lessons import list_lessons
from threadkeep.knowledge.memory_documents import (
    MemoryFilter,
    memory_health,
    memory_history,
    query_memories,
)
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.search_scope import NodeChoice
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.memory.memory import Memory

FACTS = {
    "documents": asked.DOCUMENTS,
    "revisions": asked.REVISIONS,
    "chunks": asked.CHUNKS,
    "categories": asked.CATEGORIES,
    "links": asked.LINKS,
    "queue": asked.TICKETS,
    "memory_nodes": asked.NODES,
    "bodies": asked.BODIES,
}
SECRET = "api_key=AKIAABCDEFGHIJKLMNOP"


@pytest.fixture(scope="module")
def golden(shared_data: Path) -> Path:
    folder = shared_data / "data" / "knowledge_new"
    if not (folder / "expected.json").exists():
        pytest.skip(f"needs {folder}; set THREADKEEP_SHARED to the folder with the golden data")
    return folder


@pytest.fixture(scope="module")
def expected(golden: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((golden / "expected.json").read_text())["facts"]
    return facts


@pytest.fixture(scope="module")
def given(golden: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((golden / "input.json").read_text())
    return found


@pytest.fixture
def tx(golden: Path, tmp_path: Path) -> Iterator[Tx]:
    path = tmp_path / "v23.db"
    shutil.copyfile(golden / "v23.db", path)
    with KnowledgeStore.open(path) as store, store.context.db.read() as tx:
        assert store.access.finding.version == 23
        yield tx


@pytest.mark.parametrize("fact", FACTS)
def test_the_rows_are_what_the_brain_says(tx: Tx, expected: dict[str, Any], fact: str) -> None:
    wanted = expected[fact]
    probes = any("synthetic/probe-memory.md" in row for row in wanted)
    rows = [list(row) for row in tx.all(Sql(FACTS[fact]))]
    ours = [row for row in rows if probes or "synthetic/probe-memory.md" not in row]
    assert sorted(ours, key=str) == sorted(wanted, key=str)


def test_the_same_nodes_are_shown(tx: Tx, expected: dict[str, Any]) -> None:
    nodes: dict[int, str] = dict(tx.all(Sql("SELECT id, uuid FROM knowledge_nodes")))
    shown = eligible_nodes(tx, nodes, expected["eligible_at_ms"])
    assert {uuid: n in shown for n, uuid in nodes.items()} == expected["eligible_by_default"]


def test_memories_say_the_same_now(tx: Tx, expected: dict[str, Any]) -> None:
    found, more = query_memories(tx, MemoryFilter(limit=100))
    ours = [
        {
            "categories": [[one.category, one.source] for one in part.memory_categories or ()],
            "evidence_excerpt": part.evidence_excerpt,
            "heading_path": part.heading_path,
            "links": [[one.target_logical_path, one.resolution] for one in part.memory_links or ()],
            "logical_path": part.logical_path,
            "projection_status": part.projection_status,
            "repository": part.repository,
            "revision_number": part.revision_number,
        }
        for part in found
    ]
    assert ours == expected["memory_current"]
    assert not more


def test_their_histories_are_the_same(tx: Tx, expected: dict[str, Any]) -> None:
    for name, revisions in expected["memory_history"].items():
        repository = tx.value(
            Sql("SELECT repository FROM memory_documents WHERE logical_path = ?"), (name,)
        )
        found, _ = memory_history(tx, MemoryFilter(repository=repository, logical_path=name))
        assert [[one.revision_number, one.change_kind, one.summary] for one in found] == revisions


def test_health_and_lessons_are_the_same(tx: Tx, expected: dict[str, Any]) -> None:
    health = memory_health(tx, expected["health_at_ms"])
    assert health is not None
    assert {name: getattr(health, name) for name in expected["health"]} == expected["health"]
    lessons = list_lessons(tx, None, None, None, 100)
    ours = [[one.repo, one.tool, one.rule_id, one.occurrences, one.summary] for one in lessons]
    assert sorted(ours) == sorted(expected["lessons"])


def test_the_same_files_become_the_same_rows(
    tmp_path: Path, expected: dict[str, Any], given: dict[str, Any]
) -> None:
    """Told in the same order; but for the hash of a secret's file, which we do not keep."""
    book = Notebook(KnowledgeStore.open(tmp_path / "ours.db", schema=23), given["repository"])

    def mask(text: str) -> str:
        return text.replace(SECRET, "[REDACTED]")

    for name, text in given["memory"].items():
        book.put(name, text, mask)
    book.put("MEMORY.md", given["index"])
    book.learn(given["modelcat"])
    for name, texts in given["updates"].items():
        for text in texts:
            book.put(name, text, mask)
    book.learn(given["modelcat"], given["fail"])
    book.rename(*given["rename"])
    book.miss(given["gone"][0])
    book.miss(*given["gone"])
    book.put(*given["late"])
    for fact in ("documents", "chunks", "categories", "links", "queue", "bodies", "revisions"):
        place = 1 if fact == "revisions" else 0
        theirs = [row for row in expected[fact] if not row[place].startswith("synthetic/")]
        ours = book.ask(FACTS[fact])
        if fact == "revisions":
            ours, theirs = ([row[:5] + row[6:] for row in rows] for rows in (ours, theirs))
        assert sorted(ours, key=str) == sorted(theirs, key=str), fact
    book.store.close()


@pytest.mark.parametrize("read_only", [False, True])
def test_the_same_words_find_the_same_nodes(
    golden: Path, tmp_path: Path, expected: dict[str, Any], *, read_only: bool
) -> None:
    path = tmp_path / "v23.db"
    shutil.copyfile(golden / "v23.db", path)
    only = {
        "lexical": NodeChoice(),
        "only_memory": NodeChoice(evidence="memory"),
        "with_excluded": NodeChoice(excluded=True),
    }
    with KnowledgeStore.open(path, read_only=read_only) as store:
        memory = Memory(store, all_sources([], [], []), clock=lambda: expected["eligible_at_ms"])
        for words, wanted in expected["searches"].items():
            for how, nodes in only.items():
                found = memory.recall(words, Query(kind=("node",)), nodes=nodes, limit=100).hits
                assert sorted(hit.uuid or "" for hit in found) == wanted[how], (words, how)
