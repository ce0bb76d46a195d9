"""Snippets: the stretch of a text that has most of what was asked for, with the words marked.

Words are compared one by one, without their endings. One regular expression for each question
would take four milliseconds to compile, more than all the rest of a hit.
"""

import re
from bisect import bisect_right
from typing import Final, NamedTuple

from threadkeep.base.fts import contains_unspaced, index_words
from threadkeep.recall.terms import Question

MARKS: Final = (">>>", "<<<")
_LOOKED_INTO: Final = 64 * 1024  # characters: who wants more opens the hit
_MOST_SPANS: Final = 400
_WORD: Final = re.compile(r"[^\W_]+")
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_QUOTED: Final = re.compile(r'"([^"]*)"( ?\*)?')
_ENDING: Final = re.compile(r"(?:ings?|edly|ed|ies|es|s|e|y|er|ers|ion|ions|ly)$")
_SHORTEST: Final = 3


class Marks(NamedTuple):
    """What is marked: words without their endings, beginnings of words, and runs of characters."""

    stems: frozenset[str]
    prefixes: tuple[str, ...]
    runs: tuple[str, ...]


class SnippetMark(NamedTuple):
    """A marked stretch, and the word that it stands for."""

    start: int
    end: int
    word: str


def marks_of(question: Question) -> Marks:
    """Give what to mark for a question."""
    stems, prefixes, runs = set[str](), set[str](), set[str]()
    for clue in question.clues:
        for phrase, star in _QUOTED.findall(clue.match):
            if contains_unspaced(phrase):
                runs.add(phrase.replace(" ", ""))
            elif star:
                prefixes.add(phrase.lower().rpartition(" ")[2])
            else:
                stems.update(_stem(word) for word in phrase.lower().split())
    return Marks(frozenset(stems), tuple(sorted(prefixes)), tuple(sorted(runs)))


def cut(text: str, marks: Marks, width: int = 240) -> str:
    """Cut about `width` characters out of a text and mark the words; a cut end shows as `...`."""
    text = text[:_LOOKED_INTO]
    spans = _spans(text, marks) if any(marks) else []
    start, end = _window(text, spans, width)
    pieces = ["..." if start else ""]
    at = start
    for span in spans:
        if at <= span.start and span.end <= end:
            pieces += [text[at : span.start], MARKS[0], text[span.start : span.end], MARKS[1]]
            at = span.end
    return "".join([*pieces, text[at:end], "..." if end < len(text) else ""])


def _spans(text: str, marks: Marks) -> list[SnippetMark]:
    found: list[SnippetMark] = []
    known: dict[str, str] = {}  # most words of a text come again and again
    for match in _WORD.finditer(text):
        token = match[0]
        word = known.get(token)
        if word is None:
            word = known[token] = _marked(token, marks)
        if word:
            found.append(SnippetMark(match.start(), match.end(), word))
            if len(found) >= _MOST_SPANS:
                break
    for run in marks.runs:
        at = text.find(run)
        while at >= 0 and len(found) < _MOST_SPANS:
            found.append(SnippetMark(at, at + len(run), run))
            at = text.find(run, at + len(run))
    return _apart(found)


def _apart(spans: list[SnippetMark]) -> list[SnippetMark]:
    """Drop spans that lie over others."""
    kept: list[SnippetMark] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if not kept or span.start >= kept[-1].end:
            kept.append(span)
    return kept


def _marked(token: str, marks: Marks) -> str:
    """Give the word that a token stands for; nothing if it was not asked for."""
    word = token.lower() if token.isascii() else " ".join(index_words(token))
    stem = _stem(word)
    if stem in marks.stems:
        return stem
    if marks.prefixes and word.startswith(marks.prefixes):
        return word
    parts = _CAMEL.split(token)
    inner = (_stem(part.lower()) for part in parts) if len(parts) > 1 else ()
    return next((part for part in inner if part in marks.stems), "")


def _stem(word: str) -> str:
    stem = _ENDING.sub("", word)
    if len(stem) < _SHORTEST:
        return word
    return stem[:-1] if stem[-1] == stem[-2] else stem


def _window(text: str, spans: list[SnippetMark], width: int) -> tuple[int, int]:
    """Choose the stretch with most words in it; the first one if several have as many."""
    if not spans or len(text) <= width:
        return 0, min(len(text), width)
    starts = [span.start for span in spans]
    best, most, last = spans[0], 0, spans[0]
    for at, span in enumerate(spans):
        until = bisect_right(starts, span.start + width)
        words = len({one.word for one in spans[at:until]})
        if words > most:
            best, most, last = span, words, spans[until - 1]
    slack = max(0, width - (last.end - best.start))
    start = min(max(0, best.start - slack // 2), max(0, len(text) - width))
    space = text.find(" ", start, min(best.start, start + 20)) if start else -1
    start = space + 1 if space >= 0 else start
    return start, min(len(text), start + max(width, best.end - start))
