"""Made-up transcripts of Claude Code and Codex, the same in every run.

Shares and sizes are those of real ones: half of the lines are tool calls and their results, most
bytes are results, which Claude Code writes twice into the same line.
"""

import json
import math
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from benchmarks.state_corpus import Maker

Json = dict[str, Any]

_BEGUN: Final = datetime(2026, 1, 5, 8, tzinfo=UTC)
_P95: Final = 1.645  # standard deviations from the median to the 95th percentile
_LONGEST: Final = 400_000
_TOOLS: Final = (*("Bash",) * 5, *("Read",) * 3, *("Edit",) * 3, "Grep", "Write")
# Median and 95th percentile of the characters in each kind of text.
_PROMPT, _TEXT, _THINKING = (113, 2_000), (101, 1_428), (157, 1_888)
_INPUT, _RESULT, _OUTPUT = (137, 2_315), (344, 9_346), (948, 18_700)


class Clerk:
    """Writes the transcripts of one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._maker = Maker(seed)
        self._now = _BEGUN

    def uuid(self) -> str:
        """Return a new id of the usual form."""
        return str(UUID(int=self._random.getrandbits(128), version=4))

    def claude(self, session: str, size: int) -> bytes:
        """Write a session of Claude Code of about `size` bytes."""
        return _joined(self._claude_lines(session), size)

    def codex(self, session: str, size: int) -> bytes:
        """Write a session of Codex of about `size` bytes."""
        return _joined(self._codex_lines(session), size)

    # ------------------------------------------------------------------ texts

    def _text(self, spread: tuple[int, int]) -> str:
        median, high = spread
        length = median * math.exp(self._random.gauss(0, math.log(high / median) / _P95))
        return self._maker.words(min(int(length) + 1, _LONGEST))

    def _listing(self, spread: tuple[int, int]) -> str:
        """Write what a tool prints: numbered lines."""
        words = self._text(spread).split(" ")
        lines = [" ".join(words[start : start + 9]) for start in range(0, len(words), 9)]
        return "\n".join(f"{number:6}→    {line}" for number, line in enumerate(lines, 1))

    def _code(self, prefix: str) -> str:
        return f"{prefix}_01{self._random.getrandbits(88):022x}"

    def _stamp(self) -> str:
        self._now += timedelta(milliseconds=self._random.randrange(200, 20_000))
        return self._now.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    # ------------------------------------------------------------------ Claude Code

    def _claude_lines(self, session: str) -> Iterator[Json]:
        place = {"isSidechain": False, "userType": "external", "cwd": "/home/u/app"}
        about = {**place, "sessionId": session, "version": "2.1.62", "gitBranch": "main"}
        parent: str | None = None
        for said in self._claude_turns():
            own = self.uuid()
            yield {"parentUuid": parent, **about, **said, "uuid": own, "timestamp": self._stamp()}
            parent = own

    def _claude_turns(self) -> Iterator[Json]:
        while True:
            yield {"type": "user", "message": {"role": "user", "content": self._text(_PROMPT)}}
            for _ in range(self._random.randrange(1, 20)):
                yield from self._claude_step()

    def _claude_step(self) -> Iterator[Json]:
        """One answer of the model, a line for each block of it, and what the tool said."""
        tool, name = self._code("toolu"), self._random.choice(_TOOLS)
        signature = f"{self._random.getrandbits(5_200):x}"
        blocks: list[Json] = [
            {"type": "thinking", "thinking": self._text(_THINKING), "signature": signature},
            {"type": "text", "text": self._text(_TEXT)},
            {"type": "tool_use", "id": tool, "name": name, "input": self._tool_input(name)},
        ]
        answer = {"id": self._code("msg"), "type": "message", "role": "assistant"}
        usage = {"input_tokens": 2, "cache_creation_input_tokens": 628}
        usage |= {"cache_read_input_tokens": 94_000, "output_tokens": 320}
        more = {"model": "claude-opus-4-6", "stop_reason": "tool_use", "usage": usage}
        request = self._code("req")
        for block in blocks[self._random.choice((0, 1, 2, 2)) :]:
            said = {**answer, "content": [block], **more}
            yield {"type": "assistant", "message": said, "requestId": request}
        printed = self._listing(_RESULT)
        result = {"tool_use_id": tool, "type": "tool_result", "content": printed}
        told = {"stdout": printed, "stderr": "", "interrupted": False}
        message = {"role": "user", "content": [result]}
        yield {"type": "user", "message": message, "toolUseResult": told}

    def _tool_input(self, name: str) -> Json:
        if name == "Bash":
            return {"command": self._text(_INPUT), "description": self._text((30, 60))}
        if name == "Edit":
            change = {"old_string": self._text(_INPUT), "new_string": self._text(_INPUT)}
            return {"file_path": "/home/u/app/run.py", **change}
        return {"file_path": f"/home/u/app/{self._maker.words(12)}.py"}

    # ------------------------------------------------------------------ Codex

    def _codex_lines(self, session: str) -> Iterator[Json]:
        for kind, payload in self._codex_turns(session):
            yield {"timestamp": self._stamp(), "type": kind, "payload": payload}

    def _codex_turns(self, session: str) -> Iterator[tuple[str, Json]]:
        about = {"cwd": "/home/u/app", "originator": "codex-tui", "cli_version": "0.140.0"}
        yield "session_meta", {"id": session, "timestamp": self._stamp(), **about, "source": "cli"}
        while True:
            yield "turn_context", {"cwd": about["cwd"], "model": "gpt-5.5", "effort": "medium"}
            asked = {"type": "input_text", "text": self._text(_PROMPT)}
            yield "response_item", {"type": "message", "role": "user", "content": [asked]}
            for _ in range(self._random.randrange(1, 20)):
                yield from self._codex_step()

    def _codex_step(self) -> Iterator[tuple[str, Json]]:
        call, text = self._code("call"), self._text(_TEXT)
        hidden = f"{self._random.getrandbits(12_000):x}"
        yield "response_item", {"type": "reasoning", "summary": [], "encrypted_content": hidden}
        yield "event_msg", {"type": "agent_message", "message": text}
        spoken = {"type": "message", "role": "assistant"}
        yield "response_item", {**spoken, "content": [{"type": "output_text", "text": text}]}
        arguments = json.dumps({"cmd": self._text(_INPUT), "workdir": "/home/u/app"})
        asked = {"type": "function_call", "name": "exec_command", "arguments": arguments}
        yield "response_item", {**asked, "call_id": call}
        said = {"type": "function_call_output", "call_id": call, "output": self._listing(_OUTPUT)}
        yield "response_item", said


def _joined(lines: Iterator[Json], size: int) -> bytes:
    written: list[bytes] = []
    total = 0
    while total < size:
        written.append(json.dumps(next(lines), ensure_ascii=False, separators=(",", ":")).encode())
        total += len(written[-1]) + 1
    return b"\n".join([*written, b""])
