"""OpenCode: a document as `opencode import` takes it, a session with messages and their parts."""

from collections.abc import Iterator
from itertools import count
from typing import Any, Final

from threadkeep.knowledge.records import Image
from threadkeep.transfer import conversation

# A version of the program that knows every record written here.
_VERSION: Final = "1.18.33"
_PROJECT: Final = "global"  # the program puts a session into the project that it is opened in
_AGENT: Final = "build"
_PROVIDERS: Final = {"claude": "anthropic", "gpt": "openai", "o3": "openai", "gemini": "google"}
_ID_BITS: Final = 48
_WITH_METADATA: Final = frozenset(("text", "reasoning", "tool"))

Part = dict[str, Any]


def opencode(told: conversation.Conversation, new: conversation.NewSession) -> str:
    """Write a conversation as a document that OpenCode can import."""
    making = _Making(told, new)
    messages = list(making.messages())
    return conversation.encoded({"info": making.info(), "messages": messages}) + "\n"


def opencode_id(prefix: str, at: int, place: int, digits: str) -> str:
    """Make an id that sorts by time among OpenCode's own: they keep the low 48 bits of it."""
    return f"{prefix}_{(at * 4096 + place) % (1 << _ID_BITS):012x}{digits[:14]}"


class _Making:
    """Writes one session; ids rise in the order in which they are asked for."""

    def __init__(self, told: conversation.Conversation, new: conversation.NewSession) -> None:
        self._told = told
        self._new = new
        self._pairs = conversation.pair(told.messages)
        # The program sorts by id: all must be older than what it will add itself.
        total = sum(_size(one) for one in told.messages)
        self._places = count(-total)
        self._asked = ""  # the id of the last message of the user

    def info(self) -> Part:
        about, now = self._told.about, self._new.now
        return {
            "id": self._new.session_id,
            "slug": f"threadkeep-{self._new.session_id[-8:].lower()}",
            "projectID": _PROJECT,
            "directory": about.cwd or "/",
            "title": about.title or about.session_id,
            "version": _VERSION,
            "time": {"created": about.started_at or now, "updated": now},
        }

    def messages(self) -> Iterator[Part]:
        last = 0  # a reader puts what it finds in the order of time
        for place, (message, said_at) in enumerate(conversation.timed(self._told, self._new.now)):
            last = at = max(last, said_at)
            for blocks, summary in _split(message):
                yield from self._message(message, list(blocks), at, place, summary=summary)

    def _message(
        self,
        message: conversation.ExportMessage,
        blocks: list[tuple[int, conversation.Block]],
        at: int,
        place: int,
        *,
        summary: bool,
    ) -> Iterator[Part]:
        if summary:
            marker = self._id("msg")
            self._asked = marker
            part = self._part(marker, {"type": "compaction", "auto": False})
            yield {"info": self._user(marker, message, at), "parts": [part]}
        is_answer = summary or message.role in ("assistant", "tool")
        own = self._id("msg")
        found = [
            self._part(own, _marked(part, self._told.mark(message)))
            for where, block in blocks
            for part in self._parts(block, (place, where), message, at, own)
        ]
        if not found:
            return
        if is_answer:
            info = self._assistant(own, message, at, summary=summary)
        else:
            info, self._asked = self._user(own, message, at), own
        yield {"info": info, "parts": found}

    def _id(self, prefix: str) -> str:
        return opencode_id(prefix, self._new.now, next(self._places), self._new.digits())

    def _part(self, message: str, part: Part) -> Part:
        own = {"id": self._id("prt"), "sessionID": self._new.session_id, "messageID": message}
        return {**own, **part}

    def _model(self, message: conversation.ExportMessage) -> tuple[str, str]:
        model = message.model or self._told.about.model or "unknown"
        begins = (name for start, name in _PROVIDERS.items() if model.startswith(start))
        return next(begins, "unknown"), model

    def _user(self, own: str, message: conversation.ExportMessage, at: int) -> Part:
        provider, model = self._model(message)
        return {
            "id": own,
            "sessionID": self._new.session_id,
            "role": "user",
            "time": {"created": at},
            "agent": _AGENT,
            "model": {"providerID": provider, "modelID": model},
        }

    def _assistant(
        self, own: str, message: conversation.ExportMessage, at: int, *, summary: bool
    ) -> Part:
        provider, model = self._model(message)
        cwd = self._told.about.cwd or "/"
        tokens = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
        return {
            "id": own,
            "sessionID": self._new.session_id,
            "role": "assistant",
            "parentID": self._asked or own,
            "mode": "compaction" if summary else _AGENT,
            "agent": "compaction" if summary else _AGENT,
            "path": {"cwd": cwd, "root": cwd},
            "cost": 0,
            "tokens": tokens,
            "modelID": model,
            "providerID": provider,
            "time": {"created": at, "completed": at},
            "finish": "stop",
            **({"summary": True} if summary else {}),
        }

    def _parts(
        self,
        block: conversation.Block,
        where: tuple[int, int],
        message: conversation.ExportMessage,
        at: int,
        owner: str,
    ) -> Iterator[Part]:
        times = {"start": at, "end": at}
        match block:
            case conversation.ExportText(text=said) | conversation.Summary(text=said):
                yield {"type": "text", "text": said, "time": times}
            case conversation.ExportNote(text=said):
                # A notice is shown, but no model is given it; context is the other way round.
                mark = "ignored" if message.role == "system" else "synthetic"
                yield {"type": "text", "text": said, mark: True, "time": times}
            case conversation.Reasoning(text=said):
                yield {"type": "reasoning", "text": said, "time": times}
            case conversation.ToolCall():
                yield self._tool(block, where, at, owner)
            case conversation.ToolResult() if where not in self._pairs.answered:
                yield {"type": "text", "text": conversation.loose_result(block), "time": times}
            case conversation.Picture(image=image) if message.role == "assistant":
                yield {"type": "text", "text": conversation.described(image), "time": times}
            case conversation.Picture(image=image):
                yield _file(image)

    def _tool(
        self, call: conversation.ToolCall, where: tuple[int, int], at: int, owner: str
    ) -> Part:
        result = self._pairs.result_of.get(where)
        state: Part = {"input": conversation.as_object(call.input)}
        times = {"start": at, "end": at}
        if result is None:
            state |= {"status": "pending", "raw": ""}
        elif result.error:
            said = "\n".join([result.output, *map(conversation.described, result.images)])
            state |= {"status": "error", "error": said, "time": times}
        else:
            state |= {"status": "completed", "output": result.output, "title": call.name}
            state |= {"metadata": {}, "time": times}
            if result.images:
                shown = [self._part(owner, _file(image)) for image in result.images]
                state["attachments"] = shown
        return {"type": "tool", "tool": call.name, "callID": call.id, "state": state}


def _size(message: conversation.ExportMessage) -> int:
    """Return how many ids a message may take."""
    images = (len(one.images) for one in message.blocks if isinstance(one, conversation.ToolResult))
    return 4 * len(message.blocks) + sum(images) + 4


def _split(
    message: conversation.ExportMessage,
) -> Iterator[tuple[list[tuple[int, conversation.Block]], bool]]:
    """Part summaries from what else a message says: they are messages of their own."""
    others: list[tuple[int, conversation.Block]] = []
    for place, block in enumerate(message.blocks):
        if isinstance(block, conversation.Summary):
            yield others, False
            yield [(place, block)], True
            others = []
        else:
            others.append((place, block))
    yield others, False


def _marked(part: Part, mark: Part) -> Part:
    """Mark a part as a copy, if the program has a place for what others say of it."""
    return {**part, "metadata": mark} if part["type"] in _WITH_METADATA else part


def _file(image: Image) -> Part:
    return {"type": "file", "mime": image.media_type, "url": conversation.data_url(image)}
