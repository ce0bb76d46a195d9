"""Codex: what of an entry goes into a segment: bare prompts, and calls in few words."""

from typing import Any, Final

import msgspec

from threadkeep.sources.codex_items import Seen, arguments_of, shell_command
from threadkeep.sources.common import text
from threadkeep.sources.records import Entry

# Editors put what is on the screen before the request, and end that with a line of these.
_XCODE: Final = ("code selected", "file currently open", "inside this file:")
_REQUEST: Final = "## My request for Codex:"
_TELLING: Final = ("cmd", "command", "filePath", "path", "uri", "query", "pattern")
_TOLD: Final = 120
_SHORT: Final = 80


def for_segment(entry: Entry, seen: Seen, now: int) -> Entry:
    """Give the entry as a segment counts it; where the log has no time, `now` is the last known."""
    kind, tool, said = entry.kind, entry.tool, entry.text
    if kind == "prompt":
        said = bare_prompt(said)
    elif kind == "tool_call":
        tool, said = summed_up(seen.body)
        # Searches count as messages only: other programs of the contract do not list them, and
        # a hash that differs would have every such segment enriched again.
        kind = kind if tool else "note"
    at = now if entry.at is None else entry.at
    if said is entry.text and at == entry.at:
        return entry
    return msgspec.structs.replace(entry, kind=kind, tool=tool, text=said, at=at)


def bare_prompt(prompt: str) -> str:
    """Take away what an editor put before a request."""
    at = prompt.rfind(_REQUEST)
    if at >= 0:
        return prompt[at + len(_REQUEST) :].strip() or prompt
    last = max(prompt.rfind(marker) for marker in _XCODE)
    start = prompt.rfind("\n", 0, max(last, 0)) + 1
    if last < 0 or not prompt.startswith("The ", start):
        return prompt
    return prompt[last:].partition("\n")[2].strip() or prompt


def summed_up(body: dict[str, Any]) -> tuple[str, str]:
    """Give the name and the summary of a call; no name if segments do not list it."""
    kind, name = body.get("type"), text(body.get("name"))
    if kind == "function_call":
        return name, _summary(body.get("arguments"))
    if kind == "custom_tool_call":
        return name, _summary(body.get("input"))
    return ("local_shell", shell_command(body)) if kind == "local_shell_call" else ("", "")


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
