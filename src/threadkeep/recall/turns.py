"""Turns of a conversation: what was asked, what was answered, and how many calls stood between."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from threadkeep.knowledge.reading import EntryRow


class TimelineTurn(msgspec.Struct, frozen=True):
    """A prompt, or an answer with the work that led to it."""

    row: EntryRow  # where it stands
    at: int
    kind: Literal["prompt", "answer", "work"]  # work: calls without a word at the end
    tools: dict[str, int] = {}
    errors: int = 0


def turns_of(rows: Iterable[EntryRow]) -> Iterator[TimelineTurn]:
    """Fold entries, in their order, into prompts and answers; calls are counted."""
    answer: list[EntryRow] = []
    for row in rows:
        if row.kind == "prompt":
            yield from _answer(answer)
            answer = []
            yield TimelineTurn(row, row.at or 0, "prompt")
        else:
            answer.append(row)
    yield from _answer(answer)


def _answer(rows: list[EntryRow]) -> Iterator[TimelineTurn]:
    """Fold what followed a prompt into its last word."""
    if not rows:
        return
    tools = Counter(row.tool or "tool" for row in rows if row.kind == "tool_call")
    errors = sum(row.error for row in rows if row.kind == "tool_result")
    said = [row for row in rows if row.kind == "text"]
    last = said[-1] if said else rows[-1]
    yield TimelineTurn(last, last.at or 0, "answer" if said else "work", dict(tools), errors)
