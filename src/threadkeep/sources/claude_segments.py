"""How Claude Code's transcripts are cut into slices: the contract's rules, to the byte.

A slice begins with the first thing anybody says. Each `user` record (a tool's result is one too)
may begin the next: if more than five minutes passed since the one before, or if the slice holds
more than 12,000 bytes of text. All records count as messages, but for four kinds of bookkeeping.
"""

from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any, Final

import msgspec

from threadkeep.knowledge.records import Segment
from threadkeep.sources.claude_paths import readable
from threadkeep.sources.claude_tools import summary_of
from threadkeep.sources.records import Log
from threadkeep.sources.segments import GAP_MS, MAX_CHARACTERS, PROMPT_CHARACTERS, TEXT_CHARACTERS

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
        """Start afresh, or go on with the slice that was open."""
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
        """Give the slices closed since the last call, and the open one if it holds anything."""
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
    """Give what a user record says; what begins with a tag was put in by the program."""
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
