"""The second look at a value: does it look like a secret, or like code, a word, a placeholder?

A rule with a shape of its own needs little of this. Names such as `token` or `password` are
everywhere in transcripts, so what is assigned to them is judged by name, quoting and letters.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from math import log2
from typing import Final

Match = re.Match[bytes]
Judge = Callable[[Match, bytes], bool]

_MASKED: Final = re.compile(rb"\[(?:REDACTED|PRIVATE)\]?")
_PLACEHOLDER: Final = re.compile(
    rb"""(?ix) your | example | placeholder | change[-_]?(?:me|it|this) | redacted | dummy | sample
    | insert | replace[-_]?(?:me|with) | xxxx | \*\*\* | \.\.\. | \xe2\x80\xa6 | todo | fixme
    | ^(?:some|my|the|new|old|test|fake|mock|this|any)[-_ ] | [-_](?:here|goes|value)$
    | ^(?:null|none|undefined|true|false|string|secret|token|password|required|optional)$
    """
)
_REFERENCE: Final = re.compile(
    rb"""(?x) ^(?: \$ [A-Za-z_({] | [$%] [({A-Za-z_] .* [)}%] $ | <\w | \{ | %[sdv(] | @\w+\.
    | ~?\.{0,2}/ | ~/ | [A-Za-z]:[\\/] | [a-z][a-z0-9+.-]*:// | file: | env[.:] | vars\. | secrets\.
    | process\. | os\. | sys\. | import\. | self\. | this\. | config\. | args\. | req\. | ctx\. | !\w )
    """
)
_CODE: Final = re.compile(
    rb"[A-Za-z_\]]\(|\$[{(]|\{\{|\{[\w.]*\}|<\w+>|::|->|=>|&&|\|\||==(?=.)|!=|\?\.|\w\[|^[!&*@-]+[A-Za-z_]*$"
)
_NAME: Final = re.compile(
    rb"[A-Za-z_$][A-Za-z_$]*[0-9]{0,2}(?:[.:/-][A-Za-z_$]+[0-9]{0,2})*[.:?!]*"
)
_UUID: Final = re.compile(rb"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NUMBER: Final = re.compile(rb"[-+]?[\d_.,:/-]+[a-zA-Z%]{0,2}")
_WORDY: Final = re.compile(rb"[A-Za-z]{2,}|[^A-Za-z]+|[A-Za-z]")
_SMALL: Final = re.compile(rb"(?<![a-z])[a-z]+(?![a-z])")
_HEX: Final = re.compile(rb"[0-9a-f]+")
_DIGIT: Final = re.compile(rb"[0-9]")
_DATE: Final = re.compile(rb"\d{4}-\d\d-\d\d")
_HASH: Final = re.compile(rb"(?i)(?:sha\d+|md5|blake\d\w?)[-:]|v?\d+\.\d+\.\d+")
_PROSE_VALUE: Final = re.compile(rb"[a-z]+(?:[-_./][a-z0-9]+)*|[A-Z][a-z]+|[A-Z]+(?:_[A-Z0-9]+)*")


def entropy(value: bytes) -> float:
    """Give Shannon's entropy of the bytes, in bits per byte."""
    size = len(value)
    return -sum(n / size * log2(n / size) for n in Counter(value).values()) if size else 0.0


def plausible(match: Match, value: bytes) -> bool:
    """Refuse what only shows the form of a secret: `ghp_xxxxxxxx`, or one masked already."""
    body = value.lower()
    return len(set(body)) >= 6 and b"xxxxx" not in body and b"your" not in body


def random(match: Match, value: bytes) -> bool:
    """Accept letters and digits in disorder, as no name or sentence has them."""
    if not plausible(match, value):
        return False
    return entropy(value) >= 3.0 and _is_disordered(value) and not _is_worded(value)


def header(match: Match, value: bytes) -> bool:
    """Judge what stands in an Authorization header."""
    return not _is_placeholder(value) and not _is_reference(value) and _is_mixed(value, 6)


def flag(match: Match, value: bytes) -> bool:
    """Judge the word that follows a flag such as --password."""
    value = value.rstrip(b".,;:!?)")
    if value.startswith(b"-") or _is_placeholder(value) or _is_reference(value):
        return False
    return _is_mixed(value, 4) and not _CODE.search(value)


def url(match: Match, value: bytes) -> bool:
    """Judge a password in a URL: not the usual placeholders, not a variable, not a port."""
    if _is_reference(value) or _is_placeholder(value) or value.isdigit() or b"$" in value[:1]:
        return False
    plain = value.lower()
    return plain not in _STOCK_PASSWORDS and not _CODE.search(value) and len(value) >= 4


def key_body(match: Match, value: bytes) -> bool:
    """Accept a private key with any body: at least a line of base64."""
    return re.search(rb"[A-Za-z0-9+/=]{16}", match["body"]) is not None


_NAME_LETTERS: Final = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
_OPENING: Final = frozenset([b"(", b"[", b"{"])
_STOCK_PASSWORDS: Final = frozenset(
    b"pass passwd password pwd secret token user postgres root admin test mysql guest pw key".split()
)

# The word before `key` that makes it a secret; of the others `key` is anything but that.
_SECRET_KEYS: Final = frozenset(
    b"""api access secret private priv auth authentication encrypt encryption decrypt decryption signing
    sign signature master account service client app application admin license licence deploy consumer
    ssh storage shared subscription sas jwt hmac aes rsa webhook bot root db database server user
    security ingest write read management host function signed session cookie crypto token
    integration developer dev prod live rest x shared""".split()
)
# Words before `key`, `token`, `pass` and the like that make them something else.
_HARMLESS_BEFORE: Final = frozenset(
    b"""public publishable pub anon primary foreign partition sort cache idempotency composite unique
    max min input output total num count next page cursor csrf xsrf prompt completion stop eos bos pad
    mask special bypass by compass cancellation cancel continuation sync resume design no is has use
    get set need needs first last all any each one two low high mon tur don hot whis tres sur over en
    reasoning cached thinking used remaining per of estimated context available tests test""".split()
)
_LAST_WORD: Final = re.compile(rb"([A-Z]?[a-z0-9]+|[A-Z0-9]+)[-_. ]?$")
# What follows `key`, `token` and the like when the name only speaks about one.
_HARMLESS_BEHIND: Final = frozenset(
    b"""count counts limit limits usage used budget length len size type types name names id ids path
    paths file files filename dir url uri endpoint host field fields header headers prefix suffix format
    regex pattern patterns label hint help error errors status state expiry expires expire expiration ttl
    age created updated at version policy rule rules manager provider service store storage source ring
    chain map word words board press down up code frame frames pair pairs strokes set sets class method
    mode level scope scopes required enabled disabled valid validation validator index order column table
    params param args arg or and is in for from with of to as handler callback client config settings
    options schema spec test tests py js ts go rs md json yaml yml toml html css log txt exists missing
    author authors ors ored ority orities orization orize orized orizer enticate entication enticated
    enticator ed ing er ers ized izer ization age ages enger engers ive port ports through throughs
    less ly ary ariat s rotation strength reset changed prompt cost costs per second total rate
    generation generator bucket vault env var variable variables ref reference""".split()
)
_WORDS: Final = re.compile(rb"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def assigned(match: Match, value: bytes) -> bool:
    """Judge what is assigned to a name such as `api_key`, `token` or `password`."""
    before = match.string[max(0, match.start() - 40) : match.start()]
    left = before[len(before.rstrip(_NAME_LETTERS)) :]
    word, tail = match["word"].lower(), match["tail"]
    in_query = word == b"key" and before[-1:] in {b"?", b"&"} and random(match, value)
    if not in_query and not _names_a_secret(left, word, tail):
        return False
    if _is_placeholder(value) or _is_reference(value) or _CODE.search(value):
        return False
    return _fits(match, left, word, value)


def _names_a_secret(left: bytes, word: bytes, tail: bytes) -> bool:
    found = _LAST_WORD.search(left)
    before = found[1].lower() if found else b""
    if before in _HARMLESS_BEFORE or _speaks_about(tail):
        return False
    if word == b"key":
        return left.isupper() or any(before.endswith(kind) for kind in _SECRET_KEYS)
    glued = left[-1:].islower() and word in {b"auth", b"pass", b"pwd"}
    return not glued


def _speaks_about(tail: bytes) -> bool:
    """Tell whether the end of a name turns it to something else: `_count`, `Limit`, `board`."""
    return any(word.lower() in _HARMLESS_BEHIND for word in _WORDS.findall(tail.lstrip(b"s")[:32]))


def _fits(match: Match, left: bytes, word: bytes, value: bytes) -> bool:
    """Ask more of a value the less its surroundings say."""
    quoted = match["quote"] is not None
    if not quoted and (match["close"] or match["sep"].strip() in {b",", b"==", b"::"}):
        return False  # a JSON number or name, a comparison: masked, it would break what it is in
    if not quoted and match.string[match.end() : match.end() + 1] in _OPENING:
        return False  # a call or an index
    if word in {b"pass", b"pwd"} and not left and match["sep"].strip() != b"=" and not quoted:
        return False  # the word of a test runner, or of the shell
    password = word.startswith((b"pass", b"pwd"))
    glued = match["sep"] == b"="
    variable = glued and (left + match["word"]).isupper()
    if _UUID.fullmatch(value):
        return (
            password
            or word == b"secret"
            or (word == b"key" and left.lower().endswith((b"api", b"api_", b"api-")))
        )
    if value.isdigit():
        return password and (quoted or glued) and len(value) >= 6
    if _NUMBER.fullmatch(value) or _DATE.match(value) or _HASH.match(value):
        return False
    if len(value) < (6 if password else 8):
        return False
    if variable and not _PROSE_VALUE.fullmatch(value):
        return _is_mixed(value, 6) or len(value) >= 8
    if variable and value.isalpha() and value.islower():
        return len(value) >= 8 and not _is_worded_alpha(value)
    if _is_worded(value) and not (password and quoted and _DIGIT.search(value)):
        return False
    if match["sep"].strip() in {b"", b"is", b"is:"}:
        return len(value) >= 16 and not _HEX.fullmatch(value) and random(match, value)
    return _is_mixed(value, 6) if password or quoted or glued else random(match, value)


def _is_worded_alpha(value: bytes) -> bool:
    return any(word in value for word in (b"token", b"secret", b"key", b"pass", b"auth", b"cred"))


def _is_placeholder(value: bytes) -> bool:
    return bool(_MASKED.search(value) or _PLACEHOLDER.search(value) or len(set(value.lower())) <= 3)


def _is_reference(value: bytes) -> bool:
    return _REFERENCE.match(value) is not None


def _is_disordered(value: bytes) -> bool:
    """Tell whether digits, capitals and small letters come in no order."""
    digits = sum(48 <= code <= 57 for code in value)
    capitals = sum(65 <= code <= 90 for code in value)
    small = sum(97 <= code <= 122 for code in value)
    if digits and (min(digits, capitals + small) >= 2 or min(capitals, small) >= 1):
        return True
    return _has_wild_case(value)


def _has_wild_case(value: bytes) -> bool:
    """Tell random letters from names: in `getUserName` no small letter stands alone."""
    runs = _SMALL.findall(value)
    alone = sum(len(run) == 1 for run in runs)
    return len(value) >= 16 and len(runs) >= 3 and alone / len(runs) >= 0.3


def _is_mixed(value: bytes, size: int) -> bool:
    """Tell whether letters stand beside digits or signs, as in a password."""
    if _has_wild_case(value):
        return True
    if len(value) < size or _NAME.fullmatch(value):
        return False
    letters = any(code >= 65 for code in value)
    return letters and any(code < 65 for code in value)


def _is_worded(value: bytes) -> bool:
    """Tell whether a value is made of words: a name, a path, a kebab or snake of words."""
    if _has_wild_case(value):
        return False
    if _NAME.fullmatch(value):
        return True
    parts = re.split(rb"[-_./:@+=]+", value)
    return len(parts) > 2 and all(_is_word(part) for part in parts)


def _is_word(part: bytes) -> bool:
    return part.isdigit() or re.fullmatch(rb"(?:[A-Za-z]?[a-z]*|[A-Z]*)\d{0,4}", part) is not None


JUDGES: Final[Mapping[str, Judge]] = {
    "": plausible,
    "random": random,
    "header": header,
    "flag": flag,
    "url": url,
    "key_body": key_body,
    "assigned": assigned,
}
