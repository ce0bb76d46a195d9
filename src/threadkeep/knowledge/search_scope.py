"""What a query limits candidates to: conditions on messages and on things, made once a question.

The text of a statement depends on what is asked for. Where few sessions are meant their ids are a
list; where many are, each message found is asked for its session.
"""

from collections.abc import Iterable
from datetime import UTC, tzinfo
from typing import Any, Final, Literal, NamedTuple

import msgspec

from threadkeep.base.text import to_sql
from threadkeep.base.tx import Sql, Tx
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.schema import ENTRY_WORDS
from threadkeep.knowledge.session_sql import (
    Where,
    is_below,
    like,
    names_of,
    one_of,
    resolve,
    split_projects,
    values_of,
    where,
)

Side = Literal["entry", "thing"]
SIDES: Final[tuple[Side, ...]] = ("entry", "thing")
_FEW_SESSIONS: Final = 2_000  # where no more are meant, their ids are a list
# Kinds as the index calls them. A slice of a session that is not archived counts as what was said.
STORED: Final = {"visit": "page", "run": "ci"}
SHOWN_AS: Final = {stored: kind for kind, stored in STORED.items()}
_ENDED: Final = {"success": 0, "failure": 1}
# What a session must be; everything else is asked of the message.
_OF_SESSIONS: Final = (
    *("session", "agent", "project", "branch", "model", "parent", "tag", "file", "entity"),
    *("exclude", "hours", "bounds", "marks"),
)
_OF_MESSAGES: Final = (("role", "e.role"), ("part", "e.kind"), ("tool", "e.tool"))
OF_MESSAGES_ALONE: Final = (
    *("role", "part", "tool", "session", "parent", "model", "tag", "hours", "bounds", "marks"),
)
_OF_CATEGORY: Final = """(t.kind = 'node' AND EXISTS (
  SELECT 1 FROM knowledge_node_memory_chunks AS k
  JOIN memory_chunks AS c ON c.id = k.memory_chunk_id
  JOIN memory_documents AS d ON d.active_revision_id = c.revision_id
  JOIN memory_document_categories AS g ON g.document_id = d.id
  WHERE k.knowledge_node_id = t.row AND g.category = :category))"""
_MENTIONS: Final = """((t.kind = 'node' AND EXISTS (
  SELECT 1 FROM knowledge_node_entities AS k JOIN entities AS n ON n.id = k.entity_id
  WHERE k.knowledge_node_id = t.row AND ({named})))
OR (t.kind = 'command' AND EXISTS (
  SELECT 1 FROM event_entities AS k JOIN entities AS n ON n.id = k.entity_id
  WHERE k.event_id = t.row AND ({named}))))"""


class Thing(NamedTuple):
    """A row to be found by words, with what it is filtered by; `texts` empty: it is not shown."""

    row: int
    at: int | None
    source: str
    texts: tuple[str, ...]
    harness: str | None = None
    cwd: str | None = None
    repo: str | None = None
    branch: str | None = None
    outcome: str | None = None


class NodeChoice(msgspec.Struct, frozen=True):
    """Which nodes count, beside what a query says of them."""

    category: str | None = None  # of memories: user, feedback, project, reference, index
    evidence: str | None = None  # what they rest on: shell, agent, browser, ci, memory
    excluded: bool = False  # also those that rest on nothing real or settled


ANY_NODE: Final = NodeChoice()


class Scope(NamedTuple):
    """What a query limits candidates to, made once for all statements of a question."""

    query: Query
    nodes: NodeChoice
    entries: Where  # conditions on tk_entries AS e
    things: Where  # conditions on tk_things AS t
    sessions: tuple[int, ...] | None = None  # rows of tk_sessions where few are meant
    archived: bool = True  # the file has messages
    placed: bool = True  # the file says where messages stand, and knows of other things

    @property
    def is_narrow(self) -> bool:
        """Tell whether anything is asked of a candidate."""
        return bool(self.entries.conditions or self.things.conditions)

    def of(self, side: Side) -> Where:
        """Return the conditions on one index."""
        return self.entries if side == "entry" else self.things


def scope_of(tx: Tx, query: Query, nodes: NodeChoice, now: int, zone: tzinfo = UTC) -> Scope:
    """Turn a query into what candidates are limited to."""
    tables = tx.tables()
    archived = ENTRY_WORDS.is_among(tx, tables)
    among = _sessions_meant(tx, query, now, zone) if archived else None
    sessions = None if among is None else _few(tx, among)
    if not archived and any(getattr(query, name) for name in _OF_SESSIONS):
        sessions = ()
    return Scope(
        query,
        nodes,
        _entry_conditions(query, among, sessions),
        _thing_conditions(tx, query, nodes, archived=archived),
        sessions,
        archived,
        "tk_turns" in tables,
    )


def is_agent(tx: Tx, name: str, readable: Iterable[str] = ()) -> bool:
    """Tell whether a name means an agent that can be read, or of which something is there."""
    tables = tx.tables()
    known = values_of(tx, "agent", everything=True) if "tk_sessions" in tables else []
    if resolve(name, [*known, *readable]):
        return True
    return "agentic_sessions" in tables and tx.value("is_agent", {"harness": name}) is not None


def _sessions_meant(tx: Tx, query: Query, now: int, zone: tzinfo) -> Where | None:
    if not any(getattr(query, name) for name in _OF_SESSIONS):
        return None
    asked = {name: getattr(query, name) for name in _OF_SESSIONS}
    asked["marks"] = tuple(dict.fromkeys((*query.marks, "all")))
    return where(tx, Query(**asked), now, zone=zone)


def _few(tx: Tx, among: Where) -> tuple[int, ...] | None:
    """Return the sessions that are meant, if they are few."""
    sql = f"SELECT s.id FROM tk_sessions AS s WHERE {among.sql()} LIMIT {_FEW_SESSIONS + 1}"  # noqa: S608
    found = [row[0] for row in tx.all(Sql(sql), dict(among.params))]
    return tuple(sorted(found)) if len(found) <= _FEW_SESSIONS else None


def _entry_conditions(query: Query, among: Where | None, sessions: tuple[int, ...] | None) -> Where:
    params: dict[str, Any] = {}
    parts: list[tuple[str, str]] = []
    if sessions is not None:
        params["among"] = _json(sessions)
        parts.append(("session", one_of("e.session", "among", "ids")))
    elif among is not None:  # many: each message found is asked for its session
        params |= among.params
        text = f"EXISTS (SELECT 1 FROM tk_sessions AS s WHERE s.id = e.session AND {among.sql()})"  # noqa: S608
        parts.append(("session", text))
    for field, column in _OF_MESSAGES:
        if getattr(query, field):
            params[field] = _json(getattr(query, field))
            parts.append((field, one_of(column, field)))
    if query.outcome:
        params["ended"] = _json(_ENDED[one] for one in query.outcome if one in _ENDED)
        parts.append(("outcome", f"e.kind = 'tool_result' AND {one_of('e.error', 'ended', 'ids')}"))
    parts += _span(query, "e.at", params)
    return Where(tuple(parts), params)


def _thing_conditions(tx: Tx, query: Query, nodes: NodeChoice, *, archived: bool) -> Where:
    params: dict[str, Any] = {}
    parts: list[tuple[str, str]] = []
    fields: dict[str, tuple[str, Iterable[str]]] = {
        "kind": ("t.kind", _stored_kinds(query.kind)),
        "agent": ("t.harness", _known(tx, query, "agent") if archived else query.agent),
        "branch": ("t.branch", _known(tx, query, "branch") if archived else query.branch),
        "outcome": ("t.outcome", query.outcome),
        "evidence": ("t.source", () if nodes.evidence is None else (nodes.evidence,)),
    }
    for field, (column, values) in fields.items():
        if wanted := tuple(values):
            params[f"t_{field}"] = _json(wanted)
            parts.append((field, one_of(column, f"t_{field}")))
    if query.project:
        place = of_project(tx, query, params, "t.cwd", "t.repo", archived=archived)
        parts.append(("project", place))
    if query.exclude:
        parts += _excluded(query, params)
    parts += [("entity", _MENTIONS.format(named=named)) for named in names_of(query, params)]
    if nodes.category is not None:
        params["category"] = nodes.category
        parts.append(("category", _OF_CATEGORY))
    parts += _span(query, "t.at", params)
    return Where(tuple(parts), params)


def _known(tx: Tx, query: Query, key: str) -> tuple[str, ...]:
    """Return the values of sessions that a query means; what none has may be a thing's alone."""
    given: tuple[str, ...] = getattr(query, key)
    if not given:
        return ()
    known = values_of(tx, key, everything=True)
    return tuple(value for one in given for value in (resolve(one, known) or [one]))


def of_project(
    tx: Tx,
    query: Query,
    params: dict[str, Any],
    cwd: str | None,
    repo: str | None,
    *,
    archived: bool = True,
    exact: bool = False,
    also: Iterable[str] = (),
) -> str:
    """Say that a row's folder or repository is of the projects that a query names.

    Names that are `also` known may be meant, beside those of sessions; whoever deletes means
    `exact` names.
    """
    named, folders = split_projects(query.project)
    known = list(also)
    if archived and not exact:
        known += values_of(tx, "project", everything=True)
    meant = dict.fromkeys(value for one in named for value in (resolve(one, known) or [one]))
    meant |= dict.fromkeys(aliases_of(tx, meant))
    choices = ["false"]
    for number, name in enumerate(meant):
        key = f"name{number}"
        params[key] = like(name)
        texts = [f"{repo} LIKE :{key}", f"{repo} LIKE '%/' || :{key}"] if repo else []
        below = ("", " || '/%'", " || '.worktrees/%'")
        texts += [f"{cwd} LIKE '%/' || :{key}{rest}" for rest in below] if cwd else []
        choices += [f"{text} ESCAPE '\\'" for text in texts]
    for number, folder in enumerate(folders):
        params[f"last{number}"] = f"%/{like(folder.rpartition('/')[2])}"
        # What has no folder, as runs of CI have none, is of the repository of that name.
        nowhere = f"{cwd} IS NULL AND " if cwd else ""
        choices += [f"{nowhere}'/' || {repo} LIKE :last{number} ESCAPE '\\'"] if repo else []
        choices += [is_below(cwd, folder, f"folder{number}", params)] if cwd else []
    return f"({' OR '.join(choices)})"


def aliases_of(tx: Tx, projects: Iterable[str]) -> list[str]:
    """Return what folders are called that belong to projects under another name."""
    if "tk_projects" not in tx.tables():
        return []
    shown = [one for one in projects if isinstance(to_sql(one), str)]  # no other name is shown
    return [row[0] for row in tx.all("names_of_projects", {"shown": _json(shown)})]


_EXCLUDED: Final = {"agent": "t.harness", "branch": "t.branch"}


def _excluded(query: Query, params: dict[str, Any]) -> list[tuple[str, str]]:
    parts = []
    for number, (key, value) in enumerate(query.exclude):
        params[f"never{number}"] = f"%{like(value)}%"
        columns = ("t.repo", "t.cwd") if key == "project" else (_EXCLUDED.get(key, "NULL"),)
        parts += [
            ("exclude", f"coalesce({one}, '') NOT LIKE :never{number} ESCAPE '\\'")
            for one in columns
        ]
    return parts


def _span(query: Query, column: str, params: dict[str, Any]) -> list[tuple[str, str]]:
    asked = (("since", ">=", query.since), ("until", "<", query.until))
    params |= {name: value for name, _, value in asked if value is not None}
    return [(name, f"{column} {op} :{name}") for name, op, value in asked if value is not None]


def _stored_kinds(kinds: Iterable[str]) -> list[str]:
    """Name kinds as the index does."""
    wanted = [STORED.get(one, one) for one in kinds]
    return [*wanted, "segment"] if "message" in wanted else wanted


def sides(scope: Scope) -> list[Side]:
    """Tell which indexes can have what a scope allows."""
    query = scope.query
    entries = (
        (not query.kind or "message" in query.kind)
        and scope.nodes.evidence in {None, "agent"}
        and scope.nodes.category is None
        and (not query.outcome or not _ENDED.keys().isdisjoint(query.outcome))
        and scope.sessions != ()
        and scope.archived
    )
    of_messages = any(getattr(query, name) for name in OF_MESSAGES_ALONE)
    things = not of_messages and query.kind != ("message",) and scope.placed
    return [side for side, there in zip(SIDES, (entries, things), strict=True) if there]


def _json(values: Iterable[Any]) -> str:
    return msgspec.json.encode(list(values)).decode()


# ------------------------------------------------------------------------------
# The same conditions for a thing that is in no index yet.


def is_within(scope: Scope, thing: Thing) -> bool:
    """Tell whether a scope allows a thing, as far as its row tells."""
    query = scope.query
    same: tuple[tuple[Iterable[str], str | None], ...] = (
        (() if scope.nodes.evidence is None else (scope.nodes.evidence,), thing.source),
        (query.agent, thing.harness),
        (query.branch, thing.branch),
        (query.outcome, thing.outcome),
    )
    if any(wanted and not _is_like(wanted, value) for wanted, value in same):
        return False
    at = thing.at or 0
    if (query.since is not None and at < query.since) or (
        query.until is not None and at >= query.until
    ):
        return False
    places = [place for place in (thing.cwd, thing.repo) if place]
    return not query.project or any(_is_of(place, query.project) for place in places)


def _is_like(wanted: Iterable[str], value: str | None) -> bool:
    return value is not None and any(resolve(one, [value]) for one in wanted)


def _is_of(place: str, projects: tuple[str, ...]) -> bool:
    named, folders = split_projects(projects)
    last = place.rstrip("/").rpartition("/")[2]
    below = (place == one or place.startswith(f"{one.rstrip('/')}/") for one in folders)
    return any(below) or any(resolve(one, [last]) for one in named)
