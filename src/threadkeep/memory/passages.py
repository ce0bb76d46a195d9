"""Passages: the sentences and lines of stored texts that answer a question best, word for word.

Nothing here writes a word of its own: a passage is always a piece of the text it was taken from.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from threadkeep.base.words import index_words

MOST_CHARACTERS: Final = 400  # of one passage
WIDE: Final = 320  # of a passage with the sentences beside it
_LEAST_CHARACTERS: Final = 12
_LEAST_WORDS: Final = 5
_READ: Final = 60_000  # characters of one text: beyond this it is a log, and its words were found
_PIECES: Final = 1_200
_QUESTION: Final = 1_000  # characters
_SHORTEST_STEM: Final = 4
_ALIKE: Final = 0.8
_PER_TEXT: Final = 2
_FOUND: Final = 0.4  # what it counts how well the text was found
_FITS: Final = 0.25  # it looks like an answer to just this question
_TELLS: Final = 0.15  # it looks like an answer to something
_BESIDE: Final = 0.3  # what a word counts that stands near a passage, not in it
_NEAR: Final = 0.6  # the same where it is judged whether the question is answered
_LEAST_OF_BEST: Final = 0.6
_LEAST_OWN: Final = 0.5  # of the question's words, in the sentence with the reason
_LEAST_OF_NO_KIND: Final = 0.6
_SENTENCE: Final = re.compile(r"[^\n]*?(?:[.!?](?=\s)|[。！？]|\n|$)")
# A name in code: a run of such characters with a sign in it. As one expression it takes 12 s for a
# thousand slashes.
_RUN: Final = re.compile(r"[\w./:@#+-]+")
_SIGN: Final = re.compile(r"[_./:@#]|[a-z][A-Z]|[A-Za-z]\d|\d[A-Za-z]")
_SMALL_WORDS: Final = """
a about again also am an and any are as at be been but by can could did do does ever for from get
got had has have he her his how i if in into is it its just last let me my no not of on or our over
please she should show so some tell than that the their them then there these they this those time
to us use used was we were what when where which who whom whose why will with would yes you your
"""
STOP_WORDS: Final = frozenset(_SMALL_WORDS.split())
# What an answer looks like, by what was asked for.
_ANSWERS: Final = re.compile(
    r"\b(?:because|decided?|chose|instead|switched|so that|root cause|caused by|due to|the problem"
    r"|the reason|fix(?:ed|es)?|solved|resolved|works now|solution|turns out|needs? to|must)\b"
    r"|`[^`]+`|^\s*\$ |\b(?:error|exception|failed)\b",
    re.IGNORECASE,
)
_QUANTITY: Final = re.compile(
    r"\bhow (?:many|much|long|often|big|large|old)\b|\bwhich (?:version|port)\b|\bversion\b"
    r"|\bport\b|\bnumber\b|\bcount\b|\bsize\b",
    re.IGNORECASE,
)
_MOMENT: Final = re.compile(r"\bwhen\b|\bwhat (?:day|date|time|year|month)\b", re.IGNORECASE)
_REASON: Final = re.compile(r"\bwhy\b|\breason\b|\bcause\b", re.IGNORECASE)
_COMMAND: Final = re.compile(r"\bcommand\b|\bhow (?:do|did|to|can)\b|\brun\b", re.IGNORECASE)
_CHOICE: Final = re.compile(
    r"\b(?:choose|chose|chosen|choice|decid(?:e|ed)|decision|pick(?:ed)?|prefer(?:red)?|instead)\b",
    re.IGNORECASE,
)
_CHOOSING: Final = frozenset(
    ("choose", "chose", "chosen", "choice", "decide", "decided", "decision")
)
_HAS_NUMBER: Final = re.compile(r"\d")
# The number of a list's item, or of a line in a file, counts nothing.
_PLACE_NUMBER: Final = re.compile(
    r"^[*_#>\s-]*\d+[.)]\s|\blines? \d+(?:-\d+)?|:\d+(?:-\d+)?\b", re.MULTILINE
)
_COUNTED: Final = re.compile(r"\bhow many (\w+)(?: (\w+))?", re.IGNORECASE)
_BETWEEN: Final = 4  # words between a number and what it counts
_HAS_MOMENT: Final = re.compile(
    r"\d{4}-\d\d|\b\d{1,2}:\d\d\b|\b(?:yesterday|today|tomorrow|tonight|ago|week|month|year|morning"
    r"|monday|tuesday|wednesday|thursday|friday|saturday|sunday|january|february|march|april|june"
    r"|july|august|september|october|november|december)\b",
    re.IGNORECASE,
)
_HAS_REASON: Final = re.compile(r"\b(?:because|since|due to|caused?|reason|so)\b", re.IGNORECASE)
_HAS_CHOICE: Final = re.compile(
    r"\b(?:decided|decision|chosen?|picked|prefer(?:red)?|went with|going with|instead of"
    r"|rather than|rejected|I['’]d (?:take|use))\b",
    re.IGNORECASE,
)
_HAS_COMMAND: Final = re.compile(r"`[^`]+`|^\s*\$ |(?:^|\s)--?[a-z]|\w/\w")
_MANNER: Final = re.compile(r"\bhow (?:do|did|does|to|can|was|were|is|are)\b", re.IGNORECASE)
# What a passage must have before it counts as an answer of its kind; `so` and `since` say too much.
_SAYS_REASON: Final = re.compile(
    r"\b(?:because|due to|caus(?:e|ed|es|ing)|reason|root cause|culprit|that['’]s why|turns out"
    r"|led to|results? (?:from|in)|the (?:problem|issue|bug) (?:is|was)|so that|which is why"
    r"|(?:was|were|is|are) (?:missing|wrong|stale|expired|broken|out of date|not set|too \w+))\b",
    re.IGNORECASE,
)
_SAYS_MANNER: Final = re.compile(
    r"`[^`]+`|^\s*\$ |\b(?:by \w+ing|using|use|via|instead|add(?:ed)?|change[d]?|replac(?:e|ed)"
    r"|mov(?:e|ed)|set|run|switch(?:ed)?|fix(?:ed)?|wrap(?:ped)?|remov(?:e|ed)|now \w+s)\b",
    re.IGNORECASE,
)
# A file's name in backquotes is no command: it has a blank, or a flag.
_SAYS_COMMAND: Final = re.compile(
    r"`[a-z][\w./-]* [^`\n]+`|^\s*\$ |(?:^|[\s`])--[a-z]|\b[a-z]+ [a-z-]+ \./", re.MULTILINE
)
_VERDICT: Final = re.compile(r"\b(?:verdict|conclu\w+|assessment|outcome of)\b", re.IGNORECASE)
_SAYS_VERDICT: Final = re.compile(
    r"\b(?:verdict|overall|approved?|reject(?:ed)?|bottom line|conclu\w+|blockers?|in short|solid"
    r"|correct|wrong)\b",
    re.IGNORECASE,
)
_SAYS: Final = (
    (_QUANTITY, _HAS_NUMBER),
    (_MOMENT, _HAS_MOMENT),
    (_REASON, _SAYS_REASON),
    (
        re.compile(
            r"\b(?:which|what) (?!(?:does|do|did|is|was|are) )(?:\w+ ){0,2}commands?\b"
            r"|\bcommands? (?:to|for|that)\b",
            re.IGNORECASE,
        ),
        _SAYS_COMMAND,
    ),
    (_CHOICE, _HAS_CHOICE),
    (_MANNER, _SAYS_MANNER),
    (_VERDICT, _SAYS_VERDICT),
)
# What an agent says it is about to do; it tells nothing of what came of it.
_NARRATION: Final = re.compile(
    r"(?:(?:now|ok(?:ay)?|good|great|right|next|first)[,.!]? )*"
    r"(?:(?:let me|let['’]s|i['’]ll|i will|i['’]m going to|i am going to|checking|looking at) "
    r"|(?:i['’]m|i am) \w+ing\b|(?:now )?i (?:need|want|have) to |the user (?:is|wants|asks) "
    r"|holding off |[^.!?\n]{0,60}, i(?:['’]ll| will| should| need to) )",
    re.IGNORECASE,
)
_LOOKS: Final = (
    (_QUANTITY, _HAS_NUMBER),
    (_MOMENT, _HAS_MOMENT),
    (_REASON, _HAS_REASON),
    (_COMMAND, _HAS_COMMAND),
    (_CHOICE, _HAS_CHOICE),
    (_VERDICT, _SAYS_VERDICT),
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
    """A passage, how well it answers, and how much of the question it has: at most 1."""

    source: int
    text: str
    score: float
    coverage: float
    is_named: bool = False  # it has every name in code that the question has, and there is one
    answers: bool = True  # it says what was asked for: a cause, a choice, a number, a command


def question_terms(question: str) -> tuple[str, ...]:
    """Return the words that a question is about; all of them if it has no others."""
    words = list(dict.fromkeys(index_words(question)))
    telling = [word for word in words if word not in STOP_WORDS]
    # A choice may be told in any such word: which of them was asked with tells nothing.
    about = [word for word in telling if word not in _CHOOSING]
    return tuple(about or telling or words)


def best_passages(question: str, texts: Sequence[PassageSource], limit: int) -> list[ScoredPassage]:
    """Choose the passages that answer a question, the best first, none of them twice."""
    question = question[:_QUESTION]
    terms = [_stem(term) for term in question_terms(question)]
    pieces = [piece for at, text in enumerate(texts) for piece in pieces_of(text.text, at)]
    held = [_held(piece.text, terms) for piece in pieces]
    asked = _Asked(question, _weights(terms, held), _names_in(question))
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


def _stem(word: str) -> str:
    """Return the beginning that a word shares with its other forms."""
    for ending in ("ations", "ation", "ing", "ies", "ied", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM - 1:
            return word[: -len(ending)]
    return word


def _held(text: str, terms: Sequence[str]) -> frozenset[str]:
    """Return the terms that a text has, in any of their forms."""
    low = text.lower()
    if text.isascii() and not any(term in low for term in terms):
        return frozenset()  # most pieces: they need not be split into words
    words = set(index_words(text))
    stems = {_stem(word) for word in words}
    return frozenset(term for term in terms if term in stems or term in words)


def _weights(terms: Sequence[str], held: Sequence[frozenset[str]]) -> dict[str, float]:
    """Weigh terms by how few pieces have them."""
    seen = Counter(term for found in held for term in found)
    return {term: math.log(2 + len(held) / (1 + seen[term])) for term in terms}


class _Asked(NamedTuple):
    question: str
    weights: dict[str, float]  # of its terms
    names: tuple[str, ...]  # in code, in small letters


def _names_in(question: str) -> tuple[str, ...]:
    runs = (run.rstrip("./:@#+-") for run in _RUN.findall(question))
    return tuple(run.lower() for run in runs if _SIGN.search(run[:-1]))


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
    if piece.text.endswith("?") or _is_echo(asked.question, piece.text):
        score *= 0.5  # a question asked before is no answer
    if _NARRATION.match(piece.text):
        score *= 0.6
    if len(piece.text.split()) < _LEAST_WORDS and piece.text.isascii():
        score *= 0.7  # a heading, a list of names
    # Of a name there are many numbers: it takes the other words to tell which is asked for.
    names_suffice = bool(asked.names) and not _QUANTITY.search(asked.question)
    is_named = names_suffice and all(name in low for name in asked.names)
    shown = excerpt(widened(text.text, piece.begin, piece.end), sorted(found))
    # A call or a node is no answer that somebody gave: neither makes a confident one.
    answers = text.trust == 1.0 and is_answer(asked.question, shown) and _is_about(asked, shown)
    return ScoredPassage(piece.source, shown, score, covered, is_named, answers)


def _is_about(asked: _Asked, passage: str) -> bool:
    """Tell whether a passage is itself about what is asked, not only its session.

    A reason counts in its own sentence: beside it, it is the reason for something else. Where no
    kind of answer can be looked for, the passage must have most of the question's words.
    """
    terms = list(asked.weights)
    total = sum(asked.weights.values())

    def share(text: str) -> float:
        return sum(asked.weights[term] for term in _held(text, terms)) / total

    if _REASON.search(asked.question):
        given = (one.text for one in pieces_of(passage) if _SAYS_REASON.search(one.text))
        return any(share(text) >= _LEAST_OWN for text in given)
    has_kind = any(kind.search(asked.question) for kind, _ in _SAYS)
    return has_kind or share(passage) >= _LEAST_OF_NO_KIND


def is_answer(question: str, passage: str) -> bool:
    """Tell whether a passage has what a question asks for: a cause, a choice, a number, a command.

    A question of no such kind is answered by what it is about.
    """
    if passage.endswith("?") or _is_echo(question, passage) or _NARRATION.match(passage):
        return False
    if _QUANTITY.search(question):
        passage = _PLACE_NUMBER.sub(" ", passage)
    wanted = [given for asked, given in _SAYS if asked.search(question)]
    return all(given.search(passage) for given in wanted) and _is_counted(question, passage)


def _is_counted(question: str, passage: str) -> bool:
    """Tell whether a passage has a number of what is counted, if a question asks how many."""
    asked = _COUNTED.search(question)
    if asked is None:
        return True
    things = {_stem(word.lower()) for word in asked.groups() if word} - STOP_WORDS
    found = re.findall(r"[\w,.+]+", passage.lower())
    words = [_stem(word.strip(".,")) for word in found]
    places = [at for at, word in enumerate(words) if word in things]
    return any(
        word[:1].isdigit() or word[:1] == "+"
        for at in places
        for word in words[max(0, at - _BETWEEN) : at + _BETWEEN + 1]
    )


def _looks_right(question: str, piece: Sentence) -> float:
    """Return what a passage earns by looking like an answer to such a question."""
    fits = sum(
        asked.search(question) is not None and given.search(piece.text) is not None
        for asked, given in _LOOKS
    )
    return (
        _FITS * fits
        + _TELLS * (_ANSWERS.search(piece.text) is not None)
        + (0.05 if piece.begin == 0 else 0.0)
    )


def _is_echo(question: str, text: str) -> bool:
    return _overlap(_bag(question), _bag(text)) > _ALIKE


def _without_repeats(ranked: Sequence[ScoredPassage], limit: int) -> list[ScoredPassage]:
    chosen: list[ScoredPassage] = []
    for one in ranked:
        if len(chosen) >= limit:
            break
        of_its_text = sum(other.source == one.source for other in chosen)
        is_told = any(_overlap(_bag(one.text), _bag(other.text)) > _ALIKE for other in chosen)
        if of_its_text < _PER_TEXT and not is_told:
            chosen.append(one)
    return chosen


def _bag(text: str) -> frozenset[str]:
    return frozenset(index_words(text))


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    """Return how much of the smaller of two sets of words the other has."""
    return len(one & other) / max(1, min(len(one), len(other)))
