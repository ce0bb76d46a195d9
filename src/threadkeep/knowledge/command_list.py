"""What the store says about commands, visits and entities; probes are never among them."""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from threadkeep.base.tx import Sql, Tx
from threadkeep.errors import Invalid
from threadkeep.knowledge.query import EVERYTHING, Query, refuse_others
from threadkeep.knowledge.row_conditions import RowConditions, within
from threadkeep.knowledge.session_sql import like, names_of, resolve

_MANY = 1_000_000


class CommandRow(msgspec.Struct, frozen=True):
    """A stored command or tool call."""

    id: int
    session_id: int
    timestamp: int
    command: str
    exit_code: int | None
    duration_ms: int
    cwd: str
    shell: str
    hostname: str
    git_repo: str | None
    git_branch: str | None
    git_commit: str | None
    git_dirty: bool | None
    source_kind: str
    tool_name: str | None
    enriched: bool
    stdout: str | None
    stderr: str | None
    session: str | None  # the session's UUID
    redaction_count: int


class ShellSession(msgspec.Struct, frozen=True):
    """A session of a shell, or of an agent whose tool calls are events."""

    id: int
    start_time: int
    end_time: int | None
    terminal: str | None
    shell: str
    hostname: str
    username: str
    summary: str | None
    commands: int


class StoredVisit(msgspec.Struct, frozen=True):
    """A stored visit to a page."""

    id: int
    timestamp: int
    url: str
    title: str | None
    domain: str
    dwell_ms: int
    scroll_depth: float | None
    search_query: str | None
    referrer: str | None
    extracted_text: str | None


class Entity(msgspec.Struct, frozen=True):
    """Something that captured work mentions."""

    id: int
    type: str
    name: str
    canonical: str | None
    first_seen: int
    last_seen: int


class TodayCounts(msgspec.Struct, frozen=True):
    """Counts since midnight (UTC), and what waits."""

    events: int
    sessions: int
    queue_depth: int
    queue_failed: int
    drops: int


_COMMANDS: Final = """SELECT e.id, e.session_id, e.timestamp, e.command, e.exit_code,
  e.duration_ms, e.cwd, e.shell, e.hostname, e.git_repo, e.git_branch, e.git_commit, e.git_dirty,
  e.source_kind, e.tool_name, e.enriched, e.stdout, e.stderr, s.terminal, e.redaction_count
FROM events AS e JOIN sessions AS s ON s.id = e.session_id WHERE {}
ORDER BY e.timestamp DESC, e.id DESC LIMIT :limit"""
_VISITS: Final = """SELECT b.id, b.timestamp, b.url, b.title, b.domain, b.dwell_ms, b.scroll_depth,
  b.search_query, b.referrer, b.extracted_text FROM browser_events AS b WHERE {}
ORDER BY b.timestamp DESC, b.id DESC LIMIT :limit"""
_ENDED: Final = {
    "success": "e.exit_code = 0",
    "failure": "e.exit_code <> 0",
    "unknown": "e.exit_code IS NULL",
}
_RAN_BY: Final = {"user": "shell", "tool": "claude-tool"}  # as the column says it
_OF_AGENT: Final = "claude-code"  # whose tool calls are commands
_ROW_DIGITS: Final = 8  # an id begins with as many; fewer are the number of a row
_NAME: Final = re.compile(r"[0-9A-Za-z_.-]+")


def list_events(tx: Tx, query: Query = EVERYTHING, *, limit: int = 50) -> list[CommandRow]:
    """List commands, the latest first; each has every word that is asked for."""
    refuse_others(query, "command")
    conditions = RowConditions(tx, query, ["e.probe_tag IS NULL"])
    conditions.words("e.command")
    conditions.span("e.timestamp")
    conditions.place("e.cwd", "e.git_repo", "events")
    conditions.branches("e.git_branch", "events")
    conditions.outcomes(_ENDED)
    conditions.any_of("e.tool_name", query.tool)
    _ran_by(conditions)
    _of_sessions(conditions)
    named = names_of(query, conditions.params)
    conditions.texts += [_MENTIONED.format(one) for one in named]
    return _commands(tx, conditions.texts, conditions.params, limit)


_MENTIONED: Final = """EXISTS (SELECT 1 FROM event_entities AS k
  JOIN entities AS n ON n.id = k.entity_id WHERE k.event_id = e.id AND ({}))"""


def contract_events(
    tx: Tx,
    *,
    session: int | None = None,
    since: int | None = None,
    folder: str | None = None,
    text: str | None = None,
    limit: int = 50,
) -> list[CommandRow]:
    """List commands as the contract asks: by a session's row, a part of the folder or command."""
    asked = (
        ("session", "e.session_id = :session", session),
        ("since", "e.timestamp >= :since", since),
        ("folder", "e.cwd LIKE :folder ESCAPE '\\'", None if folder is None else within(folder)),
        ("text", "e.command LIKE :text ESCAPE '\\'", None if text is None else within(text)),
    )
    texts = [condition for _, condition, value in asked if value is not None]
    params = {name: value for name, _, value in asked if value is not None}
    return _commands(tx, ["e.probe_tag IS NULL", *texts], params, limit)


def _commands(tx: Tx, texts: Sequence[str], params: dict[str, Any], limit: int) -> list[CommandRow]:
    rows = tx.all(Sql(_COMMANDS.format(" AND ".join(texts))), {**params, "limit": limit})
    return [CommandRow(**_as_event(row)) for row in rows]


def _ran_by(conditions: RowConditions) -> None:
    query = conditions.query
    if query.role:
        roles = [_RAN_BY[one] for one in query.role if one in _RAN_BY]
        conditions.any_of("e.source_kind", roles, asked=True)
    agents = [_RAN_BY["tool"] for one in query.agent if resolve(one, [_OF_AGENT])]
    conditions.any_of("e.source_kind", agents, asked=bool(query.agent))
    if any(key == "agent" and resolve(name, [_OF_AGENT]) for key, name in query.exclude):
        conditions.texts.append("e.source_kind = 'shell'")


def _of_sessions(conditions: RowConditions) -> None:
    """Say whose they are: a row's number, or how the id of a shell or session begins."""
    choices = []
    for number, given in enumerate(conditions.query.session):
        name = given.rpartition(":")[2]
        if not _NAME.fullmatch(name):
            hint = "give its number or the beginning of its id; --json shows both"
            raise Invalid(f"{given[:60]!r} is not a session", hint=hint)
        key = f"session{number}"
        is_row = name.isascii() and name.isdigit() and len(name) < _ROW_DIGITS
        conditions.params[key] = int(name) if is_row else f"{like(name)}%"
        choices.append(
            f"e.session_id = :{key}" if is_row else f"s.terminal LIKE :{key} ESCAPE '\\'"
        )
    if choices:
        conditions.texts.append(f"({' OR '.join(choices)})")


def list_shell_sessions(tx: Tx, *, since: int | None = None, limit: int = 50) -> list[ShellSession]:
    """List sessions of shells, the latest first."""
    rows = tx.all("list_shell_sessions", {"since": since, "limit": limit})
    return [ShellSession(*row) for row in rows]


def list_visits(
    tx: Tx, query: Query = EVERYTHING, *, domain: str | None = None, limit: int = 50
) -> list[StoredVisit]:
    """List visits to pages, the latest first; each has every word that is asked for."""
    refuse_others(query, "visit")
    conditions = RowConditions(tx, query, ["b.probe_tag IS NULL"])
    conditions.words("b.title", "b.url", "b.extracted_text")
    conditions.span("b.timestamp")
    if domain is not None:
        conditions.params["domain"] = domain
        conditions.texts.append("(b.domain = :domain OR b.domain LIKE '%.' || :domain)")
    sql = _VISITS.format(" AND ".join(conditions.texts))
    return [StoredVisit(*row) for row in tx.all(Sql(sql), {**conditions.params, "limit": limit})]


def list_entities(tx: Tx, *, kind: str | None = None, limit: int = _MANY) -> list[Entity]:
    """List entities, those seen last first."""
    return [Entity(*row) for row in tx.all("list_entities", {"type": kind, "limit": limit})]


def count_today(tx: Tx, midnight: int) -> TodayCounts:
    """Count what came since a moment, and what waits to be enriched."""
    row = tx.one("today", {"midnight": midnight})
    return TodayCounts(*(row or (0, 0, 0, 0, 0)))


def _as_event(row: tuple[Any, ...]) -> dict[str, Any]:
    event = dict(zip(CommandRow.__struct_fields__, row, strict=True))
    event["enriched"] = bool(event["enriched"])
    event["git_dirty"] = None if event["git_dirty"] is None else bool(event["git_dirty"])
    return event
