"""The stores of a home that a server keeps open, each for as long as its file is the same one.

A file that was removed or replaced is noticed by the next who asks: a new one is opened, a missing
one is not there. Whoever uses the old store just then goes on with it, and the last of them
closes it.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from threadkeep.browse.browsing import Browse
from threadkeep.errors import ThreadkeepError
from threadkeep.home.browsing import open_browse
from threadkeep.home.in_place import open_history_to_list, open_memory_to_ask

if TYPE_CHECKING:
    from threadkeep.base.sqlite import Database
    from threadkeep.capture.history import History
    from threadkeep.chat.store import ChatStore
    from threadkeep.home.facade import Home
    from threadkeep.home.streaming import Replies
    from threadkeep.recall.memory import Memory
    from threadkeep.state.session_db import SessionDB

log = logging.getLogger(__name__)


class _Closable(Protocol):
    def close(self) -> None: ...


T = TypeVar("T", bound=_Closable)


class _Kept:
    """A store that is open, and how many use it."""

    def __init__(self, store: _Closable, database: "Database") -> None:
        self.store = store
        self.database = database
        self._guard = threading.Lock()
        self._users = 0
        self._retired = False

    def enter(self) -> None:
        """Note one more who uses it."""
        with self._guard:
            self._users += 1

    def leave(self) -> bool:
        """Take back an `enter`; tell whether it is to be closed now."""
        with self._guard:
            self._users -= 1
            return self._retired and not self._users

    def retire(self) -> bool:
        """Give it to nobody else; tell whether it is to be closed now."""
        with self._guard:
            self._retired = True
            return not self._users

    def close_apart(self) -> None:
        """Close it in a thread: nobody who asks for another store waits for that."""
        threading.Thread(target=self._close, name="threadkeep-close", daemon=True).start()

    def _close(self) -> None:
        try:
            self.store.close()
        except ThreadkeepError as error:
            log.debug("closing %s: %s", self.database.path, error)


class _Question:
    """What one question uses, until it is answered; a thread that works on is not waited for."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._used: list[_Kept] = []
        self._answered = False

    def use(self, kept: _Kept) -> None:
        """Keep a store open until the answer is given."""
        with self._guard:
            if not self._answered and kept not in self._used:
                kept.enter()
                self._used.append(kept)

    def end(self) -> None:
        """Let go of everything; what is to be closed is."""
        with self._guard:
            self._answered = True
        for kept in self._used:
            if kept.leave():
                kept.close_apart()


# The question that is answered right now; threads that work for it see the same.
_question: ContextVar[_Question | None] = ContextVar("question", default=None)


class Stores:
    """Opens each store once; one that is not there yet is looked for again next time."""

    def __init__(self, home: "Home", db: str | Path | None = None) -> None:
        self.home = home
        self.db = db  # another knowledge file than the home's own
        self._guard = threading.Lock()
        self._opened: dict[str, _Kept] = {}

    @contextmanager
    def using(self) -> Iterator[None]:
        """Keep open what is asked for inside the block until its end, whatever becomes of it."""
        question = _Question()
        before = _question.set(question)
        try:
            yield
        finally:
            _question.reset(before)
            question.end()

    def _once(self, name: str, opens: Callable[[], T], inside: Callable[[T], "Database"]) -> T:
        with self._guard:
            kept = self._opened.get(name)
            if kept is not None and not kept.database.is_current():
                del self._opened[name]
                if kept.retire():
                    kept.close_apart()
                kept = None
            if kept is None:
                store = opens()
                kept = self._opened[name] = _Kept(store, inside(store))
            question = _question.get()
            if question is not None:
                question.use(kept)
            return cast("T", kept.store)

    def browse(self) -> Browse:
        """Give what is read most: lists, transcripts, sums."""
        return self._once("browse", lambda: open_browse(self.home, self.db), lambda b: b.database)

    def memory(self) -> "Memory":
        """Give memory, which recalls."""
        return self._once("memory", self._open_memory, lambda one: one.store.context.db)

    def _open_memory(self) -> "Memory":
        return open_memory_to_ask(self.home, self.db)

    def archive(self) -> "History":
        """Give the captured history, to read it."""
        return self._once("archive", self._open_archive, lambda one: one.store.context.db)

    def _open_archive(self) -> "History":
        return open_history_to_list(self.home, self.db)

    def history(self) -> "History":
        """Give the captured history, to change it."""
        return self._once("history", self._open_history, lambda one: one.store.context.db)

    def _open_history(self) -> "History":
        return self.home.history(self.db, must_exist=True)

    def chat(self) -> "ChatStore":
        """Give the chat store; it is begun if there is none."""
        return self._once("chat", self.home.chat, lambda chat: chat.context.db)

    def replies(self) -> "Replies":
        """Give what follows the replies that are recorded in the chat store."""
        from threadkeep.home.streaming import Replies  # noqa: PLC0415  (who asks has the store)

        chat = self.chat()
        return self._once("replies", lambda: Replies(chat), lambda _: chat.context.db)

    def state(self) -> "SessionDB":
        """Give the state store; it is begun if there is none."""
        return self._once("state", self.home.state, lambda state: state.context.db)

    def close(self) -> None:
        """Close all that was opened; what is in use is closed when it is no more."""
        with self._guard:
            opened, self._opened = self._opened, {}
        for kept in opened.values():
            if kept.retire():
                kept.store.close()
