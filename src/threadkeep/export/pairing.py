"""Tool calls and their results: which belongs to which, whatever the ids are like."""

from collections.abc import Iterable, Iterator

import msgspec

from threadkeep.export.records import Block, ExportMessage, ToolCall, ToolResult


class Pairs(msgspec.Struct, frozen=True):
    """Which result is of which call, by the places of messages and blocks."""

    result_of: dict[tuple[int, int], ToolResult]
    answered: frozenset[tuple[int, int]]  # results that have a call


def pair(messages: Iterable[ExportMessage]) -> Pairs:
    """Find for each call its result: the first one behind it with its id that is still free."""
    open_calls: dict[str, list[tuple[int, int]]] = {}
    result_of: dict[tuple[int, int], ToolResult] = {}
    answered: set[tuple[int, int]] = set()
    for place, block in _placed(messages):
        if isinstance(block, ToolCall):
            open_calls.setdefault(block.id, []).append(place)
        elif isinstance(block, ToolResult) and open_calls.get(block.id):
            result_of[open_calls[block.id].pop(0)] = block
            answered.add(place)
    return Pairs(result_of, frozenset(answered))


def _placed(messages: Iterable[ExportMessage]) -> Iterator[tuple[tuple[int, int], Block]]:
    for number, message in enumerate(messages):
        for place, block in enumerate(message.blocks):
            yield (number, place), block


def named_calls(messages: Iterable[ExportMessage]) -> Iterator[ExportMessage]:
    """Give every call an id of its own, and each result that of the call it is of.

    Some programs give their calls no id, and some count them anew in each turn. A result of no
    call that is known keeps the id it has.
    """
    names = _Names()
    for message in messages:
        if message.role == "user":
            names.forget_unnamed()
        blocks = tuple(names.named(block) for block in message.blocks)
        named: ExportMessage = msgspec.structs.replace(message, blocks=blocks)
        yield named


class _Names:
    """The ids that calls were given, and which of them still wait for a result."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._counts: dict[str, int] = {}
        self._waiting: dict[str, list[ToolCall]] = {}  # by the id that the program gave

    def forget_unnamed(self) -> None:
        """Let calls without an id wait no longer: a turn is over."""
        self._waiting.pop("", None)

    def named(self, block: Block) -> Block:
        """Give a call or a result its id."""
        if isinstance(block, ToolCall):
            named = ToolCall(block.name, self._free(block.id), block.input)
            self._waiting.setdefault(block.id, []).append(named)
            return named
        if isinstance(block, ToolResult) and self._waiting.get(block.id):
            call = _taken(self._waiting[block.id], block.name)
            answer: ToolResult = msgspec.structs.replace(block, id=call.id)
            return answer
        return block

    def _free(self, given: str) -> str:
        name = given
        while not name or name in self._used:
            self._counts[given] = self._counts.get(given, int(bool(given))) + 1
            name = f"{given or 'call'}-{self._counts[given]}"
        self._used.add(name)
        return name


def _taken(waiting: list[ToolCall], name: str) -> ToolCall:
    """Take the first waiting call out: of the tool that is named, if one is of it."""
    same = [place for place, call in enumerate(waiting) if call.name == name]
    return waiting.pop(same[0] if same else 0)
