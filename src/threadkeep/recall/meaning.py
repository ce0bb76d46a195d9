"""What recall needs of vectors: something that makes them, and something that compares them."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, Protocol

from threadkeep.base.tx import Tx
from threadkeep.embed.records import Embedder

Owner = Literal["node", "message"]


class Vectors(Protocol):
    """The stored vectors of one model."""

    def nearest(
        self, tx: Tx, vector: bytes, *, kinds: Sequence[Owner], limit: int
    ) -> list[tuple[Owner, int, float]]:
        """Give what is most alike: kind, id and cosine."""

    def similarities(
        self, tx: Tx, vector: bytes, kind: Owner, ids: Iterable[int]
    ) -> dict[int, float]:
        """Give the cosine of each of some that has a vector."""


class Meaning(NamedTuple):
    """A model that is ready, and the vectors that it made."""

    embedder: Embedder
    vectors: Vectors
