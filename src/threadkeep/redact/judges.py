"""The second look at a finding, for secrets that have no shape of their own.

Names such as `token` or `password` are everywhere in transcripts, so what is assigned to them is
judged by the whole name, the way it is written and the value.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from threadkeep.redact.looks import (
    is_mixed,
    is_placeholder,
    is_plausible,
    is_random,
    is_reference,
    is_worded,
)

Match = re.Match[bytes]
Judge = Callable[[Match, bytes], bool]

_STOCK_PASSWORDS: Final = frozenset(
    b"pass passwd password pwd secret token user postgres root admin test mysql guest".split()
)
# The word before `key` that makes it a secret; of the others `key` is anything but that.
_SECRET_KEYS: Final = tuple(
    b"""
    api access secret private priv auth authentication encrypt encryption decrypt decryption
    signing sign signature master account service client app application admin license licence
    deploy consumer ssh storage shared subscription sas jwt hmac aes rsa webhook bot root db
    database server user security ingest write read management host function signed session
    cookie crypto token integration developer dev prod live rest x
    """.split()
)
# Words before `key`, `token`, `pass` and the like that make them something else.
_HARMLESS_BEFORE: Final = frozenset(
    b"""
    public publishable pub anon primary foreign partition sort cache idempotency composite unique
    max min input output total num count next page cursor csrf xsrf prompt completion stop eos bos
    pad mask special bypass by compass cancellation cancel continuation sync resume design no is
    has use get set need needs first last all any each one two low high mon tur don hot whis tres
    sur over en reasoning cached thinking used remaining per of estimated context available tests
    test
    """.split()
)
# Words behind them, when the name only speaks about a secret, or is another word altogether.
_HARMLESS_BEHIND: Final = frozenset(
    b"""
    count counts limit limits usage used budget length len size type types name names id ids path
    paths file files filename dir url uri endpoint host field fields header headers prefix suffix
    format regex pattern patterns label hint help error errors status state expiry expires expire
    expiration ttl age created updated at version policy rule rules manager provider service store
    storage source ring chain map word words board press down up code frame frames pair pairs
    strokes set sets class method mode level scope scopes required enabled disabled valid
    validation validator index order column table params param args arg or and is in for from with
    of to as handler callback client config settings options schema spec test tests py js ts go rs
    md json yaml yml toml html css log txt exists missing ors ored ority orities orization orize
    orized orizer enticate entication enticated enticator ed ing er ers ized izer ization ages
    enger engers ive port ports through throughs less ly ary ariat s rotation strength reset
    changed prompt cost costs per second total rate generation generator bucket vault env var
    variable variables ref reference
    """.split()
)
_NAME_LETTERS: Final = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
_NAME_LENGTH: Final = 40
_LAST_WORD: Final = re.compile(rb"([A-Z]?[a-z0-9]+|[A-Z0-9]+)[-_. ]?$")
_WORDS: Final = re.compile(rb"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

_KEY_BODY: Final = re.compile(rb"[A-Za-z0-9+/=]{16}")
_UUID: Final = re.compile(rb"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_HEX: Final = re.compile(rb"[0-9a-f]+")
_DIGIT: Final = re.compile(rb"[0-9]")
_MEASURED: Final = re.compile(  # a number, a date, a version, a checksum with its name
    rb"""(?ix) [-+]?[\d_.,:/-]+[a-z%]{0,2}$ | \d{4}-\d\d-\d\d | v?\d+\.\d+\.\d+
    | (?:sha\d+|md5|blake\d\w?)[-:]"""
)
_PLAIN_WORD: Final = re.compile(rb"[a-z]+(?:[-_./][a-z0-9]+)*|[A-Z][a-z]+|[A-Z]+(?:_[A-Z0-9]+)*")
_SECRET_WORD: Final = re.compile(rb"token|secret|key|pass|auth|cred")
_OPENING: Final = frozenset([b"(", b"[", b"{"])

_SHORTEST: Final = 4
_SHORT_PASSWORD: Final = 6
_SHORT_SECRET: Final = 8
_LONG_SECRET: Final = 16


def header(value: bytes) -> bool:
    """Judge what stands in an Authorization header."""
    return not is_placeholder(value) and not is_reference(value) and is_mixed(value)


def flag(value: bytes) -> bool:
    """Judge the word that follows a flag such as --password."""
    value = value.rstrip(b".,;:!?)")
    return len(value) >= _SHORTEST and not value.startswith(b"-") and header(value)


def url(value: bytes) -> bool:
    """Judge a password in a URL: not one of the usual placeholders, not a variable or a port."""
    if is_placeholder(value) or is_reference(value) or value.isdigit():
        return False
    return len(value) >= _SHORTEST and value.lower() not in _STOCK_PASSWORDS


def assigned(match: Match, value: bytes) -> bool:
    """Judge what is assigned to a name such as `api_key`, `token` or `password`."""
    before = match.string[max(0, match.start() - _NAME_LENGTH) : match.start()]
    left = before[len(before.rstrip(_NAME_LETTERS)) :]
    word = match["word"].lower()
    in_query = word == b"key" and before[-1:] in {b"?", b"&"} and is_random(value)
    if not in_query and not _names_a_secret(left, word, match["tail"]):
        return False
    if value.isdigit():
        return _is_pin(match, word, value)
    if _is_spoken(match, left, word) or is_reference(value) or _MEASURED.match(value):
        return False
    return _fits(match, left, word, value) and not is_placeholder(value)


def _names_a_secret(left: bytes, word: bytes, tail: bytes) -> bool:
    if _speaks_about(tail):
        return False
    found = _LAST_WORD.search(left)
    before = found[1].lower() if found else b""
    if before in _HARMLESS_BEFORE:
        return False
    if word == b"key":
        return left.isupper() or before.endswith(_SECRET_KEYS)
    return not (left[-1:].islower() and word in {b"auth", b"pass", b"pwd"})


def _speaks_about(tail: bytes) -> bool:
    """Tell whether the end of a name turns it to something else: `_count`, `Limit`, `board`."""
    return any(word.lower() in _HARMLESS_BEHIND for word in _WORDS.findall(tail.lstrip(b"s")))


def _is_pin(match: Match, word: bytes, value: bytes) -> bool:
    """Accept digits alone for a password, where they cannot be a number of JSON."""
    written = match["quote"] is not None or match["sep"] == b"="
    return written and _is_password(word) and len(value) >= _SHORT_PASSWORD


def _is_spoken(match: Match, left: bytes, word: bytes) -> bool:
    """Tell whether nothing is assigned: a comparison, a call, a JSON number, a test that passed."""
    if match["quote"] is not None:
        return False
    sign = match["sep"].strip()
    if match["close"] or sign in {b",", b"==", b"::"}:
        return True
    if match.string[match.end() : match.end() + 1] in _OPENING:
        return True
    return word in {b"pass", b"pwd"} and not left and sign != b"="


def _fits(match: Match, left: bytes, word: bytes, value: bytes) -> bool:
    """Ask more of a value the less its surroundings say."""
    password, quoted = _is_password(word), match["quote"] is not None
    if _UUID.fullmatch(value):  # most name a thing; few services hand them out as keys
        return word != b"token" and (word != b"key" or b"api" in left.lower()[-4:])
    if len(value) < (_SHORT_PASSWORD if password else _SHORT_SECRET):
        return False
    if match["sep"] == b"=" and (left + match["word"]).isupper() and _fits_variable(value):
        return True
    if is_worded(value) and not (password and quoted and _DIGIT.search(value)):
        return False
    if match["sep"].strip() in {b"", b"is", b"is:"}:
        return len(value) >= _LONG_SECRET and not _HEX.fullmatch(value) and is_random(value)
    return is_mixed(value) if password or quoted or match["sep"] == b"=" else is_random(value)


def _fits_variable(value: bytes) -> bool:
    """Judge the value of an environment variable, which may be letters alone."""
    if _PLAIN_WORD.fullmatch(value) is None:
        return is_mixed(value) or len(value) >= _SHORT_SECRET
    plain = value.isalpha() and value.islower() and len(value) >= _SHORT_SECRET
    return plain and _SECRET_WORD.search(value) is None


def _is_password(word: bytes) -> bool:
    return word.startswith((b"pass", b"pwd"))


JUDGES: Final[Mapping[str, Judge]] = {
    "": lambda _match, value: is_plausible(value),
    "random": lambda _match, value: is_random(value),
    "header": lambda _match, value: header(value),
    "flag": lambda _match, value: flag(value),
    "url": lambda _match, value: url(value),
    "key_body": lambda match, _value: _KEY_BODY.search(match["body"]) is not None,
    "assigned": assigned,
}
