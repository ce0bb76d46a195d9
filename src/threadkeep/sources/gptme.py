"""gptme: one line log per conversation; calls stand in the text of the answer, in three ways.

A result is a line of the role `system`. Lines that are pinned or hidden are the program's own
prompt. An edit or an undo rewrites the file; what was said before is kept.
"""

import json
import re
import tomllib
from typing import Any, Final

from threadkeep.knowledge.records import Entry, SessionFacts, Usage
from threadkeep.sources.blocks import call, local_moment, result, spent, spoken
from threadkeep.sources.common import numbered, strange_name, table, text
from threadkeep.sources.format import (
    DocumentFiles,
    Documents,
    Keyed,
    LineLogs,
    Told,
    named_by_folder,
)
from threadkeep.sources.places import place

_AGENT: Final = "gptme"
_ROOTS: Final = ("$GPTME_LOGS_HOME", "{data}/gptme/logs")
_THOUGHT: Final = re.compile(r"<think(?:ing)?>(.*?)</think(?:ing)?>", re.DOTALL)
# A call: `@shell(id): {json}`, or `<tool-use><shell …>…</shell></tool-use>`, or a fenced block
# whose language is the name of a tool.
_NATIVE: Final = re.compile(r"^@(\w+)\(([^)\n]*)\):[ \t]*(?=\{)", re.MULTILINE)
_TAGGED: Final = re.compile(r"<tool-use>\s*<(\w+)([^>]*)>(.*?)</\1>\s*</tool-use>", re.DOTALL)
_FENCED: Final = re.compile(r"^(`{3,})([\w-]+)([^\n`]*)\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)
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
    rest = said
    for thought in _THOUGHT.findall(said):
        found += spoken("assistant", "reasoning", thought.strip(), at, model)
    rest, calls = _calls(_THOUGHT.sub("", rest), at, model)
    return [*found, *spoken("assistant", "text", rest.strip(), at, model), *calls]


def _calls(said: str, at: int | None, model: str) -> tuple[str, list[Entry]]:
    """Take the calls out of a text."""
    found: list[tuple[int, int, Entry]] = []
    for match in _NATIVE.finditer(said):
        try:
            given, end = _decoder.raw_decode(said, match.end())
        except (ValueError, RecursionError):
            continue
        found.append((match.start(), end, call(match[1], match[2], given, at, model)))
    for match in _TAGGED.finditer(said):
        entry = call(
            match[1], "", {"args": match[2].strip(), "command": match[3].strip()}, at, model
        )
        found.append((match.start(), match.end(), entry))
    for match in _FENCED.finditer(said):
        if match[2] in _TOOLS:
            given = {"args": match[3].strip(), "command": match[4].rstrip("\n")}
            found.append((match.start(), match.end(), call(match[2], "", given, at, model)))
    rest, behind = [], 0
    entries = []
    for start, end, entry in sorted(found, key=lambda one: one[0]):
        if start >= behind:
            rest.append(said[behind:start])
            entries.append(entry)
            behind = end
    return "".join([*rest, said[behind:]]), entries


SOURCE: Final = LineLogs(
    agent=_AGENT,
    label="gptme",
    places=(place(_ROOTS, "*/conversation.jsonl"),),
    identify=named_by_folder,
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
    label="gptme",
    places=(place(_ROOTS, "*/config.toml"),),
    identify=named_by_folder,
    split=_split,
    read=_read_settings,
)
