"""Memory for a prompt: a fenced block that says of each item where it is from and how old it is."""

import math
import re
from collections import Counter
from collections.abc import Callable
from typing import Final

import msgspec

from threadkeep.base.snippet import snippet
from threadkeep.base.words import index_words
from threadkeep.errors import NotFound
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.search_scope import ANY_NODE, NodeChoice
from threadkeep.memory.answer_kinds import STOP_WORDS
from threadkeep.memory.fence import FenceItem, fenced, new_fence_id
from threadkeep.memory.hits import ago, label_of
from threadkeep.memory.memory import ANYTHING, MemoryReader
from threadkeep.memory.records import Hit, RecallResult

_ITEM_CHARACTERS: Final = 700

NewId = Callable[[], str]


def context(
    memory: MemoryReader,
    query: str,
    within: Query = ANYTHING,
    *,
    nodes: NodeChoice = ANY_NODE,
    limit: int = 8,
    max_chars: int = 4000,
    new_id: NewId = new_fence_id,
) -> str:
    """Return what is remembered about something as a block for a prompt, empty if nothing is."""
    now = memory.clock()
    found = memory.recall(query, within, nodes=nodes, limit=limit).hits
    items = [_item(memory, hit, query, now) for hit in found]
    return fenced(items, new_id(), max_chars)


def _item(memory: MemoryReader, hit: Hit, query: str, now: int) -> FenceItem:
    try:
        text = memory.open(hit.ref, 0).text
    except NotFound:  # forgotten a moment ago
        text = ""
    told = (label_of(hit), hit.agent, hit.project, ago(hit.at, now), hit.contract_ref, hit.ref)
    return FenceItem(" · ".join(one for one in told if one), _cut(text, query))


def _cut(text: str, query: str) -> str:
    return snippet(text.strip(), query, _ITEM_CHARACTERS, ("", ""))


# ------------------------------------------------------------------------------
# similar: what is like a thing that was found, or like a text, but is not the same again.

_REF: Final = re.compile(r"(?:message|node|command|visit|page|run|ci|lesson|segment):\S+")
_READ: Final = 4_000  # characters: what a text is about, it says at its beginning
_TERMS: Final = 12
_SHORTEST: Final = 3
_LOOKED_AT: Final = 3  # times as many as wanted: some are the thing itself again
_SAME: Final = 0.8  # of their words in common


def similar(
    memory: MemoryReader,
    what: str,
    within: Query = ANYTHING,
    *,
    nodes: NodeChoice = ANY_NODE,
    limit: int = 10,
) -> RecallResult:
    """Find what is like a hit, named by its reference, or like any text; the nearest first."""
    own = what.strip() if _REF.fullmatch(what.strip()) else None
    text = memory.open(own, 0).text if own is not None else what
    query = " ".join(telling_terms(text)) or " ".join(text.split()[:_TERMS])
    found = memory.recall(query, within, nodes=nodes, limit=limit * _LOOKED_AT + 1)
    mine = words_of(text)
    hits = [hit for hit in found.hits if hit.ref != own and not _is_copy(memory, hit, mine)]
    return msgspec.structs.replace(found, query=what, hits=tuple(hits[: max(limit, 0)]))


def telling_terms(text: str, most: int = _TERMS) -> list[str]:
    """Return the words that a text is about: often in it, long, not small words; the best first."""
    words = [word for word in index_words(text[:_READ]) if not word.isdecimal()]
    counts = Counter(word for word in words if word not in STOP_WORDS)
    first = {word: place for place, word in reversed(list(enumerate(words)))}
    ranked = sorted(counts, key=lambda word: (-_weight(word, counts[word]), first[word]))
    return [word for word in ranked if len(word) >= _SHORTEST or not word.isascii()][:most]


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text's beginning, to compare it by."""
    return frozenset(index_words(text[:_READ]))


def overlap(one: frozenset[str], other: frozenset[str]) -> float:
    """Return which part of all words of two texts both have; texts without words are the same."""
    return len(one & other) / len(one | other) if one or other else 1.0


def _weight(word: str, count: int) -> float:
    """Weigh a word: one that stands in it twice counts more, not twice as much."""
    return math.sqrt(min(count, 4)) * min(len(word), 10)


def _is_copy(memory: MemoryReader, hit: Hit, mine: frozenset[str]) -> bool:
    try:
        text = memory.open(hit.ref, 0).text
    except NotFound:  # forgotten a moment ago
        return True
    return overlap(words_of(text), mine) >= _SAME
