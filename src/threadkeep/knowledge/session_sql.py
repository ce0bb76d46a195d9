"""From a query to SQL: which rows of `tk_sessions` are meant, and in which order they are read.

The text of a statement depends on what is asked for: a condition that is always there, true or not,
would keep SQLite from using the index of the filter.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, tzinfo
from typing import Any, Final, NamedTuple

import msgspec

from threadkeep.base.tx import Row, Tx
from threadkeep.errors import Invalid
from threadkeep.knowledge.query import NAMED, Bound, Query, in_hours
from threadkeep.knowledge.records import Readers

LIVE_MS: Final = 5 * 60_000
COLUMNS: Final = {
    "agent": "harness",
    "project": "project",
    "model": "model",
    "branch": "git_branch",
}
SHOWN: Final = "s.hidden = 0 AND s.is_subagent = 0 AND s.entries > 0"
_SESSION: Final = ", ".join(
    f"s.{name}"
    for name in (
        *("id", "harness", "session_id", "parent_session_id", "is_subagent", "hidden", "title"),
        *("agent", "model", "cwd", "project", "git_branch", "slug", "version", "first_prompt"),
        *("started_at", "ended_at", "entries", "prompts", "tool_calls", "errors"),
    )
)
# Conversations of probes are in the archive like all others. To look for their few among 100,000
# takes 200 ms: counts leave it out.
PROBE: Final = "probe"
_NO_PROBE: Final = (
    "NOT EXISTS (SELECT 1 FROM agentic_sessions AS p WHERE p.session_id = s.session_id"
    " AND p.harness = s.harness AND p.probe_tag IS NOT NULL)"
)
_ANSWERED: Final = "EXISTS (SELECT 1 FROM tk_usage AS h WHERE h.session = s.id AND {})"
_NUMBERS: Final = {
    "messages": "s.entries",
    "prompts": "s.prompts",
    "tools": "s.tool_calls",
    "errors": "s.errors",
    "minutes": "(s.ended_at - s.started_at) / 60000.0",
}
_ORDER: Final = "ORDER BY s.ended_at DESC, s.id DESC"
_CURSOR: Final = re.compile(r"(-?[0-9]{1,18})?\.([0-9]{1,18})")
_FEW: Final = (
    2_000  # found by words; so many are fetched and sorted sooner than the index is walked
)


class Where(NamedTuple):
    """Conditions on `tk_sessions AS s`, by the key they come from, and their values."""

    conditions: tuple[tuple[str, str], ...]
    params: Mapping[str, Any]

    def sql(self, *without: str) -> str:
        """Give the conditions as SQL, but for those of some keys."""
        return " AND ".join(text for key, text in self.conditions if key not in without)


class SessionCursor(NamedTuple):
    """The last session of a page: what comes next is older."""

    at: int | None
    id: int

    def text(self) -> str:
        """Write it as the text that is given to callers."""
        return f"{'' if self.at is None else self.at}.{self.id}"


def read_cursor(text: str) -> SessionCursor:
    """Read what `Cursor.text` wrote; anything else is refused."""
    found = _CURSOR.fullmatch(text)
    if found is None:
        hint = "give the one that came with the page before, or none to begin anew"
        raise Invalid(f"{text[:40]!r} is no cursor of this list", hint=hint)
    return SessionCursor(int(found[1]) if found[1] else None, int(found[2]))


def resolve(given: str, known: Iterable[str]) -> list[str]:
    """Give the known values that are meant: the same but for case, else those that contain it."""
    wanted = given.casefold()
    values = list(known)
    same = [one for one in values if one.casefold() == wanted]
    return same or [one for one in values if one and wanted in one.casefold()]


def where(
    tx: Tx,
    query: Query,
    tables: set[str],
    now: int,
    sessions: Sequence[int] | None = None,
    *,
    everything: bool = False,
    zone: tzinfo = UTC,
) -> Where:
    """Turn a query into conditions; `sessions` are those in which its words were found.

    With `everything` subagents and hidden threads need no mark.
    """
    params: dict[str, Any] = {}
    parts = [("", _shown(query, everything=everything))]
    if "agentic_sessions" in tables:
        parts.append((PROBE, _NO_PROBE))
    asked = [key for key in NAMED if getattr(query, key)]
    parts += [(key, _named(key, meant_by(tx, query, key), params)) for key in asked]
    for number, (key, value) in enumerate(query.exclude):
        found = _values(tx, query, key, [value])
        if found:
            params[f"not{number}"] = _json(found)
            parts.append(("", f"NOT {_one_of(f's.{COLUMNS[key]}', f'not{number}')}"))
    parts += [("", text) for text in _times(query, now, params)]
    parts += [("", text) for text in _bounds(query.bounds, params)]
    if query.hours:
        parts.append(("", _ANSWERED.format(in_hours("h.at", query.hours, zone))))
    if sessions is not None:
        params["sessions"] = _json(sessions)
        # The plus keeps the index of the order: of many sessions found, most pages are soon full.
        column = "s.id" if len(sessions) <= _FEW else "+s.id"
        parts.append(("words", _one_of(column, "sessions")))
    return Where(tuple(parts), params)


def _shown(query: Query, *, everything: bool) -> str:
    """Say which kinds of sessions are meant: those of a mark alone, or those of a person."""
    marked = [f"s.{_MARKED[mark]} = 1" for mark in query.marks if mark in _MARKED]
    if marked:
        return f"({' OR '.join(marked)}) AND s.entries > 0"
    return "1" if everything else SHOWN


_MARKED: Final = {"subagent": "is_subagent", "hidden": "hidden"}


class QueryValues(NamedTuple):
    """What a query says of one key: values that occur, or folders with all below them."""

    values: tuple[str, ...]
    folders: tuple[str, ...] = ()


def meant_by(tx: Tx, query: Query, key: str) -> QueryValues:
    """Find the values that are meant by what a query says of a key."""
    wanted: Sequence[str] = getattr(query, key)
    if key != "project":
        return QueryValues(tuple(_values(tx, query, key, wanted)))
    folders = [one.rstrip("/") or "/" for one in wanted if one.startswith("/")]
    # of `owner/name` the name
    named = [one.rstrip("/").rpartition("/")[2] for one in wanted if not one.startswith("/")]
    return QueryValues(tuple(_values(tx, query, key, named)), tuple(folders))


def _named(key: str, meant: QueryValues, params: dict[str, Any]) -> str:
    column = f"s.{COLUMNS[key]}"
    choices = []
    if len(meant.values) == 1:
        params[key] = meant.values[0]
        choices.append(f"{column} = :{key}")
    elif meant.values:
        params[key] = _json(meant.values)
        choices.append(_one_of(f"+{column}", key))
    for number, place in enumerate(meant.folders):
        params[f"in{number}"] = place
        params[f"below{number}"] = f"{like(place.rstrip('/'))}/%"
        choices.append(f"(s.cwd = :in{number} OR s.cwd LIKE :below{number} ESCAPE '\\')")
    return f"({' OR '.join(choices)})" if choices else "0"


def _one_of(column: str, name: str) -> str:
    """Say that a column has one of the values of a parameter, a JSON list."""
    return f"{column} IN (SELECT value FROM json_each(:{name}))"  # noqa: S608  (our own names)


def like(text: str) -> str:
    """Escape a text for LIKE with the escape character backslash."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _values(tx: Tx, query: Query, key: str, wanted: Sequence[str]) -> list[str]:
    if not wanted:
        return []
    known = values_of(tx, key, everything=any(mark in _MARKED for mark in query.marks))
    return list(dict.fromkeys(value for one in wanted for value in resolve(one, known)))


def values_of(tx: Tx, key: str, *, everything: bool = False) -> list[str]:
    """Give the values of a key that occur; the index is asked for the next one each time."""
    column = COLUMNS[key]
    if everything:
        sql = f"SELECT DISTINCT s.{column} FROM tk_sessions AS s"  # noqa: S608  (our own names)
        return [row[0] for row in tx.execute(sql)]
    sql = (
        "WITH RECURSIVE v (x) AS ("  # noqa: S608  (our own names)
        f" SELECT (SELECT min(s.{column}) FROM tk_sessions AS s WHERE {SHOWN}) UNION ALL"
        f" SELECT (SELECT min(s.{column}) FROM tk_sessions AS s WHERE {SHOWN} AND s.{column} > x)"
        " FROM v WHERE x IS NOT NULL) SELECT x FROM v WHERE x IS NOT NULL"
    )
    return [row[0] for row in tx.execute(sql)]


def _times(query: Query, now: int, params: dict[str, Any]) -> list[str]:
    texts = []
    since = query.since
    if "live" in query.marks:
        since = max(now - LIVE_MS, since or 0)
    if since is not None:
        params["since"] = since
        texts.append("s.ended_at >= :since")
    if query.until is not None:
        params["until"] = query.until
        texts.append("s.started_at < :until")
    if "failed" in query.marks:
        texts.append("s.errors > 0")
    return texts


def _bounds(bounds: Sequence[Bound], params: dict[str, Any]) -> list[str]:
    texts = []
    for number, bound in enumerate(bounds):
        column = _NUMBERS.get(bound.field)
        if column is not None:
            params[f"bound{number}"] = bound.value
            texts.append(f"{column} {bound.op} :bound{number}")
    return texts


def _json(values: Iterable[Any]) -> str:
    return msgspec.json.encode(list(values)).decode()


# ---------------------------------------------------------------------- statements


def page_sql(where_: Where, after: SessionCursor | None) -> list[tuple[str, dict[str, Any]]]:
    """Give the statements that read on behind a cursor, the latest first, each with its values.

    Sessions without a time come last, and need a statement of their own: NULL is behind nothing.
    """
    start = f"SELECT {_SESSION} FROM tk_sessions AS s WHERE {where_.sql()}"  # noqa: S608
    values = dict(where_.params)
    if after is None:
        return [(f"{start} {_ORDER} LIMIT :limit", values)]
    undated = f"{start} AND s.ended_at IS NULL"
    if after.at is None:
        sql = f"{undated} AND s.id < :after_id {_ORDER} LIMIT :limit"
        return [(sql, {**values, "after_id": after.id})]
    place = {"after_at": after.at, "after_id": after.id}
    dated = f"{start} AND (s.ended_at, s.id) < (:after_at, :after_id) {_ORDER} LIMIT :limit"
    return [(dated, {**values, **place}), (f"{undated} {_ORDER} LIMIT :limit", values)]


def read_page(tx: Tx, where_: Where, after: SessionCursor | None, limit: int) -> list[Row]:
    """Read the rows of the sessions behind a cursor, at most so many."""
    rows: list[Row] = []
    for sql, values in page_sql(where_, after):
        if len(rows) < limit:
            rows += tx.execute(sql, {**values, "limit": limit - len(rows)}).fetchall()
    return rows


def groups_sql(where_: Where) -> str:
    """Give the statement that counts by all keys at once, whatever the query says of them."""
    columns = "s.harness, s.project, s.cwd, s.model, s.git_branch"
    conditions = where_.sql(PROBE, *COLUMNS)
    return (
        f"SELECT {columns}, count(*) FROM tk_sessions AS s WHERE {conditions}"  # noqa: S608
        f" GROUP BY {columns}"
    )


MOST_ON_A_PAGE: Final = 500


class ListContext(NamedTuple):
    """What a list is made with: the transaction, its tables, its sources, time and zone."""

    tx: Tx
    tables: set[str]
    sources: Readers
    now: int
    zone: tzinfo = UTC  # whose hours are meant


class Matches(NamedTuple):
    """Where words were found."""

    sessions: dict[int, int]  # with the newest entry that has them; 0: they are in the title
    whole: bool  # False: there is more, and only the newest was gone through
    missing: tuple[str, ...] = ()  # words that none of them has: no session has all
