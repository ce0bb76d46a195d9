"""Auggie, Augment's command line: one document per session, an exchange for each step."""

from collections.abc import Iterator
from typing import Any, Final

from threadkeep.knowledge.records import Entry, SessionFacts
from threadkeep.sources.blocks import call, moment, result, spoken
from threadkeep.sources.common import numbered, rows, strange_name, table, text
from threadkeep.sources.format import DocumentFiles, Documents, Keyed, Told, decoded
from threadkeep.sources.places import place


def _split(files: DocumentFiles) -> Iterator[Keyed]:
    document = table(files.json())
    own = text(document.get("sessionId")) or files.session_id
    history = rows(document.pop("chatHistory", None))
    kept = {name: value for name, value in document.items() if not isinstance(value, list)}
    yield "session", {"type": "session", "id": own, "data": kept}
    for number, item in enumerate(history):
        about = {"type": "exchange", "id": f"{own}:{number}", "at": document.get("created")}
        yield f"exchange{number}", {**about, "data": item}


def _read(record: Any, number: int) -> Told:
    fields = table(record)
    data, key = table(fields.get("data")), text(fields.get("id")) or str(number)
    match fields.get("type"):
        case "session":
            return Told(facts=_facts(data))
        case "exchange":
            at = moment(data.get("finishedAt")) or moment(fields.get("at"))
            found = _exchange(table(data.get("exchange")), at)
            return Told(numbered(found, key))
        case other:
            return Told(unknown=[strange_name(record, other)])


def _facts(session: dict[str, Any]) -> SessionFacts:
    parent = text(session.get("parentSessionId"))
    return SessionFacts(
        cwd=text(session.get("workspaceRoot")) or text(session.get("cwd")),
        title=text(session.get("title")) or text(session.get("customTitle")),
        model=text(session.get("modelId")),
        parent_session_id=parent,
        is_subagent=bool(parent),
    )


def _exchange(exchange: dict[str, Any], at: int | None) -> list[Entry]:
    found: list[Entry] = []
    for node in map(table, rows(exchange.get("request_nodes"))):
        came = table(node.get("tool_result_node"))
        if came:
            own, failed = text(came.get("tool_use_id")), came.get("is_error") is True
            found.append(result(own, text(came.get("content")), at, error=failed))
    found += spoken("user", "prompt", text(exchange.get("request_message")), at)
    nodes = [table(node) for node in rows(exchange.get("response_nodes"))]
    for node in nodes:
        thought = text(table(node.get("thinking")).get("summary"))
        found += spoken("assistant", "reasoning", thought, at)
    found += spoken("assistant", "text", text(exchange.get("response_text")), at)
    for node in nodes:
        used = table(node.get("tool_use"))
        if used:
            own, named = text(used.get("tool_use_id")), text(used.get("tool_name"))
            found.append(call(named, own, decoded(used.get("input_json")), at))
    return found


SOURCE: Final = Documents(
    agent="auggie",
    label="Auggie",
    places=(place("~/.augment/sessions", "*.json"),),
    split=_split,
    read=_read,
)
