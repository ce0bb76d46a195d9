"""Tool calls: their parts, the input that is still arriving, and where to find them.

Everything that changes a part is a pure function from the old part to the new one. Inside a
part the value MISSING stands for a key that the SDK holds as `undefined`; `without_missing`
gives the JSON form.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Self

from threadkeep.chat.wire.partial_json import MISSING, GrowingText, PartialJson
from threadkeep.chat.wire.protocol import NEWEST, PROTOCOLS, Chunk, Protocol
from threadkeep.errors import Invalid

Part = dict[str, Any]
Fields = dict[str, Any]

_CALL: Final = ("toolCallId", "toolName", "toolMetadata")
_PROVIDER: Final = ("providerExecuted", "providerMetadata")
_OVERWRITTEN: Final = ("input", "output", "errorText", "rawInput", "preliminary")
# The SDK creates the keys of a part in these orders; a new dynamic part has no rawInput.
_STATIC_KEYS: Final = (
    *("type", "toolCallId", "state", "title", "toolMetadata", "input", "inputEncoding"),
    *("output", "rawInput", "errorText", "providerExecuted", "preliminary"),
)
_DYNAMIC_KEYS: Final = (
    *("type", "toolName", "toolCallId", "state", "input", "inputEncoding", "output"),
    *("errorText", "preliminary", "providerExecuted", "title", "toolMetadata"),
)
_LATER_KEYS: Final = ("toolMetadata", "inputEncoding")  # not created before they have a value


def is_dynamic(part: Part) -> bool:
    """Whether this is the part of a tool that was not known at build time."""
    return part.get("type") == "dynamic-tool"


def is_tool(part: Part) -> bool:
    """Whether this is the part of a tool call."""
    return is_dynamic(part) or str(part.get("type")).startswith("tool-")


def approval_of(part: Part) -> Fields:
    """Return what a tool part says about its approval; nothing if it is not an object."""
    approval = part.get("approval")
    return approval if isinstance(approval, dict) else {}


def without_missing(part: Part) -> Part:
    """Return the JSON form of a part: a fresh dict without the keys that have no value."""
    return {key: value for key, value in part.items() if value is not MISSING}


def pick(source: Fields, *names: str) -> Fields:
    """Return those of the named fields that are there."""
    return {name: source[name] for name in names if name in source}


# From chunks to fields ------------------------------------------------------------------


def streaming_fields(chunk: Chunk) -> Fields:
    """What a tool-input-start chunk says about its part."""
    fields = pick(chunk, *_CALL, *_PROVIDER, "title", "inputEncoding")
    return {**fields, "state": "input-streaming"}


def available_fields(chunk: Chunk) -> Fields:
    """What a tool-input-available chunk says about its part."""
    return {**pick(chunk, *_CALL, *_PROVIDER, "title", "input"), "state": "input-available"}


def input_error_fields(chunk: Chunk, place: str) -> Fields:
    """What a tool-input-error chunk says; `place` is where the unusable input is kept."""
    fields = {**pick(chunk, *_CALL, *_PROVIDER, "errorText"), "state": "output-error"}
    if "input" in chunk:
        fields[place] = chunk["input"]
    return fields


# From fields to parts -------------------------------------------------------------------


def new_tool_part(fields: Fields, *, dynamic: bool) -> Part:
    """Return the part that the first chunk of a tool call creates."""
    kind = "dynamic-tool" if dynamic else f"tool-{fields['toolName']}"
    known = {**fields, "type": kind}
    if known.get("inputEncoding") is None:
        known.pop("inputEncoding", None)
    part = {
        key: known.get(key, MISSING)
        for key in (_DYNAMIC_KEYS if dynamic else _STATIC_KEYS)
        if key in known or key not in _LATER_KEYS
    }
    return {**part, **_provider_metadata(fields)}


def revised_tool_part(part: Part, fields: Fields) -> Part:
    """Return the part after a later chunk of its call.

    Input, output and error are those of the chunk alone; title, tool metadata and
    providerExecuted stay unless the chunk names them.
    """
    new = {**part, "state": fields["state"]}
    if "toolName" in fields:
        name = fields["toolName"]
        new.update({"toolName": name} if is_dynamic(part) else {"type": f"tool-{name}"})
    for key in _OVERWRITTEN:
        new[key] = fields.get(key, MISSING)
    if fields.get("inputEncoding") is None:
        new.pop("inputEncoding", None)
    else:
        new["inputEncoding"] = fields["inputEncoding"]
    new.update(pick(fields, "title", "toolMetadata"))
    executed = fields.get("providerExecuted")
    new["providerExecuted"] = (
        part.get("providerExecuted", MISSING) if executed is None else executed
    )
    return {**new, **_provider_metadata(fields)}


def _provider_metadata(fields: Fields) -> Fields:
    metadata = fields.get("providerMetadata")
    if metadata is None:
        return {}
    is_result = fields["state"] in ("output-available", "output-error")
    return {"resultProviderMetadata" if is_result else "callProviderMetadata": metadata}


# Chunks that speak about a part that must exist -----------------------------------------


def _output_available(part: Part, chunk: Chunk, _protocol: Protocol) -> Part:
    fields = pick(chunk, "output", "preliminary", *_PROVIDER)
    return _with_result(part, chunk, {**fields, **pick(part, "input")}, "output-available")


def _output_error(part: Part, chunk: Chunk, _protocol: Protocol) -> Part:
    kept = pick(part, "input") if is_dynamic(part) else pick(part, "input", "rawInput")
    return _with_result(
        part, chunk, {**pick(chunk, "errorText", *_PROVIDER), **kept}, "output-error"
    )


def _with_result(part: Part, chunk: Chunk, fields: Fields, state: str) -> Part:
    fields["state"] = state
    if chunk.get("toolMetadata") is not None:
        fields["toolMetadata"] = chunk["toolMetadata"]
    return revised_tool_part(part, fields)


def _output_denied(part: Part, _chunk: Chunk, _protocol: Protocol) -> Part:
    return {**part, "state": "output-denied"}


def _approval_requested(part: Part, chunk: Chunk, protocol: Protocol) -> Part:
    approval = {"id": chunk["approvalId"]}
    if chunk.get("approvalDescriptor") is not None:
        approval["descriptor"] = chunk["approvalDescriptor"]
    approval |= pick(chunk, "inputSchemaInput")
    for field, name in protocol.approval.items():
        if chunk.get(field) not in (None, False):
            approval[name] = chunk[field]
    if chunk.get("signature") is not None:
        approval["signature"] = chunk["signature"]
    return {**part, "state": "approval-requested", "approval": approval}


def _approval_responded(part: Part, chunk: Chunk, _protocol: Protocol) -> Part:
    approval = {
        **approval_of(part),
        "id": chunk["approvalId"],
        "approved": chunk["approved"],
    }
    if chunk.get("reason") is not None:
        approval["reason"] = chunk["reason"]
    new = {**part, "state": "approval-responded", "approval": approval}
    if chunk.get("providerExecuted") is not None:
        new["providerExecuted"] = chunk["providerExecuted"]
    if chunk.get("providerMetadata") is not None:
        new["callProviderMetadata"] = chunk["providerMetadata"]
    return new


CHANGES_OF_A_CALL: Final[dict[str, Callable[[Part, Chunk, Protocol], Part]]] = {
    "tool-output-available": _output_available,
    "tool-output-error": _output_error,
    "tool-output-denied": _output_denied,
    "tool-approval-request": _approval_requested,
    "tool-approval-response": _approval_responded,
}


def late_tool_output(part: Part, chunk: Chunk, protocol: int = NEWEST) -> Part:
    """Return the stored tool part of an earlier message after an output or approval chunk."""
    change = CHANGES_OF_A_CALL.get(chunk["type"])
    if change is None or not is_tool(part):
        raise Invalid(
            f"a {chunk['type']} chunk cannot change a stored {part.get('type')} part",
            hint="only outputs and approvals can change the tool parts of earlier messages",
        )
    return without_missing(change(part, chunk, PROTOCOLS[protocol]))


# Input that is still arriving -----------------------------------------------------------


class PartialCall:
    """The input text of one tool call so far.

    The SDK keeps it after the call is complete, so a stray delta continues it and puts the
    part back to `input-streaming`. While `part` is set, that part shows this text.
    """

    __slots__ = ("dynamic", "fields", "has_delta", "part", "source")

    def __init__(
        self, fields: Fields, protocol: Protocol, *, dynamic: bool, text: str = ""
    ) -> None:
        """Start with `text`; `fields` is what the call's own deltas write into its part."""
        self.fields = pick(fields, *_CALL, "title", "inputEncoding")
        self.dynamic = dynamic
        self.part: int | None = None
        self.has_delta = False
        self.source: PartialJson | GrowingText
        if fields.get("inputEncoding") == "text":
            self.source = GrowingText(text)
        else:
            self.source = PartialJson(text, trusts_first_item=protocol.trusts_first_item)

    def feed(self, delta: str) -> int:
        """Append a delta and return the characters it added."""
        self.has_delta = True
        return self.source.feed(delta)

    def input(self) -> Any:
        """Return the input as far as it is known, or MISSING."""
        return self.source.text if isinstance(self.source, GrowingText) else self.source.value()

    def part_fields(self) -> Fields:
        """What a delta says about its part."""
        return {
            **self.fields,
            "state": "input-streaming",
            "input": self.input(),
            "rawInput": self.source.text,
        }

    def shown_in(self, part: Part) -> Part:
        """Return the part that shows this call, with the input of this moment."""
        if not self.has_delta:
            return part
        return {**part, "input": self.input(), "rawInput": self.source.text}

    def dump(self) -> Fields:
        """Return a record of the call; the text only when no part shows it."""
        record = {**self.fields, "dynamic": self.dynamic}
        if self.part is None:
            record["text"] = self.source.text
        else:
            record["part"] = self.part
        return record

    @classmethod
    def restore(cls, record: Fields, parts: Sequence[Part], protocol: Protocol) -> Self:
        """Return the call that `dump` recorded beside these parts."""
        index = record.get("part")
        text = record["text"] if index is None else parts[index].get("rawInput")
        if not isinstance(text, str | None):
            raise TypeError(f"the input of a call is text, not {type(text).__name__}")
        call = cls(record, protocol, dynamic=record["dynamic"], text=text or "")
        call.part = index
        call.has_delta = text is not None
        return call


def unfinished_calls(parts: Iterable[Part], protocol: Protocol) -> dict[str, PartialCall]:
    """Return the calls that a continued message left in the middle of their input."""
    calls = {}
    for part in parts:
        call_id, text = part.get("toolCallId"), part.get("rawInput")
        # Parts may come from anybody: a call without a usable id can get no delta.
        if not isinstance(call_id, str):
            continue
        if is_tool(part) and part.get("state") == "input-streaming":
            dynamic = is_dynamic(part)
            fields = part if dynamic else {**part, "toolName": part["type"].removeprefix("tool-")}
            known = text if isinstance(text, str) else ""
            calls[call_id] = PartialCall(fields, protocol, dynamic=dynamic, text=known)
    return calls


class ToolIndex:
    """Finds the part of a tool call without walking through the message.

    A call id may come back in a later step and is another part there, so the current step is
    asked first, and of the earlier ones the newest.
    """

    __slots__ = ("_dynamic", "_earlier", "_newest", "_static", "step_start")

    def __init__(self) -> None:
        """Start with an empty message."""
        self.step_start = 0
        self._earlier: dict[str, int] = {}
        self.drop_step()

    def drop_step(self) -> None:
        """Forget the calls of the current step."""
        self._static: dict[str, int] = {}
        self._dynamic: dict[str, int] = {}
        self._newest: dict[str, int] = {}

    def next_step(self, start: int) -> None:
        """Begin a step whose first part will have the index `start`."""
        self._earlier.update(self._newest)
        self.step_start = start
        self.drop_step()

    def add(self, part: Part, index: int) -> None:
        """Take note of a tool part of the current step."""
        call_id = str(part.get("toolCallId"))
        (self._dynamic if is_dynamic(part) else self._static).setdefault(call_id, index)
        self._newest[call_id] = index

    def in_step(self, call_id: str, *, dynamic: bool) -> int | None:
        """Return the first part of this call and kind in the current step."""
        return (self._dynamic if dynamic else self._static).get(call_id)

    def first_in_step(self, call_id: str) -> int | None:
        """Return the first part of this call in the current step, whatever its kind."""
        found = [kind[call_id] for kind in (self._static, self._dynamic) if call_id in kind]
        return min(found, default=None)

    def find(self, call_id: str) -> int | None:
        """Return the part that an output or approval of this call belongs to."""
        index = self.first_in_step(call_id)
        return self._earlier.get(call_id) if index is None else index


# ------------------------------------------------------------------------------
# Files, sources, custom content and steering: chunks that become a part as they are.

PLAIN_PARTS: Final[dict[str, tuple[str, ...]]] = {
    "file": ("type", "mediaType", "url"),
    "reasoning-file": ("type", "mediaType", "url"),
    "source-url": ("type", "sourceId", "url", "title", "providerMetadata"),
    "source-document": (
        *("type", "sourceId", "mediaType", "title", "filename", "providerMetadata"),
    ),
    "custom": ("type", "kind", "providerMetadata"),
    "steering-message": ("type", "id", "parts"),
}
"""Types of chunks, and the fields that their parts keep."""

_FILES: Final = frozenset({"file", "reasoning-file"})


def plain_part(chunk: Chunk) -> dict[str, Any]:
    """Return the part of such a chunk; files drop provider metadata that is null."""
    fields = PLAIN_PARTS[chunk["type"]]
    part = {name: chunk[name] for name in fields if name in chunk}
    if chunk["type"] in _FILES and chunk.get("providerMetadata") is not None:
        part["providerMetadata"] = chunk["providerMetadata"]
    return part


# ------------------------------------------------------------------------------
# The parts of a message that is being streamed, and how to find one of them.


class MessageDraft:
    """A growing list of parts.

    An open text part shows a text that is still growing, an open tool part the input of its
    call. Both are read only when the part is asked for, so that a delta costs nothing here.
    """

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.tools = ToolIndex()
        self.texts: dict[int, GrowingText] = {}
        self._inputs: dict[int, PartialCall] = {}
        self._data: dict[tuple[str, str], int] = {}

    def append(self, part: Part) -> int:
        """Add a part at the end and return its index."""
        index = len(self.parts)
        self.parts.append(part)
        kind = str(part.get("type"))
        if kind == "step-start":
            self.tools.next_step(index + 1)
        elif is_tool(part):
            self.tools.add(part, index)
        elif kind.startswith("data-") and isinstance(part.get("id"), str):
            self._data.setdefault((kind, part["id"]), index)
        return index

    def part(self, index: int) -> Part:
        """Return the part of this moment in JSON form, as a fresh dict."""
        part = self.parts[index]
        if index in self.texts:
            part = {**part, "text": self.texts[index].text}
        elif index in self._inputs:
            part = self._inputs[index].shown_in(part)
        return without_missing(part)

    def size_of(self, index: int) -> int:
        """Return the characters of the text that grows in this part, 0 if none does."""
        if index in self.texts:
            return self.texts[index].size
        if index in self._inputs:
            return self._inputs[index].source.size
        part = self.parts[index]
        text = part.get("rawInput") if is_tool(part) else part.get("text")
        return len(text) if isinstance(text, str) else 0

    def parts_of_step(self) -> list[Part]:
        """Return the parts of the current step."""
        return self.parts[self.tools.step_start :]

    def calls_of_step(self) -> list[int]:
        """Return the parts of the current step that show the input of a call."""
        return sorted(index for index in self._inputs if index >= self.tools.step_start)

    def shown_calls(self) -> list[PartialCall]:
        """Return the calls whose input a part shows, in whatever step."""
        return list(self._inputs.values())

    def data_part(self, kind: str, data_id: Any) -> int | None:
        """Return the part that data of this type and id replaces; data without id never does."""
        return None if data_id is None else self._data.get((kind, data_id))

    def truncate_step(self) -> int | None:
        """Remove the parts of the current step; return where they began, None if it has none."""
        start = self.tools.step_start
        if start == len(self.parts):
            return None
        for index in range(start, len(self.parts)):
            self.texts.pop(index, None)
            self._inputs.pop(index, None)
        self._data = {key: index for key, index in self._data.items() if index < start}
        del self.parts[start:]
        self.tools.drop_step()
        return start

    def put_tool(self, fields: Fields, *, dynamic: bool) -> int:
        """Revise the part of this call and kind in the current step, or create it."""
        index = self.tools.in_step(fields["toolCallId"], dynamic=dynamic)
        if index is None:
            return self.append(new_tool_part(fields, dynamic=dynamic))
        self._hide(index)
        self.parts[index] = revised_tool_part(self.parts[index], fields)
        return index

    # A part shows the input of its call as long as nothing but deltas happens to it.

    def show(self, call: PartialCall, index: int) -> None:
        """Let the part show the input of this call from now on."""
        call.part = index
        self._inputs[index] = call

    def shows_in_step(self, call: PartialCall) -> bool:
        """Whether a part of the current step shows this call."""
        return call.part is not None and call.part >= self.tools.step_start

    def settle(self, index: int) -> None:
        """Let the part keep the input that it shows now, whatever comes later."""
        call = self._hide(index)
        if call is not None:
            self.parts[index] = call.shown_in(self.parts[index])

    def _hide(self, index: int) -> PartialCall | None:
        call = self._inputs.pop(index, None)
        if call is not None:
            call.part = None
        return call
