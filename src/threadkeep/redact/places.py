"""Where a value stands: in a field for identifiers, or in the middle of a picture.

Only a value that a rule would mask is looked at so, which is once in megabytes.
"""

import re
from typing import Final

_QUOTES: Final = b"\\\"'`"  # and the backslashes before them
_BLANKS: Final = b" \t"
_NAME_LETTERS: Final = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.$-"
_NEAR: Final = 96
_IDENTIFIER: Final = re.compile(
    rb"""(?x) (?: ^ | [_.$-] | (?<=[a-z0-9]) (?=[A-Z]) )
    (?: [iI][dD][sS]? | [uU][uU][iI][dD] | [gG][uU][iI][dD] | [oO]id | [hH]ash(?:es)? | [sS]ha\d*
    | SHA\d* | [dD]igest | [cC]hecksum | [eE]?[tT]ag | [iI]ntegrity | [sS]ignature | [nN]once
    | [fF]ingerprint | [cC]ommit | [rR]ev(?:ision)? | [cC]ursor | [sS]lug | [mM]d5 | [rR]equest )
    $"""
)
_RUN: Final = re.compile(rb"(?:[A-Za-z0-9+/=]|\\+[nr]|[\r\n])*")
_TURNED_RUN: Final = re.compile(rb"(?:[A-Za-z0-9+/]|[nr]\\+|[\r\n])*")
_CORE: Final = re.compile(rb"[A-Za-z0-9+/=\\\r\n]")
_LOOK: Final = 1024
_PICTURE: Final = 160  # letters of base64 around a value, as no sentence and no path has them
_BASE64: Final = b"base64"
_EMBEDDED: Final = re.compile(rb"base64[\\\"',: ]{1,10}[A-Za-z0-9+/_=-]*")
_LETTERS: Final = re.compile(rb"[A-Za-z]")


def is_identifier(data: bytes, start: int) -> bool:
    """Tell whether a value is what a field such as `id`, `callID` or `sha256` holds."""
    before = data[max(0, start - _NEAR) : start]
    sign = before.rstrip(_QUOTES).rstrip(_BLANKS)
    if len(sign) == len(before) or not sign.endswith((b":", b"=")):
        return False
    name = sign[:-1].rstrip(_BLANKS).rstrip(_QUOTES)
    return _IDENTIFIER.search(name[len(name.rstrip(_NAME_LETTERS)) :]) is not None


def is_media(data: bytes, start: int, end: int) -> bool:
    """Tell whether a value lies inside long base64: a picture, a sound, a document."""
    before = data[max(0, start - _LOOK) : start]
    left = _TURNED_RUN.match(before[::-1]) if _CORE.match(before[-1:]) else None
    right = _RUN.match(data, end, end + _LOOK) if _CORE.match(data, end) else None
    around = (left[0] if left else b"") + (right[0] if right else b"")
    if len(around) < _PICTURE:
        embedded = before.rfind(_BASE64)
        return embedded >= 0 and _EMBEDDED.fullmatch(before, embedded) is not None
    return len(_LETTERS.findall(around)) > len(around) // 4
