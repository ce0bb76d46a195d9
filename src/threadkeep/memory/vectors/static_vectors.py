"""Static vectors: one for each word piece; the vector of a text is the mean of its pieces.

That is 100 times as fast as the model it was distilled from, and in conversations it even finds
more: evidence recall@10 0.49 against 0.42 for the whole model (LoCoMo, turns alone).
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from threadkeep.errors import Damaged

# ------------------------------------------------------------------------------
# Texts as numbers of word pieces, the way models of the BERT family count them (uncased).

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
        """Return the numbers of a text's pieces, without marks for its begin and end."""
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
    """Return the words of a text in small letters, without accents; each mark is its own word."""
    if text.isascii():
        return _PLAIN.findall(_without_controls(text.lower()))
    plain = unicodedata.normalize("NFD", text.lower())
    return "".join(map(_spaced, plain)).split()


def _without_controls(text: str) -> str:
    """Join what is on both sides of a control character, as it was never there."""
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


Floats = NDArray[np.float32]
Bytes = NDArray[np.int8]

MOST_PIECES: Final = 512  # of one text: what a text is about stands near its begin
_LONGEST_PIECE: Final = 12  # letters and a blank: enough text for that many pieces
_BATCH: Final = 256  # texts at once: some 10 MB
_MAGIC: Final = b"TKSTATIC"
_DIGEST: Final = 16
_STEPS: Final = 127


class StaticTable(msgspec.Struct, frozen=True):
    """The vectors of all pieces, one byte for each number, and a scale for each piece."""

    model: str
    vocabulary: tuple[str, ...]
    rows: Bytes
    scales: Floats

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        return int(self.rows.shape[1])


class _Head(msgspec.Struct):
    model: str
    pieces: int
    dimensions: int


def make_table(model: str, vocabulary: Sequence[str], vectors: Floats) -> StaticTable:
    """Round the vectors of a vocabulary to one byte for each number."""
    largest = np.abs(vectors).max(axis=1)
    parts = vectors / np.where(largest > 0, largest, 1)[:, None]
    rows = np.rint(parts * np.float32(_STEPS)).astype(np.int8)
    scales = (largest / np.float32(_STEPS)).astype(np.float32)
    return StaticTable(model, tuple(vocabulary), rows, scales)


def pack_table(table: StaticTable) -> bytes:
    """Write a table as bytes that prove themselves."""
    head = msgspec.json.encode(_Head(table.model, len(table.vocabulary), table.dimensions))
    parts = (
        len(head).to_bytes(4, "little"),
        *(head, table.scales.astype("<f4").tobytes(), table.rows.tobytes()),
        "\n".join(table.vocabulary).encode(),
    )
    body = b"".join(parts)
    return _MAGIC + _digest(body) + body


def unpack_table(data: bytes) -> StaticTable:
    """Read a table back; raises Damaged if it is not whole."""
    start = len(_MAGIC) + _DIGEST
    body = memoryview(data)[start:]
    if data[: len(_MAGIC)] != _MAGIC or data[len(_MAGIC) : start] != _digest(body):
        msg = "the embedding table is incomplete"
        raise Damaged(msg, hint="remove it; it will be rebuilt")
    size = int.from_bytes(body[:4], "little")
    head = msgspec.json.decode(bytes(body[4 : 4 + size]), type=_Head)
    scales_at = 4 + size
    rows_at = scales_at + 4 * head.pieces
    words_at = rows_at + head.pieces * head.dimensions
    scales = np.frombuffer(body[scales_at:rows_at], "<f4").astype(np.float32, copy=False)
    rows = np.frombuffer(body[rows_at:words_at], np.int8).reshape(head.pieces, head.dimensions)
    words = tuple(bytes(body[words_at:]).decode().split("\n"))
    return StaticTable(head.model, words, rows, scales)


def _digest(body: bytes | memoryview) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST).digest()


class StaticEmbedder:
    """Makes vectors from a table, in this process."""

    def __init__(self, table: StaticTable) -> None:
        self._table = table
        self._pieces = WordPieces(table.vocabulary)

    @property
    def model(self) -> str:
        """The name of the table."""
        return self._table.model

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        return self._table.dimensions

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return the vector of each text, in order; no bytes where no piece is known."""
        vectors: list[bytes] = []
        for first in range(0, len(texts), _BATCH):
            vectors += self._embed(texts[first : first + _BATCH])
        return vectors

    def close(self) -> None:
        """Nothing is held: the table goes with the object."""

    def _embed(self, texts: Sequence[str]) -> list[bytes]:
        most = MOST_PIECES * _LONGEST_PIECE
        numbers = [self._pieces.numbers(text[:most], MOST_PIECES) for text in texts]
        sums = np.zeros((len(texts), self.dimensions), np.float32)
        some = [i for i, found in enumerate(numbers) if found]
        if some:
            sums[some] = self._sums([numbers[i] for i in some])
        lengths = np.linalg.norm(sums, axis=1)
        np.divide(sums, lengths[:, None], out=sums, where=lengths[:, None] > 0)
        return [
            row.astype("<f4").tobytes() if length > 0 else b""
            for row, length in zip(sums, lengths, strict=True)
        ]

    def _sums(self, numbers: Sequence[Sequence[int]]) -> Floats:
        """Add up the pieces of each text: their mean has the same direction."""
        flat = np.fromiter((n for found in numbers for n in found), np.intp)
        rows = self._table.rows[flat].astype(np.float32)
        rows *= self._table.scales[flat][:, None]
        starts = np.cumsum([0, *map(len, numbers[:-1])])
        return np.add.reduceat(rows, starts, axis=0)
