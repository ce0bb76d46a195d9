"""GitHub Copilot CLI: one line log of events per session.

Each answer says only its output tokens. What went in stands in the event that ends a run, as sums
over the whole session, resumed runs included. So an answer gives a row with its output alone, and
the end of a run gives one row per model with what the sums grew by since the run before, less the
output that the answers already gave. A run that crashed leaves its output rows; the next end
brings the rest. Sums that are smaller than before were begun again and count whole. Newer versions
(1.0.102) write a record for each call, with all that it took: then the end has nothing to add.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from threadkeep.knowledge.records import Entry, Kind, Role, SessionFacts, Usage
from threadkeep.sources.common import (
    Gatherer,
    GathererState,
    begun,
    describe_input,
    iso_ms,
    number as count,
    numbered,
    rows,
    strange_name,
    table,
    text,
)
from threadkeep.sources.copy_marks import marked, read_mark
from threadkeep.sources.format import (
    DocumentFiles,
    Documents,
    Keyed,
    LineLogs,
    Told,
    decoded,
    named_by_file,
    named_by_folder,
)
from threadkeep.sources.places import place
from threadkeep.sources.records import Harvest, Log

_AGENT: Final = "copilot-cli"
_LABEL: Final = "Copilot CLI"
ELSEWHERE: Final = "threadkeep"  # the source of what a hand-off says in the person's name


class _Event(NamedTuple):
    data: dict[str, Any]
    key: str
    at: int | None
    of_agent: bool  # not of the session itself, but of a subagent in it


def _event(record: object, number: int) -> _Event:
    fields = table(record)
    data = table(fields.get("data"))
    agent = text(fields.get("agentId")) or text(data.get("parentToolCallId"))
    key = text(fields.get("id")) or str(number)
    return _Event(data, key, iso_ms(fields.get("timestamp")), bool(agent))


def _prompt(event: _Event) -> list[Entry]:
    """What the person typed; a skill's or a parent agent's words are marked as such."""
    shown, source = text(event.data.get("content")), text(event.data.get("source"))
    injected = event.of_agent or source not in {"", "user"}
    kind: Kind = "note" if injected else "prompt"
    found = [Entry("", "user", kind, event.at, shown)] if shown else []
    for file in map(table, rows(event.data.get("attachments"))):
        named = text(file.get("displayName")) or text(file.get("path"))
        found.append(Entry("", "user", "note", event.at, f"[file] {named}".strip()))
    return numbered(found, event.key)


def _answer(event: _Event) -> list[Entry]:
    data, at = event.data, event.at
    model, thought, said = (text(data.get(f)) for f in ("model", "reasoningText", "content"))
    found = []
    if thought:
        found.append(Entry("", "assistant", "reasoning", at, thought, model=model))
    if said:
        found.append(Entry("", "assistant", "text", at, said, model=model))
    for asked in map(table, rows(data.get("toolRequests"))):
        found.append(_call("assistant", asked, "name", at))
        found[-1].model = model
    return numbered(found, event.key)


def _call(role: Role, asked: dict[str, Any], name: str, at: int | None) -> Entry:
    given = describe_input(asked.get("arguments"))
    tool, own = text(asked.get(name)), text(asked.get("toolCallId"))
    return Entry(
        "", role, "tool_call", at, given, tool=tool, call_id=own, input=asked.get("arguments")
    )


def _own_call(event: _Event) -> list[Entry]:
    """A tool that the person ran, without asking the model."""
    return numbered([_call("user", event.data, "toolName", event.at)], event.key)


def _result(event: _Event) -> list[Entry]:
    data = event.data
    shown = (_inner_text(data.get("result"), "content"), _inner_text(data.get("error"), "message"))
    return [
        Entry(
            event.key,
            "tool",
            "tool_result",
            event.at,
            "\n".join(filter(None, shown)),
            tool=text(data.get("toolName")),
            call_id=text(data.get("toolCallId")),
            error=data.get("success") is False,
        )
    ]


def _inner_text(value: object, field: str) -> str:
    return value if isinstance(value, str) else text(table(value).get(field))


def _compaction(event: _Event) -> list[Entry]:
    shown = text(event.data.get("summaryContent"))
    return [Entry(event.key, "system", "summary", event.at, shown)] if shown else []


def _note(*fields: str, error: bool = False) -> Callable[[_Event], list[Entry]]:
    """Make the reader of a notice that stands in the first of these fields that has a text."""

    def read(event: _Event) -> list[Entry]:
        shown = next(filter(None, (text(event.data.get(field)) for field in fields)), "")
        return [Entry(event.key, "system", "note", event.at, shown, error=error)] if shown else []

    return read


_READERS: Final = {
    "user.message": _prompt,
    "assistant.message": _answer,
    "tool.user_requested": _own_call,
    "tool.execution_complete": _result,
    "session.compaction_complete": _compaction,
    "system.message": _note("content"),
    "system.notification": _note("content", "message"),
    "session.info": _note("message"),
    "session.warning": _note("message"),
    "session.error": _note("message", error=True),
    "session.task_complete": _note("summary"),
    "skill.invoked": _note("content", "name"),
    "subagent.started": _note("agentDescription", "agentDisplayName", "agentName"),
    "subagent.failed": _note("error", error=True),
    "abort": _note("reason"),
}
# Known, and nothing to read in them. A tool's start repeats what the answer asked for.
_SILENT: Final = frozenset(
    (
        *("assistant.intent", "assistant.reasoning", "assistant.turn_end", "assistant.turn_start"),
        *("assistant.usage", "pending_messages.modified", "session.compaction_start"),
        *("session.context_changed", "session.handoff", "session.idle", "session.mode_changed"),
        *("session.model_change", "session.plan_changed", "session.resume", "session.shutdown"),
        *("session.snapshot_rewind", "session.start", "session.title_changed"),
        *("session.truncation", "session.usage_checkpoint", "session.usage_info"),
        "session.usage_record",
        *("session.workspace_file_changed", "subagent.completed", "subagent.deselected"),
        *("subagent.selected", "tool.execution_partial_result", "tool.execution_progress"),
        "tool.execution_start",
    )
)
_SILENT_FAMILIES: Final = ("hook.", "permission.")


def _entries(record: object, event: _Event) -> list[Entry]:
    reader = _READERS.get(text(table(record).get("type")))
    found = reader(event) if reader else []
    parent = text(table(record).get("parentId"))
    for entry in found:
        entry.parent = parent
    return marked(found, read_mark(table(record)))


# What the end of a run sums up for each model; the input is with the cache.
_SUMS: Final = (
    *("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens"),
    "reasoningTokens",
)

_LATEST: Final = 64  # calls of which an answer and a record may still come


def _sums_of(usage: dict[str, Any]) -> list[int]:
    return [max(0, count(usage.get(name))) for name in _SUMS]


def _grown(sums: list[int], before: list[int]) -> list[int]:
    """What came in after an earlier end; all of it if the sums were begun again."""
    grown = [now - then for now, then in zip(sums, before, strict=True)]
    return sums if min(grown) < 0 else grown


class _State(msgspec.Struct):
    kept: GathererState
    runs: int = 0  # that came to their end
    sums: dict[str, list[int]] = {}  # by model, at the last end
    counted: dict[str, int] = {}  # by model, the output that answers gave since
    recorded: dict[str, list[int]] = {}  # by model, what records of calls gave since
    calls: dict[str, int] = {}  # the latest calls, and the output of each that is counted


class CopilotParser:
    """Reads one session's events."""

    def __init__(self, log: Log, state: bytes | None) -> None:
        fresh = _State(begun(log))
        self._state = msgspec.msgpack.decode(state, type=_State) if state else fresh
        self._gatherer = Gatherer(log, _LABEL, self._state.kept)

    def feed(self, record: Any, line: bytes, number: int) -> list[Entry]:
        """Take the next event."""
        del line
        name = text(table(record).get("type"))
        event = _event(record, number)
        if read_mark(table(record)) is not None:
            pass  # a copy: what it took was counted where it was said
        elif name in _READERS or name in _SILENT or name.startswith(_SILENT_FAMILIES):
            self._learn(name, event)
        else:
            self._gatherer.wonder([strange_name(record, name)])
        return self._gatherer.keep(_entries(record, event))

    def _learn(self, name: str, event: _Event) -> None:
        facts, data = self._gatherer.facts, event.data
        match name:
            case "assistant.message":
                self._answered(event)
            case "session.start" | "session.resume" | "session.context_changed":
                self._begin(data)
            case "session.model_change":
                facts.model = text(data.get("newModel")) or facts.model
            case "session.title_changed":
                facts.title = text(data.get("title")) or facts.title
            case "session.usage_record":
                self._record(event)
            case "session.shutdown":
                self._end(data, event.at)

    def _begin(self, data: dict[str, Any]) -> None:
        facts = self._gatherer.facts
        context = table(data.get("context")) or data
        facts.cwd = text(context.get("cwd")) or facts.cwd
        facts.git_branch = text(context.get("branch")) or facts.git_branch
        facts.version = text(data.get("copilotVersion")) or facts.version
        facts.model = text(data.get("selectedModel")) or facts.model

    def _answered(self, event: _Event) -> None:
        facts, counted = self._gatherer.facts, self._state.counted
        model = text(event.data.get("model")) or facts.model
        if not event.of_agent:
            facts.model = model
        output = self._uncounted(event.data, max(0, count(event.data.get("outputTokens"))))
        key = text(event.data.get("messageId")) or f"{self._gatherer.session_id}:{event.key}"
        self._gatherer.spend(Usage(key, event.at, model, output=output))
        counted[model] = counted.get(model, 0) + output

    def _uncounted(self, call: dict[str, Any], output: int) -> int:
        """Return the part of a call's output that neither its answer nor its record gave before."""
        own, calls = text(call.get("apiCallId")), self._state.calls
        if not own:
            return output
        before = calls.pop(own, 0)
        calls[own] = max(before, output)
        while len(calls) > _LATEST:
            del calls[next(iter(calls))]
        return max(0, output - before)

    def _record(self, event: _Event) -> None:
        """Take the record of one call, which a session that was killed has as well."""
        told, session = table(event.data.get("usage")), self._gatherer.session_id
        given, output, cached, written, reasoning = sums = _sums_of(told)
        model = text(told.get("model")) or self._gatherer.facts.model
        own = text(table(told.get("accounting")).get("usageId")) or text(told.get("apiCallId"))
        sums[1] = self._uncounted(told, output)
        row = Usage(
            key=own or f"{session}:{event.key}",
            at=event.at,
            model=model,
            input=max(0, given - cached - written),
            output=sums[1],
            cache_read=cached,
            cache_write=written,
            reasoning=reasoning,
        )
        self._gatherer.spend(row)
        before = self._state.recorded.get(model, [0] * len(_SUMS))
        self._state.recorded[model] = [a + b for a, b in zip(before, sums, strict=True)]

    def _end(self, data: dict[str, Any], at: int | None) -> None:
        state, session = self._state, self._gatherer.session_id
        for model, metrics in table(data.get("modelMetrics")).items():
            sums = _sums_of(table(table(metrics).get("usage")))
            before = state.sums.get(model, [0] * len(_SUMS))
            known = state.recorded.get(model, [0] * len(_SUMS))
            grown = zip(_grown(sums, before), known, strict=True)
            given, output, cached, written, reasoning = (max(0, now - had) for now, had in grown)
            state.sums[model] = sums
            row = Usage(
                key=f"{session}:{model}:{state.runs}",
                at=at,
                model=model,
                input=max(0, given - cached - written),
                output=max(0, output - state.counted.get(model, 0)),
                cache_read=cached,
                cache_write=written,
                reasoning=reasoning,
            )
            self._gatherer.spend(row)
        state.runs += 1
        state.counted, state.recorded = {}, {}

    def harvest(self) -> Harvest:
        """Return what came up since the last call."""
        return self._gatherer.harvest()

    def state(self) -> bytes:
        """Return what a new parser needs to continue from here."""
        self._state.kept = self._gatherer.kept()
        return msgspec.msgpack.encode(self._state)


def _identify(log: Log) -> Log:
    """A session's file is `<id>/events.jsonl`, in older versions `<id>.jsonl`."""
    newer = log.path.endswith("events.jsonl")
    return named_by_folder(log) if newer else named_by_file(log)


_ROOTS: Final = ("$COPILOT_HOME/session-state", "~/.copilot/session-state")
SOURCE: Final = LineLogs(
    agent=_AGENT,
    label=_LABEL,
    places=(place(_ROOTS, "*.jsonl", "*/events.jsonl"),),
    identify=_identify,
    read=lambda record, number: Told(_entries(record, _event(record, number))),
    parse=CopilotParser,
)


def _without_chats(logs: Iterable[Log]) -> list[Log]:
    """Leave out what the editor keeps as a chat as well, which says more."""
    found = []
    for log in logs:
        chats = Path(log.path).parents[2] / "chatSessions"
        names = (f"{log.session_id}{suffix}" for suffix in (".json", ".jsonl"))
        if not any((chats / name).exists() for name in names):
            found.append(log)
    return found


# Events of agents in the editor.
TRANSCRIPTS: Final = LineLogs(
    agent="vscode-copilot",
    label="Copilot Chat",
    places=(place("{editor}/workspaceStorage", "*/GitHub.copilot-chat/transcripts/*.jsonl"),),
    read=SOURCE.read,
    parse=CopilotParser,
    prefer=_without_chats,
)


# ---------------------------------------------------------------------- what a session is called


_BLOCK: Final = re.compile(r"^[|>][-+0-9]*(?: |$)")  # what a text on lines of its own begins with


def _split(files: DocumentFiles) -> list[Keyed]:
    """Read the lines of a file that is YAML, of which it has texts and numbers alone."""
    pairs = [line.partition(":")[::2] for line in _unfolded(files.content())]
    return [
        ("workspace", {name: _plain(value) for name, value in pairs if name in {"cwd", "name"}})
    ]


def _unfolded(data: bytes) -> list[str]:
    """Return the lines, each with those that continue with it: long texts are folded."""
    found: list[str] = []
    for line in data.decode("utf-8", "replace").splitlines():
        if found and line[:1] in {" ", "\t", ""}:
            found[-1] = f"{found[-1]} {line.strip()}".rstrip()
        else:
            found.append(line)
    return found


def _plain(written: str) -> str:
    value = _BLOCK.sub("", written.strip())
    if value.startswith('"'):
        return text(decoded(value)) or value
    quoted = len(value) > 1 and value[0] == value[-1] == "'"
    return value[1:-1].replace("''", "'") if quoted else value


def _read_workspace(record: Any, _number: int) -> Told:
    fields = table(record)
    return Told(facts=SessionFacts(title=text(fields.get("name")), cwd=text(fields.get("cwd"))))


NAMES: Final = Documents(
    agent=_AGENT,
    names=True,
    label=_LABEL,
    places=(place(_ROOTS, "*/workspace.yaml"),),
    identify=named_by_folder,
    split=_split,
    read=_read_workspace,
)
