"""Why a hit stands where it does, in the terms that made its place."""

from threadkeep.recall.finding import Pool
from threadkeep.recall.fusing import RankedCandidate
from threadkeep.recall.records import HitScore
from threadkeep.recall.terms import Question


def explain(ranked: RankedCandidate, pool: Pool, question: Question, best_words: float) -> HitScore:
    """Say what each part gave; `best_words` is what words gave the hit that has most of them."""
    one = ranked.candidate
    typed = pool.typed.get(one.side, ())
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
