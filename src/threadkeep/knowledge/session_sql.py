"""From a query to SQL: which rows of `tk_sessions` are meant, and in which order they are read.

The text of a statement depends on what is asked for: a condition that is always there, true or not,
would keep SQLite from using the index of the filter.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, tzinfo
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from threadkeep.base.text import pattern
from threadkeep.base.tx import Row, Sql, Tx
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
SESSION: Final = ", ".join(
    f"s.{name}"
    for name in (
        *("id", "harness", "session_id", "parent_session_id", "is_subagent", "hidden", "title"),
        *("agent", "model", "cwd", "project", "git_branch", "slug", "version", "first_prompt"),
        *("started_at", "ended_at", "entries", "prompts", "tool_calls", "errors"),
    )
)
ENTRY: Final = ", ".join(
    f"e.{name}"
    for name in (
        *("id", "session", "key", "log_id", "line", "part", "role", "kind", "at", "tool"),
        *("error", "hash"),
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
_SAID: Final = "EXISTS (SELECT 1 FROM tk_entries AS e WHERE e.session = s.id AND {})"
_MENTIONED: Final = (
    "s.id IN (SELECT x.id FROM entities AS n"
    " JOIN knowledge_node_entities AS k ON k.entity_id = n.id"
    " JOIN knowledge_node_agentic_sessions AS l ON l.knowledge_node_id = k.knowledge_node_id"
    " JOIN agentic_sessions AS a ON a.id = l.agentic_session_id"
    " JOIN tk_sessions AS x ON x.harness = a.harness AND x.session_id = a.session_id"
    " WHERE {})"
)
_LABELLED: Final = (
    "EXISTS (SELECT 1 FROM tk_labels AS l WHERE l.harness = s.harness"
    " AND l.session_id = s.session_id AND {})"
)
_ENDED: Final = ("success", "failure")
_NAMED_AT_MOST: Final = 10  # projects in a hint
NUMBERS: Final = {
    "messages": "s.entries",
    "prompts": "s.prompts",
    "tools": "s.tool_calls",
    "errors": "s.errors",
    "minutes": "(s.ended_at - s.started_at) / 60000.0",
}
_ORDER: Final = "ORDER BY s.ended_at DESC NULLS LAST, s.id DESC"
_CURSOR: Final = pattern(r"(-?[0-9]{1,18})?\.([0-9]{1,18})")
_FEW: Final = (
    2_000  # found by words; so many are fetched and sorted sooner than the index is walked
)


class Where(NamedTuple):
    """Conditions on `tk_sessions AS s`, by the key they come from, and their values."""

    conditions: tuple[tuple[str, str], ...]
    params: Mapping[str, Any]

    def sql(self, *without: str) -> str:
        """Return the conditions as SQL, but for those of some keys."""
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
        hint = "give the one from the previous page, or none to start over"
        raise Invalid(f"{text[:40]!r} is not a cursor of this list", hint=hint)
    return SessionCursor(int(found[1]) if found[1] else None, int(found[2]))


def resolve(given: str, known: Iterable[str], *, exact: bool = False) -> list[str]:
    """Return the known values that are meant: the same but for case, else those that contain it.

    Whoever deletes means `exact` ones: those that only contain it are not meant.
    """
    wanted = given.casefold()
    values = [one for one in known if one]
    same = [one for one in values if one.casefold() == wanted]
    return same if same or exact else [one for one in values if wanted in one.casefold()]


def where(
    tx: Tx,
    query: Query,
    now: int,
    found: Sequence[int] | None = None,
    *,
    everything: bool = False,
    exact: bool = False,
    zone: tzinfo = UTC,
) -> Where:
    """Turn a query into conditions; `found` are the sessions that have its words.

    With `everything` sessions without entries, subagents and hidden threads are meant, too.
    `exact` is for what deletes: names must be whole (`refuse_parts` tells of those that are not).
    """
    params: dict[str, Any] = {}
    parts = [("", _shown(query, everything=everything))]
    sorts = {"everything": everything or _in_all(query), "exact": exact}
    if not (exact or "all" in query.marks):
        parts.append((PROBE, _NO_PROBE))
    asked = [key for key in NAMED if getattr(query, key)]
    parts += [(key, _named(key, key, meant_by(tx, query, key, **sorts), params)) for key in asked]
    for number, (key, value) in enumerate(query.exclude):
        meant = _meant(tx, key, [value], **sorts)
        parts.append(("", f"NOT {_named(f'not{number}', key, meant, params)}"))
    texts = [*_ones(tx, query, params), *_said(query, params), *_labelled(tx, query, params)]
    texts += [*_times(query, now, params), *_bounds(query.bounds, params)]
    parts += [("", text) for text in texts]
    if query.hours:
        parts.append(("", _ANSWERED.format(in_hours("h.at", query.hours, zone))))
    if found is not None:
        params["sessions"] = _json(found)
        # The plus keeps the index of the order: of many sessions found, most pages are soon full.
        column = "s.id" if len(found) <= _FEW else "{plain:s.id}"
        parts.append(("words", one_of(column, "sessions", "ids")))
    return Where(tuple(parts), params)


def _shown(query: Query, *, everything: bool) -> str:
    """Say which sorts of sessions are meant: those of a mark alone, those named, or a person's."""
    marked = [f"s.{_MARKED[mark]} > 0" for mark in query.marks if mark in _MARKED]
    if marked:
        return f"({' OR '.join(marked)}) AND s.entries > 0"
    if everything:
        return "true"
    return "s.entries > 0" if _in_all(query) else SHOWN


def _in_all(query: Query) -> bool:
    """Tell whether sessions that are not listed by themselves may be meant."""
    marked = any(mark in _MARKED or mark == "all" for mark in query.marks)
    return marked or bool(query.session) or query.parent is not None


_MARKED: Final = {"subagent": "is_subagent", "hidden": "hidden"}


def _ones(tx: Tx, query: Query, params: dict[str, Any]) -> list[str]:
    """Say what is asked of single sessions: their names, who started them, what they mention."""
    texts, named = [], []
    for number, name in enumerate(query.session):
        agent, colon, rest = name.partition(":")
        whose = ""
        if colon and agent in values_of(tx, "agent", everything=True):
            whose, params[f"of{number}"] = f" AND s.harness = :of{number}", agent
        begins = rest if whose else name
        params[f"low{number}"], params[f"high{number}"] = begins, f"{begins}\U0010ffff"
        named.append(f"(s.session_id >= :low{number} AND s.session_id < :high{number}{whose})")
    if named:
        texts.append(f"({' OR '.join(named)})")
    if query.parent is not None:
        params["parent"] = query.parent.rpartition(":")[2]
        texts.append("s.parent_session_id = :parent")
    return texts + [_MENTIONED.format(named) for named in names_of(query, params)]


def names_of(query: Query, params: dict[str, Any]) -> list[str]:
    """Say what `entities AS n` must be called, for each filter that asks for a name."""
    texts = []
    if query.entity is not None:
        params["entity"] = query.entity.lower()
        texts.append("lower(n.name) = :entity OR lower(n.canonical) = :entity")
    if query.file:
        ways = []
        for number, file in enumerate(query.file):
            whole = file.lower().removeprefix("./")
            steps = whole.split("/")
            # A whole path is known by its end: names begin in the project's folder.
            is_whole = whole.startswith(("/", "~/"))
            ends = ["/".join(steps[at:]) for at in range(1, len(steps))] if is_whole else [whole]
            params |= {f"file{number}": _json(ends), f"path{number}": f"%/{like(whole)}"}
            ways.append(one_of("lower(n.name)", f"file{number}"))
            ways.append(f"lower(n.name) LIKE :path{number} ESCAPE '\\'")
        texts.append(f"n.type = 'file' AND ({' OR '.join(ways)})")
    return texts


def _said(query: Query, params: dict[str, Any]) -> list[str]:
    """Say what some message of the session must be."""
    texts = _message(query, params)
    return [_SAID.format(" AND ".join(texts))] if texts else []


def _labelled(tx: Tx, query: Query, params: dict[str, Any]) -> list[str]:
    """Say what somebody must have put on the session, or on a message of it."""
    texts = []
    if query.tag:
        params["tag"] = _json(one.casefold() for one in query.tag)
        texts.append(_LABELLED.format(f"l.what = 'tag' AND {one_of('l.value', 'tag')}"))
    if "starred" in query.marks:
        texts.append(_LABELLED.format("l.what = 'star'"))
    # A file that was never opened for writing since there are labels has none.
    return ["false"] if texts and "tk_labels" not in tx.tables() else texts


def _message(query: Query, params: dict[str, Any]) -> list[str]:
    """Say what a message must be."""
    texts = []
    for field, column in (("role", "e.role"), ("part", "e.kind"), ("tool", "e.tool")):
        if wanted := getattr(query, field):
            params[field] = _json(wanted)
            texts.append(one_of(column, field))
    if query.outcome:
        params["ended"] = _json(int(one == "failure") for one in query.outcome if one in _ENDED)
        texts.append(f"e.kind = 'tool_result' AND {one_of('e.error', 'ended', 'ids')}")
    return texts


def message_where(tx: Tx, query: Query, now: int, found: Sequence[int] | None = None) -> Where:
    """Turn a query into conditions on `tk_entries AS e` and its session, of whatever sort.

    Times are those of the messages.
    """
    sessions = replace(query, since=None, until=None, role=(), part=(), tool=(), outcome=())
    chosen = where(tx, sessions, now, found, everything=True)
    params = dict(chosen.params)
    texts = _message(query, params)
    for name, text in (("since", "e.at >= :since"), ("until", "e.at < :until")):
        at = getattr(query, name)
        if at is not None:
            params[name] = max(at, params.get(name, at))
            texts.append(text)
    return Where((*chosen.conditions, *(("message", text) for text in texts)), params)


class QueryValues(NamedTuple):
    """What a query says of one key: values that occur, or folders with all below them."""

    values: tuple[str, ...]
    folders: tuple[str, ...] = ()


def meant_by(
    tx: Tx, query: Query, key: str, *, everything: bool | None = None, exact: bool = False
) -> QueryValues:
    """Find the values that are meant by what a query says of a key."""
    wide = _in_all(query) if everything is None else everything
    return _meant(tx, key, getattr(query, key), everything=wide, exact=exact)


def _meant(
    tx: Tx, key: str, wanted: Sequence[str], *, everything: bool, exact: bool
) -> QueryValues:
    names, folders = split_projects(wanted) if key == "project" else (wanted, ())
    values = _values(tx, key, names, everything=everything, exact=exact)
    return QueryValues(tuple(values), tuple(folders))


def refuse_parts(tx: Tx, query: Query, is_called: Callable[[str], bool]) -> None:
    """Refuse a query of what deletes whose names are only parts of some; it names these.

    `is_called` tells whether something else than a session is of a project of that name.
    """
    named = [(key, one) for key in NAMED for one in getattr(query, key)]
    for key, one in [*named, *query.exclude]:
        for name in split_projects([one])[0] if key == "project" else [one]:
            parts = sorted(resolve(name, values_of(tx, key, everything=True)))
            if not parts or parts[0].casefold() == name.casefold():
                continue
            if not (key == "project" and is_called(name)):
                told = ", ".join(parts[:_NAMED_AT_MOST])
                raise Invalid(f"no {key} is called {name!r}", hint=f"give the whole name: {told}")


def split_projects(wanted: Sequence[str]) -> tuple[list[str], list[str]]:
    """Tell names from folders: a path is a folder with all below it, `owner/name` is the name."""
    names, folders = [], []
    for one in wanted:
        if one.startswith(("/", "~/", "./", "../")) or one in {"~", ".", ".."}:
            folders.append(os.path.abspath(os.path.expanduser(one)))  # noqa: PTH111
        else:
            names.append(one.rstrip("/").rpartition("/")[2])
    return names, folders


def _named(name: str, key: str, meant: QueryValues, params: dict[str, Any]) -> str:
    """Say that a session has one of the values of a key; `name` is that of the parameters."""
    column = f"s.{COLUMNS[key]}"
    choices = []
    if len(meant.values) == 1:
        params[name] = meant.values[0]
        choices.append(f"{column} = :{name}")
    elif meant.values:
        params[name] = _json(meant.values)
        choices.append(one_of(f"{{plain:{column}}}", name))
    choices += [
        is_below("s.cwd", folder, f"{name}_in{number}", params)
        for number, folder in enumerate(meant.folders)
    ]
    return f"({' OR '.join(choices)})" if choices else "false"


def is_below(column: str, folder: str, name: str, params: dict[str, Any]) -> str:
    """Say that a column is a folder, below it, or in a copy of the repository that it is."""
    start = like(folder.rstrip("/"))
    params |= {name: folder, f"{name}_all": f"{start}/%", f"{name}_copies": f"{start}.worktrees/%"}
    below = [f"{column} LIKE :{name}_{sort} ESCAPE '\\'" for sort in ("all", "copies")]
    return f"({' OR '.join([f'{column} = :{name}', *below])})"


def one_of(column: str, name: str, kind: Literal["ids", "texts"] = "texts") -> str:
    """Say that a column has one of the values of a parameter, a JSON list of texts or numbers."""
    return f"{column} IN ({{{kind}:{name}}})"


def like(text: str) -> str:
    """Escape a text for LIKE with the escape character backslash."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _values(
    tx: Tx, key: str, wanted: Sequence[str], *, everything: bool, exact: bool = False
) -> list[str]:
    if not wanted:
        return []
    shown = values_of(tx, key)
    meant = {value: None for one in wanted for value in resolve(one, shown)}
    whole = {one.casefold() for one in wanted} <= {value.casefold() for value in meant}
    if exact or (everything and not whole):  # to look at all sessions takes long
        known = values_of(tx, key, everything=True)
        meant = {value: None for one in wanted for value in resolve(one, known, exact=exact)}
    return list(meant)


def values_of(tx: Tx, key: str, *, everything: bool = False) -> list[str]:
    """Give the values of a key that occur; of `everything` no index has them, so they are kept."""
    column = COLUMNS[key]
    if everything:
        sql = f"SELECT DISTINCT s.{column} FROM tk_sessions AS s"  # noqa: S608  (our own names)
    else:  # the index is asked for the next one each time
        sql = (
            "WITH RECURSIVE v (x) AS ("  # noqa: S608  (our own names)
            f" SELECT (SELECT min(s.{column}) FROM tk_sessions AS s WHERE {SHOWN}) UNION ALL"
            f" SELECT (SELECT min(s.{column}) FROM tk_sessions AS s"
            f" WHERE {SHOWN} AND s.{column} > x)"
            " FROM v WHERE x IS NOT NULL) SELECT x FROM v WHERE x IS NOT NULL"
        )
    return tx.kept(sql, lambda: [row[0] for row in tx.all(Sql(sql))])


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
        column = NUMBERS.get(bound.field)
        if column is not None:
            params[f"bound{number}"] = bound.value
            texts.append(f"{column} {bound.op} CAST(:bound{number} AS REAL)")
    return texts


def _json(values: Iterable[Any]) -> str:
    return msgspec.json.encode(list(values)).decode()


# ---------------------------------------------------------------------- statements


def page_sql(where_: Where, after: SessionCursor | None) -> list[tuple[str, dict[str, Any]]]:
    """Return the statements that read on behind a cursor, the latest first, each with its values.

    Sessions without a time come last, and need a statement of their own: NULL is behind nothing.
    """
    start = f"SELECT {SESSION} FROM tk_sessions AS s WHERE {where_.sql()}"  # noqa: S608
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


def page(tx: Tx, where_: Where, after: SessionCursor | None, limit: int) -> list[Row]:
    """Read the rows of the sessions behind a cursor, at most so many."""
    rows: list[Row] = []
    for sql, values in page_sql(where_, after):
        if len(rows) < limit:
            rows += tx.all(Sql(sql), {**values, "limit": limit - len(rows)})
    return rows


def ranked(tx: Tx, where_: Where, column: str) -> list[int]:
    """Return the numbers of all sessions that are meant, those with the most of something first."""
    sql = (
        f"SELECT s.id FROM tk_sessions AS s WHERE {where_.sql()}"  # noqa: S608
        f" ORDER BY {column} DESC NULLS LAST, s.id DESC"
    )
    return [row[0] for row in tx.all(Sql(sql), where_.params)]


def rows_of(tx: Tx, numbers: Sequence[int]) -> list[Row]:
    """Read the rows of sessions by their numbers, in the order given."""
    sql = f"SELECT {SESSION} FROM tk_sessions AS s WHERE {one_of('s.id', 'ids', 'ids')}"  # noqa: S608
    found = {row[0]: row for row in tx.all(Sql(sql), {"ids": _json(numbers)})}
    return [found[number] for number in numbers if number in found]


def all_sql(where_: Where) -> str:
    """Return the statement that reads the rows of all sessions that are meant, as they came."""
    return f"SELECT {SESSION} FROM tk_sessions AS s WHERE {where_.sql()} ORDER BY s.id"  # noqa: S608


def groups(tx: Tx, where_: Where) -> Iterable[Row]:
    """Count by all keys at once, whatever the query says of them."""
    columns = "s.harness, s.project, s.cwd, s.model, s.git_branch"
    conditions = where_.sql(PROBE, *COLUMNS)
    sql = (
        f"SELECT {columns}, count(*) FROM tk_sessions AS s WHERE {conditions}"  # noqa: S608
        f" GROUP BY {columns}"
    )
    return tx.each(Sql(sql), where_.params)


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
