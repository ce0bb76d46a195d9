"""Cline since 3: a document of messages per agent of a session, with a manifest beside it.

Usage is read from the messages; the manifest repeats the sums.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from threadkeep.knowledge.records import Entry, SessionFacts
from threadkeep.sources.blocks import (
    message_blocks,
    moment,
    of_person,
    result,
    spent,
    spoken,
    unwrapped,
    without,
)
from threadkeep.sources.common import (
    block_text,
    describe_input,
    numbered,
    pictures,
    plain,
    rows,
    strange_name,
    table,
    text,
)
from threadkeep.sources.format import DocumentFiles, Documents, Keyed, Told, decoded
from threadkeep.sources.places import place
from threadkeep.sources.records import Log

_TYPED: Final = "user_input"  # the tag around what a person typed
_SUFFIX: Final = ".messages.json"
_COUNTS: Final = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")


def _split(files: DocumentFiles) -> Iterator[Keyed]:
    document = table(files.json())
    manifest = files.json(f"{files.path.parent.name}.json")
    messages = rows(document.pop("messages", None))
    yield "session", {"type": "session", "id": files.session_id, "data": document}
    if manifest is not None:
        yield "manifest", {"type": "manifest", "id": files.session_id, "data": manifest}
    left = _compacted(files, messages)
    for number, message in enumerate(messages):
        if left and number == left["data"]["source_message_count"]:
            yield left["id"], left
            left = None
        own = text(table(message).get("id")) or f"{files.session_id}:{number}"
        yield own, {"type": "message", "id": own, "data": message}
    if left:
        yield left["id"], left


def _compacted(files: DocumentFiles, messages: list[Any]) -> dict[str, Any] | None:
    """Return what a compaction put in the place of messages: those that the session has not."""
    name = files.path.name.removesuffix(_SUFFIX)
    state = table(files.json(f"{name}.compaction.json"))
    known = {text(table(message).get("id")) for message in messages}
    new = [one for one in rows(state.get("messages")) if text(table(one).get("id")) not in known]
    if not new:
        return None
    own = f"{files.session_id}:compaction:{text(state.get('updated_at'))}"
    told = {name: state.get(name) for name in ("updated_at", "source_message_count")}
    return {"type": "compaction", "id": own, "data": {**told, "messages": new}}


def _read(record: Any, number: int) -> Told:
    fields = table(record)
    data, key = table(fields.get("data")), text(fields.get("id")) or str(number)
    match fields.get("type"):
        case "session":
            version = text(table(data.get("origin")).get("version"))
            return Told(facts=SessionFacts(agent=text(data.get("agent")), version=version))
        case "manifest":
            return Told(facts=_facts(data))
        case "message":
            return _message(data, key)
        case "compaction":
            at = moment(data.get("updated_at"))
            left = [block_text(table(one).get("content")) for one in rows(data.get("messages"))]
            return Told(numbered(spoken("system", "summary", "\n\n".join(left), at), key))
        case other:
            return Told(unknown=[strange_name(record, other)])


def _facts(manifest: dict[str, Any]) -> SessionFacts:
    about = table(manifest.get("metadata"))
    return SessionFacts(
        cwd=text(manifest.get("cwd")),
        title=text(about.get("title")),
        model=text(manifest.get("model")),
        git_branch=text(table(about.get("git")).get("branch")),
    )


def _message(message: dict[str, Any], key: str) -> Told:
    told, at = Told(), moment(message.get("ts"))
    model = text(table(message.get("modelInfo")).get("id"))
    content = message.get("content")
    match message.get("role"):
        case "user":
            told.entries = _user(content, at, told.unknown)
        case "assistant":
            told.entries = message_blocks(content, at, model, told.unknown)
            counts = table(message.get("metrics"))
            told.usage = [spent(key, at, model, counts, _COUNTS, inclusive=True)]
            told.facts = SessionFacts(model=model)
        case other:
            told.unknown.append(strange_name(message, "role", other))
    numbered(told.entries, key)
    return told


def _user(content: object, at: int | None, strange: list[str]) -> list[Entry]:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else rows(content)
    found: list[Entry] = []
    for block in map(table, blocks):
        match block.get("type"):
            case "text":
                said = without(unwrapped(text(block.get("text")), _TYPED), "mode_notice")
                found += spoken("user", "prompt", said.strip(), at)
            case "tool_result":
                found.append(_result(block, at))
            case _:
                found += of_person(message_blocks([block], at, "", strange))
    return found


def _result(block: dict[str, Any], at: int | None) -> Entry:
    """A tool that failed says so inside, for each thing that it was asked."""
    content = block.get("content")
    told = decoded(content)
    content = told if isinstance(told, list) else content
    answers = rows(content)
    shown = [text(table(one).get("result")) or text(table(one).get("error")) for one in answers]
    said = "\n".join(filter(None, shown)) or text(content) or block_text(content)
    failed = any(table(one).get("success") is False for one in answers)
    return result(
        text(block.get("tool_use_id")),
        said or describe_input(content),
        at,
        text(block.get("name")),
        error=failed or block.get("is_error") is True,
        images=pictures(content),
    )


def _identify(log: Log) -> Log:
    """The main agent's messages are named as the session; those of the others lie beside them."""
    path = Path(log.path)
    session, agent = plain(path.parent.name), plain(path.name.removesuffix(_SUFFIX))
    if agent == session:
        return msgspec.structs.replace(log, session_id=session)
    own = f"{session}/{agent}"
    return msgspec.structs.replace(log, session_id=own, parent_session_id=session, is_subagent=True)


SOURCE: Final = Documents(
    agent="cline",
    label="Cline",
    places=(place(("$CLINE_DATA_DIR/sessions", "~/.cline/data/sessions"), f"*/*{_SUFFIX}"),),
    identify=_identify,
    beside=("{folder}.json", "{folder}.compaction.json"),
    split=_split,
    read=_read,
)
