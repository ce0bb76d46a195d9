"""What makes vectors of texts, seen from those who need one."""

from collections.abc import Sequence
from typing import Protocol


class Embedder(Protocol):
    """Makes vectors of texts; every vector has length one, as little-endian 32-bit floats."""

    @property
    def model(self) -> str:
        """The name of the model: vectors of two models are never compared."""

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Give the vector of each text, in order."""

    def close(self) -> None:
        """Let go of whatever is held."""
