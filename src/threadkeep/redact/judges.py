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
    | ^(?:some|my|the|new|old|test|fake|mock|this|any)[-_ ] | [-_](?:here|goes|value)$ | 12345678?9?0?$
    | ^(?:null|none|undefined|true|false|string|secret|token|password|required|optional)$
    """
)
_REFERENCE: Final = re.compile(
    rb"""(?x) ^(?: \$ [A-Za-z_({] | [$%] [({A-Za-z_] .* [)}%] $ | <\w | \{ | %[sdv(] | @\w+\.
    | ~?\.{0,2}/ | ~/ | [A-Za-z]:[\\/] | [a-z][a-z0-9+.-]*:// | file: | env[.:] | vars\. | secrets\.
    | process\. | os\. | sys\. | import\. | self\. | this\. | config\. | args\. | req\. | ctx\. | !\w )
    """
)
_CODE: Final = re.compile(rb"[(){}<>]|\[|::|->|=>|\$\{|&&|\|\||==|!=|\+=|\?\.|^[!&*@-]+[A-Za-z_]*$")
_NAME: Final = re.compile(rb"[A-Za-z_$][A-Za-z_$]*[0-9]{0,2}(?:[.:/-][A-Za-z_$]+[0-9]{0,2})*[.:?!]*")
_UUID: Final = re.compile(rb"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NUMBER: Final = re.compile(rb"[-+]?[\d_.,:/-]+[a-zA-Z%]{0,2}")
_WORDY: Final = re.compile(rb"[A-Za-z]{2,}|[^A-Za-z]+|[A-Za-z]")
_DATE: Final = re.compile(rb"\d{4}-\d\d-\d\d")
_HASH: Final = re.compile(rb"(?i)(?:sha\d+|md5|blake\d\w?)[-:]")
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
    digits = sum(48 <= code <= 57 for code in value)
    letters = sum(code >= 65 for code in value)
    return digits >= 2 and letters >= 2 and entropy(value) >= 3.0 and not _is_worded(value)


def header(match: Match, value: bytes) -> bool:
    """Judge what stands in an Authorization header."""
    return not _is_placeholder(value) and not _is_reference(value) and _is_mixed(value, 6)


def flag(match: Match, value: bytes) -> bool:
    """Judge the word that follows a flag such as --password."""
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


_STOCK_PASSWORDS: Final = frozenset(
    b"pass passwd password pwd secret token user postgres root admin test mysql guest pw key".split()
)

# Names whose value is a secret by itself, and names that only speak about one.
_STRONG_KEY: Final = re.compile(
    rb"""(?ix) (?: api | access | secret | private | priv | auth | encrypt\w* | encryption | decrypt\w*
    | signing | sign | signature | master | account | service | client | app | admin | license
    | licence | deploy | consumer | ssh | storage | shared | subscription | sas | jwt | hmac | aes
    | rsa | webhook | bot | root | db | database | server | user | security | ingest | write | read
    | management | host | function | signed | session | cookie | crypt\w* | hash | token | integration
    | developer | dev | prod | live | rest | x ) [-_. ]? $"""
)
_NOT_A_SECRET_BEFORE: Final = re.compile(
    rb"""(?ix) (?: public | publishable | pub | anon | primary | foreign | partition | sort | cache
    | idempotency | composite | unique | max | min | input | output | total | num | count | next | page
    | cursor | csrf | xsrf | prompt | completion | stop | eos | bos | pad | mask | special
    | bypass | by | compass | sur | over | tres | en | hot | mon | don | tur | whis | jo | cancellation
    | cancel | continuation | sync | resume | design | no | is | has | use | get | set | need | needs
    | first | first[-_ ]?and[-_ ]?last | all | test | any | each | one | two | low | high )[-_. ]?$"""
)
_NOT_A_SECRET_BEHIND: Final = re.compile(
    rb"""(?ix) ^(?: s?[-_.]? (?: count | limit | usage | used | budget | length | len | size | type
    | types | name | names | id | ids | path | file | files | filename | dir | url | uri | endpoint
    | host | field | fields | header | prefix | suffix | format | regex | pattern | patterns | label
    | hint | help | error | errors | status | state | expiry | expires?(?:[-_]?\w+)? | ttl | age
    | created(?:[-_]?at)? | updated(?:[-_]?at)? | version | policy | rule | rules | manager | provider
    | service | store | storage | source | ring | chain | map | word | words | board | press | down
    | up | code | frame | pair | strokes? | set | sets | class | method | mode | level | scope | scopes
    | required | enabled | disabled | valid | validation | validator | index | order | column | table
    | column | value | params? | args? | or | and | is | in | for | from | with | of | to | as
    | input | prompt | handler | callback | client | config | settings | options | schema | spec
    | test | tests | py | js | ts | go | rs | md | json | yaml | yml | toml | html | css | log | txt
    ) | (?:or|ors|ored|orize\w*|oris\w*|entic\w*|ing|ized?|izers?|ization|ed|able|age|engers?|ive|port|ports|word[-_]?less)
    | (?:board|words?|notes?|pad|stone|frames?|ring|less|ish|ism|istic|ariat|ary|ly)\b )"""
)


def assigned(match: Match, value: bytes) -> bool:
    """Judge what is assigned to a name such as `api_key`, `token` or `password`."""
    before = match.string[max(0, match.start() - 40) : match.start()]
    name = re.search(rb"[A-Za-z0-9_.-]*$", before)
    left = name[0] if name is not None else b""
    word, tail = match["word"].lower(), match["tail"]
    if not _names_a_secret(left, word, tail):
        return False
    if _is_placeholder(value) or _is_reference(value) or _CODE.search(value):
        return False
    return _fits(match, left, word, value)


def _names_a_secret(left: bytes, word: bytes, tail: bytes) -> bool:
    if _NOT_A_SECRET_BEHIND.search(tail) or _NOT_A_SECRET_BEFORE.search(left):
        return False
    if word == b"key":
        return bool(_STRONG_KEY.search(left)) or left.isupper()
    glued = left[-1:].islower() and word[:1].islower()
    return not (glued and word in {b"auth", b"pass", b"pwd"})


def _fits(match: Match, left: bytes, word: bytes, value: bytes) -> bool:
    """Ask more of a value the less its surroundings say."""
    quoted = match["quote"] is not None
    if not quoted and (match["close"] or match["sep"].strip() in {b",", b"==", b"::"}):
        return False  # a JSON number or name, a comparison: masked, it would break what it is in
    password = word.startswith((b"pass", b"pwd"))
    glued = match["sep"] == b"="
    variable = glued and (left + match["word"]).isupper()
    if _UUID.fullmatch(value):
        return password or word == b"secret" or (word == b"key" and left.lower().endswith((b"api", b"api_", b"api-")))
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
    if _is_worded(value):
        return False
    return _is_mixed(value, 6) if password or quoted or glued else random(match, value)


def _is_worded_alpha(value: bytes) -> bool:
    return any(word in value for word in (b"token", b"secret", b"key", b"pass", b"auth", b"cred"))


def _is_placeholder(value: bytes) -> bool:
    return bool(
        _MASKED.search(value) or _PLACEHOLDER.search(value) or len(set(value.lower())) <= 3
    )


def _is_reference(value: bytes) -> bool:
    return _REFERENCE.match(value) is not None


def _is_mixed(value: bytes, size: int) -> bool:
    """Tell whether letters stand beside digits or signs, as in a password."""
    if len(value) < size or _NAME.fullmatch(value):
        return False
    letters = any(code >= 65 for code in value)
    return letters and any(code < 65 for code in value)


def _is_worded(value: bytes) -> bool:
    """Tell whether a value is made of words: a name, a path, a kebab or snake of words."""
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
