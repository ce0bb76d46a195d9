"""How verbs open what they read: looking makes no store, and one that cannot be written is read."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, TypeVar

from threadkeep import ChatStore, History, SessionDB
from threadkeep.errors import NotFound, ReadOnly, SchemaMismatch
from threadkeep.home.opening import open_history_to_list
from threadkeep.home.stores import Stores
from threadkeep.state.naming import is_adopted

if TYPE_CHECKING:
    from threadkeep.memory.memory import Memory

T = TypeVar("T")


@contextmanager
def _opened(
    kept: Callable[[], T], only_read: Callable[[], AbstractContextManager[T]]
) -> Iterator[T]:
    try:
        found = kept()
    except (ReadOnly, SchemaMismatch):
        with only_read() as looked_at:
            yield looked_at
    else:
        yield found


def has_chat(stores: Stores) -> bool:
    """Tell whether there is a chat store."""
    return stores.home.chat_path().exists()


def has_state(stores: Stores) -> bool:
    """Tell whether there is a state store."""
    return stores.home.state_path().exists()


def has_knowledge(stores: Stores) -> bool:
    """Tell whether anything was captured."""
    return stores.home.knowledge_path(stores.db).exists()


def need_chat(stores: Stores) -> None:
    """Raise if there is no chat store."""
    if not has_chat(stores):
        raise NotFound("there is no chat store yet", hint="POST /api/chat/sessions begins one")


def need_state(stores: Stores) -> None:
    """Raise if there is no state store."""
    if not has_state(stores):
        raise NotFound("there is no state store yet", hint="POST /api/state/sessions begins one")


def reading_chat(stores: Stores) -> AbstractContextManager[ChatStore]:
    """Give the chat store to look at it; NotFound if there is none."""
    need_chat(stores)
    return _opened(stores.chat, lambda: stores.home.chat(read_only=True))


def reading_state(stores: Stores) -> SessionDB:
    """Give the state store to look at it, also one that only Hermes wrote; close it after use."""
    need_state(stores)
    return stores.home.state(read_only=True)


def joining_state(stores: Stores) -> AbstractContextManager[SessionDB]:
    """Give a state store of ours as one that may bring its index up to date, any other to look."""
    with reading_state(stores) as looked_at:
        ours = is_adopted(looked_at)
    if not ours:
        return reading_state(stores)
    return _opened(stores.state, lambda: reading_state(stores))


def changing_chat(stores: Stores) -> ChatStore:
    """Give a chat store that is there, to change what is in it."""
    need_chat(stores)
    return stores.chat()


def changing_state(stores: Stores) -> SessionDB:
    """Give a state store that is there, to change what is in it."""
    need_state(stores)
    return stores.state()


def reading_memory(stores: Stores) -> "AbstractContextManager[Memory]":
    """Give memory to ask it; NotFound if nothing was captured."""
    home, db = stores.home, stores.db
    return _opened(stores.memory, lambda: home.memory(db, read_only=True))


def reading_history(stores: Stores) -> History:
    """Give the captured history to look at it, whoever wrote it; close it after use."""
    return open_history_to_list(stores.home, stores.db)
