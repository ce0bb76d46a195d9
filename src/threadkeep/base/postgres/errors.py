"""PostgreSQL's errors in our words: what happened in which home, and what to do next."""

import re
from typing import Final, NamedTuple

import psycopg

from threadkeep.base.sqlite.errors import BrokenRule
from threadkeep.errors import (
    Busy,
    Closed,
    Conflict,
    Damaged,
    Invalid,
    NotFound,
    ReadOnly,
    SchemaMismatch,
    StorageFull,
    ThreadkeepError,
    TooLarge,
    Unreachable,
    UnsupportedEngine,
)

ADDRESS_FORM: Final = "postgresql://user@host:5432/database?home=NAME"


class _Meaning(NamedTuple):
    kind: type[ThreadkeepError]
    said: str
    hint: str


_LOST: Final = _Meaning(
    Unreachable,
    "lost the connection to its server",
    "nothing of this transaction was stored; try again, and look at the server's log",
)
_NO_SERVER: Final = _Meaning(
    Unreachable,
    "cannot be reached",
    "check host and port in the URL, that the server runs, and that it listens there",
)
_NO_ADDRESS: Final = _Meaning(
    Invalid, "cannot be read as the address of a server", f"write {ADDRESS_FORM}"
)
_FULL_HOUSE: Final = _Meaning(
    Busy,
    "has no connections left on its server",
    "raise max_connections, close programs that hold connections, or put a pooler in front",
)
_NO_RIGHT: Final = _Meaning(
    ReadOnly,
    "may not be used in this way",
    "ask its owner for the right that the message names: GRANT CREATE ON DATABASE to make a home,"
    " GRANT USAGE ON SCHEMA and rights on its tables to use one",
)
_RULE: Final = _Meaning(
    BrokenRule, "refused a row that breaks a rule of its schema", "check ids and references"
)
_LOCKED: Final = _Meaning(
    Busy, "is locked by another writer", "try again in a moment, or raise the time budget"
)

# By SQLSTATE first, then by its class, the first two characters.
_MEANINGS: Final = {
    "08": _LOST,
    "0A": _Meaning(
        UnsupportedEngine,
        "needs something that its server does not have",
        "use PostgreSQL 15 or later",
    ),
    "22": _Meaning(Invalid, "does not accept a value", "check the value that the message names"),
    "22003": _Meaning(
        Invalid,
        "does not accept a number outside the range of its column",
        "store such numbers inside JSON",
    ),
    "23": _RULE,
    "25006": _Meaning(
        ReadOnly,
        "cannot be written: its server is a replica, or set to read only",
        "give the URL of the primary server, or open the store read-only",
    ),
    "25P02": _Meaning(
        Conflict,
        "refused to continue after an error in the same transaction",
        "none of it was stored; look at the first error",
    ),
    "25P03": _LOST,
    "28": _Meaning(
        Invalid,
        "rejected this user",
        "check user and password in the URL, and pg_hba.conf of the server",
    ),
    "3D000": _Meaning(NotFound, "does not exist", "create it with createdb, or check the URL"),
    "3F000": _Meaning(SchemaMismatch, "lacks its schema", "open it once for writing to create it"),
    "40001": _LOCKED,
    "40P01": _LOCKED,
    "42501": _NO_RIGHT,
    "42P01": _Meaning(
        SchemaMismatch, "lacks a table of its schema", "open it once for writing to create it"
    ),
    "42703": _Meaning(
        SchemaMismatch, "lacks a column of its schema", "open it once for writing to bring it up"
    ),
    "53100": _Meaning(
        StorageFull,
        "cannot grow: the disk of its server is full",
        "free some space on the server; what was acknowledged is safe",
    ),
    "53": _Meaning(
        Busy, "needs more resources than its server has", "try again, or give it more memory"
    ),
    "53300": _FULL_HOUSE,
    "54": _Meaning(
        TooLarge, "does not accept a value that large", "store it as a file and keep its URL"
    ),
    "55P03": _LOCKED,
    "57014": _Meaning(
        Busy, "took longer than is allowed for one statement", "ask for less, or try again later"
    ),
    "57P": _LOST,
    "57P03": _NO_SERVER,
    "58": _Meaning(
        StorageFull, "could not be written", "check the disk of the server, and its log"
    ),
    "XX001": _Meaning(Damaged, "is damaged", "restore a backup of the server"),
    "XX002": _Meaning(Damaged, "has a damaged index", "run REINDEX on the server"),
}
# Errors while connecting come without an SQLSTATE, and with the server's own words.
_SAID: Final = (
    (re.compile(r'database ".*" does not exist'), _MEANINGS["3D000"]),
    (re.compile(r"role .* does not exist|password|authentication|pg_hba"), _MEANINGS["28"]),
    (re.compile(r"No space left|could not (write|extend|create)\b.*\bfile\b"), _MEANINGS["53100"]),
    (re.compile(r"too many (clients|connections)|remaining connection slots"), _FULL_HOUSE),
    (re.compile(r"invalid .*(connection option|port|dsn|URI)|missing \"=\"|in URI"), _NO_ADDRESS),
)
# A quota or the largest size of a file comes as an internal error of the server.
_REFUSED_FILE: Final = re.compile(r"could not (extend|write|create|truncate)\b.*\bfile\b")
_RETRIED: Final = {"40001", "40P01"}


def meaning_of(error: psycopg.Error) -> _Meaning | None:
    """Return what an error of a statement means, None if it should not happen."""
    state = error.sqlstate
    if state == "XX000" and _REFUSED_FILE.search(_words(error)):
        return _MEANINGS["58"]
    if state is not None:
        return next((_MEANINGS[key] for n in (5, 3, 2) if (key := state[:n]) in _MEANINGS), None)
    if isinstance(error, psycopg.OperationalError):
        return _LOST
    return None


def is_lost(error: BaseException) -> bool:
    """Tell whether a connection was lost: what it had not committed is gone."""
    return isinstance(error, psycopg.Error) and meaning_of(error) in {_LOST, _NO_SERVER}


def may_be_retried(error: BaseException) -> bool:
    """Tell whether the same transaction may succeed when it is run once more."""
    cause = error if isinstance(error, psycopg.Error) else error.__cause__
    return isinstance(cause, psycopg.Error) and (cause.sqlstate in _RETRIED or is_lost(cause))


def translate(error: psycopg.Error, name: str) -> ThreadkeepError:
    """Turn an error of a statement into one of ours, with the name of the home."""
    meaning = meaning_of(error)
    words = _words(error)
    if meaning is not None:
        return meaning.kind(f"{name} {meaning.said}: {words}", hint=meaning.hint)
    if isinstance(error, psycopg.DataError):
        return Invalid(f"{name}: {words}", hint="pass text, bytes, numbers or None")
    if isinstance(error, psycopg.InterfaceError) and "closed" in words:
        return Closed(f"{name} was closed", hint="open the store again")
    return ThreadkeepError(f"{name}: {words}", hint="please report this with what you did")


def refusal(error: psycopg.Error, name: str) -> ThreadkeepError:
    """Turn what went wrong while connecting into one of ours."""
    words = _words(error)
    meaning = next((m for said, m in _SAID if said.search(words)), None)
    if meaning is None:
        meaning = (meaning_of(error) if error.sqlstate else None) or _NO_SERVER
    return meaning.kind(f"{name} {meaning.said}: {words}", hint=meaning.hint)


def _words(error: psycopg.Error) -> str:
    """Return the first line of what the server said, without the text of the query."""
    return error.diag.message_primary or str(error).strip().partition("\n")[0]
