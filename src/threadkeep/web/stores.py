"""The stores that the server reads and writes: each opened when first asked for, then kept."""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from threadkeep import ChatStore, History, SessionDB
from threadkeep.errors import ReadOnly
from threadkeep.home import Home
from threadkeep.home.browsing import Browse, open_browse
from threadkeep.home.streaming import Replies

if TYPE_CHECKING:
    from threadkeep.home.recalled import Memory

T = TypeVar("T")


class Stores:
    """Opens each store once; a store that is not there yet is looked for again next time."""

    def __init__(self, home: Home, db: str | None = None) -> None:
        self.home = home
        self.db = db  # another knowledge file than the home's own
        self._guard = threading.Lock()
        self._opened: dict[str, Any] = {}

    def _once(self, name: str, opens: Callable[[], T]) -> T:
        with self._guard:
            if name not in self._opened:
                self._opened[name] = opens()
            return cast("T", self._opened[name])

    def browse(self) -> Browse:
        """Give what is read most: lists, transcripts, sums."""
        return self._once("browse", lambda: open_browse(self.home, self.db))

    def memory(self) -> "Memory":
        """Give memory, which recalls."""
        return self._once("memory", self._open_memory)

    def _open_memory(self) -> "Memory":
        self.home.knowledge(self.db, read_only=True).close()  # looking changes no other's file
        try:
            return self.home.memory(self.db, must_exist=True)
        except ReadOnly:
            return self.home.memory(self.db, read_only=True)

    def archive(self) -> History:
        """Give the captured history, to read it."""
        return self._once("archive", lambda: self.home.history(self.db, read_only=True))

    def history(self) -> History:
        """Give the captured history, to change it."""
        return self._once("history", lambda: self.home.history(self.db, must_exist=True))

    def chat(self) -> ChatStore:
        """Give the chat store; it is begun if there is none."""
        return self._once("chat", self.home.chat)

    def replies(self) -> Replies:
        """Give what follows the replies that are recorded in the chat store."""
        chat = self.chat()
        return self._once("replies", lambda: Replies(chat))

    def state(self) -> SessionDB:
        """Give the state store; it is begun if there is none."""
        return self._once("state", self.home.state)

    def close(self) -> None:
        """Close all that was opened."""
        with self._guard:
            opened, self._opened = self._opened, {}
        for store in opened.values():
            store.close()
