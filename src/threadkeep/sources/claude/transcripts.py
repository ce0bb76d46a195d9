"""Claude Code: transcripts of lines that only grow, one file for each session or subagent."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any, Final

import msgspec

from threadkeep.knowledge.records import Entry, Segment, SessionFacts, Usage
from threadkeep.sources.claude.entries import (
    SYNTHETIC,
    PendingToolCall,
    ToolRuns,
    count,
    entries_of,
    summary_of,
    type_of,
)
from threadkeep.sources.claude.paths import (
    desktop_folders,
    find_logs,
    is_journal,
    is_loose_agent,
    logs_in,
    project_folders,
    readable,
)
from threadkeep.sources.common import (
    GAP_MS,
    MAX_CHARACTERS,
    PROMPT_CHARACTERS,
    TEXT_CHARACTERS,
    iso_ms,
)
from threadkeep.sources.copy_marks import CopyMark, read_mark
from threadkeep.sources.records import DocumentItem, Harvest, Log, Parser, UserHome

# ------------------------------------------------------------------------------
# How Claude Code's transcripts are cut into slices: the contract's rules, to the byte.
#
# A slice begins with the first thing anybody says. Each `user` record (a tool's result is one too)
# may begin the next: if more than five minutes passed since the one before, or if the slice holds
# more than 12,000 bytes of text. All records count as messages, but for four kinds of bookkeeping.

NOT_COUNTED: Final = frozenset(
    {"file-history-snapshot", "progress", "queue-operation", "last-prompt"}
)
_OPENING: Final = frozenset({"user", "assistant", "system"})
_SHORT_BYTES: Final = 20
# What Unicode calls white space. Python's own strip also takes the separators U+001C to U+001F.
_WHITE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
_MOST_TOKENS: Final = 2**40  # what a log may claim; the sum of many must fit a database


class OpenClaudeSegment(msgspec.Struct):
    """The slice that is still growing; the parser keeps it in its state."""

    index: int = -1  # none yet
    start: int = 0
    end: int = 0
    cwd: str = ""
    git_branch: str | None = None
    prompts: list[str] = []
    tools: list[tuple[str, str]] = []
    texts: list[str] = []
    messages: int = 0
    tokens: int = 0
    size: int = 0  # bytes
    last_user: int = 0


class ClaudeSegmenter:
    """Cuts the records of one transcript, taken in order."""

    def __init__(self, log: Log, state: OpenClaudeSegment) -> None:
        """Start afresh, or continue with the slice that was open."""
        self._log = log
        self.open = state
        self._closed: list[Segment] = []

    def add(self, kind: str, record: dict[str, Any], at: int | None) -> None:
        """Take the next record; nothing counts before somebody has spoken."""
        moment = at if at is not None and at > 0 else 0
        current = self.open
        if current.index < 0:
            if kind not in _OPENING:
                return
            current = self._begin(record, moment)
        elif kind == "user" and moment and self._is_over(moment):
            current = self._begin(record, moment)
        if moment:
            current.start = current.start or moment
            current.end = max(current.end, moment)
        current.messages += 1
        cwd = record.get("cwd")
        if cwd and isinstance(cwd, str):
            current.cwd = cwd
        if kind == "user":
            current.last_user = moment or current.last_user
            self._user(record.get("message") if "message" in record else record.get("content"))
        elif kind == "assistant":
            self._assistant(record.get("message"))

    def count(self) -> None:
        """Take a line that is JSON but no record: inside a slice it counts as a message."""
        if self.open.index >= 0:
            self.open.messages += 1

    def take(self) -> list[Segment]:
        """Return the slices closed since the last call, and the open one if it holds anything."""
        closed, self._closed = self._closed, []
        if _holds_something(self.open):
            closed.append(msgspec.structs.replace(self._finished(), is_open=True))
        return closed

    def _is_over(self, moment: int) -> bool:
        current = self.open
        if not current.last_user or not _holds_something(current):
            return False
        return moment - current.last_user > GAP_MS or current.size > MAX_CHARACTERS

    def _begin(self, record: dict[str, Any], moment: int) -> OpenClaudeSegment:
        last, branch = self.open, record.get("gitBranch")
        if last.index >= 0:
            self._closed.append(self._finished())
        self.open = OpenClaudeSegment(
            index=last.index + 1,
            start=moment,
            end=moment,
            cwd=last.cwd,
            git_branch=branch if isinstance(branch, str) else last.git_branch,
            last_user=last.last_user,
        )
        return self.open

    def _user(self, message: object) -> None:
        text = _user_text(message)
        if text:
            self.open.prompts.append(text)
            self.open.size += _bytes(text)
        self.open.tokens += _tokens(message, "input_tokens")

    def _assistant(self, message: object) -> None:
        content = message.get("content") if isinstance(message, dict) else None
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict):
                self._block(block)
        self.open.tokens += _tokens(message, "output_tokens")

    def _block(self, block: dict[str, Any]) -> None:
        kind, current = block.get("type"), self.open
        if kind == "text":
            text = _trimmed(block.get("text"))
            if _bytes(text[:TEXT_CHARACTERS]) > _SHORT_BYTES:
                current.texts.append(text[:TEXT_CHARACTERS])
                current.size += _bytes(text[:TEXT_CHARACTERS])
        elif kind == "tool_use":
            name = block.get("name")
            if isinstance(name, str) and name:
                summary = summary_of(name, block.get("input"))
                current.tools.append((name, summary))
                current.size += _bytes(summary)

    def _finished(self) -> Segment:
        current, log = self.open, self._log
        # Nobody said when. The file was written some time: better than the time of our reading.
        start = current.start or log.stamp.mtime_ns // 1_000_000
        # To the contract only a file directly below `subagents` is a subagent's; an agent of a
        # workflow, deeper down, is a session of its own.
        folder = PurePath(log.path).parent.name
        nested = log.is_subagent and folder != "subagents"
        return Segment(
            session_id=log.session_id,
            index=current.index,
            start=start,
            end=current.end or start,
            project_dir=readable(folder) if nested else log.project_dir,
            cwd=current.cwd,
            summary=_summary(current),
            prompts=list(current.prompts),
            tools=list(current.tools),
            texts=list(current.texts),
            messages=current.messages,
            tokens=current.tokens,
            git_branch=current.git_branch,
            is_subagent=log.is_subagent and not nested,
            parent_session_id=None if nested else log.parent_session_id,
        )


def _holds_something(slice_: OpenClaudeSegment) -> bool:
    return bool(slice_.prompts or slice_.tools or slice_.texts)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _trimmed(value: object) -> str:
    return value.strip(_WHITE) if isinstance(value, str) else ""


def _user_text(message: object) -> str:
    """Return what a user record says; what begins with a tag was put in by the program."""
    content = message.get("content") if isinstance(message, dict) else message
    if isinstance(content, str):
        said = [content]
    elif isinstance(content, list) and content is not message:
        said = [
            block["text"]
            for block in content
            if isinstance(block, dict)
            and block.get("type") == "text"
            and isinstance(block.get("text"), str)
        ]
    else:
        return ""
    texts = [text[:PROMPT_CHARACTERS] for text in map(_trimmed, said) if text and text[0] != "<"]
    return "\n".join(texts)[:PROMPT_CHARACTERS]


def _tokens(message: object, key: str) -> int:
    usage = message.get("usage") if isinstance(message, dict) else None
    found = usage.get(key) if isinstance(usage, dict) else None
    return found if type(found) is int and 0 <= found < _MOST_TOKENS else 0


def _summary(slice_: OpenClaudeSegment) -> str:
    branch = "unknown" if slice_.git_branch is None else slice_.git_branch
    parts = [f"Claude Code session segment (project: {slice_.cwd}, branch: {branch})\n"]
    if slice_.start and slice_.end:
        start, end = _utc(slice_.start), _utc(slice_.end)
        parts.append(f"Time: {start:%Y-%m-%d %H:%M} - {end:%H:%M}\n")
    if slice_.prompts:
        parts += ["\nUser prompts:\n", *(f"- {prompt}\n" for prompt in slice_.prompts)]
    if slice_.tools:
        parts.append(f"\nTool calls ({len(slice_.tools)}):\n")
        parts += [f"- {name}: {summary}\n" for name, summary in slice_.tools]
    if slice_.texts:
        parts += ["\nAssistant reasoning:\n", "\n\n".join(slice_.texts), "\n"]
    return "".join(parts)


def _utc(moment: int) -> datetime:
    return datetime.fromtimestamp(moment / 1000, UTC)


# ------------------------------------------------------------------------------
# What Claude Code's answers cost: one line per block repeats the count of the whole answer.

_MOST: Final = 2**40  # what a log may claim; the sum of many must fit a database


def keep_larger(found: dict[str, Usage], usage: Usage) -> None:
    """Keep of two counts of one answer the one with more output, and rather a last one.

    The time stays that of the first, as it does in the store: the two counts may come in two looks.
    """
    known = found.get(usage.key)
    if known is None:
        found[usage.key] = usage
    elif (usage.output, usage.final) > (known.output, known.final):
        at = usage.at if known.at is None else known.at
        found[usage.key] = msgspec.structs.replace(usage, at=at)


def is_spent(usage: Usage) -> bool:
    """Tell whether an answer cost anything."""
    return any((usage.input, usage.output, usage.cache_read, usage.cache_write))


def usage_of(record: dict[str, Any], at: int | None, session_id: str, number: int) -> Usage | None:
    """Read the count of an `assistant` record; None if there is none."""
    message = record.get("message")
    counts = message.get("usage") if isinstance(message, dict) else None
    if not isinstance(message, dict) or not isinstance(counts, dict):
        return None
    model = message.get("model")
    usage = Usage(
        key=_key(message, record) or f"{session_id}:{number}",
        at=at,
        model=model if isinstance(model, str) else "",
        input=_count(counts, "input_tokens"),
        output=_count(counts, "output_tokens"),
        cache_read=_count(counts, "cache_read_input_tokens"),
        cache_write=_count(counts, "cache_creation_input_tokens"),
        final=message.get("stop_reason") is not None,
        session_id=session_id,
    )
    written, details = counts.get("cache_creation"), counts.get("output_tokens_details")
    if isinstance(written, dict):
        usage.cache_write_1h = _count(written, "ephemeral_1h_input_tokens")
    if isinstance(details, dict):
        usage.reasoning = _count(details, "thinking_tokens")
    return usage


def relayed_usage(
    record: dict[str, Any], at: int | None, session_id: str, number: int
) -> Usage | None:
    """Read the count of a subagent's answer from its parent's `agent_progress` record.

    It is the only trace of what the subagent spent if its own file is gone.
    """
    data = record.get("data")
    relayed = data.get("message") if isinstance(data, dict) else None
    if not isinstance(relayed, dict):
        return None
    own = iso_ms(relayed.get("timestamp"))
    return usage_of(relayed, at if own is None else own, session_id, number)


def _key(message: dict[str, Any], record: dict[str, Any]) -> str:
    """Name an answer over all files: a fork repeats both ids, some answers have no request id."""
    answer, request = message.get("id"), record.get("requestId")
    if not isinstance(answer, str) or not answer:
        uuid = record.get("uuid")
        return uuid if isinstance(uuid, str) else ""
    return f"{answer}|{request}" if isinstance(request, str) and request else answer


def _count(counts: dict[str, Any], key: str) -> int:
    found = counts.get(key)
    return found if type(found) is int and 0 <= found < _MOST else 0


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
    """What a parser must know to continue: facts, the open slice, the calls without a result."""

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
        """Start afresh, or continue from a state."""
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
        """Return what came up since the last call, and the session's facts as they are now."""
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
        """Return what a new parser needs to continue from here."""
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
        """Return all that is known; of the titles the person's own wins, then the program's."""
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

    kind: Final = "lines"

    def __init__(self, agent: str = "claude-code", folder: str = "") -> None:
        """Take the program's name; a relative of Claude Code keeps all in a folder of its own."""
        self.agent = agent
        self._folder = folder

    def roots(self, user: UserHome) -> list[Path]:
        """Name the folders to look into and to watch, whether they exist or not."""
        if self._folder:
            return [user.home / self._folder / "projects"]
        return [*project_folders(user), *desktop_folders(user)]

    def find(self, user: UserHome) -> Iterator[Log]:
        """Yield the transcripts that are there now."""
        return logs_in(self.roots(user), user) if self._folder else find_logs(user)

    def parser(self, log: Log, state: bytes | None) -> Parser:
        """Make a parser that starts afresh, or continues from a state."""
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
# Programs that write the same lines below a folder of their own.
OPENCLAUDE = ClaudeCode("openclaude", ".openclaude")
WORKBUDDY = ClaudeCode("workbuddy", ".workbuddy")
COMMAND_CODE = ClaudeCode("command-code", ".commandcode")
QODER = ClaudeCode("qoder", ".qoder")
