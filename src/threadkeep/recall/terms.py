"""What a question asks for: any text at all, read as clues that the index can look up.

A clue is one thing that a good answer has, with the weight of having it. Names of code are asked
for as they stand and by their parts, texts without spaces by pairs of characters, English verbs in
all their forms. Words that only make a sentence a question count when there are no others.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from threadkeep.base.fts import Term, contains_unspaced, match_query, parse_query
from threadkeep.recall.forms import forms_of

MOST_CLUES: Final = 24
_PART: Final = 0.5  # a part of a name, beside the name itself
_IN_A_ROW: Final = 0.25  # two words of the question that stand in a row
_ONE_WORD: Final = 0.5  # two words of the question written as one
_MOST_PAIRS: Final = 8

_QUESTION_WORDS: Final = frozenset(
    re.findall(
        r"\w+",
        """
        a an the this that these those is are was were be been being am do does did done
        doing have has had having i me my mine we us our you your he him his she her it
        its they them their what which who whom whose when where why how will would
        shall should can could may might must of to in on at by for with about from into
        as and or but if than then so not no there here any some s t d ll ve re m please
        """,
    )
)
_CLITIC: Final = re.compile(r"(\w+)['’](?:s|t|d|ll|ve|re|m)\W*", re.IGNORECASE)
_CAMEL: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_INNER_CAPITAL: Final = re.compile(r"[a-z][A-Z]")


class Clue(NamedTuple):
    """One thing asked for, as an FTS5 expression, and what having it weighs."""

    typed: str
    match: str
    weight: float = 1.0
    extra: bool = False  # it makes a good answer better; it does not make one
    row_of: tuple[str, ...] = ()  # a phrase of words that are clues themselves: what matches these


class Question(NamedTuple):
    """What is asked for."""

    clues: tuple[Clue, ...] = ()
    must: tuple[str, ...] = ()  # quoted phrases: what lacks one is no answer
    never: tuple[str, ...] = ()

    @property
    def is_strict(self) -> bool:
        """Tell whether it is said what an answer must or must not have itself."""
        return bool(self.must or self.never)

    def having(self, match: str) -> str:
        """Narrow an expression to what has all that it must have, and nothing it must not."""
        both = " AND ".join([f"({match})", *(f"({one})" for one in self.must)])
        return f"({both}) NOT ({' OR '.join(self.never)})" if self.never else both


def read_question(text: str) -> Question:
    """Read what a person typed; without words to look for there are no clues."""
    terms = [_without_clitic(term) for term in parse_query(text)]
    asked = [term for term in terms if term.operator != "NOT" and term.words]
    never = [_phrase(term) for term in terms if term.operator == "NOT" and term.words]
    telling = [t for at, t in enumerate(asked) if not _is_filler(t, first=at == 0)] or asked
    clues = _distinct(clue for term in telling for clue in _clues(term))
    must = [_phrase(term) for term in telling if _is_quoted(term)]
    clues += _distinct(_together(asked, telling), clues)
    return Question(tuple(clues[:MOST_CLUES]), tuple(must), tuple(never))


def _distinct(clues: Iterator[Clue], known: list[Clue] | None = None) -> list[Clue]:
    """Keep one of each clue, the one that weighs most."""
    before = {clue.match for clue in known or ()}
    best: dict[str, Clue] = {}
    for clue in clues:
        held = best.get(clue.match)
        if clue.match not in before and (held is None or held.weight < clue.weight):
            best[clue.match] = clue
    return list(best.values())


def _without_clitic(term: Term) -> Term:
    """Take `'s` and the like from a word: "Anna's" asks for Anna."""
    found = _CLITIC.fullmatch(term.typed)
    if found is None or not term.words:
        return term
    return Term(term.words[:1], term.prefix, term.operator, found[1])


def _is_filler(term: Term, *, first: bool) -> bool:
    if len(term.words) != 1 or term.prefix or (term.words[0] == "A" and not first):
        return False  # a capital A inside a sentence is the name of something
    return term.words[0].lower() in _QUESTION_WORDS


def _is_quoted(term: Term) -> bool:
    return len(term.words) > 1 and any(character.isspace() for character in term.typed)


def _clues(term: Term) -> Iterator[Clue]:
    if len(term.words) == 1:
        yield Clue(term.typed, _word(term))
        inner = _CAMEL.findall(term.words[0]) if _INNER_CAPITAL.search(term.words[0]) else []
        # Who has the name has its parts: else two who have one part each would be better answers.
        yield from (one._replace(match=f"{one.match} OR {_word(term)}") for one in _parts(inner))
    elif _is_quoted(term):
        yield Clue(term.typed, _phrase(term))
    elif contains_unspaced(term.typed):
        yield from _pairs_of_characters(term)
    else:
        yield Clue(term.typed, _phrase(term))
        yield from _parts(term.words)


def _parts(words: tuple[str, ...] | list[str]) -> Iterator[Clue]:
    long = [word for word in words if len(word) > 1 and word.lower() not in _QUESTION_WORDS]
    for word in long:
        yield Clue(word, _quoted([word]), _PART)


def _pairs_of_characters(term: Term) -> Iterator[Clue]:
    """Ask for a run of characters by its pairs: where words begin in it, nobody says."""
    for pair in pairwise(term.words):
        yield Clue("".join(pair), _quoted(list(pair)))


def _together(asked: list[Term], telling: list[Term]) -> Iterator[Clue]:
    """Ask for two words in a row, and for the same two written as one."""
    plain = [term for term in telling if len(term.words) == 1 and not term.prefix]
    for one, two in list(pairwise(asked))[:_MOST_PAIRS]:
        if one in plain and two in plain and not contains_unspaced(one.typed + two.typed):
            pair = [one.words[0], two.words[0]]
            row_of = _word(one), _word(two)
            yield Clue(" ".join(pair), _quoted(pair), _IN_A_ROW, extra=True, row_of=row_of)
            yield Clue("".join(pair), _quoted(["".join(pair)]), _ONE_WORD, extra=True)


def _word(term: Term) -> str:
    word = term.words[0]
    if term.prefix:
        return f"({match_query(f'{word}*') or _quoted([word])})"
    wanted = [[form] for form in forms_of(word.lower())]
    inner = _CAMEL.findall(word) if _INNER_CAPITAL.search(word) else []
    if len(inner) > 1:  # `fooBar` is also found where it is written `foo_bar`
        wanted.append(inner)
    return " OR ".join(_quoted(words) for words in wanted)


def _phrase(term: Term) -> str:
    if len(term.words) == 1:
        return _word(term)
    return _quoted(list(term.words)) + (" *" if term.prefix else "")


def _quoted(words: list[str]) -> str:
    return f'"{" ".join(words)}"'
