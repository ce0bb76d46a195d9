"""Made-up sessions of Claude Code for the pages: a rich one, and one of any length."""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

PIXEL = (  # a PNG of one pixel
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
LONG_AGO = 1_760_000_000
MODEL = "claude-opus-4-5-20251101"
FOLDER = "/home/demo/code/quay"


class Log:
    """A log that is written record by record."""

    def __init__(
        self, user: Path, name: str, cwd: str = FOLDER, branch: str = "main", model: str = MODEL
    ) -> None:
        self.path = user / ".claude" / "projects" / "-home-demo-code-quay" / f"{name}.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._name, self._cwd, self._branch, self._model = name, cwd, branch, model
        self._records: list[dict[str, Any]] = []
        self._parent: str | None = None
        self._written = 0

    def add(self, role: str, content: Any, **more: Any) -> str:
        """Add a record; give its id."""
        number = len(self._records) + 1
        uuid = f"{self._name}-{number}"
        minutes, seconds = divmod(number * 3, 60)
        hours, minutes = divmod(minutes, 60)
        message = {"role": role, "content": content}
        if role == "assistant":
            usage = {"input_tokens": 10 * number, "output_tokens": 20, "cache_read_input_tokens": 5}
            message |= {"id": f"msg_{uuid}", "model": self._model, "usage": usage}
        self._records.append(
            {
                "type": role,
                "uuid": uuid,
                "parentUuid": self._parent,
                "version": "2.0.1",
                "sessionId": self._name,
                "cwd": self._cwd,
                "gitBranch": self._branch,
                "timestamp": f"2026-03-01T{8 + hours:02}:{minutes:02}:{seconds:02}.000Z",
                "message": message,
                **more,
            }
        )
        self._parent = uuid
        return uuid

    def go_back(self, uuid: str) -> None:
        """Go on from an earlier record: a branch."""
        self._parent = uuid

    def ask(self, text: str) -> str:
        return self.add("user", text)

    def answer(self, text: str) -> str:
        return self.add("assistant", [{"type": "text", "text": text}])

    def think(self, text: str) -> str:
        return self.add("assistant", [{"type": "thinking", "thinking": text}])

    def call(self, tool: str, given: Any, output: Any, *, error: bool = False) -> str:
        """Add a tool call and what came back."""
        call_id = f"toolu_{self._name}_{len(self._records)}"
        use = {"type": "tool_use", "id": call_id, "name": tool, "input": given}
        uuid = self.add("assistant", [use])
        back = {"type": "tool_result", "tool_use_id": call_id, "content": output, "is_error": error}
        self.add("user", [back])
        return uuid

    def write(self) -> Path:
        """Write what was added since; the log looks old, so that it is captured at once."""
        with self.path.open("a", encoding="utf-8") as file:
            for record in self._records[self._written :]:
                file.write(json.dumps(record) + "\n")
        self._written = len(self._records)
        os.utime(self.path, (LONG_AGO + self._written, LONG_AGO + self._written))
        return self.path


class Rich(NamedTuple):
    """Ids of records of the rich session."""

    name: str
    edit: str
    long: str
    huge: str
    picture: str
    forked: str


def rich_session(user: Path, name: str = "rich-1") -> Rich:
    """Write a session with everything that a transcript can have."""
    log = Log(user, name)
    log.ask("Why does the quay page show the wrong berth?\n\n  - keep the indent\n")
    log.think("The berth comes from the cache. **Look** there first.")
    log.answer(
        "I'll look at the cache.\n\n```python\nberths = {}\n```\n\n| berth | ship |\n|---|---|\n"
        "| 4 | Aurora |\n\nSee [the page](https://example.org/berths) and ![a map](https://example.org/m.png)."
    )
    long = log.call("Bash", {"command": "pytest -q\nls -la", "description": "Run"}, _lines(200))
    edit = log.call(
        "Edit",
        {
            "file_path": f"{FOLDER}/berths.py",
            "old_string": "def berth(ship):\n    return CACHE[ship]\n",
            "new_string": "def berth(ship):\n    CACHE.refresh()\n    return CACHE[ship]\n",
        },
        "The file was updated.",
    )
    log.call("Grep", {"pattern": "CACHE", "path": FOLDER}, "grep: no such folder", error=True)
    log.call("Write", {"file_path": f"{FOLDER}/new.py", "content": "x = 1\ny = 2\n"}, "ok")
    picture = log.add(
        "user",
        [
            {"type": "text", "text": "This is how it looks now."},
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
            },
        ],
    )
    huge = log.answer("A very long answer. " * 2_000 + "zebra at its end")
    log.ask("This session is being continued from a previous conversation. **Berths** were wrong.")
    forked = log.answer("Done: the cache is refreshed before it is read.")
    log.ask("And the other quay?")
    log.answer("It has the same fault.")
    log.go_back(forked)
    log.ask("Rather look at the tide.")
    log.answer("The tide is right.")
    log.write()
    return Rich(name, edit, long, huge, picture, forked)


def long_session(user: Path, turns: int, name: str = "long-1") -> str:
    """Write a session of ten messages a turn."""
    log = Log(user, name)
    for turn in range(turns):
        log.ask(f"Prompt {turn}: look at berth {turn}")
        log.think(f"Berth {turn} is free. " * 8)
        for number in range(3):
            log.call("Bash", {"command": f"cat berth-{turn}-{number}.txt"}, _lines(6 + turn % 40))
        log.answer(f"## Berth {turn}\n\nIt is **free**, see `berth-{turn}.txt`.\n\n- one\n- two\n")
        log.answer(f"Answer {turn} is done.")
    log.write()
    return name


def _lines(count: int) -> str:
    return "".join(
        f"line {number} of the output, with some words in it\n" for number in range(count)
    )
