"""What `threadkeep open` shows: a thing as a person reads it, with what stands around it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from threadkeep.cli.command import Call
from threadkeep.cli.history.opening import typed
from threadkeep.cli.history.words import folded, when
from threadkeep.cli.output import one_line, write

if TYPE_CHECKING:
    from threadkeep.memory.records import Hit, HitDetail

_LINES, _CHARACTERS = 60, 6_000
_AROUND: Final = 120
# What is told in words of its own, or by the line above.
_TOLD: Final = frozenset({"content", "entities", "evidence", "title"})
_LISTS: Final = (
    ("key_decisions", "decided"),
    ("problems_encountered", "problem"),
)
_CHOICE: Final = ("chosen", "considered", "reason")
_MENTIONS: Final = ("files", "tools", "services", "errors", "env_vars", "domains", "projects")


def show_opened(call: Call, opened: "HitDetail", *, full: bool) -> None:
    """Print a thing: the text, what is known about it, and how to go on from there."""
    for before in opened.before:
        write(f"  {_neighbour(before)}", "dim")
    for line in _body(opened, full=full):
        write(line)
    for after in opened.after:
        write(f"  {_neighbour(after)}", "dim")
    for name, value in opened.facts.items():
        if name not in _TOLD and value not in (None, "", [], {}, (), False):
            told = when(value) if name.endswith("_at") else one_line(str(value))
            write(f"{name}: {told}", "dim")
    for command in _ways_on(call, opened):
        write(command, "dim")


def _body(opened: "HitDetail", *, full: bool) -> Iterator[str]:
    content = opened.facts.get("content")
    if isinstance(content, dict) and isinstance(content.get("summary"), str):
        yield from _note(content)
    else:
        text = opened.text
        yield text if full else folded(text, lines=_LINES, characters=_CHARACTERS)


def _note(content: dict[str, Any]) -> Iterator[str]:
    """Write a node as a note: what was wanted, what came of it, what it mentions."""
    yield one_line(content["summary"])
    for name, word in _LISTS:
        yield from (f"{word}: {one_line(one)}" for one in _texts(content.get(name)))
    weighed = content.get("design_decisions")
    for one in weighed if isinstance(weighed, list) else ():
        if isinstance(one, dict):
            chosen, other, why = (one_line(str(one.get(name) or "?")) for name in _CHOICE)
            yield f"chosen: {chosen}, not {other}: {why}"
    mentioned = content.get("entities")
    known = mentioned if isinstance(mentioned, dict) else {}
    for name in _MENTIONS:
        if names := _texts(known.get(name)):
            yield f"{name.replace('_', ' ')}: {', '.join(map(one_line, names))}"
    if tags := _texts(content.get("tags")):
        yield f"tags: {', '.join(map(one_line, tags))}"


def _texts(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _ways_on(call: Call, opened: "HitDetail") -> Iterator[str]:
    for source in opened.facts.get("evidence") or ():
        yield typed(call, "open", source)
    hit = opened.hit
    if hit.session_id and hit.key:
        yield typed(call, "show", f"{hit.harness}:{hit.session_id}", "--at", hit.key)


def _neighbour(hit: "Hit") -> str:
    said = one_line(hit.snippet or hit.title, _AROUND)
    return f"{when(hit.at)} {hit.role or hit.kind} {hit.ref}: {said}"
