"""Messages and their parts as lines a person can read: pure functions from JSON to pieces."""

from collections.abc import Iterable
from typing import Any, Final

from threadkeep.cli.output import StyledText, json_text, one_line

Json = dict[str, Any]

LIMIT = 2000
_TOOL = "tool-"
_DATA = "data-"
_ROLE_STYLES = {"user": "bold green", "assistant": "bold cyan", "system": "bold magenta"}


def header(role: str, *facts: str) -> list[StyledText]:
    """Begin a message."""
    rest = " · ".join(one_line(fact) for fact in facts if fact)
    return [
        StyledText(one_line(role), _ROLE_STYLES.get(role, "bold")),
        StyledText(f"  {rest}\n", "dim"),
    ]


def message_pieces(parts: Iterable[Json], limit: int = LIMIT) -> list[StyledText]:
    """Show the parts of a message, tool inputs and outputs cut at `limit` characters (0: whole)."""
    return [piece for part in parts for piece in part_pieces(part, limit)]


def part_pieces(part: Json, limit: int = LIMIT) -> list[StyledText]:
    """Show one part; of a type that is not known, its JSON."""
    kind = str(part.get("type", ""))
    if kind == "text":
        return [StyledText(_indented(part.get("text")) + "\n")]
    if kind == "reasoning":
        return [StyledText(_indented(f"thinking: {_text(part.get('text'))}") + "\n", "dim italic")]
    if kind == "step-start":
        return []
    if "toolCallId" in part or kind.startswith(_TOOL):
        return tool_pieces(part, limit)
    shown = _BY_TYPE.get(kind)
    if shown is not None:
        return shown(part, limit)
    return [StyledText(f"  [{one_line(kind)}] {_detail(part, limit)}\n", "blue")]


def tool_name(part: Json) -> str:
    """Give the name of the tool that a part calls."""
    return one_line(_text(part.get("toolName") or _text(part.get("type")).removeprefix(_TOOL)))


def tool_pieces(part: Json, limit: int) -> list[StyledText]:
    """Show a tool call: its input, and what came of it."""
    state = _text(part.get("state"))
    pieces = [StyledText(f"  ▸ {tool_name(part)} ", "yellow")]
    if "input" in part:
        pieces.append(StyledText(value_text(part["input"], limit)))
    if state not in ("output-available", "output-error"):
        pieces.append(StyledText(f"  [{one_line(state)}]", "dim"))
    pieces.append(StyledText("\n"))
    if state == "output-available":
        pieces += output_pieces(part.get("output"), limit)
    if state == "output-error":
        pieces += error_pieces(part.get("errorText"), limit)
    return pieces


def output_pieces(output: Any, limit: int) -> list[StyledText]:
    """Show what a tool gave back."""
    return [StyledText("    → ", "dim"), StyledText(f"{value_text(output, limit)}\n", "dim")]


def error_pieces(error: Any, limit: int) -> list[StyledText]:
    """Show how a tool failed."""
    return [StyledText(f"    ✗ {cut(one_line(_text(error)), limit)}\n", "red")]


def value_text(value: Any, limit: int) -> str:
    """Write any JSON value on one line, or a text as it is, with its lines indented."""
    if isinstance(value, str):
        return cut(value, limit).rstrip("\n").replace("\n", "\n      ")
    return cut(json_text(value), limit)


def cut(text: str, limit: int) -> str:
    """Keep the beginning of a long text, and say how much is missing."""
    if not limit or len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text) - limit:,} more characters)"


def _detail(part: Json, limit: int) -> str:
    """What there is to say about a file, a source, data, or something unknown."""
    kind = _text(part.get("type"))
    named = [part.get(key) for key in ("mediaType", "title", "filename", "url")]
    words = [one_line(value, 200) for value in named if isinstance(value, str)]
    if kind.startswith(_DATA) and "data" in part:
        return value_text(part["data"], limit)
    if words:
        return " ".join(words)
    rest = {key: value for key, value in part.items() if key != "type"}
    return value_text(rest, limit) if rest else ""


def _steering(part: Json, limit: int) -> list[StyledText]:
    """Show what the user said in the middle of the reply."""
    said = part.get("parts")
    parts = [one for one in said if isinstance(one, dict)] if isinstance(said, list) else []
    return [StyledText("  user, meanwhile:\n", _ROLE_STYLES["user"]), *message_pieces(parts, limit)]


def _compaction(part: Json, limit: int) -> list[StyledText]:
    data = part.get("data")
    summary = _text(data.get("summary")) if isinstance(data, dict) else ""
    return [StyledText(_indented(f"[compacted] {cut(summary, limit)}") + "\n", "magenta")]


_BY_TYPE: Final = {"steering-message": _steering, "data-compaction": _compaction}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json_text(value)


def _indented(value: Any) -> str:
    return indented(_text(value).rstrip("\n"), "  ") or "  "


def indented(text: str, lead: str) -> str:
    """Put `lead` before every line that has words; only a line feed ends a line here."""
    return "\n".join(lead + line if line.strip() else line for line in text.split("\n"))
