"""Candidates with all that is known of them: found by words, found by meaning, or both."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from threadkeep.base.tx import Tx
from threadkeep.knowledge.candidates import (
    CandidateFacts,
    Scope,
    entries_of_sessions,
    entry_facts,
    sides,
    thing_facts,
    things_of,
)
from threadkeep.recall.finding import Pool, WordCandidate
from threadkeep.recall.fusing import Candidate
from threadkeep.recall.meaning import Meaning, Owner

_NEAREST: Final = 100
_WIDER: Final = 10  # inside a scope more of the nearest are asked for: most may lie outside
_COMPARED: Final = 2_000  # messages of a few sessions are all compared


class ByMeaning(NamedTuple):
    """What compares, and the vector of the question."""

    meaning: Meaning
    vector: bytes


def by_words(tx: Tx, pool: Pool, scope: Scope) -> list[Candidate]:
    """Give the candidates of a pool that are there and allowed."""
    entries = [one for one in pool.found if one.side == "entry"]
    things = [one for one in pool.found if one.side == "thing"]
    facts = {("entry", n): f for n, f in _entry_facts(tx, entries, scope).items()}
    facts |= {("thing", n): f for n, f in _thing_facts(tx, things).items()}
    return [
        _candidate(one, facts[one.side, one.id], pool.ceiling)
        for one in pool.found
        if (one.side, one.id) in facts
    ]


def _entry_facts(tx: Tx, found: Sequence[WordCandidate], scope: Scope) -> dict[int, CandidateFacts]:
    return entry_facts(tx, [one.id for one in found], scope) if found else {}


def _thing_facts(tx: Tx, found: Sequence[WordCandidate]) -> dict[int, CandidateFacts]:
    return thing_facts(tx, [one.id for one in found]) if found else {}


def _candidate(one: WordCandidate, facts: CandidateFacts, ceiling: float) -> Candidate:
    scored = one.scored
    return Candidate(
        *(one.side, one.id, facts.kind, facts.at, facts.hash),
        words=scored.total / ceiling,
        around=scored.around / ceiling,
        clues=scored.clues,
        row=facts.row,
    )


# ---------------------------------------------------------------------- meaning


def add_meaning(
    tx: Tx, by: ByMeaning, candidates: Sequence[Candidate], scope: Scope
) -> list[Candidate]:
    """Add to each candidate how near its meaning is, and those that only meaning has found."""
    known = {(one.side, one.id) for one in candidates}
    near = [one for one in _nearest(tx, by, scope) if (one.side, one.id) not in known]
    said = [one.id for one in candidates if one.side == "entry"]
    nodes = [one.row for one in candidates if one.kind == "node"]
    messages = _similarities(tx, by, "message", said)
    knowledge = _similarities(tx, by, "node", nodes)
    meant = [
        one._replace(
            meaning=messages.get(one.id) if one.side == "entry" else knowledge.get(one.row)
        )
        if one.side == "entry" or one.kind == "node"
        else one
        for one in candidates
    ]
    return [*meant, *near]


def _similarities(tx: Tx, by: ByMeaning, owner: Owner, ids: Iterable[int]) -> dict[int, float]:
    wanted = list(ids)
    return by.meaning.vectors.similarities(tx, by.vector, owner, wanted) if wanted else {}


def _nearest(tx: Tx, by: ByMeaning, scope: Scope) -> list[Candidate]:
    among = sides(scope)
    messages: dict[int, float] = {}
    if "entry" in among:
        messages = _near_messages(tx, by, scope)
    nodes: dict[int, float] = {}
    if "thing" in among and (scope.kinds is None or "node" in scope.kinds):
        nodes = _near(tx, by, "node", _NEAREST * (_WIDER if scope.is_narrow else 1))
    return [*_as_entries(tx, messages, scope), *_as_nodes(tx, nodes, scope)]


def _near_messages(tx: Tx, by: ByMeaning, scope: Scope) -> dict[int, float]:
    """Compare all messages of a few sessions; of many, take the nearest of all."""
    if scope.sessions is not None:
        ids = entries_of_sessions(tx, scope.sessions, _COMPARED + 1)
        if len(ids) <= _COMPARED:
            found = by.meaning.vectors.similarities(tx, by.vector, "message", ids)
            best = sorted(found, key=lambda one: -found[one])[:_NEAREST]
            return {one: found[one] for one in best}
    return _near(tx, by, "message", _NEAREST * (_WIDER if scope.is_narrow else 1))


def _near(tx: Tx, by: ByMeaning, owner: Owner, limit: int) -> dict[int, float]:
    found = by.meaning.vectors.nearest(tx, by.vector, kinds=(owner,), limit=limit)
    return {number: similarity for _, number, similarity in found}


def _as_entries(tx: Tx, near: dict[int, float], scope: Scope) -> list[Candidate]:
    facts = entry_facts(tx, near, scope) if near else {}
    return [
        Candidate("entry", number, one.kind, one.at, one.hash, meaning=near[number])
        for number, one in facts.items()
    ]


def _as_nodes(tx: Tx, near: dict[int, float], scope: Scope) -> list[Candidate]:
    ids = things_of(tx, "node", near, scope) if near else {}
    facts = thing_facts(tx, ids.values()) if ids else {}
    return [
        Candidate(
            *("thing", ids[row], "node", facts[ids[row]].at, facts[ids[row]].hash),
            meaning=near[row],
            row=row,
        )
        for row in ids
        if ids[row] in facts
    ]
