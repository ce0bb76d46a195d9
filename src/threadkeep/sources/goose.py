"""goose: all sessions in one database.

The ids of sessions count the day's sessions: they are unique in one database alone, so the time at
which a session began is added. Several calls of one answer are several rows that repeat what the
model thought; it is shown once. Tokens are those of the ledger, a row for each call of the model;
before there was one, the sums of the session stand in for it.

Older versions wrote a line log for each session. The database takes them in and leaves the files
where they are: their sessions keep their names there, and messages are known by their place.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from threadkeep.base.sqlite.foreign import ForeignDatabase
from threadkeep.knowledge.records import Entry, SessionFacts, Usage
from threadkeep.sources.blocks import (
    call,
    moment,
    of_person,
    result,
    shown_image,
    spent,
    spoken,
)
from threadkeep.sources.common import (
    block_text,
    describe_input,
    number as count,
    numbered,
    pictures,
    rows,
    strange_name,
    table,
    text,
)
from threadkeep.sources.copy_marks import MARK
from threadkeep.sources.format import Databases, Keyed, LineLogs, Told, decoded, read_rows
from threadkeep.sources.places import place
from threadkeep.sources.records import Log

_SESSION: Final = (
    *("id", "name", "description", "session_type", "working_dir", "created_at", "updated_at"),
    *("provider_name", "model_config_json", "goose_mode", "parent_session_id", "archived_at"),
    *("accumulated_input_tokens", "accumulated_output_tokens"),
    *("accumulated_cache_read_tokens", "accumulated_cache_write_tokens", "accumulated_cost"),
)
_MESSAGE: Final = (
    *("id", "message_id", "role", "content_json", "created_timestamp", "metadata_json"),
)
_LEDGER: Final = (
    *("id", "created_timestamp", "model", "input_tokens", "output_tokens", "cache_read_tokens"),
    *("cache_write_tokens", "cost", "is_compaction"),
)
_QUIET: Final = frozenset(
    (
        *("redactedThinking", "toolConfirmationRequest", "actionRequired"),
        *("summarizationRequested", "contextLengthExceeded"),
    )
)


_TIMED: Final = re.compile(r"\d{8}_\d{6}")  # how older versions named a session: by its time


def _name(row: dict[str, Any]) -> str:
    """Name a session: the day's number, and when it began."""
    begun, own = moment(row.get("created_at")), str(row.get("id"))
    return f"{own}@{begun // 1000:x}" if begun and not _TIMED.fullmatch(own) else own


def _own(name: str) -> str:
    return name.partition("@")[0]


def _sessions(database: ForeignDatabase) -> Iterator[tuple[str, object]]:
    counted: dict[object, tuple[Any, ...]] = {}
    if {"id", "session_id", "metadata_json"} <= set(database.columns("messages")):
        sql = (
            "SELECT session_id, count(*), max(id), sum(length(content_json)),"
            " sum(length(metadata_json)) FROM messages GROUP BY session_id"
        )
        counted = {row[0]: row[1:] for row in database.rows(sql)}
    spent_by: dict[object, tuple[Any, ...]] = {}
    if "session_id" in database.columns("usage_ledger"):
        sql = "SELECT session_id, count(*), max(id) FROM usage_ledger GROUP BY session_id"
        spent_by = {row[0]: row[1:] for row in database.rows(sql)}
    for row in read_rows(database, "sessions", _SESSION, "ORDER BY id"):
        own = row.get("id")
        yield _name(row), (row, counted.get(own), spent_by.get(own))


def _split(database: ForeignDatabase, session: str, _: Path) -> Iterator[Keyed]:
    own = (_own(session),)
    row = next(read_rows(database, "sessions", _SESSION, "WHERE id = ?", own), None)
    if row is None:
        return
    ledger = list(
        read_rows(database, "usage_ledger", _LEDGER, "WHERE session_id = ? ORDER BY id", own)
    )
    stands_in = not ledger
    about = {"type": "session", "id": session, "sums": stands_in, "data": _told(row)}
    above = (row.get("parent_session_id"),)
    asked_by = next(read_rows(database, "sessions", _SESSION, "WHERE id = ?", above), None)
    yield "session", {**about, "parent": _name(asked_by) if asked_by else ""}
    thought = ""
    rest = "WHERE session_id = ? ORDER BY id"
    messages = read_rows(database, "messages", _MESSAGE, rest, own)
    for place_, message in enumerate(messages, 1):
        again, thought = _repeats(message, thought)
        is_older = _TIMED.fullmatch(session)
        key = str(place_) if is_older else f"message{message.get('id')}"
        yield key, message_record(key, _told(message), repeats=again)
    for spent_ in ledger:
        key = f"usage{spent_.get('id')}"
        yield key, {"type": "usage", "id": f"{session}:{key}", "data": _told(spent_)}


def message_record(key: str, row: dict[str, Any], *, repeats: bool = False) -> dict[str, Any]:
    """Return the record of a message; a hand-off's mark stands in one of its blocks."""
    blocks = map(table, rows(row.get("content_json")))
    places = (table(block.get(name)) for block in blocks for name in ("_meta", "data"))
    mark = next(({MARK: place[MARK]} for place in places if MARK in place), {})
    return {"type": "message", "id": key, "repeats": repeats, "data": row, **mark}


def _told(row: dict[str, Any]) -> dict[str, Any]:
    """Return the columns that have a value, JSON as what it says."""
    return {
        name: decoded(value) if name.endswith("_json") else value
        for name, value in row.items()
        if value is not None and not isinstance(value, bytes)
    }


def _repeats(message: dict[str, Any], before: str) -> tuple[bool, str]:
    """Tell whether a row repeats the thought of the answer that it belongs to; give its own.

    Each further call of an answer is a row of its own, behind the result of the one before.
    """
    blocks = [table(one) for one in rows(decoded(message.get("content_json")))]
    if message.get("role") != "assistant":
        is_result = any(one.get("type") == "toolResponse" for one in blocks)
        return False, before if is_result else ""
    own = next(filter(None, (text(one.get("thinking")) for one in blocks)), "")
    return bool(own) and own == before, own or before


def _read(record: Any, number: int) -> Told:
    fields = table(record)
    data, key = table(fields.get("data")), text(fields.get("id")) or str(number)
    match fields.get("type"):
        case "session":
            told = _session(data, key, stands_in=fields.get("sums") is True)
            return _below(told, text(fields.get("parent")))
        case "message":
            return _message(data, key, repeats=fields.get("repeats") is True)
        case "usage":
            names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
            at, model = moment(data.get("created_timestamp")), text(data.get("model"))
            return Told(usage=[spent(key, at, model, data, names, inclusive=True)])
        case other:
            return Told(unknown=[strange_name(record, other)])


def _below(told: Told, parent: str) -> Told:
    if told.facts is not None:
        told.facts.parent_session_id = parent
    return told


def _session(row: dict[str, Any], key: str, *, stands_in: bool) -> Told:
    kind = text(row.get("session_type"))
    model = text(table(row.get("model_config_json")).get("model_name"))
    facts = SessionFacts(
        title=text(row.get("name")) or text(row.get("description")),
        cwd=text(row.get("working_dir")),
        model=model,
        agent=text(row.get("goose_mode")),
        is_subagent=kind == "sub_agent",
        hidden=kind == "hidden",
    )
    usage: list[Usage] = []
    if stands_in:
        names = ("input", "output", "cache_read", "cache_write")
        counts = {name: count(row.get(f"accumulated_{name}_tokens")) for name in names}
        at = moment(row.get("updated_at"))
        usage = [spent(f"{key}:sums", at, model, counts, names, inclusive=True)]
    return Told(facts=facts, usage=usage)


def _message(row: dict[str, Any], key: str, *, repeats: bool) -> Told:
    about, told = table(row.get("metadata_json")), Told()
    at = moment(row.get("created_timestamp"))
    model = text(table(about.get("inference")).get("requestedModel"))
    typed = about.get("userVisible") is not False and about.get("turnContext") is not True
    person = row.get("role") == "user"
    for block in map(table, rows(row.get("content_json"))):
        found = _block(block, at, model, told.unknown)
        found = of_person(found, typed=typed) if person else found
        told.entries += [one for one in found if not (repeats and one.kind == "reasoning")]
    numbered(told.entries, key)
    return told


def _block(block: dict[str, Any], at: int | None, model: str, strange: list[str]) -> list[Entry]:
    found: list[Entry] = []
    kind, own = text(block.get("type")), text(block.get("id"))
    match kind:
        case "text":
            found = spoken("assistant", "text", text(block.get("text")), at, model)
        case "thinking":
            found = spoken("assistant", "reasoning", text(block.get("thinking")), at, model)
        case "toolRequest" | "frontendToolRequest":
            asked = table(table(block.get("toolCall")).get("value"))
            found = [call(text(asked.get("name")), own, asked.get("arguments"), at, model)]
        case "toolResponse":
            found = [_result(table(block.get("toolResult")), own, at)]
        case "image":
            found = [shown_image([block], at)]
        case "systemNotification":
            failed = table(block.get("data")).get("error") is True
            found = spoken("system", "note", text(block.get("msg")), at, error=failed)
        case _ if kind not in _QUIET:
            strange.append(strange_name(block, "block", kind))
    return found


def _result(told: dict[str, Any], own: str, at: int | None) -> Entry:
    value = table(told.get("value"))
    content = value.get("content") or told.get("value")  # older versions have the list itself
    shown = block_text(content) or text(told.get("error")) or describe_input(told.get("error"))
    failed = told.get("status") == "error" or value.get("isError") is True
    return result(own, shown, at, error=failed, images=pictures(content))


_ROOTS: Final = (
    *("$GOOSE_PATH_ROOT/data/sessions", "{data}/goose/sessions"),
    "{roaming}/Block/goose/data/sessions",
)
_FILE: Final = "sessions.db"
SOURCE: Final = Databases(
    agent="goose",
    label="goose",
    places=(place(_ROOTS, _FILE),),
    sessions=_sessions,
    split=_split,
    read=_read,
)


# ---------------------------------------------------------------------- line logs


def _read_line(record: Any, number: int) -> Told:
    """Read a line: the first is about the session, each other one a message."""
    fields = table(record)
    if "role" not in fields:
        return _session({**fields, "name": fields.get("description")}, "", stands_in=True)
    renamed = {
        "content_json": fields.get("content"),
        "created_timestamp": fields.get("created"),
        "metadata_json": fields.get("metadata"),
    }
    return _message({**fields, **renamed}, str(number), repeats=False)


def _not_taken_in(logs: Iterable[Log]) -> list[Log]:
    """Leave out the logs beside a database: it has taken them in."""
    return [log for log in logs if not Path(log.path).with_name(_FILE).exists()]


LOGS: Final = LineLogs(
    agent="goose",
    label="goose",
    places=(place(_ROOTS, "[0-9]*_[0-9]*.jsonl"),),
    read=_read_line,
    prefer=_not_taken_in,
)
