"""Texts as numbers of word pieces, the way models of the BERT family count them (uncased)."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

UNKNOWN: Final = "[UNK]"
LONGEST_WORD: Final = 100  # a longer run of letters is no word, and searching its pieces is slow
MOST_WORDS: Final = 50_000  # kept with their pieces: texts repeat their words

_PLAIN: Final = re.compile(r"[a-z0-9]+|[!-/:-@\[-`{-~]")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_LAST_ASCII: Final = 0x7F
_PUNCTUATION: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_NOTHING: Final = frozenset(("Mn", "Cc", "Cf", "Co", "Cs"))  # accents, controls, private signs
# Writing without blanks between words: each sign is a word of its own.
_SIGNS: Final = (
    *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)),
    *((0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)),
)


class WordPieces:
    """The pieces of one vocabulary; keeps what it has worked out for the words it met."""

    def __init__(self, vocabulary: Iterable[str]) -> None:
        self._numbers = {piece: number for number, piece in enumerate(vocabulary)}
        self._unknown = (self._numbers.get(UNKNOWN, 0),)
        self._known: dict[str, tuple[int, ...]] = {}

    def numbers(self, text: str, limit: int | None = None) -> list[int]:
        """Give the numbers of a text's pieces, without marks for its begin and end."""
        known = self._known
        found: list[int] = []
        for word in words_of(text):
            pieces = known.get(word)
            found += self._look_up(word) if pieces is None else pieces
            if limit is not None and len(found) >= limit:
                return found[:limit]
        return found

    def _look_up(self, word: str) -> tuple[int, ...]:
        if len(self._known) >= MOST_WORDS:
            self._known.clear()
        pieces = self._known[word] = self._split(word)
        return pieces

    def _split(self, word: str) -> tuple[int, ...]:
        """Cut a word into the longest pieces there are, from its begin on."""
        if len(word) > LONGEST_WORD:
            return self._unknown
        pieces = []
        start = 0
        while start < len(word):
            end, number = self._longest(word, start)
            if number is None:
                return self._unknown
            pieces.append(number)
            start = end
        return tuple(pieces)

    def _longest(self, word: str, start: int) -> tuple[int, int | None]:
        prefix = "##" if start else ""
        for end in range(len(word), start, -1):
            number = self._numbers.get(prefix + word[start:end])
            if number is not None:
                return end, number
        return start, None


def words_of(text: str) -> Sequence[str]:
    """Give the words of a text in small letters, without accents; each mark is its own word."""
    if text.isascii():
        return _PLAIN.findall(_without_controls(text.lower()))
    plain = unicodedata.normalize("NFD", text.lower())
    return "".join(map(_spaced, plain)).split()


def _without_controls(text: str) -> str:
    """Join what stands on both sides of a control character, as it was never there."""
    return text if text.isprintable() else _CONTROLS.sub("", text)


def _spaced(char: str) -> str:
    """Give a character as it stands between words: alone, inside one, as a blank or not at all."""
    kind = unicodedata.category(char)
    if char in "\t\n\r" or kind == "Zs":
        return " "
    if kind in _NOTHING or char == "\ufffd":
        return ""
    alone = kind.startswith("P") or char in _PUNCTUATION or _is_sign(ord(char))
    return f" {char} " if alone else char


def _is_sign(code: int) -> bool:
    return code > _LAST_ASCII and any(first <= code <= last for first, last in _SIGNS)
