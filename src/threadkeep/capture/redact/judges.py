"""The second look at a finding, for secrets that have no shape of their own.

Names such as `token` or `password` are everywhere in transcripts, so what is assigned to them is
judged by the whole name (`names.py`), the way it is written and the value (`looks.py`).
"""

import re
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from threadkeep.capture.redact.values import (
    has_three_kinds,
    has_wild_case,
    is_chosen,
    is_code,
    is_fake,
    is_gibberish,
    is_mixed,
    is_placeholder,
    is_plausible,
    is_random,
    is_reference,
    is_uneven,
    is_worded,
)

# ------------------------------------------------------------------------------
# The name that a value is assigned to: whether it says secret, and what else it says.

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
# What may stand before a word without a sign or a capital between: `authtoken`, `dbpassword`.
_GLUED: Final = tuple(
    b"""
    api auth access secret client user db database my app admin root session refresh id bearer
    login mail smtp imap ftp ssh sql pg postgres mysql redis mongo aws gcp azure github gitlab
    slack service bot web net sys super private public master encryption license deploy basic
    vnc rdp wifi wlan ldap bind key store git npm hub x
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
    test random has can
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
    variable variables ref reference sha md hash hashes hashed digest checksum sum fingerprint
    content contents element node node html text icon ible ibility or ory
    """.split()
)
_LETTERS: Final = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
_LENGTH: Final = 40
_ESCAPED_BREAK: Final = re.compile(rb"^(?:\\[nrt]|.)", re.DOTALL)
_LAST_WORD: Final = re.compile(rb"([A-Z]?[a-z0-9]+|[A-Z0-9]+)[-_. ]?$")
_WORDS: Final = re.compile(rb"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_TAIL: Final = re.compile(rb"s?(?:$|[0-9_.-]|(?<=[a-z])[A-Z][a-z])|[A-Z][a-z]|[a-z]+$")
_SHORT_PASSWORD: Final = 6
_SHORT_SECRET: Final = 8
_QUOTES: Final = frozenset([b'"', b"'", b"`"])


class Name(NamedTuple):
    """The name of an assignment, around the word that made a rule look at it."""

    left: bytes
    word: bytes
    tail: bytes
    before: bytes  # the letter before the whole name
    written: bytes

    @property
    def is_password(self) -> bool:
        """Tell whether it ends with a password, of which people choose the value."""
        return self.word.startswith((b"pass", b"pw", b"psk"))

    @property
    def shortest(self) -> int:
        """How many letters its value has at least."""
        return _SHORT_PASSWORD if self.is_password else _SHORT_SECRET

    @property
    def is_upper(self) -> bool:
        """Tell whether it is a variable in capitals."""
        return self.written.isupper()

    @property
    def is_vague(self) -> bool:
        """Tell whether it says little by itself, as `auth` and `seed` do."""
        return not self.left and self.word in {b"auth", b"seed", b"creds"}

    @property
    def is_compound(self) -> bool:
        """Tell whether it is made of several words: `aws_secret_key`."""
        return b"_" in self.written or b"-" in self.written

    @property
    def is_literal(self) -> bool:
        """Tell whether it is a text of its own, in quotes."""
        return self.before in _QUOTES or self.before in {b"#", b"."}

    @property
    def is_in_query(self) -> bool:
        """Tell whether it is the key in the query of a URL."""
        return self.word == b"key" and not self.left and self.before in {b"?", b"&"}

    @property
    def may_be_folder(self) -> bool:
        """Tell whether it may mean the working directory."""
        return self.word == b"pwd"

    @property
    def says_secret(self) -> bool:
        """Tell whether the whole name names a secret, and not something about one."""
        if any(word.lower() in _HARMLESS_BEHIND for word in _WORDS.findall(self.tail.lstrip(b"s"))):
            return False
        if _TAIL.match(self.tail) is None or not self._is_apart():
            return False
        found = _LAST_WORD.search(self.left)
        before = found[1].lower() if found else b""
        if before in _HARMLESS_BEFORE:
            return False
        if self.word == b"key":
            return self.left.isupper() or before.endswith(_SECRET_KEYS)
        return not (self.left[-1:].islower() and self.word in {b"auth", b"pass", b"pwd", b"pw"})

    def _is_apart(self) -> bool:
        """Tell whether the word is one of its own, and no part of random letters or another."""
        last, first = self.left[-1:], self.written[len(self.left) : len(self.left) + 1]
        if not last.isalnum() or (last.islower() and first.isupper()):
            return True
        if last.isdigit():
            return len(self.left) < _LENGTH // 4
        return self.left.lower().endswith((*_GLUED, *_SECRET_KEYS))


def name_of(match: re.Match[bytes]) -> Name:
    """Return the name around the word of a match."""
    before = b" " + match.string[max(0, match.start() - _LENGTH) : match.start()]
    whole = before[len(before.rstrip(_LETTERS)) - 1 :]
    left = _ESCAPED_BREAK.sub(b"", whole, count=1)
    return Name(left, match["word"].lower(), match["tail"], whole[:1], left + match["word"])


Match = re.Match[bytes]
Judge = Callable[[Match, bytes], bool]

_STOCK_PASSWORDS: Final = frozenset(
    b"pass passwd password pwd secret token user postgres root admin test mysql guest".split()
)
_KEY_BODY: Final = re.compile(rb"[A-Za-z0-9+/=]{16}")
_UUID: Final = re.compile(rb"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_JSON: Final = re.compile(rb'\{"[a-z0-9_#]')
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
    toolu tooluse srvtoolu msg req call ses sess prt resp rs fc ws ctc item run thread asst file
    evt chatcmpl cmpl gen step vs batch user org proj cus pi sub price prod in ch pm acct cs si
    sha1 sha256 sha384 sha512 md5 h1 uuid id commit build chunk index main vendor vendors hash etag
    image img cache snapshot layer blob job task agent node trace span tx event mcp container
    cse pvt pvti pvtf pvtssf pr prr prrc ic dic deployment dpl prj env
    team inv prompt prompts completion conv conversation cas obj ref page doc
    """.split()
)
# What services put before tokens.
_TOKEN_PREFIXES: Final = frozenset(
    b"key token secret pat api sk live prod auth pw apikey access priv rk bot tkn".split()
)
# Words shortly before a value that say what it is.
_SPEAKING: Final = re.compile(rb"(?i)token|secret|\bkey|[-_]key|pass|auth|cred|bearer|licen[cs]e")
_BEFORE: Final = 40
# A word, a date or a number, as no random letters have them.
_ORDERED: Final = re.compile(rb"[a-z]{6}|[A-Z]{7}|[0-9]{5}|[0-9]{4}-[0-9]{2}|[-_].*[-_].*[-_]")
_WORDS_AND_DIGITS: Final = re.compile(rb"[a-z]{5,}[0-9]{1,6}")
_OPENING: Final = frozenset([b"(", b"[", b"{"])
_IDENTIFIER: Final = re.compile(rb"[A-Za-z_$][A-Za-z_$]*[0-9]{0,2}")
_OF_A_CLIENT: Final = re.compile(rb"(?i)client|app|\bid|[-_.]id|key|token|secret")
_ENDED_LINE: Final = re.compile(rb"(?:[ \t,;]{0,4}(?:[\r\n]|\\+[nr]|\Z|#)|[ ;])")
_PREFIX: Final = re.compile(rb"^(?:[A-Za-z0-9]{1,12}[-_.]){1,3}(?=[A-Za-z0-9+/=_.-]{10})")

_SHORTEST: Final = 4
_SOME_DIGITS: Final = 3
_LONG_SECRET: Final = 16
_MANY_LETTERS: Final = 12


# ---------------------------------------------------------------------- shapes


def drawn(value: bytes) -> bool:
    """Judge what follows a known prefix: drawn letters, and not a name made of words."""
    if not is_plausible(value):
        return False
    body = _PREFIX.sub(b"", value)
    return not is_worded(body) or is_gibberish(body) or not is_worded(value)


def cased(value: bytes) -> bool:
    """Judge letters that a hash could be as well: a hash has no capitals beside small ones."""
    return has_three_kinds(value) and is_random(value)


def aws(value: bytes) -> bool:
    """Judge the id of an AWS key: those of the manuals end with EXAMPLE."""
    return is_plausible(value) and not value.endswith(b"EXAMPLE")


def signs(value: bytes) -> bool:
    """Judge a key of any signs: random letters with digits among them."""
    return is_random(value) and _DIGIT.search(value) is not None and not is_placeholder(value)


def encoded_jwt(value: bytes) -> bool:
    """Tell whether base64 begins with the header of a web token, which is base64 of JSON."""
    try:
        inside = urlsafe_b64decode(value[:16].replace(b"+", b"-").replace(b"/", b"_"))
        return _JSON.match(urlsafe_b64decode(inside[:8])) is not None
    except ValueError:
        return False


def kubernetes(value: bytes) -> bool:
    """Judge a value of a Kubernetes secret: base64, and no plain word."""
    return not is_placeholder(value) and not _IDENTIFIER.fullmatch(value) and not value.isdigit()


def named(match: Match, value: bytes) -> bool:
    """Judge a key behind the name of its service: drawn letters; digits alone are of a client."""
    if value.isdigit():
        return _OF_A_CLIENT.search(match["tail"]) is not None
    if is_placeholder(value) or is_fake(value):
        return False
    if _DIGIT.search(value):
        return is_plausible(value) and not is_worded(value)
    return is_gibberish(value) or is_uneven(value)


def header(value: bytes) -> bool:
    """Judge what is in an Authorization header."""
    return not is_placeholder(value) and not is_reference(value) and is_mixed(value)


def bearer(value: bytes) -> bool:
    """Judge a bearer's token outside a header."""
    return is_random(value) and not is_placeholder(value)


def flag(value: bytes) -> bool:
    """Judge the word that follows a flag such as --password."""
    value = value.rstrip(b".,;:!?)")
    if len(value) < _SHORTEST or value.startswith(b"--"):
        return False
    if is_placeholder(value) or is_reference(value):
        return False
    return is_mixed(value) or is_gibberish(value) or is_chosen(value) or _is_typed(value)


def client(match: Match, value: bytes) -> bool:
    """Judge what curl is given: any word behind a user and a colon, else as behind a flag."""
    return url(value) if match[1] is not None else flag(value)


def url(value: bytes) -> bool:
    """Judge a password in a URL: not one of the usual placeholders, not a variable or a port."""
    if is_placeholder(value) or is_reference(value) or value.isdigit():
        return False
    return len(value) >= _SHORTEST and value.lower() not in _STOCK_PASSWORDS


def spoken(match: Match, value: bytes) -> bool:
    """Judge what a sentence or a directive names as a password, a key or a token."""
    if match.string[match.end() : match.end() + 1] in _OPENING:
        return False  # a call
    value = value.rstrip(b".,;:!?)*")
    if is_placeholder(value) or is_reference(value) or _MEASURED.match(value) or is_code(value):
        return False
    if _UUID.fullmatch(value) or _ADDRESS.search(value) or b"=" in value.rstrip(b"="):
        return False
    if match["weak"] is not None:  # of keys and tokens more is said than of passwords
        plain = value.isalnum() or (_BASE64.fullmatch(value) and has_three_kinds(value))
        disordered = is_gibberish(value) or _HASH.fullmatch(value) is not None
        return bool(plain) and disordered and len(value) >= _LONG_SECRET and is_random(value)
    random = is_random(value) and b"_" not in value  # `standard_b64encode` is a name
    letters = is_uneven(value) or (
        is_gibberish(value) and (value.isalpha() or not is_worded(value))
    )
    return len(value) >= _SHORT_PASSWORD and (random or is_chosen(value) or letters)


def prefixed(match: Match, value: bytes) -> bool:
    """Judge a token that a prefix begins: its body is random, and something speaks of a secret."""
    if (
        match["prefix"].lower() in _ID_PREFIXES
        or match.string[match.end() : match.end() + 1] in _MORE
    ):
        return False
    body = match["body"]
    if not is_random(body) or is_placeholder(value):
        return False
    parts = re.split(rb"[_-]", value)[:-1]
    if not _TOKEN_PREFIXES.isdisjoint(parts):
        return True
    if not _ID_PREFIXES.isdisjoint(parts):
        return False
    before = match.string[max(0, match.start() - _BEFORE) : match.start()]
    if _SPEAKING.search(before) is None or not has_three_kinds(body):
        return False
    scattered = len(_DIGIT.findall(body)) >= _SOME_DIGITS and not _ORDERED.search(body)
    return scattered or is_gibberish(body)


# ---------------------------------------------------------------------- assignments


def variable(match: Match, value: bytes) -> bool:
    """Judge the value of a variable in capitals; it may be letters alone."""
    name = name_of(match)
    if not name.is_upper or not name.says_secret or _is_no_value(value):
        return False
    if value.isdigit():
        return name.is_password and len(value) >= _SHORT_PASSWORD
    if _UUID.fullmatch(value):
        return _is_uuid_key(name)
    if len(value) < name.shortest or (is_fake(value) and not name.is_password):
        return False
    if _PLAIN_WORD.fullmatch(value) is None:
        return is_mixed(value) or len(value) >= _SHORT_SECRET
    plain = value.isalpha() and value.islower() and len(value) >= _SHORT_SECRET
    return plain and _SECRET_WORD.search(value) is None


def password(match: Match, value: bytes) -> bool:
    """Judge what is assigned to a password: mixed letters, or ones that a person chose."""
    name = name_of(match)
    if not name.says_secret or _is_code_around(match, name):
        return False
    quoted = match["quote"] is not None
    if value.isdigit():
        return (quoted or match["sep"] == b"=") and len(value) >= _SHORT_PASSWORD
    if len(value) < _SHORT_PASSWORD or _is_no_value(value) or _UUID.fullmatch(value):
        return False
    if is_random(value) or is_chosen(value):
        return True
    if name.may_be_folder:
        return False
    return _is_typed(value) or is_uneven(value) or _is_written(match, value, quoted=quoted)


def _is_written(match: Match, value: bytes, *, quoted: bool) -> bool:
    """Judge by how a password is written: in quotes, or bare at the end of a line."""
    if quoted:
        mixed = is_mixed(value) and (not is_worded(value) or bool(_DIGIT.search(value)))
        return mixed or (is_gibberish(value) and _SECRET_WORD.search(value.lower()) is None)
    if match["sep"].strip() not in {b":", b"=", b">"} or not _ends_line(match):
        return False
    letters = is_gibberish(value) and value.islower()
    return letters or (is_mixed(value) and not is_worded(value))


def secret(match: Match, value: bytes) -> bool:
    """Judge what is assigned to a key, a token or a secret: random letters with digits."""
    name = name_of(match)
    named = name.says_secret or name.is_in_query
    if not named or _is_no_value(value) or _is_code_around(match, name):
        return False
    if _UUID.fullmatch(value):
        return _is_uuid_key(name)
    long_enough = len(value) >= (_LONG_SECRET if name.is_vague else _SHORT_SECRET)
    return long_enough and not is_fake(value) and _is_disordered(match, value)


def _is_disordered(match: Match, value: bytes) -> bool:
    """Judge by the letters: digits among them, or so many that make no words."""
    quoted = match["quote"] is not None
    if is_random(value):
        has_digit = _DIGIT.search(value) is not None
        return has_digit or (quoted and (value.isalnum() or not value.islower()))
    if _SECRET_WORD.search(value.lower()):
        return False
    if _is_typed(value):
        return quoted or match["sep"] == b"="
    return (quoted or _ends_line(match)) and _is_letters(value)


def _is_letters(value: bytes) -> bool:
    """Accept letters alone, if there are enough of them and they make no words."""
    if len(value) < _MANY_LETTERS or not value.isalnum() or not is_gibberish(value):
        return False
    return has_wild_case(value) or value.islower() or value.isupper()


def pair(match: Match, value: bytes) -> bool:
    """Judge the value in the field beside a name that says secret."""
    name = name_of(match)
    if not name.says_secret or _is_no_value(value) or is_code(value):
        return False
    if len(value) < _SHORT_SECRET or _UUID.fullmatch(value):
        return False
    if name.is_password:
        return is_random(value) or is_chosen(value) or is_gibberish(value) or is_mixed(value)
    return is_random(value) and not is_fake(value)


def argument(match: Match, value: bytes) -> bool:
    """Judge what is behind a compound name without a sign: long, random, with digits."""
    name = name_of(match)
    if not name.says_secret or _is_no_value(value) or is_code(value) or is_fake(value):
        return False
    if len(value) < _LONG_SECRET or _DIGIT.search(value) is None or _UUID.fullmatch(value):
        return False
    if b"." in value if match["sep"] == b"(" else not name.is_compound:
        return False
    if _HEX.fullmatch(value) and not name.is_upper:
        return False
    return is_random(value)


def _is_no_value(value: bytes) -> bool:
    """Tell whether a value only stands for one, points to one, or measures something."""
    if is_reference(value) or is_placeholder(value):
        return True
    return _MEASURED.match(value) is not None or _ADDRESS.search(value) is not None


def _is_code_around(match: Match, name: Name) -> bool:
    """Tell whether nothing is assigned: a comparison, a call, a list of words, a test's result."""
    sign = match["sep"].strip()
    if (sign == b"," and not name.is_literal) or (sign == b":" and name.written == b"PASS"):
        return True
    if match["quote"] is not None:
        return False
    value = match["bare"]
    if match["sep"] == b"=" and name.is_upper:
        return True  # a variable, which has a rule of its own
    if match["close"] or sign in {b",", b"==", b"::"}:
        return True
    if match.string[match.end() : match.end() + 1] in _OPENING or is_code(value):
        return True
    # A word that is a verb as well, or a folder.
    return match["word"].lower() in {b"pass", b"pwd", b"pw", b"auth"} and (
        not name.left and (sign != b"=" or match["sep"] != b"=")
    )


def _ends_line(match: Match) -> bool:
    return _ENDED_LINE.match(match.string, match.end()) is not None


def _is_typed(value: bytes) -> bool:
    """Accept words that end with digits, as people choose passwords and programs no names."""
    return len(value) >= _SHORT_SECRET and _WORDS_AND_DIGITS.fullmatch(value) is not None


def _is_uuid_key(name: Name) -> bool:
    """Judge the name of a UUID: most name a thing; few services hand them out as keys."""
    if name.is_password:
        return True
    if name.word == b"token":
        return name.is_upper
    return name.word != b"key" or b"api" in name.left.lower()[-4:]


JUDGES: Final[Mapping[str, Judge]] = {
    "": lambda _match, value: is_plausible(value),
    "drawn": lambda _match, value: drawn(value),
    "cased": lambda _match, value: cased(value),
    "aws": lambda _match, value: aws(value),
    "signs": lambda _match, value: signs(value),
    "random": lambda _match, value: is_random(value),
    "header": lambda _match, value: header(value),
    "bearer": lambda _match, value: bearer(value),
    "flag": lambda _match, value: flag(value),
    "url": lambda _match, value: url(value),
    "encoded_jwt": lambda _match, value: encoded_jwt(value),
    "kubernetes": lambda _match, value: kubernetes(value),
    "key_body": lambda match, _value: _KEY_BODY.search(match["body"]) is not None,
    "client": client,
    "named": named,
    "spoken": spoken,
    "prefixed": prefixed,
    "variable": variable,
    "password": password,
    "secret": secret,
    "pair": pair,
    "argument": argument,
}
