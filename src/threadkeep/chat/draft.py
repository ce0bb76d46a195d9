"""The parts of a message that is being streamed, and how to find one of them."""

from typing import Any

from threadkeep.chat.growing_text import GrowingText
from threadkeep.chat.tool_parts import (
    Fields,
    Part,
    PartialCall,
    ToolIndex,
    is_tool,
    new_tool_part,
    revised_tool_part,
    without_missing,
)


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
