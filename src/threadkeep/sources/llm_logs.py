"""llm: threads of content-addressed messages in one database, and the older responses beside them.

Equal openings are shared between threads, so a thread is walked from its last message up. Each call
of a model is a turn, which has its time and its tokens.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from threadkeep.base.sqlite.foreign import ForeignDatabase
from threadkeep.knowledge.records import Entry, SessionFacts, Usage
from threadkeep.sources.blocks import call, moment, result, spent, spoken
from threadkeep.sources.common import describe_input, numbered, rows, strange_name, table, text
from threadkeep.sources.copy_marks import MARK
from threadkeep.sources.format import Databases, Keyed, Told, decoded, read_rows
from threadkeep.sources.places import place

_THREAD: Final = ("id", "name", "tip_message_hash", "forked_from", "datetime_utc")
_TURN: Final = (
    *("id", "tip_message_hash", "model", "resolved_model", "input_tokens", "output_tokens"),
    *("token_details", "duration_ms", "datetime_utc"),
)
_PART: Final = ("id", "position", "type", "tool_name", "text", "payload")
_RESPONSE: Final = (
    *("id", "model", "resolved_model", "prompt", "system", "response", "reasoning"),
    *("input_tokens", "output_tokens", "token_details", "datetime_utc"),
)
HANDED_OVER: Final = "threadkeep"  # where sessions lie that were handed over, each in a database
_LONGEST: Final = 100_000  # messages of a thread: a chain in a damaged file may be a circle


def _sessions(database: ForeignDatabase) -> Iterator[tuple[str, object]]:
    turns = _counted(database, "turns", "thread_id")
    for row in read_rows(database, "threads", _THREAD, "ORDER BY id"):
        yield str(row.get("id")), (row, turns.get(row.get("id")))
    answers = _counted(database, "responses", "conversation_id")
    for row in read_rows(database, "conversations", ("id", "name", "model"), "ORDER BY id"):
        if row.get("id") in answers:
            yield str(row.get("id")), (row, answers[row.get("id")])


def _counted(database: ForeignDatabase, name: str, by: str) -> dict[object, tuple[Any, ...]]:
    if name not in database.tables() or by not in database.columns(name):
        return {}
    sql = f"SELECT {by}, count(*), max(id) FROM {name} GROUP BY {by}"  # noqa: S608
    return {row[0]: row[1:] for row in database.rows(sql)}


def _split(database: ForeignDatabase, session: str, _: Path) -> Iterator[Keyed]:
    thread = next(read_rows(database, "threads", _THREAD, "WHERE id = ?", (session,)), None)
    if thread is not None:
        yield from _thread(database, session, thread)
    else:
        yield from _conversation(database, session)


def _thread(database: ForeignDatabase, session: str, row: dict[str, Any]) -> Iterator[Keyed]:
    yield "thread", {"type": "thread", "id": session, "data": row}
    turns = list(read_rows(database, "turns", _TURN, "WHERE thread_id = ? ORDER BY id", (session,)))
    times = {turn.get("tip_message_hash"): turn for turn in turns}
    chain = _chain(database, row.get("tip_message_hash"))
    at = moment(turns[0].get("datetime_utc")) if turns else moment(row.get("datetime_utc"))
    for hash_, role, kept in chain:
        turn = times.get(hash_, {})
        at = moment(turn.get("datetime_utc")) or at
        parts = read_rows(
            *(database, "parts", _PART, "WHERE message_hash = ? ORDER BY position", (hash_,))
        )
        told = [_whole(database, part) for part in list(parts)]
        mark = {MARK: kept[MARK]} if MARK in kept else {}  # what a hand-off wrote
        about = {"type": "message", "id": f"{hash_}", "role": role, "at": at, **mark}
        yield str(hash_), {**about, "model": turn.get("model"), "parts": told}
    for turn in turns:
        told_turn = {**turn, "token_details": decoded(turn.get("token_details"))}
        yield str(turn.get("id")), {"type": "turn", "id": turn.get("id"), "data": told_turn}


def _whole(database: ForeignDatabase, part: dict[str, Any]) -> dict[str, Any]:
    """Return a part with what it only names: long texts that it borrows, and attachments."""
    own, payload = part.pop("id", None), decoded(part.get("payload"))
    borrowed = [table(piece) for piece in rows(table(payload).get("text_ref"))]
    if borrowed:
        ids = [str(piece["fragment"]) for piece in borrowed if "fragment" in piece]
        held = dict(zip(ids, _fragments(database, ids), strict=True))
        pieces = (
            held[str(piece["fragment"])] if "fragment" in piece else text(piece.get("literal"))
            for piece in borrowed
        )
        part["text"] = "".join(pieces)
    if part.get("type") == "attachment":
        part["text"] = " ".join(_attached(database, own))
    return {**part, "payload": payload}


def _fragments(database: ForeignDatabase, ids: Iterable[object]) -> list[str]:
    """Return long texts by their numbers; one that is not there is empty."""
    found = []
    for one in ids:
        kept = read_rows(database, "fragments", ("content",), "WHERE id = ?", (one,))
        found.append(text(next(kept, {}).get("content")))
    return found


def _named(
    database: ForeignDatabase, by: str, column: str, own: object, named: str
) -> list[object]:
    """Return what a table between two others names for a row, in its order."""
    if not {named, "order", column} <= set(database.columns(by)):
        return []
    sql = f'SELECT "{named}" FROM "{by}" WHERE "{column}" = ? ORDER BY "order"'  # noqa: S608
    return [row[0] for row in database.rows(sql, (own,))]


def _attached(database: ForeignDatabase, part: object) -> Iterator[str]:
    for one in _named(database, "part_attachments", "part_id", part, "attachment_id"):
        columns = ("type", "path", "url")
        row = next(read_rows(database, "attachments", columns, "WHERE id = ?", (one,)), {})
        yield text(row.get("path")) or text(row.get("url")) or text(row.get("type"))


def _chain(database: ForeignDatabase, tip: object) -> list[tuple[object, object, dict[str, Any]]]:
    """Walk from the last message up to the first; give them in order, with what is kept of them."""
    found: dict[object, tuple[object, dict[str, Any]]] = {}
    while tip is not None and tip not in found and len(found) < _LONGEST:
        wanted = ("role", "parent_hash", "provider_metadata")
        row = next(read_rows(database, "messages", wanted, "WHERE hash = ?", (tip,)), None)
        if row is None:
            break
        found[tip] = row.get("role"), table(decoded(row.get("provider_metadata")))
        tip = row.get("parent_hash")
    return [(hash_, *about) for hash_, about in reversed(found.items())]


def _conversation(database: ForeignDatabase, session: str) -> Iterator[Keyed]:
    """Read the tables of versions before threads; a tool's results stand with the next answer."""
    own = (session,)
    row = next(
        read_rows(database, "conversations", ("id", "name", "model"), "WHERE id = ?", own), {}
    )
    yield "thread", {"type": "thread", "id": session, "data": row}
    rest = "WHERE conversation_id = ? ORDER BY datetime_utc, id"
    for answer in read_rows(database, "responses", _RESPONSE, rest, own):
        by = (answer.get("id"),)
        asked, came = ("name", "arguments", "tool_call_id"), ("name", "output", "tool_call_id")
        where = "WHERE response_id = ? ORDER BY id"
        for name in ("prompt", "system"):
            ids = _named(
                database, f"{name}_fragments", "response_id", answer.get("id"), "fragment_id"
            )
            held = (*_fragments(database, ids), text(answer.get(name)))
            answer[name] = "\n".join(filter(None, held))
        record = {
            "type": "response",
            "id": answer.get("id"),
            "data": {**answer, "token_details": decoded(answer.get("token_details"))},
            "calls": [
                {**one, "arguments": decoded(one.get("arguments"))}
                for one in read_rows(database, "tool_calls", asked, where, by)
            ],
            "results": list(read_rows(database, "tool_results", (*came, "exception"), where, by)),
        }
        yield str(answer.get("id")), record


# ---------------------------------------------------------------------- reading


def _read(record: Any, number: int) -> Told:
    fields = table(record)
    data, key = table(fields.get("data")), text(fields.get("id")) or str(number)
    match fields.get("type"):
        case "thread":
            parent, title = text(data.get("forked_from")), text(data.get("name"))
            facts = SessionFacts(title=title, parent_session_id=parent)
            return Told(facts=facts)
        case "message":
            return _message(fields, key)
        case "turn":
            model = text(data.get("resolved_model")) or text(data.get("model"))
            return Told(usage=[_usage(data, key)], facts=SessionFacts(model=model))
        case "response":
            return _response(fields, data, key)
        case other:
            return Told(unknown=[strange_name(record, other)])


def _usage(turn: dict[str, Any], key: str) -> Usage:
    details = table(turn.get("token_details"))
    counts = {
        **turn,
        "cached": table(details.get("prompt_tokens_details")).get("cached_tokens"),
        "reasoning": table(details.get("completion_tokens_details")).get("reasoning_tokens"),
    }
    model = text(turn.get("resolved_model")) or text(turn.get("model"))
    names = ("input_tokens", "output_tokens", "cached", "")
    at = moment(turn.get("datetime_utc"))
    return spent(key, at, model, counts, names, reasoning="reasoning", inclusive=True)


def _message(fields: dict[str, Any], key: str) -> Told:
    told, at = Told(), moment(fields.get("at"))
    role, model = text(fields.get("role")), text(fields.get("model"))
    parts = fields.get("parts")
    for part in map(table, parts if isinstance(parts, list) else []):
        told.entries += _part(part, role, at, model, told.unknown)
    numbered(told.entries, key)
    return told


def _part(
    part: dict[str, Any], role: str, at: int | None, model: str, strange: list[str]
) -> list[Entry]:
    said, payload = text(part.get("text")), table(part.get("payload"))
    found: list[Entry] = []
    match part.get("type"):
        case "text":
            found = _spoken(role, said, at, model)
        case "reasoning":
            found = spoken("assistant", "reasoning", said, at, model)
        case "tool_call":
            named, own = text(payload.get("name")), text(payload.get("tool_call_id"))
            found = [call(named, own, payload.get("arguments"), at, model)]
        case "tool_result":
            found = [_result(payload, at)]
        case "attachment":
            found = spoken("user", "note", f"[attachment] {said}".strip(), at)
        case other:
            strange.append(strange_name(part, "part", other))
    return found


def _spoken(role: str, said: str, at: int | None, model: str) -> list[Entry]:
    if role == "user":
        return spoken("user", "prompt", said, at)
    if role == "system":
        return spoken("system", "note", said, at)
    return spoken("assistant", "text", said, at, model)


def _result(told: dict[str, Any], at: int | None) -> Entry:
    output, failed = told.get("output"), text(told.get("exception"))
    shown = text(output) or describe_input(output) or failed
    own, named = text(told.get("tool_call_id")), text(told.get("name"))
    return result(own, shown, at, named, error=bool(failed))


def _response(fields: dict[str, Any], data: dict[str, Any], key: str) -> Told:
    at, model = moment(data.get("datetime_utc")), text(data.get("model"))
    calls, results = fields.get("calls"), fields.get("results")
    found = spoken("system", "note", text(data.get("system")), at)
    found += [_result(table(one), at) for one in (results if isinstance(results, list) else [])]
    found += spoken("user", "prompt", text(data.get("prompt")), at)
    found += spoken("assistant", "reasoning", text(data.get("reasoning")), at, model)
    found += spoken("assistant", "text", text(data.get("response")), at, model)
    for asked in map(table, calls if isinstance(calls, list) else []):
        named, own = text(asked.get("name")), text(asked.get("tool_call_id"))
        found.append(call(named, own, asked.get("arguments"), at, model))
    return Told(numbered(found, key), [_usage(data, key)], facts=SessionFacts(model=model))


SOURCE: Final = Databases(
    agent="llm",
    label="llm",
    places=(
        place(
            (
                *("$LLM_USER_PATH", "{config}/io.datasette.llm", "{support}/io.datasette.llm"),
                "{roaming}/io.datasette.llm",
            ),
            *("logs.db", f"{HANDED_OVER}/*.db"),
        ),
    ),
    sessions=_sessions,
    split=_split,
    read=_read,
)
