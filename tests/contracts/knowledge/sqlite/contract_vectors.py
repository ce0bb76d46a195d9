"""What test_vectors.py runs in a Python that can load SQLite's extensions."""

from collections.abc import Sequence
from pathlib import Path

from tests.memory.vectors.embedders import HashEmbedder, vector_of
from threadkeep.base.tx import Sql, Tx
from threadkeep.knowledge.forget import erase_nodes
from threadkeep.knowledge.records import EntryRow
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.memory.vectors.backfill import embed_pending

NEAR = "SELECT knowledge_node_id, distance FROM knowledge_vectors WHERE {} MATCH ? AND k = 3"


def run(path: Path) -> None:
    with KnowledgeStore.open(path) as store:
        check_filling(store)
        check_changes(store)
        check_another_model(store)


def no_texts(_: Tx, rows: Sequence[EntryRow]) -> list[str]:
    return [""] * len(rows)


def check_filling(store: KnowledgeStore) -> None:
    """Both vectors of each node are there, and the model is recorded."""
    with store.context.db.write() as tx:
        for number in (1, 2, 3):
            tx.run(
                Sql(
                    "INSERT INTO knowledge_nodes (id, uuid, content, embed_text, created_at,"
                    " updated_at) VALUES (?, ?, '{}', ?, 1, 1)"
                ),
                (number, f"u{number}", f"text {number}"),
            )
        add_commands(tx, 2)
    done = embed_pending(store, HashEmbedder("nomic", 768), no_texts)
    assert (done.nodes, done.contract_nodes, done.note, done.complete) == (3, 3, "", True)
    with store.context.db.write() as tx:
        assert tx.all(Sql("SELECT * FROM embed_model_meta")) == [(1, "nomic")]
        assert near(tx, "vec_knowledge", "text 2") == 2
        assert near(tx, "vec_command", "make ; make test") == 2
        assert near(tx, "vec_command", "text 3") == 3
        sql = tx.value(Sql("SELECT sql FROM sqlite_master WHERE name = 'knowledge_vectors'"))
        assert "FLOAT[768] distance_metric=cosine" in sql


def add_commands(tx: Tx, node: int) -> None:
    tx.run(
        Sql(
            "INSERT INTO sessions (id, start_time, shell, hostname, username, created_at)"
            " VALUES (1, 1, 'zsh', 'h', 'u', 1)"
        )
    )
    for number, command in ((1, "make test"), (2, "make")):
        tx.run(
            Sql(
                "INSERT INTO events (id, session_id, timestamp, command, duration_ms, cwd,"
                " hostname, shell, created_at) VALUES (?, 1, ?, ?, 1, '/', 'h', 'zsh', 1)"
            ),
            (number, 9 - number, command),
        )
        tx.run(Sql("INSERT INTO knowledge_node_events VALUES (?, ?)"), (node, number))


def near(tx: Tx, column: str, text: str) -> int:
    [[node, distance], *_] = tx.all(Sql(NEAR.format(column)), (vector_of(text, 768),))
    assert distance < 1e-3
    return int(node)


def check_changes(store: KnowledgeStore) -> None:
    """A node that changes gets new vectors; those of one that is gone are taken out."""
    with store.context.db.write() as tx:
        tx.run(Sql("UPDATE knowledge_nodes SET embed_text = 'newer', updated_at = 2 WHERE id = 1"))
        tx.run(Sql("DELETE FROM knowledge_nodes WHERE id = 3"))
        assert erase_nodes(tx, [2]) == 1
        assert nodes_in(tx) == [1, 3]
    embed_pending(store, HashEmbedder("nomic", 768), no_texts)
    with store.context.db.write() as tx:
        assert nodes_in(tx) == [1]
        assert near(tx, "vec_knowledge", "newer") == 1


def nodes_in(tx: Tx) -> list[int]:
    sql = "SELECT knowledge_node_id FROM knowledge_vectors ORDER BY 1"
    return [row[0] for row in tx.all(Sql(sql))]


def check_another_model(store: KnowledgeStore) -> None:
    """Vectors that another program made with another model are left as they are."""
    with store.context.db.write() as tx:
        tx.run(Sql("UPDATE embed_model_meta SET model = 'modernbert'"))
        tx.run(Sql("UPDATE knowledge_nodes SET embed_text = 'newest', updated_at = 3"))
    done = embed_pending(store, HashEmbedder("nomic", 768), no_texts)
    assert (done.nodes, done.contract_nodes) == (1, 0)
    assert "modernbert" in done.note
    with store.context.db.write() as tx:
        assert tx.all(Sql("SELECT model FROM embed_model_meta")) == [("modernbert",)]
