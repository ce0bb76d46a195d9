"""The second look at a finding, for secrets that have no shape of their own.

Names such as `token` or `password` are everywhere in transcripts, so what is assigned to them is
judged by the whole name, the way it is written and the value.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from threadkeep.redact.looks import (
    has_three_kinds,
    is_chosen,
    is_gibberish,
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
_ESCAPED_BREAK: Final = re.compile(rb"^(?:\\[nrt]|.)", re.DOTALL)
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
_HASH: Final = re.compile(rb"[0-9a-f]{32,}")
_BASE64: Final = re.compile(rb"[A-Za-z0-9+/_-]{16,}={0,2}")
_ADDRESS: Final = re.compile(
    rb"^[\w.+-]+@[\w-]+\.[a-z]|^www\.|\.(?:com|org|net|io|dev|py|js|ts|md|json)\b"
)
_MORE: Final = frozenset([b"+", b"/", b"="])  # the middle of something in base64
# What transcripts, and the services in them, put before ids that open nothing.
_ID_PREFIXES: Final = frozenset(
    b"""
    toolu srvtoolu msg req call ses sess prt resp rs fc ws ctc item run thread asst file evt
    chatcmpl cmpl gen step vs batch user org proj cus pi sub price prod in ch pm acct cs si
    sha1 sha256 sha384 sha512 md5 h1 uuid id commit build chunk index main vendor vendors hash etag
    image img cache snapshot layer blob job task agent node trace span tx event mcp container
    cse pvt pvti pvtf pvtssf pr prr prrc ic dic deployment dpl prj
    team inv prompt prompts completion conv conversation cas obj ref page doc
    """.split()
)
# What services put before tokens whose body is hex, which without it would be a hash.
_TOKEN_PREFIXES: Final = frozenset(
    b"key token secret pat api sk live prod auth pw apikey access priv".split()
)
# A word, a date or a number, as no random letters have them.
_ORDERED: Final = re.compile(rb"[a-z]{6}|[A-Z]{7}|[0-9]{5}|[0-9]{4}-[0-9]{2}|[-_].*[-_].*[-_]")
_WORDS_AND_DIGITS: Final = re.compile(rb"[a-z]{5,}[0-9]{1,6}")
_OPENING: Final = frozenset([b"(", b"[", b"{"])

_SHORTEST: Final = 4
_SOME_DIGITS: Final = 3
_SHORT_PASSWORD: Final = 6
_SHORT_SECRET: Final = 8
_LONG_SECRET: Final = 16


def header(value: bytes) -> bool:
    """Judge what stands in an Authorization header."""
    return not is_placeholder(value) and not is_reference(value) and is_mixed(value)


def flag(value: bytes) -> bool:
    """Judge the word that follows a flag such as --password."""
    value = value.rstrip(b".,;:!?)")
    if len(value) < _SHORTEST or value.startswith(b"-"):
        return False
    if is_placeholder(value) or is_reference(value):
        return False
    return is_mixed(value) or is_gibberish(value) or is_chosen(value) or _is_typed(value)


def url(value: bytes) -> bool:
    """Judge a password in a URL: not one of the usual placeholders, not a variable or a port."""
    if is_placeholder(value) or is_reference(value) or value.isdigit():
        return False
    return len(value) >= _SHORTEST and value.lower() not in _STOCK_PASSWORDS


def spoken(match: Match, value: bytes) -> bool:
    """Judge what a sentence or a directive names as a password, a key or a token."""
    value = value.rstrip(b".,;:!?)*")
    if is_placeholder(value) or is_reference(value) or _MEASURED.match(value):
        return False
    if _UUID.fullmatch(value) or _ADDRESS.search(value):
        return False
    if match["weak"] is not None:  # of keys and tokens more is said than of passwords
        plain = value.isalnum() or (_BASE64.fullmatch(value) and has_three_kinds(value))
        disordered = is_gibberish(value) or _HASH.fullmatch(value) is not None
        return bool(plain) and disordered and len(value) >= _LONG_SECRET and is_random(value)
    drawn = is_random(value) and b"_" not in value  # `standard_b64encode` is a name
    return len(value) >= _SHORT_PASSWORD and (drawn or is_gibberish(value) or is_chosen(value))


def prefixed(match: Match, value: bytes) -> bool:
    """Judge a token that a prefix begins: its body is random, and it is no id of a transcript."""
    if (
        match["prefix"].lower() in _ID_PREFIXES
        or match.string[match.end() : match.end() + 1] in _MORE
    ):
        return False
    body = match["body"]
    if not is_random(body) or is_placeholder(value):
        return False
    if has_three_kinds(body):
        scattered = len(_DIGIT.findall(body)) >= _SOME_DIGITS and not _ORDERED.search(body)
        return scattered or is_gibberish(body)
    last = re.split(rb"[_-]", match["prefix"].lower())[-1]
    return last in _TOKEN_PREFIXES


def assigned(match: Match, value: bytes) -> bool:
    """Judge what is assigned to a name such as `api_key`, `token` or `password`."""
    before = b" " + match.string[max(0, match.start() - _NAME_LENGTH) : match.start()]
    left = _ESCAPED_BREAK.sub(b"", before[len(before.rstrip(_NAME_LETTERS)) - 1 :], count=1)
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
    if _UUID.fullmatch(value):
        return _is_uuid_key(left, word)
    if len(value) < (_SHORT_PASSWORD if password else _SHORT_SECRET):
        return False
    spaced = match["sep"].strip() in {b"", b"is", b"is:", b"("}
    variable = match["sep"] == b"=" and (left + match["word"]).isupper()
    if (variable and _fits_variable(value)) or (
        not spaced and (_is_typed(value) or _is_disordered(value, chosen=password))
    ):
        return True
    if is_worded(value) and not (password and quoted and _DIGIT.search(value)):
        return False
    if spaced:
        named = password or (left.isupper() and b"_" in left)
        random = is_random(value) and (named or not _HEX.fullmatch(value))
        return len(value) >= _LONG_SECRET and random
    return is_mixed(value) if password or quoted or match["sep"] == b"=" else is_random(value)


def _is_typed(value: bytes) -> bool:
    """Accept words that end with digits, as people choose passwords and programs no names."""
    return len(value) >= _SHORT_SECRET and _WORDS_AND_DIGITS.fullmatch(value) is not None


def _is_uuid_key(left: bytes, word: bytes) -> bool:
    """Judge the name of a UUID: most name a thing; few services hand them out as keys."""
    if word == b"token":
        return left.rsplit(b".")[-1].isupper()
    return word != b"key" or b"api" in left.lower()[-4:]


def _is_disordered(value: bytes, *, chosen: bool) -> bool:
    """Accept letters that make no words, and of a password also words with digits and signs."""
    if _SECRET_WORD.search(value.lower()):
        return False
    return is_gibberish(value) or (chosen and is_chosen(value))


def _fits_variable(value: bytes) -> bool:
    """Judge the value of an environment variable, which may be letters alone."""
    if _PLAIN_WORD.fullmatch(value) is None:
        return is_mixed(value) or len(value) >= _SHORT_SECRET
    plain = value.isalpha() and value.islower() and len(value) >= _SHORT_SECRET
    return plain and _SECRET_WORD.search(value) is None


def _is_password(word: bytes) -> bool:
    return word.startswith((b"pass", b"pw"))


JUDGES: Final[Mapping[str, Judge]] = {
    "": lambda _match, value: is_plausible(value),
    "random": lambda _match, value: is_random(value),
    "header": lambda _match, value: header(value),
    "flag": lambda _match, value: flag(value),
    "url": lambda _match, value: url(value),
    "key_body": lambda match, _value: _KEY_BODY.search(match["body"]) is not None,
    "assigned": assigned,
    "spoken": spoken,
    "prefixed": prefixed,
}
