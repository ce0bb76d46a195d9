"""Claude Code's records as entries of a conversation: who said what, one entry per block.

A `user` record is rarely a person: it also carries tool results, reminders, the output of local
commands and what a compaction left. Only what is left after all of these is a prompt.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from threadkeep.knowledge.records import Entry, Image, Kind, Role
from threadkeep.sources.claude_tools import result_text
from threadkeep.sources.common import describe_input
from threadkeep.sources.copy_marks import marked, read_mark
from threadkeep.sources.pictures import picture, pictures

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
_COMMANDS: Final = ("<command-name>", "<command-message>")
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
    """Give the type that a record or a block names, empty if it names none."""
    kind = value.get("type") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) else ""


def count(unknown: dict[str, int], name: str) -> None:
    """Count a type this version does not know, by a name of bounded length."""
    name = name[:80]
    if name in unknown or len(unknown) < 200:  # noqa: PLR2004 a broken log cannot fill the memory
        unknown[name] = unknown.get(name, 0) + 1


def message_content(record: dict[str, Any]) -> object:
    """Give what the message of a record holds: a text or blocks."""
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
    if head.startswith(_COMMANDS):
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
