"""What to forget: which sessions as a whole, which lines of others, which rows beside them.

Everything here only reads, so a dry run and a real one choose, and count, the same.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from msgspec.structs import replace

from threadkeep.base.json import decode_line
from threadkeep.base.tx import Tx
from threadkeep.errors import Invalid, NotFound
from threadkeep.knowledge import forget_scope
from threadkeep.knowledge.archive import LogRow, sessions_of_log, told_by_line
from threadkeep.knowledge.archived import entries_in
from threadkeep.knowledge.forget import TEXTS, Texts, is_there, text_rows
from threadkeep.knowledge.kinds import Kind
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.records import CapturedSession
from threadkeep.knowledge.sessions import children_of, find_session
from threadkeep.sources.common import iso_ms
from threadkeep.sources.records import Source

Picks = Callable[[int, bytes], bool]
Searches = Callable[[str], bool]
Matches = list[tuple[Texts, int, list[str]]]  # table, row, the columns in which it was found

_DAY_MS: Final = 86_400_000


# What is set narrows: without a pattern whole sessions go; with a span of time those that lie
# inside it, of others only the lines inside, and what shells, browsers and CI did in it; with a
# project what shells did in its folder. With a pattern, lines and rows in which it is found go.

_WAYS: Final = ("session", "project", "pattern")
_NOT_MEANT: Final = ("text", "kind", "role", "part", "tool", "outcome", "hours", "file")
_WHENEVER: Final = {"since": None, "until": None, "pattern": None}


def in_time(query: Query) -> bool:
    """Tell whether a span of time is given."""
    return query.since is not None or query.until is not None


def in_sessions(query: Query) -> bool:
    """Tell whether only some sessions are meant."""
    return replace(query, **_WHENEVER) != Query()


def covers(query: Query, at: int | None) -> bool:
    """Tell whether a moment lies in the span of time."""
    if at is None:
        return False
    return (query.since is None or at >= query.since) and (query.until is None or at < query.until)


def refuse_mixture(query: Query, *, dashes: str = "") -> None:
    """Want exactly one way of saying what is meant: with two, "and" and "or" look alike.

    A filter (`agent:codex until:30d`) is another way, in which everything narrows.
    """
    if (query.since is None) != (query.until is None):
        raise Invalid(
            "a span of time needs both ends",
            hint=f"give {dashes}since and {dashes}until, or a filter",
        )
    ways = [bool(getattr(query, name)) for name in _WAYS] + [query.since is not None]
    if sum(ways) != 1:
        told = ", ".join(dashes + name for name in _WAYS)
        hint = f"give one of {told}, {dashes}since with {dashes}until, or a filter"
        raise Invalid(
            "forget what?" if not any(ways) else "the same filter is given in two ways", hint=hint
        )


def check(what: Query) -> Searches:
    """Refuse what makes no sense; give what tells whether a text matches."""
    if replace(what, marks=tuple(one for one in what.marks if one != "all")) == Query():
        raise Invalid("nothing says what to forget", hint="give a session, a project or a pattern")
    for name in _NOT_MEANT:
        if getattr(what, name):
            hint = "give agent, project, branch, model, session, since, until, or a pattern"
            said = f"from {what.text!r}" if name == "text" else f"by {name}"
            raise Invalid(f"cannot tell what to forget {said}", hint=hint)
    if what.since is not None and what.until is not None and what.since >= what.until:
        raise Invalid("the span of time ends before it begins", hint="give an earlier start")
    try:
        found = re.compile(what.pattern or "").search
    except (re.error, RecursionError) as error:
        msg = f"the pattern {what.pattern!r} is not a valid regular expression: {error}"
        raise Invalid(msg, hint="put a backslash before special characters") from None
    if what.pattern is not None and found("") is not None:
        msg = f"the pattern {what.pattern!r} matches every text, even an empty one"
        raise Invalid(msg, hint="give a pattern that requires at least one character")
    return lambda text: found(text) is not None


# ---------------------------------------------------------------------- sessions


def meant_sessions(tx: Tx, what: Query) -> list[CapturedSession]:
    """Return the sessions that are meant, those that others started before them."""
    roots = forget_scope.sessions_to_forget(tx, what)
    if what.session:
        named = [_named(tx, name, what.agent) for name in what.session]
        allowed = {session.id for session in roots}
        roots = [session for session in named if session is not None and session.id in allowed]
    found: dict[int, CapturedSession] = {}
    for root in roots:
        for session in _with_children(tx, root, set()):
            found.setdefault(session.id, session)
    return list(found.values())


def _named(tx: Tx, name: str, agents: Sequence[str]) -> CapturedSession | None:
    try:
        return find_session(tx, name, agents, exact=True)
    except NotFound:
        if not forget_scope.was_forgotten(tx, name, agents):
            raise
        return None  # forgotten before: there is nothing left to do


def _with_children(tx: Tx, session: CapturedSession, seen: set[int]) -> Iterator[CapturedSession]:
    if session.id in seen:  # a log may say anything, even that two sessions started each other
        return
    seen.add(session.id)
    for child in children_of(tx, session):
        yield from _with_children(tx, child, seen)
    yield session


def whole_sessions(what: Query, meant: list[CapturedSession]) -> list[CapturedSession]:
    """Return those of the sessions that go as a whole."""
    if what.pattern is not None:
        return []
    if not in_time(what):
        return meant
    return [one for one in meant if covers(what, one.started_at) and covers(what, one.ended_at)]


# ---------------------------------------------------------------------- lines


def logs_to_search(tx: Tx, what: Query, meant: set[int], whole: set[int]) -> Iterator[LogRow]:
    """Yield the logs some of whose lines may have to go."""
    if what.pattern is None and not in_time(what):
        return
    for log in forget_scope.logs_in_scope(tx, what.agent):
        if in_time(what) and not _may_reach(tx, what, log.id):
            continue
        sessions = set(sessions_of_log(tx, log).values())
        if (not in_sessions(what) or sessions & meant) and not (sessions and sessions <= whole):
            yield log


def _may_reach(tx: Tx, what: Query, log_id: int) -> bool:
    """Tell whether a log may have lines in the span; a day is left for those without entries."""
    span = forget_scope.span_of_log(tx, log_id)
    if span is None:
        return True
    first, last = span
    return (what.until is None or first - _DAY_MS < what.until) and (
        what.since is None or last + _DAY_MS >= what.since
    )


def picker(
    tx: Tx,
    sources: Mapping[str, Source],
    log: LogRow,
    what: Query,
    searches: Searches,
    meant: set[int],
) -> Picks:
    """Return what tells whether a line of a log has to go."""
    told = told_by_line(tx, log.id)
    own = sessions_of_log(tx, log).get(log.session_id)

    def is_meant(number: int) -> bool:
        sessions = told.get(number)
        return not meant.isdisjoint(sessions) if sessions else own is None or own in meant

    def picks(number: int, line: bytes) -> bool:
        if in_sessions(what) and not is_meant(number):
            return False
        if in_time(what) and not any(covers(what, at) for at in _times(sources, log, number, line)):
            return False
        return what.pattern is None or any(map(searches, _texts(sources, log, number, line)))

    return picks


def _times(
    sources: Mapping[str, Source], log: LogRow, number: int, line: bytes
) -> Iterator[int | None]:
    for entry in entries_in(sources, log.reader, line, number).values():
        yield entry.at
    with suppress(Invalid):
        for record in decode_line(line):
            if isinstance(record, dict):
                yield iso_ms(record.get("timestamp"))


def _texts(sources: Mapping[str, Source], log: LogRow, number: int, line: bytes) -> Iterator[str]:
    """Yield everything that can be read in a line: in its record, and as it is shown."""
    try:
        records = decode_line(line)
    except Invalid:
        yield line.decode("utf-8", "replace")
        return
    for record in records:
        yield from strings_in(record)
    for entry in entries_in(sources, log.reader, line, number).values():
        yield entry.text


def strings_in(value: Any) -> Iterator[str]:
    """Yield every text inside a JSON value, the names of members too."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, list):
            waiting += one


# ---------------------------------------------------------------------- rows


def matching_rows(tx: Tx, searches: Searches) -> Matches:
    """Find the rows of all tables in which a pattern is found."""
    found: Matches = []
    for texts in TEXTS:
        for number, values in text_rows(tx, texts) if is_there(tx, texts) else ():
            columns = [column for column, text in values.items() if searches(text)]
            if columns:
                found.append((texts, number, columns))
    return found


def rows_of_work(tx: Tx, what: Query, searches: Searches) -> dict[Kind, set[int]]:
    """Return what shells, browsers and CI did in a span of time or a folder, or its part that fits.

    Without either there is nothing to choose by but a pattern, and then all tables are searched.
    """
    if not (in_time(what) or what.project):
        return {}
    found = rows_in_time(tx, what)
    if what.pattern is None or not any(found.values()):
        return found
    found |= forget_scope.parts_of_runs(tx, found.get("run", ()))
    fitting: dict[Kind, set[int]] = {}
    for texts, number, _ in matching_rows(tx, searches):
        if texts.kind is not None and number in found.get(texts.kind, ()):
            fitting.setdefault(texts.kind, set()).add(number)
    return fitting


_WORK: Final[tuple[Kind, ...]] = (
    *("event", "revision", "visit", "run", "watch", "lesson", "waiting_lesson"),
)


def rows_in_time(tx: Tx, what: Query) -> dict[Kind, set[int]]:
    """Return what shells, browsers and CI did in a span of time, and what agents remembered.

    A project keeps it to the shell's work in its folder and its memory; all else that is said of
    sessions, to nothing.
    """
    if in_sessions(replace(what, project=())):
        return {}
    if what.project:
        whole = not in_time(what) and what.pattern is None
        notes = forget_scope.memory_of_project(tx, what, whole=whole)
        return {
            "event": forget_scope.commands_of_project(tx, what),
            "document" if whole else "revision": notes,
        }
    span = {"since": what.since, "until": what.until}
    return {kind: forget_scope.work_between(tx, kind, span) for kind in _WORK}
