"""Two helpers that programs written against the contract call by name.

Search itself does not use them: it takes any text as it is.
"""

import re
from typing import Final

_PIECES: Final = re.compile(r'("[^"]*")')
_SPECIAL: Final = re.compile(r'[+{}()"^]')
_STARS: Final = re.compile(r"\*{2,}")
_LONE_STARS: Final = re.compile(r"(?:^|(?<=\s))\*")
_LEADING: Final = re.compile(r"^(?:AND|OR|NOT)\b\s*", re.IGNORECASE)
_TRAILING: Final = re.compile(r"\s+(?:AND|OR|NOT)$", re.IGNORECASE)
_JOINED: Final = re.compile(r"\w+(?:[.-]\w+)+")
_CJK: Final = re.compile(
    "[\u3000-\u303f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)


def sanitize_fts5_query(query: str) -> str:
    """Make what a person typed a query that FTS5 can parse, as the contract does it.

    Whole phrases stay; special characters and dangling operators go; words joined by dots or
    hyphens become phrases.
    """
    pieces = _PIECES.split(query)
    plain = [_without_special(piece) for piece in pieces[::2]]
    pieces[::2] = plain
    text = _without_dangling("".join(pieces).strip())
    return "".join(
        piece if place % 2 else _JOINED.sub(r'"\g<0>"', piece)
        for place, piece in enumerate(_PIECES.split(text))
    ).strip()


def _without_special(text: str) -> str:
    text = _STARS.sub("*", _SPECIAL.sub(" ", text))
    return _LONE_STARS.sub("", text)


def _without_dangling(text: str) -> str:
    return _TRAILING.sub("", _LEADING.sub("", text)).strip()


def contains_cjk(text: str) -> bool:
    """Tell whether there is Chinese, Japanese or Korean in a text."""
    return _CJK.search(text) is not None
