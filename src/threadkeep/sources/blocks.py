"""Entries as most programs have them: what was said, calls and results, and blocks of a message."""

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final, NamedTuple

from threadkeep.knowledge.records import Entry, Image, Kind, Role, Usage
from threadkeep.sources.common import (
    block_text,
    describe_input,
    iso_ms,
    number,
    pictures,
    rows,
    strange_name,
    table,
    text,
)

_MOST_SECONDS: Final = 100_000_000_000  # a larger time counts milliseconds


def spoken(
    role: Role, kind: Kind, shown: str, at: int | None, model: str = "", *, error: bool = False
) -> list[Entry]:
    """Make the entry of what somebody said, none if it is blank; its key is given later."""
    return [Entry("", role, kind, at, shown, model=model, error=error)] if shown.strip() else []


def of_person(entries: list[Entry], *, typed: bool = True) -> list[Entry]:
    """Return what was said to the person's side: typed there, or put there in their name."""
    for entry in entries:
        if entry.role == "assistant" and entry.kind in {"text", "note"}:
            asked = typed and entry.kind == "text"
            entry.role, entry.model, entry.kind = "user", "", "prompt" if asked else "note"
    return entries


def shown_image(parts: object, at: int | None) -> Entry:
    """Make the entry of a picture that somebody showed: it is no question or answer of its own."""
    return Entry("", "assistant", "note", at, "[image]", images=pictures(parts))


def call(tool: str, call_id: str, given: object, at: int | None, model: str = "") -> Entry:
    """Make the entry of a tool's call."""
    shown = describe_input(given)
    return Entry(
        *("", "assistant", "tool_call", at, shown),
        tool=tool,
        call_id=call_id,
        model=model,
        input=given,
    )


def result(
    call_id: str,
    shown: str,
    at: int | None,
    tool: str = "",
    *,
    error: bool = False,
    images: tuple[Image, ...] = (),
) -> Entry:
    """Make the entry of what a tool gave back."""
    return Entry(
        *("", "tool", "tool_result", at, shown),
        tool=tool,
        call_id=call_id,
        error=error,
        images=images,
    )


def spent(
    key: str,
    at: int | None,
    model: str,
    counts: dict[str, Any],
    names: tuple[str, str, str, str],
    *,
    reasoning: str = "",
    inclusive: bool = False,
) -> Usage:
    """Make the usage of an answer from counts of these names: input, output, cache read, written.

    `inclusive`: the program's input contains what came from and went to the cache.
    """
    given, output, read, written = (max(0, number(counts.get(name))) for name in names)
    if inclusive:
        given = max(0, given - read - written)
    usage = Usage(key, at, model, input=given, output=output, cache_read=read, cache_write=written)
    usage.reasoning = max(0, number(counts.get(reasoning)))
    return usage


def moment(value: object) -> int | None:
    """Read a time as epoch milliseconds: seconds, milliseconds, or a text; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return iso_ms(value)
    scale = 1000 if abs(value) < _MOST_SECONDS else 1
    return number(value * scale) or None


def local_moment(value: object) -> int | None:
    """Read a time that is told without a zone as one of this machine's zone."""
    try:
        told = datetime.fromisoformat(text(value))
        return iso_ms(told.astimezone().isoformat())
    except (ValueError, OverflowError, OSError):
        return None


# ---------------------------------------------------------------------- blocks of a message


def message_blocks(
    content: object,
    at: int | None,
    model: str,
    strange: list[str],
    shown: Callable[[object], str] = block_text,
) -> list[Entry]:
    """Read an answer's or a result's blocks as Anthropic names them; `shown` reads a result's text.

    What a person said is not among them: programs wrap it each in their own way.
    """
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else rows(content)
    found: list[Entry] = []
    for block in map(table, blocks):
        found += _block(block, at, model, strange, shown)
    return found


def _block(
    block: dict[str, Any],
    at: int | None,
    model: str,
    strange: list[str],
    shown: Callable[[object], str],
) -> list[Entry]:
    found: list[Entry] = []
    match block.get("type"):
        case "text":
            found = spoken("assistant", "text", text(block.get("text")), at, model)
        case "thinking":
            found = spoken("assistant", "reasoning", text(block.get("thinking")), at, model)
        case "tool_use":
            named = text(block.get("name"))
            found = [call(named, text(block.get("id")), block.get("input"), at, model)]
        case "tool_result":
            found = [_result(block, at, shown)]
        case "image" | "media":
            found = [shown_image([block], at)]
        case "file":
            found = spoken("user", "note", f"[file] {text(block.get('path'))}", at)
        case "redacted_thinking":
            pass
        case other:
            strange.append(strange_name(block, "block", other))
    return found


def _result(block: dict[str, Any], at: int | None, shown: Callable[[object], str]) -> Entry:
    content = block.get("content")
    return result(
        text(block.get("tool_use_id")),
        shown(content),
        at,
        text(block.get("name")),
        error=block.get("is_error") is True,
        images=pictures(content),
    )


# ---------------------------------------------------------------------- tags in a text

_ANY_NAME: Final = r"[A-Za-z_][\w-]*"
_MOST_OPEN: Final = 50  # names of tags that are never closed: behind so many nobody wrote tags


class Tagged(NamedTuple):
    """A part of a text between two tags."""

    start: int
    end: int
    name: str
    attributes: str
    inside: str


def tagged(said: str, *names: str) -> list[Tagged]:
    """Find what is between tags of these names, or of any; in one pass, whatever is there."""
    pattern = re.compile(rf"<({'|'.join(names) or _ANY_NAME})\b([^<>]*)>")
    found: list[Tagged] = []
    missing: set[str] = set()
    at = 0
    while (opened := pattern.search(said, at)) and len(missing) < _MOST_OPEN:
        name, at = opened[1], opened.end()
        closed = -1 if name in missing else said.find(f"</{name}>", at)
        if closed < 0:
            missing.add(name)
            continue
        inside, at = said[at:closed], closed + len(name) + 3
        found.append(Tagged(opened.start(), at, name, opened[2].strip(), inside))
    return found


def cut_out(said: str, parts: Iterable[tuple[int, int]]) -> str:
    """Return a text without these parts of it, which do not overlap."""
    kept, behind = [], 0
    for start, end in parts:
        kept.append(said[behind:start])
        behind = end
    return "".join([*kept, said[behind:]])


def without(said: str, *names: str) -> str:
    """Take what is between tags of these names, and the tags, out of a text."""
    return cut_out(said, [(one.start, one.end) for one in tagged(said, *names)])


def unwrapped(said: str, name: str) -> str:
    """Return what is between tags if the text begins with them, else all of it."""
    found = tagged(said, name) if said.lstrip().startswith(f"<{name}") else []
    return found[0].inside.strip("\n") if found else said
