"""Passages: the sentences and lines of stored texts that answer a question best, word for word.

Nothing here writes a word of its own: a passage is always a piece of the text it was taken from.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from threadkeep.base.words import head_of, index_words, stem
from threadkeep.memory.answer_kinds import (
    CHOOSING,
    SAYS_REASON,
    STOP_WORDS,
    asks_why,
    is_alike,
    is_answer,
    is_decision,
    is_echo,
    is_narration,
    looks_right,
)

MOST_CHARACTERS: Final = 400  # of one passage
WIDE: Final = 320  # of a passage with the sentences beside it
_LEAST_CHARACTERS: Final = 12
_LEAST_WORDS: Final = 5
_READ: Final = 60_000  # characters of one text: beyond this it is a log, and its words were found
_PIECES: Final = 1_200
_QUESTION: Final = 1_000  # characters
_PER_TEXT: Final = 2
_FOUND: Final = 0.4  # what it counts how well the text was found
_FITS: Final = 0.25  # it looks like an answer to just this question
_TELLS: Final = 0.15  # it looks like an answer to something
_BESIDE: Final = 0.3  # what a word counts that stands near a passage, not in it
_NEAR: Final = 0.6  # the same where its looks are judged
_LEAST_OF_BEST: Final = 0.6
# Of the question's words, by their weight, in a passage that answers it for sure.
_LEAST_OWN: Final = 0.7
_LEAST_OF_PART: Final = 0.55  # where its message has nearly all of them
_NEARLY_ALL: Final = 0.9
_LEAST_NAMED: Final = 0.5  # where it has the names in code of the question
_LEAST_WITH_REASON: Final = 0.5  # in the sentence with the reason
_TOGETHER: Final = 4  # words from one to the other
_SENTENCE: Final = re.compile(r"[^\n]*?(?:[.!?](?=\s)|[。！？]|\n|$)")
# A name in code: a run of such characters with a sign in it. As one expression it takes 12 s for a
# thousand slashes.
_RUN: Final = re.compile(r"[\w./:@#+-]+")
_SIGN: Final = re.compile(r"[_./:@#]|[a-z][A-Z]|[A-Za-z]\d|\d[A-Za-z]")
# What an answer looks like, by what was asked for.
_ANSWERS: Final = re.compile(
    r"\b(?:because|decided?|chose|instead|switched|so that|root cause|caused by|due to|the problem"
    r"|the reason|fix(?:ed|es)?|solved|resolved|works now|solution|turns out|needs? to|must)\b"
    r"|`[^`]+`|^\s*\$ |\b(?:error|exception|failed)\b",
    re.IGNORECASE,
)


class PassageSource(NamedTuple):
    """A text to take passages from, and how well it was found: at most 1."""

    text: str
    weight: float
    about: str = ""  # what it was said to: an answer has other words than its question
    trust: float = 1.0  # how likely an answer is in such a text


class Sentence(NamedTuple):
    """A sentence or a line, and where it stands."""

    source: int  # number of its text
    begin: int
    end: int
    text: str


class ScoredPassage(NamedTuple):
    """A passage, and how well it answers."""

    source: int
    text: str
    score: float
    is_likely: bool = False  # it has what was asked for, and its session is about that
    is_sure: bool = False  # it is itself about that, and was said as a fact


def question_terms(question: str) -> tuple[str, ...]:
    """Return the words that a question is about; all of them if it has no others."""
    words = list(dict.fromkeys(index_words(question)))
    telling = [word for word in words if word not in STOP_WORDS]
    about = [word for word in telling if word not in CHOOSING]
    return tuple(about or telling or words)


def best_passages(question: str, texts: Sequence[PassageSource], limit: int) -> list[ScoredPassage]:
    """Choose the passages that answer a question, the best first, none of them twice."""
    question = question[:_QUESTION]
    terms = [stem(term) for term in question_terms(question)]
    pieces = [piece for at, text in enumerate(texts) for piece in pieces_of(text.text, at)]
    held = [_held(piece.text, terms) for piece in pieces]
    asked = _Asked(question, _weights(terms, held), _names_in(question), _pairs_in(question, terms))
    around = _around(texts, pieces, held, terms)
    scored = [
        _scored(asked, piece, texts[piece.source], found, around[piece.source])
        for piece, found in zip(pieces, held, strict=True)
        if found or (around[piece.source] and texts[piece.source].about)
    ]
    ranked = sorted(scored, key=lambda one: (-one.score, one.source))
    least = ranked[0].score * _LEAST_OF_BEST if ranked else 0.0
    return _without_repeats([one for one in ranked if one.score >= least], limit)


def pieces_of(text: str, source: int = 0) -> Iterator[Sentence]:
    """Cut a text into sentences and lines, each as it stands; what is too short says nothing."""
    count = 0
    for found in _SENTENCE.finditer(text[:_READ]):
        piece = found[0].strip()
        if len(piece) < _LEAST_CHARACTERS or not any(map(str.isalnum, piece)):
            continue
        begin = found.start() + found[0].index(piece)
        yield Sentence(source, begin, begin + len(piece), piece)
        count += 1
        if count >= _PIECES:
            return


def widened(text: str, begin: int, end: int, most: int = WIDE) -> str:
    """Give a sentence with the rest of its paragraph: all of it, else what follows, if it fits."""
    first = text.rfind("\n", 0, begin) + 1
    last = text.find("\n", end)
    last = len(text) if last < 0 else last
    for one in (first, begin):
        if last - one <= most:
            return text[one:last].strip()
    ends = [found.end() for found in _SENTENCE.finditer(text, end, begin + most)]
    return text[begin : max([end, *(one for one in ends[:-1] if one <= begin + most)])].strip()


def excerpt(text: str, terms: Sequence[str], most: int = MOST_CHARACTERS) -> str:
    """Cut the part with most of some words out of a long piece, between two blanks."""
    if len(text) <= most:
        return text
    low = text.lower()
    places = sorted(at for term in terms if (at := low.find(term)) >= 0) or [0]
    begin = max(0, min(places[0] - most // 4, len(text) - most))
    cut = text[begin : begin + most]
    if begin + most < len(text) and " " in cut:
        cut = cut[: cut.rindex(" ")]
    if begin and " " in cut:
        cut = cut[cut.index(" ") + 1 :]
    return cut.strip()


# ---------------------------------------------------------------------- scores


def _held(text: str, terms: Sequence[str]) -> frozenset[str]:
    """Return the terms that a text has, in any of their forms."""
    low = text.lower()
    if text.isascii() and not any(head_of(term) in low for term in terms):
        return frozenset()  # most pieces: they need not be split into words
    words = set(index_words(text))
    stems = {stem(word) for word in words}
    return frozenset(term for term in terms if term in stems or term in words)


def _weights(terms: Sequence[str], held: Sequence[frozenset[str]]) -> dict[str, float]:
    """Weigh terms by how few pieces have them."""
    seen = Counter(term for found in held for term in found)
    return {term: math.log(2 + len(held) / (1 + seen[term])) for term in terms}


class _Asked(NamedTuple):
    question: str
    weights: dict[str, float]  # of its terms
    names: tuple[str, ...]  # in code, in small letters
    pairs: tuple[tuple[str, str], ...]  # terms that stand side by side in it


def _names_in(question: str) -> tuple[str, ...]:
    runs = (run.rstrip("./:@#+-") for run in _RUN.findall(question))
    return tuple(run.lower() for run in runs if _SIGN.search(run[:-1]))


def _pairs_in(question: str, terms: Sequence[str]) -> tuple[tuple[str, str], ...]:
    words = [stem(word) for word in index_words(question)]
    known = set(terms)
    return tuple(
        (one, two) for one, two in pairwise(words) if one in known and two in known and one != two
    )


def _around(
    texts: Sequence[PassageSource],
    pieces: Sequence[Sentence],
    held: Sequence[frozenset[str]],
    terms: Sequence[str],
) -> list[frozenset[str]]:
    """Return the terms that stand beside the pieces of each text: in it, in what it is about."""
    found = [set(_held(text.about, terms)) if text.about else set[str]() for text in texts]
    for piece, own in zip(pieces, held, strict=True):
        found[piece.source] |= own
    return [frozenset(one) for one in found]


def _scored(
    asked: _Asked,
    piece: Sentence,
    text: PassageSource,
    found: frozenset[str],
    around: frozenset[str],
) -> ScoredPassage:
    total = sum(asked.weights.values())
    own = sum(asked.weights[term] for term in found) / total
    beside = sum(asked.weights[term] for term in around - found) / total
    low = piece.text.lower()
    score = (
        own
        + _BESIDE * beside
        + 0.3 * sum(name in low for name in asked.names)
        + _FOUND * text.weight
    )
    # A passage that has little of the question earns little by how it looks.
    covered = own + _NEAR * beside
    score = (score + covered * _looks_right(asked.question, piece)) * text.trust
    if piece.text.endswith("?") or is_echo(asked.question, piece.text):
        score *= 0.5  # a question asked before is no answer
    if is_narration(piece.text):
        score *= 0.6
    if len(piece.text.split()) < _LEAST_WORDS and piece.text.isascii():
        score *= 0.7  # a heading, a list of names
    shown = excerpt(widened(text.text, piece.begin, piece.end), sorted(found))
    fits = is_answer(asked.question, shown)
    is_likely = fits and covered >= _LEAST_OWN
    is_own = _is_about(asked, shown, text) or (is_likely and is_decision(asked.question, shown))
    is_sure = fits and text.trust == 1.0 and is_own
    return ScoredPassage(piece.source, shown, score, is_likely, is_sure)


def _is_about(asked: _Asked, passage: str, text: PassageSource) -> bool:
    """Tell whether a passage is itself about what is asked, not only its session.

    A reason counts in its own sentence: beside it, it is the reason for something else.
    """
    low, share = passage.lower(), _share(asked, passage)
    is_named = bool(asked.names) and all(name in low for name in asked.names)
    least = _LEAST_NAMED if is_named else _LEAST_OWN
    is_part = share >= _LEAST_OF_PART and _share(asked, text.text) >= _NEARLY_ALL
    if share < least and not is_part:
        return False
    if not asks_why(asked.question):
        return True
    given = (one.text for one in pieces_of(passage) if SAYS_REASON.search(one.text))
    return any(_share(asked, text) >= _LEAST_WITH_REASON for text in given)


def _share(asked: _Asked, text: str) -> float:
    """Return which part of a question, by the weight of its words, a text has.

    Two words that stand side by side in the question mean one thing ("status command"): where they
    are far from each other, only one of them counts.
    """
    places: dict[str, list[int]] = {}
    for at, word in enumerate(index_words(text)):
        for term in {word, stem(word)} & asked.weights.keys():
            places.setdefault(term, []).append(at)
    apart = {
        min(pair, key=asked.weights.__getitem__)
        for pair in asked.pairs
        if all(term in places for term in pair)
        and not any(abs(a - b) <= _TOGETHER for a in places[pair[0]] for b in places[pair[1]])
    }
    held = sum(asked.weights[term] for term in places.keys() - apart)
    return held / sum(asked.weights.values())


def _looks_right(question: str, piece: Sentence) -> float:
    """Return what a passage earns by looking like an answer to such a question."""
    return (
        _FITS * looks_right(question, piece.text)
        + _TELLS * (_ANSWERS.search(piece.text) is not None)
        + (0.05 if piece.begin == 0 else 0.0)
    )


def _without_repeats(ranked: Sequence[ScoredPassage], limit: int) -> list[ScoredPassage]:
    chosen: list[ScoredPassage] = []
    for one in ranked:
        if len(chosen) >= limit:
            break
        of_its_text = sum(other.source == one.source for other in chosen)
        is_told = any(is_alike(one.text, other.text) for other in chosen)
        if of_its_text < _PER_TEXT and not is_told:
            chosen.append(one)
    return chosen
