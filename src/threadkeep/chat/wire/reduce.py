"""Builds the message of a stream, chunk by chunk, exactly as the AI SDK does.

The message after every chunk equals what `readUIMessageStream` of the `ai` package holds at that
point, in JSON form: a key without a value is absent, null is a value. Which version of the package
is meant, 7 or 6, whoever reads the stream says; what they differ in is in `protocol.py`.

The cost of a chunk depends on its own size and not on how much is there already. Values
inside chunks are shared with the state, never copied and never changed.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Final, Self

import msgspec

from threadkeep.chat.wire.partial_json import MISSING, GrowingText
from threadkeep.chat.wire.parts import (
    CHANGES_OF_A_CALL,
    PLAIN_PARTS,
    MessageDraft,
    Part,
    PartialCall,
    approval_of,
    available_fields,
    input_error_fields,
    is_dynamic,
    is_tool,
    plain_part,
    streaming_fields,
    unfinished_calls,
)
from threadkeep.chat.wire.protocol import (
    NEWEST,
    PROTOCOLS,
    UNNAMED,
    Chunk,
    is_known,
)
from threadkeep.errors import ProtocolViolation

# ------------------------------------------------------------------------------
# What one chunk did to a message: all that a store must know to follow it.


class Change(msgspec.Struct, frozen=True):
    """What one chunk did to the message."""

    delta_of: int | None = None
    """Index of the part that only grew by this delta."""
    grew: int = 0
    """Characters that a delta added."""
    parts: tuple[int, ...] = ()
    """Indexes of the parts that were created, changed otherwise, or can no longer grow."""
    truncated_to: int | None = None
    """The parts from this index on were removed."""
    metadata: dict[str, Any] | None = None
    """The metadata that was merged into the message's own."""
    restarted: bool = False
    """A start chunk with another message id dropped what there was: an id or any content."""
    transient: bool = False
    """A data part that is not meant to be kept."""
    unknown: bool = False
    """The chunk is of a type that this version of the stream does not have."""


# ------------------------------------------------------------------------------
# How the metadata of several chunks becomes the metadata of one message.

# Keys that could reach a prototype in JavaScript.
_NEVER_MERGED: Final = frozenset({"__proto__", "constructor", "prototype"})


def merge_metadata(
    base: dict[str, Any] | None, override: dict[str, Any] | None
) -> dict[str, Any] | None:
    """Merge two metadata objects deeply, as the SDK does, without changing either.

    Objects merge; arrays, null and all other values replace. The first metadata of a message
    is taken as it is, whatever its keys.
    """
    if base is None or override is None:
        return base if override is None else override
    merged = dict(base)
    levels = [(merged, override)]  # a list, because nesting may exceed the recursion limit
    while levels:
        target, source = levels.pop()
        for key, value in source.items():
            if key in _NEVER_MERGED:
                continue
            if isinstance(value, dict) and isinstance(target.get(key), dict):
                target[key] = dict(target[key])
                levels.append((target[key], value))
            else:
                target[key] = value
    return merged


_OWN_KEYS: Final = ("id", "role", "parts", "metadata")
_NOTHING: Final = Change()
_UNKNOWN: Final = Change(unknown=True)


class StreamState:
    """One assistant message while its stream is being read."""

    def __init__(
        self,
        message: dict[str, Any] | None = None,
        message_id: str = "",
        *,
        protocol: int = NEWEST,
    ) -> None:
        """Continue `message` if it is an assistant's, else start an empty one."""
        self.protocol = PROTOCOLS[protocol]
        self._handlers = _HANDLERS[protocol]
        self._begin(message_id)
        if message is not None and message.get("role") == "assistant":
            self._adopt(message)
            parts = self._draft.parts_of_step()
            self._calls.update(unfinished_calls(parts, self.protocol))

    def _begin(self, message_id: str) -> None:
        self.message_id = message_id
        self.metadata: dict[str, Any] | None = None
        self.finish_reason: str | None = None
        self._extra: dict[str, Any] = {}
        self._draft = MessageDraft()
        self._open: dict[str, dict[str, int]] = {"text": {}, "reasoning": {}}
        self._calls: dict[str, PartialCall] = {}

    def _adopt(self, message: dict[str, Any]) -> None:
        self.message_id = message["id"]
        self.metadata = message.get("metadata")
        self._extra = {key: value for key, value in message.items() if key not in _OWN_KEYS}
        for part in message["parts"]:
            self._draft.append(dict(part))

    # Reading ----------------------------------------------------------------------------

    @property
    def part_count(self) -> int:
        """Number of parts so far."""
        return len(self._draft.parts)

    def part(self, index: int) -> Part:
        """Return the part of this moment in JSON form, as a fresh dict."""
        return self._draft.part(index)

    def size_of(self, index: int) -> int:
        """Return the characters of the text that grows in this part, 0 if none does."""
        return self._draft.size_of(index)

    def message(self) -> dict[str, Any]:
        """Return the whole UIMessage of this moment."""
        metadata = {} if self.metadata is None else {"metadata": dict(self.metadata)}
        return {
            "id": self.message_id,
            **metadata,
            "role": "assistant",
            **self._extra,
            "parts": [self.part(index) for index in range(self.part_count)],
        }

    def target_of(self, chunk: Chunk) -> int | None:
        """Return the index of the part that this delta would grow now, None if it grows none."""
        kind, _, event = chunk["type"].rpartition("-")
        if event != "delta":
            return None
        if kind in self._open:
            return self._open[kind].get(chunk["id"])
        call = self._calls.get(chunk["toolCallId"]) if kind == "tool-input" else None
        return call.part if call and self._draft.shows_in_step(call) else None

    # Hidden state -----------------------------------------------------------------------

    def dump_open(self, *, finished_calls: bool = True) -> dict[str, Any]:
        """Return what the message does not show but later chunks depend on, as JSON.

        The texts of open parts are not in it, but the input texts of finished calls are:
        the SDK lets a stray delta continue them. Without `finished_calls` they are left out,
        and the work depends on what is open now, not on how many calls there were.
        """
        record: dict[str, Any] = {kind: dict(ids) for kind, ids in self._open.items()}
        record["protocol"] = self.protocol.version
        calls = self._calls.values() if finished_calls else self._open_calls()
        record["calls"] = [call.dump() for call in calls]
        if self.finish_reason is not None:
            record["finishReason"] = self.finish_reason
        return record

    def _open_calls(self) -> list[PartialCall]:
        """Return the calls whose input a part shows; `reset-step` forgets calls, not such parts."""
        shown = self._draft.shown_calls()
        return [call for call in shown if self._calls.get(call.fields["toolCallId"]) is call]

    @classmethod
    def restore(cls, message: dict[str, Any], open_: dict[str, Any]) -> Self:
        """Return the state whose `message()` and `dump_open()` these are."""
        state = cls(protocol=open_.get("protocol", UNNAMED))
        state._adopt(message)
        state.finish_reason = open_.get("finishReason")
        parts = state._draft.parts
        for kind, ids in state._open.items():
            ids.update(open_[kind])
            for index in ids.values():
                state._draft.texts[index] = GrowingText(parts[index]["text"])
        for record in open_["calls"]:
            call = PartialCall.restore(record, parts, state.protocol)
            state._calls[record["toolCallId"]] = call
            if call.part is not None:
                state._draft.show(call, call.part)
        return state

    # Applying ---------------------------------------------------------------------------

    def apply(self, chunk: Chunk) -> Change:
        """Apply one chunk that `validate_chunk` accepts.

        A chunk that does not fit raises `ProtocolViolation` and changes nothing. Chunks of
        unknown types change nothing either.
        """
        kind: str = chunk["type"]
        handler = self._handlers.get(kind)
        if handler is not None:
            return handler(self, chunk)
        if kind.startswith("data-"):
            return self._apply_data(chunk)
        return _NOTHING if is_known(self.protocol, kind) else _UNKNOWN

    # Messages and steps

    def _apply_start(self, chunk: Chunk) -> Change:
        message_id = chunk.get("messageId")
        restarted = False
        if message_id is not None and message_id != self.message_id:
            restarted = bool(self.message_id or self.part_count or self.metadata is not None)
            self._begin(message_id)
        return Change(restarted=restarted, metadata=self._merge(chunk))

    def _apply_finish(self, chunk: Chunk) -> Change:
        if chunk.get("finishReason") is not None:
            self.finish_reason = chunk["finishReason"]
        return self._apply_metadata(chunk)

    def _apply_metadata(self, chunk: Chunk) -> Change:
        return Change(metadata=self._merge(chunk))

    def _merge(self, chunk: Chunk) -> dict[str, Any] | None:
        metadata: dict[str, Any] | None = chunk.get("messageMetadata")
        self.metadata = merge_metadata(self.metadata, metadata)
        return metadata

    def _apply_start_step(self, _chunk: Chunk) -> Change:
        ended = self._draft.calls_of_step()  # a later delta opens another part in its own step
        return Change(parts=(*ended, self._draft.append({"type": "step-start"})))

    def _apply_finish_step(self, chunk: Chunk) -> Change:
        ends = chunk["type"] in self.protocol.ends_of_texts
        return Change(parts=self._end_texts()) if ends else _NOTHING

    def _apply_reset_step(self, _chunk: Chunk) -> Change:
        ended = self._end_texts()
        self._calls.clear()
        start = self._draft.truncate_step()
        return Change(
            parts=tuple(index for index in ended if index < self.part_count), truncated_to=start
        )

    def _end_texts(self) -> tuple[int, ...]:
        """Forget the ids of all open texts and return the parts that stay unfinished by it."""
        ended = [index for ids in self._open.values() for index in ids.values()]
        for ids in self._open.values():
            ids.clear()
        return tuple(sorted(ended))

    # Texts and reasoning

    def _apply_text_start(self, chunk: Chunk) -> Change:
        kind = chunk["type"].removesuffix("-start")
        part = {
            "type": kind,
            **({"id": chunk["id"]} if kind == "reasoning" else {}),
            "text": "",
            "providerMetadata": chunk.get("providerMetadata", MISSING),
            "state": "streaming",
        }
        ended = self._open[kind].get(chunk["id"])
        index = self._draft.append(part)
        self._draft.texts[index] = GrowingText()
        self._open[kind][chunk["id"]] = index
        return Change(parts=(index,) if ended is None else (ended, index))

    def _apply_text_delta(self, chunk: Chunk) -> Change:
        index = self._open_text(chunk)
        grew = self._draft.texts[index].feed(chunk["delta"])
        # A provider that repeats its metadata at every delta must not cost a write each time.
        if "providerMetadata" in chunk and self._keep_provider_metadata(index, chunk):
            return Change(parts=(index,), grew=grew)
        return Change(delta_of=index, grew=grew)

    def _apply_text_end(self, chunk: Chunk) -> Change:
        index = self._open_text(chunk)
        part = self._draft.parts[index]
        part["text"] = self._draft.texts.pop(index).text
        part["state"] = "done"
        self._keep_provider_metadata(index, chunk)
        for field in self.protocol.text_end if part["type"] == "text" else ():
            if chunk.get(field) is not None:
                part[field] = chunk[field]
        del self._open[part["type"]][chunk["id"]]
        return Change(parts=(index,))

    def _open_text(self, chunk: Chunk) -> int:
        kind = chunk["type"].rpartition("-")[0]
        index = self._open[kind].get(chunk["id"])
        if index is None:
            raise ProtocolViolation(
                f'{chunk["type"]} refers to the {kind} part "{chunk["id"]}", which is not open',
                hint=f'send a {kind}-start chunk with the id "{chunk["id"]}" first',
            )
        return index

    def _keep_provider_metadata(self, index: int, chunk: Chunk) -> bool:
        """Keep the last metadata that is not null; True when it became another."""
        new = chunk.get("providerMetadata")
        if new is None:
            return False
        part = self._draft.parts[index]
        is_other = bool(part.get("providerMetadata") != new)
        part["providerMetadata"] = new
        return is_other

    # Files, sources and data

    def _apply_plain(self, chunk: Chunk) -> Change:
        return Change(parts=(self._draft.append(plain_part(chunk)),))

    def _apply_data(self, chunk: Chunk) -> Change:
        if chunk.get("transient"):
            return Change(transient=True)
        index = self._draft.data_part(chunk["type"], chunk.get("id"))
        if index is None:
            return Change(parts=(self._draft.append(dict(chunk)),))
        self._draft.parts[index]["data"] = chunk.get("data", MISSING)
        return Change(parts=(index,))

    # Tools

    def _apply_tool_input_start(self, chunk: Chunk) -> Change:
        former = self._calls.get(chunk["toolCallId"])
        call = PartialCall(chunk, self.protocol, dynamic=bool(chunk.get("dynamic")))
        self._calls[chunk["toolCallId"]] = call
        index = self._draft.put_tool(streaming_fields(chunk), dynamic=call.dynamic)
        self._draft.show(call, index)
        ended = former.part if former else None
        if ended is None:
            return Change(parts=(index,))
        self._draft.settle(ended)  # the former call has a part of the other kind or another step
        return Change(parts=(ended, index))

    def _apply_tool_input_delta(self, chunk: Chunk) -> Change:
        call = self._calls.get(chunk["toolCallId"])
        if call is None:
            raise _unknown_call(chunk, "tool-input-start")
        if self._draft.shows_in_step(call):
            return Change(delta_of=call.part, grew=call.feed(chunk["inputTextDelta"]))
        return self._reopen(call, chunk)

    def _reopen(self, call: PartialCall, chunk: Chunk) -> Change:
        """A delta for a part that is no longer, or not yet, showing its call."""
        draft = self._draft
        if call.part is not None:  # that part stays behind in an earlier step, as it is now
            draft.settle(call.part)
        is_new = draft.tools.in_step(chunk["toolCallId"], dynamic=call.dynamic) is None
        grew = call.feed(chunk["inputTextDelta"])
        index = draft.put_tool(call.part_fields(), dynamic=call.dynamic)
        if not (is_new and call.dynamic):
            # The SDK gives a dynamic part that a delta created no rawInput before the next one.
            draft.show(call, index)
        return Change(parts=(index,), grew=grew)

    def _apply_tool_input_available(self, chunk: Chunk) -> Change:
        dynamic = bool(chunk.get("dynamic"))
        return Change(parts=(self._draft.put_tool(available_fields(chunk), dynamic=dynamic),))

    def _apply_tool_input_error(self, chunk: Chunk) -> Change:
        known = self._draft.tools.first_in_step(chunk["toolCallId"])
        if known is None:
            dynamic = bool(chunk.get("dynamic"))
        else:
            dynamic = is_dynamic(self._draft.parts[known])
        place = "input" if dynamic else self.protocol.unusable_input
        fields = input_error_fields(chunk, place)
        return Change(parts=(self._draft.put_tool(fields, dynamic=dynamic),))

    def _apply_to_call(self, chunk: Chunk) -> Change:
        index = self._draft.tools.find(chunk["toolCallId"])
        if index is None:
            raise _unknown_call(chunk, "tool-input-start or tool-input-available")
        return self._change_call(index, chunk)

    def _apply_approval_response(self, chunk: Chunk) -> Change:
        for index, part in enumerate(self._draft.parts):
            if is_tool(part) and approval_of(part).get("id") == chunk["approvalId"]:
                return self._change_call(index, chunk)
        raise ProtocolViolation(
            f'{chunk["type"]} refers to the approval "{chunk["approvalId"]}", never requested',
            hint="send the tool-approval-request chunk with this approvalId first",
        )

    def _change_call(self, index: int, chunk: Chunk) -> Change:
        self._draft.settle(index)
        parts = self._draft.parts
        parts[index] = CHANGES_OF_A_CALL[chunk["type"]](parts[index], chunk, self.protocol)
        return Change(parts=(index,))

    HANDLERS: ClassVar[dict[str, Callable[["StreamState", Chunk], Change]]] = {
        "start": _apply_start,
        "finish": _apply_finish,
        "message-metadata": _apply_metadata,
        "start-step": _apply_start_step,
        "finish-step": _apply_finish_step,
        "reset-step": _apply_reset_step,
        "text-start": _apply_text_start,
        "text-delta": _apply_text_delta,
        "text-end": _apply_text_end,
        "reasoning-start": _apply_text_start,
        "reasoning-delta": _apply_text_delta,
        "reasoning-end": _apply_text_end,
        "tool-input-start": _apply_tool_input_start,
        "tool-input-delta": _apply_tool_input_delta,
        "tool-input-available": _apply_tool_input_available,
        "tool-input-error": _apply_tool_input_error,
        **dict.fromkeys(PLAIN_PARTS, _apply_plain),
        **dict.fromkeys(CHANGES_OF_A_CALL, _apply_to_call),
        "tool-approval-response": _apply_approval_response,  # it names no call but an approval
    }


# A chunk that came with a later version is unknown to an earlier one.
_HANDLERS: Final = {
    version: {
        kind: handler for kind, handler in StreamState.HANDLERS.items() if kind in protocol.chunks
    }
    for version, protocol in PROTOCOLS.items()
}


def _unknown_call(chunk: Chunk, first: str) -> ProtocolViolation:
    return ProtocolViolation(
        f'{chunk["type"]} refers to the tool call "{chunk["toolCallId"]}", which is not known',
        hint=f"send a {first} chunk with this toolCallId first",
    )
