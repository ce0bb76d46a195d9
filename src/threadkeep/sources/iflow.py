"""iFlow: one line log per session in Claude's words.

An answer is written again while it streams, under another id and with what came since: a call is
known by its own id, a text by the record it answers and how it begins.
"""

from hashlib import blake2b
from typing import Any, Final

from threadkeep.knowledge.records import Entry, SessionFacts
from threadkeep.sources.blocks import message_blocks, of_person, spent, spoken
from threadkeep.sources.common import block_text, describe_input, iso_ms, strange_name, table, text
from threadkeep.sources.format import LineLogs, Told
from threadkeep.sources.places import place

_BEGINNING: Final = 24  # characters by which a text that grows is known again
_COUNTS: Final = (
    *("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
)


def _read(record: Any, number: int) -> Told:
    fields = table(record)
    message, at = table(fields.get("message")), iso_ms(fields.get("timestamp"))
    key, parent = text(fields.get("uuid")) or str(number), text(fields.get("parentUuid"))
    model, content = text(message.get("model")), message.get("content")
    told = Told(facts=_facts(fields, model), session_id=text(fields.get("sessionId")))
    match fields.get("type"):
        case "user" if isinstance(content, str):
            typed = fields.get("isMeta") is not True
            told.entries = spoken("user", "prompt" if typed else "note", content, at)
        case "user":
            told.entries = of_person(message_blocks(content, at, "", told.unknown, _shown))
        case "assistant":
            told.entries = message_blocks(content, at, model, told.unknown)
            counts = table(message.get("usage"))
            told.usage = [spent(f"{parent}:{key}", at, model, counts, _COUNTS)]
        case "summary" | "system":
            said = text(fields.get("summary")) or text(fields.get("content"))
            told.entries = spoken("system", "summary", said, at)
        case other:
            told.unknown.append(strange_name(record, other))
    for place_, entry in enumerate(told.entries):
        entry.key, entry.parent = _key(entry, key, parent, place_), parent
    return told


def _facts(fields: dict[str, Any], model: str) -> SessionFacts:
    return SessionFacts(
        cwd=text(fields.get("cwd")),
        git_branch=text(fields.get("gitBranch")),
        version=text(fields.get("version")),
        model=model,
    )


def _key(entry: Entry, own: str, parent: str, place_: int) -> str:
    if entry.call_id:
        return f"{entry.call_id}:{entry.kind}"
    if entry.role == "assistant" and parent:
        begins = blake2b(entry.text[:_BEGINNING].encode("utf-8", "replace"), digest_size=6)
        return f"{parent}:{entry.kind}:{begins.hexdigest()}"
    return f"{own}#{place_}" if place_ else own


def _shown(content: object) -> str:
    parts = table(table(content).get("responseParts"))
    response = table(table(parts.get("functionResponse")).get("response"))
    shown = text(response.get("output")) or text(response.get("error"))
    return shown or text(content) or block_text(content) or describe_input(content)


SOURCE: Final = LineLogs(
    agent="iflow",
    label="iFlow",
    places=(place("~/.iflow/projects", "*/session-*.jsonl"),),
    read=_read,
)
