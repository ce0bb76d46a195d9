"""OpenHands: a folder per conversation, with a file for each event and the state beside them.

Times are told without a zone and are this machine's. Usage is that of each call if the list of
calls is whole, else the sums; both are kept for each purpose (agent, condenser, …).
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import msgspec

from threadkeep.knowledge.records import Entry, SessionFacts, Usage
from threadkeep.sources.blocks import call, local_moment, moment, result, spent, spoken
from threadkeep.sources.common import (
    block_text,
    describe_input,
    number as count,
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

_EVENTS: Final = "events"
_NUMBERED: Final = re.compile(r"event-(\d+)-.*\.json")
_COUNTS: Final = (
    *("prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_write_tokens"),
)
_QUIET: Final = frozenset(
    (
        *("ConversationStateUpdateEvent", "PauseEvent", "CondensationRequest", "TokenEvent"),
        *("LLMCompletionLogEvent", "HookExecutionEvent"),
    )
)
# What a terminal draws with: colours, the cursor, the marks around a paste.
_DRAWN: Final = re.compile(r"\x1b(?:\[[0-?]{0,16}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,200}\x07?)")


def _split(files: DocumentFiles) -> Iterator[Keyed]:
    state = table(files.json())
    events = []
    for name in files.names(_EVENTS):
        match = _NUMBERED.fullmatch(name)
        if match:
            events.append((int(match[1][:18]), name))
    told = [(number, table(files.json(f"{_EVENTS}/{name}"))) for number, name in sorted(events)]
    # The rest of the state is the program's settings, with keys in it.
    wanted = ("id", "workspace", "execution_status", "stats")
    kept = {name: state[name] for name in wanted if name in state}
    model = table(table(state.get("agent")).get("llm")).get("model")
    times = {text(event.get("llm_response_id")): event.get("timestamp") for _, event in told}
    about = {"type": "state", "id": files.session_id, "model": model}
    yield "state", {**about, "times": {k: v for k, v in times.items() if k}, "data": kept}
    for number, event in told:
        own = text(event.get("id")) or f"event{number}"
        yield own, {"type": "event", "id": own, "data": event}


def _read(record: Any, number: int) -> Told:
    fields = table(record)
    data, key = table(fields.get("data")), text(fields.get("id")) or str(number)
    match fields.get("type"):
        case "state":
            return _state(fields, data, key)
        case "event":
            return _event(data, key)
        case other:
            return Told(unknown=[strange_name(record, other)])


def _state(fields: dict[str, Any], state: dict[str, Any], own: str) -> Told:
    model = text(fields.get("model"))
    cwd = text(table(state.get("workspace")).get("working_dir"))
    purposes = table(table(state.get("stats")).get("usage_to_metrics"))
    times = table(fields.get("times"))
    usage = [
        one
        for purpose, metrics in purposes.items()
        for one in _usage(f"{own}:{purpose}", table(metrics), times)
    ]
    return Told(usage=usage, facts=SessionFacts(cwd=cwd, model=model))


def _usage(key: str, metrics: dict[str, Any], times: dict[str, Any]) -> list[Usage]:
    model = text(metrics.get("model_name"))
    sums = table(metrics.get("accumulated_token_usage"))
    calls = [table(one) for one in rows(metrics.get("token_usages"))]
    whole = all(
        sum(count(one.get(name)) for one in calls) == count(sums.get(name)) for name in _COUNTS
    )
    if not (calls and whole):
        calls = [{**sums, "response_id": "sums"}]
    last = max((moment for one in times.values() if (moment := local_moment(one))), default=None)
    found = []
    for place_, one in enumerate(calls):
        own = text(one.get("response_id")) or str(place_)
        at = local_moment(times.get(own)) or last
        names, spoke = _COUNTS, text(one.get("model")) or model
        found.append(
            spent(
                f"{key}:{own}", at, spoke, one, names, reasoning="reasoning_tokens", inclusive=True
            )
        )
    return found


# ---------------------------------------------------------------------- events


def _event(event: dict[str, Any], key: str) -> Told:
    told, at = Told(), _time(event)
    kind = text(event.get("kind"))
    match kind:
        case "MessageEvent":
            told.entries = _message(event, at)
        case "ActionEvent":
            told.entries = _action(event, at)
        case "ObservationEvent":
            told.entries = [_observed(event, at)]
        case "AgentErrorEvent" | "UserRejectObservation":
            shown = text(event.get("error")) or text(event.get("rejection_reason"))
            own, tool = text(event.get("tool_call_id")), text(event.get("tool_name"))
            told.entries = [result(own, shown, at, tool, error=True)]
        case "SystemPromptEvent":
            shown = _shown(table(event.get("system_prompt")).get("text"))
            told.entries = spoken("system", "note", shown, at)
        case "ConversationErrorEvent":
            shown = ": ".join(filter(None, (text(event.get("code")), text(event.get("detail")))))
            told.entries = spoken("system", "note", shown, at, error=True)
        case "Condensation":
            told.entries = spoken("system", "summary", text(event.get("summary")), at)
        case _ if kind not in _QUIET and not kind.startswith(("ACP", "Hook")):
            told.unknown.append(strange_name(event, "event", kind))
    for entry in numbered(told.entries, key):
        entry.parent = text(event.get("parent_id"))
    return told


def _time(event: dict[str, Any]) -> int | None:
    told = event.get("timestamp")
    return local_moment(told) if isinstance(told, str) else moment(told)


def _shown(content: object) -> str:
    return _DRAWN.sub("", text(content) or block_text(content))


def _message(event: dict[str, Any], at: int | None) -> list[Entry]:
    message = table(event.get("llm_message"))
    content = message.get("content")
    if event.get("source") == "user":
        found = spoken("user", "prompt", _shown(content), at)
        for entry in found:
            entry.images = pictures(content)
        return found
    found = spoken("assistant", "reasoning", _thought(message), at)
    return [*found, *spoken("assistant", "text", _shown(content), at)]


def _thought(told: dict[str, Any]) -> str:
    blocks = [text(table(one).get("thinking")) for one in rows(told.get("thinking_blocks"))]
    return text(told.get("reasoning_content")) or "\n".join(filter(None, blocks))


def _action(event: dict[str, Any], at: int | None) -> list[Entry]:
    found = spoken("assistant", "reasoning", _thought(event), at)
    found += spoken("assistant", "text", _shown(event.get("thought")), at)
    given = decoded(table(event.get("tool_call")).get("arguments")) or event.get("action")
    tool, own = text(event.get("tool_name")), text(event.get("tool_call_id"))
    return [*found, call(tool, own, given, at)]


def _observed(event: dict[str, Any], at: int | None) -> Entry:
    told = table(event.get("observation"))
    content = told.get("content")
    shown = _shown(content) or text(told.get("output")) or describe_input(told.get("error"))
    failed = told.get("is_error") is True
    own, tool = text(event.get("tool_call_id")), text(event.get("tool_name"))
    return result(own, shown, at, tool, error=failed, images=pictures(content))


def _identify(log: Log) -> Log:
    """A folder is named for its conversation, without the dashes that its id has."""
    name = plain(Path(log.path).parent.name)
    try:
        own = str(UUID(name))
    except ValueError:
        own = name
    return msgspec.structs.replace(log, session_id=own)


SOURCE: Final = Documents(
    agent="openhands",
    label="OpenHands",
    places=(
        place(("$OPENHANDS_CONVERSATIONS_DIR", "~/.openhands/conversations"), "*/base_state.json"),
    ),
    identify=_identify,
    beside=(_EVENTS,),
    split=_split,
    read=_read,
)
