"""Mistral Vibe: a store per session, made again in generations with a journal; once a log.

What is shown are the entries of the newest generation, then the changes that the journal tells.
Older generations are removed by the program; what was captured of them stays. A session that was
resumed from a log of version 2 begins with copies of what the log says. Calls of the tool
that runs code stand in the journal alone, which is cut: they are shown as notes, so that the calls
of a session are the same whenever it is captured.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from threadkeep.errors import Invalid
from threadkeep.knowledge.records import Entry, SessionFacts, Usage
from threadkeep.sources.blocks import call, moment, result, spent, spoken
from threadkeep.sources.common import (
    block_text,
    describe_input,
    number,
    numbered,
    pictures,
    rows,
    strange_name,
    table,
    text,
)
from threadkeep.sources.copy_marks import copy_mark
from threadkeep.sources.files import stored_object
from threadkeep.sources.format import (
    DocumentFiles,
    Documents,
    Keyed,
    Told,
    decoded,
    named_by_folder,
)
from threadkeep.sources.places import place

_AGENT: Final = "mistral-vibe"
_COUNTS: Final = ("inputTokens", "outputTokens", "cachedInputTokens", "")


def _split(files: DocumentFiles) -> Iterator[Keyed]:
    own = files.session_id
    about = files.json("meta.json")
    yield "meta", {"type": "meta", "id": own, "data": about}
    current = table(files.json())
    newest = text(current.get("generation"))
    if not newest.isalnum():
        raise Invalid(f"{files.path} names no generation", hint="it is read again when it changes")
    base = f"generations/{newest}"
    manifest = table(files.json(f"{base}/manifest.json"))
    state = table(files.json(f"{base}/projection-state.json"))
    session = table(table(state.get("snapshot")).get("session"))
    entries: dict[str, dict[str, Any]] = {}
    for chunk in rows(table(manifest.get("projection_state")).get("chunks")):
        if text(chunk).isalnum():
            _note(entries, rows(files.json(f"chunks/{chunk}.json")))
    for change in _journal(files, number(current.get("snapshot_sequence"))):
        session = table(change.get("state")).get("session") or session
        _note(entries, [change.get("entry")])
    yield "session", {"type": "usage", "id": own, "data": session}
    copied = _imported_from(files, base) if any(map(_is_imported, entries)) else {}
    code = _code(files)
    last = {_action_of(name): name for name in entries}
    for name, entry in entries.items():
        mark = copied if _is_imported(name) else {}
        yield (
            name,
            {"type": "entry", "id": f"{own}:{name}" if mark else name, "data": entry, **mark},
        )
        ran = code.pop(_action_of(name), {}) if last[_action_of(name)] == name else {}
        for call_id, told in ran.items():
            at = entry.get("createdAt")
            yield f"code:{call_id}", {"type": "code", "id": call_id, "at": at, "data": told}


def _is_imported(entry: str) -> bool:
    return entry.startswith("imported-")


def _imported_from(files: DocumentFiles, base: str) -> dict[str, Any]:
    """Return the mark of what was taken over from a log of version 2."""
    runtime = table(files.json(f"{base}/runtime-state.json"))
    source = table(table(runtime.get("import_provenance")).get("source"))
    own = text(source.get("session_id"))
    origin = f"{_AGENT}:{own}"
    return copy_mark(origin, origin) if own else {}


def _note(entries: dict[str, dict[str, Any]], found: list[Any]) -> None:
    for entry in map(table, found):
        own = text(entry.get("id"))
        if own:
            entries[own] = entry


_ACTION: Final = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _action_of(entry: str) -> str:
    """Return what an entry came of: its id holds that of the action."""
    found = _ACTION.search(entry)
    return found[0] if found else entry


def _code(files: DocumentFiles) -> dict[str, dict[str, dict[str, Any]]]:
    """Find the calls that no entry shows, by the answer that each is of and by their ids."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    results: dict[str, dict[str, Any]] = {}
    shown = set()
    for kind, payload in _lines(files):
        request = table(payload.get("request"))
        if kind == "action_result":
            parts = rows(table(table(payload.get("result")).get("result")).get("parts"))
            calls = [table(one) for one in parts if table(one).get("type") == "tool_call"]
            asked = {text(one.get("id")): one for one in calls}
            found[text(payload.get("action_id"))] = asked
        elif kind == "action_intent":
            shown.add(text(request.get("call_id")))
            told = table(table(request.get("model_input")).get("messages"))
            for message in map(table, rows(told.get("messages"))):
                results[text(message.get("tool_call_id"))] = message
    # One without an answer may be of another tool, which is about to tell of it.
    return {
        action: {
            own: {**one, "came": results[own]}
            for own, one in asked.items()
            if own in results and own not in shown
        }
        for action, asked in found.items()
    }


def _lines(files: DocumentFiles, taken: int = -1) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what the journal tells behind a number; its last line may be half-written."""
    for name in files.names("journal"):
        for record in map(stored_object, files.lines(f"journal/{name}")):
            if number(record.get("sequence")) > taken:
                yield text(record.get("type")), table(record.get("payload"))


def _journal(files: DocumentFiles, taken: int) -> Iterator[dict[str, Any]]:
    """Yield the changes that came after a generation was made."""
    for kind, payload in _lines(files, taken):
        if kind == "projection_delta":
            yield from map(table, rows(payload.get("delta")))


def _read(record: Any, place_: int) -> Told:
    fields = table(record)
    data, key = table(fields.get("data")), text(fields.get("id")) or str(place_)
    match fields.get("type"):
        case "meta":
            return Told(facts=_facts(data))
        case "usage":
            return Told(
                usage=[_usage(data, key)], facts=SessionFacts(title=text(data.get("title")))
            )
        case "entry":
            told = _entry(data)
            numbered(told.entries, key)
            return told
        case "code":
            return Told(numbered(_ran(data, moment(fields.get("at"))), key))
        case other:
            return Told(unknown=[strange_name(record, other)])


def _ran(told: dict[str, Any], at: int | None) -> list[Entry]:
    """Read a call of the tool that runs code, and what came of it."""
    asked, came = describe_input(decoded(told.get("arguments_json"))), table(told.get("came"))
    found = spoken("assistant", "note", f"{text(told.get('name'))}: {asked}", at)
    shown, failed = block_text(came.get("content")), came.get("outcome") == "failure"
    return [*found, *spoken("system", "note", shown, at, error=failed)]


def _model(meta: dict[str, Any]) -> str:
    named = meta.get("model") or table(meta.get("config")).get("model_name")
    return text(named) or text(table(named).get("name"))


def _facts(meta: dict[str, Any]) -> SessionFacts:
    around = table(meta.get("environment"))
    return SessionFacts(
        cwd=text(around.get("working_directory")) or text(meta.get("origin_directory")),
        title=text(meta.get("title")),
        git_branch=text(meta.get("git_branch")),
        model=_model(meta),
        parent_session_id=text(meta.get("asked_by")) or text(meta.get("parent_session_id")),
        is_subagent=bool(meta.get("asked_by")),
    )


def _usage(session: dict[str, Any], own: str) -> Usage:
    at, counts = moment(session.get("createdAt")), table(session.get("tokenUsage"))
    return spent(own, at, "", counts, _COUNTS, inclusive=True)


def _entry(entry: dict[str, Any]) -> Told:
    told, at = Told(), moment(entry.get("createdAt"))
    content = entry.get("content")
    match entry.get("type"):
        case "message":
            shown = text(content) or block_text(content)
            person = entry.get("role") == "user"
            if person:
                told.entries = spoken("user", "prompt", shown, at)
            else:
                told.entries = spoken("assistant", "text", shown, at)
            for one in told.entries:
                one.images = pictures(content)
        case "reasoning":
            shown = text(entry.get("text")) or block_text(entry.get("summary"))
            told.entries = spoken("assistant", "reasoning", shown, at)
        case "effect" | "tool":
            told.entries = _effect(entry, at)
        case other:
            told.unknown.append(strange_name(entry, "entry", other))
    return told


def _effect(entry: dict[str, Any], at: int | None) -> list[Entry]:
    detail, state = table(entry.get("detail")), table(entry.get("state"))
    own = text(entry.get("id"))
    tool = text(detail.get("toolName")) or text(detail.get("kind")) or text(entry.get("title"))
    found = [call(tool, own, detail.get("input"), at)]
    if text(state.get("status")) in {"completed", "failed", "cancelled", "error"}:
        output = table(state.get("output"))
        made = output.get("structured_content")
        shown = text(state.get("outputText")) or block_text(output.get("content"))
        shown = shown or text(table(made).get("content")) or describe_input(made)
        failed = state.get("status") != "completed" or output.get("type") == "error"
        ended = moment(entry.get("updatedAt")) or at
        found.append(result(own, shown, ended, tool, error=failed))
    return found


SOURCE: Final = Documents(
    agent=_AGENT,
    label="Mistral Vibe",
    places=(
        place(("$VIBE_HOME/logs/session/unified", "~/.vibe/logs/session/unified"), "*/CURRENT"),
    ),
    identify=named_by_folder,
    beside=("meta.json", "generations", "journal/*"),
    split=_split,
    read=_read,
)


# ---------------------------------------------------------------------- version 2


def _split_older(files: DocumentFiles) -> Iterator[Keyed]:
    about = table(files.json("meta.json"))
    own = text(about.get("session_id")) or files.session_id
    begun = moment(about.get("start_time")) or files.modified
    kept = ("session_id", "environment", "git_branch", "title", "parent_session_id", "stats")
    told = {name: about[name] for name in kept if name in about}
    told["model"] = _model(about)
    if files.path.parent.parent.name == "agents":  # it lies in the folder of the one that asked
        told["asked_by"] = table(files.above("meta.json", 2)).get("session_id")
    yield "meta", {"type": "meta", "id": own, "at": begun, "data": told}
    for count, line in enumerate(files.lines()):
        message = stored_object(line)
        key = text(message.get("message_id")) or f"{own}:{count}"
        # The messages have no times: they follow a millisecond apart.
        yield key, {"type": "message", "id": key, "at": begun + count, "data": message}


def _read_older(record: Any, place_: int) -> Told:
    fields = table(record)
    data, key = table(fields.get("data")), text(fields.get("id")) or str(place_)
    at = moment(fields.get("at"))
    match fields.get("type"):
        case "meta":
            names = ("session_prompt_tokens", "session_completion_tokens", "", "")
            usage = spent(key, at, "", table(data.get("stats")), names)
            own = text(data.get("session_id"))
            return Told(usage=[usage], facts=_facts(data), session_id=own)
        case "message":
            told = _said(data, at)
            numbered(told.entries, key)
            return told
        case other:
            return Told(unknown=[strange_name(record, other)])


def _said(message: dict[str, Any], at: int | None) -> Told:
    told, content = Told(), message.get("content")
    shown = text(content) or block_text(content)
    match message.get("role"):
        case "user":
            injected = message.get("injected") is True
            told.entries = spoken("user", "note" if injected else "prompt", shown, at)
        case "assistant":
            thought = text(message.get("reasoning_content"))
            told.entries = spoken("assistant", "reasoning", thought, at)
            told.entries += spoken("assistant", "text", shown, at)
            for asked in map(table, rows(message.get("tool_calls"))):
                function = table(asked.get("function"))
                given = decoded(function.get("arguments"))
                told.entries.append(
                    call(text(function.get("name")), text(asked.get("id")), given, at)
                )
        case "tool":
            own, named = text(message.get("tool_call_id")), text(message.get("name"))
            told.entries = [result(own, shown, at, named)]
        case "system":
            told.entries = spoken("system", "note", shown, at)
        case other:
            told.unknown.append(strange_name(message, "role", other))
    return told


OLDER: Final = Documents(
    agent=_AGENT,
    label="Mistral Vibe",
    places=(
        place(
            ("$VIBE_HOME/logs/session", "~/.vibe/logs/session"),
            *("session_*/messages.jsonl", "session_*/agents/*/messages.jsonl"),
        ),
    ),
    identify=named_by_folder,
    beside=("meta.json",),
    split=_split_older,
    read=_read_older,
)
