"""Zed: threads of its own agent in one database, each a packed document. They have no times."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from threadkeep.base.sqlite.foreign import ForeignDatabase
from threadkeep.knowledge.records import Entry, SessionFacts, Usage
from threadkeep.sources.blocks import call, moment, result, spent, spoken
from threadkeep.sources.common import (
    describe_input,
    numbered,
    rows,
    strange_name,
    table,
    text,
)
from threadkeep.sources.files import unpacked
from threadkeep.sources.format import Databases, Keyed, Told, decoded, read_rows
from threadkeep.sources.places import place

_THREAD: Final = (
    *("id", "summary", "updated_at", "created_at", "parent_id", "folder_paths"),
    "folder_paths_order",
)
_COUNTS: Final = (
    *("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
)


def _sessions(database: ForeignDatabase) -> Iterator[tuple[str, object]]:
    for row in read_rows(database, "threads", _THREAD, "ORDER BY id"):
        yield str(row.get("id")), row


def _split(database: ForeignDatabase, thread: str, _: Path) -> Iterator[Keyed]:
    wanted = (*_THREAD, "data_type", "data")
    row = next(read_rows(database, "threads", wanted, "WHERE id = ?", (thread,)), None)
    if row is None:
        return
    data = row.pop("data", None)
    document = table(decoded(unpacked(data) if row.get("data_type") == "zstd" else data))
    messages = rows(document.pop("messages", None))
    yield "thread", {"type": "thread", "id": thread, "row": row, "data": document}
    begun = moment(row.get("created_at")) or moment(row.get("updated_at"))
    for number, message in enumerate(messages):
        inside = table(message)
        own = text(table(inside.get("User")).get("id"))
        key = f"{thread}:{own or number}"
        # A millisecond apart, so that one that is written again stays in its place.
        at = begun + number if begun else None
        yield key, {"type": "message", "id": key, "at": at, "data": message}


def _read(record: Any, number: int) -> Told:
    fields = table(record)
    key = text(fields.get("id")) or str(number)
    match fields.get("type"):
        case "thread":
            return _thread(table(fields.get("row")), table(fields.get("data")), key)
        case "message":
            told = _message(fields.get("data"), moment(fields.get("at")))
            numbered(told.entries, key)
            return told
        case other:
            return Told(unknown=[strange_name(record, other)])


def _thread(row: dict[str, Any], thread: dict[str, Any], own: str) -> Told:
    model = text(table(thread.get("model")).get("model"))
    trees = table(thread.get("initial_project_snapshot")).get("worktree_snapshots")
    tree = table(next(iter(rows(trees)), None))
    above = text(row.get("parent_id"))
    parent = above or text(table(thread.get("subagent_context")).get("parent_thread_id"))
    folders = text(row.get("folder_paths")).split("\n")
    facts = SessionFacts(
        title=text(thread.get("title")) or text(row.get("summary")),
        cwd=folders[0] or text(tree.get("worktree_path")),
        git_branch=text(table(tree.get("git_state")).get("current_branch")),
        model=model,
        agent=text(thread.get("profile")),
        parent_session_id=parent,
        is_subagent=bool(parent),
    )
    return Told(usage=_usage(thread, own, moment(row.get("updated_at")), model), facts=facts)


def _usage(thread: dict[str, Any], own: str, at: int | None, model: str) -> list[Usage]:
    """What the last request of each prompt took; the sum of them all is not always kept."""
    asked = table(thread.get("request_token_usage"))
    return [
        spent(f"{own}:{prompt}", at, model, table(counts), _COUNTS)
        for prompt, counts in asked.items()
    ]


def _message(message: object, at: int | None) -> Told:
    told, fields = Told(), table(message)
    if "User" in fields:
        for part in rows(table(fields["User"]).get("content")):
            told.entries += _asked(table(part), at, told.unknown)
    elif "Agent" in fields:
        told.entries = _answer(table(fields["Agent"]), at, told.unknown)
    elif "Compaction" in fields:
        inside = fields["Compaction"]
        summary = table(inside).get("Summary")
        shown = text(inside) or text(summary) or text(table(summary).get("text"))
        told.entries = spoken("system", "summary", shown, at)
    elif "role" in fields:
        told.entries = _older(fields, at, told.unknown)
    elif message != "Resume":
        told.unknown.append(strange_name(message, "message", next(iter(fields), "")))
    return told


def _asked(part: dict[str, Any], at: int | None, strange: list[str]) -> list[Entry]:
    found: list[Entry] = []
    if "Text" in part:
        found = spoken("user", "prompt", text(part["Text"]), at)
    elif "Mention" in part:
        named = table(part["Mention"]).get("uri")
        found = spoken("user", "note", f"[file] {describe_input(named)}", at)
    elif "Image" in part:
        found = spoken("user", "note", "[image]", at)
    else:
        strange.append(strange_name(part, "user", next(iter(part), "")))
    return found


def _answer(answer: dict[str, Any], at: int | None, strange: list[str]) -> list[Entry]:
    results = table(answer.get("tool_results"))
    found: list[Entry] = []
    for part in map(table, rows(answer.get("content"))):
        used = table(part.get("ToolUse"))
        if "Text" in part:
            found += spoken("assistant", "text", text(part["Text"]), at)
        elif "Thinking" in part:
            found += spoken("assistant", "reasoning", text(table(part["Thinking"]).get("text")), at)
        elif used:
            own, tool = text(used.get("id")), text(used.get("name"))
            found.append(call(tool, own, used.get("input"), at))
            if own in results:
                found.append(_came(own, table(results[own]), at))
        elif "RedactedThinking" not in part:
            strange.append(strange_name(part, "agent", next(iter(part), "")))
    return found


def _came(own: str, told: dict[str, Any], at: int | None) -> Entry:
    content = told.get("content")
    shown = text(content) or text(table(content).get("Text")) or describe_input(content)
    shown = shown or text(told.get("output"))
    tool = text(told.get("tool_name"))
    return result(own, shown, at, tool, error=told.get("is_error") is True)


def _older(message: dict[str, Any], at: int | None, strange: list[str]) -> list[Entry]:
    """Read a message of versions up to 0.2.0."""
    person = message.get("role") == "user"
    found: list[Entry] = []
    for part in map(table, rows(message.get("segments"))):
        said = text(part.get("text"))
        if part.get("type") == "text" and person:
            found += spoken("user", "prompt", said, at)
        elif part.get("type") == "text":
            found += spoken("assistant", "text", said, at)
        elif part.get("type") == "thinking":
            found += spoken("assistant", "reasoning", said, at)
        elif text(part.get("type")) not in {"redacted_thinking", "redactedthinking"}:
            strange.append(strange_name(part, "segment", part.get("type")))
    for used in map(table, rows(message.get("tool_uses"))):
        own, tool = text(used.get("id")), text(used.get("name"))
        found.append(call(tool, own, used.get("input"), at))
    for came in map(table, rows(message.get("tool_results"))):
        found.append(_came(text(came.get("tool_use_id")), came, at))
    return found


SOURCE: Final = Databases(
    agent="zed",
    label="Zed",
    places=(
        place(("{data}/zed/threads", "{support}/Zed/threads", "{local}/Zed/threads"), "threads.db"),
    ),
    sessions=_sessions,
    split=_split,
    read=_read,
)
