"""Kimi Code: a log of what happened in a session, with the session's own facts in a file beside it.

A prompt is told twice there, as what began a turn and as what the model is given.
"""

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from threadkeep.knowledge.records import Image
from threadkeep.sources.kimi_code import NOTICE
from threadkeep.transfer import conversation
from threadkeep.transfer.formats.claude_code import session_uuid

_PROTOCOL: Final = "1.5"
_STATE: Final = 2  # the version of what is known of a session
_AGENT: Final = "main"
_ELSEWHERE: Final = {"kind": "injection", "variant": "threadkeep"}
_SLUG: Final = 40
_NOT_IN_SLUGS: Final = re.compile(r"[^a-z0-9._-]+")

Record = dict[str, Any]


def kimi_code(told: conversation.Conversation, new: conversation.NewSession) -> str:
    """Write a conversation as a log that Kimi Code can resume."""
    return conversation.json_lines(_records(told, new))


def kimi_folder(cwd: str) -> str:
    """Name the folder that Kimi Code keeps the sessions of a project in."""
    whole = cwd.replace("\\", "/").rstrip("/")
    slug = _NOT_IN_SLUGS.sub("-", whole.rpartition("/")[2].lower()).strip("-")[:_SLUG].strip("-")
    digest = sha256(whole.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return f"wd_{slug if slug not in {'', '.', '..'} else 'workspace'}_{digest}"


def kimi_state(
    told: conversation.Conversation, new: conversation.NewSession, log: Path
) -> dict[Path, str]:
    """Write what is known of a session, for the file beside the folders of its agents."""
    about = told.about
    state = {
        "id": new.session_id,
        "version": _STATE,
        "cwd": about.cwd,
        "title": about.title,
        "isCustomTitle": bool(about.title),
        "createdAt": new.now,
        "updatedAt": new.now,
        "archived": False,
        "agents": {_AGENT: {"homedir": str(log.parent), "type": _AGENT}},
        "custom": {},
    }
    return {log.parents[2] / "state.json": conversation.encoded(state)}


def _records(told: conversation.Conversation, new: conversation.NewSession) -> Iterator[Record]:
    title = {"title": told.about.title} if told.about.title else {}
    yield {"type": "metadata", "protocol_version": _PROTOCOL, "created_at": new.now, **title}
    writer = _Writer(new)
    for message, at in conversation.timed(told, new.now):
        mark = told.mark(message)
        for record in writer.records(message):
            yield {"agentId": _AGENT, **record, "time": at, **mark}
    for record in writer.step_end():
        yield {"agentId": _AGENT, **record, "time": new.now}


class _Writer:
    """Writes messages one after the other: an answer is a step, which its results belong to."""

    def __init__(self, new: conversation.NewSession) -> None:
        self._new = new
        self._turn = -1
        self._step = 0
        self._open = ""  # the step that is not ended
        self._calls: dict[str, str] = {}  # the record of each call by its id
        self._given = 0  # at least so many messages the model is given

    def records(self, message: conversation.ExportMessage) -> Iterator[Record]:
        """Return the records of a message, without what all records share."""
        if message.role == "assistant":
            yield from self._answer(message)
            return
        shown = conversation.pictures_in(message)
        for block in message.blocks:
            match block:
                case conversation.ToolResult():
                    yield self._result(block)
                case conversation.ExportNote(text=said, error=error) if message.role == "system":
                    yield {"type": NOTICE, "text": said, "error": error}
                case conversation.Summary(text=said):
                    yield from self._summary(said)
                case conversation.ExportNote(text=said):
                    yield from self._said(_ELSEWHERE, said)
                case conversation.ExportText(text=said):
                    yield from self._said({"kind": "user"}, said, shown)
                    shown = []
        if shown:
            yield from self._said({"kind": "user"}, "", shown)

    def step_end(self) -> Iterator[Record]:
        """End the step that is open, if one is."""
        if self._open:
            yield _event("step.end", self._open, self._place(), finishReason="end_turn")
        self._open = ""

    def _said(self, origin: Record, said: str, images: Sequence[Image] = ()) -> Iterator[Record]:
        yield from self.step_end()
        own = f"msg_{self._new.digits()}"
        content = _content(said, images)
        self._turn, self._step = self._turn + 1, 0
        self._given += 1
        about = {"origin": origin, "promptId": own, "turnId": self._turn}
        yield {"type": "turn.prompt", "input": content, **about}
        message = {"role": "user", "content": content, "id": own, "toolCalls": [], "origin": origin}
        yield {"type": "context.append_message", "message": message}

    def _summary(self, said: str) -> Iterator[Record]:
        yield from self.step_end()
        about = {"compactedCount": self._given, "keptUserMessageCount": 0}
        yield {"type": "context.apply_compaction", "summary": said, **about}

    def _answer(self, message: conversation.ExportMessage) -> Iterator[Record]:
        yield from self.step_end()
        self._turn, self._step = max(self._turn, 0), self._step + 1
        self._given += 1
        self._open = session_uuid(self._new.digits())
        place = self._place()
        yield _event("step.begin", self._open, place)
        for block in message.blocks:
            own = session_uuid(self._new.digits())
            inside = {**place, "stepUuid": self._open}
            if isinstance(block, conversation.ToolCall):
                self._calls[block.id] = own
                given = conversation.as_object(block.input)
                about = {"toolCallId": block.id, "name": block.name, "args": given}
                yield _event("tool.call", own, inside, **about)
            else:
                yield _event("content.part", own, inside, part=_part(block))

    def _result(self, result: conversation.ToolResult) -> Record:
        self._given += 1
        content = _content(result.output, result.images)
        failed = {"isError": True} if result.error else {}
        came = {"output": content if result.images else result.output, **failed}
        parent = self._calls.get(result.id) or session_uuid(self._new.digits())
        about = {"parentUuid": parent, "toolCallId": result.id, "result": came}
        return {"type": "context.append_loop_event", "event": {"type": "tool.result", **about}}

    def _place(self) -> Record:
        return {"turnId": str(self._turn), "step": self._step}


def _event(kind: str, own: str, place: Record, **more: Any) -> Record:
    told = {"type": kind, "uuid": own, **place, **more}
    return {"type": "context.append_loop_event", "event": told}


def _part(block: conversation.Block) -> Record:
    match block:
        case conversation.Reasoning(text=said):
            return {"type": "think", "think": said}
        case conversation.Picture(image=image):
            said = conversation.described(image)
        case conversation.ToolResult():
            said = conversation.loose_result(block)
        case conversation.ToolCall():
            said = block.name
        case _:
            said = block.text
    return {"type": "text", "text": said}


def _content(said: str, images: Sequence[Image]) -> list[Record]:
    words = [{"type": "text", "text": said}] if said else []
    shown = [
        {"type": "image_url", "imageUrl": {"url": conversation.data_url(image)}} for image in images
    ]
    return [*words, *shown]
