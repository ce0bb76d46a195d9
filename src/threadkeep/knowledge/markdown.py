"""Markdown as notes are written in it: its sections by their headings, and its links.

What stands inside a fenced block of code is text: no heading and no link.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_HEADING: Final = re.compile(r"(#{1,6})[ \t]+(\S.*?)[ \t\r]*")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_LINK: Final = re.compile(r"\[([^\]]*)\]\(([^)]+)\)")


class Section(NamedTuple):
    """A part of a text: the headings above it, where it stands, what it says."""

    heading_path: str  # `Glaze > Rules`; empty before the first heading
    start: int  # characters from the beginning
    end: int
    text: str  # without the white space around it


class Link(NamedTuple):
    """An inline link: its words, and where it leads."""

    words: str
    target: str


class _MarkdownLine(NamedTuple):
    start: int
    text: str


def sections(text: str) -> list[Section]:
    """Cut a text at its headings; nothing of it but white space is in no section."""
    cuts: list[tuple[int, str]] = [(0, "")]
    above: list[str] = []
    for line in _outside_fences(text):
        found = _HEADING.fullmatch(line.text)
        if found:
            # As many names as the level says at most: the paths that the contract's writers give.
            above = [*above[: len(found[1]) - 1], found[2]]
            cuts.append((line.start, " > ".join(above)))
    ends = [start for start, _ in cuts[1:]] + [len(text)]
    cut = (
        Section(path, start, end, text[start:end].strip())
        for (start, path), end in zip(cuts, ends, strict=True)
    )
    return [section for section in cut if section.text]


def links(text: str) -> list[Link]:
    """Give the inline links of a text in their order, titles left out."""
    found = (match for line in _outside_fences(text) for match in _LINK.finditer(line.text))
    pairs = ((match[1].strip(), _target(match[2])) for match in found)
    return [Link(words, target) for words, target in pairs if target]


def _target(inside: str) -> str:
    """Give where a link leads, without the brackets around it or the title behind it."""
    plain = inside.strip()
    if plain.startswith("<") and ">" in plain:
        return plain[1 : plain.index(">")].strip()
    return re.split(r"\s+[\"'(]", plain, maxsplit=1)[0].strip()


def _outside_fences(text: str) -> Iterator[_MarkdownLine]:
    """Yield the lines that are not inside fenced code; a fence without an end goes to the end."""
    fence = ""
    at = 0
    for line in text.split("\n"):
        found = _FENCE.fullmatch(line.rstrip("\r"))
        if fence:
            if found and found[1].startswith(fence) and not found[2].strip():
                fence = ""
        elif found and not (found[1][0] == "`" and "`" in found[2]):
            fence = found[1]
        else:
            yield _MarkdownLine(at, line)
        at += len(line) + 1
