"""Claude Code's tool calls: how they are named in a slice, and as commands with their results."""

from contextlib import suppress
from typing import Any, Final
from uuid import NAMESPACE_URL, UUID, uuid5

import msgspec

from threadkeep.knowledge.records import ToolRun

_OUTPUT_BYTES: Final = 4_096
_BASH_CHARACTERS: Final = 200
_AGENT_CHARACTERS: Final = 100
_OTHER_CHARACTERS: Final = 80
_MOST_PENDING: Final = 1_000
_FILE_TOOLS: Final = frozenset({"Read", "Edit", "Write"})
# How a call reads as a command: the words, then its fields with what stands for a missing one.
_COMMANDS: Final = {
    "Bash": ("{}", (("command", "bash"),)),
    "Read": ("read {}", (("file_path", "<unknown>"),)),
    "Edit": ("edit {}", (("file_path", "<unknown>"),)),
    "Write": ("write {}", (("file_path", "<unknown>"),)),
    "Grep": ("grep '{}' {}", (("pattern", "*"), ("path", "."))),
    "Glob": ("glob '{}'", (("pattern", "*"),)),
    "Agent": ("agent: {}", (("description", "agent task"),)),
    "TaskCreate": ("task: {}", (("subject", "task"),)),
    "TaskUpdate": ("task-update: {} {}", (("taskId", "?"), ("status", "?"))),
}


class PendingToolCall(msgspec.Struct, gc=False):
    """A call whose result has not come yet, and what it says about the subagent it starts."""

    run: ToolRun
    agent: str = ""
    task: str = ""


class ToolRuns:
    """Pairs the calls of one log with their results."""

    def __init__(self, pending: list[PendingToolCall]) -> None:
        """Go on with the calls that had no result yet."""
        self._pending = {call.run.call_id: call for call in pending}
        self._new: dict[str, None] = {}
        self._done: list[ToolRun] = []
        self._session: tuple[object, str] = ("", session_uuid(""))  # all calls name the same

    def called(self, block: dict[str, Any], record: dict[str, Any], at: int) -> None:
        """Take a call; one without an id can have no result and is passed over."""
        call_id, name = block.get("id"), block.get("name")
        if not isinstance(call_id, str) or not call_id:
            return
        name = name if isinstance(name, str) else ""
        given, session_id = block.get("input"), record.get("sessionId")
        if session_id != self._session[0]:
            self._session = session_id, session_uuid(session_id)
        branch, cwd = record.get("gitBranch"), record.get("cwd")
        run = ToolRun(
            call_id=call_id,
            session_id=self._session[1],
            at=at,
            tool=name,
            command=command_of(name, given),
            cwd=cwd if isinstance(cwd, str) else "",
            git_branch=branch if isinstance(branch, str) else None,
        )
        self._pending.pop(call_id, None)
        self._pending[call_id] = _with_task(run, given)
        self._new[call_id] = None
        if len(self._pending) > _MOST_PENDING:
            self._forget(next(iter(self._pending)))

    def returned(self, block: dict[str, Any], at: int | None) -> PendingToolCall | None:
        """Take a result and give the call it belongs to; None if there is no such call."""
        call_id = block.get("tool_use_id")
        call = self._pending.pop(call_id, None) if isinstance(call_id, str) else None
        if call is None:
            return None
        run = call.run
        self._new.pop(run.call_id, None)
        run.exit_code = 1 if block.get("is_error") is True else 0
        run.duration_ms = max(0, at - run.at) if at is not None else 0
        run.output, run.truncated = _cut(result_text(block.get("content")))
        self._done.append(run)
        return call

    def started(self, call_id: object) -> PendingToolCall | None:
        """Give the call with this id if its result has not come yet."""
        return self._pending.get(call_id) if isinstance(call_id, str) else None

    def take(self) -> list[ToolRun]:
        """Give the calls answered since the last time, then the new ones without an answer."""
        given = [*self._done, *(self._pending[call_id].run for call_id in self._new)]
        self._done, self._new = [], {}
        return given

    def waiting(self) -> list[PendingToolCall]:
        """Give the calls that have no result yet, the oldest first."""
        return list(self._pending.values())

    def _forget(self, call_id: str) -> None:
        """Let go of a call, but not of the row it makes if that was never given."""
        run = self._pending.pop(call_id).run
        if call_id in self._new:
            del self._new[call_id]
            self._done.append(run)


def _with_task(run: ToolRun, given: object) -> PendingToolCall:
    if run.tool not in {"Agent", "Task"}:
        return PendingToolCall(run)
    return PendingToolCall(
        run, _field(given, "subagent_type", ""), _field(given, "description", "")
    )


def _field(given: object, key: str, default: str) -> str:
    value = given.get(key) if isinstance(given, dict) else None
    return value if isinstance(value, str) else default


def command_of(name: str, given: object) -> str:
    """Write a call as a command, the way the contract's `events` hold it."""
    if name not in _COMMANDS:
        return name
    words, fields = _COMMANDS[name]
    return words.format(*(_field(given, key, missing) for key, missing in fields))


def summary_of(name: str, given: object) -> str:
    """Sum up a call in a few words, the way the contract's slices hold it."""
    if name == "Bash":
        return _field(given, "command", "")[:_BASH_CHARACTERS]
    if name in _FILE_TOOLS:
        return _field(given, "file_path", "")
    if name == "Grep":
        pattern, path = _field(given, "pattern", ""), _field(given, "path", "")
        return f"{pattern} in {path}" if path else pattern
    if name == "Glob":
        return _field(given, "pattern", "")
    if name == "Agent":
        return _field(given, "description", "")[:_AGENT_CHARACTERS]
    return _first_field(given)


def _first_field(given: object) -> str:
    """Show the field whose name sorts first: the contract's maps are sorted, not as written."""
    if not isinstance(given, dict) or not given:
        return ""
    key = min(given)
    value = given[key]
    shown = value if isinstance(value, str) else _sorted_json(value)
    return f"{key}={shown[:_OTHER_CHARACTERS]}"


def _sorted_json(value: object) -> str:
    # msgspec and not json: it writes 1e16 and 1e-7 like the contract's other programs do.
    try:
        return msgspec.json.encode(value, order="sorted").decode()
    except RecursionError:
        return "..."


def session_uuid(session_id: object) -> str:
    """Give a session's id as a UUID: itself, or one that is made from it."""
    name = session_id if isinstance(session_id, str) else ""
    with suppress(ValueError):
        found = UUID(name)
        # Python overlooks misplaced hyphens, which would give two sessions one id.
        if name.lower() in {str(found), found.hex, f"{{{found}}}", found.urn}:
            return str(found)
    return str(uuid5(NAMESPACE_URL, name))


def result_text(content: object) -> str | None:
    """Join the texts of a result; None if it holds none."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    texts = [block.get("text") for block in content if isinstance(block, dict)]
    found = [text for text in texts if isinstance(text, str)]
    return "\n".join(found) if found else None


def _cut(output: str | None) -> tuple[str | None, bool]:
    """Cut an output to the bytes that an event may hold, never inside a character."""
    if output is None:
        return None, False
    start = output[:_OUTPUT_BYTES]
    if start.isascii():
        return start, len(output) > _OUTPUT_BYTES
    whole = start.encode("utf-8", "replace")
    cut = whole[:_OUTPUT_BYTES].decode("utf-8", "ignore")
    return cut, len(cut) < len(output)
