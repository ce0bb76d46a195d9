"""The tools that came with memories, asked over a store at 23, and over one at 18."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mcp.asking import ask, data, refused
from tests.support.memories import Notebook
from threadkeep.home.home import Home
from threadkeep.home.stores import Stores
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.mcp.server import make_room
from threadkeep.mcp.tools import ToolContext


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolContext]:
    folder = tmp_path_factory.mktemp("home")
    book = Notebook(KnowledgeStore.open(folder / "knowledge.db", schema=23))
    book.put("project_glaze.md", "# Glaze\n\nThe parser keeps the last line.\n")
    book.put("user_ada.md", "Ada fires the kiln at night.\n")
    book.put("MEMORY.md", "[glaze](project_glaze.md)\n")
    book.learn({"project_glaze.md": ["reference"]})
    book.put("project_glaze.md", "# Glaze\n\nThe parser keeps all lines.\n")
    book.learn()
    book.miss("user_ada.md")
    book.store.close()
    home = Home(folder)
    stores = Stores(home)
    yield make_room(stores)
    stores.close()


def test_notes_are_read_as_they_are_now(notes: ToolContext) -> None:
    found = data(notes, "query_memory")
    assert (found["view"], found["truncated"], found["offset"]) == ("current", False, 0)
    assert [one["logical_path"] for one in found["results"]] == ["project_glaze.md", "MEMORY.md"]
    glaze = found["results"][0]
    assert glaze["evidence_excerpt"] == "# Glaze\n\nThe parser keeps all lines."
    assert [one["category"] for one in glaze["memory_categories"]] == ["project"]
    assert "source_path" not in glaze
    (index,) = data(notes, "query_memory", category="index")["results"]
    assert index["memory_links"][0]["resolution"] == "resolved"
    (hidden,) = data(
        notes,
        "query_memory",
        logical_path="user_ada.md",
        include_non_queryable=True,
        include_source_path=True,
    )["results"]
    assert (hidden["document_state"], hidden["source_path"]) == ("unavailable", "/m/user_ada.md")
    assert data(notes, "query_memory", limit=1)["truncated"]
    assert "offset=1" in ask(notes, "query_memory", limit=1).text


def test_the_history_of_a_note_needs_its_name(notes: ToolContext) -> None:
    given = {"repository": "ada/kiln", "logical_path": "project_glaze.md"}
    found = data(notes, "query_memory_history", **given)["results"]
    assert [(one["revision_number"], one["change_kind"]) for one in found] == [
        (2, "update"),
        (1, "create"),
    ]
    assert "-The parser keeps the last line." in found[1]["diff_text"]
    assert "repository and logical_path" in refused(notes, "query_memory_history")


def test_a_question_is_answered_with_its_evidence(notes: ToolContext) -> None:
    found = data(notes, "agent_query", query="glaze parser")
    assert set(found) == {
        *("mode", "query", "answer", "hits", "freshness", "conflicts", "limit", "truncated")
    }
    first = found["hits"][0]
    assert first["evidence"][0]["ref"].startswith("memory-")
    assert first["confidence"]["level"] in {"high", "medium", "low"}
    assert {one["name"] for one in first["confidence"]["factors"]} >= {"evidence", "recency"}
    assert "claude-auto-memory" in found["freshness"]
    assert "unknown agent" in refused(notes, "agent_query", query="x", source="nobody")
    assert "mode" in refused(notes, "agent_query", query="x", mode="guess")


def test_what_is_hidden_is_found_on_demand(notes: ToolContext) -> None:
    def uuids(**given: object) -> int:
        rows = data(notes, "search_knowledge", query="kiln", mode="lexical", **given)["result"]
        return len(rows)

    assert uuids() == 2
    assert uuids(include_excluded=True) == 3
    assert uuids(category="project") == 1
    assert uuids(source="claude-auto-memory") == 2
    assert uuids(source="shell") == 0
    assert "no category" in refused(notes, "search_knowledge", query="x", category="nothing")
    assert "unknown agent" in refused(notes, "search_knowledge", query="x", source="nobody")
    rows = data(notes, "search_hybrid", query="glaze")["result"]
    assert any(one.startswith("memory-") for row in rows for one in row["linked_source_ids"])


def test_a_store_at_18_has_no_notes(room: ToolContext) -> None:
    assert data(room, "query_memory")["results"] == []
    assert data(room, "query_memory_history", document_uuid="x")["results"] == []
    found = data(room, "agent_query", query="tide feed")
    assert found["hits"]
    assert all(hit["evidence"] for hit in found["hits"])


def test_a_file_of_hippos_own_answers_in_place(shared_data: Path, tmp_path: Path) -> None:
    golden = shared_data / "data" / "knowledge_new" / "v23.db"
    if not golden.exists():
        pytest.skip(f"needs {golden}; set THREADKEEP_SHARED to the folder with the golden data")
    shutil.copyfile(golden, tmp_path / "knowledge.db")
    home = Home(tmp_path)
    stores = Stores(home)
    room = make_room(stores)
    assert len(data(room, "query_memory", limit=50)["results"]) == 9
    found = data(room, "agent_query", query="glaze", mode="evidence", limit=50)
    refs = {one["ref"].rpartition("-")[0] for hit in found["hits"] for one in hit["evidence"]}
    assert {"memory", "claude"} <= refs
    stores.close()
