"""Qwen Code: one line log per session, a tree of records in Gemini's words."""

from typing import Any, Final

import msgspec

from threadkeep.knowledge.records import Entry, SessionFacts, Usage
from threadkeep.sources.blocks import call, result, spent, spoken
from threadkeep.sources.common import (
    describe_input,
    iso_ms,
    numbered,
    pictures,
    rows,
    strange_name,
    table,
    text,
)
from threadkeep.sources.format import LineLogs, Told, named_by_file
from threadkeep.sources.places import place
from threadkeep.sources.records import Log

# What the program writes in the name of the user; a message between two steps is the user's own.
_TYPED: Final = frozenset(("", "mid_turn_user_message"))
_QUIET: Final = frozenset(
    (
        *("ui_telemetry", "attribution_snapshot", "at_command", "custom_title", "parent_session"),
        *("session_source", "session_model", "rewind", "file_history_snapshot", "goal_state"),
        *("branch_checkpoint", "turn_result", "realtime_message", "omni_recall", "goal_turn_end"),
        *("session_sources_snapshot", "background_task_completed", "user_text_elements"),
    )
)
_QUIET_FAMILIES: Final = ("agent_", "session_artifact_", "managed_session_")


def _read(record: Any, number: int) -> Told:
    fields = table(record)
    told = Told(facts=_facts(fields), session_id=text(fields.get("sessionId")))
    at, key = iso_ms(fields.get("timestamp")), text(fields.get("uuid")) or str(number)
    match fields.get("type"):
        case "user":
            told.entries = _user(fields, at)
        case "assistant":
            told.entries = _answer(fields, at, told.unknown)
            told.usage = _usage(fields, at, key)
        case "tool_result":
            told.entries = _results(fields, at)
        case "system":
            told.entries = _system(fields, at, told.unknown)
        case other:
            told.unknown.append(strange_name(record, other))
    for entry in numbered(told.entries, key):
        entry.parent = text(fields.get("parentUuid"))
    return told


def _facts(fields: dict[str, Any]) -> SessionFacts:
    payload = table(fields.get("systemPayload"))
    subtype = fields.get("subtype")
    return SessionFacts(
        cwd=text(fields.get("cwd")),
        version=text(fields.get("version")),
        git_branch=text(fields.get("gitBranch")),
        model=text(fields.get("model")),
        title=text(payload.get("customTitle")) or text(payload.get("title"))
        if subtype == "custom_title"
        else "",
        parent_session_id=text(payload.get("parentSessionId"))
        if subtype == "parent_session"
        else "",
    )


def _parts(fields: dict[str, Any]) -> list[dict[str, Any]]:
    return [table(part) for part in rows(table(fields.get("message")).get("parts"))]


def _user(fields: dict[str, Any], at: int | None) -> list[Entry]:
    parts = _parts(fields)
    shown = "\n".join(filter(None, (text(part.get("text")) for part in parts)))
    typed = text(fields.get("subtype")) in _TYPED
    found = spoken("user", "prompt" if typed else "note", shown, at)
    for entry in found:
        entry.images = pictures(parts)
    return found


def _answer(fields: dict[str, Any], at: int | None, strange: list[str]) -> list[Entry]:
    model, found = text(fields.get("model")), []
    for part in _parts(fields):
        asked = table(part.get("functionCall"))
        if asked:
            named, own = text(asked.get("name")), text(asked.get("id"))
            found.append(call(named, own, asked.get("args"), at, model))
        elif "text" in part:
            kind: Any = "reasoning" if part.get("thought") is True else "text"
            found += spoken("assistant", kind, text(part.get("text")), at, model)
        elif "inlineData" not in part and "fileData" not in part:
            strange.append(strange_name(part, "part", next(iter(part), "empty")))
    return found


def _usage(fields: dict[str, Any], at: int | None, key: str) -> list[Usage]:
    # The telemetry beside it tells the same once more.
    counts, model = table(fields.get("usageMetadata")), text(fields.get("model"))
    names = ("promptTokenCount", "candidatesTokenCount", "cachedContentTokenCount", "")
    thoughts = "thoughtsTokenCount"
    return [spent(key, at, model, counts, names, reasoning=thoughts, inclusive=True)]


def _results(fields: dict[str, Any], at: int | None) -> list[Entry]:
    told = table(fields.get("toolCallResult"))
    failed = text(told.get("status")) in {"error", "cancelled"}
    found = []
    for part in _parts(fields):
        came = table(part.get("functionResponse"))
        if came:
            response = table(came.get("response"))
            place_ = next((name for name in ("output", "error") if name in response), "")
            shown = response.get(place_) if place_ else response
            shown = shown if isinstance(shown, str) else describe_input(shown)
            own, named = text(came.get("id")), text(came.get("name"))
            found.append(result(own, shown, at, named, error=failed or "error" in response))
    if not found and told:
        display = told.get("resultDisplay")
        shown = text(display) or describe_input(display)
        found.append(result(text(told.get("callId")), shown, at, error=failed))
    return found


def _system(fields: dict[str, Any], at: int | None, strange: list[str]) -> list[Entry]:
    subtype, payload = text(fields.get("subtype")), table(fields.get("systemPayload"))
    if subtype == "chat_compression":
        return spoken("system", "summary", _summary(payload), at)
    if subtype == "slash_command":
        return _command(payload, at)
    if subtype not in _QUIET and not subtype.startswith(_QUIET_FAMILIES):
        strange.append(strange_name(fields, "system", subtype))
    return []


def _summary(payload: dict[str, Any]) -> str:
    """Return what a compression left: the first thing that the model is shown from then on."""
    left = next(iter(rows(payload.get("compressedHistory"))), None)
    parts = [table(part) for part in rows(table(left).get("parts"))]
    return "\n".join(filter(None, (text(part.get("text")) for part in parts)))


def _command(payload: dict[str, Any], at: int | None) -> list[Entry]:
    """Read a command of the program's own: it is written when it is given, and when it is done."""
    if payload.get("phase") != "result":
        return spoken("user", "note", text(payload.get("rawCommand")), at)
    shown = [table(item) for item in rows(payload.get("outputHistoryItems"))]
    told = [(text(item.get("text")), item.get("type") == "error") for item in shown]
    return [
        one for said, failed in told for one in spoken("system", "note", said, at, error=failed)
    ]


def _identify(log: Log) -> Log:
    named = named_by_file(log)
    parts = log.path.replace("\\", "/").split("/")
    above = parts[parts.index("projects") + 1] if "projects" in parts else ""
    return msgspec.structs.replace(named, project_dir=above)


SOURCE: Final = LineLogs(
    agent="qwen-code",
    label="Qwen Code",
    places=(
        place(
            ("$QWEN_RUNTIME_DIR/projects", "$QWEN_HOME/projects", "~/.qwen/projects"),
            *("*/chats/*.jsonl", "*/chats/archive/*.jsonl"),
        ),
    ),
    identify=_identify,
    read=_read,
)
