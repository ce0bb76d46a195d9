"""A user's machine with things to remember: agents' logs, a shell, pages, CI, in one store."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.support.tickets import add_run, insert
from tests.support.worlds import World
from threadkeep.base.config import RecallSettings
from threadkeep.knowledge.commands import write_command, write_visit
from threadkeep.knowledge.records import Command, GitState, Output, Visit
from threadkeep.memory.memory import Memory
from threadkeep.sources.claude.transcripts import ClaudeCode
from threadkeep.sources.pi import SOURCE as PI
from threadkeep.sources.records import Source
from threadkeep.testing import KnowledgeFactory

START = datetime(2026, 10, 1, 10, 0, tzinfo=UTC)


def ms(minute: float) -> int:
    """Return a minute after the beginning as epoch milliseconds."""
    return int((START + timedelta(minutes=minute)).timestamp() * 1000)


def iso(minute: float) -> str:
    return (START + timedelta(minutes=minute)).isoformat()


class Machine:
    """A world in which things are done at minutes after one beginning."""

    def __init__(self, folder: Path, factory: KnowledgeFactory | None = None) -> None:
        self.world = World(folder, factory)
        sources: Mapping[str, Source] = {"pi": PI, "claude-code": ClaudeCode()}
        self.world.sources = sources
        self._number = 0

    # ------------------------------------------------------------------ agents

    def pi(self, name: str, *steps: tuple[Any, ...], cwd: str = "/u/app") -> None:
        """Write a session of pi.

        A step is (minute, "prompt" or "text", words), or (minute, command, output, failed).
        """
        records: list[dict[str, Any]] = [
            {"type": "session", "version": 3, "id": name, "timestamp": iso(steps[0][0]), "cwd": cwd}
        ]
        for step in steps:
            for message in _messages(name, len(records), *step[1:]):
                at = len(records)
                told = {"type": "message", "id": f"{name}-{at}", "timestamp": iso(step[0])}
                records.append({**told, "message": message})
        folder = self.world.home / ".pi" / "agent" / "sessions" / "--u-app--"
        self._log(folder / f"2026_{name}.jsonl", records)

    def claude(self, name: str, *steps: tuple[Any, ...], cwd: str = "/u/app") -> None:
        """Write a session of Claude Code, with the same steps."""
        records: list[dict[str, Any]] = []
        for step in steps:
            for role, content in _blocks(name, len(records), *step[1:]):
                records.append(
                    {
                        "type": role,
                        "uuid": f"{name}-{len(records)}",
                        "sessionId": name,
                        "timestamp": iso(step[0]).replace("+00:00", "Z"),
                        "cwd": cwd,
                        "message": {"role": role, "content": content},
                    }
                )
        self._log(self.world.home / ".claude" / "projects" / "-u-app" / f"{name}.jsonl", records)

    def _log(self, path: Path, records: list[dict[str, Any]]) -> None:
        lines = "".join(json.dumps(record) + "\n" for record in records)
        self.world.write(lines.encode(), to=path)

    # ------------------------------------------------------------------ a shell, a browser, CI

    def shell(
        self, minute: float, command: str, code: int | None = 0, output: str = "", **fields: Any
    ) -> None:
        self._number += 1
        values: dict[str, Any] = {"cwd": "/u/app", "git": GitState("o/app", "main"), **fields}
        one = Command(
            envelope_id=f"e-{self._number}",
            session="11111111-1111-4111-8111-111111111111",
            at=ms(minute),
            command=command,
            exit_code=code,
            stdout=Output(output) if output else None,
            **values,
        )
        with self.world.history() as history, history.store.context.db.write() as tx:
            write_command(tx, one, self.world.now)

    def page(self, minute: float, title: str, **fields: Any) -> None:
        self._number += 1
        url = f"https://docs.example.org/{self._number}"
        one = Visit(f"v-{self._number}", ms(minute), url, "docs.example.org", title, 9000, **fields)
        with self.world.history() as history, history.store.context.db.write() as tx:
            write_visit(tx, one, self.world.now)

    def ci(self, number: int, minute: float, conclusion: str, message: str = "") -> None:
        raw = json.dumps({"head_commit": {"message": f"change {number}"}})
        with self.world.history() as history, history.store.context.db.write() as tx:
            ended = {"head_branch": "main", "conclusion": conclusion, "started_at": ms(minute)}
            one = {"repo": "o/app", "head_sha": f"{number:040x}", "html_url": "", "raw_json": raw}
            add_run(tx, number, at=1, **one, **ended)
            job = {"status": "completed", "conclusion": conclusion, "raw_json": "{}"}
            insert(tx, "workflow_jobs", id=number, run_id=number, name="test", **job)
            if message:
                insert(tx, "workflow_annotations", job_id=number, level="failure", message=message)

    # ------------------------------------------------------------------ memory

    @contextmanager
    def memory(self) -> Iterator[Memory]:
        """Capture what was written, and open memory on it."""
        self.world.capture()
        with self.world.history() as history:
            memory = Memory(
                history.store, history.sources, RecallSettings(), lambda: self.world.now
            )
            memory.index()
            yield memory


def _messages(name: str, at: int, *said: Any) -> list[dict[str, Any]]:
    if said[0] in {"prompt", "text"}:
        role = "user" if said[0] == "prompt" else "assistant"
        return [{"role": role, "content": [{"type": "text", "text": said[1]}]}]
    command, output, failed = said
    call = {"id": f"{name}-c{at}", "name": "bash", "arguments": {"command": command}}
    return [
        {"role": "assistant", "content": [{"type": "toolCall", **call}]},
        {
            "role": "toolResult",
            "toolCallId": call["id"],
            "toolName": "bash",
            "content": [{"type": "text", "text": output}],
            "isError": failed,
        },
    ]


def _blocks(name: str, at: int, *said: Any) -> list[tuple[str, Any]]:
    if said[0] == "prompt":
        return [("user", said[1])]
    if said[0] == "text":
        return [("assistant", [{"type": "text", "text": said[1]}])]
    command, output, failed = said
    call = f"{name}-c{at}"
    tool, given = ("Bash", {"command": command})
    if command.startswith("edit "):
        tool, given = "Edit", {"file_path": command.removeprefix("edit ")}
    used = {"type": "tool_use", "id": call, "name": tool, "input": given}
    result = {"type": "tool_result", "tool_use_id": call, "content": output, "is_error": failed}
    return [("assistant", [used]), ("user", [result])]
