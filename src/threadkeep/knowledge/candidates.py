"""Candidates: which messages and things have certain words, inside what is asked about."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from threadkeep.base.tx import Tx
from threadkeep.knowledge.layout import names

Side = Literal["entry", "thing"]
SIDES: Final[tuple[Side, ...]] = ("entry", "thing")
# Counting goes no further: what is more frequent is told from the part that was seen.
COUNTED: Final = 8_000
_NO_LIMIT: Final = -1
_TURN_BITS: Final = 24


class Scope(NamedTuple):
    """What candidates are limited to; None means anything."""

    project: str | None = None
    source: str | None = None  # shell, agent, browser, ci, memory
    harness: str | None = None
    since: int | None = None
    until: int | None = None
    branch: str | None = None
    entity: str | None = None
    role: str | None = None
    outcome: str | None = None
    kinds: tuple[str, ...] | None = None
    category: str | None = None  # of memories
    sessions: tuple[int, ...] | None = None  # rows of tk_sessions, found by the fields above
    archived: bool = True  # the file has messages
    placed: bool = True  # the file says where messages stand, and knows of other things

    @property
    def is_narrow(self) -> bool:
        """Tell whether anything is asked of a candidate."""
        return any(value is not None for value in self[:-2])


# A row that has certain words: its id in tk_entries or tk_things; its place in its conversation,
# whose neighbours differ by one (below zero it has none); how many words it has, 0 if unknown.
# A plain tuple, as SQLite gives it: one query reads thousands.
Posting = tuple[int, int, int]


class CandidateFacts(NamedTuple):
    """What ranking needs of a candidate beside its words."""

    at: int | None
    kind: str
    hash: int
    row: int = 0  # of a thing in its own table


def place_of(session: int, turn: int) -> int:
    """Give the place of something said: one number, whose neighbours stand beside it."""
    return session << _TURN_BITS | turn


def narrowed(tx: Tx, scope: Scope) -> Scope:
    """Find the sessions that a scope allows, once for all queries."""
    tables = names(tx, "table")
    scope = scope._replace(archived="tk_entry_words" in tables, placed="tk_turns" in tables)
    fields = (scope.project, scope.harness, scope.branch, scope.entity, scope.since, scope.until)
    if all(field is None for field in fields):
        return scope
    if not scope.archived:
        return scope._replace(sessions=())
    sessions = {row[0] for row in tx.all("sessions_within", _values(scope))}
    if scope.entity is not None:
        found = tx.all("sessions_with_entity", {"entity": scope.entity})
        sessions &= {row[0] for row in found}
    return scope._replace(sessions=tuple(sorted(sessions)))


def sides(scope: Scope) -> list[Side]:
    """Tell which indexes can have what a scope allows."""
    kinds = scope.kinds
    entries = (
        (kinds is None or "message" in kinds)
        and scope.source in {None, "agent"}
        and scope.outcome in {None, "success", "failure"}
        and scope.sessions != ()
        and scope.category is None
        and scope.archived
    )
    things = scope.role is None and kinds != ("message",) and scope.placed
    return [side for side, there in zip(SIDES, (entries, things), strict=True) if there]


def frequency(tx: Tx, side: Side, match: str, rows: int) -> int:
    """Count the rows that have words; of frequent ones it is an estimate."""
    count, last = tx.one(f"has_words_{side}", {"match": match, "bound": COUNTED}) or (0, 0)
    return int(count if count < COUNTED else max(COUNTED, COUNTED * rows / max(last, 1)))


def sizes(tx: Tx, among: Sequence[Side]) -> dict[Side, int]:
    """Give about how many rows each index has."""
    return {side: int(tx.value(f"last_id_{side}") or 0) for side in among}


def averages(tx: Tx, scope: Scope) -> dict[Side, float]:
    """Give how many words a row has on average."""
    found = tx.all("averages_of_words") if scope.placed else []
    known = {row[0]: row[1] / max(row[2], 1) for row in found}
    return {"entry": known.get(1) or 1.0, "thing": known.get(0) or 1.0}


def postings(
    tx: Tx, side: Side, match: str, scope: Scope, limit: int | None = None
) -> list[Posting]:
    """Give the rows that have words, the newest first."""
    values = {**_values(scope), "match": match, "limit": _NO_LIMIT if limit is None else limit}
    if side == "thing":
        query = "things_with_words_within" if scope.is_narrow else "things_with_words"
    elif not scope.placed:
        query = "entries_with_words_plainly"
    else:
        query = "entries_with_words_within" if scope.is_narrow else "entries_with_words"
    return tx.all(query, values)


def newest(tx: Tx, side: Side, scope: Scope, limit: int) -> list[Posting]:
    """Give the newest rows that a scope allows, whatever their words."""
    plural = {"entry": "entries", "thing": "things"}[side]
    values = {**_values(scope), "limit": limit}
    return tx.all(f"newest_{plural}_within", values)


def standing_at(tx: Tx, places: Iterable[int]) -> dict[int, int]:
    """Find the messages that stand at places: id by place."""
    turns = (1 << _TURN_BITS) - 1
    pairs = [(place >> _TURN_BITS, place & turns) for place in places]
    rows = tx.all("entries_at_turns", {"places": msgspec.json.encode(pairs).decode()})
    return {place_of(session, turn): entry for session, turn, entry in rows}


def entry_facts(tx: Tx, ids: Iterable[int], scope: Scope) -> dict[int, CandidateFacts]:
    """Give what ranking needs of messages that are there and allowed."""
    rows = tx.all("found_entries", {**_values(scope), "ids": _json(ids)})
    return {row[0]: CandidateFacts(*row[1:4]) for row in rows}


def thing_facts(tx: Tx, ids: Iterable[int]) -> dict[int, CandidateFacts]:
    """Give what ranking needs of things that are there."""
    return {
        row[0]: CandidateFacts(*row[1:5]) for row in tx.all("found_things", {"ids": _json(ids)})
    }


def entries_of_sessions(tx: Tx, sessions: Iterable[int], limit: int) -> list[int]:
    """Give what was said in some sessions, at most so many messages."""
    values = {"sessions": _json(sessions), "limit": limit}
    return [row[0] for row in tx.all("entries_of_sessions", values)]


def things_of(tx: Tx, kind: str, rows: Iterable[int], scope: Scope) -> dict[int, int]:
    """Find the things of certain rows of one kind that a scope allows: id by row."""
    found = tx.all("things_by_rows", {**_values(scope), "kind": kind, "rows": _json(rows)})
    return {row: number for number, row in found}


def _json(values: Iterable[Any] | None) -> str | None:
    return None if values is None else msgspec.json.encode(list(values)).decode()


def _values(scope: Scope) -> dict[str, Any]:
    values = scope._asdict()
    folder = "" if scope.project is None else scope.project.rstrip("/") or "/"
    last = folder.rpartition("/")[2] or folder
    relative = bool(folder) and not folder.startswith("/")
    return {
        **values,
        "project": folder or None,
        "project_name": last if relative else None,
        "project_below": f"{_escaped(folder.rstrip('/'))}/%" if folder else None,
        "project_named": f"%/{_escaped(last)}" if relative else None,
        "project_in": f"%/{_escaped(last)}/%" if relative else None,
        "kinds": _json(_stored_kinds(scope.kinds)),
        "sessions": _json(scope.sessions),
    }


def _stored_kinds(kinds: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """A slice of a session that is not archived counts as what was said in it."""
    if kinds is None:
        return None
    return (*kinds, "segment") if "message" in kinds else kinds


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
