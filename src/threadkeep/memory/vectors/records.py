"""What makes vectors of texts, seen from those who need one."""

from collections.abc import Callable, Sequence
from typing import Protocol

# Called with how much is done, and how much there is to do.
Progress = Callable[[int, int], None]


class Embedder(Protocol):
    """Makes vectors of texts; every vector has length one, as little-endian 32-bit floats."""

    @property
    def model(self) -> str:
        """The name of the model: vectors of two models are never compared."""

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Give the vector of each text, in order; no bytes for a text that means nothing to it."""

    def close(self) -> None:
        """Let go of whatever is held."""
