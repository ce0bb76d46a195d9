r"""Full text, seen from Python: what is indexed, what is asked, and what is shown.

The index is SQLite's FTS5 with `porter unicode61`. Text and queries go through the same splitting
into words, so whatever stands in a text is found by typing it, punctuation and all:

    index_text("see gateway/run.py")      what to give the index
    match_query("gateway/run.py")         '"gateway run py"', never a syntax error
    literal_terms("👍")                   for LIKE, when `match_query` finds no word to ask for
    parse_query("gateway/run.py")         the terms one by one, for who builds expressions itself
    snippet(text, "gateway/run.py")       'see >>>gateway/run.py<<<'
"""

import re
import sqlite3
import unicodedata
from functools import cache
from itertools import islice
from typing import Final, Literal

import msgspec

# What a damaged or missing index raises inside a transaction, for callers who can do without it.
FullTextError = sqlite3.Error

INDEX_LIMIT: Final = 256 * 1024
MAX_TOKENS: Final = 64

_MAX_QUERY: Final = 16_384
_MAX_WORD: Final = 128
_MAX_EXPANDED: Final = 8

# Scripts written without spaces: every character is a word of its own, so that any part of a
# sentence can be found. (unicode61 would take the whole sentence for one word.)
_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff"  # Thai, Lao, Burmese, Hangul, Khmer
    "\u2e80-\u2fdf\u3005-\u3007\u3040-\u31bf\u31f0-\u31ff"  # radicals, kana, bopomofo
    "\u3400-\u4dbf\u4e00-\ua4cf\ua960-\ua97f\uac00-\ud7ff"  # Han, Yi, Hangul
    "\uf900-\ufaff\uff66-\uff9f\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
# Letters to Python, but not to unicode61, whose tables are those of Unicode 6.1.
_NOT_INDEXED: Final = "\u19b0-\u19c9\u1cf2\u1cf3"
_LETTER: Final = rf"[^\W_{_UNSPACED}{_NOT_INDEXED}]"
# For an index that took its text as it was: unicode61 keeps these accents inside a word.
_RAW_WORD: Final = re.compile("(?:[^\\W_]|[\u0300-\u036f])+")
# Where unicode61 finds the same words by itself: most European text and its typography. It saves
# 80 µs per 1,000 characters, three times what indexing them costs.
_SPLIT_ALIKE: Final = re.compile(
    "[\0-\xa9\xab-\xb1\xb4-\xb8\xbb\xbf-\u0131\u0134-\u013e\u0141-\u0148\u014a-\u01c3"
    "\u0400-\u052f\u2000-\u2064\u20ac\u2190-\u23f3\u2500-\u26ff\u2701-\u27bf\ufe00-\ufe0f"
    "\U0001f337-\U0001f37c\U0001f380-\U0001f393\U0001f3a0-\U0001f3c4\U0001f400-\U0001f43e"
    "\U0001f442-\U0001f4f7\U0001f500-\U0001f53d\U0001f5fb-\U0001f640\U0001f680-\U0001f6c5]*"
)
_LATIN_ACCENTS: Final = re.compile("(?<=[A-Za-z])[\u0300-\u036f]+")
_NOT_TEXT: Final = re.compile("[\0\ud800-\udfff]")
# Base64 and its like: nobody asks for the middle of it, and it is what makes indexes large.
# The look-behind lets a match start only where a run starts, which keeps the search linear.
_BLOB: Final = re.compile(r"(?<![A-Za-z0-9+/=_-])([A-Za-z0-9+/=_-]{128})[A-Za-z0-9+/=_-]{896,}")
_SHORTEST_BLOB: Final = 1024
_QUERY_PIECE: Final = re.compile(r'"([^"]*)"(\*?)|([^\s"]+)')
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
    """One thing asked for: its words in a row, and how it joins what stands before it."""

    words: tuple[str, ...]
    prefix: bool
    operator: Operator
    typed: str


# Both take 3 ms to compile: too much for a command that looks for no words.
@cache
def _word() -> re.Pattern[str]:
    return re.compile(rf"(?=\w)[{_UNSPACED}]|{_LETTER}+")


@cache
def _unspaced() -> re.Pattern[str]:
    return re.compile(f"[{_UNSPACED}]")


def contains_unspaced(text: str) -> bool:
    """Tell whether there is Chinese, Japanese, Korean, Thai or the like in it."""
    return not text.isascii() and _unspaced().search(text) is not None


def index_text(text: str, limit: int = INDEX_LIMIT) -> str:
    """Make the text to index: the words of the first `limit` characters, with spaces between.

    Characters of scripts without spaces stand alone; long base64-like runs keep their start only.
    """
    text = shorten_blobs(text[:limit])
    if text.isascii() or _SPLIT_ALIKE.fullmatch(text):
        return text.replace("\0", " ")
    return " ".join(_words(text))


def index_words(text: str, limit: int = INDEX_LIMIT) -> list[str]:
    """Split text into the words under which it is indexed, in lower case."""
    return _words(shorten_blobs(text[:limit]).lower())


def shorten_blobs(text: str) -> str:
    """Cut long base64-like runs down to their start."""
    return _BLOB.sub(r"\1", text) if _may_hold_blob(text) else text


def _may_hold_blob(text: str) -> bool:
    """Tell whether there is a long stretch without space or line feed, without `sub`'s cost."""
    at = 0
    while at + _SHORTEST_BLOB <= len(text):
        end = at + _SHORTEST_BLOB
        stop = max(text.rfind(" ", at, end), text.rfind("\n", at, end))
        if stop < 0:
            return True
        at = stop + 1
    return False


def match_query(text: str, *, split: bool = True) -> str | None:
    """Turn what a person typed into an FTS5 expression that cannot fail, or None without words.

    Words must all occur; `"a phrase"`, `OR`, `NOT`, `AND` and `prefix*` work as people expect
    (NOT binds first, OR last). Words held together by punctuation are asked for as a phrase.
    `split=False` is for an index that was not filled through `index_text`.
    """
    parts: list[str] = []
    asked: set[str] = set()
    prefixes = 0
    for term in parse_query(text, split=split):
        prefixes += term.prefix
        part = expression(term, expand=prefixes <= _MAX_EXPANDED)
        if not part or (part in asked and term.operator == "AND"):
            continue
        if parts:
            parts.append(term.operator)
        elif term.operator == "NOT":  # what stood before it has no word: nothing to take it from
            continue
        parts.append(part)
        if term.operator == "OR":
            asked = set()
        if term.operator != "NOT":
            asked.add(part)
    return " ".join(parts) or None


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

    Operators and excluded words are left out. Use it when `match_query` gives None or no hit:
    emoji and symbols are in no index.
    """
    return [term.typed for term in parse_query(text) if term.operator != "NOT"]


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


# --- words and queries


def _words(text: str) -> list[str]:
    """Split text the way it is indexed: letters and digits, without accents on Latin letters."""
    if not text.isascii():
        # unicode61 knows most accents but not two on one letter (Vietnamese); widths and
        # ligatures it does not know at all.
        decomposed = unicodedata.normalize("NFKD", text)
        text = unicodedata.normalize("NFKC", _LATIN_ACCENTS.sub("", decomposed))
    return _word().findall(text)


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
    words = (_words(short) if split else _RAW_WORD.findall(short))[:room]
    prefix = prefix or short != typed
    for at, word in enumerate(words):
        if len(word) > _MAX_WORD:
            words[at:] = [word[:_MAX_WORD]]
            prefix = True
            break
    literal = typed.strip()[:_MAX_WORD]
    return Term(tuple(words), prefix, operator, literal.rstrip("*") or literal)


def expression(term: Term, *, expand: bool = True) -> str:
    """Write one term as an FTS5 expression, empty if it has no words."""
    phrase = " ".join(term.words)
    if not (phrase and term.prefix):
        return phrase and f'"{phrase}"'
    head = phrase[: len(phrase) - len(term.words[-1])]
    endings = _completions(term.words[-1].lower()) if expand else []
    choices = [f'"{phrase}"*', *(f'"{head}{ending}' for ending in endings)]
    return choices[0] if len(choices) == 1 else f"({' OR '.join(choices)})"


def _completions(prefix: str) -> list[str]:
    """Words this prefix may be the start of, each with its closing quote."""
    if not (prefix.isascii() and prefix.isalpha()):
        return []
    if not _SHORTEST_STEM <= len(prefix) <= _LONGEST_STEM:
        return []
    found = [f'{prefix}ing"'] if prefix[-1] == prefix[-2] else []
    for ending in _ENDINGS:
        for cut in range(min(len(ending), len(prefix) - 1) - 1, 0, -1):
            if prefix.endswith(ending[:cut]):
                found.append(f'{prefix}{ending[cut:]}"')
                break
    if prefix[-1] == "y":  # Porter makes `copy` into `copi`, which is no start of `copyright`
        found += [f'{prefix}{letter}"*' for letter in "abcdefghijklmnopqrstuvwxyz"]
    return found


# --- snippets

_Span = tuple[int, int, int]
_MAX_SPANS_PER_TERM: Final = 50
_GAP: Final = r"[\W_]{1,32}"
_NO_GAP: Final = r"[\W_]{0,32}"
_SUFFIX: Final = re.compile(r"(?:ations?|ments?|ings?|ness|ies|ied|ed|es|ers?|ly|ions?|s|e|y)$")


def _find(text: str, query: str) -> list[_Span]:
    """Find the terms in the text: (start, end, number of the term), in order, not overlapping."""
    folded = _fold(text)
    asked = [(n, term) for n, term in enumerate(parse_query(query)) if term.operator != "NOT"]
    spans = [span for n, term in asked if term.words for span in _find_term(folded, term, n)]
    # Emoji and symbols are what was looked for only where no word is: `a - b` is not about hyphens.
    for n, term in asked if not spans else ():
        spans += [] if term.words else _find_pattern(folded, re.escape(_fold(term.typed)), n)
    kept: list[_Span] = []
    for span in sorted(spans, key=lambda span: (span[0], -span[1])):
        if not kept or span[0] >= kept[-1][1]:
            kept.append(span)
    return kept


def _find_term(folded: str, term: Term, number: int) -> list[_Span]:
    """Find the words as they are; if they are nowhere, words of the same stem."""
    words = [_fold(word) for word in term.words]
    exact = _pattern(words, rest=term.prefix)
    near = _pattern([_stem(word) for word in words], rest=True)
    for pattern in (exact, near):
        spans = _find_pattern(folded, pattern, number)
        if spans:
            return spans
    return []


def _find_pattern(folded: str, pattern: str, number: int) -> list[_Span]:
    found = islice(re.finditer(pattern, folded), _MAX_SPANS_PER_TERM)
    return [(match.start(), match.end(), number) for match in found]


def _pattern(words: list[str], *, rest: bool) -> str:
    """A regular expression for words in a row; with `rest` they may go on."""
    pattern = ""
    for at, word in enumerate(words):
        alone = contains_unspaced(word)
        if at:
            pattern += _NO_GAP if alone or contains_unspaced(words[at - 1]) else _GAP
        escaped = re.escape(word)
        tail = rf"{_LETTER}*" if rest else rf"(?!{_LETTER})"
        # What stands before a word is looked at behind it: a pattern that begins with the word
        # itself is found 20 times as fast.
        pattern += escaped if alone else rf"{escaped}(?<!{_LETTER}{escaped}){tail}"
    return pattern


def _stem(word: str) -> str:
    stem = _SUFFIX.sub("", word)
    if len(stem) > _SHORTEST_STEM and stem[-1] == stem[-2]:
        stem = stem[:-1]
    return stem if len(stem) >= _SHORTEST_STEM else word


def _fold(text: str) -> str:
    """Lower case without accents, character by character, so that positions stay the same."""
    if text.isascii():
        return text.lower()
    table = {ord(c): _fold_character(c) for c in set(text) if not c.isascii()}
    return text.translate(table).lower()


def _fold_character(character: str) -> str:
    if _unspaced().match(character):
        return character
    first = unicodedata.normalize("NFKD", character)[0].lower()
    return first if len(first) == 1 else character


def _window(text: str, spans: list[_Span], width: int) -> tuple[int, int]:
    """Choose the stretch of text with most terms in it; the first one if several have as many."""
    if not spans or len(text) <= width:
        return 0, min(len(text), width)
    best, most = spans[0][:2], 0
    for at, (left, right, _) in enumerate(spans):
        inside = [span for span in spans[at : at + MAX_TOKENS] if span[1] <= left + width]
        terms = len({span[2] for span in inside})
        if terms > most:
            best, most = (left, max([right, *(span[1] for span in inside)])), terms
    start = max(0, best[0] - max(0, width - (best[1] - best[0])) // 2)
    start = min(start, max(0, len(text) - width))
    return _snap(text, start, best[0]), min(len(text), start + width)


def _snap(text: str, start: int, match: int) -> int:
    """Move the cut to the next space before the match, if one is near."""
    space = text.find(" ", start, min(match, start + 20)) if start else -1
    return space + 1 if space >= 0 else start
