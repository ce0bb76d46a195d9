"""Snippets: the stretch of a text in which most of what was typed is, marked.

snippet("see gateway/run.py", "gateway/run.py")       'see >>>gateway/run.py<<<'
"""

import re
import unicodedata
from functools import lru_cache
from itertools import islice
from typing import Final

from threadkeep.base.match import MAX_TOKENS, Term, parse_query
from threadkeep.base.words import (
    INDEX_LIMIT,
    LETTER,
    contains_unspaced,
    head_of,
    stem,
    word_pattern,
)

_Span = tuple[int, int, int]
_MAX_SPANS_PER_TERM: Final = 50
_GAP: Final = r"[\W_]{1,32}"
_NO_GAP: Final = r"[\W_]{0,32}"


def snippet(text: str, query: str, width: int = 160, mark: tuple[str, str] = (">>>", "<<<")) -> str:
    """Cut about `width` characters around the place where most of the query is, and mark it.

    Without any match it is the head of the text. A cut end shows as `...`.
    """
    text = text[:INDEX_LIMIT]
    return _marked(text, _find(text, query), width, mark)


def snippet_of_match(text: str, query: str, width: int = 160) -> str | None:
    """Cut a snippet as `snippet` does; None if nothing of the query is in the text."""
    text = text[:INDEX_LIMIT]
    spans = _find(text, query)
    return _marked(text, spans, width, (">>>", "<<<")) if spans else None


def _marked(text: str, spans: "list[_Span]", width: int, mark: tuple[str, str]) -> str:
    start, end = _window(text, spans, width)
    pieces = ["..." if start else ""]
    at = start
    for left, right, _ in spans:
        if at <= left < end:
            pieces += [text[at:left], mark[0], text[left : min(right, end)], mark[1]]
            at = min(right, end)
    pieces += [text[at:end], "..." if end < len(text) else ""]
    return "".join(pieces)


def _find(text: str, query: str) -> list[_Span]:
    """Find the terms in the text: (start, end, number of the term), in order, not overlapping."""
    folded, asked = _fold(text), _asked(query)
    spans = [span for n, term in asked if term.words for span in _find_term(folded, term, n)]
    # Emoji and symbols are what was looked for only where no word is: `a - b` is not about hyphens.
    for n, term in asked if not spans else ():
        spans += [] if term.words else _find_pattern(folded, re.escape(_fold(term.typed)), n)
    kept: list[_Span] = []
    for span in sorted(spans, key=lambda span: (span[0], -span[1])):
        if not kept or span[0] >= kept[-1][1]:
            kept.append(span)
    return kept


@lru_cache(maxsize=32)
def _asked(query: str) -> tuple[tuple[int, Term], ...]:
    """Read the terms of a query with their numbers: once for all of its hits."""
    return tuple((n, term) for n, term in enumerate(parse_query(query)) if term.operator != "NOT")


def _find_term(folded: str, term: Term, number: int) -> list[_Span]:
    """Find the words as they are; if they are nowhere, words of the same stems."""
    exact = _find_pattern(folded, _exact_pattern(term.words, rest=term.prefix), number)
    if exact:
        return exact
    stems = [stem(_fold(word)) for word in term.words]
    near = _pattern([head_of(one) for one in stems], rest=True)
    found = re.finditer(near, folded)
    alike = (one for one in found if list(map(stem, word_pattern().findall(one[0]))) == stems)
    return [(one.start(), one.end(), number) for one in islice(alike, _MAX_SPANS_PER_TERM)]


@lru_cache(maxsize=128)
def _exact_pattern(words: tuple[str, ...], *, rest: bool) -> str:
    return _pattern([_fold(word) for word in words], rest=rest)


def _find_pattern(folded: str, pattern: str, number: int) -> list[_Span]:
    found = islice(re.finditer(pattern, folded), _MAX_SPANS_PER_TERM)
    return [(match.start(), match.end(), number) for match in found]


def _pattern(words: list[str], *, rest: bool) -> str:
    """A regular expression for words in a row; with `rest` they may continue."""
    pattern = ""
    for at, word in enumerate(words):
        alone = contains_unspaced(word)
        if at:
            pattern += _NO_GAP if alone or contains_unspaced(words[at - 1]) else _GAP
        escaped = re.escape(word)
        tail = rf"{LETTER}*" if rest else rf"(?!{LETTER})"
        # What stands before a word is looked at behind it: a pattern that begins with the word
        # itself is found 20 times as fast.
        pattern += escaped if alone else rf"{escaped}(?<!{LETTER}{escaped}){tail}"
    return pattern


def _fold(text: str) -> str:
    """Lower case without accents, character by character, so that positions stay the same."""
    if text.isascii():
        return text.lower()
    table = {ord(c): _fold_character(c) for c in set(text) if not c.isascii()}
    return text.translate(table).lower()


def _fold_character(character: str) -> str:
    if contains_unspaced(character):
        return character
    first = unicodedata.normalize("NFKD", character)[0].lower()
    return first if len(first) == 1 else character


def _window(text: str, spans: list[_Span], width: int) -> tuple[int, int]:
    """Choose the stretch of text with most terms in it; the first one if several have as many."""
    if not spans or len(text) <= width:
        return 0, min(len(text), width)
    best, most, all_of_them = spans[0][:2], 0, len({span[2] for span in spans})
    for at, (left, right, _) in enumerate(spans):
        inside = [span for span in spans[at : at + MAX_TOKENS] if span[1] <= left + width]
        terms = len({span[2] for span in inside})
        if terms > most:
            best, most = (left, max([right, *(span[1] for span in inside)])), terms
        if most == all_of_them:
            break
    start = max(0, best[0] - max(0, width - (best[1] - best[0])) // 2)
    start = min(start, max(0, len(text) - width))
    return _snap(text, start, best[0]), min(len(text), start + width)


def _snap(text: str, start: int, match: int) -> int:
    """Move the cut to the next space before the match, if one is near."""
    space = text.find(" ", start, min(match, start + 20)) if start else -1
    return space + 1 if space >= 0 else start
