"""Continue: one document per session, calls and results in the answer's own item, no times.

The session begins when the index beside it says; its items follow a millisecond apart, so that one
that is written again stays in its place.
"""

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from threadkeep.knowledge.records import Entry, SessionFacts, Usage
from threadkeep.sources.blocks import call, moment, result, spent, spoken
from threadkeep.sources.common import (
    block_text,
    number as count,
    numbered,
    pictures,
    rows,
    strange_name,
    table,
    text,
)
from threadkeep.sources.format import DocumentFiles, Documents, Keyed, Told, decoded
from threadkeep.sources.places import place


def _split(files: DocumentFiles) -> Iterator[Keyed]:
    document = table(files.json())
    own = text(document.get("sessionId")) or files.session_id
    history = rows(document.pop("history", None))
    yield "session", {"type": "session", "id": own, "data": document}
    begun = _begun(files, own, document)
    for number, item in enumerate(history):
        # What was sent to the model repeats the whole conversation before it.
        kept = {name: value for name, value in table(item).items() if name != "promptLogs"}
        about = {"type": "item", "id": f"{own}:{number}", "at": begun + number}
        yield f"item{number}", {**about, "data": kept}


def _begun(files: DocumentFiles, session: str, document: dict[str, Any]) -> int:
    listed = map(table, rows(files.json("sessions.json")))
    one = next((one for one in listed if one.get("sessionId") == session), document)
    told = one.get("dateCreated")
    given = int(told) if isinstance(told, str) and told.isdigit() else told
    return moment(given) or files.modified


def _read(record: Any, number: int) -> Told:
    fields = table(record)
    data, key = table(fields.get("data")), text(fields.get("id")) or str(number)
    match fields.get("type"):
        case "session":
            return Told(facts=_facts(data))
        case "item":
            return _item(data, moment(fields.get("at")), key)
        case other:
            return Told(unknown=[strange_name(record, other)])


def _facts(session: dict[str, Any]) -> SessionFacts:
    return SessionFacts(
        cwd=folder_of(text(session.get("workspaceDirectory"))),
        title=text(session.get("title")),
        model=text(session.get("chatModelTitle")),
    )


def folder_of(place_: str) -> str:
    """Return the folder that an editor names by its address."""
    if "://" not in place_:
        return place_
    parts = urlsplit(place_)
    path = unquote(parts.path)
    return path[1:] if len(path) > 2 and path[0] == "/" and path[2] == ":" else path  # noqa: PLR2004


def _item(item: dict[str, Any], at: int | None, key: str) -> Told:
    message, told = table(item.get("message")), Told()
    content = message.get("content")
    shown = text(content) or block_text(content)
    usage = table(message.get("usage"))
    model = text(usage.get("model"))
    match message.get("role"):
        case "user":
            told.entries = spoken("user", "prompt", shown, at)
            for entry in told.entries:
                entry.images = pictures(content)
        case "assistant":
            told.entries = _answer(item, shown, at, model)
            told.usage = [_usage(usage, at, model, key)]
            told.facts = SessionFacts(model=model)
        case "thinking":
            told.entries = spoken("assistant", "reasoning", shown, at)
        case "tool":
            told.entries = [result(text(message.get("toolCallId")), shown, at)]
        case "system":
            told.entries = spoken("system", "note", shown, at)
        case other:
            told.unknown.append(strange_name(item, "role", other))
    summary = text(item.get("conversationSummary"))
    if summary:  # the item itself says the same
        told.entries = [one for one in told.entries if one.text != summary]
        told.entries += spoken("system", "summary", summary, at)
    numbered(told.entries, key)
    return told


def _usage(usage: dict[str, Any], at: int | None, model: str, key: str) -> Usage:
    details = table(usage.get("prompt_tokens_details"))
    counts = {
        **usage,
        "read": count(details.get("cached_tokens")),
        "written": count(details.get("cache_write_tokens")),
        "reasoning": table(usage.get("completion_tokens_details")).get("reasoning_tokens"),
    }
    names = ("prompt_tokens", "completion_tokens", "read", "written")
    return spent(key, at, model, counts, names, reasoning="reasoning", inclusive=True)


def _answer(item: dict[str, Any], shown: str, at: int | None, model: str) -> list[Entry]:
    thought = text(table(item.get("reasoning")).get("text"))
    found = spoken("assistant", "reasoning", thought, at, model)
    found += spoken("assistant", "text", shown, at, model)
    message = table(item.get("message"))
    states = {
        text(table(one).get("toolCallId")): table(one) for one in rows(item.get("toolCallStates"))
    }
    for asked in map(table, rows(message.get("toolCalls"))):
        own, function = text(asked.get("id")), table(asked.get("function"))
        named = text(function.get("name"))
        found.append(call(named, own, decoded(function.get("arguments")), at, model))
        state = states.get(own, {})
        if text(state.get("status")) in {"done", "errored", "canceled"}:
            output = "\n".join(text(table(one).get("content")) for one in rows(state.get("output")))
            failed = state.get("status") != "done"
            found.append(result(own, output, at, named, error=failed))
    return found


SOURCE: Final = Documents(
    agent="continue",
    label="Continue",
    places=(
        place(
            ("$CONTINUE_GLOBAL_DIR/sessions", "~/.continue/sessions"),
            "*-*-*-*-*.json",
        ),
    ),
    split=_split,
    read=_read,
)
