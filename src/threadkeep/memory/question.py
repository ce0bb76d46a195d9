"""What a question asks for: any text at all, read as clues that the index can look up.

A clue is one thing that a good answer has, with the weight of having it. Names of code are asked
for as they stand and by their parts, texts without spaces by pairs of characters, English verbs in
all their forms. Words that only make a sentence a question count when there are no others.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise
from typing import Final, NamedTuple

from threadkeep.base import match
from threadkeep.base.text import pattern
from threadkeep.base.words import contains_unspaced

# ------------------------------------------------------------------------------
# Irregular forms of English: what a stemmer cannot see as one word.
#
# Questions ask "when did she go", what was said is "I went". On 1,982 questions over long
# conversations asking for all forms brought 0.7 more of 100 answers among the first ten.

_TABLE: Final = """
become became; begin began begun; bend bent; bite bit bitten; bleed bled; blow blew blown;
break broke broken; bring brought; build built; burn burnt; buy bought; catch caught;
choose chose chosen; come came; cost; cut; deal dealt; dig dug; draw drew drawn; dream dreamt;
drink drank drunk; drive drove driven; eat ate eaten; fall fell fallen; feed fed; feel felt;
fight fought; find found; flee fled; fly flew flown; forbid forbade forbidden;
forget forgot forgotten; forgive forgave forgiven; freeze froze frozen; get got gotten;
give gave given; go went gone; grow grew grown; hang hung; hear heard; hide hid hidden;
hold held; keep kept; know knew known; lay laid; lead led; learn learnt; leave left; lend lent;
lose lost; make made; mean meant; meet met; mistake mistook mistaken; pay paid; prove proven;
rebuild rebuilt; ride rode ridden; ring rang rung; rise rose risen; run ran; say said;
see saw seen; seek sought; sell sold; send sent; sew sewn; shake shook shaken; shine shone;
shoot shot; show shown; shrink shrank shrunk; sing sang sung; sink sank sunk; sit sat;
sleep slept; speak spoke spoken; spend spent; spin spun; stand stood; steal stole stolen;
stick stuck; strike struck; swear swore sworn; swim swam swum; swing swung; take took taken;
teach taught; tear tore torn; tell told; think thought; throw threw thrown;
understand understood; wake woke woken; wear wore worn; win won; withdraw withdrew withdrawn;
write wrote written; overwrite overwrote overwritten; rewrite rewrote rewritten;
child children; foot feet; goose geese; leaf leaves; life lives; man men; mouse mice;
person people; tooth teeth; wife wives; woman women; index indices; vertex vertices;
matrix matrices; datum data; criterion criteria
"""


def _read(table: str) -> dict[str, tuple[str, ...]]:
    lines = (tuple(line.split()) for line in table.split(";"))
    return {form: forms for forms in lines for form in forms if len(forms) > 1}


_FORMS: Final = _read(_TABLE)


def forms_of(word: str) -> tuple[str, ...]:
    """Return a word with its irregular forms, itself first."""
    known = _FORMS.get(word, ())
    return (word, *(form for form in known if form != word))


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
_CLITIC: Final = pattern(r"(\w+)['’](?:s|t|d|ll|ve|re|m)\W*", re.IGNORECASE)
_CAMEL: Final = pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_INNER_CAPITAL: Final = pattern(r"[a-z][A-Z]")


class Clue(NamedTuple):
    """One thing asked for, and what having it weighs."""

    typed: str
    match: match.Match
    weight: float = 1.0
    extra: bool = False  # it makes a good answer better; it does not make one
    row_of: tuple[match.Match, ...] = ()  # a phrase of words that are clues: what matches these


class Question(NamedTuple):
    """What is asked for."""

    clues: tuple[Clue, ...] = ()
    must: tuple[match.Match, ...] = ()  # quoted phrases: what lacks one is no answer
    never: tuple[match.Match, ...] = ()
    words: tuple[Clue, ...] = ()  # what was typed and tells something, a clue each
    every: match.Match | None = None  # what has all of them

    @property
    def is_strict(self) -> bool:
        """Tell whether it is said what an answer must or must not have itself."""
        return bool(self.must or self.never)

    def having(self, *wanted: match.Match) -> match.Match:
        """Ask for some things, and narrow that to what may be an answer."""
        return match.without(match.all_of([*wanted, *self.must]), self.never)


def read_question(text: str) -> Question:
    """Read what a person typed; without words to look for there are no clues."""
    terms = [_without_clitic(term) for term in match.parse_query(text)]
    asked = [term for term in terms if term.operator != "NOT" and term.words]
    never = [_phrase(term) for term in terms if term.operator == "NOT" and term.words]
    telling = [t for at, t in enumerate(asked) if not _is_filler(t, first=at == 0)] or asked
    clues = _distinct(clue for term in telling for clue in _clues(term))
    must = [_phrase(term) for term in telling if _is_quoted(term)]
    clues += _distinct(_together(asked, telling), clues)
    words = tuple(Clue(term.typed, _phrase(term)) for term in telling)
    return Question(tuple(clues[:MOST_CLUES]), tuple(must), tuple(never), words, _every(telling))


def _every(terms: list[match.Term]) -> match.Match | None:
    """Ask for all words at once, or for those on one side of an OR."""
    sides: list[list[match.Match]] = []
    for term in terms:
        if not sides or term.operator == "OR":
            sides.append([])
        sides[-1].append(_phrase(term))
    return match.any_of(map(match.all_of, sides)) if sides else None


def _distinct(clues: Iterator[Clue], known: list[Clue] | None = None) -> list[Clue]:
    """Keep one of each clue, the one that weighs most."""
    before = {clue.match for clue in known or ()}
    best: dict[match.Match, Clue] = {}
    for clue in clues:
        held = best.get(clue.match)
        if clue.match not in before and (held is None or held.weight < clue.weight):
            best[clue.match] = clue
    return list(best.values())


def _without_clitic(term: match.Term) -> match.Term:
    """Take `'s` and the like from a word: "Anna's" asks for Anna."""
    found = _CLITIC.fullmatch(term.typed)
    if found is None or not term.words:
        return term
    return match.Term(term.words[:1], term.prefix, term.operator, found[1])


def _is_filler(term: match.Term, *, first: bool) -> bool:
    if len(term.words) != 1 or term.prefix or (term.words[0] == "A" and not first):
        return False  # a capital A inside a sentence is the name of something
    return term.words[0].lower() in _QUESTION_WORDS


def _is_quoted(term: match.Term) -> bool:
    return len(term.words) > 1 and any(character.isspace() for character in term.typed)


def _clues(term: match.Term) -> Iterator[Clue]:
    if len(term.words) == 1:
        whole = _word(term)
        yield Clue(term.typed, whole)
        inner = _CAMEL.findall(term.words[0]) if _INNER_CAPITAL.search(term.words[0]) else []
        # Who has the name has its parts: else two who have one part each would be better answers.
        yield from (one._replace(match=match.any_of([one.match, whole])) for one in _parts(inner))
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
        yield Clue(word, match.Phrase((word,)), _PART)


def _pairs_of_characters(term: match.Term) -> Iterator[Clue]:
    """Ask for a run of characters by its pairs: where words begin in it, nobody says."""
    for pair in pairwise(term.words):
        yield Clue("".join(pair), match.Phrase(pair))


def _together(asked: list[match.Term], telling: list[match.Term]) -> Iterator[Clue]:
    """Ask for two words in a row, and for the same two written as one."""
    plain = [term for term in telling if len(term.words) == 1 and not term.prefix]
    for one, two in list(pairwise(asked))[:_MOST_PAIRS]:
        if one in plain and two in plain and not contains_unspaced(one.typed + two.typed):
            pair = one.words[0], two.words[0]
            row_of = _word(one), _word(two)
            yield Clue(" ".join(pair), match.Phrase(pair), _IN_A_ROW, extra=True, row_of=row_of)
            yield Clue("".join(pair), match.Phrase(("".join(pair),)), _ONE_WORD, extra=True)


def _word(term: match.Term) -> match.Match:
    word = term.words[0]
    if term.prefix:
        return match.match_of(term)
    wanted: list[match.Match] = [match.Phrase((form,)) for form in forms_of(word.lower())]
    inner = _CAMEL.findall(word) if _INNER_CAPITAL.search(word) else []
    if len(inner) > 1:  # `fooBar` is also found where it is written `foo_bar`
        wanted.append(match.Phrase(tuple(inner)))
    return match.any_of(wanted)


def _phrase(term: match.Term) -> match.Match:
    return _word(term) if len(term.words) == 1 else match.Phrase(term.words, term.prefix)


# ------------------------------------------------------------------------------
# When a question is about: days, months and years that it names, and those counted from today.
#
# A named time is a hint, no filter: what happened then ranks higher, nothing is left out.

_MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june", "july", "august"),
    *("september", "october", "november", "december"),
)
_SHORT: Final = {name[:3]: number for number, name in enumerate(_MONTHS, 1)}
_MONTH: Final = "|".join([*_MONTHS, *(name[:3] for name in _MONTHS), "sept"])
_NAMED: Final = pattern(
    rf"(?:(?P<before>\d{{1,2}})(?:st|nd|rd|th)?(?:\s+of)?\s+)?\b(?P<month>{_MONTH})\b\.?"
    r"(?:\s+(?P<after>\d{1,2})(?:st|nd|rd|th)?\b(?!:))?(?:,?\s+(?P<year>(?:19|20)\d\d)\b)?",
    re.IGNORECASE,
)
_ISO: Final = pattern(r"\b(?P<year>(?:19|20)\d\d)-(?P<month>\d\d)(?:-(?P<day>\d\d))?\b")
_YEAR: Final = pattern(r"\b(?:in|of|since|during)\s+((?:19|20)\d\d)\b", re.IGNORECASE)
# "may" and "march" are words too: alone they are months only behind one of these.
_BEFORE_MONTH: Final = pattern(
    r"\b(?:in|on|of|during|last|this|next|early|late|since|until|by|before|after)\s+$",
    re.IGNORECASE,
)
_AGO: Final = pattern(
    r"\b(?P<count>\d{1,3}|an?|two|three|four|five|six)\s+(?P<unit>day|week|month)s?\s+ago\b",
    re.IGNORECASE,
)
_RELATIVE: Final = pattern(
    r"\b(today|yesterday|this week|last week|this month|last month)\b", re.IGNORECASE
)
_COUNTS: Final = {"a": 1, "an": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_UNIT_DAYS: Final = {"day": 1, "week": 7, "month": 30}
_SPANS: Final = {
    "today": (0, 1),
    "yesterday": (-1, 1),
    "this week": (-6, 7),
    "last week": (-13, 14),
    "this month": (-30, 31),
    "last month": (-61, 62),
}


class Named(NamedTuple):
    """A time that was named; what was left open is None."""

    year: int | None = None
    month: int | None = None
    day: int | None = None


class DateSpan(NamedTuple):
    """A stretch of whole days; the end is no part of it."""

    start: datetime
    end: datetime


When = tuple[Named | DateSpan, ...]


def times_in(text: str, now: int, zone: tzinfo = UTC) -> When:
    """Find the times that a text names; `now` is in epoch milliseconds."""
    return (*_named(text), *_spans(text, now, zone))


def is_then(at: int | None, when: When, zone: tzinfo = UTC) -> bool:
    """Tell whether a moment, in epoch milliseconds, is one of the named times."""
    if at is None or not when:
        return False
    try:
        moment = datetime.fromtimestamp(at / 1000, zone)
    except (OverflowError, ValueError, OSError):
        return False
    return any(_matches(moment, one) for one in when)


def _matches(moment: datetime, when: Named | DateSpan) -> bool:
    if isinstance(when, DateSpan):
        return when.start <= moment < when.end
    parts = zip(when, (moment.year, moment.month, moment.day), strict=True)
    return all(wanted is None or wanted == there for wanted, there in parts)


def _named(text: str) -> Iterator[Named]:
    for found in _ISO.finditer(text):
        day = found["day"]
        yield Named(int(found["year"]), int(found["month"]), None if day is None else int(day))
    months = [one for one in _NAMED.finditer(text) if _is_month(text, one)]
    for found in months:
        month = _SHORT[found["month"][:3].lower()]
        day, year = found["before"] or found["after"], found["year"]
        yield Named(int(year) if year else None, month, int(day) if day else None)
    if not months:
        yield from (Named(int(found[1])) for found in _YEAR.finditer(text))


def _is_month(text: str, found: re.Match[str]) -> bool:
    if found["before"] or found["after"] or found["year"]:
        return True
    name = found["month"].lower()
    whole = name in _MONTHS and name not in {"may", "march"}
    return whole or _BEFORE_MONTH.search(text[: found.start("month")]) is not None


def _spans(text: str, now: int, zone: tzinfo) -> Iterator[DateSpan]:
    today = datetime.fromtimestamp(now / 1000, zone).replace(
        hour=0, minute=0, second=0, microsecond=0
    )
    for found in _RELATIVE.finditer(text):
        first, days = _SPANS[found[1].lower()]
        yield _span(today, first, days)
    for found in _AGO.finditer(text):
        count = found["count"].lower()
        unit = _UNIT_DAYS[found["unit"].lower()]
        back = (_COUNTS[count] if count in _COUNTS else int(count)) * unit
        slack = 0 if unit == 1 else unit // 2
        yield _span(today, -back - slack, 2 * slack + 1)


def _span(today: datetime, first: int, days: int) -> DateSpan:
    start = today + timedelta(days=first)
    return DateSpan(start, start + timedelta(days=days))
