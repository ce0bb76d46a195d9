"""Conversations as a person reads them: what was said, thought, called and answered, as pieces.

`chat show` and `tail`, `state show` and `show` of captured sessions all write with these.
"""

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
    who = StyledText(one_line(role), _ROLE_STYLES.get(role, "bold"))
    return [who, StyledText(f"  {rest}\n", "dim")]


def facts_line(*facts: str, lead: str = "") -> list[StyledText]:
    """Tell what is known of something on a line; nothing where nothing is."""
    shown = [one_line(fact) for fact in facts if fact]
    return [StyledText(f"{lead}{' · '.join(shown)}\n", "dim")] if shown else []


def said(text: str) -> list[StyledText]:
    """Show what somebody said."""
    return [StyledText(f"{indented(text, '  ') or '  '}\n")]


def thought(text: str) -> list[StyledText]:
    """Show what a model thought."""
    return [StyledText(f"{indented(f'thinking: {text}', '  ')}\n", "dim italic")]


def called(tool: str, given: str, state: str = "") -> list[StyledText]:
    """Show a tool call with what was given to it."""
    pieces = [StyledText(f"  ▸ {one_line(tool) or 'tool'} ", "yellow"), StyledText(given)]
    waits = [StyledText(f"  [{one_line(state)}]", "dim")] if state else []
    return [*pieces, *waits, StyledText("\n")]


def answered(text: str, *, error: bool = False) -> list[StyledText]:
    """Show what a tool gave back, or how it failed."""
    sign, style = ("✗", "red") if error else ("→", "dim")
    return [StyledText(f"    {sign} {text}\n", style)]


def noted(kind: str, text: str, style: str) -> list[StyledText]:
    """Show anything else, by what it is called."""
    return [StyledText(indented(f"[{kind}] {text}", "  ") + "\n", style)]


def hanging(text: str) -> str:
    """Indent all lines of a text but its first, to stand beneath a tool call."""
    return text.replace("\n", "\n      ")


def message_pieces(parts: Iterable[Json], limit: int = LIMIT) -> list[StyledText]:
    """Show the parts of a message, tool inputs and outputs cut at `limit` characters (0: whole)."""
    return [piece for part in parts for piece in part_pieces(part, limit)]


def part_pieces(part: Json, limit: int = LIMIT) -> list[StyledText]:
    """Show one part; of a type that is not known, its JSON."""
    kind = str(part.get("type", ""))
    if kind == "text":
        return said(_text(part.get("text")).rstrip("\n"))
    if kind == "reasoning":
        return thought(_text(part.get("text")).rstrip("\n"))
    if kind == "step-start":
        return []
    if "toolCallId" in part or kind.startswith(_TOOL):
        return tool_pieces(part, limit)
    shown = _BY_TYPE.get(kind)
    if shown is not None:
        return shown(part, limit)
    return [StyledText(f"  [{one_line(kind)}] {_detail(part, limit)}\n", "blue")]


def tool_name(part: Json) -> str:
    """Return the name of the tool that a part calls."""
    return one_line(_text(part.get("toolName") or _text(part.get("type")).removeprefix(_TOOL)))


def tool_pieces(part: Json, limit: int) -> list[StyledText]:
    """Show a tool call: its input, and what came of it."""
    state = _text(part.get("state"))
    given = value_text(part["input"], limit) if "input" in part else ""
    waits = "" if state in ("output-available", "output-error") else state
    pieces = called(tool_name(part), given, waits)
    if state == "output-available":
        pieces += output_pieces(part.get("output"), limit)
    if state == "output-error":
        pieces += error_pieces(part.get("errorText"), limit)
    return pieces


def output_pieces(output: Any, limit: int) -> list[StyledText]:
    """Show what a tool gave back."""
    return answered(value_text(output, limit))


def error_pieces(error: Any, limit: int) -> list[StyledText]:
    """Show how a tool failed."""
    return answered(cut(one_line(_text(error)), limit), error=True)


def value_text(value: Any, limit: int) -> str:
    """Write any JSON value on one line, or a text as it is, with its lines indented."""
    if isinstance(value, str):
        return hanging(cut(value, limit).rstrip("\n"))
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
    return noted("compacted", cut(summary, limit).rstrip("\n"), "magenta")


_BY_TYPE: Final = {"steering-message": _steering, "data-compaction": _compaction}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json_text(value)


def indented(text: str, lead: str) -> str:
    """Put `lead` before every line that has words; only a line feed ends a line here."""
    return "\n".join(lead + line if line.strip() else line for line in text.split("\n"))
