"""Factory Droid: one line log per session; model and tokens stand in the settings beside it."""

from pathlib import Path
from typing import Any, Final

import msgspec

from threadkeep.knowledge.records import Entry, SessionFacts
from threadkeep.sources.blocks import message_blocks, of_person, spent, spoken, without
from threadkeep.sources.common import (
    iso_ms,
    numbered,
    plain,
    rows,
    strange_name,
    table,
    text,
)
from threadkeep.sources.files import stored_object
from threadkeep.sources.format import DocumentFiles, Documents, Keyed, LineLogs, Told
from threadkeep.sources.places import place
from threadkeep.sources.records import Log

_AGENT: Final = "droid"
_LABEL: Final = "Factory Droid"
_ROOT: Final = "~/.factory/sessions"
_SETTINGS: Final = ".settings.json"
_REMINDER: Final = "system-reminder"
_COUNTS: Final = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheCreationTokens")


def _read(record: Any, number: int) -> Told:
    fields = table(record)
    told, at = Told(), iso_ms(fields.get("timestamp"))
    key = text(fields.get("id")) or str(number)
    match fields.get("type"):
        case "session_start":
            told.facts = _facts(fields)
        case "message":
            told.entries = _message(table(fields.get("message")), at, told.unknown)
            told.facts = SessionFacts(model=text(fields.get("model")))
        case "compaction_state":
            told.entries = spoken("system", "summary", text(fields.get("summary")), at)
        case "todo_state":
            pass
        case other:
            told.unknown.append(strange_name(record, other))
    for entry in numbered(told.entries, key):
        entry.parent = text(fields.get("parentId"))
    return told


def _facts(start: dict[str, Any]) -> SessionFacts:
    older = table(start.get("session"))
    titles = (start.get("sessionTitle"), start.get("title"), older.get("title"))
    return SessionFacts(
        title=next(filter(None, map(text, titles)), ""),
        cwd=text(start.get("cwd")) or text(older.get("cwd")),
    )


def _message(message: dict[str, Any], at: int | None, strange: list[str]) -> list[Entry]:
    content = message.get("content")
    if message.get("role") != "user":
        return message_blocks(content, at, text(message.get("model")), strange)
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else rows(content)
    told = message.get("visibility") == "user_only"  # a notice in the user's role
    found: list[Entry] = []
    for block in map(table, blocks):
        if block.get("type") == "text":
            said = without(text(block.get("text")), _REMINDER).strip()
            found += spoken("user", "note" if told else "prompt", said, at)
        else:
            found += of_person(message_blocks([block], at, "", strange))
    return found


def _project(log: Log) -> str:
    above = plain(Path(log.path).parent.name)
    return "" if above == "sessions" else above


def _identify(log: Log) -> Log:
    name = plain(Path(log.path).name)
    session = name.removesuffix(_SETTINGS).removesuffix(".jsonl")
    return msgspec.structs.replace(log, session_id=session, project_dir=_project(log))


SOURCE: Final = LineLogs(
    agent=_AGENT,
    label=_LABEL,
    places=(place(_ROOT, "*.jsonl", "*/*.jsonl"),),
    identify=_identify,
    read=_read,
)


# ---------------------------------------------------------------------- the settings of a session


def _split(files: DocumentFiles) -> list[Keyed]:
    lines = map(stored_object, files.beginning(f"{files.session_id}.jsonl"))
    begun = next(filter(None, (text(line.get("timestamp")) for line in lines)), "")
    return [("settings", {"id": files.session_id, "at": begun, "data": files.json()})]


def _read_settings(record: Any, _number: int) -> Told:
    fields = table(record)
    data, own = table(fields.get("data")), text(fields.get("id"))
    model, counts = text(data.get("model")), table(data.get("tokenUsage"))
    at = iso_ms(fields.get("at"))
    usage = spent(own, at, model, counts, _COUNTS, reasoning="thinkingTokens")
    return Told(usage=[usage], facts=SessionFacts(model=model))


USAGE: Final = Documents(
    agent=_AGENT,
    label=_LABEL,
    places=(place(_ROOT, f"*{_SETTINGS}", f"*/*{_SETTINGS}"),),
    identify=_identify,
    split=_split,
    read=_read_settings,
)
