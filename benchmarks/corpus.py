"""Made-up conversations, the same in every run."""

import random
from typing import Any, NamedTuple

Json = dict[str, Any]

DELTA = 10  # characters per delta, about two tokens
_SYLLABLES = ("ka", "lo", "mi", "ren", "tus", "va", "sor", "pel", "qui", "dan", "ul", "bre")
_VOCABULARY = 20_000


def vocabulary(count: int = _VOCABULARY) -> list[str]:
    """Return distinct words; the earlier ones are meant to be the frequent ones."""
    words: dict[str, None] = {}
    number = 0
    while len(words) < count:
        words[_word(number)] = None
        number += 1
    return list(words)


def _word(number: int) -> str:
    pieces = []
    rest = number + len(_SYLLABLES)
    while rest:
        rest, place = divmod(rest, len(_SYLLABLES))
        pieces.append(_SYLLABLES[place])
    return "".join(pieces)


class Writer:
    """Writes text whose words are distributed as in a language: a few are everywhere."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self._words = vocabulary()
        total, self._weights = 0.0, []
        for rank in range(len(self._words)):
            total += 1 / (rank + 2)
            self._weights.append(total)

    def text(self, length: int) -> str:
        """Write about `length` characters, with line breaks and quotation marks."""
        words = self._random.choices(
            self._words, cum_weights=self._weights, k=max(1, length // 6 + 2)
        )
        for place in range(11, len(words), 12):
            words[place] += ".\n"
        for place in range(25, len(words), 40):
            words[place] = f'"{words[place]}"'
        return " ".join(words)[:length]

    def message(self, number: int) -> Json:
        """Write a message: 50 to 4,000 characters, mostly short; one reply in four calls a tool."""
        length = min(4000, 50 + int(self._random.expovariate(1 / 790)))
        parts: list[Json] = [{"type": "text", "text": self.text(length)}]
        if number % 8 == 1:
            parts.append(self._tool_part(number))
        return {"role": "assistant" if number % 2 else "user", "parts": parts}

    def _tool_part(self, number: int) -> Json:
        return {
            "type": "tool-search",
            "toolCallId": f"call_{number}",
            "state": "output-available",
            "input": {"query": self.text(40), "limit": 20},
            "output": {"lines": [self.text(60) for _ in range(4)], "count": 4},
        }


def messages(count: int) -> list[Json]:
    """Write that many messages without ids."""
    writer = Writer()
    return [writer.message(number) for number in range(count)]


class Stream(NamedTuple):
    """One part that grows: how it begins, its deltas, how it ends."""

    kind: str
    opening: list[Json]
    deltas: list[Json]
    closing: list[Json]


KINDS = ("text", "reasoning", "tool input")


def stream(kind: str, count: int) -> Stream:
    """Make a stream of `count` deltas of ten characters each."""
    text = Writer(7).text(count * DELTA)
    start: list[Json] = [{"type": "start"}, {"type": "start-step"}]
    end: list[Json] = [{"type": "finish-step"}, {"type": "finish"}]
    if kind == "tool input":
        return _tool_stream(text.replace('"', "'").replace("\n", " "), start, end)
    named = {"id": "p"}
    return Stream(
        kind,
        [*start, {"type": f"{kind}-start", **named}],
        [{"type": f"{kind}-delta", **named, "delta": piece} for piece in _cut(text)],
        [{"type": f"{kind}-end", **named}, *end],
    )


def _tool_stream(text: str, start: list[Json], end: list[Json]) -> Stream:
    """A tool that writes a file: its input is one long string inside an object."""
    named = {"toolCallId": "p"}
    pieces = _cut(text)
    pieces[0] = '{"path":"notes.md","content":"' + pieces[0]
    call = {**named, "toolName": "write"}
    whole = {"path": "notes.md", "content": text}
    return Stream(
        "tool input",
        [*start, {"type": "tool-input-start", **call}],
        [{"type": "tool-input-delta", **named, "inputTextDelta": piece} for piece in pieces],
        [{"type": "tool-input-available", **call, "input": whole}, *end],
    )


def _cut(text: str) -> list[str]:
    return [text[place : place + DELTA] for place in range(0, len(text), DELTA)]


def delta_text(chunk: Json) -> str:
    """Return the text that a delta adds."""
    text: str = chunk["delta"] if "delta" in chunk else chunk["inputTextDelta"]
    return text
