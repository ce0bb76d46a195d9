"""The name that a value is assigned to: whether it says secret, and what else it says."""

import re
from typing import Final, NamedTuple

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
    """Give the name around the word of a match."""
    before = b" " + match.string[max(0, match.start() - _LENGTH) : match.start()]
    whole = before[len(before.rstrip(_LETTERS)) - 1 :]
    left = _ESCAPED_BREAK.sub(b"", whole, count=1)
    return Name(left, match["word"].lower(), match["tail"], whole[:1], left + match["word"])
