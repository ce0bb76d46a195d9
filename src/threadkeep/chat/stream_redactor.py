"""Redaction of streams: a secret cut over several deltas must not reach the disk in pieces.

The unfinished last line of each growing text waits in memory until the line ends, so the host's
hook sees the words of a secret together (`password: hunter2`). A line over 512 characters is let
go up to its last blank. A private key waits until its end, for its lines say nothing one by one.
Without a hook nothing waits.
"""

from collections.abc import Mapping

from threadkeep.base.text import Redact, redact_texts
from threadkeep.chat.records import Json
from threadkeep.chat.wire.protocol import NEWEST, PROTOCOLS

# type of delta -> (field of the id, field of the text)
_DELTAS = {
    "text-delta": ("id", "delta"),
    "reasoning-delta": ("id", "delta"),
    "tool-input-delta": ("toolCallId", "inputTextDelta"),
}
# After these nothing grows on; what else ends the texts, the version of the stream says.
_ENDS_OF_ALL = frozenset({"start", "finish", "abort", "error"})
_ENDS_OF_INPUTS = frozenset({"start-step", "finish-step", "reset-step"})
# What ties chunks together may stay as it is at the top of a chunk; inside a value these words
# are the names of somebody else's fields, and what they hold is content.
_NAMES = frozenset({"type", "id", "messageId", "toolCallId", "toolName", "sourceId", "approvalId"})
_LONGEST_LINE = 512
_LONGEST_WORD = 4096
_LONGEST_KEY = 64 * 1024
_KEY_END = "-----END "

Key = tuple[str, str]
Waiting = Mapping[Key, Json]


class StreamRedactor:
    """Passes every text of a stream through the hook, whole lines at a time.

    What waits is replaced, never changed: `save` costs nothing, and a hook that raises leaves
    everything as it was.
    """

    def __init__(self, redact: Redact, protocol: int = NEWEST) -> None:
        self._redact = redact
        self._ends_of_texts = PROTOCOLS[protocol].ends_of_texts
        self._waiting: Waiting = {}

    def save(self) -> Waiting:
        """Return what waits now, for `restore`."""
        return self._waiting

    def restore(self, state: Waiting) -> None:
        """Go back to what waited at a `save`: what was pushed since was not stored."""
        self._waiting = state

    def push(self, chunk: Json) -> list[Json]:
        """Return the chunks that may be stored now."""
        fields = _DELTAS.get(chunk["type"])
        if fields is not None:
            return self._grow(chunk, *fields)
        ended = [key for key in self._waiting if self._ends(chunk, key)]
        return self._let_go(ended, chunk)

    def flush(self) -> list[Json]:
        """Return what still waits; the stream is over."""
        return self._let_go(list(self._waiting))

    def _grow(self, delta: Json, id_field: str, text_field: str) -> list[Json]:
        key = (delta["type"], delta[id_field])
        held = self._waiting.get(key, {})
        # A delta that waited may have said more than its text, such as provider metadata.
        merged = {**held, **{name: value for name, value in delta.items() if value is not None}}
        ready, rest = _split_last_line(held.get(text_field, "") + delta[text_field])
        released = [self._clean({**merged, text_field: ready})] if ready or not rest else []
        others = {name: value for name, value in self._waiting.items() if name != key}
        self._waiting = {**others, key: {**merged, text_field: rest}} if rest else others
        return released

    def _let_go(self, ended: list[Key], *then: Json) -> list[Json]:
        released = [self._clean(chunk) for chunk in (*map(self._waiting.__getitem__, ended), *then)]
        if ended:
            self._waiting = {key: self._waiting[key] for key in self._waiting if key not in ended}
        return released

    def _clean(self, chunk: Json) -> Json:
        """Redact the texts of a chunk, but not what names things: type, ids and tool names."""
        content = {
            key: value
            for key, value in chunk.items()
            if key not in _NAMES or not isinstance(value, str)
        }
        return {**chunk, **redact_texts(self._redact, content)}

    def _ends(self, chunk: Json, key: Key) -> bool:
        """Whether nothing more is to come for the text that waits under this key.

        Data, files and sources may come in the middle of a text and end none.
        """
        kind, (delta, name) = chunk["type"], key
        if kind in _ENDS_OF_ALL:
            return True
        if delta == "tool-input-delta":
            return kind in _ENDS_OF_INPUTS or chunk.get("toolCallId") == name
        if kind in self._ends_of_texts:
            return True
        return bool(kind.startswith(delta.removesuffix("delta")) and chunk.get("id") == name)


def _split_last_line(text: str) -> tuple[str, str]:
    """Cut after the last line break; a long line after its last blank, a long word nowhere.

    A private key that is not at its end yet is not cut.
    """
    key = text.rfind("-----BEGIN ")
    if key >= 0 and len(text) - key < _LONGEST_KEY and _is_open_key(text, key):
        return text[:key], text[key:]
    cut = text.rfind("\n") + 1
    if len(text) - cut > _LONGEST_LINE:
        cut = max(cut, text.rfind(" ") + 1, text.rfind("\t") + 1)
    if len(text) - cut > _LONGEST_WORD:
        cut = len(text)
    return text[:cut], text[cut:]


def _is_open_key(text: str, start: int) -> bool:
    """Tell whether a private key begins here, and is not at its end yet."""
    if "PRIVATE KEY" not in text[start:].partition("\n")[0]:
        return False
    end = text.find(_KEY_END, start)
    return end < 0 or text.find("\n", end) < 0  # the line of its end belongs to it
