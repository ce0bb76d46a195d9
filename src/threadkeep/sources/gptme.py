"""gptme: one line log per conversation; calls stand in the text of the answer, in three ways.

A result is a line of the role `system`. Lines that are pinned or hidden are the program's own
prompt. An edit or an undo rewrites the file; what was said before is kept.
"""

import json
import re
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from threadkeep.knowledge.records import Entry, SessionFacts, Usage
from threadkeep.sources.blocks import (
    call,
    cut_out,
    local_moment,
    result,
    spent,
    spoken,
    tagged,
    without,
)
from threadkeep.sources.common import numbered, plain, strange_name, table, text
from threadkeep.sources.format import (
    DocumentFiles,
    Documents,
    Keyed,
    LineLogs,
    Told,
    named_by_folder,
)
from threadkeep.sources.places import place
from threadkeep.sources.records import Log

_AGENT: Final = "gptme"
_ROOTS: Final = ("$GPTME_LOGS_HOME", "{data}/gptme/logs")
_THOUGHTS: Final = ("think", "thinking")
# A call: `@shell(id): {json}`, or `<tool-use><shell …>…</shell></tool-use>`, or a fenced block
# whose language is the name of a tool.
_NATIVE: Final = re.compile(r"^@([\w.:-]+)\(([^)\n]*)\):\s*(?=\{)", re.MULTILINE)
_TAG: Final = "tool-use"
_FENCE: Final = re.compile(r"^(`{3,})([\w-]*)([^\n`]*)$", re.MULTILINE)
_TOOLS: Final = frozenset(
    (
        *("shell", "bash", "ipython", "save", "append", "patch", "patch_many", "morph", "tmux"),
        *("browser", "read", "vision", "screenshot", "computer", "rag", "gh", "subagent", "choice"),
        *("form", "youtube", "todo", "memory", "mcp", "complete", "restart", "chats", "elicit"),
    )
)
_decoder: Final = json.JSONDecoder()


def _read(record: Any, number: int) -> Told:
    fields = table(record)
    about = table(fields.get("metadata"))
    at, said = local_moment(fields.get("timestamp")), text(fields.get("content"))
    told = Told()
    match fields.get("role"):
        case "user":
            told.entries = spoken("user", "prompt", said, at)
        case "assistant":
            model = text(about.get("model"))
            told.entries = _answer(said, at, model)
            told.usage = [_usage(table(about.get("usage")), at, model)]
            told.facts = SessionFacts(model=model)
        case "system":
            told.entries = _system(fields, said, at)
        case other:
            told.unknown.append(strange_name(record, "role", other))
    numbered(told.entries, str(number))
    return told


def _usage(counts: dict[str, Any], at: int | None, model: str) -> Usage:
    names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens")
    told = [str(counts.get(name, 0)) for name in names]
    # A rewritten file repeats its lines: the time, to the microsecond, and the counts are the key.
    return spent(":".join((str(at), *told)), at, model, counts, names, reasoning="reasoning_tokens")


def _system(fields: dict[str, Any], said: str, at: int | None) -> list[Entry]:
    own = text(fields.get("call_id"))
    if not own and (fields.get("pinned") is True or fields.get("hide") is True):
        return spoken("system", "note", said, at)
    tool = text(table(fields.get("metadata")).get("tool"))
    return [result(own, said, at, tool)]


def _answer(said: str, at: int | None, model: str) -> list[Entry]:
    found: list[Entry] = []
    for thought in tagged(said, *_THOUGHTS):
        found += spoken("assistant", "reasoning", thought.inside.strip(), at, model)
    rest = without(said, *_THOUGHTS)
    # A conversation has calls of one kind: among native ones a fence is what it looks like.
    calls = list(_apart(list(_native(rest)) or [*_tags(rest), *_fences(rest)]))
    left = cut_out(rest, [(one.start, one.end) for one in calls]).strip()
    found += spoken("assistant", "text", left, at, model)
    return [*found, *(call(one.tool, one.own, one.given, at, model) for one in calls)]


class _Call(NamedTuple):
    start: int
    end: int
    tool: str
    own: str
    given: Any


def _native(said: str) -> Iterator[_Call]:
    for match in _NATIVE.finditer(said):
        with suppress(ValueError, RecursionError):
            given, end = _decoder.raw_decode(said, match.end())
            yield _Call(match.start(), end, match[1], match[2], given)


def _tags(said: str) -> Iterator[_Call]:
    for one in tagged(said, _TAG):
        for inner in tagged(one.inside)[:1]:
            given = {"args": inner.attributes, "command": inner.inside.strip()}
            yield _Call(one.start, one.end, inner.name, "", given)


def _fences(said: str) -> Iterator[_Call]:
    """Yield fenced blocks of tools; a longer fence may hold shorter ones."""
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(said):
        if opened is None:
            opened = fence
        elif fence[1] == opened[1] and not fence[2]:
            if opened[2] in _TOOLS:
                inside = said[opened.end() : fence.start()].strip("\n")
                given = {"args": opened[3].strip(), "command": inside}
                yield _Call(opened.start(), fence.end(), opened[2], "", given)
            opened = None


def _apart(found: list[_Call]) -> Iterator[_Call]:
    """Return calls in order; one inside of another is none."""
    behind = 0
    for one in sorted(found, key=lambda one: one.start):
        if one.start >= behind:
            yield one
            behind = one.end


def _identify(log: Log) -> Log:
    """Name a session as its folder; a branch that an edit or undo left lies in a folder below."""
    path = Path(log.path)
    if path.parent.name != "branches":
        return named_by_folder(log)
    session = plain(path.parents[1].name)
    own = f"{session}/{plain(path.stem)}"
    return msgspec.structs.replace(log, session_id=own, parent_session_id=session)


SOURCE: Final = LineLogs(
    agent=_AGENT,
    label="gptme",
    places=(place(_ROOTS, "*/conversation.jsonl", "*/branches/*.jsonl"),),
    identify=_identify,
    read=_read,
)


# ---------------------------------------------------------------------- what is known of a session


def _split(files: DocumentFiles) -> list[Keyed]:
    try:
        told = tomllib.loads(files.content().decode("utf-8", "replace"))
    except tomllib.TOMLDecodeError:
        return []
    chat = table(told.get("chat"))
    return [("chat", {name: chat[name] for name in ("model", "workspace", "name") if name in chat})]


def _read_settings(record: Any, _number: int) -> Told:
    chat = table(record)
    cwd, title = text(chat.get("workspace")), text(chat.get("name"))
    return Told(facts=SessionFacts(cwd=cwd, title=title, model=text(chat.get("model"))))


NAMES: Final = Documents(
    agent=_AGENT,
    names=True,
    label="gptme",
    places=(place(_ROOTS, "*/config.toml"),),
    identify=named_by_folder,
    split=_split,
    read=_read_settings,
)
