"""Pi and its family (Oh-My-Pi, OpenClaw): one line log per session, a tree of entries in each.

Every branch of the tree is archived: all of them were said, and all of them cost money. A fork is
a file of its own that begins with copies of its parent's entries; a copied answer has the same
usage key in both files and so counts once.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from threadkeep.knowledge.records import Entry, Usage
from threadkeep.sources.common import (
    Gatherer,
    GathererState,
    describe_input,
    iso_ms,
    last_component,
    number as count,
    numbered,
    pictures,
    plain,
    rows,
    strange_name,
    table,
    text,
)
from threadkeep.sources.copy_marks import marked, read_mark
from threadkeep.sources.format import LineLogs, Told
from threadkeep.sources.places import place
from threadkeep.sources.records import Harvest, Log

_LABEL: Final = "Pi"
NOTICE: Final = "threadkeep:notice"  # what a hand-off tells the eye alone


def content_text(content: object) -> str:
    """Join the texts of a message's content; a picture is only named."""
    if isinstance(content, str):
        return content
    found = []
    for block in rows(content):
        fields = table(block)
        found.append("[image]" if fields.get("type") == "image" else text(fields.get("text")))
    return "\n".join(piece for piece in found if piece)


# Reads one message or entry: its fields, its key, its time, where to name what is strange.
_Reader = Callable[[dict[str, Any], str, int | None, list[str]], list[Entry]]


def _user(fields: dict[str, Any], key: str, at: int | None, _strange: list[str]) -> list[Entry]:
    shown = content_text(fields.get("content"))
    images = pictures(fields.get("content"))
    return [Entry(key, "user", "prompt", at, shown, images=images)] if shown else []


def _assistant(fields: dict[str, Any], key: str, at: int | None, strange: list[str]) -> list[Entry]:
    model = text(fields.get("model"))
    content = fields.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else rows(content)
    found = [entry for block in blocks if (entry := _block(table(block), at, model, strange))]
    said = text(fields.get("errorMessage"))
    if said:
        found.append(Entry("", "assistant", "note", at, said, error=True, model=model))
    return numbered(found, key)


def _block(fields: dict[str, Any], at: int | None, model: str, strange: list[str]) -> Entry | None:
    match fields.get("type"):
        case "text":
            shown = text(fields.get("text"))
            return Entry("", "assistant", "text", at, shown, model=model) if shown else None
        case "thinking":  # providers that encrypt it leave an empty text
            shown = text(fields.get("thinking"))
            return Entry("", "assistant", "reasoning", at, shown, model=model) if shown else None
        case "toolCall":
            return Entry(
                "",
                "assistant",
                "tool_call",
                at,
                describe_input(fields.get("arguments")),
                tool=text(fields.get("name")),
                call_id=text(fields.get("id")),
                model=model,
                input=fields.get("arguments"),
            )
        case "image":
            entry = Entry("", "assistant", "text", at, "[image]", model=model)
            entry.images = pictures([fields])
            return entry
        case other:
            strange.append(strange_name(fields, "message", "assistant", other))
            return None


def _tool_result(
    fields: dict[str, Any], key: str, at: int | None, _strange: list[str]
) -> list[Entry]:
    return [
        Entry(
            key,
            "tool",
            "tool_result",
            at,
            content_text(fields.get("content")),
            tool=text(fields.get("toolName")),
            call_id=text(fields.get("toolCallId")),
            error=fields.get("isError") is True,
            images=pictures(fields.get("content")),
        )
    ]


def _bash(fields: dict[str, Any], key: str, at: int | None, _strange: list[str]) -> list[Entry]:
    """A command that the person ran beside the conversation."""
    failed = count(fields.get("exitCode")) != 0 or fields.get("cancelled") is True
    command, output = text(fields.get("command")), text(fields.get("output"))
    return [
        Entry(key, "user", "tool_call", at, command, tool="bash", input={"command": command}),
        Entry(f"{key}#1", "tool", "tool_result", at, output, tool="bash", error=failed),
    ]


def _summary(fields: dict[str, Any], key: str, at: int | None, _strange: list[str]) -> list[Entry]:
    shown = text(fields.get("summary")) or content_text(fields.get("content"))
    return [Entry(key, "system", "summary", at, shown)] if shown else []


def _note(fields: dict[str, Any], key: str, at: int | None, _strange: list[str]) -> list[Entry]:
    shown = content_text(fields.get("content"))
    return [Entry(key, "system", "note", at, shown)] if shown else []


def _custom(fields: dict[str, Any], key: str, at: int | None, _strange: list[str]) -> list[Entry]:
    """What an extension keeps for itself; the one that is ours is a note."""
    told = table(fields.get("data")) if fields.get("customType") == NOTICE else {}
    shown = text(told.get("text"))
    return (
        [Entry(key, "system", "note", at, shown, error=told.get("error") is True)] if shown else []
    )


def _nothing(
    _fields: dict[str, Any], _key: str, _at: int | None, _strange: list[str]
) -> list[Entry]:
    return []


def _message(fields: dict[str, Any], key: str, at: int | None, strange: list[str]) -> list[Entry]:
    message = table(fields.get("message"))
    reader = _ROLES.get(text(message.get("role")))
    if reader is None:
        strange.append(strange_name(fields, "message", message.get("role")))
        return []
    return reader(message, key, at or count(message.get("timestamp")) or None, strange)


_ROLES: Final[dict[str, _Reader]] = {
    "system": _note,  # the prompt of the program itself, once in a session
    "user": _user,
    "assistant": _assistant,
    "toolResult": _tool_result,
    "bashExecution": _bash,
    "custom": _note,
    "hookMessage": _note,
    "branchSummary": _summary,
    "compactionSummary": _summary,
}
_TYPES: Final[dict[str, _Reader]] = {
    "message": _message,
    "compaction": _summary,
    "branch_summary": _summary,
    "custom_message": _note,
    "custom": _custom,
    **dict.fromkeys(
        (
            *("session", "model_change", "thinking_level_change", "label", "usage"),
            *("leaf", "reset", "context_edit"),  # what is shown, also to the model, from then on
            *("session_info", "context_transform", "ephemeral"),
        ),
        _nothing,
    ),
}


def entries_of(record: object, number: int, strange: list[str]) -> list[Entry]:
    """Read one entry of the tree; what is not known in it is named in `strange`."""
    fields = table(record)
    reader = _TYPES.get(text(fields.get("type")))
    if reader is None:
        strange.append(strange_name(record, fields.get("type")))
        return []
    found = reader(fields, _key(fields, number), iso_ms(fields.get("timestamp")), strange)
    parent = text(fields.get("parentId"))
    for entry in found:
        entry.parent = parent
    return marked(found, read_mark(fields))


def _key(fields: dict[str, Any], number: int) -> str:
    """The entry's id; in the first version of the format its time and what it answers."""
    own = text(fields.get("id"))
    when = text(fields.get("timestamp"))
    if own or not when:
        return own or str(number)
    message = table(fields.get("message"))
    role = text(message.get("role")) or text(fields.get("type"))
    return f"{when}:{role}:{text(message.get('toolCallId'))}".rstrip(":")


def _usage(message: dict[str, Any], at: int | None) -> Usage:
    # The key must be the same in every copy of the answer. The id of an entry is unique in its
    # file only; the provider's id, or else the time and the counts, stay.
    counts = table(message.get("usage"))
    model = text(message.get("model"))
    row = Usage(
        key=text(message.get("responseId")),
        at=at or count(message.get("timestamp")) or None,
        model=model,
        input=count(counts.get("input")),
        output=count(counts.get("output")),
        cache_read=count(counts.get("cacheRead")),
        cache_write=count(counts.get("cacheWrite")),
        reasoning=count(counts.get("reasoningTokens")),
    )
    if not row.key:
        began = count(message.get("timestamp")) or at
        row.key = f"{began}:{model}:{row.input}:{row.output}:{row.cache_read}"
    return row


class PiParser:
    """Reads one session's file."""

    def __init__(self, log: Log, state: bytes | None) -> None:
        self._log = log
        kept = msgspec.msgpack.decode(state, type=GathererState) if state else None
        self._gatherer = Gatherer(log, _LABEL, kept)
        if kept is None:
            self._gatherer.facts.agent = _agent_of(log.path)

    def feed(self, record: Any, line: bytes, number: int) -> list[Entry]:
        """Take the next entry of the tree."""
        del line
        strange: list[str] = []
        entries = entries_of(record, number, strange)
        self._gatherer.wonder(strange)
        self._learn(table(record))
        return self._gatherer.keep(entries)

    def _learn(self, fields: dict[str, Any]) -> None:
        facts = self._gatherer.facts
        match fields.get("type"):
            case "message":
                message = table(fields.get("message"))
                if message.get("role") == "assistant":
                    facts.model = text(message.get("model")) or facts.model
                self._spend(message, fields)
            case "usage" | "compaction" | "branch_summary":
                self._spend(fields, fields)
            case "session":
                self._begin(fields)
            case "model_change":
                facts.model = text(fields.get("modelId")) or facts.model
            case "session_info":
                facts.title = text(fields.get("name")) or facts.title
                facts.parent_session_id = text(fields.get("parent")) or facts.parent_session_id
                facts.is_subagent = facts.is_subagent or bool(fields.get("spawned_by"))

    def _spend(self, told: dict[str, Any], entry: dict[str, Any]) -> None:
        """Take what an answer took, or a tool, a summary or a warm cache that asked a model."""
        if told.get("role") == "assistant" or table(told.get("usage")):
            usage = _usage(told, iso_ms(entry.get("timestamp")))
            usage.model = usage.model or self._gatherer.facts.model
            self._gatherer.spend(usage)

    def _begin(self, header: dict[str, Any]) -> None:
        facts, own = self._gatherer.facts, text(header.get("id"))
        # The path may say more than the header: OpenClaw's topics share the id of their session.
        if own and not self._log.session_id.startswith(own):
            self._gatherer.session_id = own
        facts.cwd = text(header.get("cwd")) or facts.cwd
        facts.model = text(header.get("modelId")) or facts.model
        facts.title = text(header.get("title")) or facts.title
        parent = text(header.get("parentSession")) or text(header.get("branchedFrom"))
        facts.parent_session_id = _session_of(last_component(parent)) or facts.parent_session_id

    def harvest(self) -> Harvest:
        """Return what came up since the last call."""
        return self._gatherer.harvest()

    def state(self) -> bytes:
        """Return what a new parser needs to continue from here."""
        return msgspec.msgpack.encode(self._gatherer.kept())


def _session_of(name: str) -> str:
    """Read the session's id from a file's name: `<time>_<id>.jsonl`, or `<id>.jsonl`."""
    stem = plain(name).partition(".jsonl")[0]
    return stem.rpartition("_")[2] or stem


def _agent_of(path: str) -> str:
    """Name OpenClaw's agent: the folder two above `agents/<agent>/sessions/<file>`."""
    parts = Path(path).parts[-4:]
    return plain(parts[1]) if len(parts) == 4 and parts[0] == "agents" else ""  # noqa: PLR2004


def _identify(log: Log) -> Log:
    """Name a session as its file does, and its project or agent as the folder around it."""
    path = Path(log.path)
    agent = _agent_of(log.path)
    project = agent or plain(path.parent.name)
    return msgspec.structs.replace(log, session_id=_session_of(path.name), project_dir=project)


PI_ROOTS: Final = (*("$PI_CODING_AGENT_DIR", "~/.pi/agent", "~/.omp/agent", "~/.prime/agent"),)
# OpenClaw under the names that it had, and its relatives; each agent of it has a folder.
CLAW_ROOTS: Final = (
    *("$OPENCLAW_STATE_DIR", "~/.openclaw", "~/.clawdbot", "~/.moltbot", "~/.moldbot"),
    *("~/.kimi_openclaw", "~/.qclaw"),
)

SOURCE: Final = LineLogs(
    agent="pi",
    label=_LABEL,
    places=(
        place([f"{root}/sessions" for root in PI_ROOTS], "**/*.jsonl"),
        # A reset puts a session's file away under a longer name.
        place(
            [f"{root}/agents" for root in CLAW_ROOTS],
            *("*/sessions/*.jsonl", "*/sessions/*.jsonl.reset.*"),
        ),
    ),
    identify=_identify,
    read=lambda record, number: Told(entries_of(record, number, [])),
    parse=PiParser,
)
