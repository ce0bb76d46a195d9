"""Redaction of streams: a secret cut over several deltas must not reach the disk in pieces.

The unfinished last word of each growing text waits in memory until the word ends, so the host's
hook always sees whole words. Without a hook nothing waits.
"""

from collections.abc import Callable, Iterator
from typing import Any

from threadkeep.chat.records import Json

# type of delta -> (field of the id, field of the text)
_DELTAS = {
    "text-delta": ("id", "delta"),
    "reasoning-delta": ("id", "delta"),
    "tool-input-delta": ("toolCallId", "inputTextDelta"),
}
_LONGEST_WORD = 4096


class StreamRedactor:
    """Passes every text of a stream through the hook, whole words at a time."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self._waiting: dict[tuple[str, str], Json] = {}

    def push(self, chunk: Json) -> Iterator[Json]:
        """Give the chunks that may be stored now."""
        fields = _DELTAS.get(chunk["type"])
        if fields is None:
            yield from self._release(chunk)
            yield _every_text(chunk, self._redact)
            return
        id_field, text_field = fields
        key = (chunk["type"], chunk[id_field])
        held = self._waiting.pop(key, {}).get(text_field, "")
        ready, rest = _split_last_word(held + chunk[text_field])
        if rest:
            self._waiting[key] = {**chunk, text_field: rest}
        if ready or not rest:
            yield {**chunk, text_field: self._redact(ready)}

    def _release(self, chunk: Json) -> Iterator[Json]:
        """Any other chunk may end a text: let go of what waits for the same id, or of all."""
        chunk_id = chunk.get("id") or chunk.get("toolCallId")
        for key in [key for key in self._waiting if chunk_id in (None, key[1])]:
            yield self._finished(key)

    def flush(self) -> Iterator[Json]:
        """Give what still waits; the stream is over."""
        for key in list(self._waiting):
            yield self._finished(key)

    def _finished(self, key: tuple[str, str]) -> Json:
        chunk = self._waiting.pop(key)
        text_field = _DELTAS[key[0]][1]
        return {**chunk, text_field: self._redact(chunk[text_field])}


def _split_last_word(text: str) -> tuple[str, str]:
    """Cut before the last word; a word longer than any secret is let go."""
    cut = max(text.rfind(" "), text.rfind("\n"), text.rfind("\t")) + 1
    if len(text) - cut > _LONGEST_WORD:
        return text, ""
    return text[:cut], text[cut:]


def _every_text(value: Any, redact: Callable[[str], str]) -> Any:
    """Redact the texts of a chunk, but not what names things: type, ids and tool names."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [_every_text(item, redact) for item in value]
    if isinstance(value, dict):
        return {
            key: item if key in _NAMES else _every_text(item, redact) for key, item in value.items()
        }
    return value


_NAMES = frozenset({"type", "id", "messageId", "toolCallId", "toolName", "sourceId", "approvalId"})
