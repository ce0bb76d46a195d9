"""Markdown to read, and JSON lines with every block as it is."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from threadkeep.base.text import join_pairs
from threadkeep.knowledge.records import Image
from threadkeep.transfer import conversation

_NAMES = {"user": "User", "assistant": "Assistant", "tool": "Assistant", "system": "System"}
_TICKS = re.compile("`{3,}")


def jsonl(told: conversation.Conversation, new: conversation.NewSession) -> str:
    """Write what is known of a session, then every block, one a line."""
    del new
    return conversation.json_lines(_lines(told))


def _lines(told: conversation.Conversation) -> Iterator[dict[str, Any]]:
    yield {"type": "session", **msgspec.structs.asdict(told.about)}
    for message, block in conversation.blocks_of(told):
        said = {"role": message.role, "at": message.at, "model": message.model}
        yield {"type": block.__struct_config__.tag, **said, **_fields(block)}


def _fields(block: conversation.Block) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.structs.asdict(block)
    if isinstance(block, conversation.ToolResult):
        fields["images"] = [msgspec.structs.asdict(image) for image in block.images]
    elif isinstance(block, conversation.Picture):
        fields["image"] = msgspec.structs.asdict(block.image)
    return fields


def markdown(told: conversation.Conversation, new: conversation.NewSession) -> str:
    """Write a session to be read: what tools were given and gave back stands in fences."""
    del new
    about = told.about
    pieces = [f"# {_one_line(about.title or about.session_id)}", _facts(told)]
    speaker = ""
    for message in told.messages:
        name = _NAMES[message.role]
        if name != speaker or message.role == "user":
            pieces.append(_heading(name, message))
        speaker = name
        pieces += [_piece(block) for block in message.blocks]
    text = join_pairs("\n\n".join(pieces) + "\n")
    # Half of a character cannot be written as UTF-8: it shows as its number.
    return text.encode("utf-8", "backslashreplace").decode()


def _facts(told: conversation.Conversation) -> str:
    about = told.about
    known = {
        "session": f"{about.harness}:{about.session_id}",
        "began": "" if about.started_at is None else conversation.stamp(about.started_at),
        "model": about.model,
        "folder": about.cwd,
        "branch": about.git_branch,
    }
    return "\n".join(f"- {name}: {_one_line(value)}" for name, value in known.items() if value)


def _heading(name: str, message: conversation.ExportMessage) -> str:
    told = [
        name,
        "" if message.at is None else conversation.stamp(message.at),
        _one_line(message.model),
    ]
    return f"## {' · '.join(filter(None, told))}"


def _piece(block: conversation.Block) -> str:
    match block:
        case conversation.ExportText(text=said):
            return said
        case conversation.ToolCall(name=name, input=given):
            return f"**Call** {_code(name)}\n\n{_fenced(_shown(given))}"
        case conversation.ToolResult(output=said, error=error):
            shown = [f"**{'Failure' if error else 'Result'}**", _fenced(said)]
            return "\n\n".join([*shown, *map(_picture, block.images)])
        case conversation.Picture(image=image):
            return _picture(image)
        case conversation.Reasoning() | conversation.Summary() | conversation.ExportNote():
            return _quoted(f"{_label(block)}: {block.text}")


def _label(block: conversation.Reasoning | conversation.Summary | conversation.ExportNote) -> str:
    if isinstance(block, conversation.ExportNote):
        return "Error" if block.error else "Note"
    return "Thinking" if isinstance(block, conversation.Reasoning) else "Summary"


def _picture(image: Image) -> str:
    return f"![{conversation.described(image)[1:-1]}]({conversation.data_url(image)})"


def _shown(given: Any) -> str:
    if isinstance(given, str):
        return given
    fields = conversation.as_object(given)
    return "\n".join(f"{name}: {_value(value)}" for name, value in fields.items())


def _value(value: Any) -> str:
    return value if isinstance(value, str) else conversation.encoded(value)


def _quoted(said: str) -> str:
    return "\n".join(f"> {line}" for line in said.splitlines()) or ">"


def _code(name: str) -> str:
    return f"`{_one_line(name).replace('`', '')}`"


def _fenced(said: str) -> str:
    """Put text between fences that are longer than any in it."""
    longest = max((len(found) for found in _TICKS.findall(said)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{said}\n{fence}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
