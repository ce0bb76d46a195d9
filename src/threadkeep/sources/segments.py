"""Segments: how a conversation is cut into slices of a size that can be summed up.

A prompt begins a new slice if more than five minutes passed since the last one, or if the slice
already holds more than 12,000 characters. Both numbers and the hash are the contract's, so that
other programs of it go on where we stopped.
"""

from typing import Final

import msgspec

from threadkeep.knowledge.records import Entry, Segment, SessionFacts
from threadkeep.sources.records import Log

GAP_MS: Final = 300_000
MAX_CHARACTERS: Final = 12_000
PROMPT_CHARACTERS: Final = 500
TEXT_CHARACTERS: Final = 300
TOOL_CHARACTERS: Final = 120
_SHOWN_PROMPTS: Final = 30
_SHOWN_TOOLS: Final = 60
_SHOWN_TEXTS: Final = 5


class OpenSegment(msgspec.Struct):
    """The slice that is still growing; a parser keeps it in its state."""

    index: int = -1  # none yet
    start: int = 0
    end: int = 0
    cwd: str = ""
    project_dir: str = ""
    git_branch: str = ""
    prompts: list[str] = []
    tools: list[tuple[str, str]] = []
    texts: list[str] = []
    messages: int = 0
    characters: int = 0
    last_prompt: int | None = None


class Segmenter:
    """Cuts the entries of one session, taken in order; for harnesses without rules of their own."""

    def __init__(self, log: Log, label: str, state: OpenSegment | None = None) -> None:
        """Start afresh or go on; `label` names the program in the summary."""
        self._log = log
        self._label = label
        self.open = state or OpenSegment()
        self._closed: list[Segment] = []

    def add(self, entry: Entry, facts: SessionFacts) -> None:
        """Take the next entry; nothing counts before the first prompt."""
        if entry.kind == "prompt":
            self._prompt(entry, facts)
        elif self.open.index < 0:
            return
        else:
            self._other(entry)
        current = self.open
        current.messages += 1
        current.end = max(current.end, entry.at or 0)
        current.cwd = facts.cwd or current.cwd

    def take(self, session_id: str, facts: SessionFacts) -> list[Segment]:
        """Give the slices closed since the last call, and the open one as it is now."""
        closed, self._closed = self._closed, []
        if self.open.index >= 0:
            closed.append(msgspec.structs.replace(self._finished(facts), is_open=True))
        for segment in closed:
            segment.session_id = session_id
        return closed

    def _prompt(self, entry: Entry, facts: SessionFacts) -> None:
        current, at = self.open, entry.at or self.open.end
        gap = current.last_prompt is not None and at - current.last_prompt > GAP_MS
        if current.index < 0 or gap or current.characters > MAX_CHARACTERS:
            self._begin(at, facts)
        self.open.last_prompt = at
        self._keep(self.open.prompts, entry.text.strip()[:PROMPT_CHARACTERS])

    def _begin(self, at: int, facts: SessionFacts) -> None:
        if self.open.index >= 0:
            self._closed.append(self._finished(facts))
        cwd = facts.cwd or self.open.cwd
        self.open = OpenSegment(
            index=self.open.index + 1,
            start=at,
            end=at,
            cwd=cwd,
            project_dir=last_component(cwd) or self._log.project_dir,
            git_branch=facts.git_branch,
        )

    def _other(self, entry: Entry) -> None:
        current = self.open
        if entry.kind == "text":
            self._keep(current.texts, entry.text.strip()[:TEXT_CHARACTERS])
        elif entry.kind == "tool_call":
            summary = entry.text.strip()[:TOOL_CHARACTERS]
            current.tools.append((entry.tool, summary))
            current.characters += len(entry.tool) + len(summary)

    def _keep(self, kept: list[str], text: str) -> None:
        if text:
            kept.append(text)
            self.open.characters += len(text)

    def _finished(self, facts: SessionFacts) -> Segment:
        # Signed when it is closed, so that it does not matter when somebody takes it.
        current = self.open
        return Segment(
            session_id="",
            index=current.index,
            start=current.start,
            end=max(current.end, current.start),
            project_dir=current.project_dir,
            cwd=current.cwd,
            summary=summarise(self._label, current, is_subagent=self._log.is_subagent),
            prompts=list(current.prompts),
            tools=list(current.tools),
            texts=list(current.texts),
            messages=current.messages,
            git_branch=current.git_branch or None,
            is_subagent=facts.is_subagent or self._log.is_subagent,
            parent_session_id=facts.parent_session_id or self._log.parent_session_id,
            model=facts.model,
            agent=facts.agent,
            slug=facts.slug,
            title=facts.title,
        )


def summarise(label: str, slice_: OpenSegment, *, is_subagent: bool) -> str:
    """Sum up a slice in the words of the contract: requests, work, the first answers."""
    place = f"subagent, project: {slice_.cwd}" if is_subagent else f"project: {slice_.cwd}"
    parts = [f"{label} session ({place})"]
    asked = [f'  {n}. "{prompt}"' for n, prompt in enumerate(slice_.prompts[:_SHOWN_PROMPTS], 1)]
    done = [f"  - {name}: {summary}" for name, summary in slice_.tools[:_SHOWN_TOOLS]]
    said = [f'  - "{text}"' for text in slice_.texts[:_SHOWN_TEXTS]]
    for title, lines, total in (
        ("User requests:", asked, len(slice_.prompts)),
        ("Work performed:", done, len(slice_.tools)),
        ("Assistant responses (excerpts):", said, len(said)),
    ):
        if lines:
            more = [f"  … (+{total - len(lines)} more)"] if total > len(lines) else []
            parts.append("\n".join([title, *lines, *more]))
    return "\n\n".join(parts)


def last_component(path: str) -> str:
    """Give the last part of a path of any system."""
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2]
