"""Claude's memories in a store at 23: revised, published, missed, and never told twice."""

from collections.abc import Iterator
from hashlib import sha256

import pytest

from tests.support import memories as asked
from tests.support.memories import Notebook
from tests.support.tickets import Factory
from threadkeep.base.tx import Sql
from threadkeep.errors import Invalid
from threadkeep.knowledge.evidence import eligible_nodes
from threadkeep.knowledge.memory_documents import (
    PROBE_REPOSITORY,
    MemoryFilter,
    category_of,
    document_uuid,
    known_categories,
    memory_health,
    memory_history,
    node_uuid,
    query_memories,
)
from threadkeep.knowledge.schema import NODE_WORDS


@pytest.fixture
def book(factory: Factory) -> Iterator[Notebook]:
    book = Notebook(factory.open(schema=23))
    yield book
    with book.store.write() as tx:
        assert NODE_WORDS.problem(tx, compare=True) is None
    book.store.close()


def shown(book: Notebook) -> set[int]:
    ids = [row[0] for row in book.ask("SELECT id FROM knowledge_nodes")]
    with book.store.context.db.read() as tx:
        return eligible_nodes(tx, ids, book.now)


def test_ids_are_those_of_the_contract() -> None:
    document = document_uuid("ada/kiln", "project_glaze.md")
    assert document == "25350a90-a273-5eab-9f09-246e9d742ea7"
    assert node_uuid(document, 9) == "0f37682e-0dee-5ac7-b29e-63f4f40e5c49"


@pytest.mark.parametrize(
    "name, category",
    [
        ("MEMORY.md", "index"),
        ("memory.md", None),
        ("user.md", "user"),
        ("User_Ada.md", "user"),
        ("feedback_x.md", "feedback"),
        ("project_x.md", "project"),
        ("below/reference_x.md", "reference"),
        ("users.md", None),
    ],
)
def test_a_name_tells_a_category(name: str, category: str | None) -> None:
    assert category_of(name) == category


def test_a_model_names_known_categories_alone() -> None:
    assert known_categories(["Project ", "index", "nonsense", "project"]) == ["project"]


def test_a_new_text_is_a_revision_and_its_node_takes_the_place_of_the_old(book: Notebook) -> None:
    first = book.put("project_glaze.md", "# Glaze\n\nOne.\n")
    assert not book.put("project_glaze.md", "# Glaze\n\nOne.\n").is_new
    book.learn()
    second = book.put("project_glaze.md", "# Glaze\n\nTwo.\n\n## Rules\n\nNever.\n")
    assert book.ask(asked.DOCUMENTS) == [["project_glaze.md", "active", "pending", 2, 1, None]]
    before = book.ask(asked.NODES)
    book.learn()
    after = book.ask(asked.NODES)
    assert (before[0][2], after[0][2]) == (1, 2)
    assert after[0][3] == node_uuid(document_uuid("ada/kiln", "project_glaze.md"), second.revision)
    assert len(book.ask("SELECT * FROM knowledge_nodes")) == 1
    assert first.document == second.document
    told = "SELECT redacted_content, summary, diff_text FROM memory_revisions ORDER BY id"
    old, new = book.ask(told)
    assert old[:2] == [None, "5 lines added, 1 removed"]
    assert "-One.\n" in old[2]
    assert new[1:] == ["Memory: project_glaze.md", None]


def test_a_draft_that_comes_late_makes_no_node(book: Notebook) -> None:
    old = book.put("a.md", "one")
    with book.store.context.db.write() as tx:
        tx.run(Sql("UPDATE memory_enrichment_queue SET status = 'processing'"))
    book.put("a.md", "two")
    with book.store.context.db.write() as tx:
        tx.run(Sql("UPDATE memory_enrichment_queue SET status = 'pending'"))
    book.learn()
    assert [row[2] for row in book.ask(asked.NODES)] == [2]
    (summary,) = book.ask(f"SELECT summary FROM memory_revisions WHERE id = {old.revision}")
    assert summary == ["Memory: a.md"]


def test_a_failure_leaves_the_old_node_in_use(book: Notebook) -> None:
    book.put("a.md", "one")
    book.learn(fail=["a.md"])
    assert book.ask(asked.DOCUMENTS) == [["a.md", "active", "failed", 1, None, "model gone"]]
    book.learn()
    book.put("a.md", "two")
    book.learn(fail=["a.md"])
    assert book.ask(asked.DOCUMENTS) == [["a.md", "active", "stale", 2, 1, "model gone"]]
    assert len(shown(book)) == 1


def test_a_missing_file_is_hidden_then_gone_and_may_come_back(book: Notebook) -> None:
    book.put("a.md", "one")
    book.learn()
    book.miss("a.md")
    assert book.ask(asked.DOCUMENTS)[0][1] == "unavailable"
    assert shown(book) == set()
    book.put("a.md", "one")
    assert len(shown(book)) == 1
    book.miss("a.md")
    book.miss("a.md")
    assert book.ask(asked.DOCUMENTS) == [["a.md", "tombstoned", "stale", 2, None, None]]
    assert book.ask("SELECT * FROM knowledge_nodes") == []
    book.put("a.md", "one")
    book.learn()
    assert book.ask(asked.DOCUMENTS) == [["a.md", "active", "ready", 3, 3, None]]


def test_a_file_that_is_emptied_tells_nothing_any_more(book: Notebook) -> None:
    book.put("a.md", "one")
    book.learn()
    book.put("a.md", "  \n")
    assert book.ask("SELECT * FROM knowledge_nodes") == []
    assert book.ask(asked.DOCUMENTS) == [["a.md", "active", "ready", 2, 2, None]]
    assert [row[2] for row in book.ask(asked.TICKETS)] == ["done"]


def test_a_renamed_file_keeps_its_document_and_its_node(book: Notebook) -> None:
    book.put("user_a.md", "who")
    book.put("b.md", "other")
    book.learn()
    book.rename("user_a.md", "project_a.md")
    found = book.ask(asked.REVISIONS)
    kinds = [(row[1], row[3]) for row in found if row[1] == "project_a.md"]
    assert kinds == [("project_a.md", "create"), ("project_a.md", "rename")]
    assert book.ask(asked.CATEGORIES) == [["project_a.md", "project", "filename", 1.0, None]]
    assert len(shown(book)) == 2
    book.put("c.md", "other")  # the one that says the same is still there
    assert len(book.ask(asked.DOCUMENTS)) == 3


def test_two_links_to_one_file_are_one_and_files_that_come_are_found(book: Notebook) -> None:
    book.put("MEMORY.md", "[a](a.md) and again [a](a.md#x), [up](../a.md), [me](MEMORY.md)")
    assert book.ask(asked.LINKS) == [
        ["MEMORY.md", "MEMORY.md", "circular", None],
        ["MEMORY.md", "a.md", "unresolved", None],
    ]
    book.put("a.md", "here")
    assert book.ask(asked.LINKS)[1] == ["MEMORY.md", "a.md", "resolved", "a.md"]


def test_what_another_program_masked_otherwise_is_no_new_revision(book: Notebook) -> None:
    book.put("a.md", "key=hunter2", mask=lambda text: text.replace("hunter2", "[GONE]"))
    with book.store.context.db.write() as tx:  # as Hippo writes it
        sql = "UPDATE memory_revisions SET content_hash = 'x', source_hash = :hash"
        tx.run(Sql(sql), {"hash": _hash()})
    same = book.put("a.md", "key=hunter2", mask=lambda text: text.replace("hunter2", "***"))
    assert not same.is_new


def _hash() -> str:
    return sha256(b"key=hunter2").hexdigest()


def test_a_secret_is_in_no_hash(book: Notebook) -> None:
    book.put("a.md", "key=hunter2", mask=lambda text: text.replace("hunter2", "[GONE]"))
    assert all(_hash() not in row for row in book.ask(asked.REVISIONS))


def test_old_revisions_go_but_never_the_ones_in_use(book: Notebook) -> None:
    book.put("a.md", "0")
    book.learn()
    for number in range(1, 30):
        book.put("a.md", str(number))
    numbers = [row[2] for row in book.ask(asked.REVISIONS)]
    assert numbers == [1, *range(11, 31)]
    assert len(shown(book)) == 1


def test_what_is_asked_of_memories(book: Notebook) -> None:
    book.put("project_a.md", "# A\n\nCones and kilns.\n\n## B\n\nGlaze 100%.\n")
    book.put("user.md", "Ada.")
    book.learn({"user.md": ["reference"]})
    book.put("later.md", "Soon.")
    with book.store.context.db.read() as tx:
        parts, more = query_memories(tx, MemoryFilter(limit=2))
        assert more
        assert len(parts) == 2
        assert parts[0].source_path is None

        def named(**what: object) -> list[tuple[str, str | None]]:
            found, _ = query_memories(tx, MemoryFilter(**what))  # type: ignore[arg-type]
            return [(part.logical_path, part.heading_path) for part in found]

        assert named(text="100%") == [("project_a.md", "A > B")]
        assert named(text="0%x") == []
        assert named(category="reference") == [("user.md", "")]
        assert named(document_uuid=parts[0].document_uuid, logical_path="x") == []
        assert named(logical_path="later.md") == []
        (waiting,), _ = query_memories(
            tx, MemoryFilter(logical_path="later.md", unpublished=True, paths=True)
        )
        assert (waiting.projection_status, waiting.source_path) == ("pending", "/m/later.md")
        history, _ = memory_history(tx, MemoryFilter(repository="ada/kiln", logical_path="user.md"))
        assert [one.change_kind for one in history] == ["create"]
        with pytest.raises(Invalid, match="no category"):
            query_memories(tx, MemoryFilter(category="x"))
        with pytest.raises(Invalid, match="needs its document"):
            memory_history(tx, MemoryFilter(repository="ada/kiln"))


def test_probes_are_never_queued_and_never_shown(factory: Factory) -> None:
    book = Notebook(factory.open(schema=23), PROBE_REPOSITORY)
    book.put("a.md", "probe")
    assert book.ask(asked.TICKETS) == []
    with book.store.context.db.read() as tx:
        assert query_memories(tx, MemoryFilter()) == ([], False)
        assert memory_health(tx, book.now + 10**9) is not None
    book.store.close()


def test_a_file_at_18_has_no_memories(factory: Factory) -> None:
    with factory.open() as store, store.context.db.read() as tx:
        assert query_memories(tx, MemoryFilter()) == ([], False)
        assert memory_history(tx, MemoryFilter(document_uuid="x")) == ([], False)
        assert memory_health(tx, 0) is None
