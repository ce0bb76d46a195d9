"""The language of the filter bar: what is typed becomes a query, and a query becomes text again.

agent:codex project:web model:opus branch:main cost:>1 tokens:>=10k errors:>0 minutes:<5 since:7d
until:2026-01-31 on:2026-01-30 hour:mon-14 is:live is:all -agent:cursor "exact words" word
session:codex:01ab kind:command role:user part:tool_call tool:Bash outcome:failure entity:sqlite
file:src/board.py tag:bug is:starred sort:cost
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple, cast, get_args

import msgspec

from threadkeep.base.text import pattern
from threadkeep.base.verbs import Moment
from threadkeep.errors import Invalid
from threadkeep.knowledge.records import Kind as EntryKind, Outcome, Role

Field = Literal["cost", "tokens", "messages", "prompts", "tools", "errors", "minutes"]
Op = Literal[">", ">=", "<", "<=", "="]
Mark = Literal["live", "subagent", "hidden", "failed", "starred", "all"]
Kind = Literal["message", "command", "visit", "run", "lesson", "node"]


def _said(kind: Any, description: str) -> Any:
    return Annotated[kind, msgspec.Meta(description=description)]


class Bound(msgspec.Struct, frozen=True):
    """A limit for one number of a session; cost is in dollars."""

    field: Field
    op: Op
    value: float


class Query(msgspec.Struct, frozen=True):
    """What is asked for: what is set narrows, of several values any will do, nothing set: all.

    Time is that of what is listed: a session overlaps the span, everything else lies in it.
    """

    # What an address can say of it beside the filter language, and as what; `failed` is an outcome.
    SPREAD: ClassVar[Mapping[str, Any]] = {
        "session": _said(list[str], "Only of this session: agent:id, or a beginning of its id."),
        "agent": _said(list[str], "Only of this agent: claude-code, codex, opencode, …"),
        "project": _said(list[str], "Only of this project: its folder, its name, or owner/name."),
        "branch": _said(list[str], "Only on exactly this git branch."),
        "model": _said(list[str], "Only of this model, such as opus."),
        "tag": _said(list[str], "Only with this tag."),
        "tool": _said(list[str], "Only of this tool, such as Bash or ruff."),
        "role": _said(list[Role], "Only by this role."),
        "part": _said(list[EntryKind], "Only this sort of message."),
        "outcome": _said(list[Outcome], "Only what ended so."),
        "file": _said(list[str], "Only what touched this file: its name, or the end of its path."),
        "entity": _said(str | None, "Only what mentions this file, tool or name."),
        "parent": _said(str | None, "Only the subagents of this session."),
        "failed": _said(bool, "Only what failed."),
        **dict.fromkeys(("since", "until"), Moment | None),
        "sort": _said(Field | None, "The sessions with the most of it first, not the latest."),
    }

    text: str = ""  # words; "a phrase", OR, NOT, prefix*
    session: tuple[str, ...] = ()  # agent:id, an id, or a beginning that only one has
    kind: tuple[Kind, ...] = ()
    agent: tuple[str, ...] = ()
    project: tuple[str, ...] = ()  # a name, owner/name, or a folder with all below it
    branch: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    tag: tuple[str, ...] = ()  # on the session or on a message of it
    role: tuple[str, ...] = ()  # of messages, as are part and tool
    part: tuple[str, ...] = ()  # prompt, text, reasoning, tool_call, tool_result, ...
    tool: tuple[str, ...] = ()
    outcome: tuple[str, ...] = ()  # of commands, runs, nodes and results of tools
    file: tuple[str, ...] = ()  # a name, the end of a path, or a whole path
    entity: str | None = None  # a name or its canonical form
    parent: str | None = None  # the session whose subagents are meant
    exclude: tuple[tuple[str, str], ...] = ()  # key and value that it must not have
    since: Moment | None = None
    until: Moment | None = None
    hours: tuple[int, ...] = ()  # hours of the week, from Monday 00:00, that a model answered in
    bounds: tuple[Bound, ...] = ()
    marks: tuple[Mark, ...] = ()
    sort: Field | None = None  # sessions with the most of it come first; None: the latest
    pattern: str | None = None  # a regular expression: for what is forgotten alone


EVERYTHING: Final = Query()
_OF_ALL: Final = ("text", "kind", "since", "until")
# What can be asked of rows that are no sessions.
_FIELDS_OF: Final[dict[str, tuple[str, ...]]] = {
    "command": (
        *(*_OF_ALL, "session", "agent", "project", "branch", "role", "tool", "outcome"),
        *("file", "entity", "exclude", "marks"),
    ),
    "visit": _OF_ALL,
    "run": (*_OF_ALL, "project", "branch", "outcome", "exclude", "marks"),
    "node": (*_OF_ALL, "project", "outcome", "marks"),
}


def refuse_fields(query: Query, known: Sequence[str], what: str) -> None:
    """Refuse a query that says more than some fields."""
    for name in Query.__struct_fields__:
        if name not in known and getattr(query, name):
            names = ", ".join(one for one in known if one != "kind")
            raise Invalid(f"{what} cannot be chosen by {name}", hint=f"they can be by {names}")


def refuse_others(query: Query, kind: Kind) -> None:
    """Refuse what cannot be asked of rows of a kind: nobody would learn why nothing is found."""
    refuse_fields(query, _FIELDS_OF[kind], f"{kind}s")
    if query.kind and kind not in query.kind:
        raise Invalid(f"{kind}s are listed here, not {query.kind[0]}s", hint="leave out the kind")


# ------------------------------------------------------------------------------
# Times as they are typed into a query, and back: days of a zone, spans of time, moments.

_AGO: Final = pattern(r"(\d{1,5})(m|h|d|w|mo|y)")
_DAYS: Final = {"d": 1, "w": 7, "mo": 30, "y": 365}
_DAY: Final = pattern(r"\d{4}-\d\d-\d\d")
_MONTH: Final = pattern(r"\d{4}-\d\d")
_NAMED: Final = {"today": 0, "yesterday": 1}
_SPOKEN: Final = pattern(r"(\d{1,5}|an?) (minute|hour|day|week|month|year)s? ago")
_UNITS: Final = {"minute": "m", "hour": "h", "day": "d", "week": "w", "month": "mo", "year": "y"}
_WEEKDAY: Final = pattern(
    r"mon(?:day)?|tue(?:sday)?|wed(?:nesday)?|thu(?:rsday)?|fri(?:day)?|sat(?:urday)?|sun(?:day)?"
)
DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_TIMES: Final = (
    "write a date (2026-01-15, yesterday, monday, last week), a time (2026-01-15T10:30) or an age"
    " (12h, 7d, 3 days ago)"
)
_LONGEST: Final = 40  # characters of a moment; nothing longer is one
# What every zone can still tell the next day, or the next month, of.
_FIRST, _LAST = date(1, 1, 3), date(9999, 11, 28)


def day_of(at: int, zone: tzinfo) -> date:
    """Return the day of a moment in epoch milliseconds."""
    return (datetime.fromtimestamp(at // 1000, zone)).date()


def start_of(day: date, zone: tzinfo) -> int:
    """Return the moment at which a day begins in a zone."""
    return int(datetime.combine(day, time(), zone).timestamp() * 1000)


def next_day(day: date) -> date:
    """Return the day after a day."""
    return day + timedelta(days=1)


def read_since(text: str, now: int, zone: tzinfo) -> int | None:
    """Read when something begins: a day, a month, `7d`, `last week`, a moment; None: it is neither.

    Days and longer spans begin at midnight, hours and minutes at that very moment.
    """
    days = _read_days(text, now, zone)
    return _read_moment(text, now, zone) if days is None else start_of(days[0], zone)


def read_until(text: str, now: int, zone: tzinfo) -> int | None:
    """Read when something ends; a day is part of it to its end, a month to its last day."""
    days = _read_days(text, now, zone)
    return _read_moment(text, now, zone) if days is None else start_of(days[1], zone)


def read_on(text: str, now: int, zone: tzinfo) -> tuple[int, int] | None:
    """Read a day, a week or a month as its beginning and its end."""
    days = _read_days(text, now, zone)
    return None if days is None else (start_of(days[0], zone), start_of(days[1], zone))


def unread_time(text: str) -> Invalid:
    """Refuse what is neither a date nor an age, with what may be written."""
    return Invalid(f"cannot read {text[:40]!r} as a date or age", hint=_TIMES)


def _read_days(text: str, now: int, zone: tzinfo) -> tuple[date, date] | None:
    """Return the first day that is meant, and the one behind the last."""
    typed = _short(text)
    today = day_of(now, zone)
    found = _AGO.fullmatch(typed)
    if found and found[2] in _DAYS:
        return _whole(_days_back(today, int(found[1]) * _DAYS[found[2]]))
    named = _named_days(typed, today)
    if named is not None:
        return named
    try:
        if _MONTH.fullmatch(typed):
            first = _within(date.fromisoformat(f"{typed}-01"))
            return None if first is None else (first, _next_month(first))
        day = _within(date.fromisoformat(typed)) if _DAY.fullmatch(typed) else None
    except ValueError:
        return None
    return None if day is None else _whole(day)


def _named_days(typed: str, today: date) -> tuple[date, date] | None:
    """Read `yesterday`, `monday`, `last week`, `this month`."""
    if typed in _NAMED:
        return _whole(_days_back(today, _NAMED[typed]))
    which, _, unit = typed.rpartition(" ")
    if which in ("", "last") and unit[:3] in DAYS and _WEEKDAY.fullmatch(unit):
        back = (today.weekday() - DAYS.index(unit[:3])) % 7
        return _whole(_days_back(today, back or (7 if which else 0)))
    if which not in ("this", "last"):
        return None
    if unit == "week":
        monday = _days_back(today, today.weekday() + (7 if which == "last" else 0))
        return monday, monday + timedelta(days=7)
    if unit == "month":
        first = today.replace(day=1)
        first = _days_back(first, 1).replace(day=1) if which == "last" else first
        return first, _next_month(first)
    return None


def _short(text: str) -> str:
    """Write an age in words as the short one: `3 days ago` as `3d`."""
    typed = " ".join(text.lower().split())
    found = _SPOKEN.fullmatch(typed)
    if found is None:
        return typed
    count = "1" if found[1].startswith("a") else found[1]
    return f"{count}{_UNITS[found[2]]}"


def _whole(day: date) -> tuple[date, date]:
    return day, next_day(day)


def _days_back(today: date, days: int) -> date:
    return today - timedelta(days=days) if days < today.toordinal() - 3 else _FIRST


def _next_month(first: date) -> date:
    return (first.replace(day=1) + timedelta(days=31)).replace(day=1)


def _within(day: date) -> date | None:
    return day if _FIRST <= day <= _LAST else None


def _read_moment(text: str, now: int, zone: tzinfo) -> int | None:
    found = _AGO.fullmatch(_short(text))
    if found and found[2] not in _DAYS:
        return now - int(found[1]) * (60_000 if found[2] == "m" else 3_600_000)
    if len(text) > _LONGEST or not _DAY.match(text):
        return None
    try:
        moment = datetime.fromisoformat(text)
        if _within(moment.date()) is None:
            return None
        aware = moment if moment.tzinfo else moment.replace(tzinfo=zone)
        return round(aware.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def write_since(at: int, zone: tzinfo) -> str:
    """Write a beginning so that `read_since` gives it back."""
    day = _whole_day(at, zone)
    return _moment(at) if day is None else day.isoformat()


def write_until(at: int, zone: tzinfo) -> str:
    """Write an end so that `read_until` gives it back."""
    day = _whole_day(at, zone)
    before = None if day is None else _within(day - timedelta(days=1))
    if before is None or start_of(next_day(before), zone) != at:
        return _moment(at)
    return before.isoformat()


def _whole_day(at: int, zone: tzinfo) -> date | None:
    """Return the day that begins at a moment, if one does."""
    try:
        day = day_of(at, zone)
        return day if _within(day) and start_of(day, zone) == at else None
    except (ValueError, OverflowError):
        return None


def _moment(at: int) -> str:
    moment = datetime.fromtimestamp(at // 1000, UTC).replace(microsecond=at % 1000 * 1000)
    return f"{moment.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


_TOKEN: Final = pattern(
    r'(?P<key>-?[A-Za-z]+):"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<phrase>"[^"]*")|(?P<bare>[^\s"]+)',
    re.DOTALL,
)
_KEYED: Final = pattern(r"(-?[A-Za-z]+):(.+)", re.DOTALL)
_BOUND: Final = pattern(r"(>=|<=|>|<|=)?(\d+(?:\.\d+)?(?:e[+-]?\d+)?)([km]?)", re.IGNORECASE)
_LIKE_A_FILTER: Final = pattern(r"-?[A-Za-z]+:[^/]\S*")
_PHRASE: Final = pattern(r'"[^"]*"')
_ESCAPED: Final = pattern(r"\\(.)", re.DOTALL)
_PLAIN: Final = pattern(r'[^\s"\\]+')
_SCALES: Final = {"": 1, "k": 1_000, "m": 1_000_000}
_DAY_WIDTH: Final = len("2026-01-31")
_MARKS: Final = frozenset(get_args(Mark))
_FIELDS: Final = frozenset(get_args(Field))
_VALUES: Final = {"kind": frozenset(get_args(Kind)), "sort": _FIELDS}
NAMED: Final = ("agent", "project", "model", "branch")
_LISTS: Final = (*NAMED, "session", "tag", "kind", "role", "part", "tool", "outcome", "file")
_SINGLE: Final = ("entity", "parent", "sort")
_HOUR: Final = pattern(rf"({'|'.join(DAYS)})-([01]?\d|2[0-3])", re.IGNORECASE | re.ASCII)
_ALIASES: Final = {"harness": "agent", "source": "agent"}
_OUTCOMES: Final = {"failed": "failure", "succeeded": "success", "passed": "success"}


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
        self.lists: dict[str, list[str]] = {key: [] for key in _LISTS}
        self.single: dict[str, str] = {}
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
        if not value or value not in _VALUES.get(key, (value,)):
            return False
        if key in self.lists:
            _add(self.lists[key], _OUTCOMES.get(value, value) if key == "outcome" else value)
        elif key in _SINGLE:
            self.single[key] = value
        elif key.startswith("-") and key[1:] in NAMED:
            _add(self.without, (key[1:], value))
        elif key == "is" and value.lower() in _MARKS:
            _add(self.marks, cast("Mark", value.lower()))
        else:
            return self._measured(key, value)
        return True

    def _measured(self, key: str, value: str) -> bool:
        """Read a number or a time."""
        if key in _FIELDS:
            return self._bounded(cast("Field", key), value)
        return self._in_hour(value) if key == "hour" else self._timed(key, value)

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
    said: dict[str, Any] = {key: tuple(values) for key, values in reading.lists.items()}
    return Query(
        text=" ".join(reading.words),
        exclude=tuple(reading.without),
        hours=tuple(reading.hours),
        bounds=tuple(reading.bounds),
        marks=tuple(reading.marks),
        **said | reading.single | reading.times,
    )


def unread(words: str) -> tuple[str, ...]:
    """Give the words of a query that look like a filter: a key that is not known, or its value."""
    plain = _PHRASE.sub(" ", words).replace('"', " ").split()
    return tuple(word for word in plain if _LIKE_A_FILTER.fullmatch(word))


def fill_query(given: Mapping[str, Any], now: int, zone: tzinfo = UTC) -> Query:
    """Fill a query by the names of its fields, each with a value or several: any of them will do.

    `q` is read in the filter language; what says nothing, and what is no field, is left out.
    `failed` means the outcome.
    """
    query = parse_query(given.get("q") or "", now, zone)
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name in _LISTS and value:
            values = (value,) if isinstance(value, str) else tuple(value)
            found[name] = tuple(dict.fromkeys((*getattr(query, name), *values)))
        elif name in (*_SINGLE, "since", "until") and value not in (None, ""):
            found[name] = value
    if given.get("failed"):
        found["outcome"] = (*found.get("outcome", query.outcome), "failure")
    return msgspec.structs.replace(query, **found)


def format_query(query: Query, zone: tzinfo = UTC) -> str:
    """Write a query as text that `parse_query` reads as the same query; a pattern has no text."""
    pieces = [f"{key}:{_value(one)}" for key in _LISTS for one in getattr(query, key)]
    single = ((key, getattr(query, key)) for key in _SINGLE)
    pieces += [f"{key}:{_value(one)}" for key, one in single if one]
    pieces += [f"-{key}:{_value(one)}" for key, one in query.exclude]
    pieces += [f"{one.field}:{_op(one.op)}{_number(one.value)}" for one in query.bounds]
    pieces += _times(query, zone)
    pieces += [f"hour:{hour_name(one)}" for one in query.hours]
    pieces += [f"is:{mark}" for mark in query.marks]
    return " ".join([*pieces, query.text] if query.text else pieces)


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
    """Return a piece as words that are read as words again: `x:"y z"` is two of them."""
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


# ------------------------------------------------------------------------------
# Quarters of an hour: the smallest time that sums are made of, and the days of a zone they form.
#
# No zone of today is shifted by less than a quarter, so days and hours of any zone are made of
# them.

QUARTER: Final = 900_000  # milliseconds
QUARTERS_OF_DAY: Final = 96
QUARTERS_OF_WEEK: Final = 7 * QUARTERS_OF_DAY
UNKNOWN: Final = "unknown"
_SECONDS: Final = QUARTER // 1000
_LAST_YEAR: Final = 2100  # the shift of then holds ever after, that of 1970 ever before
_LOOK: Final = QUARTERS_OF_WEEK  # no zone is shifted there and back within a week
_EPOCH: Final = date(1970, 1, 1).toordinal()
_THURSDAY: Final = 3 * QUARTERS_OF_DAY  # the weekday of the epoch, from Monday


class Shift(NamedTuple):
    """From which quarter since the epoch on a zone is how many quarters ahead of UTC."""

    start: int
    ahead: int


def local_quarter(name: str, zone: tzinfo) -> str:
    """Return SQL that makes of a quarter since the epoch the quarter that a zone's clocks show."""
    return f"{name} + {_choice(name, shifts_of(zone))}"


def in_hours(at: str, hours: Sequence[int], zone: tzinfo) -> str:
    """Give SQL that tells whether a time is in one of some hours of the week, from Monday 00:00."""
    local = local_quarter(f"({at} / {QUARTER})", zone)
    shown = f"(({local}) % {QUARTERS_OF_WEEK} + {_THURSDAY}) % {QUARTERS_OF_WEEK} / 4"
    return f"{shown} IN ({', '.join(map(str, hours))})"


def _choice(name: str, shifts: Sequence[Shift]) -> str:
    """Choose among shifts by halves: a zone may have 200 of them."""
    if len(shifts) == 1:
        return str(shifts[0].ahead)
    middle = len(shifts) // 2
    before, after = _choice(name, shifts[:middle]), _choice(name, shifts[middle:])
    return f"CASE WHEN {name} < {shifts[middle].start} THEN {before} ELSE {after} END"


@lru_cache(maxsize=8)
def shifts_of(zone: tzinfo) -> tuple[Shift, ...]:
    """Return all shifts of a zone since the epoch, the earliest first."""
    end = int(datetime(_LAST_YEAR, 1, 1, tzinfo=UTC).timestamp()) // _SECONDS
    shifts = [Shift(0, _ahead(zone, 0))]
    for quarter in range(_LOOK, end, _LOOK):
        if _ahead(zone, quarter) != shifts[-1].ahead:
            start = _first_with(zone, quarter - _LOOK, quarter)
            shifts.append(Shift(start, _ahead(zone, start)))
    return tuple(shifts)


def _first_with(zone: tzinfo, before: int, after: int) -> int:
    """Find where between two quarters the shift of the second begins."""
    wanted = _ahead(zone, after)
    while after - before > 1:
        middle = (before + after) // 2
        before, after = (before, middle) if _ahead(zone, middle) == wanted else (middle, after)
    return after


def _ahead(zone: tzinfo, quarter: int) -> int:
    moment = datetime.fromtimestamp(quarter * _SECONDS, zone)
    return (moment.utcoffset() or timedelta(0)) // timedelta(seconds=_SECONDS)


def day_text(day: int | None) -> str:
    """Write a day, counted from the epoch."""
    try:
        return UNKNOWN if day is None else date.fromordinal(_EPOCH + day).isoformat()
    except (ValueError, OverflowError):
        return UNKNOWN


def by_hour(quarters: list[int]) -> list[list[int]]:
    """Sum up the quarters of a week, which begins as the epoch did, by weekday and hour."""
    hours = [[0] * 24 for _ in range(7)]
    for number, tokens in enumerate(quarters):
        weekday, quarter = divmod((number + _THURSDAY) % QUARTERS_OF_WEEK, QUARTERS_OF_DAY)
        hours[weekday][quarter // 4] += tokens
    return hours
