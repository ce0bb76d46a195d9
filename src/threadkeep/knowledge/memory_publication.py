"""A memory is published: the node of its newest revision takes the place of the one before it."""

from typing import Final

from threadkeep.base.tx import Tx
from threadkeep.errors import NotFound
from threadkeep.knowledge.drafts import BY_RULES, ENRICHMENT_VERSION, Evidence, NodeDraft
from threadkeep.knowledge.forgetting import erase_nodes
from threadkeep.knowledge.memory_names import SOURCE_KIND, known_categories, node_uuid
from threadkeep.knowledge.nodes import write_node
from threadkeep.knowledge.tickets import finish_targets

_BY_MODEL: Final = 0.8  # how sure a category is that a model named


def publish_memory(
    tx: Tx, draft: NodeDraft, revision: int, *, model: str, now: int, roots: tuple[str, ...] = ()
) -> int | None:
    """Store what a draft says of a revision in place of what was published; give the node's number.

    A draft that comes late, for a revision that is no longer the newest, is noted and makes no
    node: that would bring back what the note said before.
    """
    row = tx.one("memory_to_publish", {"id": revision})
    if row is None:
        msg = f"a node is about a revision that is not there: {revision}"
        raise NotFound(msg, hint="its document was forgotten meanwhile; leave the node")
    _, document, hashed, captured, uuid, repository, logical_path, path, current, _ = row
    learned = {"model": model, "version": ENRICHMENT_VERSION, "now": now, "id": revision}
    tx.run("revision_is_learned", {**learned, "summary": draft.summary})
    if current != revision:
        finish_targets(tx, "memory", [revision], now)
        return None
    erase_nodes(tx, [found[0] for found in tx.all("nodes_of_memory", {"document": document})])
    source = {
        "kind": SOURCE_KIND,
        "repository": repository,
        "logical_path": logical_path,
        "source_path": path,
        "content_hash": hashed,
        "captured_at": captured,
    }
    node = write_node(
        *(tx, "memory", draft, Evidence(revisions=(revision,))),
        model=model,
        now=now,
        uuid=node_uuid(uuid, revision),
        roots=roots,
        source=source,
    )
    tx.run("memory_is_published", {"id": document, "revision": revision, "now": now})
    if model != BY_RULES:
        _categorize(tx, document, draft, model, now)
    return node


def _categorize(tx: Tx, document: int, draft: NodeDraft, model: str, now: int) -> None:
    """Put the categories that a model named in place of those that one named before."""
    tx.run("drop_categories_by_model", {"document": document})
    told = {"source": "model", "confidence": _BY_MODEL, "model": model, "version": 1}
    for category in known_categories(draft.memory_categories):
        tx.run("put_category", {**told, "document": document, "category": category, "now": now})
