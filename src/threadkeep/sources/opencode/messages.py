"""OpenCode's conversations: a record for the session, each message and each part of one.

A part's record repeats what its message says about it (role, model, whether it is a compaction),
so that it can be read alone.
"""

import hashlib
import re
import struct
from typing import Any, Final

import msgspec

from threadkeep.base.json import compact
from threadkeep.knowledge.records import Entry, Kind, Role, Segment, SessionFacts, Usage
from threadkeep.sources.common import (
    PROMPT_CHARACTERS,
    TEXT_CHARACTERS,
    describe_input,
    number,
    pictures,
    rows,
    table,
    text,
)
from threadkeep.sources.copy_marks import marked, read_mark
from threadkeep.sources.records import Harvest, Log

# ------------------------------------------------------------------------------
# The one segment of an OpenCode session, word for word as the contract writes it.
#
# Its prompts and tool calls are not stored in their columns but are part of the summary and of the
# hash, together with the counts of changed lines, the changes and the files.

_TOOL_CHARACTERS: Final = 300
_OUTPUT_CHARACTERS: Final = 120
_PATH_CHARACTERS: Final = 240
_SHOWN_PROMPTS: Final = 20
_SHOWN_TOOLS: Final = 40
_SHOWN_FILES: Final = 40
_SHOWN_TEXTS: Final = 10
_OBJECT_KEYS: Final = (
    *("command", "cmd", "filePath", "file_path", "path", "query", "pattern", "description"),
)


class OpencodeSession(msgspec.Struct):
    """What has been seen of a session; of what is given twice only the first counts."""

    session: dict[str, Any] | None = None
    prompts: dict[str, None] = {}
    tools: dict[str, None] = {}
    texts: dict[str, None] = {}
    files: dict[str, None] = {}
    messages: int = 0
    left_out: int = 0  # messages that another session has, too
    tokens: int = 0
    step_tokens: int = 0

    def about(self, session: dict[str, Any]) -> None:
        """Take what is known about the session itself."""
        self.session = session

    def add_message(self, message: dict[str, Any]) -> None:
        """Count a message and what it cost."""
        self.messages += 1
        self.tokens += _tokens(message.get("tokens"))

    def leave_out_message(self) -> None:
        """Take back a message: what was copied teaches nothing new."""
        self.messages -= 1
        self.left_out += 1

    def add_part(self, role: str, part: dict[str, Any]) -> None:
        """Take what a part adds to the row."""
        kind = part.get("type")
        if kind == "text":
            self._add_text(role, text(part.get("text")))
        elif kind == "tool":
            tool = part.get("tool") if isinstance(part.get("tool"), str) else "tool"
            self.tools[f"{tool}: {_tool_summary(str(tool), part)}"] = None
        elif kind == "patch":
            for file in rows(part.get("files")):
                self._add_file(text(file) or _first(table(file), ("path", "name")))
        elif kind == "file":
            self._add_file(_first(part, ("path", "filename", "name")))
        elif kind == "step-finish":
            self.step_tokens += _tokens(part.get("tokens"))

    def segments(self) -> list[Segment]:
        """Return the session's row, once the session itself is known, and says anything new."""
        if self.session is None or (self.left_out and not self.messages):
            return []
        session = self.session
        diffs = text(session.get("summary_diffs"))
        parent = text(session.get("parent_id"))
        start = number(session.get("time_created"))
        segment = Segment(
            session_id=text(session.get("id")),
            index=0,
            start=start,
            end=max(number(session.get("time_updated")), start),
            project_dir=text(session.get("directory")),
            cwd=text(session.get("directory")),
            summary=self._summary(session),
            prompts=None,
            tools=None,
            texts=list(self.texts),
            messages=self.messages,
            tokens=number(self.tokens or self.step_tokens),
            is_subagent=bool(parent),
            parent_session_id=parent or None,
            model=text(session.get("model")),
            agent=text(session.get("agent")),
            slug=text(session.get("slug")),
            title=text(session.get("title")),
            diffs_json=diffs or "null",
            hashed=self._hashed(session, diffs),
        )
        return [segment]

    def _add_text(self, role: str, said: str) -> None:
        kept, characters = self.texts, TEXT_CHARACTERS
        if role == "user":
            kept, characters = self.prompts, PROMPT_CHARACTERS
        shown = said.strip()[:characters]
        if shown and role in {"user", "assistant"}:
            kept[shown] = None

    def _add_file(self, path: str) -> None:
        if path.strip():
            self.files[path[:_PATH_CHARACTERS]] = None

    def _hashed(self, session: dict[str, Any], diffs: str) -> bytes:
        said = (compact(list(self.tools)), compact(list(self.prompts)), "\n".join(self.texts))
        counts = struct.pack("<3q", *_changes(session))
        files = compact(list(self.files))
        whole = [piece.encode("utf-8", "replace") for piece in (*said, diffs, files)]
        return b"|".join((*whole[:3], counts, *whole[3:]))

    def _summary(self, session: dict[str, Any]) -> str:
        directory, slug = text(session.get("directory")), text(session.get("slug"))
        lines = [f"Opencode session (project: {directory}, slug: {slug})"]
        told = [(label, text(session.get(label))) for label in ("title", "agent", "model")]
        lines += [f"{label.capitalize()}: {value}" for label, value in told if value]
        added, deleted, files = _changes(session)
        if added > 0 or deleted > 0 or files > 0:
            lines.append(f"Snapshot diffs: +{added}/-{deleted} lines, {files} files")
        asked = [f'{n}. "{prompt}"' for n, prompt in enumerate(list(self.prompts), 1)]
        said = [f'- "{text_}"' for text_ in self.texts]
        for title, shown in (
            ("User requests:", asked[:_SHOWN_PROMPTS]),
            ("Work performed:", [f"- {tool}" for tool in self.tools][:_SHOWN_TOOLS]),
            ("Files touched:", [f"- {path}" for path in self.files][:_SHOWN_FILES]),
            ("Assistant excerpts:", said[:_SHOWN_TEXTS]),
        ):
            if shown:
                lines += [title, *(f"  {line}" for line in shown)]
        return "\n".join(lines)


def _changes(session: dict[str, Any]) -> tuple[int, int, int]:
    added, deleted = session.get("summary_additions"), session.get("summary_deletions")
    return number(added), number(deleted), number(session.get("summary_files"))


def _tokens(told: object, depth: int = 3) -> int:
    """Add up a count of tokens: a number, a total, else the sum of what is inside."""
    inside = table(told)
    if isinstance(inside.get("total"), int):
        return number(inside["total"])
    if not inside or depth == 0:
        return number(told)
    return sum(_tokens(value, depth - 1) for value in inside.values())


def _first(given: dict[str, Any], keys: tuple[str, ...]) -> str:
    """Return the first text under one of the keys, empty if that is blank."""
    found = next((given[key] for key in keys if isinstance(given.get(key), str)), "")
    return found if found.strip() else ""


def _tool_summary(tool: str, part: dict[str, Any]) -> str:
    state = table(part.get("state"))
    summary = _rendered(tool, table(state.get("input", part.get("input"))))
    first = _first_line(text(state.get("output")))
    if first:
        summary = f"{summary} -> {first}"
    return summary[:_TOOL_CHARACTERS]


def _first_line(output: str) -> str:
    """Return the beginning of the first line that is not blank."""
    blank = len(output) - len(output.lstrip())
    if blank == len(output):
        return ""
    start = output.rfind("\n", 0, blank) + 1
    line = output[start : blank + _OUTPUT_CHARACTERS].partition("\n")[0]
    return line.removesuffix("\r")[:_OUTPUT_CHARACTERS]


def _rendered(tool: str, given: dict[str, Any]) -> str:
    """Say what a tool was asked to do, as the contract says it for tools of these names."""
    name = tool.lower()
    path = _first(given, ("filePath", "file_path", "path"))
    pattern = text(given.get("pattern"))
    if name == "bash" and text(given.get("command")):
        return text(given["command"])
    if name in {"read", "edit", "write"} and path:
        return f"{name} {path}"
    if name == "grep" and pattern:
        return f"grep '{pattern}' {path}".rstrip()
    if name == "glob" and pattern:
        return f"glob '{pattern}'"
    if name == "agent" and text(given.get("description")):
        return f"agent: {given['description']}"
    return _first(given, _OBJECT_KEYS) or tool


AGENT: Final = "opencode"
_SILENT: Final = {"step-start", "step-finish", "snapshot", "patch", "agent"}
_NOTED: Final = {"compaction", "file", "retry"}
_MOST_UNKNOWN: Final = 200
# What a session is called until a model has named it, which may never happen.
_UNNAMED: Final = re.compile(r"\A(?:New|Child) session - \d{4}-\d\d-\d\dT[\d:.]+Z\Z")


class OpencodeParser:
    """Takes the records of one session, from the first: it is read whole when it has changed."""

    def __init__(self, log: Log, state: bytes | None) -> None:  # noqa: ARG002
        """Start afresh: a changed session is always read from its beginning."""
        self._session = log.session_id
        self._facts = SessionFacts()
        self._row = OpencodeSession()
        self._copied: dict[str, str] = {}  # messages that a hand-off wrote, and where they are from
        self._usage: list[Usage] = []
        self._unknown: dict[str, int] = {}

    def feed(self, record: Any, line: bytes, number: int) -> list[Entry]:  # noqa: ARG002
        """Take the next record: its JSON value, the line it came from, the line's number."""
        inside = table(record)
        kind = inside.get("type")
        data = table(inside.get("data"))
        if kind == "session":
            self._about(data)
        elif kind == "message" and data:
            self._message(data)
        elif kind == "part":
            self._part(inside, data)
        found, unknown = read_record(inside, number)
        if unknown:
            self._count(unknown)
        for entry in found:
            entry.session_id = self._session
            entry.origin = entry.origin or self._copied.get(text(inside.get("message")), "")
        return found

    def harvest(self) -> Harvest:
        """Return what came up since the last call; asking twice changes nothing."""
        usage, self._usage = self._usage, []
        unknown, self._unknown = self._unknown, {}
        if not self._session:
            return Harvest(usage=usage, unknown=unknown)
        facts = {self._session: msgspec.structs.replace(self._facts)}
        return Harvest(facts=facts, usage=usage, segments=self._row.segments(), unknown=unknown)

    def state(self) -> bytes:
        """A document needs none: it is read from its beginning."""
        return b""

    def _about(self, session: dict[str, Any]) -> None:
        self._session = text(session.get("id")) or self._session
        self._row.about(session)
        parent = text(session.get("parent_id"))
        self._facts = SessionFacts(
            parent_session_id=parent,
            is_subagent=bool(parent),
            title=_UNNAMED.sub("", text(session.get("title"))),
            agent=text(session.get("agent")) or self._facts.agent,
            model=model_name(session.get("model")) or self._facts.model,
            cwd=text(session.get("directory")),
            slug=text(session.get("slug")),
            version=text(session.get("version")),
        )

    def _message(self, message: dict[str, Any]) -> None:
        self._row.add_message(message)
        self._facts.agent = self._facts.agent or text(message.get("agent"))
        self._facts.model = self._facts.model or text(message.get("modelID"))
        usage = _spent(message)
        if usage is not None:
            usage.session_id = self._session
            self._usage.append(usage)

    def _part(self, record: dict[str, Any], part: dict[str, Any]) -> None:
        message, mark = text(record.get("message")), read_mark(table(part.get("metadata")))
        if mark is not None and message not in self._copied:
            self._copied[message] = mark.origin
            self._facts.continues = mark.continues
            self._row.leave_out_message()
        if message not in self._copied:
            self._row.add_part(text(record.get("role")), part)

    def _count(self, name: str) -> None:
        if name in self._unknown or len(self._unknown) < _MOST_UNKNOWN:
            self._unknown[name] = self._unknown.get(name, 0) + 1


def model_name(stored: object) -> str:
    """Name a model that is stored as a text, or as an object with its provider."""
    if isinstance(stored, dict):
        return text(stored.get("id")) or text(stored.get("modelID"))
    return text(stored)


def _spent(message: dict[str, Any]) -> Usage | None:
    tokens = table(message.get("tokens"))
    cache = table(tokens.get("cache"))
    reasoning = number(tokens.get("reasoning"))
    times = table(message.get("time"))
    model = text(message.get("modelID"))
    usage = Usage(
        key="",
        at=number(times.get("created")) or None,
        model=model,
        input=number(tokens.get("input")),
        output=number(number(tokens.get("output")) + reasoning),
        cache_read=number(cache.get("read")),
        cache_write=number(cache.get("write")),
        reasoning=reasoning,
        final="completed" in times or "finish" in message,
    )
    counts = (usage.input, usage.output, usage.cache_read, usage.cache_write)
    if not any(counts):
        return None
    # A fork copies its messages under new ids: what was said when, and what it cost, is the same.
    told = compact([usage.at, *counts, reasoning, model]).encode("utf-8", "replace")
    usage.key = hashlib.blake2b(told, digest_size=12).hexdigest()
    return usage


def read_record(record: dict[str, Any], position: int) -> tuple[list[Entry], str]:
    """Read one record alone: its entries, and the name of what is not known in it."""
    kind, data = record.get("type"), table(record.get("data"))
    key = text(record.get("id")) or str(position)
    if kind == "session":
        return [], ""
    if kind == "message":
        return _failure(key, data), ""
    if kind == "part":
        found, unknown = _part(record, data, key)
        return marked(found, read_mark(table(data.get("metadata")))), unknown
    return [], f"record/{kind}"[:80] if isinstance(kind, str) else "record"


def _failure(key: str, message: dict[str, Any]) -> list[Entry]:
    error = table(message.get("error"))
    if not error:
        return []
    shown = _error_text(error) or describe_input(error)
    at = number(table(message.get("time")).get("created")) or None
    return [Entry(key, "assistant", "note", at, shown, error=True)]


def _part(record: dict[str, Any], part: dict[str, Any], key: str) -> tuple[list[Entry], str]:
    kind = text(part.get("type"))
    at = number(table(part.get("time")).get("start")) or number(record.get("created")) or None
    if kind in _SILENT:
        return [], ""
    if kind == "tool":
        return _tool(part, key, at, text(record.get("model"))), ""
    if kind in {"text", "reasoning"}:
        return _spoken(record, part, key, at), ""
    role: Role = "user" if record.get("role") == "user" else "assistant"
    if kind == "subtask":
        return [Entry(key, role, "prompt", at, text(part.get("prompt")))], ""
    if kind in _NOTED:
        entry = Entry(key, role, "note", at, _notice(part), error=kind == "retry")
        entry.images = pictures([part])
        return [entry], ""
    return [], f"part/{kind}"[:80]


def _spoken(record: dict[str, Any], part: dict[str, Any], key: str, at: int | None) -> list[Entry]:
    said = text(part.get("text"))
    if not said.strip():
        return []
    made = part.get("synthetic") is True or part.get("ignored") is True
    if record.get("role") == "user":
        return [Entry(key, "user", "note" if made else "prompt", at, said)]
    kind: Kind = "note" if made else "text"
    if part.get("type") == "reasoning":
        kind = "reasoning"
    elif record.get("summary") is True:
        kind = "summary"
    return [Entry(key, "assistant", kind, at, said, model=text(record.get("model")))]


def _tool(part: dict[str, Any], key: str, at: int | None, model: str) -> list[Entry]:
    state = table(part.get("state"))
    tool, call_id = text(part.get("tool")) or "tool", text(part.get("callID"))
    times = table(state.get("time"))
    given = describe_input(state.get("input"))
    started = number(times.get("start")) or at
    call = Entry(key, "assistant", "tool_call", started, given, tool=tool, model=model)
    call.call_id, call.input = call_id, state.get("input")
    if state.get("status") not in ("completed", "error") and "output" not in state:
        return [call]
    attached = rows(state.get("attachments"))
    shown = text(state.get("output")) or text(state.get("error"))
    ended = number(times.get("end")) or at
    shown = "\n".join([shown, *("[image]" for _ in attached)])
    result = Entry(f"{key}#1", "tool", "tool_result", ended, shown)
    result.tool, result.call_id, result.images = tool, call_id, pictures(attached)
    # A command that fails has done its work as far as the program is concerned.
    left = table(state.get("metadata")).get("exit")
    failed = state.get("status") == "error" or tool == "invalid"
    result.error = failed or (left is not None and left != 0)
    return [call, result]


def _notice(part: dict[str, Any]) -> str:
    if part.get("type") == "compaction":
        return "compaction"
    if part.get("type") == "file":
        name = text(part.get("filename")) or text(table(part.get("source")).get("path"))
        mark = "[image]" if text(part.get("mime")).startswith("image/") else "[file]"
        return f"{mark} {name}".strip()
    return _error_text(table(part.get("error"))) or "retry"


def _error_text(error: dict[str, Any]) -> str:
    said = text(table(error.get("data")).get("message")) or text(error.get("message"))
    return ": ".join(filter(None, (text(error.get("name")), said)))
