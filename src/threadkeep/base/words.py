"""Words of a text: how a text is split before it is indexed, and before it is compared.

Text and queries are split in the same way, so whatever stands in a text is found by typing it,
punctuation and all:

    index_text("see gateway/run.py")      what to give an index
    index_words("see gateway/run.py")     ["see", "gateway", "run", "py"]
"""

import re
import unicodedata
from functools import cache
from typing import Final

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
_SPLIT_ALIKE: Final = re.compile(
    "[\0-\xa9\xab-\xb1\xb4-\xb8\xbb\xbf-\u0131\u0134-\u013e\u0141-\u0148\u014a-\u01c3"
    "\u0400-\u052f\u2000-\u2064\u20ac\u2190-\u23f3\u2500-\u26ff\u2701-\u27bf\ufe00-\ufe0f"
    "\U0001f337-\U0001f37c\U0001f380-\U0001f393\U0001f3a0-\U0001f3c4\U0001f400-\U0001f43e"
    "\U0001f442-\U0001f4f7\U0001f500-\U0001f53d\U0001f5fb-\U0001f640\U0001f680-\U0001f6c5]*"
)
_LATIN_ACCENTS: Final = re.compile("(?<=[A-Za-z])[\u0300-\u036f]+")
# Base64 and its like: nobody asks for the middle of it, and it is what makes indexes large.
# The look-behind lets a match start only where a run starts, which keeps the search linear.
_BLOB: Final = re.compile(r"(?<![A-Za-z0-9+/=_-])([A-Za-z0-9+/=_-]{128})[A-Za-z0-9+/=_-]{896,}")
_SHORTEST_BLOB: Final = 1024


# Both take 3 ms to compile: too much for a command that looks for no words.
@cache
def _word() -> re.Pattern[str]:
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
    return split_words(shorten_blobs(text[:limit]).lower())


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
    return _word().findall(text)
