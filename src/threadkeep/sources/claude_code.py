"""Claude Code: transcripts of lines that only grow, one file for each session or subagent."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from threadkeep.knowledge.records import Entry, SessionFacts, Usage
from threadkeep.sources.claude_entries import SYNTHETIC, count, entries_of, type_of
from threadkeep.sources.claude_paths import (
    desktop_folders,
    find_logs,
    is_journal,
    is_loose_agent,
    project_folders,
)
from threadkeep.sources.claude_segments import NOT_COUNTED, ClaudeSegmenter, OpenClaudeSegment
from threadkeep.sources.claude_tools import PendingToolCall, ToolRuns
from threadkeep.sources.claude_usage import is_spent, keep_larger, relayed_usage, usage_of
from threadkeep.sources.common import iso_ms
from threadkeep.sources.copy_marks import CopyMark, read_mark
from threadkeep.sources.records import DocumentItem, Harvest, Log, Parser, UserHome

_CONVERSATION: Final = frozenset({"user", "assistant", "system", "attachment"})
_TITLES: Final = {"summary": "summary", "custom-title": "customTitle", "ai-title": "aiTitle"}
_BOOKKEEPING: Final = frozenset(
    {
        *("file-history-snapshot", "file-history-delta", "queue-operation", "last-prompt"),
        *("progress", "agent-name", "agent-setting", "mode", "permission-mode", "pr-link"),
        *("bridge-session", "frame-link", "cost-state", "tools-used", "atis-latch"),
        *("api-request", "api-request-shape", "api-request-blob"),
        *("started", "result"),  # of a workflow's journal
    }
)
_KNOWN: Final = _CONVERSATION | _BOOKKEEPING | frozenset(_TITLES)
_END_OF_TIME: Final = 253_402_300_799_999  # the last millisecond that has a date


class _State(msgspec.Struct, omit_defaults=True):
    """What a parser must know to go on: facts, the open slice, the calls without a result."""

    open: OpenClaudeSegment = msgspec.field(default_factory=OpenClaudeSegment)
    pending: list[PendingToolCall] = []
    facts: SessionFacts = msgspec.field(default_factory=SessionFacts)
    titles: dict[str, str] = {}
    last_at: int = 0


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_State)


class ClaudeParser:
    """Reads the lines of one transcript in order."""

    def __init__(self, log: Log, state: _State) -> None:
        """Start afresh, or go on from a state."""
        self._log = log
        self._state = state
        self._is_journal = is_journal(log)
        self._is_loose_agent = is_loose_agent(log)
        self._segments = ClaudeSegmenter(log, state.open)
        self._tools = ToolRuns(state.pending)
        self._usage: dict[str, Usage] = {}
        self._agents: dict[str, SessionFacts] = {}
        self._unknown: dict[str, int] = {}

    def feed(self, record: Any, line: bytes, number: int) -> list[Entry]:  # noqa: ARG002
        """Take the next record and give what it says."""
        if not isinstance(record, dict):
            count(self._unknown, type(record).__name__)
            self._segments.count()
            return []
        kind, at = type_of(record), moment(record)
        if kind == "progress":
            self._progress(record, at, number)
            return []
        mark = read_mark(record)
        if mark is not None:
            return self._copied(kind, record, at, number, mark)
        if kind not in NOT_COUNTED and not self._is_journal:
            self._segments.add(kind, record, at)
        if kind in _CONVERSATION:
            return self._conversation(kind, record, at, number)
        self._bookkeeping(kind, record)
        return []

    def harvest(self) -> Harvest:
        """Give what came up since the last call, and the session's facts as they are now."""
        found = Harvest(
            facts={**self._agents, self._log.session_id: self._facts()},
            usage=list(self._usage.values()),
            segments=self._segments.take(),
            tools=self._tools.take(),
            unknown=self._unknown,
        )
        self._usage, self._agents, self._unknown = {}, {}, {}
        return found

    def state(self) -> bytes:
        """Give what a new parser needs to go on from here."""
        self._state.open = self._segments.open
        self._state.pending = self._tools.waiting()
        return _encoder.encode(self._state)

    def _copied(
        self, kind: str, record: dict[str, Any], at: int | None, number: int, mark: CopyMark
    ) -> list[Entry]:
        """Take a record that another session has: it teaches nothing new.

        Nor does a hand-off cost anything: what a copy says it cost was spent.
        """
        self._state.facts.continues = mark.continues
        if kind not in _CONVERSATION:
            self._bookkeeping(kind, record)
            return []
        self._note_facts(record)
        if kind == "assistant":
            usage = usage_of(record, at, self._log.session_id, number)
            if usage is not None and is_spent(usage):
                keep_larger(self._usage, usage)
        return entries_of(kind, record, number, at, self._unknown)

    def _conversation(
        self, kind: str, record: dict[str, Any], at: int | None, number: int
    ) -> list[Entry]:
        self._note_facts(record)
        self._state.last_at = at or self._state.last_at
        if kind == "assistant":
            self._answered(record, at, number)
        elif kind == "user":
            self._results(record, at)
        return entries_of(kind, record, number, at, self._unknown)

    def _answered(self, record: dict[str, Any], at: int | None, number: int) -> None:
        message = record.get("message")
        if not isinstance(message, dict):
            return
        model, content = message.get("model"), message.get("content")
        if model and isinstance(model, str) and model != SYNTHETIC:
            self._state.facts.model = model
        usage = usage_of(record, at, self._log.session_id, number)
        if usage is not None:
            keep_larger(self._usage, usage)
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") == "tool_use":
                self._tools.called(block, record, at or self._some_time())

    def _results(self, record: dict[str, Any], at: int | None) -> None:
        message = record.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") == "tool_result":
                call = self._tools.returned(block, at)
                result = record.get("toolUseResult")
                if isinstance(result, dict) and "agentId" in result:
                    self._agent(result.get("agentId"), call, result)

    def _progress(self, record: dict[str, Any], at: int | None, number: int) -> None:
        data = record.get("data")
        if not isinstance(data, dict) or data.get("type") != "agent_progress":
            return
        usage = relayed_usage(record, at, self._log.session_id, number)
        if usage is not None:
            keep_larger(self._usage, usage)
        self._agent(data.get("agentId"), self._tools.started(record.get("parentToolUseID")), {})

    def _agent(
        self, agent_id: object, call: PendingToolCall | None, result: dict[str, Any]
    ) -> None:
        """Note what its parent knows about a subagent, which has a log of its own."""
        if not isinstance(agent_id, str) or not agent_id:
            return
        facts = self._agents.setdefault(f"agent-{agent_id}", SessionFacts())
        facts.parent_session_id, facts.is_subagent = self._log.session_id, True
        if call is not None:
            facts.agent, facts.title = call.agent or facts.agent, call.task or facts.title
        facts.agent = _text(result, "agentType") or facts.agent
        facts.title = _text(result, "description") or facts.title

    def _note_facts(self, record: dict[str, Any]) -> None:
        facts = self._state.facts
        facts.cwd = _text(record, "cwd") or facts.cwd
        facts.began_in = facts.began_in or facts.cwd
        facts.git_branch = _text(record, "gitBranch") or facts.git_branch
        facts.version = _text(record, "version") or facts.version
        facts.slug = _text(record, "slug") or facts.slug
        if self._is_loose_agent and not facts.parent_session_id:
            facts.parent_session_id = _text(record, "sessionId")

    def _bookkeeping(self, kind: str, record: dict[str, Any]) -> None:
        if kind in _TITLES:
            self._title(kind, _text(record, _TITLES[kind]))
        elif kind == "agent-setting":
            self._state.facts.agent = _text(record, "agentSetting") or self._state.facts.agent
        elif kind not in _KNOWN:
            count(self._unknown, kind or "no type")

    def _title(self, kind: str, title: str) -> None:
        # Summaries before anybody has spoken are about older sessions, whose files are elsewhere.
        if title and (kind != "summary" or self._segments.open.index >= 0):
            self._state.titles[kind] = title

    def _facts(self) -> SessionFacts:
        """Give all that is known; of the titles the person's own wins, then the program's."""
        facts, titles = self._state.facts, self._state.titles
        best = [titles[kind] for kind in ("custom-title", "ai-title", "summary") if kind in titles]
        found: SessionFacts = msgspec.structs.replace(facts, title=best[0] if best else "")
        found.parent_session_id = self._log.parent_session_id or facts.parent_session_id
        found.is_subagent = self._log.is_subagent or self._is_loose_agent
        found.hidden = self._is_journal
        return found

    def _some_time(self) -> int:
        return self._state.last_at or self._log.stamp.mtime_ns // 1_000_000


class ClaudeCode:
    """The source of all that Claude Code and the programs built on it write down."""

    harness: Final = "claude-code"
    kind: Final = "lines"

    def roots(self, user: UserHome) -> list[Path]:
        """Name the folders to look into and to watch, whether they exist or not."""
        return [*project_folders(user), *desktop_folders(user)]

    def find(self, user: UserHome) -> Iterator[Log]:
        """Yield the transcripts that are there now."""
        return find_logs(user)

    def parser(self, log: Log, state: bytes | None) -> Parser:
        """Make a parser that starts afresh, or goes on from a state."""
        return ClaudeParser(log, _State() if state is None else _decoder.decode(state))

    def entries(self, record: Any, line: bytes, number: int) -> list[Entry]:  # noqa: ARG002
        """Read one record alone, as `feed` would."""
        if not isinstance(record, dict):
            return []
        return entries_of(type_of(record), record, number, moment(record), {})

    def items(self, log: Log) -> Iterable[DocumentItem]:  # noqa: ARG002
        """Name nothing: these are line logs."""
        return ()

    def records(self, log: Log, item: str) -> Iterable[tuple[str, bytes]]:  # noqa: ARG002
        """Yield nothing: these are line logs."""
        return ()


def moment(record: dict[str, Any]) -> int | None:
    """Read when a record was written; None if it does not say, or names no day of any calendar."""
    at = iso_ms(record.get("timestamp"))
    return at if at is not None and at <= _END_OF_TIME else None


def _text(record: dict[str, Any], key: str) -> str:
    value = record.get(key)
    return value if isinstance(value, str) else ""


SOURCE = ClaudeCode()
