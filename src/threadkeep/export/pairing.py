"""Tool calls and their results: which belongs to which, whatever the ids are like."""

from collections.abc import Iterable, Iterator

import msgspec

from threadkeep.export.records import Block, Message, ToolCall, ToolResult


class Pairs(msgspec.Struct, frozen=True):
    """Which result is of which call, by the places of messages and blocks."""

    result_of: dict[tuple[int, int], ToolResult]
    answered: frozenset[tuple[int, int]]  # results that have a call


def pair(messages: Iterable[Message]) -> Pairs:
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


def _placed(messages: Iterable[Message]) -> Iterator[tuple[tuple[int, int], Block]]:
    for number, message in enumerate(messages):
        for place, block in enumerate(message.blocks):
            yield (number, place), block


def named_calls(messages: list[Message]) -> Iterator[Message]:
    """Give calls without an id one, and each result without an id that of a call before it.

    A result that follows no such call in its turn keeps its empty id.
    """
    waiting: list[ToolCall] = []
    number = 0
    for message in messages:
        if message.role == "user":
            waiting.clear()
        blocks: list[Block] = []
        for block in message.blocks:
            named: Block = block
            if isinstance(block, ToolCall) and not block.id:
                number += 1
                named = ToolCall(block.name, f"call-{number}", block.input)
                waiting.append(named)
            elif isinstance(block, ToolResult) and not block.id and waiting:
                named = msgspec.structs.replace(block, id=_taken(waiting, block.name).id)
            blocks.append(named)
        yield Message(message.role, tuple(blocks), message.at, message.model)


def _taken(waiting: list[ToolCall], name: str) -> ToolCall:
    """Take the first waiting call out: of the tool that is named, if one is of it."""
    same = [place for place, call in enumerate(waiting) if call.name == name]
    return waiting.pop(same[0] if same else 0)
