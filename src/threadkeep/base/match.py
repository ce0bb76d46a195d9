"""What is looked for: words in a row, joined by and, or, and not; read from what a person typed.

    read_match("gateway/run.py NOT test*")     a match, None without any word; never an error
    literal_terms("👍")                        for LIKE, where there is no word to ask for
    parse_query("gateway/run.py")              the terms one by one, for who joins them itself

A match says nothing of how an index is asked: that is the index's affair (see `word_index`).
"""

from collections.abc import Iterable, Iterator
from string import ascii_lowercase
from typing import Final, Literal

import msgspec

from threadkeep.base.text import pattern
from threadkeep.base.words import shorten_blobs, split_words

MAX_TOKENS: Final = 64

_MAX_QUERY: Final = 16_384
_MAX_WORD: Final = 128
_MAX_EXPANDED: Final = 8
# For an index that took its text as it was: unicode61 keeps these accents inside a word.
_RAW_WORD: Final = pattern("(?:[^\\W_]|[\u0300-\u036f])+")
_NOT_TEXT: Final = pattern("[\0\ud800-\udfff]")
_QUERY_PIECE: Final = pattern(r'"([^"]*)"(\*?)|([^\s"]+)')
_CURLY_QUOTES: Final = str.maketrans("“”„＂", '""""')

Operator = Literal["AND", "OR", "NOT"]
_OPERATORS: Final[dict[str, Operator]] = {"AND": "AND", "OR": "OR", "NOT": "NOT"}

# Porter indexes `running` as `run`, and `runni*` would not find it. A prefix is therefore also
# asked for with the ending it may be the start of: of all prefixes of 30,000 English words
# 6.6 % missed their word without this and 0.05 % do with it, for 2.6 more words on average.
_ENDINGS: Final = (
    *("ing", "ed", "er", "or", "ly", "al", "ally", "ic", "ism", "ion", "ation", "ate", "ative"),
    *("ive", "ize", "ization", "ity", "able", "ability", "ibility", "ance", "ence", "ent", "ment"),
    *("ness", "ful", "ous"),
)
_SHORTEST_STEM: Final = 3
_LONGEST_STEM: Final = 30


class Term(msgspec.Struct, frozen=True):
    """One thing asked for: its words in a row, and how it joins what comes before it."""

    words: tuple[str, ...]
    prefix: bool
    operator: Operator
    typed: str


class Phrase(msgspec.Struct, frozen=True):
    """Words in a row; with `prefix` the last one may continue."""

    words: tuple[str, ...]
    prefix: bool = False


class AllOf(msgspec.Struct, frozen=True):
    """What has all parts."""

    parts: "tuple[Match, ...]"


class AnyOf(msgspec.Struct, frozen=True):
    """What has at least one part."""

    parts: "tuple[Match, ...]"


class Without(msgspec.Struct, frozen=True):
    """What has the one and not the other."""

    wanted: "Match"
    unwanted: "Match"


Match = Phrase | AllOf | AnyOf | Without


def all_of(parts: Iterable[Match]) -> Match:
    """Ask for all of some parts; there is at least one."""
    first, *rest = dict.fromkeys(parts)
    return AllOf((first, *rest)) if rest else first


def any_of(parts: Iterable[Match]) -> Match:
    """Ask for one of some parts; there is at least one."""
    first, *rest = dict.fromkeys(parts)
    return AnyOf((first, *rest)) if rest else first


def without(wanted: Match, unwanted: Iterable[Match]) -> Match:
    """Leave out what has one of some parts; there may be none."""
    parts = tuple(unwanted)
    return Without(wanted, any_of(parts)) if parts else wanted


def phrases_in(match: Match) -> Iterator[Phrase]:
    """Return every phrase that is wanted."""
    if isinstance(match, Phrase):
        yield match
    elif isinstance(match, Without):
        yield from phrases_in(match.wanted)
    else:
        for part in match.parts:
            yield from phrases_in(part)


def read_match(text: str, *, split: bool = True) -> Match | None:
    """Read what a person typed as a match, None if there is no word in it.

    Words must all occur; `"a phrase"`, `OR`, `NOT`, `AND` and `prefix*` work as people expect
    (NOT binds first, OR last). Words held together by punctuation are asked for as a phrase.
    `split=False` is for an index that was not filled through `index_text`.
    """
    groups: list[tuple[list[Match], list[Match]]] = [([], [])]
    prefixes = 0
    for term in parse_query(text, split=split):
        prefixes += term.prefix
        if term.operator == "OR":
            groups.append(([], []))
        wanted, unwanted = groups[-1]
        if term.words and term.operator != "NOT":
            wanted.append(match_of(term, expand=prefixes <= _MAX_EXPANDED))
        elif term.words and wanted:  # else there is nothing to take it from
            unwanted.append(match_of(term, expand=prefixes <= _MAX_EXPANDED))
    found = [without(all_of(wanted), unwanted) for wanted, unwanted in groups if wanted]
    return any_of(found) if found else None


def parse_query(text: str, *, split: bool = True) -> list[Term]:
    """Read what a person typed as terms; an operator belongs to the term behind it.

    With `split=False` their words are those of an index that was not filled through `index_text`.
    """
    text = _NOT_TEXT.sub(" ", text.lstrip()[:_MAX_QUERY]).translate(_CURLY_QUOTES)
    terms = _terms(text, split=split, operators=_OPERATORS)
    # Nothing but operators: then they are what is looked for.
    return terms or _terms(text, split=split, operators={})


def literal_terms(text: str) -> list[str]:
    """The typed words and phrases as they are, for a search by substring.

    Operators and excluded words are left out. Use it when `read_match` gives None or no hit:
    emoji and symbols are in no index.
    """
    return [term.typed for term in parse_query(text) if term.operator != "NOT"]


def _terms(text: str, *, split: bool, operators: dict[str, Operator]) -> list[Term]:
    terms: list[Term] = []
    operator: Operator = "AND"
    room = MAX_TOKENS
    for piece in _QUERY_PIECE.finditer(text):
        word = piece[3]
        if word in operators:
            # Before the first word there is nothing to join or to take away from.
            operator = operators[word] if terms else "AND"
            continue
        if word is None:
            term = _term(piece[1], operator, room, prefix=bool(piece[2]), split=split)
        else:
            term = _term(word, operator, room, prefix=word.endswith("*"), split=split)
        if term.typed:
            terms.append(term)
            room -= max(1, len(term.words))
            operator = "AND"
        if room <= 0:
            break
    return terms


def _term(typed: str, operator: Operator, room: int, *, prefix: bool, split: bool) -> Term:
    short = shorten_blobs(typed)
    words = (split_words(short) if split else _RAW_WORD.findall(short))[:room]
    prefix = prefix or short != typed
    for at, word in enumerate(words):
        if len(word) > _MAX_WORD:
            words[at:] = [word[:_MAX_WORD]]
            prefix = True
            break
    literal = typed.strip()[:_MAX_WORD]
    return Term(tuple(words), prefix, operator, literal.rstrip("*") or literal)


def match_of(term: Term, *, expand: bool = True) -> Match:
    """Ask for one term, which has words; `expand` completes a prefix in the ways a stem hides."""
    asked = Phrase(term.words, term.prefix)
    if not (term.prefix and expand):
        return asked
    *before, last = term.words
    longer = _completions(last.lower())
    return any_of([asked, *(Phrase((*before, one.words[0]), one.prefix) for one in longer)])


def _completions(prefix: str) -> list[Phrase]:
    """Return the words that a prefix may be the start of."""
    if not (prefix.isascii() and prefix.isalpha()):
        return []
    if not _SHORTEST_STEM <= len(prefix) <= _LONGEST_STEM:
        return []
    found = [Phrase((f"{prefix}ing",))] if prefix[-1] == prefix[-2] else []
    for ending in _ENDINGS:
        for cut in range(min(len(ending), len(prefix) - 1) - 1, 0, -1):
            if prefix.endswith(ending[:cut]):
                found.append(Phrase((f"{prefix}{ending[cut:]}",)))
                break
    if prefix[-1] == "y":  # Porter makes `copy` into `copi`, which is no start of `copyright`
        found += [Phrase((prefix + letter,), prefix=True) for letter in ascii_lowercase]
    return found
