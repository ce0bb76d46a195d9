"""Copilot Chat in VS Code and its relatives: a document per session, or a log of changes to one.

The log is replayed: a whole session, then values that are set, lists that grow, and what is
deleted. It is rewritten when it has grown, so it is a document as well. What tools were asked and
gave back stands in the result of a request, in the order of the calls that are shown.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from threadkeep.base.json import decode_line
from threadkeep.errors import Invalid
from threadkeep.knowledge.records import Entry, SessionFacts, Usage
from threadkeep.sources.blocks import call, moment, result, spoken
from threadkeep.sources.common import (
    number as count,
    numbered,
    rows,
    strange_name,
    table,
    text,
)
from threadkeep.sources.continue_dev import folder_of
from threadkeep.sources.format import DocumentFiles, Documents, Keyed, Told, decoded
from threadkeep.sources.places import place
from threadkeep.sources.records import Log

_QUIET: Final = frozenset(
    (
        *("prepareToolInvocation", "textEditGroup", "codeblockUri", "undoStop", "extensions"),
        *("progressTaskSerialized", "progressTask", "progressMessage", "mcpServersStarting"),
        *("confirmation", "elicitation", "elicitation2", "elicitationSerialized", "multiDiffData"),
        *("notebookEditGroup", "command", "clearToPreviousToolInvocation", "treeData", "warning"),
        *("pullRequest", "reference", "codeCitation", "move", "hook", "disabledClaudeHooks"),
        *(
            "questionCarousel",
            "workspaceEdit",
            "externalToolInvocationUpdate",
            "systemNotification",
        ),
    )
)
_DEEPEST: Final = 64  # keys on the way to a value that is changed
_MOST_PIECES: Final = 100_000  # of what a tool gave back


# ---------------------------------------------------------------------- the log of changes


def _session(files: DocumentFiles) -> dict[str, Any]:
    if not files.path.name.endswith(".jsonl"):
        return table(files.json())
    session: Any = {}
    for line in files.content().split(b"\n"):
        try:
            changes = decode_line(line)
        except Invalid:
            continue  # the last one may be half-written
        for change in map(table, changes):
            session = _changed(session, change)
    return table(session)


def _changed(session: Any, change: dict[str, Any]) -> Any:
    """Apply one change; one that does not resolve changes nothing."""
    kind, value = change.get("kind"), change.get("v")
    if kind == 0:
        return value
    path = rows(change.get("k"))[:_DEEPEST]
    if not path:
        return session
    holder = session
    for key in path[:-1]:
        holder = _inside(holder, key)
    last = path[-1]
    if kind == 1:
        _put(holder, last, value)
    elif kind == 2:  # noqa: PLR2004  (the format's own number)
        grown = _inside(holder, last)
        if not isinstance(grown, list):
            grown = []
            _put(holder, last, grown)
        if isinstance(change.get("i"), int):
            del grown[max(0, change["i"]) :]
        grown += rows(value)
    elif kind == 3 and isinstance(holder, dict):  # noqa: PLR2004
        holder.pop(last, None)
    return session


def _inside(holder: Any, key: Any) -> Any:
    if isinstance(holder, dict) and isinstance(key, str):
        return holder.get(key)
    if isinstance(holder, list) and isinstance(key, int) and 0 <= key < len(holder):
        return holder[key]
    return None


def _put(holder: Any, key: Any, value: Any) -> None:
    if isinstance(holder, dict) and isinstance(key, str):
        holder[key] = value
    elif isinstance(holder, list) and isinstance(key, int) and 0 <= key <= len(holder):
        holder[key : key + 1] = [value]


# ---------------------------------------------------------------------- records


def _split(files: DocumentFiles) -> Iterator[Keyed]:
    session = _session(files)
    requests = rows(session.pop("requests", None))
    project = table(files.above("workspace.json"))
    about = {"type": "session", "id": files.session_id, "workspace": project}
    yield "session", {**about, "data": session}
    seen: Counter[str] = Counter()
    for number, request in enumerate(map(table, requests)):
        own = text(request.get("requestId")) or f"{files.session_id}:{number}"
        seen[own] += 1  # requests that a background agent took over share an id
        yield from _request(f"{own}~{seen[own]}" if seen[own] > 1 else own, request)


def _request(own: str, request: dict[str, Any]) -> Iterator[Keyed]:
    """Yield what was asked, each piece of the answer, and behind a call what came of it."""
    told = table(request.get("result"))
    facts = {name: value for name, value in request.items() if name not in {"response", "result"}}
    yield own, {"type": "request", "id": own, "data": facts}
    inside = table(told.get("metadata"))
    results = table(inside.get("toolCallResults"))
    items = [table(item) for item in rows(request.get("response"))]
    asked = _asked(items, inside)
    begun = moment(request.get("timestamp"))

    def about(place_: int) -> dict[str, Any]:
        # Nothing tells when a piece came. They are a millisecond apart, so that one that is written
        # again, as a call is when its arguments are known, stays in its place.
        return {"at": begun + place_ if begun else None, "model": request.get("modelId")}

    given: set[str] = set()
    for number, item in enumerate(items):
        key = f"{own}.{number}"
        matching = asked.get(number, {})
        yield (
            key,
            {"type": "item", "id": key, **about(2 * number + 1), "call": matching, "data": item},
        )
        called = text(matching.get("id"))
        if called in results:
            given.add(called)
            yield f"{own}:{called}", _came(own, called, results[called], about(2 * number + 2))
    last = 2 * len(items) + 1
    for called, came in results.items():
        if called not in given:
            yield f"{own}:{called}", _came(own, called, came, about(last))
    ended: dict[str, Any] = {name: told.get(name) for name in ("timings", "errorDetails")}
    ended |= {name: inside[name] for name in _KEPT if name in inside}
    yield f"{own}.end", {"type": "end", "id": f"{own}.end", **about(0), "data": ended}


_KEPT: Final = ("promptTokens", "outputTokens", "resolvedModel", "modelMessageId", "sessionId")


def _came(own: str, called: str, came: object, about: dict[str, Any]) -> dict[str, Any]:
    return {"type": "result", "id": f"{own}:{called}", "call": called, **about, "data": came}


def _asked(items: list[dict[str, Any]], inside: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """Find for each call that is shown what was asked: by its id, else by its place if all fit."""
    shown = [at for at, item in enumerate(items) if item.get("kind") == _CALL]
    rounds = [
        table(one)
        for turn in map(table, rows(inside.get("toolCallRounds")))
        for one in rows(turn.get("toolCalls"))
    ]
    by_id = {text(one.get("id")): one for one in rounds}
    found = {at: by_id[own] for at in shown if (own := text(items[at].get("toolCallId"))) in by_id}
    if not found and len(shown) == len(rounds):
        found = dict(zip(shown, rounds, strict=True))
    return found


_CALL: Final = "toolInvocationSerialized"


# ---------------------------------------------------------------------- reading


def _read(record: Any, number: int) -> Told:
    fields = table(record)
    data, key = table(fields.get("data")), text(fields.get("id")) or str(number)
    at, model = moment(fields.get("at")), text(fields.get("model"))
    told = Told()
    match fields.get("type"):
        case "session":
            told.facts = _facts(data, table(fields.get("workspace")))
        case "request":
            told = _asking(data)
        case "item":
            told.entries = _item(data, table(fields.get("call")), at, model, told.unknown)
        case "result":
            shown = _pieces(data.get("content"))
            told.entries = [result(text(fields.get("call")), shown, at)]
        case "end":
            told = _ended(data, key, at, model)
        case other:
            told.unknown.append(strange_name(record, other))
    numbered(told.entries, key)
    return told


def _facts(session: dict[str, Any], workspace: dict[str, Any]) -> SessionFacts:
    folder = text(workspace.get("folder")) or text(workspace.get("workspace"))
    return SessionFacts(title=text(session.get("customTitle")), cwd=folder_of(folder))


def _asking(request: dict[str, Any]) -> Told:
    at, model = moment(request.get("timestamp")), text(request.get("modelId"))
    message = request.get("message")
    said = text(message) or text(table(message).get("text"))
    agent = text(table(request.get("agent")).get("name"))
    facts = SessionFacts(model=model, agent=agent)
    return Told(spoken("user", "prompt", said, at), facts=facts)


def _item(
    item: dict[str, Any], asked: dict[str, Any], at: int | None, model: str, strange: list[str]
) -> list[Entry]:
    kind, value = item.get("kind"), item.get("value")
    found: list[Entry] = []
    if kind is None:
        found = spoken("assistant", "text", text(value), at, model)
    elif kind == "thinking":
        shown = text(value) or "\n".join(map(text, rows(value)))
        found = spoken("assistant", "reasoning", shown, at, model)
    elif kind == _CALL:
        found = [_called(item, asked, at, model)]
    elif kind == "inlineReference":
        found = spoken("assistant", "note", text(item.get("name")), at)
    elif kind not in _QUIET:
        strange.append(strange_name(item, "item", kind))
    return found


def _called(item: dict[str, Any], asked: dict[str, Any], at: int | None, model: str) -> Entry:
    """A call has its arguments where the result has them; else what the editor shows of it."""
    own = text(asked.get("id")) or text(item.get("toolCallId"))
    tool = text(asked.get("name")) or text(item.get("toolId"))
    if "arguments" in asked:
        return call(tool, own, decoded(asked.get("arguments")), at, model)
    shown = item.get("pastTenseMessage") or item.get("invocationMessage")
    entry = call(tool, own, text(shown) or text(table(shown).get("value")), at, model)
    command = table(table(item.get("toolSpecificData")).get("commandLine"))
    line = text(command.get("original")) or text(command.get("userEdited"))
    return call(tool, own, {"command": line}, at, model) if line else entry


def _pieces(content: object) -> str:
    """Join the texts in what a tool gave back: plain ones, and those of a tree."""
    found: list[str] = []
    waiting: list[Any] = [content]
    for _ in range(_MOST_PIECES):
        if not waiting:
            break
        one = waiting.pop()
        if isinstance(one, str):
            found.append(one)
        elif isinstance(one, list):
            waiting += reversed(one)
        elif isinstance(one, dict):
            if isinstance(one.get("text"), str):
                found.append(one["text"] + ("\n" if one.get("lineBreakBefore") else ""))
            waiting += [one[name] for name in ("children", "node", "value") if name in one]
    return "".join(found)


def _ended(end: dict[str, Any], key: str, at: int | None, model: str) -> Told:
    said = text(table(end.get("errorDetails")).get("message"))
    elapsed = count(table(end.get("timings")).get("totalElapsed"))
    when = at + elapsed if at else None
    # What it calls the tokens of the prompt is the context of the last call, no sum.
    output = max(0, count(end.get("outputTokens")))
    usage = Usage(key, when, text(end.get("resolvedModel")) or model, output=output, final=False)
    return Told(spoken("assistant", "note", said, when, error=True), [usage])


def _newest(logs: Iterable[Log]) -> Iterable[Log]:
    """Of a session that has both forms the log of changes is the newer one."""
    found = list(logs)
    logged = {log.session_id for log in found if log.path.endswith(".jsonl")}
    return [log for log in found if log.path.endswith(".jsonl") or log.session_id not in logged]


_LOGS: Final = ("*.json", "*.jsonl")
SOURCE: Final = Documents(
    agent="vscode-copilot",
    label="Copilot Chat",
    places=(
        place("{editor}/workspaceStorage", *(f"*/chatSessions/{name}" for name in _LOGS)),
        place("{editor}/globalStorage/emptyWindowChatSessions", *_LOGS),
        place("{editor}/globalStorage/transferredChatSessions", *_LOGS),
    ),
    prefer=_newest,
    split=_split,
    read=_read,
)
