"""Nodes that our own index does not have yet, found through the contract's.

A file that can only be read keeps the index that it has, or has none; other programs write nodes
into it all the same, and these are to be found at once.
"""

from collections.abc import Sequence
from typing import Final

from threadkeep.base.fts import match_query
from threadkeep.base.tx import Tx
from threadkeep.knowledge.candidates import Scope
from threadkeep.knowledge.entries import text_hash
from threadkeep.knowledge.layout import names
from threadkeep.knowledge.things import Thing, read_nodes
from threadkeep.recall.fusing import Candidate

_MOST: Final = 200
_WORDS: Final = 0.6  # what having the words is worth where it is not known how well


def unindexed_nodes(tx: Tx, text: str, scope: Scope) -> list[Candidate]:
    """Give the nodes behind the end of our index that have the words; none where it is up."""
    if scope.role is not None or scope.entity is not None:
        return []
    if scope.kinds is not None and "node" not in scope.kinds:
        return []
    tables = names(tx, "table")
    if not tables >= {"knowledge_nodes", "knowledge_fts"}:
        return []
    indexed = scope.placed and "tk_indexed" in tables
    after = int(tx.value("indexed_upto", {"kind": "node"}) or 0) if indexed else 0
    if int(tx.value("last_node") or 0) <= after:
        return []
    match = match_query(text, split=False)
    values = {"after": after, "match": match, "category": scope.category, "limit": _MOST}
    query = "nodes_behind" if match is None else "nodes_behind_with_words"
    if match is None and text.strip():
        return []
    ids = [row[0] for row in tx.all(query, values)]
    found = [one for one in read_nodes(tx, ids) if _is_within(one, scope)]
    return _candidates(found)


def _candidates(found: Sequence[Thing]) -> list[Candidate]:
    return [
        Candidate(
            *("thing", -one.row, "node", one.at, text_hash("\n".join(one.texts))),
            words=_WORDS * (1 - place / (2 * len(found))),
            row=one.row,
        )
        for place, one in enumerate(found)
    ]


def _is_within(one: Thing, scope: Scope) -> bool:
    same = (
        (scope.source, one.source),
        (scope.harness, one.harness),
        (scope.branch, one.branch),
        (scope.outcome, one.outcome),
    )
    if any(wanted is not None and wanted != value for wanted, value in same):
        return False
    at = one.at or 0
    if scope.since is not None and at < scope.since:
        return False
    if scope.until is not None and at >= scope.until:
        return False
    return scope.project is None or any(
        _is_of(place, scope.project) for place in (one.cwd, one.repo) if place
    )


def _is_of(place: str, project: str) -> bool:
    folder = project.rstrip("/") or "/"
    return (
        place == folder
        or place.startswith(f"{folder}/")
        or place.rstrip("/").endswith(f"/{folder.rpartition('/')[2]}")
    )
