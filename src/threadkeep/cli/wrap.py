"""Long lines broken at blanks, also while they are still being written."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

# A word with the blanks before it, or a line end.
_WORDS: Final = re.compile(r"\n|[^\S\n]*[^\s]+|[^\S\n]+")


class StyledText(NamedTuple):
    """Text with a style, such as "bold" or "dim red"."""

    text: str
    style: str = ""


def marked(snippet: str) -> list[StyledText]:
    """Show what was found in a snippet, between >>> and <<<, in another colour."""
    pieces = []
    for place, half in enumerate(snippet.split(">>>")):
        found, mark, rest = half.partition("<<<")
        pieces += (
            [StyledText(found, "bold yellow"), StyledText(rest)]
            if place and mark
            else [StyledText(half)]
        )
    return pieces


class Wrap:
    """Takes pieces of text, gives them back with lines no longer than `width` where blanks allow.

    A line that goes on begins under the first word of the line before. What could still grow,
    the last word, is held back until a blank or a line end follows.
    """

    def __init__(self, width: int) -> None:
        """Begin at the start of a line."""
        self._width = width
        self._column = 0
        self._indent: int | None = None  # unknown before the first word of the line
        self._held: list[StyledText] = []

    def take(self, piece: StyledText) -> list[StyledText]:
        """Give what can be shown now."""
        ready: list[StyledText] = []
        for text in _WORDS.findall(piece.text):
            if text[0].isspace():
                ready += self._release()
            if text == "\n":
                self._column, self._indent = 0, None
                ready.append(StyledText(text, piece.style))
            else:
                self._held.append(StyledText(text, piece.style))
        return ready

    def rest(self) -> list[StyledText]:
        """Give what was held back: nothing more comes."""
        return self._release()

    def _release(self) -> list[StyledText]:
        """Place the word that is now known to be whole, with the blanks before it."""
        word, self._held = self._held, []
        text = "".join(piece.text for piece in word)
        bare = text.lstrip()
        lead = len(text) - len(bare)
        if self._indent is None and bare:
            self._indent = self._column + lead
        size = _cells(text)
        fits = self._column + size <= self._width
        indent = self._indent or 0
        if fits or not bare or self._column <= indent or indent * 2 > self._width:
            self._column += size
            return word
        self._column = indent + _cells(bare)
        return [StyledText("\n" + " " * indent, word[0].style), *_without_lead(word)]


def _without_lead(word: list[StyledText]) -> Iterator[StyledText]:
    """Leave out the blanks that the line break stands for."""
    leading = True
    for piece in word:
        text = piece.text.lstrip() if leading else piece.text
        leading = leading and not text
        if text:
            yield StyledText(text, piece.style)


def _cells(text: str) -> int:
    from rich.cells import cell_len  # only a terminal needs it

    return cell_len(text)
