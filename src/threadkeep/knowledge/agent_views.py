"""What agents ask of the contract's tables, in the shapes that the contract's own server gives."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from threadkeep.base.json import encode
from threadkeep.base.text import decoded
from threadkeep.base.tx import Tx
from threadkeep.knowledge.query import Query, refuse_fields
from threadkeep.knowledge.row_conditions import within
from threadkeep.knowledge.workflow_runs import RunDetails, run_details

MOST_ANNOTATIONS: Final = 10  # of each job
_MOST_LINKS: Final = 200
_MOST_NAMES: Final = 20
_NAME_LENGTH: Final = 200
# The names under which the contract's own programs know the sources.
_SOURCES: Final = {"event": "shell", "visit": "browser", "run": "workflow", "memory": "memory"}
_ASKED_BY: Final = ("text", "project", "since", "until")
_HARNESSES: Final = {"claude-code": "claude"}


class AgentNodeView(msgspec.Struct, frozen=True):
    """A piece of knowledge with what it says and what it rests on."""

    id: int
    uuid: str
    content: dict[str, Any]
    embed_text: str
    outcome: str
    tags: tuple[str, ...]
    created_at: int
    events: tuple[int, ...]
    segments: tuple[int, ...]
    visits: tuple[int, ...]
    sources: tuple[str, ...]  # shell-1, claude-5, browser-2, workflow-9, memory-3
    entities: tuple[str, ...]


class EventView(msgspec.Struct, frozen=True):
    """A command, a slice of an agent's session, or a visit to a page."""

    id: int
    source: str  # shell, claude, browser
    timestamp: int
    summary: str
    cwd: str
    detail: str
    git_branch: str


class AgentEntityView(msgspec.Struct, frozen=True):
    """Something that knowledge mentions."""

    type: str
    name: str
    canonical: str
    first_seen: int
    last_seen: int


class ProjectView(msgspec.Struct, frozen=True):
    """A place where something was done."""

    git_repo: str
    cwd_root: str
    last_seen: int


# ---------------------------------------------------------------------- nodes


def node_views(tx: Tx, ids: Iterable[int]) -> dict[int, AgentNodeView]:
    """Read nodes by their numbers."""
    rows = tx.all("viewed_nodes", {"ids": encode(list(ids))})
    return {row[0]: _node(tx, row) for row in rows}


def _node(tx: Tx, row: Sequence[Any]) -> AgentNodeView:
    number, uuid, content, embed_text, outcome, tags, created_at = row
    links = tx.all("viewed_links", {"id": number, "limit": _MOST_LINKS})
    names = tx.all("viewed_entities", {"id": number, "limit": _MOST_NAMES})
    return AgentNodeView(
        id=number,
        uuid=uuid,
        content=_object(content),
        embed_text=decoded(embed_text),
        outcome=decoded(outcome),
        tags=_strings(tags),
        created_at=created_at,
        events=tuple(n for kind, _, n in links if kind == "event"),
        segments=tuple(n for kind, _, n in links if kind == "segment"),
        visits=tuple(n for kind, _, n in links if kind == "visit"),
        sources=tuple(_source(kind, harness, n) for kind, harness, n in links),
        entities=tuple(decoded(name)[:_NAME_LENGTH] for (name,) in names),
    )


def _source(kind: str, harness: str, number: int) -> str:
    return f"{_SOURCES.get(kind) or _HARNESSES.get(harness, harness)}-{number}"


# ---------------------------------------------------------------------- events


def event_views(tx: Tx, source: str, query: Query, limit: int) -> list[EventView]:
    """Give what happened, the latest first: `shell`, `claude` (any agent), `browser`, or `all`."""
    refuse_fields(query, (*_ASKED_BY, "branch"), "events")
    values = _values(query, limit)
    found: list[EventView] = []
    if source in {"shell", "all"}:
        found += [_command(row) for row in tx.all("viewed_commands", values)]
    if source in {"claude", "all"}:
        found += [_segment(row) for row in tx.all("viewed_segments", values)]
    if source in {"browser", "all"}:  # a page has no project and no branch
        found += [_visit(row) for row in tx.all("viewed_visits", values)]
    found.sort(key=lambda one: one.timestamp, reverse=True)
    return found[:limit]


def _command(row: Sequence[Any]) -> EventView:
    number, at, command, code, took, cwd, branch = row
    told = f"exit={code} duration={took}ms"
    return EventView(number, "shell", at, decoded(command), decoded(cwd), told, decoded(branch))


def _segment(row: Sequence[Any]) -> EventView:
    number, at, summary, messages, tools, cwd, branch = row
    told = f"messages={messages} tools={tools}"
    return EventView(number, "claude", at, decoded(summary), decoded(cwd), told, decoded(branch))


def _visit(row: Sequence[Any]) -> EventView:
    number, at, url, title, domain, dwell, scroll = row
    told = f"dwell={dwell}ms scroll={int((scroll or 0) * 100)}%"
    summary = f"{domain} — {decoded(title) or decoded(url)}"
    return EventView(number, "browser", at, summary, "", told, "")


# ---------------------------------------------------------------------- entities, projects, CI


def entity_views(tx: Tx, kind: str | None, query: Query, limit: int) -> list[AgentEntityView]:
    """Return what knowledge mentions, seen last first."""
    refuse_fields(query, _ASKED_BY, "entities")
    rows = tx.all("viewed_all_entities", _values(query, limit, type=kind))
    return [AgentEntityView(t, decoded(name), decoded(same), a, b) for t, name, same, a, b in rows]


def project_views(tx: Tx, limit: int) -> list[ProjectView]:
    """Return the places where something was done, the latest first."""
    rows = tx.all("viewed_projects", {"limit": limit})
    return [ProjectView(decoded(repo), decoded(root), seen or 0) for repo, root, seen in rows]


def latest_run(tx: Tx, repo: str, sha: str | None, branch: str | None) -> RunDetails | None:
    """Give the latest run of a commit or a branch, or of the repository; None if there is none."""
    values = {"repo": repo, "sha": sha, "branch": None if sha else branch}
    found = tx.value("viewed_run", values)
    return None if found is None else run_details(tx, int(found))


# ---------------------------------------------------------------------- columns


def _values(query: Query, limit: int, **more: str | None) -> dict[str, Any]:
    """Give what a query asks for as the contract does: texts and projects are parts of a column."""
    return {
        "text": within(query.text) if query.text else None,
        "projects": encode([within(one) for one in query.project]),
        "branches": encode(query.branch),
        "since": query.since,
        "until": query.until,
        "limit": limit,
        **more,
    }


def _decoded(value: Any) -> Any:
    try:
        return msgspec.json.decode(decoded(value))
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


def _object(value: Any) -> dict[str, Any]:
    found = _decoded(value)
    return found if isinstance(found, dict) else {"summary": decoded(value)}


def _strings(value: Any) -> tuple[str, ...]:
    found = _decoded(value)
    return tuple(map(str, found)) if isinstance(found, list) else ()
