"""Which candidates to compare: all terms first, then the rarest, never more than a budget.

What costs is reading the rows of frequent words. So the rows of rare clues are read whole, those
of frequent ones only where a rare one is too. Where every clue is frequent, the newest rows that
have all of them are compared, then the newest that have the rarest.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from threadkeep.base.match import Match, any_of
from threadkeep.base.tx import Tx
from threadkeep.knowledge import search_index
from threadkeep.knowledge.archive import text_hash
from threadkeep.knowledge.search_scope import Scope, Side, sides
from threadkeep.memory.question import Clue, Question
from threadkeep.memory.ranking import (
    Candidate,
    CluePostings,
    Scores,
    ceiling,
    rarity,
    score,
)
from threadkeep.memory.records import Meaning, Owner

BUDGET: Final = 3_000  # rows of rare clues that are read whole
MOST_MAIN: Final = 8  # clues that are looked at, the rarest: the others hardly weigh anything
_JOINED: Final = 1_000  # rows of the rarest clues that frequent ones are looked for in
POOL: Final = 200  # candidates that are looked at more closely
_NEWEST: Final = 1_000  # rows that are read of clues that all are frequent
_FEW: Final = 50
_WEAK: Final = 0.15  # of the weightiest clue: frequent ones below it change no order
_RARE_WORD: Final = 2_000  # phrases are asked for if one of their words is no more frequent
_RARE_PAIR: Final = 500


class ClueCounts(NamedTuple):
    """A clue and how many rows of each index have it."""

    clue: Clue
    counts: dict[Side, int]
    rows: int

    @property
    def total(self) -> int:
        """In how many rows of all it is."""
        return sum(self.counts.values())

    @property
    def weight(self) -> float:
        """What having it weighs here."""
        return self.clue.weight * rarity(self.total, self.rows)


class WordCandidate(NamedTuple):
    """A candidate, where it stands, and what its words gave it."""

    side: Side
    id: int
    place: int
    total: float


class SideWords(NamedTuple):
    """What was read of one index: the clues by their bit, and what they gave to each place."""

    evidence: Sequence[CluePostings] = ()
    scores: Scores = Scores({}, ())
    absent: frozenset[Match] = frozenset()  # what no row has

    def among(
        self, match: Match, some: Iterable[Candidate]
    ) -> tuple[list[Candidate], list[Candidate]]:
        """Return those candidates that have what a match asks for, and those that may have it."""
        for clue, (_, here) in zip(self.evidence, self.scores.clues, strict=True):
            if clue.match == match:
                known = [one for one in some if one.place in here]
                others = [one for one in some if one.place not in here]
                return known, [one for one in others if not self._looked_at(clue, one)]
        return [], [] if match in self.absent else list(some)

    def _looked_at(self, clue: CluePostings, one: Candidate) -> bool:
        """Tell whether the clue would have been found here, if it were."""
        if not one.place or clue.beside is None:
            return bool(one.place)
        pairs = zip(self.evidence, self.scores.clues, strict=True)
        return any(one.place in here for other, (_, here) in pairs if other.match in clue.beside)


class Pool(NamedTuple):
    """The best candidates by words, out of how many, and what a perfect one would have."""

    found: tuple[WordCandidate, ...]
    compared: int
    ceiling: float
    sides: dict[Side, SideWords]

    def typed(self, side: Side) -> tuple[str, ...]:
        """Return the clues of an index as they were typed, by their bit."""
        return tuple(clue.typed for clue in self.sides[side].evidence) if side in self.sides else ()

    def with_clues(self, one: Candidate) -> Candidate:
        """Add to a candidate which clues it has itself, and what its neighbours gave it."""
        if not one.place or one.side not in self.sides:
            return one
        scored = self.sides[one.side].scores.scored(one.place)
        around = scored.around / self.ceiling
        return Candidate(*one[:6], around, scored.clues, *one[8:])  # `_replace` takes 2 µs more


NOTHING: Final = Pool((), 0, 1.0, {})


def find(tx: Tx, question: Question, scope: Scope, pool: int = POOL) -> Pool:
    """Find the candidates whose words answer best."""
    among = sides(scope)
    counted = _count(tx, question, among)
    if not counted:
        return NOTHING
    lengths = search_index.averages(tx, scope)
    found: list[WordCandidate] = []
    read: dict[Side, SideWords] = {}
    compared, most = 0, 1.0
    for side in among:
        evidence = _evidence(tx, side, question, counted, scope)
        scores = score(evidence, lengths[side])
        there = {one.clue.match for one in counted if one.counts[side]}
        asked = {clue.match for clue in question.clues if not clue.extra}
        read[side] = SideWords(evidence, scores, frozenset(asked - there))
        compared += len(scores.totals)
        most = max(most, ceiling(evidence))
        found += _resolved(tx, scores, (side, evidence), pool, alone=question.is_strict)
    found.sort(key=lambda one: -one.total)
    return Pool(tuple(found[:pool]), compared, most, read)


def find_newest(tx: Tx, scope: Scope, limit: int) -> Pool:
    """Find the newest of everything that a scope allows, for a question without words."""
    found = [
        WordCandidate(side, number, 0, 1.0)
        for side in sides(scope)
        for number, _, _ in search_index.newest(tx, side, scope, limit)
    ]
    return Pool(tuple(found), len(found), 1.0, {})


def find_newest_with(tx: Tx, question: Question, scope: Scope, limit: int) -> Pool:
    """Find the newest of what has all words; nothing if nothing has."""
    if question.every is None:
        return NOTHING
    match = question.having(question.every)
    found = [
        WordCandidate(side, number, 0, 1.0)
        for side in sides(scope)
        for number, _, _ in search_index.postings(tx, side, match, scope, limit, newest=True)
    ]
    return Pool(tuple(found), len(found), 1.0, {})


# ---------------------------------------------------------------------- what to ask for


def _count(tx: Tx, question: Question, among: Sequence[Side]) -> list[ClueCounts]:
    """Count each clue; the rarest come first, those that nothing has are left out."""
    rows = search_index.sizes(tx, among)
    total = sum(rows.values())
    seen: dict[Match, int] = {}
    counted = []
    for clue in question.clues:
        # A phrase of two frequent words costs most of all to look for, and says least.
        if clue.row_of and min(seen.get(match, 0) for match in clue.row_of) > _RARE_WORD:
            continue
        counts = {side: search_index.frequency(tx, side, clue.match, rows[side]) for side in among}
        seen[clue.match] = sum(counts.values())
        if any(counts.values()):
            counted.append(ClueCounts(clue, counts, total))
    return sorted(counted, key=lambda one: one.total)


def _evidence(
    tx: Tx, side: Side, question: Question, counted: Sequence[ClueCounts], scope: Scope
) -> list[CluePostings]:
    main = [one for one in counted if not one.clue.extra and one.counts[side]][:MOST_MAIN]
    whole, common = _split(side, main, BUDGET)
    if whole:
        telling = max(one.weight for one in whole) * _WEAK
        common = [one for one in common if one.weight >= telling or len(whole) == 1]
        read = [_whole(tx, side, question, one, scope) for one in whole]
        read += _joined(tx, side, question, (whole, common), scope)
    else:
        read = _newest_with(tx, side, question, common, scope)
    extras = [one for one in counted if one.clue.extra and one.counts[side]]
    rare = [one for one in extras if one.counts[side] <= _RARE_PAIR]
    return read + [_whole(tx, side, question, one, scope) for one in rare]


def _split(
    side: Side, clues: Sequence[ClueCounts], budget: int
) -> tuple[list[ClueCounts], list[ClueCounts]]:
    """Part the clues whose rows are read whole from those that are too frequent for that."""
    whole: list[ClueCounts] = []
    spent = 0
    for one in clues:
        spent += one.counts[side]
        if spent > budget:
            break
        whole.append(one)
    return whole, list(clues[len(whole) :])


def _whole(tx: Tx, side: Side, question: Question, one: ClueCounts, scope: Scope) -> CluePostings:
    rows = search_index.postings(tx, side, question.having(one.clue.match), scope)
    return _read(one, rows)


def _read(
    one: ClueCounts, rows: Sequence[search_index.Posting], beside: tuple[Match, ...] | None = None
) -> CluePostings:
    clue = one.clue
    return CluePostings(clue.typed, one.weight, rows, clue.extra, clue.match, beside)


def _joined(
    tx: Tx,
    side: Side,
    question: Question,
    clues: tuple[Sequence[ClueCounts], Sequence[ClueCounts]],
    scope: Scope,
) -> list[CluePostings]:
    """Read the rows of frequent clues where a rare one is too; and, inside a scope, the newest."""
    whole, common = clues
    rarest = _split(side, whole, _JOINED)[0] or whole[:1]
    matches = tuple(one.clue.match for one in rarest)
    rare = any_of(matches)
    read = []
    for one in common:
        rows = search_index.postings(tx, side, question.having(one.clue.match, rare), scope)
        if scope.is_narrow:
            rows = _united(
                rows,
                search_index.postings(tx, side, question.having(one.clue.match), scope, _NEWEST),
            )
        read.append(_read(one, rows, matches))
    return read


def _newest_with(
    tx: Tx, side: Side, question: Question, common: Sequence[ClueCounts], scope: Scope
) -> list[CluePostings]:
    """Read the newest rows that have all clues; where these are few, those with the rarest."""
    if not common:
        return []
    every = question.having(*(one.clue.match for one in common))
    rows = search_index.postings(tx, side, every, scope, _NEWEST)
    if len(rows) >= _FEW or len(common) == 1:
        # All have all: none is better by its words, so the newest is the best.
        alike = [(number, -number, 0) for number, _, _ in rows]
        return [_read(one, alike, ()) for one in common]
    first = common[0]
    read = []
    for one in common:
        match = question.having(one.clue.match, first.clue.match)
        found = search_index.postings(tx, side, match, scope, _NEWEST)
        read.append(_read(one, found, ()))
    return [e._replace(postings=_united(e.postings, rows)) for e in read]


def _united(
    some: Sequence[search_index.Posting], more: Sequence[search_index.Posting]
) -> list[search_index.Posting]:
    return list({row[0]: row for row in (*some, *more)}.values())


# ---------------------------------------------------------------------- from places to rows


def _resolved(
    tx: Tx,
    scores: Scores,
    what: tuple[Side, Sequence[CluePostings]],
    pool: int,
    *,
    alone: bool,
) -> list[WordCandidate]:
    """Find the rows that stand at the best places.

    Some only have neighbours with the words; `alone` leaves those out.
    """
    side, evidence = what
    if alone:
        scores = scores.only({place for clue in evidence for _, place, _ in clue.postings})
    places = scores.best(pool)
    wanted = {place for place in places if place > 0}
    ids = {place: -place for place in places if place < 0}
    if wanted:
        ids |= {at: row for clue in evidence for row, at, _ in clue.postings if at in wanted}
    lacking = wanted - ids.keys()
    ids |= search_index.standing_at(tx, lacking) if lacking else {}
    totals = scores.totals
    return [WordCandidate(side, ids[at], at, totals[at]) for at in places if at in ids]


# ------------------------------------------------------------------------------
# Candidates with all that is known of them: found by words, found by meaning, or both.

_NEAREST: Final = 100
_WIDER: Final = 10  # inside a scope more of the nearest are asked for: most may lie outside
_COMPARED: Final = 2_000  # messages of a few sessions are all compared


class ByMeaning(NamedTuple):
    """What compares, and the vector of the question."""

    meaning: Meaning
    vector: bytes


def by_words(tx: Tx, pool: Pool, scope: Scope) -> list[Candidate]:
    """Return the candidates of a pool that are there and allowed."""
    ids: dict[Side, list[int]] = {"entry": [], "thing": []}
    for one in pool.found:
        ids[one.side].append(one.id)
    facts = {
        "entry": search_index.entry_facts(tx, ids["entry"], scope) if ids["entry"] else {},
        "thing": search_index.thing_facts(tx, ids["thing"]) if ids["thing"] else {},
    }
    candidates = []
    for side, number, place, total in pool.found:
        if found := facts[side].get(number):
            at, kind, hashed, row, session = found
            known = (side, number, kind, at, hashed, total / pool.ceiling)
            candidates.append(Candidate(*known, row=row, session=session, place=place))
    return candidates


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
    if "thing" in among and (not scope.query.kind or "node" in scope.query.kind):
        nodes = _near(tx, by, "node", _NEAREST * (_WIDER if scope.is_narrow else 1))
    return [*_as_entries(tx, messages, scope), *_as_nodes(tx, nodes, scope)]


def _near_messages(tx: Tx, by: ByMeaning, scope: Scope) -> dict[int, float]:
    """Compare all messages of a few sessions; of many, take the nearest of all."""
    if scope.sessions is not None:
        ids = search_index.entries_of_sessions(tx, scope.sessions, _COMPARED + 1)
        if len(ids) <= _COMPARED:
            found = by.meaning.vectors.similarities(tx, by.vector, "message", ids)
            best = sorted(found, key=lambda one: -found[one])[:_NEAREST]
            return {one: found[one] for one in best}
    return _near(tx, by, "message", _NEAREST * (_WIDER if scope.is_narrow else 1))


def _near(tx: Tx, by: ByMeaning, owner: Owner, limit: int) -> dict[int, float]:
    found = by.meaning.vectors.nearest(tx, by.vector, kinds=(owner,), limit=limit)
    return {number: similarity for _, number, similarity in found}


def _as_entries(tx: Tx, near: dict[int, float], scope: Scope) -> list[Candidate]:
    facts = search_index.entry_facts(tx, near, scope) if near else {}
    return [
        Candidate(
            *("entry", number, one.kind, one.at, one.hash),
            meaning=near[number],
            session=one.session,
        )
        for number, one in facts.items()
    ]


def _as_nodes(tx: Tx, near: dict[int, float], scope: Scope) -> list[Candidate]:
    ids = search_index.things_of(tx, "node", near, scope) if near else {}
    facts = search_index.thing_facts(tx, ids.values()) if ids else {}
    return [
        Candidate(
            *("thing", ids[row], "node", facts[ids[row]].at, facts[ids[row]].hash),
            meaning=near[row],
            row=row,
        )
        for row in ids
        if ids[row] in facts
    ]


# ------------------------------------------------------------------------------
# Nodes that our own index does not have yet, found through the contract's.

_WORDS: Final = 0.6  # what having the words is worth where it is not known how well


def behind_index(tx: Tx, text: str, scope: Scope) -> list[Candidate]:
    """Return the nodes behind the end of our index that have the words."""
    found = search_index.unindexed_nodes(tx, text, scope)
    return [
        Candidate(
            *("thing", -one.row, "node", one.at, text_hash("\n".join(one.texts))),
            words=_WORDS * (1 - place / (2 * len(found))),
            row=one.row,
        )
        for place, one in enumerate(found)
    ]
