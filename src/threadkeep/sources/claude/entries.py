"""Claude Code's records as entries of a conversation: who said what, one entry per block.

A `user` record is rarely a person: it also carries tool results, reminders, the output of local
commands and what a compaction left. Only what is left after all of these is a prompt.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple
from uuid import NAMESPACE_URL, UUID, uuid5

import msgspec

from threadkeep.knowledge.records import Entry, Image, Kind, Role, ToolRun
from threadkeep.sources.common import describe_input, picture, pictures
from threadkeep.sources.copy_marks import marked, read_mark

# ------------------------------------------------------------------------------
# Claude Code's tool calls: how they are named in a slice, and as commands with their results.

_OUTPUT_BYTES: Final = 4_096
_BASH_CHARACTERS: Final = 200
_AGENT_CHARACTERS: Final = 100
_OTHER_CHARACTERS: Final = 80
_MOST_PENDING: Final = 1_000
_FILE_TOOLS: Final = frozenset({"Read", "Edit", "Write"})
# How a call reads as a command: the words, then its fields with what stands for a missing one.
_COMMANDS: Final = {
    "Bash": ("{}", (("command", "bash"),)),
    "Read": ("read {}", (("file_path", "<unknown>"),)),
    "Edit": ("edit {}", (("file_path", "<unknown>"),)),
    "Write": ("write {}", (("file_path", "<unknown>"),)),
    "Grep": ("grep '{}' {}", (("pattern", "*"), ("path", "."))),
    "Glob": ("glob '{}'", (("pattern", "*"),)),
    "Agent": ("agent: {}", (("description", "agent task"),)),
    "TaskCreate": ("task: {}", (("subject", "task"),)),
    "TaskUpdate": ("task-update: {} {}", (("taskId", "?"), ("status", "?"))),
}


class PendingToolCall(msgspec.Struct, gc=False):
    """A call whose result has not come yet, and what it says about the subagent it starts."""

    run: ToolRun
    agent: str = ""
    task: str = ""


class ToolRuns:
    """Pairs the calls of one log with their results."""

    def __init__(self, pending: list[PendingToolCall]) -> None:
        """Go on with the calls that had no result yet."""
        self._pending = {call.run.call_id: call for call in pending}
        self._new: dict[str, None] = {}
        self._done: list[ToolRun] = []
        self._session: tuple[object, str] = ("", session_uuid(""))  # all calls name the same

    def called(self, block: dict[str, Any], record: dict[str, Any], at: int) -> None:
        """Take a call; one without an id can have no result and is passed over."""
        call_id, name = block.get("id"), block.get("name")
        if not isinstance(call_id, str) or not call_id:
            return
        name = name if isinstance(name, str) else ""
        given, session_id = block.get("input"), record.get("sessionId")
        if session_id != self._session[0]:
            self._session = session_id, session_uuid(session_id)
        branch, cwd = record.get("gitBranch"), record.get("cwd")
        run = ToolRun(
            call_id=call_id,
            session_id=self._session[1],
            at=at,
            tool=name,
            command=command_of(name, given),
            cwd=cwd if isinstance(cwd, str) else "",
            git_branch=branch if isinstance(branch, str) else None,
        )
        self._pending.pop(call_id, None)
        self._pending[call_id] = _with_task(run, given)
        self._new[call_id] = None
        if len(self._pending) > _MOST_PENDING:
            self._forget(next(iter(self._pending)))

    def returned(self, block: dict[str, Any], at: int | None) -> PendingToolCall | None:
        """Take a result and give the call it belongs to; None if no such call exists."""
        call_id = block.get("tool_use_id")
        call = self._pending.pop(call_id, None) if isinstance(call_id, str) else None
        if call is None:
            return None
        run = call.run
        self._new.pop(run.call_id, None)
        run.exit_code = 1 if block.get("is_error") is True else 0
        run.duration_ms = max(0, at - run.at) if at is not None else 0
        run.output, run.truncated = _cut(result_text(block.get("content")))
        self._done.append(run)
        return call

    def started(self, call_id: object) -> PendingToolCall | None:
        """Return the call with this id if its result has not come yet."""
        return self._pending.get(call_id) if isinstance(call_id, str) else None

    def take(self) -> list[ToolRun]:
        """Return the calls answered since the last time, then the new ones without an answer."""
        given = [*self._done, *(self._pending[call_id].run for call_id in self._new)]
        self._done, self._new = [], {}
        return given

    def waiting(self) -> list[PendingToolCall]:
        """Return the calls that have no result yet, the oldest first."""
        return list(self._pending.values())

    def _forget(self, call_id: str) -> None:
        """Let go of a call, but not of the row it makes if that was never given."""
        run = self._pending.pop(call_id).run
        if call_id in self._new:
            del self._new[call_id]
            self._done.append(run)


def _with_task(run: ToolRun, given: object) -> PendingToolCall:
    if run.tool not in {"Agent", "Task"}:
        return PendingToolCall(run)
    return PendingToolCall(
        run, _field(given, "subagent_type", ""), _field(given, "description", "")
    )


def _field(given: object, key: str, default: str) -> str:
    value = given.get(key) if isinstance(given, dict) else None
    return value if isinstance(value, str) else default


def command_of(name: str, given: object) -> str:
    """Write a call as a command, the way the contract's `events` hold it."""
    if name not in _COMMANDS:
        return name
    words, fields = _COMMANDS[name]
    return words.format(*(_field(given, key, missing) for key, missing in fields))


def summary_of(name: str, given: object) -> str:
    """Sum up a call in a few words, the way the contract's slices hold it."""
    if name == "Bash":
        return _field(given, "command", "")[:_BASH_CHARACTERS]
    if name in _FILE_TOOLS:
        return _field(given, "file_path", "")
    if name == "Grep":
        pattern, path = _field(given, "pattern", ""), _field(given, "path", "")
        return f"{pattern} in {path}" if path else pattern
    if name == "Glob":
        return _field(given, "pattern", "")
    if name == "Agent":
        return _field(given, "description", "")[:_AGENT_CHARACTERS]
    return _first_field(given)


def _first_field(given: object) -> str:
    """Show the field whose name sorts first: the contract's maps are sorted, not as written."""
    if not isinstance(given, dict) or not given:
        return ""
    key = min(given)
    value = given[key]
    shown = value if isinstance(value, str) else _sorted_json(value)
    return f"{key}={shown[:_OTHER_CHARACTERS]}"


def _sorted_json(value: object) -> str:
    # msgspec and not json: it writes 1e16 and 1e-7 like the contract's other programs do.
    try:
        return msgspec.json.encode(value, order="sorted").decode()
    except RecursionError:
        return "..."


def session_uuid(session_id: object) -> str:
    """Return a session's id as a UUID: itself, or one that is made from it."""
    name = session_id if isinstance(session_id, str) else ""
    with suppress(ValueError):
        found = UUID(name)
        # Python overlooks misplaced hyphens, which would give two sessions one id.
        if name.lower() in {str(found), found.hex, f"{{{found}}}", found.urn}:
            return str(found)
    return str(uuid5(NAMESPACE_URL, name))


def result_text(content: object) -> str | None:
    """Join the texts of a result; None if it holds none."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    texts = [block.get("text") for block in content if isinstance(block, dict)]
    found = [text for text in texts if isinstance(text, str)]
    return "\n".join(found) if found else None


def _cut(output: str | None) -> tuple[str | None, bool]:
    """Cut an output to the bytes that an event may hold, never inside a character."""
    if output is None:
        return None, False
    start = output[:_OUTPUT_BYTES]
    if start.isascii():
        return start, len(output) > _OUTPUT_BYTES
    whole = start.encode("utf-8", "replace")
    cut = whole[:_OUTPUT_BYTES].decode("utf-8", "ignore")
    return cut, len(cut) < len(output)


SYNTHETIC: Final = "<synthetic>"
_CALLS: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_SILENT_BLOCKS: Final = frozenset({"redacted_thinking", "fallback"})
_SYSTEM: Final = frozenset(
    {
        *("compact_boundary", "microcompact_boundary", "stop_hook_summary", "turn_duration"),
        *("local_command", "api_error", "away_summary", "bridge_status", "model_refusal_fallback"),
        "informational",
    }
)
# Attachments that hold the whole context once more: 6 to 53 KB each, kept in the archive only.
_SILENT_ATTACHMENTS: Final = frozenset({"prompt_snapshot"})

_COMPACTED: Final = "This session is being continued from a previous conversation"
_NOTICES: Final = (
    "<local-command-",
    "<task-notification",
    "<bash-stdout",
    "<bash-stderr",
    "<user-prompt-submit-hook",
    "<session-start-hook",
    "<new-diagnostics",
    "[Request interrupted by user",
)
_FROM_A_TEAMMATE: Final = "<teammate-message"
# Context that is put before the person's own words, with the mark that ends it.
_PREFIXES: Final = ("<ide_", "<system-reminder>")
_CLAUDE_ENTRIES_COMMANDS: Final = ("<command-name>", "<command-message>")
# What a person typed after a mark that the program took away.
_TYPED: Final = {"bash-input": "!", "user-memory-input": "#"}
_LOOK: Final = 80  # characters: more than the longest opening above

Said = tuple[Kind, str]


class _Origin(NamedTuple):
    """What all entries of one record share, and where unknown types are counted."""

    key: str
    at: int | None
    unknown: dict[str, int]
    parent: str = ""

    def entry(self, place: int, role: Role, kind: Kind, text: str) -> Entry:
        key = f"{self.key}#{place}" if place else self.key
        return Entry(key, role, kind, self.at, text, parent=self.parent)


def entries_of(
    kind: str, record: dict[str, Any], number: int, at: int | None, unknown: dict[str, int]
) -> list[Entry]:
    """Read the entries of one record; types of blocks nobody knows are counted in `unknown`."""
    uuid = record.get("uuid")
    key = uuid if isinstance(uuid, str) and uuid else f"line-{number}"
    parent = record.get("parentUuid")
    origin = _Origin(key, at, unknown, parent if isinstance(parent, str) else "")
    read = _READERS.get(kind)
    return [] if read is None else marked(read(record, origin), read_mark(record))


def type_of(value: object) -> str:
    """Return the type that a record or a block names, empty if it names none."""
    kind = value.get("type") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) else ""


def count(unknown: dict[str, int], name: str) -> None:
    """Count a type this version does not know, by a name of bounded length."""
    name = name[:80]
    if name in unknown or len(unknown) < 200:  # noqa: PLR2004 a broken log cannot fill the memory
        unknown[name] = unknown.get(name, 0) + 1


def message_content(record: dict[str, Any]) -> object:
    """Return what the message of a record holds: a text or blocks."""
    message = record.get("message") if "message" in record else record.get("content")
    return message.get("content") if isinstance(message, dict) else message


def _is_blank(text: object) -> bool:
    return not isinstance(text, str) or not text or text.isspace()


# -- the agent -------------------------------------------------------------------------------------


def _assistant(record: dict[str, Any], origin: _Origin) -> list[Entry]:
    message = record.get("message")
    model = message.get("model") if isinstance(message, dict) else None
    model = model if isinstance(model, str) else ""
    is_notice = model == SYNTHETIC or record.get("isApiErrorMessage") is True
    content = message_content(record)
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    found: list[Entry] = []
    for block in blocks if isinstance(blocks, list) else ():
        entry = _answer(block, len(found), origin)
        if entry is None:
            continue
        entry.model = "" if is_notice else model
        if is_notice and entry.kind == "text":
            entry.kind, entry.error = "note", record.get("isApiErrorMessage") is True
        found.append(entry)
    return found


def _answer(block: object, place: int, origin: _Origin) -> Entry | None:
    kind = type_of(block)
    if not isinstance(block, dict):
        count(origin.unknown, f"assistant/{type(block).__name__}")
        return None
    if kind == "text":
        text = block.get("text")
        return None if _is_blank(text) else origin.entry(place, "assistant", "text", str(text))
    if kind == "thinking":
        text = block.get("thinking")
        return None if _is_blank(text) else origin.entry(place, "assistant", "reasoning", str(text))
    if kind in _CALLS:
        return _call(block, place, origin)
    if kind.endswith("tool_result"):
        return _result(block, place, origin)
    if kind not in _SILENT_BLOCKS:
        count(origin.unknown, f"assistant/{kind or 'no type'}")
    return None


def _call(block: dict[str, Any], place: int, origin: _Origin) -> Entry:
    entry = origin.entry(place, "assistant", "tool_call", describe_input(block.get("input")))
    name, call_id = block.get("name"), block.get("id")
    entry.tool = name if isinstance(name, str) else ""
    entry.call_id = call_id if isinstance(call_id, str) else ""
    entry.input = block.get("input")
    return entry


# -- the user's side -------------------------------------------------------------------------------


def _user(record: dict[str, Any], origin: _Origin) -> list[Entry]:
    content = message_content(record)
    images: list[Image] = []
    if isinstance(content, list):
        found, said = _blocks(content, record, origin, images)
    else:
        found, said = [], [content] if isinstance(content, str) else []
    for kind, text in _sorted_out(said, record):
        if not _is_blank(text):
            found.append(origin.entry(len(found), "user", kind, text))
    if images and found:
        found[-1].images = tuple(images)  # where the words are that it was shown with
    return found


def _blocks(
    content: list[Any], record: dict[str, Any], origin: _Origin, images: list[Image]
) -> tuple[list[Entry], list[str]]:
    """Part the results of tools from what was said and from what was shown."""
    results: list[Entry] = []
    said: list[str] = []
    for block in content:
        kind = type_of(block)
        if kind == "tool_result":
            entry = _result(block, len(results), origin)
            entry.error = entry.error or _failed(record.get("toolUseResult"))
            results.append(entry)
        elif kind == "text":
            text = block.get("text")
            said.append(text if isinstance(text, str) else "")
        elif kind in {"image", "document"}:
            said.append(f"[{kind}]")
            if (image := picture(block)) is not None:
                images.append(image)
        else:
            count(origin.unknown, f"user/{kind or type(block).__name__}")
    return results, said


def _failed(result: object) -> bool:
    return isinstance(result, str) and result.startswith("Error:")


def _result(block: dict[str, Any], place: int, origin: _Origin) -> Entry:
    content = block.get("content")
    entry = origin.entry(place, "tool", "tool_result", _result_text(content))
    if isinstance(content, list):
        entry.images = pictures(content)
    call_id = block.get("tool_use_id")
    entry.call_id = call_id if isinstance(call_id, str) else ""
    entry.error = block.get("is_error") is True
    return entry


def _result_text(content: object) -> str:
    if not isinstance(content, list):
        return content if isinstance(content, str) else describe_input(content)
    shown: list[str] = []
    for block in content:
        text = result_text([block])
        kind = type_of(block)
        if text is not None:
            shown.append(text)
        elif kind == "tool_reference":
            shown.append(f"[tool {block.get('tool_name')}]")
        elif kind:
            shown.append(f"[{kind}]")
    return "\n".join(shown)


def _sorted_out(said: list[str], record: dict[str, Any]) -> Iterator[Said]:
    """Tell what the person said from what the program put in; the person's words stay together."""
    if record.get("isCompactSummary") is True:
        yield "summary", "\n".join(said)
    elif record.get("isMeta") is True or _is_from_the_program(record):
        yield from (("note", text) for text in said)
    else:
        asked: list[str] = []
        for text in said:
            for kind, piece in _pieces(text, is_subagent=record.get("isSidechain") is True):
                if kind == "prompt":
                    asked.append(piece)
                else:
                    yield kind, piece
        yield "prompt", "\n".join(asked)


def _is_from_the_program(record: dict[str, Any]) -> bool:
    origin = record.get("origin")
    whose = origin.get("kind") if isinstance(origin, dict) else None
    return (isinstance(whose, str) and whose != "human") or record.get("promptSource") == "system"


def _pieces(text: str, *, is_subagent: bool) -> Iterator[Said]:
    head = text[:_LOOK].lstrip()
    while head.startswith(_PREFIXES):
        put_in, text = _split_after_tag(text.lstrip())
        yield "note", put_in
        head = text[:_LOOK].lstrip()
    if not text:
        return
    if head.startswith(_COMPACTED):
        yield "summary", text
    elif not head.startswith(("<", "[")):
        yield "prompt", text
    else:
        yield _marked(head, text, is_subagent=is_subagent)


def _split_after_tag(text: str) -> tuple[str, str]:
    """Part the element that a text begins with from the rest; without an end it is all of it."""
    name = _tag(text)
    end = text.find(f"</{name}>")
    if end < 0:
        return text, ""
    end += len(name) + 3
    return text[:end], text[end:].lstrip()


def _tag(text: str) -> str:
    return text[1:_LOOK].partition(">")[0].partition(" ")[0]


def _marked(head: str, text: str, *, is_subagent: bool) -> Said:
    if head.startswith(_CLAUDE_ENTRIES_COMMANDS):
        command = _between(text, "command-name")
        if not command:
            return "note", text
        command = command if command.startswith("/") else f"/{command}"
        return "prompt", f"{command} {_between(text, 'command-args')}".rstrip()
    if head.startswith(_FROM_A_TEAMMATE):
        return ("prompt" if is_subagent else "note"), text
    if head.startswith(_NOTICES):
        return "note", text
    mark = _TYPED.get(_tag(head))
    return "prompt", f"{mark} {_between(text, _tag(head))}" if mark else text


def _between(text: str, name: str) -> str:
    _, opened, rest = text.partition(f"<{name}>")
    inside, closed, _ = rest.partition(f"</{name}>")
    return inside.strip() if opened and closed else ""


# -- the program -----------------------------------------------------------------------------------


def _system(record: dict[str, Any], origin: _Origin) -> list[Entry]:
    subtype, content = record.get("subtype"), record.get("content")
    if isinstance(subtype, str) and subtype not in _SYSTEM:
        count(origin.unknown, f"system/{subtype}")
    text = content if isinstance(content, str) else _told(subtype, record)
    if _is_blank(text):
        return []
    entry = origin.entry(0, "system", "note", text)
    entry.error = record.get("level") == "error"
    return [entry]


def _told(subtype: object, record: dict[str, Any]) -> str:
    """Say what a system record without words of its own is about, if it is worth a word."""
    if subtype == "api_error":
        return f"API error: {describe_input(_without(record.get('error'), 'headers'))}"
    if subtype == "stop_hook_summary":
        errors = record.get("hookErrors")
        return _joined(errors) if isinstance(errors, list) else ""
    if subtype == "model_refusal_fallback":
        return f"model {record.get('originalModel')} -> {record.get('fallbackModel')}"
    return ""


def _attachment(record: dict[str, Any], origin: _Origin) -> list[Entry]:
    attached = record.get("attachment")
    kind = type_of(attached)
    if not isinstance(attached, dict) or kind in _SILENT_ATTACHMENTS:
        return []
    if kind == "queued_command":
        return _queued(attached, origin)
    # How the model was shown it stands in the attachment, or beside it.
    beside = {key: value for key, value in record.items() if key.startswith("rendered")}
    shown = beside | attached
    role: Role = "user" if shown.pop("renderedRole", None) == "user" else "system"
    text = _attached_text(shown)
    return [] if _is_blank(text) else [origin.entry(0, role, "note", text)]


def _queued(attached: dict[str, Any], origin: _Origin) -> list[Entry]:
    """Read a prompt that was typed while the agent worked, or a notice that came meanwhile."""
    is_notice = attached.get("commandMode") == "task-notification"
    message = {"content": attached.get("prompt")}
    return _user(
        {"message": message, "isMeta": is_notice, "origin": attached.get("origin")}, origin
    )


def _attached_text(attached: dict[str, Any]) -> str:
    for key in ("rendered", "content"):
        value = attached.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return _joined(value)
        if isinstance(value, dict) and isinstance(value.get("content"), str):
            return str(value["content"])
    return describe_input(_without(attached, "type"))


def _without(value: object, left_out: str) -> object:
    if not isinstance(value, dict):
        return value
    return {key: part for key, part in value.items() if key != left_out}


def _joined(values: list[Any]) -> str:
    return "\n".join(value if isinstance(value, str) else describe_input(value) for value in values)


_READERS: Final[dict[str, Callable[[dict[str, Any], _Origin], list[Entry]]]] = {
    "assistant": _assistant,
    "user": _user,
    "attachment": _attachment,
    "system": _system,
}
