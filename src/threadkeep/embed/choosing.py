"""Which embedder the settings mean, and whether it can be had here."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from threadkeep.base.config import EmbeddingSettings
from threadkeep.embed.builtin import NO_NUMPY, has_numpy, look_for_weights, open_builtin
from threadkeep.embed.child import IDLE_SECONDS, ChildEmbedder, start_builtin
from threadkeep.embed.records import Embedder, Progress
from threadkeep.embed.server import ServerEmbedder
from threadkeep.enrich.client import ModelClient
from threadkeep.errors import Damaged, Invalid, NotFound

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
        return EmbedderChoice(None, "the table of our own embedder is not made yet")


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
        client = ModelClient(
            settings.url, environ.get(settings.api_key_env) or None, timeout=_TIMEOUT
        )
    except Invalid as error:
        return EmbedderChoice(None, f"[embeddings] url: {error}")
    return EmbedderChoice(ServerEmbedder(client, settings.name))
