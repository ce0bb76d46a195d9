"""How a home's stores are opened to look at what they keep: to list, browse, recall and ask.

Nothing here loads what captures, masks or reads another program's files before it is needed.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from threadkeep.errors import ReadOnly, ThreadkeepError
from threadkeep.knowledge.records import NOTES
from threadkeep.knowledge.store import KnowledgeStore

if TYPE_CHECKING:
    from threadkeep.capture.capture import History
    from threadkeep.home.home import Home
    from threadkeep.knowledge.library import Browse
    from threadkeep.knowledge.transcript import SessionArchive
    from threadkeep.memory.learn.cited_answers import GroundedAnswer, Passage
    from threadkeep.memory.memory import Memory
    from threadkeep.memory.records import Meaning
    from threadkeep.sources.own import OwnPlace
    from threadkeep.sources.records import Source
    from threadkeep.sources.registry import Sources


# ------------------------------------------------------------------------------
# Every source that there is: other programs', and the stores of a home.


def all_sources(
    chats: Sequence["OwnPlace"], states: Sequence["OwnPlace"], mail: list[Path]
) -> "Sources":
    """Return every source by name: other programs', and the stores of a home."""
    from threadkeep.sources.registry import Sources, foreign_sources

    def chat() -> "Source":
        from threadkeep.sources.chat_store import ChatSource

        return ChatSource(chats)

    def state() -> "Source":
        from threadkeep.sources.state_store import StateSource

        return StateSource(states)

    def imported() -> "Source":
        from threadkeep.sources.state_store import StateSource

        return StateSource(states, "hermes", imported=True)

    def mailbox() -> "Source":
        from threadkeep.sources.mailboxes import MailboxSource

        return MailboxSource(mail)

    def notes() -> "Source":
        from threadkeep.sources.hippo_notes import HippoNotes

        return HippoNotes()

    own = {"chat": chat, "state": state, "hermes-imported": imported, "mailbox": mailbox}
    foreign = foreign_sources()
    return Sources({**foreign.makers, **own, NOTES: notes}, foreign.more)


def _home_sources(home: "Home") -> "Sources":
    data = home.paths().data
    chat = home.file("chat")
    return all_sources([chat] if chat else [], [data / "state.db"], [data / "mailbox"])


# ------------------------------------------------------------------------------
# How a home's memory is opened: its store, its sources, and what it may use of models.

Tell = Callable[[str], None]

# What Hippo's programs hear as well: nothing that was learned is left out.
_EVERYTHING: Final = "HIPPO_RETRIEVAL_INCLUDE_EXCLUDED"


def open_memory(home: "Home", store: KnowledgeStore) -> "Memory":
    """Put a store, its sources and the model of its vectors together; on failure it is closed."""
    from zoneinfo import ZoneInfo

    from threadkeep.memory.memory import Memory

    try:
        zone = ZoneInfo(home.zone)
        meaning = _meaning(home, store)
        everything = home.environ.get(_EVERYTHING, "").lower() in {"1", "true", "yes"}
        return Memory(
            *(store, _home_sources(home), home.config.recall),
            meaning=meaning,
            zone=zone,
            include_excluded=everything,
        )
    except BaseException:
        store.close()
        raise


def _meaning(home: "Home", store: KnowledgeStore) -> "Meaning | None":
    """Return what compares by meaning, where the file has vectors and their model can be had."""
    if store.indexes.vector_model() is None:
        return None  # nothing to compare with: numpy is not even loaded
    from threadkeep.memory.vectors.choice import choose

    embedder = choose(home.config.embeddings, home.paths().cache, home.environ).embedder
    if embedder is None:
        return None
    from threadkeep.knowledge.vectors import VectorIndex
    from threadkeep.memory.records import Meaning

    return Meaning(embedder, VectorIndex(embedder.model))


def answering(
    home: "Home", memory: "Memory", tell: Tell = lambda _: None
) -> "Callable[[str, Sequence[Passage]], GroundedAnswer | None] | None":
    """Return the model that answers from passages, None where none is configured or ready."""
    if not home.config.model.url:
        return None
    from threadkeep.memory.learn.model import make_answerer

    return make_answerer(home.config.model, memory.store, home.environ, tell=tell)


# ------------------------------------------------------------------------------
# A file of Hippo's that is used where it is: its conversations are listed like our own.
#
# Such a file has slices of conversations and none of our tables. What lists sessions needs them, as
# recall needs its index: the first look makes both. Nothing of Hippo's is changed by that.

log = logging.getLogger(__name__)


def make_listable(home: "Home", store: KnowledgeStore) -> None:
    """Make sessions of new slices in a file that is looked at, if nobody captures into it.

    Where the file cannot be written all stays as it is.
    """
    if store.access.finding.kind != "current":
        return  # to look at a file is no reason to bring it to another version
    if not store.archive.has_unlisted():
        return
    path = store.name if store.file is None else store.path
    try:
        with home.history(path, must_exist=True) as history:
            history.note_sessions(everything=False)
    except ThreadkeepError as error:
        log.warning("the conversations in %s are not listed: %s", path, error.message)


def open_archive(home: "Home", path: str | Path | None = None) -> "SessionArchive":
    """Open the captured sessions to list, find and read them; close it after use.

    Raises where nothing was ever captured into the file.
    """
    from threadkeep.base.clock import now_ms
    from threadkeep.home.price_book import booked_prices
    from threadkeep.knowledge.transcript import SessionArchive

    store = home.knowledge(path, read_only=True)
    try:
        make_listable(home, store)
        store.need_captured()
        return SessionArchive(store, _home_sources(home), booked_prices(home, now_ms))
    except BaseException:
        store.close()
        raise


def open_history_to_list(home: "Home", path: str | Path | None = None) -> "History":
    """Open the captured history to list and search it; close it after use."""
    history = home.history(path, read_only=True)
    make_listable(home, history.store)
    return history


def open_memory_to_ask(home: "Home", path: str | Path | None = None) -> "Memory":
    """Open memory so that its index can be brought up, where that changes nothing of the contract.

    No store is begun by a question, and none is brought to another version; one whose index is
    complete is only read.
    """
    memory = home.memory(path, read_only=True)
    if memory.store.access.finding.kind != "current" or _is_indexed(memory):
        return memory
    memory.close()
    with suppress(ReadOnly):
        return home.memory(path, must_exist=True)
    return home.memory(path, read_only=True)


def is_left_behind(memory: "Memory") -> bool:
    """Tell whether memory that only reads has an index that could be brought up by now."""
    access = memory.store.access
    return not access.writable and access.finding.kind == "current" and not _is_indexed(memory)


def _is_indexed(memory: "Memory") -> bool:
    from threadkeep.knowledge.search_index import is_behind, is_indexable

    with memory.store.read() as tx:
        return is_indexable(tx) and not is_behind(tx)


# ------------------------------------------------------------------------------
# What surfaces browse, named in one place, and how it is opened.


def open_browse(home: "Home", path: str | Path | None = None) -> "Browse":
    """Open the captured history to browse it; its store must exist. Close it after use."""
    from zoneinfo import ZoneInfo

    from threadkeep.knowledge.library import Browse

    store = home.knowledge(path, read_only=True)
    try:
        make_listable(home, store)
        return Browse(store, _home_sources(home), ZoneInfo(home.zone))
    except BaseException:
        store.close()
        raise
