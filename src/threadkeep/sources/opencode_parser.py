"""OpenCode's conversations: a record for the session, each message and each part of one.

A part's record repeats what its message says about it (role, model, whether it is a compaction),
so that it can be read alone.
"""

import hashlib
import re
from typing import Any, Final

import msgspec

from threadkeep.knowledge.hashing import compact
from threadkeep.knowledge.records import Entry, Kind, Role, SessionFacts, Usage
from threadkeep.sources.common import describe_input, number, rows, table, text
from threadkeep.sources.copy_marks import marked, read_mark
from threadkeep.sources.opencode_segment import OpencodeSession
from threadkeep.sources.pictures import pictures
from threadkeep.sources.records import Harvest, Log

HARNESS: Final = "opencode"
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
        """Give what came up since the last call; asking twice changes nothing."""
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
