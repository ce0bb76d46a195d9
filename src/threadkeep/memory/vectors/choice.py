"""Which embedder the settings mean, and whether it can be had here."""

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from threadkeep.base.config import EmbeddingSettings
from threadkeep.errors import Damaged, Invalid, NotFound
from threadkeep.memory.records import Embedder, Progress
from threadkeep.memory.vectors.builtin import NO_NUMPY, has_numpy, look_for_weights, open_builtin
from threadkeep.memory.vectors.child import IDLE_SECONDS, ChildEmbedder, start_builtin

# ------------------------------------------------------------------------------
# The embedder behind an address: any server with an OpenAI-compatible `/embeddings`.

BATCH: Final = 64
LONGEST_TEXT: Final = (
    8000  # characters: servers refuse or cut what is longer than their model reads
)
_SHORTEST: Final = 1e-6
_PROBE: Final = "dimensions"


class Asks(Protocol):
    """What is needed of a client."""

    def embeddings(self, model: str, texts: Sequence[str]) -> list[list[float]]:
        """Return the vector of each text, in order."""


class ServerEmbedder:
    """Makes vectors by asking a server; every answer is checked before it is believed."""

    def __init__(self, client: Asks, model: str, dimensions: int | None = None) -> None:
        self._client = client
        self._model = model
        self._dimensions = dimensions

    @property
    def model(self) -> str:
        """The name of the model on the server."""
        return self._model

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has; asks the server once if nobody knows yet."""
        if self._dimensions is None:
            self._ask([_PROBE])
        assert self._dimensions is not None  # noqa: S101  (an answer was checked)
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return the vector of each text, in order; no bytes for a text of blanks."""
        vectors = [b""] * len(texts)
        some = [i for i, text in enumerate(texts) if text.strip()]
        for first in range(0, len(some), BATCH):
            batch = some[first : first + BATCH]
            answers = self._ask([texts[i][:LONGEST_TEXT] for i in batch])
            for i, vector in zip(batch, answers, strict=True):
                vectors[i] = vector
        return vectors

    def close(self) -> None:
        """Nothing is held: each request has its own connection."""

    def _ask(self, texts: list[str]) -> list[bytes]:
        answers = self._client.embeddings(self._model, texts)
        if len(answers) != len(texts):
            raise self._bad(f"gave {len(answers)} vectors for {len(texts)} texts")
        return [self._checked(answer) for answer in answers]

    def _checked(self, numbers: Sequence[float]) -> bytes:
        if self._dimensions is None and numbers:
            self._dimensions = len(numbers)
        if len(numbers) != self._dimensions:
            raise self._bad(f"gave {len(numbers)} numbers where {self._dimensions} are expected")
        vector = unit_vector(numbers)
        if vector is None:
            raise self._bad("gave a vector without a direction")
        return vector

    def _bad(self, what: str) -> Damaged:
        return Damaged(
            f"the embedding model {self._model} {what}",
            hint="check [embeddings] name, and what the server runs under that name",
        )


def unit_vector(numbers: Iterable[float]) -> bytes | None:
    """Bring a vector to length one; None if it has no length, or one that is no number."""
    values = [float(number) for number in numbers]
    length = math.hypot(*values)
    if not math.isfinite(length) or length < _SHORTEST:
        return None
    return struct.pack(f"<{len(values)}f", *(value / length for value in values))


_TIMEOUT: Final = 60.0


class EmbedderChoice(NamedTuple):
    """An embedder, or why there is none."""

    embedder: Embedder | None
    reason: str = ""


def choose(
    settings: EmbeddingSettings,
    cache: Path,
    environ: Mapping[str, str],
    *,
    make: bool = False,
    progress: Progress | None = None,
) -> EmbedderChoice:
    """Open the embedder that the settings name; `auto` is a server if one is named, else our own.

    Our own needs a table, which takes half a minute to make: without `make` it must be there.
    """
    if settings.provider == "off":
        return EmbedderChoice(None, "embeddings are switched off ([embeddings] provider)")
    if settings.provider == "url" or (settings.provider == "auto" and settings.url):
        return _server(settings, environ)
    found = look_for_weights()
    if found.folder is None:
        return EmbedderChoice(None, found.reason)
    try:
        return EmbedderChoice(open_builtin(found.folder, cache, make=make, progress=progress))
    except (NotFound, Damaged):
        return EmbedderChoice(None, "the built-in embedding table is not built yet")


def choose_in_child(
    settings: EmbeddingSettings,
    cache: Path,
    environ: Mapping[str, str],
    *,
    idle_seconds: float = IDLE_SECONDS,
) -> EmbedderChoice:
    """Choose for a process that stays small: our own embedder runs in a child, numpy too.

    The child makes the table if it is missing.
    """
    own = settings.provider == "builtin" or (settings.provider == "auto" and not settings.url)
    if not own:
        return choose(settings, cache, environ)
    found = look_for_weights()
    if found.folder is None:
        return EmbedderChoice(None, found.reason)
    return EmbedderChoice(ChildEmbedder(start_builtin(cache, idle_seconds)))


def _server(settings: EmbeddingSettings, environ: Mapping[str, str]) -> EmbedderChoice:
    if not settings.url or not settings.name:
        lacks = "url" if not settings.url else "name"
        return EmbedderChoice(None, f"[embeddings] {lacks} is not set")
    if not has_numpy():
        return EmbedderChoice(None, NO_NUMPY)  # what it would give could not be stored or compared
    try:
        from threadkeep.memory.learn.model_client import ModelClient  # noqa: PLC0415  (rarely)

        client = ModelClient(
            settings.url, environ.get(settings.api_key_env) or None, timeout=_TIMEOUT
        )
    except Invalid as error:
        return EmbedderChoice(None, f"[embeddings] url: {error}")
    return EmbedderChoice(ServerEmbedder(client, settings.name))
