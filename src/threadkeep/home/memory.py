"""How a home's memory is opened: its store, its sources, and what it may use of models."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from threadkeep.home.all_sources import all_sources
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.knowledge.vector_rows import vector_model
from threadkeep.recall.meaning import Meaning
from threadkeep.recall.memory import Memory

if TYPE_CHECKING:
    from threadkeep.enrich.grounding import GroundedAnswer, Passage
    from threadkeep.home.facade import Home

Tell = Callable[[str], None]

# What Hippo's programs hear as well: nothing that was learned is left out.
_EVERYTHING: Final = "HIPPO_RETRIEVAL_INCLUDE_EXCLUDED"


def open_memory(home: "Home", store: KnowledgeStore) -> Memory:
    """Put a store, its sources and the model of its vectors together; on failure it is closed."""
    try:
        data = home.paths().data
        sources = all_sources([home.chat_path()], [data / "state.db"], [data / "mailbox"])
        zone = ZoneInfo(home.zone)
        meaning = _meaning(home, store)
        everything = home.environ.get(_EVERYTHING, "").lower() in {"1", "true", "yes"}
        return Memory(
            *(store, sources, home.config.recall),
            meaning=meaning,
            zone=zone,
            include_excluded=everything,
        )
    except BaseException:
        store.close()
        raise


def _meaning(home: "Home", store: KnowledgeStore) -> Meaning | None:
    """Give what compares by meaning, where the file has vectors and their model can be had."""
    with store.context.db.read() as tx:
        made_by = vector_model(tx)
    if made_by is None:
        return None  # nothing to compare with: numpy is not even loaded
    from threadkeep.embed.choosing import choose  # noqa: PLC0415  (loads a client of HTTP)

    embedder = choose(home.config.embeddings, home.paths().cache, home.environ).embedder
    if embedder is None:
        return None
    from threadkeep.knowledge.vectors import VectorIndex  # noqa: PLC0415  (loads numpy)

    return Meaning(embedder, VectorIndex(embedder.model))


def answering(
    home: "Home", memory: Memory, tell: Tell = lambda _: None
) -> "Callable[[str, Sequence[Passage]], GroundedAnswer | None] | None":
    """Give the model that answers from passages, None where none is configured or ready."""
    if not home.config.model.url:
        return None
    from threadkeep.enrich.modelling import make_answerer  # noqa: PLC0415  (loads a client of HTTP)

    return make_answerer(home.config.model, memory.store.context, home.environ, tell=tell)
