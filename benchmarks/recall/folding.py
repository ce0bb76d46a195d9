"""What folding by session gives and what it costs: the same questions, folded in two ways.

Whoever looks for a conversation wants its session high up, whoever reads hits wants the message
that answers: for both the place of the first right hit among the first ten is counted.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from benchmarks.recall import demo, locomo
from threadkeep.knowledge.query import Query
from threadkeep.memory.memory import Memory
from threadkeep.memory.records import Fold, Hit

FOLDS: Final[tuple[Fold, ...]] = ("text", "session")
_FIRST: Final = 10


class Asked(NamedTuple):
    """A question with the sessions that answer it, and what tells whether a hit does."""

    hits: Callable[[Fold], Sequence[Hit]]
    sessions: frozenset[str]
    is_answer: Callable[[Hit], bool]


class FoldScore(NamedTuple):
    """Which part of the questions had the right hit first, and how high up it was."""

    questions: int
    session_first: float
    session_rank: float
    answer_rank: float
    answer_found: float


def of_locomo(memory: Memory, asked: Iterable[locomo.Asked]) -> Iterator[Asked]:
    """Make the questions of LoCoMo such that can be folded."""
    for one in asked:
        names = (place.partition(":")[0].removeprefix("D") for place in one.evidence)
        yield Asked(
            lambda fold, one=one: (
                memory.recall(  # type: ignore[misc]
                    one.text, Query(project=(one.project,)), limit=_FIRST, fold=fold
                ).hits
            ),
            frozenset(f"{one.project}-{number}" for number in names),
            lambda hit, one=one: locomo.place_of(hit.key or "") in one.evidence,  # type: ignore[misc]
        )


def of_demo(memory: Memory, asked: Iterable[dict[str, str]]) -> Iterator[Asked]:
    """Make the questions over the demo such that can be folded; some are of no one session."""
    for one in asked:
        yield Asked(
            lambda fold, one=one: memory.recall(one["question"], limit=_FIRST, fold=fold).hits,  # type: ignore[misc]
            frozenset({one["session"]} - {"*"}),
            lambda hit, one=one: demo.answers(memory, hit.ref, one),  # type: ignore[misc]
        )


def score(asked: Iterable[Asked], fold: Fold) -> FoldScore:
    """Ask every question, folded in one way."""
    sessions: list[int] = []
    answers: list[int] = []
    for one in asked:
        hits = one.hits(fold)
        if one.sessions:
            sessions.append(_first(hit.session_id in one.sessions for hit in hits))
        answers.append(_first(map(one.is_answer, hits)))
    return FoldScore(
        len(answers),
        _mean(place == 1 for place in sessions),
        _mean(1 / place if place else 0.0 for place in sessions),
        _mean(1 / place if place else 0.0 for place in answers),
        _mean(place > 0 for place in answers),
    )


def _first(right: Iterable[bool]) -> int:
    return next((place for place, one in enumerate(right, 1) if one), 0)


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return sum(known) / max(1, len(known))
