"""What a question asks for, and whether a passage has it: a cause, a number, a command, a name.

The same words do not make an answer: it has what the question lacks, and that is of the kind which
is asked for.
"""

import re
from typing import Final

from threadkeep.base.words import index_words, stem

_I: Final = re.IGNORECASE

_QUANTITY: Final = re.compile(
    r"\bhow (?:many|much|long|often|big|large|old)\b|\bwhich (?:version|port)\b|\bversion\b"
    r"|\bport\b|\bnumber\b|\bcount\b|\bsize\b",
    _I,
)
_MOMENT: Final = re.compile(r"\bwhen\b|\bwhat (?:day|date|time|year|month)\b", _I)
_REASON: Final = re.compile(r"\bwhy\b|\breason\b|\bcause\b", _I)
_COMMAND: Final = re.compile(r"\bcommand\b|\bhow (?:do|did|to|can)\b|\brun\b", _I)
_CHOICE: Final = re.compile(
    r"\b(?:choose|chose|chosen|choice|decid(?:e|ed)|decision|pick(?:ed)?|prefer(?:red)?|instead)\b",
    _I,
)
_HAS_NUMBER: Final = re.compile(r"\d")
_HAS_MOMENT: Final = re.compile(
    r"\d{4}-\d\d|\b\d{1,2}:\d\d\b|\b(?:yesterday|today|tomorrow|tonight|ago|week|month|year|morning"
    r"|monday|tuesday|wednesday|thursday|friday|saturday|sunday|january|february|march|april|june"
    r"|july|august|september|october|november|december)\b",
    _I,
)
_HAS_REASON: Final = re.compile(r"\b(?:because|since|due to|caused?|reason|so)\b", _I)
_HAS_CHOICE: Final = re.compile(
    r"\b(?:decided|decision|chosen?|picked|prefer(?:red)?|went with|going with|instead of"
    r"|rather than|rejected|I['’]d (?:take|use))\b",
    _I,
)
_DECIDED: Final = re.compile(r"\W*(?:decided|decision|chosen|we (?:decided|chose))\b", _I)
_HAS_COMMAND: Final = re.compile(r"`[^`]+`|^\s*\$ |(?:^|\s)--?[a-z]|\w/\w")
_MANNER: Final = re.compile(r"\bhow (?:do|did|does|to|can|was|were|is|are)\b", _I)
# What a passage must have before it counts as an answer of its kind; `so` and `since` say too much.
SAYS_REASON: Final = re.compile(
    r"\b(?:because|due to|caus(?:e|ed|es|ing)|reason|root cause|culprit|that['’]s why|turns out"
    r"|led to|results? (?:from|in)|the (?:problem|issue|bug) (?:is|was)|so that|which is why"
    r"|(?:was|were|is|are) (?:missing|wrong|stale|expired|broken|out of date|not set|too \w+))\b",
    _I,
)
_SAYS_MANNER: Final = re.compile(
    r"`[^`]+`|^\s*\$ |\b(?:by \w+ing|using|use|via|instead|add(?:ed)?|change[d]?|replac(?:e|ed)"
    r"|mov(?:e|ed)|set|run|switch(?:ed)?|fix(?:ed)?|wrap(?:ped)?|remov(?:e|ed)|now \w+s)\b",
    _I,
)
# A file's name in backquotes is no command: it has a blank, or a flag.
_SAYS_COMMAND: Final = re.compile(
    r"`[a-z][\w./-]* [^`\n]+`|^\s*\$ |(?:^|[\s`])--[a-z]|\b[a-z]+ [a-z-]+ \./", re.MULTILINE
)
_VERDICT: Final = re.compile(r"\b(?:verdict|conclu\w+|assessment|outcome of)\b", _I)
_SAYS_VERDICT: Final = re.compile(
    r"\b(?:verdict|overall|approved?|reject(?:ed)?|bottom line|conclu\w+|blockers?|in short|solid"
    r"|correct|wrong)\b",
    _I,
)
# What an answer looks like, by what was asked for: it makes a passage better, not an answer.
_LOOKS: Final = (
    (_QUANTITY, _HAS_NUMBER),
    (_MOMENT, _HAS_MOMENT),
    (_REASON, _HAS_REASON),
    (_COMMAND, _HAS_COMMAND),
    (_CHOICE, _HAS_CHOICE),
    (_VERDICT, _SAYS_VERDICT),
)


_PLACE: Final = r"[\w.@-]*/[\w./@-]*\w|\b\w[\w-]*\.[A-Za-z]\w{0,5}\b"
_COLORS: Final = (
    "red|green|blue|yellow|orange|amber|purple|pink|black|white|gr[ae]y|brown|teal|cyan|magenta"
    "|violet|emerald|slate|indigo|gold"
)
# What is asked for by its name, and what a value of it looks like.
_THINGS: Final = {
    "colou?rs?": rf"#[0-9a-f]{{3,8}}\b|(?i:\b(?:{_COLORS})\b)",
    "licen[cs]es?": r"\b(?:MIT|Apache|BSD|A?L?GPL|MPL|ISC|CC0|EUPL|Unlicense|proprietary)",
    "ports?": r"(?i:\bports?\W+(?:\w+\W+){0,2}?)\d{2,5}\b|:\d{2,5}\b",
    "versions?": r"\d+\.\d+|\bv\d+\b",
    "commits?|revisions?": r"\b(?=[a-f]*\d)[0-9a-f]{7,40}\b",
    "branch(?:es)?": r"`[\w./-]+`|\w/\w",
    "files?|folders?|director(?:y|ies)|pages?|documents?": _PLACE,
    "flags?|options?|switch(?:es)?": r"(?:^|[\s`'\"])--?[a-z]",
    "urls?|links?": r"https?://\S+",
    "passwords?|passphrases?": r"(?i:\bpass\w+ (?:is|was)|\bpass\w+ ?[:=]) ?\S+",
}
_ASKED_THINGS: Final = tuple(
    (
        re.compile(
            rf"\b(?:which|what)(?:['’]s| is| was| are| were)?(?: the| a| our)?(?: [\w.-]+){{0,3}}?"
            rf" (?:{thing})\b",
            re.IGNORECASE,
        ),
        re.compile(value),
    )
    for thing, value in _THINGS.items()
)
_PERSON: Final = re.compile(
    r"\b[A-Z][a-z]+ [A-Z][a-z]+\b|@\w+|\b(?:by|author|from|owner)(?: is| was|:)? (?:the )?\w+"
)
_IN_A_PLACE: Final = re.compile(
    rf"`[^`\n]+`|https?://\S+|{_PLACE}|\b(?:in|at|on|under|inside|into|to) (?:the )?\w+"
)
# A name: in quotation marks, with a sign of code in it, a number, a capital inside a sentence.
_NAME: Final = re.compile(
    r"`[^`\n]+`|\*\*[^*\n]+\*\*|[\"“][^\"”\n]+[\"”]|\w[\w-]*[_./:@#]\w+|[a-z][A-Z]\w+|\d+"
    r"|(?<=[a-z,;:] )[A-Z]\w+"
)
# What must be said, by what is asked for.
_SAYS: Final = (
    (_QUANTITY, _HAS_NUMBER),
    (_MOMENT, _HAS_MOMENT),
    (_REASON, SAYS_REASON),
    (
        re.compile(
            r"\b(?:which|what) (?!(?:does|do|did|is|was|are) )(?:\w+ ){0,2}commands?\b"
            r"|\bcommands? (?:to|for|that)\b",
            _I,
        ),
        _SAYS_COMMAND,
    ),
    (_CHOICE, _HAS_CHOICE),
    (_MANNER, _SAYS_MANNER),
    (_VERDICT, _SAYS_VERDICT),
)
# What must be named, beyond what the question has.
_NAMES: Final = (
    *_ASKED_THINGS,
    (re.compile(r"\bwho(?:se|m)?\b", _I), _PERSON),
    (
        re.compile(r"\bwhere\b", _I),
        re.compile(
            rf"`[^`\n]+`|https?://\S+|{_PLACE}|\b(?:in|at|on|under|inside|into|to) (?:the )?\w+"
        ),
    ),
)
_WHICH: Final = re.compile(r"\bwhich (?!is\b|are\b|was\b)", _I)
# What an agent says it is about to do; it tells nothing of what came of it.
_NARRATION: Final = re.compile(
    r"(?:(?:now|ok(?:ay)?|good|great|right|next|first)[,.!]? )*"
    r"(?:(?:let me|let['’]s|i['’]ll|i will|i['’]m going to|i am going to|checking|looking at) "
    r"|(?:i['’]m|i am) \w+ing\b|(?:now )?i (?:need|want|have) to |the user (?:is|wants|asks) "
    r"|holding off |[^.!?\n]{0,60}, i(?:['’]ll| will| should| need to) )",
    _I,
)
_SENTENCE_END: Final = re.compile(r"(?<=[.!?:])\s+|\n+")
_HEADING: Final = re.compile(r"#{1,6} [^\n]*|\*\*[^*\n]*\*\*:?")
# The number of a list's item, or of a line in a file, counts nothing.
_PLACE_NUMBER: Final = re.compile(
    r"^[*_#>\s-]*\d+[.)]\s|\blines? \d+(?:-\d+)?|:\d+(?:-\d+)?\b", re.MULTILINE
)
_COUNTED: Final = re.compile(r"\bhow many (\w+)(?: (\w+))?", _I)
_BETWEEN: Final = 4  # words between a number and what it counts
_ALIKE: Final = 0.8
_SMALL_WORDS: Final = """
a about again also am an and any are as at be been but by can could did do does ever for from get
got had has have he her his how i if in into is it its just last let me my no not of on or our over
please she should show so some tell than that the their them then there these they this those time
to us use used was we were what when where which who whom whose why will with would yes you your
"""
STOP_WORDS: Final = frozenset(_SMALL_WORDS.split())
# A choice may be told in any such word: which of them was asked with tells nothing.
CHOOSING: Final = frozenset(
    ("choose", "chose", "chosen", "choice", "decide", "decided", "decision")
)


def is_answer(question: str, passage: str) -> bool:
    """Tell whether a passage has what a question asks for: a cause, a choice, a number, a name.

    A question of no such kind is answered by what it is about.
    """
    if passage.endswith("?") or is_echo(question, passage) or _HEADING.fullmatch(passage):
        return False
    sentences = (one for one in _SENTENCE_END.split(passage) if not _NARRATION.match(one))
    said = "\n".join(sentences)
    if _QUANTITY.search(question):
        said = _PLACE_NUMBER.sub(" ", said)
    wanted = [given for asked, given in _SAYS if asked.search(question)]
    return (
        bool(said)
        and all(given.search(said) for given in wanted)
        and _is_counted(question, said)
        and _is_named(question, said)
    )


def looks_right(question: str, passage: str) -> int:
    """Count the kinds that a question asks for and a passage looks like an answer to."""
    return sum(
        asked.search(question) is not None and given.search(passage) is not None
        for asked, given in _LOOKS
    )


def asks_why(question: str) -> bool:
    """Tell whether a question asks for a reason."""
    return _REASON.search(question) is not None


def is_decision(question: str, passage: str) -> bool:
    """Tell whether a question asks for a choice, and a passage begins by saying that one was made.

    It says what was chosen, and seldom again among what.
    """
    return _CHOICE.search(question) is not None and _DECIDED.match(passage) is not None


def is_narration(text: str) -> bool:
    """Tell whether a text says what its author is about to do."""
    return _NARRATION.match(text) is not None


def is_echo(question: str, text: str) -> bool:
    """Tell whether a text only says what the question says."""
    return overlap(question, text) > _ALIKE


def is_alike(one: str, other: str) -> bool:
    """Tell whether one of two texts says hardly more than the other."""
    return overlap(one, other) > _ALIKE


def overlap(one: str, other: str) -> float:
    """Return how much of the smaller of two texts' words the other has."""
    first, second = set(index_words(one)), set(index_words(other))
    return len(first & second) / max(1, min(len(first), len(second)))


# ---------------------------------------------------------------------- inside


def _is_named(question: str, passage: str) -> bool:
    """Tell whether a passage has a name or value of what is asked for, beyond the question's."""
    known = question.lower()
    values = [value for asked, value in _NAMES if asked.search(question)]
    if not values and _WHICH.search(question):
        values = [_NAME]
    return all(
        any(found[0].strip('`*"“” ').lower() not in known for found in value.finditer(passage))
        for value in values
    )


def _is_counted(question: str, passage: str) -> bool:
    """Tell whether a passage has a number of what is counted, if a question asks how many."""
    asked = _COUNTED.search(question)
    if asked is None:
        return True
    things = {stem(word.lower()) for word in asked.groups() if word} - STOP_WORDS
    found = re.findall(r"[\w,.+]+", passage.lower())
    words = [stem(word.strip(".,")) for word in found]
    places = [at for at, word in enumerate(words) if word in things]
    return any(
        word[:1].isdigit() or word[:1] == "+"
        for at in places
        for word in words[max(0, at - _BETWEEN) : at + _BETWEEN + 1]
    )
