"""GitHub Copilot CLI: one line log of events per session.

Each answer says only its output tokens. What went in stands in the event that ends a run, as sums
over the whole session, resumed runs included. So an answer gives a row with its output alone, and
the end of a run gives one row per model with what the sums grew by since the run before, less the
output that the answers already gave. A run that crashed leaves its output rows; the next end
brings the rest. Sums that are smaller than before were begun anew and count whole.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from threadkeep.knowledge.records import Entry, Kind, Role, Usage
from threadkeep.sources.common import (
    Gatherer,
    GathererState,
    begun,
    describe_input,
    iso_ms,
    number as count,
    numbered,
    plain,
    rows,
    strange_name,
    table,
    text,
)
from threadkeep.sources.folders import file_stamp, files_below, folders_in
from threadkeep.sources.records import DocumentItem, Harvest, Log, UserHome


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
    return [Entry(event.key, "user", kind, event.at, shown)] if shown else []


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
    return found


# What the end of a run sums up for each model; the input is with the cache.
_SUMS: Final = (
    *("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens"),
    "reasoningTokens",
)


def _sums_of(usage: dict[str, Any]) -> list[int]:
    return [max(0, count(usage.get(name))) for name in _SUMS]


def _grown(sums: list[int], before: list[int]) -> list[int]:
    """What came in after an earlier end; all of it if the sums were begun anew."""
    grown = [now - then for now, then in zip(sums, before, strict=True)]
    return sums if min(grown) < 0 else grown


class _State(msgspec.Struct):
    kept: GathererState
    runs: int = 0  # that came to their end
    sums: dict[str, list[int]] = {}  # by model, at the last end
    counted: dict[str, int] = {}  # by model, the output that answers gave since


class CopilotParser:
    """Reads one session's events."""

    def __init__(self, log: Log, state: bytes | None) -> None:
        fresh = _State(begun(log))
        self._state = msgspec.msgpack.decode(state, type=_State) if state else fresh
        self._gatherer = Gatherer(log, "Copilot CLI", self._state.kept)

    def feed(self, record: Any, line: bytes, number: int) -> list[Entry]:
        """Take the next event."""
        del line
        name = text(table(record).get("type"))
        event = _event(record, number)
        if name in _READERS or name in _SILENT or name.startswith(_SILENT_FAMILIES):
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
        output = max(0, count(event.data.get("outputTokens")))
        key = text(event.data.get("messageId")) or f"{self._gatherer.session_id}:{event.key}"
        self._gatherer.spend(Usage(key, event.at, model, output=output))
        counted[model] = counted.get(model, 0) + output

    def _end(self, data: dict[str, Any], at: int | None) -> None:
        state, session = self._state, self._gatherer.session_id
        for model, metrics in table(data.get("modelMetrics")).items():
            sums = _sums_of(table(table(metrics).get("usage")))
            before = state.sums.get(model, [0] * len(_SUMS))
            given, output, cached, written, reasoning = _grown(sums, before)
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
        state.counted = {}

    def harvest(self) -> Harvest:
        """Give what came up since the last call."""
        return self._gatherer.harvest()

    def state(self) -> bytes:
        """Give what a new parser needs to go on from here."""
        self._state.kept = self._gatherer.kept()
        return msgspec.msgpack.encode(self._state)


class CopilotSource:
    """The sessions of GitHub Copilot CLI."""

    agent: Final = "copilot-cli"
    kind: Final = "lines"

    def roots(self, user: UserHome) -> list[Path]:
        """Name the folders to look into."""
        moved = user.env.get("COPILOT_HOME")
        places = [Path(moved)] if moved else []
        return [place / "session-state" for place in (*places, user.home / ".copilot")]

    def find(self, user: UserHome) -> Iterator[Log]:
        """Yield the sessions' files: `<id>/events.jsonl`, in older versions `<id>.jsonl`."""
        found: dict[str, Log] = {}
        for root in self.roots(user):
            for path, stamp in files_below(root, user, ".jsonl", depth=0, is_root=True):
                found[str(path)] = Log(str(path), stamp, plain(path.stem))
            for folder in folders_in(root, user, is_root=True):
                path = folder / "events.jsonl"
                stamp_there = file_stamp(path, user)
                if stamp_there:
                    found[str(path)] = Log(str(path), stamp_there, plain(folder.name))
        yield from (found[path] for path in sorted(found))

    def parser(self, log: Log, state: bytes | None) -> CopilotParser:
        """Make a parser for one file."""
        return CopilotParser(log, state)

    def entries(self, record: Any, line: bytes, number: int) -> list[Entry]:
        """Read one event alone."""
        del line
        return _entries(record, _event(record, number))

    def items(self, log: Log) -> Iterable[DocumentItem]:
        """A line log has none."""
        del log
        return ()

    def records(self, log: Log, item: str) -> Iterable[tuple[str, bytes]]:
        """A line log has none."""
        del log, item
        return ()


SOURCE: Final = CopilotSource()
