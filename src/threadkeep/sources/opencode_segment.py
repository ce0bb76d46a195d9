"""The one segment of an OpenCode session, word for word as the contract writes it.

Its prompts and tool calls are not stored in their columns but are part of the summary and of the
hash, together with the counts of changed lines, the changes and the files.
"""

import struct
from typing import Any, Final

import msgspec

from threadkeep.knowledge.hashing import compact
from threadkeep.knowledge.records import Segment
from threadkeep.sources.common import number, rows, table, text
from threadkeep.sources.segments import PROMPT_CHARACTERS, TEXT_CHARACTERS

_TOOL_CHARACTERS: Final = 300
_OUTPUT_CHARACTERS: Final = 120
_PATH_CHARACTERS: Final = 240
_SHOWN_PROMPTS: Final = 20
_SHOWN_TOOLS: Final = 40
_SHOWN_FILES: Final = 40
_SHOWN_TEXTS: Final = 10
_OBJECT_KEYS: Final = (
    *("command", "cmd", "filePath", "file_path", "path", "query", "pattern", "description"),
)


class OpencodeSession(msgspec.Struct):
    """What has been seen of a session; of what is said twice only the first counts."""

    session: dict[str, Any] | None = None
    prompts: dict[str, None] = {}
    tools: dict[str, None] = {}
    texts: dict[str, None] = {}
    files: dict[str, None] = {}
    messages: int = 0
    left_out: int = 0  # messages that another session has, too
    tokens: int = 0
    step_tokens: int = 0

    def about(self, session: dict[str, Any]) -> None:
        """Take what is known about the session itself."""
        self.session = session

    def add_message(self, message: dict[str, Any]) -> None:
        """Count a message and what it cost."""
        self.messages += 1
        self.tokens += _tokens(message.get("tokens"))

    def leave_out_message(self) -> None:
        """Take back a message: what was copied teaches nothing new."""
        self.messages -= 1
        self.left_out += 1

    def add_part(self, role: str, part: dict[str, Any]) -> None:
        """Take what a part adds to the row."""
        kind = part.get("type")
        if kind == "text":
            self._add_text(role, text(part.get("text")))
        elif kind == "tool":
            tool = part.get("tool") if isinstance(part.get("tool"), str) else "tool"
            self.tools[f"{tool}: {_tool_summary(str(tool), part)}"] = None
        elif kind == "patch":
            for file in rows(part.get("files")):
                self._add_file(text(file) or _first(table(file), ("path", "name")))
        elif kind == "file":
            self._add_file(_first(part, ("path", "filename", "name")))
        elif kind == "step-finish":
            self.step_tokens += _tokens(part.get("tokens"))

    def segments(self) -> list[Segment]:
        """Give the session's row, once the session itself is known, and says anything new."""
        if self.session is None or (self.left_out and not self.messages):
            return []
        session = self.session
        diffs = text(session.get("summary_diffs"))
        parent = text(session.get("parent_id"))
        start = number(session.get("time_created"))
        segment = Segment(
            session_id=text(session.get("id")),
            index=0,
            start=start,
            end=max(number(session.get("time_updated")), start),
            project_dir=text(session.get("directory")),
            cwd=text(session.get("directory")),
            summary=self._summary(session),
            prompts=None,
            tools=None,
            texts=list(self.texts),
            messages=self.messages,
            tokens=number(self.tokens or self.step_tokens),
            is_subagent=bool(parent),
            parent_session_id=parent or None,
            model=text(session.get("model")),
            agent=text(session.get("agent")),
            slug=text(session.get("slug")),
            title=text(session.get("title")),
            diffs_json=diffs or "null",
            hashed=self._hashed(session, diffs),
        )
        return [segment]

    def _add_text(self, role: str, said: str) -> None:
        kept, characters = self.texts, TEXT_CHARACTERS
        if role == "user":
            kept, characters = self.prompts, PROMPT_CHARACTERS
        shown = said.strip()[:characters]
        if shown and role in {"user", "assistant"}:
            kept[shown] = None

    def _add_file(self, path: str) -> None:
        if path.strip():
            self.files[path[:_PATH_CHARACTERS]] = None

    def _hashed(self, session: dict[str, Any], diffs: str) -> bytes:
        said = (compact(list(self.tools)), compact(list(self.prompts)), "\n".join(self.texts))
        counts = struct.pack("<3q", *_changes(session))
        files = compact(list(self.files))
        whole = [piece.encode("utf-8", "replace") for piece in (*said, diffs, files)]
        return b"|".join((*whole[:3], counts, *whole[3:]))

    def _summary(self, session: dict[str, Any]) -> str:
        directory, slug = text(session.get("directory")), text(session.get("slug"))
        lines = [f"Opencode session (project: {directory}, slug: {slug})"]
        told = [(label, text(session.get(label))) for label in ("title", "agent", "model")]
        lines += [f"{label.capitalize()}: {value}" for label, value in told if value]
        added, deleted, files = _changes(session)
        if added > 0 or deleted > 0 or files > 0:
            lines.append(f"Snapshot diffs: +{added}/-{deleted} lines, {files} files")
        asked = [f'{n}. "{prompt}"' for n, prompt in enumerate(list(self.prompts), 1)]
        said = [f'- "{text_}"' for text_ in self.texts]
        for title, shown in (
            ("User requests:", asked[:_SHOWN_PROMPTS]),
            ("Work performed:", [f"- {tool}" for tool in self.tools][:_SHOWN_TOOLS]),
            ("Files touched:", [f"- {path}" for path in self.files][:_SHOWN_FILES]),
            ("Assistant excerpts:", said[:_SHOWN_TEXTS]),
        ):
            if shown:
                lines += [title, *(f"  {line}" for line in shown)]
        return "\n".join(lines)


def _changes(session: dict[str, Any]) -> tuple[int, int, int]:
    added, deleted = session.get("summary_additions"), session.get("summary_deletions")
    return number(added), number(deleted), number(session.get("summary_files"))


def _tokens(told: object, depth: int = 3) -> int:
    """Add up a count of tokens: a number, a total, else the sum of what is inside."""
    inside = table(told)
    if isinstance(inside.get("total"), int):
        return number(inside["total"])
    if not inside or depth == 0:
        return number(told)
    return sum(_tokens(value, depth - 1) for value in inside.values())


def _first(given: dict[str, Any], keys: tuple[str, ...]) -> str:
    """Give the first text under one of the keys, empty if that is blank."""
    found = next((given[key] for key in keys if isinstance(given.get(key), str)), "")
    return found if found.strip() else ""


def _tool_summary(tool: str, part: dict[str, Any]) -> str:
    state = table(part.get("state"))
    summary = _rendered(tool, table(state.get("input", part.get("input"))))
    first = _first_line(text(state.get("output")))
    if first:
        summary = f"{summary} -> {first}"
    return summary[:_TOOL_CHARACTERS]


def _first_line(output: str) -> str:
    """Give the beginning of the first line that is not blank."""
    blank = len(output) - len(output.lstrip())
    if blank == len(output):
        return ""
    start = output.rfind("\n", 0, blank) + 1
    line = output[start : blank + _OUTPUT_CHARACTERS].partition("\n")[0]
    return line.removesuffix("\r")[:_OUTPUT_CHARACTERS]


def _rendered(tool: str, given: dict[str, Any]) -> str:
    """Say what a tool was asked to do, as the contract says it for tools of these names."""
    name = tool.lower()
    path = _first(given, ("filePath", "file_path", "path"))
    pattern = text(given.get("pattern"))
    if name == "bash" and text(given.get("command")):
        return text(given["command"])
    if name in {"read", "edit", "write"} and path:
        return f"{name} {path}"
    if name == "grep" and pattern:
        return f"grep '{pattern}' {path}".rstrip()
    if name == "glob" and pattern:
        return f"glob '{pattern}'"
    if name == "agent" and text(given.get("description")):
        return f"agent: {given['description']}"
    return _first(given, _OBJECT_KEYS) or tool
