"""Claude.ai's data export: conversations as lists of messages; neither models nor tokens are in it.

A call and its result have no id and belong together by their order. The flat text of a message
leaves out what tools did: it is used only where there are no blocks, as in older exports.
"""

from collections.abc import Iterator
from typing import Any, Final

from threadkeep.knowledge.records import Entry, SessionFacts
from threadkeep.sources.blocks import call, moment, of_person, result, shown_image, spoken
from threadkeep.sources.common import (
    block_text,
    describe_input,
    numbered,
    rows,
    strange_name,
    table,
    text,
)
from threadkeep.sources.exports.archive import ExportSource
from threadkeep.sources.format import Keyed, Told

_ROOT: Final = "00000000-0000-4000-8000-000000000000"
_QUIET: Final = frozenset(("token_budget", "flag"))


def _sessions(conversation: dict[str, Any]) -> Iterator[tuple[str, list[Keyed]]]:
    messages = [table(one) for one in rows(conversation.get("chat_messages"))]
    about = {name: value for name, value in conversation.items() if name != "chat_messages"}
    own = text(conversation.get("uuid"))
    own = own or f"{conversation.get('name')}@{conversation.get('created_at')}"
    shown = _newest_branch(messages)
    yield own, _records(own, "", about, shown)
    kept = {text(one.get("uuid")) for one in shown}
    rest = [one for one in messages if text(one.get("uuid")) not in kept]
    if rest:
        other = f"{own}/{text(rest[0].get('uuid'))}"
        yield other, _records(other, own, about, rest)


def _newest_branch(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the branch that the last message ends; all of them where nothing tells of branches."""
    by_id = {text(one.get("uuid")): one for one in messages}
    if not messages or not any(text(one.get("parent_message_uuid")) in by_id for one in messages):
        return messages
    found: dict[str, dict[str, Any]] = {}
    at = text(messages[-1].get("uuid"))
    while at in by_id and at not in found and at != _ROOT:
        found[at] = by_id[at]
        at = text(by_id[at].get("parent_message_uuid"))
    return list(reversed(found.values()))


def _records(
    own: str, parent: str, about: dict[str, Any], messages: list[dict[str, Any]]
) -> list[Keyed]:
    first = {"type": "conversation", "id": own, "parent": parent, "data": about}
    found: list[Keyed] = [("conversation", first)]
    for number, message in enumerate(messages):
        key = text(message.get("uuid")) or f"{own}:{number}"
        found.append((key, {"type": "message", "id": key, "data": message}))
    return found


def _read(record: Any, number: int) -> Told:
    fields = table(record)
    data, key = table(fields.get("data")), text(fields.get("id")) or str(number)
    match fields.get("type"):
        case "conversation":
            title, parent = text(data.get("name")), text(fields.get("parent"))
            project = text(data.get("project_uuid"))
            facts = SessionFacts(title=title, parent_session_id=parent, slug=project)
            return Told(facts=facts)
        case "message":
            told = _message(data, key)
            for entry in numbered(told.entries, key):
                entry.parent = text(data.get("parent_message_uuid"))
            return told
        case other:
            return Told(unknown=[strange_name(record, other)])


def _message(message: dict[str, Any], key: str) -> Told:
    told, at = Told(), moment(message.get("created_at"))
    blocks = [table(one) for one in rows(message.get("content"))]
    if not any(block.get("type") for block in blocks):
        blocks = [{"type": "text", "text": message.get("text")}]
    person = message.get("sender") == "human"
    calls: list[Entry] = []
    for place_, block in enumerate(blocks):
        found = _block(block, at, (key, place_), calls, told.unknown)
        told.entries += of_person(found) if person else found
    # Whole files are pasted as attachments: they are named, and not shown as what was asked.
    for one in map(table, (*rows(message.get("attachments")), *rows(message.get("files")))):
        told.entries += spoken("user", "note", f"[file] {text(one.get('file_name'))}", at)
    if text(message.get("sender")) not in {"human", "assistant"}:
        told.unknown.append(strange_name(message, "sender", message.get("sender")))
    return told


def _block(
    block: dict[str, Any],
    at: int | None,
    where: tuple[str, int],
    calls: list[Entry],
    strange: list[str],
) -> list[Entry]:
    key, place_ = where
    when = moment(block.get("start_timestamp")) or at
    found: list[Entry] = []
    kind, named = block.get("type"), text(block.get("name"))
    match kind:
        case "text" | "voice_note":
            found = spoken("assistant", "text", text(block.get("text")), when)
        case "thinking":
            found = spoken("assistant", "reasoning", text(block.get("thinking")), when)
        case "tool_use":
            own = text(block.get("id")) or f"{key}:{place_}"
            found = [call(named, own, block.get("input"), when)]
            calls += found
        case "tool_result":
            found = [_result(block, when, named, calls)]
        case "image":
            found = [shown_image([block], when)]
        case _ if kind not in _QUIET:
            strange.append(strange_name(block, "block", kind))
    return found


def _result(block: dict[str, Any], at: int | None, named: str, calls: list[Entry]) -> Entry:
    """Give a result to the first call of its tool that has none yet."""
    asked = next((one for one in calls if one.tool == named), None)
    own = text(block.get("tool_use_id"))
    if asked is not None:
        own = own or asked.call_id
        calls.remove(asked)
    content = block.get("content")
    shown = text(content) or block_text(content) or describe_input(content)
    return result(own, shown, at, named, error=block.get("is_error") is True)


SOURCE: Final = ExportSource(agent="claude-ai", label="Claude.ai", sessions=_sessions, read=_read)
