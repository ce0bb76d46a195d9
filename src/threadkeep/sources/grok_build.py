"""Grok Build: a folder per session. Its history has no times, which come from the notifications.

Usage is read by turns; the totals of the session beside them repeat it. Of a session that was
handed over, the marks of what was copied are in a file beside the history, too: the program writes
the history anew, without them.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from threadkeep.knowledge.archive import text_hash
from threadkeep.knowledge.records import Entry, SessionFacts, Usage
from threadkeep.sources.blocks import call, moment, result, spent, spoken, unwrapped
from threadkeep.sources.common import (
    block_text,
    numbered,
    pictures,
    rows,
    strange_name,
    table,
    text,
)
from threadkeep.sources.copy_marks import MARK
from threadkeep.sources.files import one_line, stored_object, wrap
from threadkeep.sources.format import (
    DocumentFiles,
    Documents,
    Keyed,
    Told,
    decoded,
    named_by_folder,
)
from threadkeep.sources.places import place

MARKS: Final = "threadkeep.json"  # the marks of lines, by their names


def line_name(line: dict[str, Any]) -> str:
    """Name a line by what it says, which stays when the program writes it anew."""
    calls = [text(table(one).get("id")) for one in rows(line.get("tool_calls"))]
    own = text(line.get("tool_call_id"))
    shown = _shown(line.get("content")) or block_text(line.get("summary"))
    return ":".join([text(line.get("type")), own, *calls, str(text_hash(shown))])


class _Times(msgspec.Struct):
    """When prompts were given, by their place, and when calls and results came, by their id."""

    prompts: dict[int, int] = {}
    calls: dict[str, int] = {}
    results: dict[str, int] = {}

    def of(self, line: dict[str, Any], before: int | None) -> int | None:
        """Return the time of a line; that of the line before it if nothing tells its own."""
        found = None
        match line.get("type"):
            case "user":
                asking = line.get("prompt_index")
                found = self.prompts.get(asking) if isinstance(asking, int) else None
            case "assistant":
                asked = [text(table(one).get("id")) for one in rows(line.get("tool_calls"))]
                found = next((self.calls[own] for own in asked if own in self.calls), None)
            case "tool_result":
                found = self.results.get(text(line.get("tool_call_id")))
        return found or before


def _times(files: DocumentFiles) -> _Times:
    times = _Times()
    for line in files.lines("updates.jsonl"):
        told = stored_object(line)
        at = moment(told.get("timestamp"))
        update = table(table(told.get("params")).get("update"))
        own = text(update.get("toolCallId"))
        if at is None:
            continue
        if own:
            times.calls.setdefault(own, at)
            times.results[own] = at
        place_ = table(update.get("_meta")).get("promptIndex")
        if isinstance(place_, int):
            times.prompts.setdefault(place_, at)
    return times


def _split(files: DocumentFiles) -> Iterator[Keyed]:
    summary, usage = files.json("summary.json"), files.json("usage.json")
    marks = table(files.json(MARKS))
    if summary is not None:
        yield "summary", {"type": "summary", "id": files.session_id, "data": summary}
    times = _times(files)
    at = moment(table(summary).get("created_at"))
    for number, line in enumerate(files.lines()):
        one = one_line(line)
        stored = stored_object(one)
        at = times.of(stored, at)
        own = stored if MARK in stored or not marks else table(marks.get(line_name(stored)))
        mark = {MARK: own[MARK]} if MARK in own else {}
        about = {"type": "line", "id": f"line{number}", "at": at, **mark}
        yield f"line{number}", wrap(about, "line", one)
    if usage is not None:
        yield "usage", {"type": "usage", "id": files.session_id, "data": usage}


def _read(record: Any, number: int) -> Told:
    fields = table(record)
    data = table(fields.get("data"))
    match fields.get("type"):
        case "line":
            return _line(table(fields.get("line")), fields, number)
        case "summary":
            return Told(facts=_facts(data))
        case "usage":
            return Told(usage=_usage(text(fields.get("id")), data))
        case other:
            return Told(unknown=[strange_name(record, other)])


def _facts(summary: dict[str, Any]) -> SessionFacts:
    return SessionFacts(
        cwd=text(table(summary.get("info")).get("cwd")),
        title=text(summary.get("session_summary")),
        model=text(summary.get("current_model_id")),
        git_branch=text(summary.get("head_branch")),
        parent_session_id=text(summary.get("parent_session_id")),
        is_subagent=summary.get("session_kind") == "subagent",
    )


def _usage(session: str, usage: dict[str, Any]) -> list[Usage]:
    names = ("inputTokens", "outputTokens", "cachedReadTokens", "cacheCreationTokens")
    found = []
    for place_, turn in enumerate(map(table, rows(usage.get("turns")))):
        models = table(turn.get("modelUsage")) or {text(turn.get("primaryModelId")): turn}
        at, own = moment(turn.get("endedAt")), turn.get("turnNumber", place_)
        for model, counts in models.items():
            key = f"{session}:{own}:{model}"
            counted = spent(
                *(key, at, model, table(counts), names),
                reasoning="reasoningTokens",
                inclusive=True,
            )
            found.append(counted)
    return found


def _line(line: dict[str, Any], around: dict[str, Any], number: int) -> Told:
    told, at = Told(), moment(around.get("at"))
    match line.get("type"):
        case "user":
            told.entries = _user(line, at)
        case "system":
            told.entries = spoken("system", "note", _shown(line.get("content")), at)
        case "reasoning":
            told.entries = spoken("assistant", "reasoning", block_text(line.get("summary")), at)
        case "assistant":
            told.entries = _answer(line, at)
            told.facts = SessionFacts(model=text(line.get("model_id")))
        case "tool_result":
            shown = _shown(line.get("content"))
            told.entries = [result(text(line.get("tool_call_id")), shown, at)]
        case other:
            told.unknown.append(strange_name(line, "line", other))
    numbered(told.entries, text(around.get("id")) or str(number))
    return told


def _shown(content: object) -> str:
    return text(content) or block_text(content)


def _user(line: dict[str, Any], at: int | None) -> list[Entry]:
    """Only a line with its place among the prompts is one; the others are context."""
    shown = _shown(line.get("content"))
    if "prompt_index" not in line:
        return spoken("user", "note", shown, at)
    found = spoken("user", "prompt", unwrapped(shown, "user_query").strip(), at)
    for entry in found:
        entry.images = pictures(line.get("content"))
    return found


def _answer(line: dict[str, Any], at: int | None) -> list[Entry]:
    model = text(line.get("model_id"))
    found = spoken("assistant", "text", _shown(line.get("content")), at, model)
    for asked in map(table, rows(line.get("tool_calls"))):
        given = decoded(asked.get("arguments"))
        found.append(call(text(asked.get("name")), text(asked.get("id")), given, at, model))
    return found


SOURCE: Final = Documents(
    agent="grok-build",
    label="Grok Build",
    places=(place(("$GROK_HOME/sessions", "~/.grok/sessions"), "*/*/chat_history.jsonl"),),
    identify=named_by_folder,
    beside=("updates.jsonl", "summary.json", "usage.json", MARKS),
    split=_split,
    read=_read,
)
