"""What a value looks like: random letters, a password, a word, a placeholder, a piece of code."""

from collections import Counter
from itertools import pairwise
from math import log2
from typing import Final

from threadkeep.base.text import pattern

_MASKED: Final = pattern(rb"\[(?:REDACTED|PRIVATE)\]?")
_PLACEHOLDER: Final = pattern(
    rb"""(?ix) your | example | placeholder | change[-_]?(?:me|it|this) | redacted | dummy | sample
    | insert | replace[-_]?(?:me|with) | xxxx | \*\*\* | \.\.\. | \xe2\x80\xa6 | todo | fixme
    | ^(?:some|my|the|new|old|test|fake|mock|this|any)[-_ ] | [-_](?:here|goes|value)$
    | ^(?:null|none|undefined|true|false|string|secret|token|password|required|optional)[=:]*$
    """
)
_REFERENCE: Final = pattern(
    rb"""(?x) (?: \$ [A-Za-z_({] | [$%] [({A-Za-z_] .* [)}%] $ | <\w | \{ | %[sdv(] | @\w+\.
    | ~?\.{0,2}/ | ~[/\\] | [A-Za-z]:[\\/] | [a-z][a-z0-9+.-]*:// | file: | env[.:] | vars\.
    | secrets\. | process\. | os\. | sys\. | import\. | self\. | this\. | config\. | args\.
    | req\. | ctx\. | !\w+$ )
    """
)
_CODE: Final = pattern(
    rb"""(?x) [A-Za-z_\]]\( | \$[{(] | \{\{ | \{[\w.]*\} | <\w+> | :: | -> | => | && | \|\|
    | ==(?=.) | != | \?\. | \w\[ | ^[!&*@-]+[A-Za-z_]*$"""
)
# Letters and digits in their order, and words that say so: what people type to show a form.
_FAKE: Final = pattern(
    rb"""(?ix) abc[-_]?123 | 123[-_]?abc | xyz[-_]?(?:789|123) | def456
    | (?:^|[^0-9])1234(?:5|$|[^0-9])
    | (?:^|[-_.])(?:test|fake|dummy|mock|demo|expired|invalid|valid|wrong|stale)(?:[-_.0-9]|$)
    | ^(?:secret|token|api[-_]?key|key|auth)[-_]?[0-9]{0,4}$
    """
)
_FULL_NAME: Final = pattern(rb"[*&!]?[A-Za-z_$][\w$]*(?:(?:\.|->|::|\?\.)[A-Za-z_$][\w$]*)+")
_CAMEL: Final = pattern(rb"_*[a-z]+[0-9]?(?:[A-Z][a-z]+[0-9]?|[A-Z]{2,4}(?=[A-Z]|$))+")
_HUMPS: Final = pattern(rb"(?:[A-Z]+[a-z]+){3}|[a-z][A-Z]+[a-z]+[A-Z]")
_YOURS: Final = pattern(rb"(?:^|[-_])your")
_NAME: Final = pattern(rb"[A-Za-z_$][A-Za-z_$]*[0-9]{0,2}(?:[.:/-][A-Za-z_$]+[0-9]{0,2})*[.:?!]*")
_WORD: Final = pattern(rb"[0-9]*|(?:[A-Za-z]?[a-z]*|[A-Z]*)[0-9]{0,4}")
_BETWEEN_WORDS: Final = pattern(rb"[-_./:@+=,]+")
_SMALL_LETTERS: Final = pattern(rb"[a-z]+")

# Which letters follow which in words and names: 98 of 100 pairs of real transcripts are among
# these, of random letters fewer than half.
_FOLLOWERS: Final = """
    abcdfgiklmnprstuvwxy baeijlorsuy cacehiklorstuy dabdegilorsuy eabcdefghilmnopqrstuvwxy
    faefilortuy gaeghilmnorsu haeiortuy iabcdefgklmnoprstvxz jeou kaeinpst labdefilopstuvy
    mabeimopsu nacdefgiklmnoprstuvy oabcdefgijklmnoprstuvw padehiloprstuy qu rabcdefgiklmnoprstuvwy
    sacefhiklmnopstuwy tacdefhilmoprstuwy uabcdegilmnprst vaeio waehinors xaceipt yeilnopst zaei
"""
_USUAL_PAIRS: Final = frozenset(row[0] + letter for row in _FOLLOWERS.split() for letter in row[1:])

_FEW_LETTERS: Final = 3  # `aaaa`, `x-x-x` and `****` have no more different ones
_SOME_LETTERS: Final = 6
_BITS: Final = 3.0  # per letter; names of ten letters have less, random ones more
_LETTERS_OF_A_WORD: Final = 4  # in the names of a program, on average at least
_LONG: Final = 16
_RUNS: Final = 3
_ALONE: Final = 0.3  # random letters have half of their small ones alone, names hardly any
_PARTS: Final = 2
_MANY_LETTERS: Final = 8
_UNUSUAL: Final = 0.27
_SECRET_LENGTH: Final = 8
_SOME_DIGITS: Final = 2


def entropy(value: bytes) -> float:
    """Return Shannon's entropy of the bytes, in bits per byte."""
    size = len(value)
    return -sum(n / size * log2(n / size) for n in Counter(value).values()) if size else 0.0


def is_plausible(value: bytes) -> bool:
    """Refuse what only shows the form of a secret, such as `ghp_xxxxxxxx`."""
    lowered = value.lower()
    varied = len(set(lowered)) >= _SOME_LETTERS
    return varied and b"xxxxx" not in lowered and _YOURS.search(lowered) is None


def is_random(value: bytes) -> bool:
    """Accept letters and digits in disorder, as no name or sentence has them."""
    fits = is_plausible(value) and entropy(value) >= _BITS
    return fits and _is_disordered(value) and not is_worded(value)


def is_placeholder(value: bytes) -> bool:
    """Tell whether a value only stands for a secret, or is masked already."""
    if len(set(value.lower())) <= _FEW_LETTERS:
        return True
    return bool(_MASKED.search(value) or _PLACEHOLDER.search(value))


def is_reference(value: bytes) -> bool:
    """Tell whether a value says where to find one: a variable, a path, a URL, a piece of code."""
    return bool(_REFERENCE.match(value) or _CODE.search(value))


def is_code(value: bytes) -> bool:
    """Tell whether a bare value is the name of something else: `pt.env.Pwd`, `checkboxHtml`."""
    if _CODE.search(value) or value.startswith((b"*", b"&", b"+", b"-", b"~")):
        return True
    if _CAMEL.fullmatch(value):
        capitals = len(value) - len(value.translate(None, _CAPITALS))
        return len(value) >= _LETTERS_OF_A_WORD * (capitals + 1)
    return not has_wild_case(value) and _FULL_NAME.fullmatch(value) is not None


def is_fake(value: bytes) -> bool:
    """Tell whether a value only shows the form of a secret: `abc123`, `test-token`."""
    return _FAKE.search(value) is not None


def is_mixed(value: bytes) -> bool:
    """Tell whether letters stand beside digits or signs, as in a password."""
    if has_wild_case(value):
        return True
    letters = value.translate(None, _NO_LETTERS)
    return 0 < len(letters) < len(value) and _NAME.fullmatch(value) is None


def is_worded(value: bytes) -> bool:
    """Tell whether a value is made of words: a name, a path, a kebab or snake of words."""
    if has_wild_case(value):
        return False
    if _NAME.fullmatch(value):
        return True
    parts = _BETWEEN_WORDS.split(value)
    return len(parts) > _PARTS and all(_WORD.fullmatch(part) for part in parts)


def is_gibberish(value: bytes) -> bool:
    """Tell random letters from words by the pairs in which letters follow each other."""
    letters = value.translate(None, _NOT_IN_WORDS).lower()
    if len(letters) < _MANY_LETTERS or len(set(letters)) < _SOME_LETTERS:
        return False
    text = letters.decode()
    unusual = sum(a + b not in _USUAL_PAIRS for a, b in pairwise(text))
    return unusual >= _UNUSUAL * (len(text) - 1)


def is_uneven(value: bytes) -> bool:
    """Tell letters whose capitals stand anywhere from names, where they begin words."""
    return bool(_HUMPS.search(value)) and not is_code(value) and is_gibberish(value)


def is_chosen(value: bytes) -> bool:
    """Tell a password that a person chose: words with digits, and capitals or signs."""
    if len(value) < _SECRET_LENGTH or b"/" in value or _CODE.search(value):
        return False
    digits, small, capitals = (
        len(value) - len(value.translate(None, kind)) for kind in (_DIGITS, _SMALL, _CAPITALS)
    )
    signs = len(value) - digits - small - capitals - value.count(b"_")
    return digits >= _SOME_DIGITS and small > 0 and (capitals > 0 or signs > 0)


def has_wild_case(value: bytes) -> bool:
    """Tell random letters from names: in `getUserName` no small letter stands alone."""
    if len(value) < _LONG:
        return False
    runs = _SMALL_LETTERS.findall(value)
    if len(runs) < _RUNS:
        return False
    return sum(len(run) == 1 for run in runs) >= _ALONE * len(runs) or is_gibberish(value)


_DIGITS: Final = b"0123456789"
_SMALL: Final = b"abcdefghijklmnopqrstuvwxyz"
_CAPITALS: Final = _SMALL.upper()
_NOT_IN_WORDS: Final = bytes(set(range(256)) - set(_SMALL + _CAPITALS))
_NO_LETTERS: Final = bytes(code for code in range(256) if code < ord("A"))


def has_three_kinds(value: bytes) -> bool:
    """Tell whether digits, small letters and capitals are all there."""
    return all(
        len(value.translate(None, kind)) < len(value) for kind in (_DIGITS, _SMALL, _CAPITALS)
    )


def _is_disordered(value: bytes) -> bool:
    """Tell whether digits come between letters, or capitals between small ones."""
    digits, small, capitals = (
        len(value) - len(value.translate(None, kind)) for kind in (_DIGITS, _SMALL, _CAPITALS)
    )
    if digits and (min(digits, capitals + small) > 1 or min(capitals, small) > 0):
        return True
    return has_wild_case(value)


def kinds_of(value: bytes) -> str:
    """Say which kinds of letters a value has."""
    rest = value.translate(None, _DIGITS + _SMALL + _CAPITALS)
    kinds = {"digits": _DIGITS, "small letters": _SMALL, "capitals": _CAPITALS}
    found = [name for name, kind in kinds.items() if len(value.translate(None, kind)) < len(value)]
    return " and ".join([*found, *(["signs"] if rest else [])]) or "nothing"
