"""Kiro's command line, once Amazon Q: a database of conversations, later a line log for each."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from threadkeep.base.sqlite.foreign import ForeignDatabase
from threadkeep.knowledge.records import Entry, SessionFacts
from threadkeep.sources.blocks import call, moment, result, spoken
from threadkeep.sources.common import (
    block_text,
    describe_input,
    numbered,
    rows,
    strange_name,
    table,
    text,
)
from threadkeep.sources.format import (
    Databases,
    DocumentFiles,
    Documents,
    Keyed,
    LineLogs,
    Told,
    decoded,
    read_rows,
)
from threadkeep.sources.places import place

_AGENT: Final = "kiro"
_LABEL: Final = "Kiro"

# ---------------------------------------------------------------------- the database

_TABLE: Final = "conversations_v2"


def _sessions(database: ForeignDatabase) -> Iterator[tuple[str, object]]:
    newest: dict[str, object] = {}
    order = "ORDER BY updated_at"
    for row in read_rows(database, _TABLE, ("conversation_id", "updated_at"), order):
        newest[text(row.get("conversation_id"))] = row
    yield from ((name, row) for name, row in newest.items() if name)


def _split(database: ForeignDatabase, session: str, _path: Path) -> Iterator[Keyed]:
    rest = "WHERE conversation_id = ? ORDER BY updated_at DESC LIMIT 1"
    columns = ("key", "value", "created_at")
    for row in read_rows(database, _TABLE, columns, rest, (session,)):
        told = table(decoded(row.get("value")))
        about = {"cwd": row.get("key"), "model": told.get("model")}
        yield "about", {"type": "about", "data": about}
        at = row.get("created_at")
        for number, turn in enumerate(map(table, rows(told.get("history")))):
            # What a tool gave back has no time: it came behind what was said before.
            at = table(turn.get("user")).get("timestamp") or at
            own = {"type": "turn", "id": f"{session}:{number}"}
            yield f"turn{number}", {**own, "at": at, "data": turn}
            at = table(turn.get("request_metadata")).get("stream_end_timestamp_ms") or at


def _read(record: Any, number: int) -> Told:
    fields = table(record)
    data, key = table(fields.get("data")), text(fields.get("id")) or str(number)
    match fields.get("type"):
        case "about":
            model = data.get("model")
            named = text(model) or text(table(model).get("model_id"))
            return Told(facts=SessionFacts(cwd=text(data.get("cwd")), model=named))
        case "turn":
            told = _turn(data, moment(fields.get("at")))
            numbered(told.entries, key)
            return told
        case other:
            return Told(unknown=[strange_name(record, other)])


def _turn(turn: dict[str, Any], at: int | None) -> Told:
    told, user = Told(), table(turn.get("user"))
    about = table(turn.get("request_metadata"))
    answered = moment(about.get("stream_end_timestamp_ms")) or at
    model = text(about.get("model_id"))
    for kind, asked in table(user.get("content")).items():
        fields = table(asked)
        if kind not in {"Prompt", "ToolUseResults", "CancelledToolUses"}:
            told.unknown.append(strange_name(user, "user", kind))
        told.entries += [_result(table(one), at) for one in rows(fields.get("tool_use_results"))]
        told.entries += spoken("user", "prompt", text(fields.get("prompt")), at)
    for kind, given in table(turn.get("assistant")).items():
        fields = table(given)
        if kind not in {"Response", "ToolUse"}:
            told.unknown.append(strange_name(turn, "assistant", kind))
        said = text(fields.get("content"))
        told.entries += spoken("assistant", "text", said, answered, model)
        for used in map(table, rows(fields.get("tool_uses"))):
            own, named = text(used.get("id")), text(used.get("name"))
            told.entries.append(call(named, own, used.get("args"), answered, model))
    told.facts = SessionFacts(model=model) if model else None
    return told


def _result(told: dict[str, Any], at: int | None) -> Entry:
    shown = [_shown(table(block)) for block in rows(told.get("content"))]
    failed = text(told.get("status")).lower() in {"error", "failed"}
    return result(text(told.get("tool_use_id")), "\n".join(shown), at, error=failed)


def _shown(block: dict[str, Any]) -> str:
    return text(block.get("Text")) or describe_input(next(iter(block.values()), ""))


SOURCE: Final = Databases(
    agent=_AGENT,
    label=_LABEL,
    places=(
        place(
            [
                f"{{{base}}}/{name}"
                for name in ("kiro-cli", "amazon-q")
                for base in ("data", "support", "local")
            ],
            "data.sqlite3",
        ),
    ),
    sessions=_sessions,
    split=_split,
    read=_read,
)


# ---------------------------------------------------------------------- line logs

_ROOTS: Final = ("~/.kiro/sessions", "~/.kiro/sessions/cli")


def _read_line(record: Any, number: int) -> Told:
    fields = table(record)
    told, kind = Told(), text(fields.get("kind"))
    if kind not in {"Prompt", "AssistantMessage", "ToolResults"}:
        return Told(unknown=[strange_name(record, kind)])
    data = table(fields.get("data"))
    about = table(data.get("meta"))
    at = moment(about.get("timestamp")) or moment(fields.get("timestamp"))
    for block in map(table, rows(data.get("content"))):
        told.entries += _block(kind, block, at, told.unknown)
    numbered(told.entries, text(data.get("message_id")) or str(number))
    return told


def _block(kind: str, block: dict[str, Any], at: int | None, strange: list[str]) -> list[Entry]:
    data = block.get("data")
    fields = table(data)
    own = text(fields.get("toolUseId"))
    found: list[Entry] = []
    match block.get("kind"):
        case "text" if kind == "Prompt":
            found = spoken("user", "prompt", text(data), at)
        case "text":
            found = spoken("assistant", "text", text(data), at)
        case "toolUse":
            found = [call(text(fields.get("name")), own, fields.get("input"), at)]
        case "toolResult":
            shown = [_line_shown(table(one)) for one in rows(fields.get("content"))]
            failed = text(fields.get("status")).lower() == "error"
            found = [result(own, "\n".join(shown), at, error=failed)]
        case "thinking":
            said = text(data) or text(fields.get("text"))
            found = spoken("assistant", "reasoning", said, at)
        case "image":
            found = [Entry("", "user", "note", at, "[image]")]
        case other:
            strange.append(strange_name(block, "block", other))
    return found


def _line_shown(block: dict[str, Any]) -> str:
    data = block.get("data")
    return text(data) or block_text([block]) or describe_input(data)


LINES: Final = LineLogs(
    agent=_AGENT, label=_LABEL, places=(place(_ROOTS, "*.jsonl"),), read=_read_line
)


def _split_about(files: DocumentFiles) -> list[Keyed]:
    told = table(files.json())
    kept = {name: told[name] for name in ("session_id", "cwd", "title") if name in told}
    return [("about", kept)] if "session_id" in kept else []


def _read_about(record: Any, _number: int) -> Told:
    fields = table(record)
    facts = SessionFacts(cwd=text(fields.get("cwd")), title=text(fields.get("title")))
    return Told(facts=facts)


NAMES: Final = Documents(
    agent=_AGENT,
    names=True,
    label=_LABEL,
    places=(place(_ROOTS, "*-*-*-*-*.json"),),
    split=_split_about,
    read=_read_about,
)
