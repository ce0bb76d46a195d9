"""Cursor's transcripts of older releases: a text file or a JSON file, written whole each time.

Both are turned into the lines of today's transcripts, one block each, numbered in their order.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from threadkeep.base.json import decode_line
from threadkeep.errors import Invalid
from threadkeep.knowledge.records import Entry
from threadkeep.sources.common import rows, table, text
from threadkeep.sources.cursor.agent_transcripts import (
    TRANSCRIPTS,
    find_transcripts,
    read_line,
    slug_of,
)
from threadkeep.sources.cursor.messages import AGENT, CursorParser
from threadkeep.sources.cursor.paths import projects_root
from threadkeep.sources.files import file_bytes
from threadkeep.sources.records import DocumentItem, Log, UserHome

_MARK: Final = re.compile(r"(user|assistant):\s*|\[(Thinking|Tool call|Tool result)\] ?(.*)")
_ARGUMENT: Final = re.compile(r" {1,4}([A-Za-z_][\w.-]*): ?(.*)")
_BETTER: Final = {".jsonl": 0, ".json": 1, ".txt": 2}


class OldCursorTranscripts:
    """Reads `*.txt` and `*.json` transcripts."""

    agent = AGENT
    kind: Literal["lines", "document"] = "document"

    def roots(self, user: UserHome) -> list[Path]:
        """Name the folders to look into and to watch."""
        return [projects_root(user)]

    def find(self, user: UserHome) -> Iterator[Log]:
        """Yield the old transcripts of conversations that have no newer one."""
        best: dict[str, str] = {}
        found = [log for log in find_transcripts(user, *_BETTER) if _is_transcript(Path(log.path))]
        for log in sorted(found, key=lambda log: _BETTER[Path(log.path).suffix]):
            best.setdefault(log.session_id, log.path)
        for log in found:
            if best[log.session_id] == log.path and not log.path.endswith(".jsonl"):
                yield log

    def parser(self, log: Log, state: bytes | None) -> CursorParser:
        """Make a parser that starts afresh, or continues from a state."""
        return CursorParser(log, state, read_line, slug_of(log.path))

    def entries(self, record: Any, line: bytes, number: int) -> list[Entry]:  # noqa: ARG002
        """Read one record alone."""
        reading = read_line(record, number).reading
        return [said.entry for said in reading.said] if reading else []

    def items(self, log: Log) -> Iterable[DocumentItem]:
        """Yield the one conversation of the file."""
        return [DocumentItem(log.session_id, ":".join(map(str, log.stamp)))]

    def records(self, log: Log, item: str) -> Iterable[tuple[str, bytes]]:  # noqa: ARG002
        """Yield the blocks of the conversation as lines."""
        raw = file_bytes(Path(log.path), log.root)
        blocks = _from_json(raw) if log.path.endswith(".json") else _from_text(raw)
        for position, (role, content) in enumerate(blocks):
            line = {"n": position, "role": role, "message": {"content": content}}
            yield str(position), msgspec.json.encode(line)


def _is_transcript(path: Path) -> bool:
    """Tell a transcript from other files beside it: it lies on top, or is named like its folder."""
    return path.suffix == ".jsonl" or path.parent.name in {TRANSCRIPTS, "subagents", path.stem}


def _from_json(raw: bytes) -> Iterator[tuple[str, list[Any]]]:
    try:
        found = decode_line(raw)
    except Invalid:
        return
    for value in found:
        inside = table(value)
        messages = value if isinstance(value, list) else inside.get("messages")
        for message in rows(messages if messages is not None else inside.get("conversation")):
            told = table(message)
            yield text(told.get("role")) or "unknown", list(_json_blocks(told))


def _json_blocks(message: dict[str, Any]) -> Iterator[Any]:
    if isinstance(message.get("thinking"), str):
        yield {"type": "thinking", "thinking": message["thinking"]}
    inner = message.get("message")
    content = table(inner).get("content") if isinstance(inner, dict) else inner
    for given in (content, message.get("content"), message.get("text")):
        if isinstance(given, str):
            yield {"type": "text", "text": given}
        yield from rows(given)
    for call in _one_or_many(message, "toolCall", "toolCalls"):
        name = call.get("name") or call.get("toolName")
        yield {"type": "tool_use", "name": name, "input": call.get("input", call.get("args"))}
    for result in _one_or_many(message, "toolResult", "toolResults"):
        name = result.get("name") or result.get("toolName")
        content = result.get("content", result.get("result"))
        yield {"type": "tool_result", "name": name, "content": content}


def _one_or_many(message: dict[str, Any], one: str, many: str) -> list[dict[str, Any]]:
    return [table(value) for value in [message.get(one), *rows(message.get(many))] if table(value)]


def _from_text(raw: bytes) -> Iterator[tuple[str, list[Any]]]:
    role, kind, name = "", "", ""
    lines: list[str] = []
    for line in raw.decode("utf-8", "replace").splitlines():
        mark = _MARK.fullmatch(line)
        if mark is None and not (kind == "Tool call" and _is_behind(line, lines)):
            lines.append(line)
            continue
        yield from _text_block(role, kind, name, lines)
        lines = []
        if mark is None:
            kind, name = "", ""
            lines.append(line)
        elif mark[1]:
            role, kind, name = mark[1], "", ""
        else:
            kind, name = mark[2], mark[3]
            if kind == "Thinking":
                lines.append(name)
    yield from _text_block(role, kind, name, lines)


def _is_behind(line: str, lines: list[str]) -> bool:
    """Tell whether a line follows the arguments of a call: it is not indented, after a gap."""
    return bool(line.strip()) and not line.startswith(" ") and lines[-1:] == [""]


def _text_block(
    role: str, kind: str, name: str, lines: list[str]
) -> Iterator[tuple[str, list[Any]]]:
    said = "\n".join(lines).strip()
    if not role or not (said or name):
        return
    if kind == "Tool call":
        yield role, [{"type": "tool_use", "name": name.strip(), "input": _arguments(lines)}]
    elif kind == "Tool result":
        yield "tool", [{"type": "tool_result", "name": name.strip(), "content": said}]
    elif kind == "Thinking":
        yield role, [{"type": "thinking", "thinking": said}]
    else:
        yield role, [{"type": "text", "text": said}]


def _arguments(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    last = ""
    for line in lines:
        argument = _ARGUMENT.fullmatch(line)
        if argument:
            last = argument[1]
            found[last] = argument[2]
        elif last and line.strip():
            found[last] += f"\n{line}"
    return found


SOURCE = OldCursorTranscripts()
