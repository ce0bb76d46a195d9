"""What the store says about captured sessions: lists, one by its id, its entries."""

from typing import Any

import msgspec

from threadkeep.base.fts import match_query
from threadkeep.base.tx import Tx
from threadkeep.errors import Conflict, NotFound
from threadkeep.knowledge import copies
from threadkeep.knowledge.context import KnowledgeContext
from threadkeep.knowledge.copies import Links

_AMBIGUOUS_SHOWN = 5


class CapturedSession(msgspec.Struct, frozen=True):
    """One captured session."""

    id: int
    harness: str
    session_id: str
    parent_session_id: str | None
    is_subagent: bool
    hidden: bool
    title: str
    agent: str
    model: str
    cwd: str
    project: str
    git_branch: str
    slug: str
    version: str
    first_prompt: str
    started_at: int | None
    ended_at: int | None
    entries: int
    prompts: int
    tool_calls: int
    errors: int

    @property
    def name(self) -> str:
        """What to call it in a list: its title, else how it began."""
        return self.title or self.first_prompt or self.slug or self.session_id


_WIDTH = len(CapturedSession.__struct_fields__)


class EntryRow(msgspec.Struct, frozen=True):
    """Where an entry stands in the archive, and what it is."""

    id: int
    session: int
    key: str
    log_id: int
    line: int
    part: int
    role: str
    kind: str
    at: int | None
    tool: str | None
    error: bool
    hash: int


_ENTRY_WIDTH = len(EntryRow.__struct_fields__)


class CapturedSessionFilter(msgspec.Struct, frozen=True):
    """Which sessions are meant; None means any."""

    harness: str | None = None
    project: str | None = None  # a folder with all below it, or its last component
    branch: str | None = None
    since: int | None = None
    until: int | None = None

    def params(self) -> dict[str, Any]:
        """Give the values for the queries."""
        values = msgspec.structs.asdict(self)
        below = None if self.project is None else f"{_escaped(self.project.rstrip('/'))}/%"
        return {**values, "project_below": below}


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def list_sessions(
    _: KnowledgeContext,
    tx: Tx,
    among: CapturedSessionFilter = CapturedSessionFilter(),  # noqa: B008  (a constant)
    *,
    everything: bool = False,
    parent: str | None = None,
    after: CapturedSession | None = None,
    limit: int = 50,
) -> list[CapturedSession]:
    """List sessions, the latest first; subagents and internal threads only with `everything`.

    `after` is the last session of the page before.
    """
    page = {
        "after_at": None if after is None else after.ended_at or 0,
        "after_id": None if after is None else after.id,
    }
    wanted = {"all": everything or parent is not None, "parent": parent, "limit": limit}
    rows = tx.all("list_sessions", {**among.params(), **page, **wanted})
    return [to_session(row) for row in rows]


def find_session(
    _: KnowledgeContext, tx: Tx, name: str, harness: str | None = None
) -> CapturedSession:
    """Find a session by its id, or by a beginning of it that only one has."""
    if harness is None and ":" in name:
        given, _colon, rest = name.partition(":")
        if tx.one("session_totals_of", {"harness": given}) is not None:
            return find_session(_, tx, rest, given)
    values = {"low": name, "high": name + "\U0010ffff", "harness": harness}
    rows = tx.all("sessions_by_id", {**values, "limit": _AMBIGUOUS_SHOWN + 1})
    found = [to_session(row) for row in rows]
    exact = [session for session in found if session.session_id == name]
    if len(exact or found) == 1:
        return (exact or found)[0]
    if not found or not name:
        raise NotFound(f"there is no session {name!r}", hint="`threadkeep sessions` lists them")
    ids = ", ".join(f"{one.harness}:{one.session_id}" for one in found[:_AMBIGUOUS_SHOWN])
    raise Conflict(f"several sessions begin with {name!r}: {ids}", hint="give more of the id")


def children_of(_: KnowledgeContext, tx: Tx, session: CapturedSession) -> list[CapturedSession]:
    """Give the sessions that a session started, in order."""
    values = {"session_id": session.session_id, "harness": session.harness}
    return [to_session(row) for row in tx.all("children_of", values)]


def links_of(_: KnowledgeContext, tx: Tx, sessions: list[CapturedSession]) -> dict[int, Links]:
    """Give what sessions continue and are continued in, by their number, where there is any."""
    return copies.links_of(tx, [one.id for one in sessions])


def entries_of(_: KnowledgeContext, tx: Tx, session: CapturedSession) -> list[EntryRow]:
    """Give the entries of a session, in the order of the archive."""
    return [to_entry(row) for row in tx.all("entries_of", {"session": session.id})]


def search_rows(
    _: KnowledgeContext,
    tx: Tx,
    text: str,
    among: CapturedSessionFilter = CapturedSessionFilter(),  # noqa: B008  (a constant)
    *,
    role: str | None = None,
    kind: str | None = None,
    session_id: str | None = None,
    newest: bool = False,
    limit: int = 20,
) -> list[tuple[EntryRow, CapturedSession, float]]:
    """Find entries by words: the best first, or the newest; the same text only once."""
    match = match_query(text)
    if match is None:
        return []
    said = {"role": role, "kind": kind, "session_id": session_id, "match": match}
    query = "search_newest" if newest else "search_entries"
    found: list[tuple[EntryRow, CapturedSession, float]] = []
    seen: set[int] = set()
    for row in tx.all(query, {**among.params(), **said, "limit": limit * 3}):
        entry = to_entry(row)
        if entry.hash not in seen:
            seen.add(entry.hash)
            found.append((entry, to_session(row[_ENTRY_WIDTH:]), float(row[-1])))
    return found[:limit]


def to_session(row: tuple[Any, ...]) -> CapturedSession:
    """Make a session of a row that begins with its columns."""
    values = list(row[:_WIDTH])
    values[4], values[5] = bool(values[4]), bool(values[5])
    return CapturedSession(*values)


def to_entry(row: tuple[Any, ...]) -> EntryRow:
    """Make an entry of a row that begins with its columns."""
    values = list(row[:_ENTRY_WIDTH])
    values[-2] = bool(values[-2])
    return EntryRow(*values)
