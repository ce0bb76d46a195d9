"""Words of a text: how a text is split before it is indexed, and before it is compared.

Text and queries are split in the same way, so whatever stands in a text is found by typing it,
punctuation and all:

    index_text("see Gateway/run.py")      what to give an index
    index_words("see Gateway/run.py")     ["see", "gateway", "run", "py"]
    stem("running")                       "run"

These words are exactly those that FTS5's `unicode61` finds in what `index_text` gives, and their
stems those of its `porter`.
"""

import re
import unicodedata
from functools import cache, lru_cache
from typing import Final

from threadkeep.base.text import pattern

INDEX_LIMIT: Final = 256 * 1024

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
LETTER: Final = rf"[^\W_{_UNSPACED}{_NOT_INDEXED}]"
# Where unicode61 finds the same words by itself: most European text and its typography. It saves
# 80 µs per 1,000 characters, three times what indexing them costs.
_SPLIT_ALIKE: Final = pattern(
    "[\0-\xa9\xab-\xb1\xb4-\xb8\xbb\xbf-\u0131\u0134-\u013e\u0141-\u0148\u014a-\u01c3"
    "\u0400-\u052f\u2000-\u2064\u20ac\u2190-\u23f3\u2500-\u26ff\u2701-\u27bf\ufe00-\ufe0f"
    "\U0001f337-\U0001f37c\U0001f380-\U0001f393\U0001f3a0-\U0001f3c4\U0001f400-\U0001f43e"
    "\U0001f442-\U0001f4f7\U0001f500-\U0001f53d\U0001f5fb-\U0001f640\U0001f680-\U0001f6c5]*"
)
# Capitals that came after Unicode 6.1: unicode61 does not know their small letters.
_FOLDED: Final = pattern(
    "[^\u037f\u0528-\u052e\u13a0-\u13f5\u1c89-\u1cbf\u2c2f\ua698-\ua69a\ua796-\ua79e\ua7ab-\ua7dc"
    "\ua7f5\U000104b0-\U000104d3\U00010570-\U00010595\U00010c80-\U00010d65"
    "\U000118a0-\U000118bf\U00016e40-\U00016eb8\U0001e900-\U0001e921]+"
)
_LATIN_ACCENTS: Final = pattern("(?<=[A-Za-z])[\u0300-\u036f]+")
# Base64 and its like: nobody asks for the middle of it, and it is what makes indexes large.
# The look-behind lets a match start only where a run starts, which keeps the search linear.
_BLOB: Final = pattern(r"(?<![A-Za-z0-9+/=_-])([A-Za-z0-9+/=_-]{128})[A-Za-z0-9+/=_-]{896,}")
_SHORTEST_BLOB: Final = 1024


# Both take 3 ms to compile: too much for a command that looks for no words.
@cache
def word_pattern() -> re.Pattern[str]:
    """Return what finds each word of a split text."""
    return re.compile(rf"(?=\w)[{_UNSPACED}]|{LETTER}+")


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
    return " ".join(split_words(text))


def index_words(text: str, limit: int = INDEX_LIMIT) -> list[str]:
    """Split text into the words under which it is indexed, in lower case."""
    return fold(" ".join(split_words(shorten_blobs(text[:limit])))).split()


def fold(words: str) -> str:
    """Write words of a split text in lower case, as unicode61 does it."""
    if words.isascii():
        return words.lower()
    return _FOLDED.sub(lambda part: part[0].lower(), words).replace("ς", "σ")


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


def split_words(text: str) -> list[str]:
    """Split text the way it is indexed: letters and digits, without accents on Latin letters."""
    if not text.isascii():
        # unicode61 knows most accents but not two on one letter (Vietnamese); widths and
        # ligatures it does not know at all.
        decomposed = unicodedata.normalize("NFKD", text)
        text = unicodedata.normalize("NFKC", _LATIN_ACCENTS.sub("", decomposed))
    return word_pattern().findall(text)


# ------------------------------------------------------------------------------
# Stems, as FTS5 makes them: Porter's algorithm of 1980, over the bytes of a word.

_STEMMED: Final = range(3, 65)  # bytes of a word that is stemmed
_ENDINGS: Final = (
    (
        *(("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance")),
        *(("izer", "ize"), ("logi", "log"), ("bli", "ble"), ("alli", "al"), ("entli", "ent")),
        *(("eli", "e"), ("ousli", "ous"), ("ization", "ize"), ("ation", "ate"), ("ator", "ate")),
        *(("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous")),
        *(("aliti", "al"), ("iviti", "ive"), ("biliti", "ble")),
    ),
    (
        *(("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic")),
        *(("ful", ""), ("ness", "")),
    ),
)
_LAST_ENDINGS: Final = (
    *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion"),
    *("ou", "ism", "ate", "iti", "ous", "ive", "ize"),
)


@lru_cache(1 << 16)
def stem(word: str) -> str:
    """Return the stem under which a word, in lower case, is indexed where words are stemmed."""
    if word.isascii():
        return _stem(word) if len(word) in _STEMMED else word
    data = word.encode("utf-8", "surrogateescape")
    if len(data) not in _STEMMED:
        return word
    found = _stem(data.decode("latin-1")).encode("latin-1")
    return found.decode("utf-8", "surrogateescape")  # it may end inside a character


def head_of(stem: str) -> str:
    """Return what every word of a stem begins with: its last letter need not be the word's."""
    return stem[:-1] or stem  # `happy` has the stem `happi`


def _stem(word: str) -> str:
    word = _without_tense(_without_plural(word))
    if word[-1] == "y" and _has_vowel(word[:-1]):
        word = f"{word[:-1]}i"
    for endings in _ENDINGS:
        word = _replaced(word, endings)
    return _without_e(_without_last(word))


def _without_plural(word: str) -> str:
    if word[-1] != "s" or word[-2] == "s":
        return word
    longer = (word.endswith("ies") and word != "ies") or (word.endswith("sses") and word != "sses")
    return word[:-2] if longer else word[:-1]


def _without_tense(word: str) -> str:
    if word.endswith("eed") and word != "eed":
        return word[:-1] if _measure(word[:-3]) else word
    for ending in ("ed", "ing"):
        rest = word.removesuffix(ending)
        if rest != word and _has_vowel(rest):
            return _completed(rest)
    return word


def _completed(word: str) -> str:
    """Mend what is left before `ed` and `ing`: `siz` is of `size`, `hopp` of `hop`."""
    if word.endswith(("at", "bl", "iz")) and len(word) > 2:  # noqa: PLR2004
        return f"{word}e"
    if word[-1] == word[-2:-1] and word[-1] not in "aeioulsz":
        return word[:-1]
    return f"{word}e" if _measure(word) == 1 and _is_short(word) else word


def _replaced(word: str, endings: tuple[tuple[str, str], ...]) -> str:
    for ending, instead in endings:
        if word.endswith(ending) and word != ending:
            rest = word[: -len(ending)]
            return rest + instead if _measure(rest) else word
    return word


def _without_last(word: str) -> str:
    for ending in _LAST_ENDINGS:
        if word.endswith(ending) and word != ending:
            rest = word[: -len(ending)]
            allowed = ending != "ion" or rest[-1] in "st"
            return rest if allowed and _measure(rest) > 1 else word
    return word


def _without_e(word: str) -> str:
    if word[-1] == "e":
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _is_short(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


def _shape(word: str) -> str:
    """Write a word as vowels and consonants; `y` is a vowel behind a consonant."""
    shape = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and shape[-1:] == "c")
        shape += "v" if vowel else "c"
    return shape


def _measure(word: str) -> int:
    """Count how often a consonant follows a vowel."""
    return _shape(word).count("vc")


def _has_vowel(word: str) -> bool:
    return "y" in word[1:] or any(letter in "aeiou" for letter in word)


def _is_short(word: str) -> bool:
    return word[-1] not in "wxy" and _shape(word).endswith("cvc")
