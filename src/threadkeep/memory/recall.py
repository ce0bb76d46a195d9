"""One question, answered: candidates by words and by meaning, put in order, shown once each."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from datetime import UTC, tzinfo
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from threadkeep.base.config import RecallSettings
from threadkeep.base.match import Match, all_of
from threadkeep.base.text import pattern
from threadkeep.base.tx import Tx
from threadkeep.errors import Invalid, ThreadkeepError
from threadkeep.knowledge.archived import ArchivedEntries
from threadkeep.knowledge.hit_rows import (
    FoundSession,
    SessionMessage,
    found_sessions,
    load_messages,
)
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.records import Readers
from threadkeep.knowledge.search_index import having
from threadkeep.knowledge.search_scope import (
    SHOWN_AS,
    NodeChoice,
    Scope,
    Side,
    is_agent,
    scope_of,
)
from threadkeep.memory.candidates import (
    NOTHING,
    POOL,
    ByMeaning,
    Pool,
    SideWords,
    add_meaning,
    behind_index,
    by_words,
    find,
    find_newest,
    find_newest_with,
)
from threadkeep.memory.hits import (
    HitText,
    Marks,
    load_thing,
    marks_of,
    message_hit,
    thing_hit,
)
from threadkeep.memory.question import Question, read_question, times_in
from threadkeep.memory.ranking import Candidate, RankedCandidate, by_time, fuse
from threadkeep.memory.records import Fold, Hit, HitScore, Meaning, RecallResult

# ------------------------------------------------------------------------------
# Saying things once: of hits that say the same the best is kept, with the number of the others.

MOST: Final = 50  # only so many hits are compared
_ALIKE: Final = 0.85  # share of words that two texts have in common
_NEAR_LENGTH: Final = 0.97
_LOOKED_INTO: Final = 4_000  # characters of a text that are compared
_MOST_READ: Final = 4  # texts that are read from the archive for this alone
_WORD: Final = pattern(r"\w+")


class HitGroup(NamedTuple):
    """A hit, how many others say the same, and how many more its session has."""

    ranked: RankedCandidate
    same: int = 0
    more: int = 0


def words_in(text: str) -> frozenset[str]:
    """Give the words that a text is compared by; numbers count as one, they differ in every log."""
    found = _WORD.findall(text[:_LOOKED_INTO].lower())
    return frozenset("0" if word.isdigit() else word for word in found)


def are_alike(one: frozenset[str], two: frozenset[str]) -> bool:
    """Tell whether two texts have nearly all words in common."""
    if not one or not two:
        return one == two
    return len(one & two) / len(one | two) >= _ALIKE


class _Folding:
    """Hits in their order, of which some stand behind others."""

    def __init__(self, text_of: Callable[[RankedCandidate], str]) -> None:
        self._text_of = text_of
        self._texts: dict[int, frozenset[str]] = {}
        self._reads = 0
        self.kept: list[RankedCandidate] = []
        self.same: Counter[int] = Counter()
        self.more: Counter[int] = Counter()
        self._groups: dict[Hashable, int] = {}
        self._hashes: dict[int, int] = {}
        # Two may be alike only if they are of a kind and have the same words of the question.
        self._near: dict[tuple[str, int], list[int]] = {}

    def add(self, one: RankedCandidate, group: Hashable) -> None:
        """Keep a hit, or count it behind the one of its group or of its text."""
        if group in self._groups:
            self.more[self._groups[group]] += 1
            return
        twin = self._twin(one)
        if twin is not None:
            self.same[twin] += 1
            return
        number, mine = len(self.kept), one.candidate
        if group is not None:
            self._groups[group] = number
        self._hashes[mine.hash] = number
        self._near.setdefault((mine.kind, mine.clues), []).append(number)
        self.kept.append(one)

    def _twin(self, one: RankedCandidate) -> int | None:
        """Find a hit that says the same.

        Only texts of those that may be alike are read: reading one costs a part of a millisecond,
        so few are.
        """
        mine = one.candidate
        if mine.hash in self._hashes or not mine.clues:
            return self._hashes.get(mine.hash)
        near = self._near.get((mine.kind, mine.clues), ())
        twins = [number for number in near if _are_as_good(mine, self.kept[number].candidate)]
        if not twins or self._reads >= _MOST_READ:
            return None
        self._reads += 1
        words = words_in(self._text_of(one))
        return next((n for n in twins if are_alike(words, self._words(n))), None)

    def _words(self, number: int) -> frozenset[str]:
        if number not in self._texts:
            self._texts[number] = words_in(self._text_of(self.kept[number]))
        return self._texts[number]


def collapse(
    ranked: Iterable[RankedCandidate],
    limit: int,
    text_of: Callable[[RankedCandidate], str],
    group_of: Callable[[RankedCandidate], Hashable] = lambda _: None,
) -> list[HitGroup]:
    """Keep one of those that say the same, and one of each group; give at most `limit`.

    What comes behind the first fifty is only looked at where these do not fill the answer.
    """
    folding = _Folding(text_of)
    for count, one in enumerate(ranked, 1):
        folding.add(one, group_of(one))
        if count >= MOST and len(folding.kept) >= limit:
            break
    groups = enumerate(folding.kept[:limit])
    return [HitGroup(one, folding.same[n], folding.more[n]) for n, one in groups]


def _are_as_good(mine: Candidate, theirs: Candidate) -> bool:
    low, high = sorted((mine.words - mine.around, theirs.words - theirs.around))
    return high <= 0 or low / high >= _NEAR_LENGTH


# ------------------------------------------------------------------------------
# Why a hit stands where it does, in the terms that made its place.


def explain(ranked: RankedCandidate, pool: Pool, question: Question, best_words: float) -> HitScore:
    """Say what each part gave; `best_words` is what words gave the hit that has most of them."""
    one = ranked.candidate
    typed = pool.typed(one.side)
    having = {word for number, word in enumerate(typed) if one.clues >> number & 1}
    pairs = {clue.typed for clue in question.clues if clue.extra and " " in clue.typed}
    phrases = {clue.typed for clue in question.clues if clue.match in question.must}
    return HitScore(
        terms=tuple(word for word in dict.fromkeys(typed) if word in having - pairs),
        words=round(one.words / best_words, 4) if best_words else 0.0,
        phrase=bool(having & (pairs | phrases)),
        around=round(one.around / best_words, 4) if best_words else 0.0,
        meaning=None if one.meaning is None else round(one.meaning, 4),
        recency=round(ranked.recency, 4),
        weight=round(ranked.weight, 4),
        total=round(ranked.total, 4),
    )


_MEANT: Final = 8_000  # characters of a question that its vector is made of


class RecallRequest(NamedTuple):
    """A question with all that answering it needs."""

    text: str
    within: Query
    nodes: NodeChoice
    limit: int
    explain: bool
    settings: RecallSettings
    now: int
    zone: tzinfo = UTC
    newest: bool = False
    fold: Fold = "text"


def _check(tx: Tx, sources: Readers, asked: RecallRequest) -> None:
    """Refuse an agent or a category that there is not: it would leave out everything."""
    for name in asked.within.agent:
        if is_agent(tx, name):
            continue
        readable = {source.agent for source in sources.values()}  # loads all of them
        if not is_agent(tx, name, readable):
            known = ", ".join(sorted(readable))
            raise Invalid(f"unknown agent {name!r}", hint=f"known: {known}")
    if not asked.nodes.category:
        return
    from threadkeep.knowledge.memory_documents import CATEGORIES  # noqa: PLC0415  (seldom asked)

    if asked.nodes.category not in CATEGORIES:
        msg = f"there is no category {asked.nodes.category!r} of memories"
        raise Invalid(msg, hint="known: " + ", ".join(CATEGORIES))


class MeaningSearch(NamedTuple):
    """A question compared by its vector, or the reason why it is not."""

    by: ByMeaning | None = None
    note: str = ""


def meant(meaning: Meaning | None, text: str) -> MeaningSearch:
    """Make the vector of a question, outside of any transaction: a server may take its time.

    A model that fails is told of; the words of the question are looked for all the same.
    """
    if meaning is None:
        return MeaningSearch()
    question = read_question(text)
    if not question.clues or question.must:
        return MeaningSearch()
    said = text[:_MEANT].encode("utf-8", "replace").decode()
    try:
        return MeaningSearch(ByMeaning(meaning, meaning.embedder.embed([said])[0]))
    except ThreadkeepError as error:
        return MeaningSearch(note=f"only words were compared: {error.message}")


def recall_in(tx: Tx, sources: Readers, asked: RecallRequest, meant: MeaningSearch) -> RecallResult:
    """Answer a question inside one transaction."""
    question = read_question(asked.text)
    _check(tx, sources, asked)
    scope = scope_of(tx, asked.within, asked.nodes, asked.now, asked.zone)
    pool = _pool(tx, question, scope, asked)
    candidates = [*by_words(tx, pool, scope), *behind_index(tx, asked.text, scope)]
    if meant.by is not None and not asked.newest:
        candidates = add_meaning(tx, meant.by, candidates, scope)
    whole = _having_all(tx, question, pool, candidates)
    ranked = _ordered(candidates, question, asked)
    ranked.sort(key=lambda one: (one.candidate.side, one.candidate.id) not in whole)
    settled_at = None if asked.nodes.excluded else asked.now
    shower = _Shower(tx, sources, pool, settled_at)
    kept = _folded(shower, ranked, asked)
    hits = _shown(shower, kept, (asked, pool, question))
    compared = max(pool.compared, len(candidates))
    compared_by_it = any(one.meaning is not None for one in candidates)
    notes = (*_notes(question, asked, scope, shower), *filter(None, [meant.note]))
    missing = () if whole else _missing(tx, question, pool, kept)
    return RecallResult(asked.text, hits, compared, compared_by_it, notes, missing)


def _pool(tx: Tx, question: Question, scope: Scope, asked: RecallRequest) -> Pool:
    """Find candidates: by words, the newest with all of them, or the newest of everything."""
    if not question.clues:  # a question of signs finds nothing
        return NOTHING if asked.text.strip() else find_newest(tx, scope, asked.limit * 3)
    if asked.newest:
        newest = find_newest_with(tx, question, scope, max(asked.limit * 3, POOL))
        if newest.found:
            return newest
    return find(tx, question, scope, max(asked.limit, POOL))


def _having_all(
    tx: Tx, question: Question, pool: Pool, candidates: Sequence[Candidate]
) -> set[tuple[Side, int]]:
    """Return the candidates that have all words themselves: they come first."""
    if question.every is None:
        return set()
    words = [word.match for word in question.words]
    if question.is_strict or question.every != all_of(words):
        words = [question.every]  # as it stands: what was read of single words tells too little
    return set(_having(tx, words, pool, candidates))


def _having(
    tx: Tx, words: Sequence[Match], pool: Pool, candidates: Iterable[Candidate]
) -> Iterator[tuple[Side, int]]:
    """Yield what has all of some words; the index is only asked what was not read of it yet."""
    sides: dict[Side, list[Candidate]] = {}
    for one in candidates:
        if one.id < 0:  # behind our index: only what has all words was taken from there
            yield one.side, one.id
        else:
            sides.setdefault(one.side, []).append(one)
    for side, some in sides.items():
        sure, unsure = some, list[Candidate]()
        read = pool.sides.get(side, SideWords())
        for match in words:
            known, maybe = read.among(match, sure)
            still = read.among(match, unsure)
            sure, unsure = known, [*maybe, *still[0], *still[1]]
        yield from ((side, one.id) for one in sure)
        if unsure:
            ids = [one.id for one in unsure]
            yield from ((side, number) for number in having(tx, side, all_of(words), ids))


def _missing(tx: Tx, question: Question, pool: Pool, kept: Sequence[HitGroup]) -> tuple[str, ...]:
    """Name the words that none of the hits has; a question with signs is taken as it stands."""
    if len(question.words) < 2 or not kept:  # noqa: PLR2004  (one word alone is there, or not)
        return ()
    shown = [one.ranked.candidate for one in kept]
    read = NOTHING if question.is_strict else pool
    words = question.words
    return tuple(one.typed for one in words if not any(_having(tx, [one.match], read, shown)))


def _folded(
    shower: "_Shower", ranked: Sequence[RankedCandidate], asked: RecallRequest
) -> list[HitGroup]:
    """Show things once, as far as that is wanted; inside one session all of its hits count."""
    visible = shower.visible(ranked)
    if asked.fold == "nothing":
        return [HitGroup(one) for one in islice(visible, asked.limit)]
    if asked.fold == "text" or asked.within.session:
        return collapse(visible, asked.limit, shower.text_of)
    return collapse(visible, asked.limit, shower.text_of, shower.group_of)


def _ordered(
    candidates: Sequence[Candidate], question: Question, asked: RecallRequest
) -> list[RankedCandidate]:
    if asked.newest or not question.clues:
        return by_time(candidates, asked.settings, asked.now)
    when = times_in(asked.text, asked.now, asked.zone)
    return fuse(candidates, asked.settings, asked.now, when, asked.zone)


def _notes(
    question: Question, asked: RecallRequest, scope: Scope, shower: "_Shower"
) -> tuple[str, ...]:
    notes = []
    if not question.clues and asked.text.strip():
        notes.append("the question has no searchable word")
    if not scope.placed:
        said = "this version never opened the file for writing"
        notes.append(f"{said}: only messages and knowledge count")
    if shower.archive.damaged:
        notes.append(f"{len(shower.archive.damaged)} blocks of the archive cannot be read")
    return tuple(notes)


def _shown(
    shower: "_Shower", kept: Sequence[HitGroup], about: tuple[RecallRequest, Pool, Question]
) -> tuple[Hit, ...]:
    asked, pool, question = about
    top = kept[0].ranked.total if kept else 1.0
    words = max((one.ranked.candidate.words for one in kept), default=0.0)
    hits = []
    shower.load(one.ranked.candidate for one in kept)
    marks = marks_of(question)
    for one in kept:
        hit = shower.hit(one.ranked.candidate, marks)
        why = explain(one.ranked, pool, question, words) if asked.explain else None
        share = round(one.ranked.total / top, 4) if top > 0 else 0.0
        counts = {"same": one.same, "more": one.more}
        hits.append(msgspec.structs.replace(hit, score=share, why=why, **counts))
    return tuple(hits)


class _Shower:
    """Reads what is behind candidates, each once."""

    def __init__(self, tx: Tx, sources: Readers, pool: Pool, settled_at: int | None) -> None:
        self._tx = tx
        self._pool = pool
        self._settled_at = settled_at  # None: nothing is left out
        self.archive = ArchivedEntries(tx, sources, keep=True)
        self._texts: dict[int, str] = {}
        self._messages: dict[int, SessionMessage] = {}
        self._things: dict[int, HitText] = {}
        self._sessions: dict[int, FoundSession] = {}  # of messages, by their rows

    def load(self, some: Iterable[Candidate]) -> None:
        """Read the messages among some candidates at once."""
        ids = {one.id for one in some if one.side == "entry"} - self._messages.keys()
        self._messages |= load_messages(self._tx, ids) if ids else {}

    def text_of(self, ranked: RankedCandidate) -> str:
        """Return the text of a candidate."""
        one = ranked.candidate
        return self._things[one.id].text if one.side == "thing" else self._text(one)

    def group_of(self, ranked: RankedCandidate) -> Hashable:
        """Give what a candidate is folded into: its kind and its agent's session, if it has one."""
        one = ranked.candidate
        if one.side == "entry":
            return "message", *self._sessions[one.session].name
        hit = self._things[one.id].hit
        return (hit.kind, hit.agent, hit.session_id) if hit.agent and hit.session_id else None

    def hit(self, one: Candidate, marks: Marks) -> Hit:
        """Show a candidate."""
        if one.side == "thing":
            return thing_hit(self._things[one.id], marks)
        text = self._text(one)
        return message_hit(self._messages[one.id], text, marks)

    def _text(self, one: Candidate) -> str:
        if one.id not in self._texts:
            self.load([one])
            self._texts[one.id] = self.archive.text(self._messages[one.id].row)
        return self._texts[one.id]

    def visible(self, ranked: Sequence[RankedCandidate]) -> Iterator[RankedCandidate]:
        """Yield those that users may see, in their order: no probes, nothing that is gone."""
        for at in range(0, len(ranked), MOST):
            some = ranked[at : at + MOST]
            rows = {one.candidate.session for one in some if one.candidate.side == "entry"}
            self._sessions |= found_sessions(self._tx, rows) if rows else {}
            hidden = self._hidden(one.candidate.row for one in some if one.candidate.kind == "node")
            yield from (
                one._replace(candidate=self._pool.with_clues(one.candidate))
                for one in some
                if not (one.candidate.kind == "node" and one.candidate.row in hidden)
                and self._is_visible(one.candidate)
            )

    def _hidden(self, nodes: Iterable[int]) -> set[int]:
        """Return the nodes that are left out: they rest on nothing that is real and settled."""
        wanted = set(nodes)
        if not wanted or self._settled_at is None:
            return set()
        from threadkeep.knowledge.evidence import eligible_nodes  # noqa: PLC0415  (nodes alone)

        return wanted - eligible_nodes(self._tx, wanted, self._settled_at)

    def _is_visible(self, one: Candidate) -> bool:
        if one.side == "entry":
            found = self._sessions.get(one.session)
            return found is not None and not found.is_probe
        thing = load_thing(self._tx, SHOWN_AS.get(one.kind, one.kind), one.row, indexed=one.id > 0)
        if thing is not None:
            self._things[one.id] = thing
        return thing is not None
