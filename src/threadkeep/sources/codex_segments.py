"""Codex: what of an entry goes into a segment: bare prompts, and calls in few words."""

from typing import Any, Final

import msgspec

from threadkeep.knowledge.records import Entry
from threadkeep.sources.codex_items import arguments_of, shell_command
from threadkeep.sources.common import text
from threadkeep.sources.segments import OpenSegment

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
    """Give the name and the summary of a call; no name if segments do not list it."""
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
