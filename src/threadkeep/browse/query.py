"""The language of the filter bar: what is typed becomes a query, and a query becomes text again.

agent:codex project:web model:opus branch:main cost:>1 tokens:>=10k errors:>0 minutes:<5 since:7d
until:2026-01-31 on:2026-01-30 hour:mon-14 is:live is:subagent -agent:cursor "exact words" word
"""

import re
from collections.abc import Iterator
from datetime import UTC, tzinfo
from typing import Any, Final, NamedTuple, cast, get_args

from threadkeep.browse.dates import read_on, read_since, read_until, write_since, write_until
from threadkeep.browse.records import Bound, Field, Mark, Op, Query

_TOKEN: Final = re.compile(
    r'(?P<key>-?[A-Za-z]+):"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<phrase>"[^"]*")|(?P<bare>[^\s"]+)',
    re.DOTALL,
)
_KEYED: Final = re.compile(r"(-?[A-Za-z]+):(.+)", re.DOTALL)
_BOUND: Final = re.compile(r"(>=|<=|>|<|=)?(\d+(?:\.\d+)?(?:e[+-]?\d+)?)([km]?)", re.IGNORECASE)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_PLAIN: Final = re.compile(r'[^\s"\\]+')
_SCALES: Final = {"": 1, "k": 1_000, "m": 1_000_000}
_DAY_WIDTH: Final = len("2026-01-31")
_MARKS: Final = frozenset(get_args(Mark))
_FIELDS: Final = frozenset(get_args(Field))
NAMED: Final = ("agent", "project", "model", "branch")
DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_HOUR: Final = re.compile(rf"({'|'.join(DAYS)})-([01]?\d|2[0-3])", re.IGNORECASE | re.ASCII)
_ALIASES: Final = {"harness": "agent", "source": "agent"}


class _Token(NamedTuple):
    """A piece of the text; `key` is empty for words."""

    key: str
    value: str
    typed: str
    quoted: bool = False


class _Reading:
    """A query while it is read."""

    def __init__(self, now: int, zone: tzinfo) -> None:
        self.now, self.zone = now, zone
        self.words: list[str] = []
        self.named: dict[str, list[str]] = {key: [] for key in NAMED}
        self.without: list[tuple[str, str]] = []
        self.times: dict[str, int] = {}
        self.hours: list[int] = []
        self.bounds: list[Bound] = []
        self.marks: list[Mark] = []

    def take(self, token: _Token) -> None:
        """Add what a piece says; one that says nothing we know is a word."""
        if not self._understood(token.key, token.value):
            self.words.extend(_as_words(token))

    def _understood(self, key: str, value: str) -> bool:
        if not value:
            return False
        if key in self.named:
            _add(self.named[key], value)
        elif key.startswith("-") and key[1:] in self.named:
            _add(self.without, (key[1:], value))
        elif key in _FIELDS:
            return self._bounded(cast("Field", key), value)
        elif key == "hour":
            return self._in_hour(value)
        elif key == "is" and value.lower() in _MARKS:
            _add(self.marks, cast("Mark", value.lower()))
        else:
            return self._timed(key, value)
        return True

    def _bounded(self, field: Field, value: str) -> bool:
        found = _BOUND.fullmatch(value)
        number = float(found[2]) * _SCALES[found[3].lower()] if found else float("inf")
        if not found or number == float("inf"):
            return False
        _add(self.bounds, Bound(field, cast("Op", found[1] or "="), number))
        return True

    def _in_hour(self, value: str) -> bool:
        found = _HOUR.fullmatch(value)
        if found:
            _add(self.hours, 24 * DAYS.index(found[1].lower()) + int(found[2]))
        return found is not None

    def _timed(self, key: str, value: str) -> bool:
        if key == "on":
            span = read_on(value, self.now, self.zone)
            if span is not None:
                self.times["since"], self.times["until"] = span
            return span is not None
        readers = {"since": read_since, "until": read_until}
        at = readers[key](value, self.now, self.zone) if key in readers else None
        if at is not None:
            self.times[key] = at
        return at is not None


def parse_query(text: str, now: int, zone: tzinfo = UTC) -> Query:
    """Read what was typed; any text is a query, what is not understood is words."""
    reading = _Reading(now, zone)
    for token in _tokens(text):
        reading.take(token)
    said: dict[str, Any] = {key: tuple(values) for key, values in reading.named.items()}
    return Query(
        words=" ".join(reading.words),
        without=tuple(reading.without),
        hours=tuple(reading.hours),
        bounds=tuple(reading.bounds),
        marks=tuple(reading.marks),
        **said | reading.times,
    )


def format_query(query: Query, zone: tzinfo = UTC) -> str:
    """Write a query as text that `parse_query` reads as the same query."""
    pieces = [f"{key}:{_value(one)}" for key in NAMED for one in getattr(query, key)]
    pieces += [f"-{key}:{_value(one)}" for key, one in query.without]
    pieces += [f"{one.field}:{_op(one.op)}{_number(one.value)}" for one in query.bounds]
    pieces += _times(query, zone)
    pieces += [f"hour:{hour_name(one)}" for one in query.hours]
    pieces += [f"is:{mark}" for mark in query.marks]
    return " ".join([*pieces, query.words] if query.words else pieces)


def hour_name(hour: int) -> str:
    """Name an hour of the week as it is typed: mon-14."""
    return f"{DAYS[hour // 24]}-{hour % 24}"


def _times(query: Query, zone: tzinfo) -> Iterator[str]:
    since = None if query.since is None else write_since(query.since, zone)
    until = None if query.until is None else write_until(query.until, zone)
    if since is not None and since == until and len(since) == _DAY_WIDTH:
        yield f"on:{since}"
        return
    if since is not None:
        yield f"since:{since}"
    if until is not None:
        yield f"until:{until}"


def _tokens(text: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(text):
        if found["key"] is not None:
            value = _ESCAPED.sub(r"\1", found["quoted"])
            yield _Token(_key(found["key"]), value, found[0], quoted=True)
            continue
        keyed = _KEYED.fullmatch(found["bare"] or "")
        if keyed:
            yield _Token(_key(keyed[1]), keyed[2], found[0])
        elif found[0] != '""':
            yield _Token("", "", found[0])


def _key(typed: str) -> str:
    minus, name = ("-", typed[1:]) if typed.startswith("-") else ("", typed)
    return minus + _ALIASES.get(name.lower(), name.lower())


def _as_words(token: _Token) -> list[str]:
    """Give a piece as words that are read as words again: `x:"y z"` is two of them."""
    if not token.quoted:
        return [token.typed]
    phrase = token.value.replace('"', " ").strip()
    return [token.typed.partition(":")[0] + ":", *([f'"{phrase}"'] if phrase else [])]


def _add(values: list[Any], value: object) -> None:
    if value not in values:
        values.append(value)


def _value(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _op(op: Op) -> str:
    return "" if op == "=" else op


def _number(value: float) -> str:
    return repr(value).removesuffix(".0")
