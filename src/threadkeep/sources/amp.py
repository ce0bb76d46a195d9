"""Amp: one document per thread, as far as the program keeps threads on this machine."""

from collections.abc import Iterator
from typing import Any, Final

from threadkeep.knowledge.records import Entry, SessionFacts, Usage
from threadkeep.sources.blocks import message_blocks, moment, of_person, result, spent
from threadkeep.sources.common import (
    describe_input,
    numbered,
    rows,
    strange_name,
    table,
    text,
)
from threadkeep.sources.continue_dev import folder_of
from threadkeep.sources.format import DocumentFiles, Documents, Keyed, Told
from threadkeep.sources.places import place

_COUNTS: Final = (
    *("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens"),
)


def _split(files: DocumentFiles) -> Iterator[Keyed]:
    thread = table(files.json())
    own = text(thread.get("id")) or files.session_id
    messages = rows(thread.pop("messages", None))
    yield "thread", {"type": "thread", "id": own, "data": thread}
    at = moment(thread.get("created"))
    for number, message in enumerate(map(table, messages)):
        sent, used = table(message.get("meta")).get("sentAt"), table(message.get("usage"))
        at = moment(sent) or moment(used.get("timestamp")) or at
        key = f"{own}:{message.get('messageId', number)}"  # the numbers start over in each thread
        yield key, {"type": "message", "id": key, "at": at, "data": message}


def _read(record: Any, number: int) -> Told:
    fields = table(record)
    data, key = table(fields.get("data")), text(fields.get("id")) or str(number)
    match fields.get("type"):
        case "thread":
            return Told(facts=_facts(data))
        case "message":
            return _message(data, moment(fields.get("at")), key)
        case other:
            return Told(unknown=[strange_name(record, other)])


def _facts(thread: dict[str, Any]) -> SessionFacts:
    begun = table(table(thread.get("env")).get("initial"))
    tree = table(next(iter(rows(begun.get("trees"))), None))
    branch = text(table(tree.get("repository")).get("ref")).removeprefix("refs/heads/")
    return SessionFacts(
        title=text(thread.get("title")),
        cwd=folder_of(text(tree.get("uri"))),
        git_branch=branch,
        agent=text(thread.get("agentMode")),
        version=text(table(begun.get("platform")).get("clientVersion")),
    )


def _message(message: dict[str, Any], at: int | None, key: str) -> Told:
    told, content = Told(), message.get("content")
    usage = table(message.get("usage"))
    model = text(usage.get("model"))
    match message.get("role"):
        case "user":
            told.entries = _user(content, at, told.unknown)
        case "assistant":
            told.entries = message_blocks(content, at, model, told.unknown)
            told.usage = [_usage(usage, at, model, key)]
            told.facts = SessionFacts(model=model)
        case other:
            told.unknown.append(strange_name(message, "role", other))
    numbered(told.entries, key)
    return told


def _usage(usage: dict[str, Any], at: int | None, model: str, key: str) -> Usage:
    found = spent(key, at, model, usage, _COUNTS)
    if model.startswith("gpt-"):  # what it calls written to the cache is plain input there
        found.input, found.cache_write = found.input + found.cache_write, 0
    return found


def _user(content: object, at: int | None, strange: list[str]) -> list[Entry]:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else rows(content)
    found: list[Entry] = []
    for block in map(table, blocks):
        if block.get("type") == "tool_result":
            found.append(_result(block, at))
        else:
            found += of_person(message_blocks([block], at, "", strange))
    return found


def _result(block: dict[str, Any], at: int | None) -> Entry:
    run = table(block.get("run"))
    output = run.get("result")
    shown = text(output) or text(table(output).get("output")) or describe_input(output)
    told = run.get("error")
    shown = shown or text(told) or text(table(told).get("message")) or describe_input(told)
    failed = text(run.get("status")) in {"error", "cancelled"}
    return result(text(block.get("toolUseID")), shown, at, error=failed)


SOURCE: Final = Documents(
    agent="amp",
    label="Amp",
    places=(place("{data}/amp/threads", "T-*.json"),),
    split=_split,
    read=_read,
)
