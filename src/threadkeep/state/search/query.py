"""A search as it was typed, made into what indexes are asked and texts are compared with."""

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from threadkeep.base.match import Match, Phrase, all_of, any_of, parse_query, without
from threadkeep.base.words import contains_unspaced, fold, index_words

# BM25's usual numbers: how soon more of a word stops counting, and how much length counts.
_SATURATION: Final = 1.2
_LENGTH: Final = 0.75
_EXACTLY: Final = 64
_SHORTEST_PREFIX: Final = 3
_COLUMN: Final = re.compile(r'("[^"]*")|(?<!\S)content\s*:\s*(?=\S)')


class StateTerm(NamedTuple):
    """One thing asked for: as typed, as words of our index, as words of the contract's index."""

    typed: str
    words: tuple[str, ...]
    raw: tuple[str, ...]
    prefix: bool


class Group(NamedTuple):
    """What is between two ORs: terms that must all occur, and terms that must not."""

    wanted: tuple[StateTerm, ...]
    unwanted: tuple[StateTerm, ...] = ()


def groups_of(query: str) -> list[Group]:
    """Read a query: groups joined by OR, in each of them words, phrases, prefixes and NOT.

    A term without any word, an emoji for example, counts in a group of such terms only: no index
    knows it.
    """
    groups: list[tuple[list[StateTerm], list[StateTerm]]] = [([], [])]
    for ours, theirs in zip(parse_query(query), parse_query(query, split=False), strict=False):
        words = tuple(map(fold, ours.words))
        term = StateTerm(ours.typed, words, theirs.words, ours.prefix)
        if ours.operator == "OR":
            groups.append(([], []))
        groups[-1][ours.operator == "NOT"].append(term)
    return [group for wanted, unwanted in groups if (group := _group(wanted, unwanted)).wanted]


def _group(wanted: list[StateTerm], unwanted: list[StateTerm]) -> Group:
    with_words = [term for term in wanted if term.words]
    # Asking twice for the same is asking once.
    unique = dict.fromkeys(with_words or wanted)
    return Group(tuple(unique), tuple(term for term in unwanted if term.words or not with_words))


def as_prefixes(groups: Sequence[Group]) -> list[Group]:
    """Ask for words that only begin as typed: `sp_new` for `sp_new1`; for short ones as before."""
    return [group._replace(wanted=tuple(map(_as_prefix, group.wanted))) for group in groups]


def _as_prefix(term: StateTerm) -> StateTerm:
    long = bool(term.words) and len(term.words[-1]) >= _SHORTEST_PREFIX
    return term._replace(prefix=True) if long and not is_unspaced(term) else term


def without_column(query: str) -> str:
    """Take `content:` off a term: version 6 has no other column, and every word is in it."""
    return _COLUMN.sub(lambda found: found[1] or "", query)


def is_literal(group: Group) -> bool:
    """Tell whether there is no word in a group, so that no index can be asked."""
    return not any(term.words for term in group.wanted)


def is_unspaced(term: StateTerm) -> bool:
    """Tell whether a term is of a script without spaces, at least in part."""
    return any(map(contains_unspaced, term.words))


# ---------------------------------------------------------------------- matches


def our_match(wanted: Iterable[StateTerm], unwanted: Iterable[StateTerm] = ()) -> Match | None:
    """Return what to ask the index for that was filled through `index_text`; None without words."""
    return _match([(term.words, term) for term in wanted], [(one.words, one) for one in unwanted])


def raw_match(wanted: Iterable[StateTerm], unwanted: Iterable[StateTerm] = ()) -> Match | None:
    """Return what to ask the contract's index for, which got its text as it was."""
    return _match([(term.raw, term) for term in wanted], [(one.raw, one) for one in unwanted])


def raw_match_of_any(terms: Iterable[StateTerm]) -> Match | None:
    """Ask the contract's index for one of some terms."""
    phrases = [Phrase(term.raw, term.prefix) for term in terms if term.raw]
    return any_of(phrases) if phrases else None


_Asked = list[tuple[tuple[str, ...], StateTerm]]


def _match(wanted: _Asked, unwanted: _Asked) -> Match | None:
    phrases = [Phrase(words, term.prefix) for words, term in wanted if words]
    never = [Phrase(words, term.prefix) for words, term in unwanted if words]
    return without(all_of(phrases), never) if phrases else None


# ---------------------------------------------------------------------- texts


def matches(groups: Iterable[Group], text: str) -> bool:
    """Tell whether a text has what was asked for, as the indexes would."""
    lower = text.lower()
    likely = [group for group in groups if _may_match(group, lower)]
    if not likely:
        return False
    padded = f" {' '.join(index_words(text, len(text)))} "
    return any(
        all(_has(term, padded, lower) for term in group.wanted)
        and not any(_has(term, padded, lower) for term in group.unwanted)
        for group in likely
    )


def _may_match(group: Group, lower: str) -> bool:
    """Refuse most texts quickly; accents and odd widths may hide a word, in a text with such."""
    plain = lower.isascii()
    same = plain or unicodedata.is_normalized("NFKC", lower)
    return all(
        word in lower
        for term in group.wanted
        for word in term.words
        if plain or (same and contains_unspaced(word))
    )


def may_be_in(groups: Iterable[Group], columns: bytes) -> bool:
    """Refuse most rows even before they are decoded: for text in ASCII, without JSON escapes."""
    if not columns.isascii() or b"\\u" in columns:
        return True
    lower = columns.lower()
    return any(all(needle in lower for needle in _needles(group)) for group in groups)


def _needles(group: Group) -> list[bytes]:
    words = [word for term in group.wanted for word in term.words or (term.typed.lower(),)]
    return [_encoded(word) for word in words]


def _has(term: StateTerm, padded: str, lower: str) -> bool:
    if not term.words:
        return term.typed.lower() in lower
    return f" {' '.join(term.words)}{'' if term.prefix else ' '}" in padded


# ---------------------------------------------------------------------- scores


def counts(groups: Iterable[Group], texts: Iterable[bytes]) -> list[tuple[list[int], int]]:
    """Count how often each term is in each text, roughly: as typed, else its rarest word.

    Gives the counts and the length. Bytes are enough: they need not be UTF-8, and only letters of
    ASCII are compared without regard to case.
    """
    lower = [text.lower() for text in texts]
    terms = [term for group in groups for term in group.wanted]
    columns = [
        _times(lower, _encoded(term.typed), list(map(_encoded, term.words))) for term in terms
    ]
    return [(list(row[:-1]), row[-1]) for row in zip(*columns, map(len, lower), strict=True)]


def _times(texts: list[bytes], typed: bytes, words: list[bytes]) -> list[int]:
    """What was typed, in one piece, counts for more than any number of its words."""
    exactly = [text.count(typed) for text in texts]
    if words == [typed]:
        return exactly
    more = _EXACTLY if len(words) > 1 else 0
    return [
        more + found if found else min(map(text.count, words), default=0)
        for found, text in zip(exactly, texts, strict=True)
    ]


def _encoded(text: str) -> bytes:
    return text.lower().encode("utf-8", "replace")


def scores(found: Sequence[tuple[list[int], int]]) -> list[float]:
    """Score texts among each other by (counts of each term, length), in the manner of BM25.

    How rare a term is, is counted in these texts alone.
    """
    if not found:
        return []
    mean = sum(length for _, length in found) / len(found) or 1
    having = [
        len(found) - column.count(0) for column in zip(*(each for each, _ in found), strict=True)
    ]
    weights = [math.log(1 + len(found) / max(1, number)) for number in having]
    points = []
    for each, length in found:
        norm = _SATURATION * (1 - _LENGTH + _LENGTH * length / mean)
        parts = zip(weights, each, strict=True)
        points.append(sum([weight * count / (count + norm) for weight, count in parts if count]))
    return points


# ------------------------------------------------------------------------------
# Two helpers that programs written against the contract call by name.
#
# Search itself does not use them: it takes any text as it is.

_PIECES: Final = re.compile(r'("[^"]*")')
_SPECIAL: Final = re.compile(r'[+{}()"^]')
_STARS: Final = re.compile(r"\*{2,}")
_LONE_STARS: Final = re.compile(r"(?:^|(?<=\s))\*")
_LEADING: Final = re.compile(r"^(?:AND|OR|NOT)\b\s*", re.IGNORECASE)
_TRAILING: Final = re.compile(r"\s+(?:AND|OR|NOT)$", re.IGNORECASE)
_JOINED: Final = re.compile(r"\w+(?:[.-]\w+)+")
_CJK: Final = re.compile(
    "[\u3000-\u303f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)


def sanitize_fts5_query(query: str) -> str:
    """Make what a person typed a query that FTS5 can parse, as the contract does it.

    Whole phrases stay; special characters and dangling operators go; words joined by dots or
    hyphens become phrases.
    """
    pieces = _PIECES.split(query)
    plain = [_without_special(piece) for piece in pieces[::2]]
    pieces[::2] = plain
    text = _without_dangling("".join(pieces).strip())
    return "".join(
        piece if place % 2 else _JOINED.sub(r'"\g<0>"', piece)
        for place, piece in enumerate(_PIECES.split(text))
    ).strip()


def _without_special(text: str) -> str:
    text = _STARS.sub("*", _SPECIAL.sub(" ", text))
    return _LONE_STARS.sub("", text)


def _without_dangling(text: str) -> str:
    return _TRAILING.sub("", _LEADING.sub("", text)).strip()


def contains_cjk(text: str) -> bool:
    """Tell whether there is Chinese, Japanese or Korean in a text."""
    return _CJK.search(text) is not None
