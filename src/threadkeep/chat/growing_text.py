"""A text that grows by deltas without ever copying what is already there."""


class GrowingText:
    """The pieces of a streamed text; joined only when somebody reads it.

    A stream cut by UTF-16 units can deliver the two halves of a surrogate pair in two
    deltas. Python keeps such halves apart when strings are concatenated, so a trailing
    first half stays a piece of its own until the next delta shows what it was.
    """

    __slots__ = ("_pieces", "size")

    def __init__(self, text: str = "") -> None:
        """Start with `text`."""
        if not isinstance(text, str):  # a stored part may hold anything; here it is noticed
            raise TypeError(f"a text cannot begin with {type(text).__name__}")
        self._pieces: list[str] = []
        self.size = 0
        self.feed(text)

    def feed(self, text: str) -> int:
        """Append `text` and return by how many characters the whole grew."""
        if not text:
            return 0
        before = self.size
        if self._pieces and _is_first_half(self._pieces[-1][-1]) and _is_second_half(text[0]):
            self._pieces[-1] = _joined(self._pieces[-1], text[0])
            text = text[1:]
        self._push(text)
        self.size += len(text)
        return self.size - before

    def _push(self, text: str) -> None:
        if len(text) > 1 and _is_first_half(text[-1]):
            self._pieces += (text[:-1], text[-1])
        elif text:
            self._pieces.append(text)

    @property
    def text(self) -> str:
        """The whole text so far."""
        if len(self._pieces) > 1:
            whole = "".join(self._pieces)
            # Another list, not this one emptied: somebody may be reading it in another thread.
            self._pieces = [whole[:-1], whole[-1]] if _is_first_half(whole[-1]) else [whole]
            return whole
        return self._pieces[0] if self._pieces else ""


def _is_first_half(char: str) -> bool:
    return "\ud800" <= char <= "\udbff"


def _is_second_half(char: str) -> bool:
    return "\udc00" <= char <= "\udfff"


def _joined(first: str, second: str) -> str:
    return (first + second).encode("utf-16-le", "surrogatepass").decode("utf-16-le")
