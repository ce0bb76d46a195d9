"""Sessions out of a store and into one: export in four formats, import of two of them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from threadkeep.base import json
from threadkeep.base.text import from_sql
from threadkeep.base.tx import Tx
from threadkeep.chat import journal
from threadkeep.chat.context import ChatContext, clean
from threadkeep.chat.export_formats import csv_table, json_array, json_document, jsonl, markdown
from threadkeep.chat.import_formats import Lines, Progress, SessionImport, read_sessions
from threadkeep.chat.raw_rows import SessionRows, insert_rows, load_rows, others_of, put_rows
from threadkeep.chat.records import Json, SessionRef, message_of, ref_id
from threadkeep.chat.recovery import refuse_if_running
from threadkeep.chat.rows import (
    CHUNK,
    COLUMNS,
    MESSAGE,
    PART,
    SESSION,
    foreign_message,
    need_session,
)
from threadkeep.chat.sessions import delete_session
from threadkeep.errors import Conflict, Damaged, Invalid

FORMATS = ("jsonl", "json", "csv", "markdown")
_FEW = 10

_Writer = Callable[[Iterable[SessionRows]], Iterator[str]]
_ONE: dict[str, _Writer] = {
    "jsonl": jsonl,
    "json": json_document,
    "csv": csv_table,
    "markdown": markdown,
}
_MANY: dict[str, _Writer] = {**_ONE, "json": json_array}


class SessionConflict(msgspec.Struct, frozen=True):
    """A session that was not imported, and why."""

    session_id: str
    place: str
    reason: str
    hint: str


class ImportReport(msgspec.Struct):
    """What an import did: the ids of the sessions, and how many messages and parts were added."""

    imported: list[str] = msgspec.field(default_factory=list)
    replaced: list[str] = msgspec.field(default_factory=list)
    updated: list[str] = msgspec.field(default_factory=list)
    unchanged: list[str] = msgspec.field(default_factory=list)
    conflicts: list[SessionConflict] = msgspec.field(default_factory=list)
    messages: int = 0
    parts: int = 0

    @property
    def ok(self) -> bool:
        """Tell whether every session of the input is now in the store as it was given."""
        return not self.conflicts

    def raise_for_conflicts(self) -> None:
        """Raise `Conflict` if a session was left out."""
        if self.conflicts:
            first = self.conflicts[0]
            more = f" (and {len(self.conflicts) - 1} more)" if self.conflicts[1:] else ""
            raise Conflict(f"{first.place}: {first.reason}{more}", hint=first.hint)


# ---------------------------------------------------------------------- export


def export(ctx: ChatContext, session: SessionRef, format: str = "jsonl") -> Iterator[str]:  # noqa: A002
    """Export a session as pieces of text: "jsonl" (canonical), "json", "csv" or "markdown".

    It is one snapshot, taken now, exact up to the last committed chunk. JSONL and JSON hold every
    column of every row as it is, and can be imported again. CSV and Markdown are for people: in
    CSV a text that a spreadsheet would run as a formula begins with an apostrophe, and Markdown
    shows the transcript, without hidden and queued messages.
    """
    write = _writer(_ONE, format)
    session_id = ref_id(session, "session")
    with ctx.db.read() as tx:
        need_session(tx, session_id)
        rows = load_rows(tx, session_id)
    # The snapshot ends here: a slow reader of the text must not keep the log from shrinking.
    return write([rows] if rows is not None else [])


def export_all(
    ctx: ChatContext,
    format: str = "jsonl",  # noqa: A002
    *,
    sessions: Iterable[SessionRef] | None = None,
    agent: str | None = None,
    archived: bool | None = None,
) -> Iterator[str]:
    """Export many sessions as one stream: those named, or all, oldest first.

    `archived` True takes only archived sessions, False leaves them out. Each session is one
    snapshot of its own; one that is deleted meanwhile is left out.
    """
    write = _writer(_MANY, format)
    with ctx.db.read() as tx:
        if sessions is None:
            params = {"agent": agent, "archived": archived}
            ids = [from_sql(row[0]) for row in tx.all("sessions_to_export", params)]
        else:
            ids = [need_session(tx, ref_id(session, "session")).id for session in sessions]
    return write(_each(ctx, ids))


def _writer(writers: dict[str, _Writer], name: str) -> _Writer:
    if name not in writers:
        msg = f"there is no export format {name!r}"
        raise Invalid(msg, hint="use one of: " + ", ".join(FORMATS))
    return writers[name]


def _each(ctx: ChatContext, ids: list[str]) -> Iterator[SessionRows]:
    for session_id in ids:
        with ctx.db.read() as tx:
            rows = load_rows(tx, session_id)
        if rows is not None:
            yield rows


# ---------------------------------------------------------------------- import


def import_sessions(
    ctx: ChatContext,
    lines: Lines,
    *,
    replace: bool = False,
    update: bool = False,
    progress: Progress | None = None,
) -> ImportReport:
    """Import what `export` returned as JSONL or JSON: an open file, lines, or the text itself.

    Each session is checked whole, then written whole or not at all, in one transaction. One that
    is there already with the same content changes nothing; with other content it is reported as
    a conflict and left alone, unless `replace` puts the new one in its place, or `update` brings in
    what is new in it: rows that are not here, and those that were changed there later than here.
    Input that is wrong raises `Invalid` with its line; the sessions before it stay imported. Ids,
    times and order are never changed; a redaction hook is applied to every text, so an import
    through it is not exact.
    `progress` hears the number of records read so far.
    """
    report = ImportReport()
    for incoming in read_sessions(lines, ctx.part_limit, progress):
        rows = _redacted(ctx, incoming.rows)
        try:
            with ctx.db.write() as tx:
                done, counted = _store(ctx, tx, rows, replace=replace, update=update)
        except Conflict as error:
            report.conflicts.append(_conflict(incoming, error))
            continue
        getattr(report, done).append(incoming.session_id)
        report.messages += counted[MESSAGE]
        report.parts += counted[PART]
    return report


def _conflict(incoming: SessionImport, error: Conflict) -> SessionConflict:
    return SessionConflict(incoming.session_id, incoming.place, error.message, error.hint)


def _store(
    ctx: ChatContext, tx: Tx, rows: SessionRows, *, replace: bool, update: bool
) -> tuple[str, Counter[str]]:
    """Write a session in this transaction; say what that made of it, and count the rows."""
    session_id = rows.session["id"]
    before = load_rows(tx, session_id)
    if before is not None:
        refuse_if_running(tx, session_id, "import it")
        differing = differences(before, rows)
        if not differing:
            return "unchanged", Counter()
        if update:
            return _update(ctx, tx, before, rows)
        if not replace:
            msg = f"session {session_id!r} exists with other content: {_listed(differing)}"
            raise Conflict(
                msg, hint="`ChatStore.import_sessions(replace=True)` replaces it with this one"
            )
        delete_session(ctx, tx, session_id)
    _refuse_taken(tx, rows)
    insert_rows(tx, rows)
    _check_stored(tx, rows)
    _note(ctx, tx, rows)
    return ("imported" if before is None else "replaced"), _counted(_flat(rows))


def _counted(rows: Iterable[tuple[tuple[str, str], Json]]) -> Counter[str]:
    return Counter(kind for (kind, _), _ in rows)


def _update(
    ctx: ChatContext, tx: Tx, before: SessionRows, rows: SessionRows
) -> tuple[str, Counter[str]]:
    newer = newer_rows(before, rows)
    if not newer:
        return "unchanged", Counter()
    session_id = rows.session["id"]
    here = {key for key, _ in _flat(before)}
    _refuse_taken(tx, _only(rows, newer.keys() - here))
    put_rows(tx, ((kind, row) for (kind, _), row in newer.items()))
    changed = [(kind, row_id) for kind, row_id in newer if kind != CHUNK]
    journal.note(ctx, tx, session_id, "import", changed)
    return "updated", _counted(newer.items())


def has_news(here: Tx, there: Tx, session_id: str) -> bool:
    """Tell whether another store's copy of a session has something that the one here lacks."""
    ours, theirs = load_rows(here, session_id), load_rows(there, session_id)
    return ours is not None and theirs is not None and bool(newer_rows(ours, theirs))


def newer_rows(here: SessionRows, there: SessionRows) -> dict[tuple[str, str], Json]:
    """Return the rows of a session that are only there, or were changed there later than here."""
    ours = dict(_flat(here))
    return {
        key: row
        for key, row in _flat(there)
        if key not in ours or (key[0] != CHUNK and _is_later(ours[key], row))
    }


def _is_later(ours: Json, theirs: Json) -> bool:
    return theirs["updated_at"] > ours["updated_at"] and bool(_differing_columns(ours, theirs))


def _only(rows: SessionRows, keys: set[tuple[str, str]]) -> SessionRows:
    """Return those messages and parts of a session that are named."""
    found = []
    for message, parts in rows.messages:
        some = [part for part in parts if (PART, part["id"]) in keys]
        if (MESSAGE, message["id"]) in keys:
            found.append((message, some))
    return SessionRows(rows.session, found, {})


def _refuse_taken(tx: Tx, rows: SessionRows) -> None:
    session_id = rows.session["id"]
    for message, parts in rows.messages:
        found = tx.one("get_message", {"id": message["id"]})
        if found is not None:
            raise foreign_message(message["id"], message_of(found).session_id, session_id)
        for part in parts:
            taken = tx.one("get_part", {"id": part["id"]})
            if taken is not None:
                msg = f"part {part['id']!r} belongs to session {from_sql(taken[2])!r}"
                raise Conflict(msg, hint="delete that session, or give the part another id")


def _check_stored(tx: Tx, rows: SessionRows) -> None:
    """Read everything back before the commit: the file must hold exactly what was given."""
    stored = load_rows(tx, rows.session["id"])
    differing = ["session"] if stored is None else differences(stored, rows)
    if differing:
        msg = f"session {rows.session['id']!r} was not stored as given: {_listed(differing)}"
        raise Damaged(msg, hint="nothing was imported; import into a fresh store")


def _note(ctx: ChatContext, tx: Tx, rows: SessionRows) -> None:
    """Leave one event per message, so that none is as large as the session."""
    session_id = rows.session["id"]
    journal.note(ctx, tx, session_id, "import", [(SESSION, session_id)])
    for message, parts in rows.messages:
        changed = [(MESSAGE, message["id"]), *((PART, part["id"]) for part in parts)]
        journal.note(ctx, tx, session_id, "import", changed)


# ---------------------------------------------------------------------- comparing


def differences(stored: SessionRows, given: SessionRows) -> list[str]:
    """Name what differs: a row and its columns, or a row that only one of the two has.

    What the input does not say about the columns of another program is no difference.
    """
    ours, theirs = dict(_flat(stored)), dict(_flat(given))
    found = []
    for key in ours | theirs:
        if key not in ours or key not in theirs:
            where = "here" if key in ours else "in the input"
            found.append(f"{key[0]} {key[1]!r} is only {where}")
        elif names := _differing_columns(ours[key], theirs[key]):
            found.append(f"{key[0]} {key[1]!r}: {', '.join(names)}")
    return found


def _flat(rows: SessionRows) -> Iterator[tuple[tuple[str, str], Json]]:
    yield (SESSION, rows.session["id"]), rows.session
    for message, parts in rows.messages:
        yield (MESSAGE, message["id"]), message
        for part in parts:
            yield (PART, part["id"]), part
        for number, chunk in enumerate(rows.chunks.get(message["id"], ()), 1):
            yield (CHUNK, f"{message['id']} {number}"), chunk


def _differing_columns(stored: Json, given: Json) -> list[str]:
    if json.encode(stored) == json.encode(given):  # JSON tells true from 1, Python does not
        return []
    return [name for name in given if json.encode(stored.get(name)) != json.encode(given[name])]


def _listed(differing: list[str]) -> str:
    more = f"; and {len(differing) - _FEW} more" if len(differing) > _FEW else ""
    return "; ".join(differing[:_FEW]) + more


# ---------------------------------------------------------------------- redaction


def _redacted(ctx: ChatContext, rows: SessionRows) -> SessionRows:
    if ctx.redact is None:
        return rows
    messages = [
        (_clean_row(ctx, MESSAGE, message), [_clean_row(ctx, PART, part) for part in parts])
        for message, parts in rows.messages
    ]
    chunks = {
        message_id: [_clean_row(ctx, CHUNK, chunk) for chunk in found]
        for message_id, found in rows.chunks.items()
    }
    return SessionRows(_clean_row(ctx, SESSION, rows.session), messages, chunks)


def _clean_row(ctx: ChatContext, kind: str, row: Json) -> Json:
    """Redact what people and models wrote; JSON in which nothing was found stays as it is."""
    cleaned: Json = {**row, **clean(ctx, others_of(kind, row))}
    for name in COLUMNS[kind]:
        value = row[name]
        if name.endswith("_json") and value is not None:
            cleaned[name] = _clean_json(ctx, value)
        elif name in ("title", "tool_call_id") and value is not None:
            cleaned[name] = clean(ctx, value)
    return cleaned


def _clean_json(ctx: ChatContext, text: str) -> str:
    value: Any = json.decode(text)
    cleaned = clean(ctx, value)
    return text if cleaned == value else json.encode(cleaned)
