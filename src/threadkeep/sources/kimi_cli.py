"""kimi-cli, which Kimi Code replaced: a line log of what a session showed, and what names it."""

from hashlib import md5
from pathlib import Path
from typing import Any, Final

import msgspec

from threadkeep.knowledge.records import Entry, SessionFacts
from threadkeep.sources.blocks import call, moment, result, spent, spoken
from threadkeep.sources.common import (
    block_text,
    describe_input,
    numbered,
    pictures,
    plain,
    rows,
    strange_name,
    table,
    text,
)
from threadkeep.sources.format import (
    DocumentFiles,
    Documents,
    Keyed,
    LineLogs,
    Told,
    decoded,
    named_by_folder,
)
from threadkeep.sources.places import place
from threadkeep.sources.records import Log

_AGENT: Final = "kimi-cli"
_LABEL: Final = "kimi-cli"
_ROOTS: Final = ("$KIMI_SHARE_DIR", "~/.kimi")
# What only the screen needs.
_QUIET: Final = frozenset(
    (
        *("TurnEnd", "StepBegin", "StepInterrupted", "StepRetry", "CompactionBegin"),
        *("CompactionEnd", "HookTriggered", "HookResolved", "HookRequest", "HookResponse"),
        *("MCPLoadingBegin", "MCPLoadingEnd", "ToolCallPart", "ApprovalRequest"),
        *("ApprovalResponse", "ApprovalRequestResolved", "QuestionRequest", "QuestionResponse"),
        *("ToolCallRequest", "PlanDisplay"),
    )
)
_COUNTS: Final = ("input_other", "output", "input_cache_read", "input_cache_creation")


def _read(record: Any, number: int) -> Told:
    fields = table(record)
    if fields.get("type") == "metadata":
        return Told()
    told = _event(table(fields.get("message")), moment(fields.get("timestamp")), number)
    numbered(told.entries, str(number))
    return told


def _event(message: dict[str, Any], at: int | None, number: int) -> Told:
    told, payload = Told(), table(message.get("payload"))
    kind = text(message.get("type"))
    match kind:
        case "TurnBegin" | "SteerInput":
            told.entries = _prompt(payload.get("user_input"), at)
        case "ContentPart":
            told.entries = _part(payload, at, told.unknown)
        case "ToolCall":
            function = table(payload.get("function"))
            given = decoded(function.get("arguments") or "{}")
            told.entries = [call(text(function.get("name")), text(payload.get("id")), given, at)]
        case "ToolResult":
            told.entries = [_result(payload, at)]
        case "StatusUpdate":
            told.usage = [_usage(payload, at, number)] if payload.get("token_usage") else []
        case "BtwBegin" | "BtwEnd" | "Notification":
            told.entries = _beside(payload, at)
        case "SubagentEvent" | "SubtaskEvent":
            return _event(table(payload.get("event")), at, number) if _costs(payload) else Told()
        case _ if kind not in _QUIET:
            told.unknown.append(strange_name(message, kind))
    return told


def _beside(payload: dict[str, Any], at: int | None) -> list[Entry]:
    """Read a question beside the conversation, its answer, or a notice."""
    names = ("question", "response", "error", "title", "body")
    shown = "\n".join(filter(None, (text(payload.get(name)) for name in names)))
    return spoken("system", "note", shown, at, error=bool(payload.get("error")))


def _costs(payload: dict[str, Any]) -> bool:
    """Tell whether an event of a subagent is of what it cost; its words are in its own result."""
    return table(payload.get("event")).get("type") == "StatusUpdate"


def _prompt(given: object, at: int | None) -> list[Entry]:
    found = spoken("user", "prompt", text(given) or block_text(given), at)
    for entry in found:
        entry.images = pictures(given)
    return found


def _part(part: dict[str, Any], at: int | None, strange: list[str]) -> list[Entry]:
    match part.get("type"):
        case "text":
            return spoken("assistant", "text", text(part.get("text")), at)
        case "think":
            return spoken("assistant", "reasoning", text(part.get("think")), at)
        case "image_url" | "audio_url" | "video_url":
            return []
        case other:
            strange.append(strange_name(part, "part", other))
            return []


def _result(payload: dict[str, Any], at: int | None) -> Entry:
    told = table(payload.get("return_value")) or table(payload.get("result"))
    output = told.get("output")
    shown = text(output) or block_text(output) or text(told.get("message"))
    shown = shown or (describe_input(output) if output else "")
    own, failed = text(payload.get("tool_call_id")), told.get("is_error") is True
    return result(own, shown, at, error=failed, images=pictures(output))


def _usage(payload: dict[str, Any], at: int | None, number: int) -> Any:
    counts = table(payload.get("token_usage"))
    told = ":".join(str(counts.get(name, 0)) for name in _COUNTS)
    key = text(payload.get("message_id")) or f"{at or number}:{told}"
    return spent(key, at, "", counts, _COUNTS)


def _identify(log: Log) -> Log:
    """Name a session as its folder, and a subagent's by both folders."""
    folder = Path(log.path).parent
    if folder.parent.name != "subagents":
        return named_by_folder(log)
    session = plain(folder.parent.parent.name)
    own = f"{session}/{plain(folder.name)}"
    return msgspec.structs.replace(log, session_id=own, parent_session_id=session, is_subagent=True)


SOURCE: Final = LineLogs(
    agent=_AGENT,
    label=_LABEL,
    places=(place([f"{root}/sessions" for root in _ROOTS], "*/*/wire.jsonl"),),
    identify=_identify,
    read=_read,
)


# ---------------------------------------------------------------------- what is known of a session


def _split(files: DocumentFiles) -> list[Keyed]:
    """Find the folder that a session is of: its own folder is named by the digest of that one."""
    digest = files.path.parent.parent.name
    known = [table(one) for one in rows(table(files.above("kimi.json", 3)).get("work_dirs"))]
    folders = [text(one.get("path")) for one in known]
    cwd = next((path for path in folders if _digest(path) == digest), "")
    title = text(table(files.json("state.json")).get("custom_title"))
    return [("about", {"cwd": cwd, "title": title})]


def _digest(path: str) -> str:
    return md5(path.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()


def _read_about(record: Any, _number: int) -> Told:
    fields = table(record)
    facts = SessionFacts(cwd=text(fields.get("cwd")), title=text(fields.get("title")))
    return Told(facts=facts)


NAMES: Final = Documents(
    agent=_AGENT,
    names=True,
    label=_LABEL,
    places=(place(_ROOTS, "sessions/*/*/context.jsonl"),),
    identify=named_by_folder,
    beside=("state.json",),
    split=_split,
    read=_read_about,
)
