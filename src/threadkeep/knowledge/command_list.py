"""What the store says about commands, visits and entities; probes are never among them."""

from typing import Any

import msgspec

from threadkeep.base.tx import Tx

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


class CommandFilter(msgspec.Struct, frozen=True):
    """Which commands: whatever is given narrows it."""

    session: int | None = None  # the row of the session
    terminal: str | None = None  # how its UUID begins
    since: int | None = None  # epoch milliseconds
    until: int | None = None
    project: str | None = None  # a part of the folder
    text: str | None = None  # a part of the command
    kind: str | None = None  # shell, claude-tool
    failed: bool = False  # only those that ended with an error


class TodayCounts(msgspec.Struct, frozen=True):
    """Counts since midnight (UTC), and what waits."""

    events: int
    sessions: int
    queue_depth: int
    queue_failed: int
    drops: int


ANY = CommandFilter()


def list_events(tx: Tx, wanted: CommandFilter = ANY, *, limit: int = 50) -> list[CommandRow]:
    """List commands, the latest first."""
    values = msgspec.structs.asdict(wanted) | {
        "terminal": None if wanted.terminal is None else _like(wanted.terminal) + "%",
        "text": _within(wanted.text),
        "project": _within(wanted.project),
        "failed": int(wanted.failed),
        "limit": limit,
    }
    rows = tx.all("list_events", values)
    return [CommandRow(**_as_event(row)) for row in rows]


def list_shell_sessions(tx: Tx, *, since: int | None = None, limit: int = 50) -> list[ShellSession]:
    """List sessions of shells, the latest first."""
    rows = tx.all("list_shell_sessions", {"since": since, "limit": limit})
    return [ShellSession(*row) for row in rows]


def list_visits(
    tx: Tx,
    *,
    since: int | None = None,
    until: int | None = None,
    domain: str | None = None,
    text: str | None = None,
    limit: int = 50,
) -> list[StoredVisit]:
    """List visits to pages, the latest first."""
    values = {"since": since, "until": until, "domain": domain, "text": _within(text)}
    return [StoredVisit(*row) for row in tx.all("list_visits", values | {"limit": limit})]


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


def _within(text: str | None) -> str | None:
    return None if text is None else f"%{_like(text)}%"


def _like(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
