"""Codex: from a line of a rollout to entries, each line read alone.

A message stands in a rollout twice: as `response_item` (what the model sees, in every version) and
as `event_msg` (what the screen shows, in other words in every version). The items are the
transcript. The events that repeat a prompt or an answer are read, too: a parser takes them only
where the item is missing.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from threadkeep.knowledge.records import Entry, Image, Kind, Role
from threadkeep.sources.common import (
    OpenSegment,
    block_text,
    describe_input,
    iso_ms,
    number,
    pictures,
    rows,
    table,
    text,
)
from threadkeep.sources.copy_marks import CopyMark, marked, read_mark

# ------------------------------------------------------------------------------
# Codex: what a tool gave back, and whether it went wrong.

_HEAD: Final = 400
_FAILED: Final = (
    "apply_patch verification failed",
    "exec_command failed",
    "execution error",
    "failed to parse function arguments",
    "unsupported call",
    "aborted by user",
)
_EXIT: Final = "Exit code: "
_EXITED: Final = "Process exited with code "


class _Result(msgspec.Struct):
    output: str
    metadata: dict[str, Any] = {}


_results: Final = msgspec.json.Decoder(_Result)


def output_of(given: object) -> tuple[str, bool]:
    """Return the text of a tool's output, and whether it tells of a failure."""
    if isinstance(given, list):
        said = "\n".join(filter(None, map(_piece, given)))
        return said, _failed(said)
    if isinstance(given, dict):
        said = block_text(given.get("content"))
        return said, given.get("success") is False or _failed(said)
    said = text(given)
    if said.startswith('{"output":'):
        return _from_json(said)
    return said, _failed(said)


def _from_json(said: str) -> tuple[str, bool]:
    try:
        result = _results.decode(said)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return said, False
    code = result.metadata.get("exit_code")
    return result.output, isinstance(code, int) and code != 0


def _piece(block: object) -> str:
    if isinstance(block, str):
        return block
    found = table(block)
    if said := text(found.get("text")):
        return said
    if "image" in text(found.get("type")):
        return "[image]"
    return block_text(found.get("content"))


def _failed(said: str) -> bool:
    """Look for an exit code in the lines above the output itself."""
    head = said[:_HEAD].partition("\nOutput:")[0]
    if head.startswith(_EXIT):
        return head[len(_EXIT) :].partition("\n")[0].strip() != "0"
    before, found, code = head.partition(_EXITED)
    if found and (not before or before.endswith("\n")):
        return code.partition("\n")[0].strip() != "0"
    return head.startswith(_FAILED)


Body = dict[str, Any]

# Some providers count their calls from zero in every turn. Ids this long are random.
_UNIQUE_LENGTH: Final = 16
_CODEX_ITEMS_HEAD: Final = 200
_PICTURE: Final = "[image]"

# How a text begins that Codex itself puts into the user's mouth, where the log does not say so.
_INJECTED: Final = (
    "<environment_context",
    "<user_instructions",
    "# AGENTS.md instructions",
    "<INSTRUCTIONS>",
    "<skill>",
    "<skills",
    "<permissions",
    "<turn_aborted",
    "<user_shell_command",
    "<user_action",
    "<subagent_notification",
    "<recommended_",
    "<codex_",
    "<goal_context",
    "<hook_prompt",
    "<external_",
    "<model_switch",
    "<managed_developer_instructions",
    "<apps_instructions",
    "<plugins_instructions",
    "<environments_instructions",
    "<collaboration_mode",
    "<multi_agent_mode",
    "<personality_spec",
    "<realtime_conversation",
    "<token_budget",
    "<context_window",
    "<rollout_budget",
    "<git_attribution",
    "Warning: The maximum number of unified exec processes",
    "Warning: apply_patch was requested via ",
    "Warning: Your account was flagged for potentially high-risk",
)


class CodexRecord(NamedTuple):
    """A record without its envelope."""

    kind: str
    body: Body
    at: int | None
    stamp: str = ""
    inherited: bool = False  # a subagent's copy of what its parent was asked
    mark: CopyMark | None = None  # a hand-off wrote it


def unwrap(record: Any) -> CodexRecord:
    """Take a record out of its envelope; the oldest logs have none."""
    if not isinstance(record, dict):
        return CodexRecord(f"a bare {type(record).__name__}", {}, None)
    kind, body = text(record.get("type")), record.get("payload")
    stamp = text(record.get("timestamp"))
    if isinstance(body, dict):
        inherited = table(record.get("metadata")).get("inherited_user_message") is True
        return CodexRecord(kind, body, iso_ms(stamp), stamp, inherited, read_mark(record))
    if kind in _ITEMS:
        return CodexRecord("response_item", record, iso_ms(stamp), stamp)
    if not kind and stamp and "id" in record:
        return CodexRecord("session_meta", record, iso_ms(stamp), stamp)
    return CodexRecord(
        kind or ("state" if "record_type" in record else ""), {}, iso_ms(stamp), stamp
    )


def entries_of(seen: CodexRecord, line: bytes) -> list[Entry]:
    """Read the entries of one record."""
    kind, body = seen.kind, seen.body
    if kind == "response_item":
        read = _ITEMS.get(text(body.get("type")))
    elif kind == "event_msg":
        read = _EVENTS.get(text(body.get("type")))
    else:
        read = _OTHERS.get(kind)
    return [] if read is None else marked(read(seen, line), seen.mark)


def is_known_item(name: str) -> bool:
    """Tell whether this version knows a type of response item."""
    return name in _ITEMS


# ---------------------------------------------------------------------- keys and pieces


def _key(seen: CodexRecord, line: bytes, name: object = None) -> str:
    """Name a record by its own id, else by what it holds: the same in every copy of the line."""
    if isinstance(name, str) and len(name) >= _UNIQUE_LENGTH:
        return name
    # The time tells apart two records that were glued into one line.
    salt = seen.stamp.encode("utf-8", "replace")[:64]
    from hashlib import blake2b  # noqa: PLC0415  (2 ms, and most lines have a name)

    return blake2b(line, digest_size=8, key=salt).hexdigest()


def _one(
    seen: CodexRecord, line: bytes, role: Role, kind: Kind, said: str, *, error: bool = False
) -> list[Entry]:
    if not said:
        return []
    key = _key(seen, line, seen.body.get("id"))
    return [Entry(key=key, role=role, kind=kind, at=seen.at, text=said, error=error)]


def _codex_items_piece(block: object) -> str:
    if isinstance(block, str):
        return block
    found = table(block)
    said = text(found.get("text"))
    if not said:
        return _PICTURE if "image" in text(found.get("type")) else ""
    # Codex frames a picture with the two halves of a tag, each a block of its own.
    if (
        said.startswith(("<image", "</image"))
        and len(said) < _CODEX_ITEMS_HEAD
        and said.endswith(">")
    ):
        return ""
    return said


def _pieces(content: object) -> list[str]:
    return (
        [content]
        if isinstance(content, str)
        else [_codex_items_piece(block) for block in rows(content)]
    )


def _joined(content: object) -> str:
    return "\n".join(filter(None, _pieces(content)))


# ---------------------------------------------------------------------- messages


def _message(seen: CodexRecord, line: bytes) -> list[Entry]:
    role = seen.body.get("role")
    if role == "user":
        return _from_user(seen, line)
    content = seen.body.get("content")
    said = _joined(content)
    if role == "assistant":
        found = _one(seen, line, "assistant", "text", said)
    else:
        found = _one(seen, line, "system", "note", said)
    return _illustrated(found, said, content)


def _illustrated(found: list[Entry], said: str, content: object) -> list[Entry]:
    """Put pictures to the last entry of a message, if its text says that there are any."""
    if found and _PICTURE in said:
        found[-1].images = pictures(content)
    return found


def _from_user(seen: CodexRecord, line: bytes) -> list[Entry]:
    """Part what the person asked from the context that the program put into the same message."""
    body = seen.body
    kinds = rows(
        table(body.get("internal_chat_message_metadata_passthrough")).get("content_item_kinds")
    )
    asked: list[str] = []
    told: list[str] = []
    for place, piece in enumerate(_pieces(body.get("content"))):
        if piece:
            named = text(kinds[place]) if place < len(kinds) else ""
            (told if seen.inherited or _is_injected(piece, named) else asked).append(piece)
    found = _one(seen, line, "user", "note", "\n".join(told))
    found += _one(seen, line, "user", "prompt", "\n".join(asked))
    if len(found) > 1:
        found[1].key += "#1"
    return _illustrated(found, found[-1].text if found else "", body.get("content"))


def _is_injected(piece: str, named: str) -> bool:
    """Tell context from a request: newer logs name each piece, in older ones its start tells."""
    if named and named != "unknown":
        return not named.startswith(("user.", "multi_agent.inter_agent_message"))
    return piece[:_CODEX_ITEMS_HEAD].lstrip().startswith(_INJECTED)


def _between_agents(seen: CodexRecord, line: bytes) -> list[Entry]:
    """Read a message of one agent to another: downwards it is a request, else a report."""
    author, recipient = text(seen.body.get("author")), text(seen.body.get("recipient"))
    is_request = bool(author) and recipient.startswith(f"{author.rstrip('/')}/")
    said = _joined(seen.body.get("content"))
    return _one(seen, line, "user", "prompt" if is_request else "note", said)


def _reasoning(seen: CodexRecord, line: bytes) -> list[Entry]:
    said = _joined(seen.body.get("summary")) or _joined(seen.body.get("content"))
    return _one(seen, line, "assistant", "reasoning", said)


def _compacted(seen: CodexRecord, line: bytes) -> list[Entry]:
    return _one(seen, line, "user", "summary", text(seen.body.get("message")))


# ---------------------------------------------------------------------- tools


def arguments_of(raw: object) -> object:
    """Decode the arguments of a call; what is no JSON object stays as it is."""
    if isinstance(raw, str) and raw.startswith("{"):
        try:
            return msgspec.json.decode(raw)
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
            return raw
    return raw


def _described(given: object) -> str:
    try:
        return describe_input(given)
    except (RecursionError, ValueError):
        return ""  # nested deeper than anything that was meant


def _call(
    seen: CodexRecord, line: bytes, tool: str, given: object, said: str | None = None
) -> list[Entry]:
    """Make a call of its input; `said` is what is shown of it, if not all."""
    call_id = text(seen.body.get("call_id"))
    key = _key(seen, line, call_id or seen.body.get("id"))
    shown = _described(given) if said is None else said
    entry = Entry(key, "assistant", "tool_call", seen.at, shown, tool=tool, call_id=call_id)
    entry.input = given
    return [entry]


def _result(seen: CodexRecord, line: bytes, said: str, *, error: bool = False) -> list[Entry]:
    call_id = text(seen.body.get("call_id"))
    key = f"{call_id}:out" if len(call_id) >= _UNIQUE_LENGTH else _key(seen, line)
    return [Entry(key, "tool", "tool_result", seen.at, said, call_id=call_id, error=error)]


def _function_call(seen: CodexRecord, line: bytes) -> list[Entry]:
    body = seen.body
    name, namespace = text(body.get("name")), text(body.get("namespace"))
    tool = f"{namespace}.{name}" if namespace else name
    return _call(seen, line, tool, arguments_of(body.get("arguments")))


def _custom_tool_call(seen: CodexRecord, line: bytes) -> list[Entry]:
    return _call(seen, line, text(seen.body.get("name")), seen.body.get("input"))


def _call_output(seen: CodexRecord, line: bytes) -> list[Entry]:
    output = seen.body.get("output")
    said, error = output_of(output)
    found = _result(seen, line, said, error=error)
    if isinstance(output, list):
        found[0].images = pictures(output)
    return found


def _local_shell_call(seen: CodexRecord, line: bytes) -> list[Entry]:
    body = seen.body
    return _call(seen, line, "local_shell", body.get("action"), shell_command(body))


def shell_command(body: Body) -> str:
    """Return the command of a `local_shell_call`."""
    command = table(body.get("action")).get("command")
    return " ".join(map(text, command)) if isinstance(command, list) else text(command)


def _web_search_call(seen: CodexRecord, line: bytes) -> list[Entry]:
    action = {key: value for key, value in table(seen.body.get("action")).items() if key != "type"}
    return _call(seen, line, "web_search", action)


def _tool_search_call(seen: CodexRecord, line: bytes) -> list[Entry]:
    return _call(seen, line, "tool_search", seen.body.get("arguments"))


def _tool_search_output(seen: CodexRecord, line: bytes) -> list[Entry]:
    """Name the tools that were found; their definitions are of no use to a reader."""
    found = []
    for tool in map(table, rows(seen.body.get("tools"))):
        inner = [text(table(one).get("name")) for one in rows(tool.get("tools"))]
        found.append(": ".join(filter(None, [text(tool.get("name")), ", ".join(inner)])))
    return _result(seen, line, "\n".join(found))


def _image_generation_call(seen: CodexRecord, line: bytes) -> list[Entry]:
    made, prompt = text(seen.body.get("result")), text(seen.body.get("revised_prompt"))
    said = "\n".join(filter(None, [prompt, _PICTURE if made else ""]))
    found = _call(seen, line, "image_generation", {"prompt": prompt} if prompt else {}, said)
    found[0].images = (Image("image/png", data=made),) if made else ()
    return found


# ---------------------------------------------------------------------- events


def _user_message(seen: CodexRecord, line: bytes) -> list[Entry]:
    return _one(seen, line, "user", "prompt", text(seen.body.get("message")))


def _agent_message(seen: CodexRecord, line: bytes) -> list[Entry]:
    return _one(seen, line, "assistant", "text", text(seen.body.get("message")))


def _item_completed(seen: CodexRecord, line: bytes) -> list[Entry]:
    item = table(seen.body.get("item"))
    if item.get("type") != "UserMessage":
        return []
    return _one(seen, line, "user", "prompt", _joined(item.get("content")))


def _trouble(seen: CodexRecord, line: bytes) -> list[Entry]:
    is_error = seen.body.get("type") != "warning"
    return _one(seen, line, "system", "note", text(seen.body.get("message")), error=is_error)


def _rolled_back(seen: CodexRecord, line: bytes) -> list[Entry]:
    turns = number(seen.body.get("num_turns"))
    return _one(seen, line, "system", "note", f"rolled back: {turns} turns")


def _nothing(_seen: CodexRecord, _line: bytes) -> list[Entry]:
    return []


_Reader = Callable[[CodexRecord, bytes], list[Entry]]
_ITEMS: Final[dict[str, _Reader]] = {
    "message": _message,
    "agent_message": _between_agents,
    "reasoning": _reasoning,
    "function_call": _function_call,
    "function_call_output": _call_output,
    "custom_tool_call": _custom_tool_call,
    "custom_tool_call_output": _call_output,
    "local_shell_call": _local_shell_call,
    "local_shell_call_output": _call_output,
    "web_search_call": _web_search_call,
    "tool_search_call": _tool_search_call,
    "tool_search_output": _tool_search_output,
    "image_generation_call": _image_generation_call,
    # What these hold is encrypted, or of use to the program only.
    "compaction": _nothing,
    "compaction_summary": _nothing,
    "compaction_trigger": _nothing,
    "context_compaction": _nothing,
    "ghost_snapshot": _nothing,
    "additional_tools": _nothing,
    "other": _nothing,
}
_EVENTS: Final[dict[str, _Reader]] = {
    "user_message": _user_message,
    "agent_message": _agent_message,
    "item_completed": _item_completed,
    "error": _trouble,
    "stream_error": _trouble,
    "warning": _trouble,
    "thread_rolled_back": _rolled_back,
}
_OTHERS: Final[dict[str, _Reader]] = {
    "compacted": _compacted,
    "inter_agent_communication": _between_agents,
}


# ------------------------------------------------------------------------------
# Codex: what of an entry goes into a segment: bare prompts, and calls in few words.

# Editors put what is on the screen before the request, and end that with a line of these.
_XCODE: Final = ("code selected", "file currently open", "inside this file:")
_REQUEST: Final = "## My request for Codex:"
_TELLING: Final = ("cmd", "command", "filePath", "path", "uri", "query", "pattern")
_TOLD: Final = 120
_SHORT: Final = 80


def for_segment(entry: Entry, now: int) -> Entry:
    """Give the entry as a segment counts it; where the log has no time, `now` is the last known."""
    at = now if entry.at is None else entry.at
    if entry.kind == "prompt":
        return msgspec.structs.replace(entry, text=bare_prompt(entry.text), at=at)
    # Calls count as messages: `list_call` lists them, with summaries that keep their last space.
    if entry.kind == "tool_call" or at != entry.at:
        kind = "note" if entry.kind == "tool_call" else entry.kind
        return msgspec.structs.replace(entry, kind=kind, at=at)
    return entry


def list_call(body: dict[str, Any], current: OpenSegment) -> None:
    """Add a call to the open segment.

    Searches are not listed: other programs of the contract do not list them, and a hash that
    differs would have every such segment enriched again.
    """
    name, summary = summed_up(body)
    if name and current.index >= 0:
        current.tools.append((name, summary))
        current.characters += len(name) + len(summary)


def bare_prompt(prompt: str) -> str:
    """Take away what an editor put before a request."""
    at = prompt.rfind(_REQUEST)
    if at >= 0:
        return prompt[at + len(_REQUEST) :].strip() or prompt
    if not any(marker in prompt for marker in _XCODE):
        return prompt
    lines = prompt.split("\n")
    ends = [place for place, line in enumerate(lines) if _ends_screen(line)]
    return "\n".join(lines[ends[-1] + 1 :]).strip() or prompt if ends else prompt


def _ends_screen(line: str) -> bool:
    return line.startswith("The ") and any(marker in line for marker in _XCODE)


def summed_up(body: dict[str, Any]) -> tuple[str, str]:
    """Return the name and the summary of a call; no name if segments do not list it."""
    kind, name = body.get("type"), text(body.get("name"))
    if kind == "function_call":
        return name, _summary(body.get("arguments"))
    if kind == "custom_tool_call":
        return name, _summary(body.get("input"))
    return ("local_shell", shell_command(body)[:_TOLD]) if kind == "local_shell_call" else ("", "")


def _summary(raw: object) -> str:
    given = arguments_of(raw)
    if isinstance(given, dict):
        for key in _TELLING:
            if said := _shown(given.get(key)):
                return said[:_TOLD]
        for key in sorted(given):
            if isinstance(given[key], str) and given[key]:
                return str(given[key])[:_SHORT]
    return text(raw)[:_SHORT]


def _shown(value: object) -> str:
    if isinstance(value, list):  # the oldest shell tool: a program and its arguments
        return " ".join(map(text, value))
    return text(value)
