"""What the store says about captured sessions: lists, one by its id, its entries."""

from collections.abc import Sequence
from typing import Final

import msgspec

from threadkeep.base.clock import now_ms
from threadkeep.base.json import encode
from threadkeep.base.match import read_match
from threadkeep.base.paths import project_name
from threadkeep.base.tx import Sql, Tx
from threadkeep.errors import Conflict, NotFound
from threadkeep.knowledge import copies
from threadkeep.knowledge.copies import Links, note_origin
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.records import (
    _ENTRY_WIDTH,
    NOTES,
    CapturedSession,
    Entry,
    EntryRow,
    SessionFacts,
    to_entry,
    to_session,
)
from threadkeep.knowledge.schema import ENTRY_WORDS
from threadkeep.knowledge.session_sql import ENTRY, PROBE, SESSION, Where, meant_by, message_where

_AMBIGUOUS_SHOWN = 5
EVERYTHING = Query()


def find_session(
    tx: Tx, name: str, agent: str | Sequence[str] | None = None, *, exact: bool = False
) -> CapturedSession:
    """Find a session by its id, or by a beginning of it that only one has; of some agents, or any.

    Whoever deletes means agents by their `exact` names.
    """
    given = (agent,) if isinstance(agent, str) else tuple(agent or ())
    agents = meant_by(tx, Query(agent=given), "agent", everything=True, exact=exact).values
    before, _colon, rest = name.partition(":")
    if rest and not given and tx.one("session_totals_of", {"harness": before}) is not None:
        return find_session(tx, rest, before, exact=True)
    among = encode(agents) if given else None
    values = {"low": name, "high": name + "\U0010ffff", "agents": among}
    rows = tx.all("sessions_by_id", {**values, "limit": _AMBIGUOUS_SHOWN + 1})
    found = [to_session(row) for row in rows]
    whole = [session for session in found if session.session_id == name]
    if len(whole or found) == 1:
        return (whole or found)[0]
    if not found or not name:
        raise NotFound(f"there is no session {name!r}", hint="`threadkeep sessions` lists them")
    ids = ", ".join(f"{one.agent}:{one.session_id}" for one in found[:_AMBIGUOUS_SHOWN])
    raise Conflict(
        f"several sessions begin with {name!r}: {ids}", hint="use a longer prefix of the id"
    )


def children_of(tx: Tx, session: CapturedSession) -> list[CapturedSession]:
    """Return the sessions that a session started, in order."""
    values = {"session_id": session.session_id, "harness": session.agent}
    return [to_session(row) for row in tx.all("children_of", values)]


def links_of(tx: Tx, sessions: list[CapturedSession]) -> dict[int, Links]:
    """Return what sessions continue and are continued in, by their number, where there is any."""
    return copies.links_of(tx, [one.id for one in sessions])


def entries_of(tx: Tx, session: CapturedSession) -> list[EntryRow]:
    """Return the entries of a session, in the order of the archive."""
    return [to_entry(row) for row in tx.all("entries_of", {"session": session.id})]


def search_rows(
    tx: Tx,
    text: str,
    query: Query = EVERYTHING,
    *,
    newest: bool = False,
    limit: int = 20,
) -> list[tuple[EntryRow, CapturedSession, float]]:
    """Find entries by words: the best first, or the newest; the same text only once."""
    match = read_match(text)
    if match is None:
        return []
    chosen = message_where(tx, query, now_ms())
    rank = "0.0" if newest else "f.score"
    order = "coalesce(e.at, 0) DESC" if newest else "f.score"
    found_by = ENTRY_WORDS.matching if newest else ENTRY_WORDS.ranked
    asked = (ENTRY_WORDS.asked if newest else ENTRY_WORDS.scored)(tx, match)
    sql = (
        f"SELECT {ENTRY}, {SESSION}, {rank} FROM {found_by} AS f"  # noqa: S608  (our own)
        " JOIN tk_entries AS e ON e.id = f.id JOIN tk_sessions AS s ON s.id = e.session"
        f" WHERE {chosen.sql(PROBE)}"
        f" ORDER BY {order}, e.id DESC LIMIT :limit"
    )
    found: list[tuple[EntryRow, CapturedSession, float]] = []
    seen: set[int] = set()
    for row in tx.all(Sql(sql), {**chosen.params, "match": asked, "limit": limit * 3}):
        entry = to_entry(row)
        if entry.hash not in seen:
            seen.add(entry.hash)
            found.append((entry, to_session(row[_ENTRY_WIDTH:]), float(row[-1])))
    return found[:limit]


def latest_entries(
    tx: Tx, query: Query, upto: int, limit: int, session: int | None = None
) -> list[tuple[EntryRow, CapturedSession]]:
    """Return the last entries of the sessions that are meant, in their order; none after `upto`."""
    chosen = _followed(tx, query, session)
    sql = (
        f"SELECT {ENTRY}, {SESSION} FROM tk_sessions AS s"  # noqa: S608  (our own names)
        " CROSS JOIN tk_entries AS e WHERE e.session = s.id AND s.id IN"
        f" (SELECT s.id FROM tk_sessions AS s WHERE s.entries > 0 AND {chosen.sql('message')}"
        " ORDER BY s.ended_at DESC NULLS LAST, s.id DESC LIMIT :limit)"
        f" AND e.id <= :upto AND e.kind != 'copy' AND {chosen.sql()}"
        " ORDER BY coalesce(e.at, 0) DESC, e.id DESC LIMIT :limit"
    )
    rows = tx.all(Sql(sql), {**chosen.params, "upto": upto, "limit": limit})
    return [(to_entry(row), to_session(row[_ENTRY_WIDTH:])) for row in reversed(rows)]


def entries_after(
    tx: Tx, query: Query, mark: int, upto: int, session: int | None = None
) -> list[tuple[EntryRow, CapturedSession]]:
    """Return the entries between two numbers of the sessions that are meant, in their order."""
    chosen = _followed(tx, query, session)
    sql = (
        f"SELECT {ENTRY}, {SESSION} FROM tk_entries AS e"  # noqa: S608  (our own names)
        " CROSS JOIN tk_sessions AS s WHERE s.id = e.session AND e.id > :mark AND e.id <= :upto"
        f" AND e.kind != 'copy' AND {chosen.sql()} ORDER BY e.id"
    )
    rows = tx.each(Sql(sql), {**chosen.params, "mark": mark, "upto": upto})
    return [(to_entry(row), to_session(row[_ENTRY_WIDTH:])) for row in rows]


def _followed(tx: Tx, query: Query, session: int | None) -> Where:
    """Choose what is followed: one session, or all that a query means, but no internal ones."""
    chosen = message_where(tx, query, now_ms(), None if session is None else [session])
    hidden = () if session is not None else (("", "s.hidden <> 1"),)
    return chosen._replace(conditions=(*chosen.conditions, *hidden))


# ------------------------------------------------------------------------------
# The sessions of all programs: one row each, kept up to date as more of them is read.

_PREVIEW_CHARACTERS = 200
_MOST_BEHIND_MS = 30_000  # as long as the time between two looks at all logs


class Growth(msgspec.Struct):
    """What a batch adds to a session's row."""

    entries: int = 0
    prompts: int = 0
    tool_calls: int = 0
    errors: int = 0
    first_prompt: str = ""
    started_at: int | None = None
    ended_at: int | None = None

    def count(self, entry: Entry) -> None:
        """Add a new entry."""
        self.cover(entry)
        if entry.kind == "prompt":
            self.prompts += 1
            if not self.first_prompt:
                self.first_prompt = " ".join(entry.text[: 4 * _PREVIEW_CHARACTERS].split())
        elif entry.kind == "tool_call":
            self.tool_calls += 1
        self.errors += entry.error

    def cover(self, entry: Entry) -> None:
        """Add an entry that is there and was said elsewhere."""
        self.entries += 1
        if entry.at is not None:
            if self.started_at is None or entry.at < self.started_at:
                self.started_at = entry.at
            if self.ended_at is None or entry.at > self.ended_at:
                self.ended_at = entry.at


def session_number(tx: Tx, harness: str, session_id: str) -> int:
    """Return the row number of a session, and make the row if it is new."""
    found = known_number(tx, harness, session_id)
    if found is not None:
        return found
    return tx.insert("insert_session", {"harness": harness, "session_id": session_id})


def grow_session(tx: Tx, session: int, growth: Growth, *, live: bool = False) -> None:
    """Add a batch to a session's row.

    With the row eight lists are written. So while its log is watched (`live`) that waits for the
    next look at all logs, unless the session comes to stand elsewhere in them.
    """
    values = msgspec.structs.asdict(growth)
    values |= {"first_prompt": growth.first_prompt[:_PREVIEW_CHARACTERS], "session": session}
    if live and tx.value("session_may_wait", {**values, "ms": _MOST_BEHIND_MS}):
        return
    tx.run("grow_session", values)
    if live:
        recount(tx, session)  # what waited until now


def learn(tx: Tx, session: int, facts: SessionFacts) -> str:
    """Store what is known about a session, and give its project; what is empty changes nothing.

    The project is that of its folder's name. One that was found in another way stays: a linked
    work tree is of its repository (`place`), also when the tree is gone.
    """
    known, cwd, shown = _project_of(tx, session, facts.began_in or facts.cwd)
    if known and known != shown and (not shown or (cwd and known != _shown_as(tx, session, cwd))):
        shown = known
    values = msgspec.structs.asdict(facts)
    tx.run("learn_session", {**values, "project": shown, "session": session})
    if facts.continues:
        note_origin(tx, session, facts.continues)
    return shown


def place(tx: Tx, session: int, folder: str) -> None:
    """Store that a session is of the project of this folder, whatever folder it worked in."""
    shown = _shown_as(tx, session, folder)
    tx.run("place_session", {"project": shown, "session": session})


def _shown_as(tx: Tx, session: int, folder: str) -> str:
    return _project_of(tx, session, folder)[2]


def _project_of(tx: Tx, session: int, folder: str) -> tuple[str, str, str]:
    """Return the project and the folder of a session, and as what that of a folder is shown."""
    found = tx.one("project_of_session", {"session": session, "name": project_name(folder)})
    return ("", "", "") if found is None else (found[0], found[1], found[2])


def known_number(tx: Tx, harness: str, session_id: str) -> int | None:
    """Return the row number of a session, None if it has none."""
    found = tx.value("session_number", {"harness": harness, "session_id": session_id})
    return None if found is None else int(found)


def count_entries(tx: Tx, session: int) -> int:
    """Count the entries of a session, by its number."""
    return int(tx.value("count_session_entries", {"session": session}))


def unlearn_prompt(tx: Tx, session: int, prompt: str) -> None:
    """Take back how a session began, where it began so."""
    tx.run("unlearn_first_prompt", {"session": session, "prompt": prompt})


def unlearn(tx: Tx, session: int | None, facts: SessionFacts) -> None:
    """Take back the names that a log gave to a session."""
    told = {"title": facts.title, "agent": facts.agent, "slug": facts.slug}
    tx.run("unlearn_session", {**told, "session": session})


def recount(tx: Tx, session: int) -> None:
    """Recount a session's entries, after some of them were taken away."""
    tx.run("recount_session", {"session": session})


def recount_of_log(tx: Tx, log_id: int) -> None:
    """Recount the entries of all sessions of a log."""
    tx.run("recount_sessions_of_log", {"log": log_id})


# ------------------------------------------------------------------------------
# How far another program's slices were made into sessions.

_NOTED: Final = "noted"


def noted_so_far(tx: Tx) -> int:
    """Return the number of the last slice that was looked at to make sessions of it."""
    return int(tx.value("indexed_upto", {"kind": _NOTED}) or 0)


def has_unlisted(tx: Tx) -> bool:
    """Tell whether slices wait to become sessions in a file that nobody captures into."""
    last = int(tx.value("last_slice") or 0)
    if "tk_indexed" not in tx.tables():
        return last > 0
    return tx.value("captured_by_another", {"reader": NOTES}) is None and last > noted_so_far(tx)


def note_up_to(tx: Tx, last: int) -> None:
    """Note up to which slice sessions were made."""
    tx.run("indexed_on", {"kind": _NOTED, "upto": last, "rows": 0, "words": 0})
