"""What is asked of memory, and what it gives back."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from threadkeep.base.tx import Tx
from threadkeep.knowledge.query import Kind


class HitScore(msgspec.Struct, frozen=True):
    """Why a hit stands where it does; `total` is what the order was made by."""

    terms: tuple[str, ...]  # the words of the question that it has
    words: float  # what full text gave it, the best hit 1.0
    phrase: bool  # the words stand in it in a row
    around: float  # what its neighbours in the conversation added
    meaning: float | None  # similarity of its vector; None: it has none
    recency: float  # factor for its age
    weight: float  # factor for its kind
    total: float


class Hit(msgspec.Struct, frozen=True):
    """Something that was recalled, and the place it stands at."""

    ref: str  # what `open` takes: message:12, node:3, command:7, visit:2, run:9, lesson:4
    kind: Kind
    score: float  # the best hit has 1.0
    at: int | None  # epoch milliseconds
    title: str  # the session, the command, the visit, the summary
    snippet: str  # the words with their neighbours, marked >>> and <<<
    contract_ref: str  # as the contract's tools name it: shell-1, claude-5, browser-2, workflow-9
    agent: str | None = None
    project: str | None = None
    cwd: str | None = None
    branch: str | None = None
    session_id: str | None = None
    key: str | None = None  # of a message in its session
    role: str | None = None
    part: str | None = None  # of a message: prompt, text, tool_call
    tool: str | None = None
    outcome: str | None = None
    uuid: str | None = None  # of a node
    url: str | None = None  # of a visit or a run
    same: int = 0  # how many others say the same and were left out
    more: int = 0  # how many others of its session were left out
    why: HitScore | None = None


class RecallResult(msgspec.Struct, frozen=True):
    """The answer to one question."""

    query: str
    hits: tuple[Hit, ...]
    candidates: int  # how many were compared
    by_meaning: bool  # vectors had a part in it
    notes: tuple[str, ...] = ()  # what could not be used, and why
    missing: tuple[str, ...] = ()  # words that none of the hits has: nothing has all of them
    next: str | None = None  # the cursor of the following hits, where pages are asked for


# What is shown once: the best hit of a session, of those that say the same, or everything.
Fold = Literal["session", "text", "nothing"]


class HitDetail(msgspec.Struct, frozen=True):
    """The thing behind a hit, whole, with what is around it."""

    hit: Hit
    text: str
    before: tuple[Hit, ...] = ()  # the messages or commands before it, the nearest last
    after: tuple[Hit, ...] = ()
    facts: dict[str, Any] = {}  # what else is known: exit code, address, links, entities


# ------------------------------------------------------------------------------
# What recall needs of vectors: something that makes them, and something that compares them.

Owner = Literal["node", "message"]
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


class Vectors(Protocol):
    """The stored vectors of one model."""

    def nearest(
        self, tx: Tx, vector: bytes, *, kinds: Sequence[Owner], limit: int
    ) -> list[tuple[Owner, int, float]]:
        """Return what is most alike: kind, id and cosine."""

    def similarities(
        self, tx: Tx, vector: bytes, kind: Owner, ids: Iterable[int]
    ) -> dict[int, float]:
        """Return the cosine of each of some that has a vector."""


class Meaning(NamedTuple):
    """A model that is ready, and the vectors that it made."""

    embedder: Embedder
    vectors: Vectors
