"""Stores: the one opener of a home's stores, for the page, for agents and for the shell.

Whoever asks says what for:

look      nothing is changed, not even an index; a file of another program stays as it is
ask       an index may be brought up to date; where that cannot be, it is looked at
change    what is there is changed
begin     the same, and a store that is not there is begun

A file that is not there, or is there no more, is `NoStore` for all but who begins one: a list is
empty then, and only to begin makes a file. One that was replaced or restored is opened again by the
next who asks. Whoever uses the old one just then continues it, and the last of them closes it.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast

from threadkeep.base.sqlite.upkeep import is_current
from threadkeep.errors import NoStore, ReadOnly, SchemaMismatch, ThreadkeepError

if TYPE_CHECKING:
    from threadkeep.base.database import Database
    from threadkeep.base.verb_table import Verb
    from threadkeep.capture.capture import History
    from threadkeep.chat.replies import Replies
    from threadkeep.chat.store import ChatStore
    from threadkeep.home.home import Home
    from threadkeep.knowledge.library import Browse
    from threadkeep.knowledge.transcript import SessionArchive
    from threadkeep.mailbox.index import MailIndex
    from threadkeep.memory.memory import Memory
    from threadkeep.state.session_db import SessionDB


log = logging.getLogger(__name__)

Way = Literal["look", "ask", "change", "begin"]


class _Closable(Protocol):
    def close(self) -> None: ...


class _Store(_Closable, Protocol):
    @property
    def database(self) -> "Database": ...


T = TypeVar("T", bound=_Closable)
S = TypeVar("S", bound=_Store)


class _Kept:
    """A store that is open, and how many use it."""

    def __init__(self, store: _Closable, database: "Database") -> None:
        self.store = store
        self.database = database
        self._guard = threading.Lock()
        self._users = 0
        self._retired = False

    def is_current(self) -> bool:
        """Tell whether it is open, and its file the one that was opened."""
        return not self.database.closed and is_current(self.database)

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
            log.debug("closing %s: %s", self.database.name, error)


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
    """The stores of one home; safe to share between threads.

    What is opened is closed by `close`, or when its file is another one and nobody uses it. A
    command of the shell, which has stores of its own, may close what it was given.
    """

    def __init__(
        self,
        home: "Home",
        db: str | Path | None = None,
        *,
        chat: str | Path | None = None,
        state: str | Path | None = None,
    ) -> None:
        self.home = home
        self.db = db  # another knowledge file than the home's own
        self._chat = chat
        self._state = state
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

    def close(self) -> None:
        """Close all that was opened; what is in use is closed when it is no more."""
        with self._guard:
            opened, self._opened = self._opened, {}
        for kept in opened.values():
            if kept.retire():
                kept.store.close()

    @property
    def shows_demo(self) -> bool:
        """Whether what is shown is the made-up history of a machine without agents."""
        return self.db is not None and Path(self.db) == self.home.demo_history

    def show_own(self) -> None:
        """Show the home's own history from now on, instead of the demo."""
        with self._guard:
            self.db = None
            for name in list(self._opened):
                self._retire(name)

    def _once(self, name: str, opens: Callable[[], T], inside: Callable[[T], "Database"]) -> T:
        """Return what is open as long as its file is the same one, else open it."""
        with self._guard:
            kept = self._opened.get(name)
            if kept is not None and not kept.is_current():
                self._retire(name)
                kept = None
            if kept is None:
                store = opens()
                kept = self._opened[name] = _Kept(store, inside(store))
            question = _question.get()
            if question is not None:
                question.use(kept)
            return cast("T", kept.store)

    def _leave(self, name: str) -> None:
        with self._guard:
            self._retire(name)

    def _retire(self, name: str) -> None:
        kept = self._opened.pop(name, None)
        if kept is not None and kept.retire():
            kept.close_apart()

    def _looked_at(self, store: S) -> S:
        return self._for_now(store, store.database)

    def _for_now(self, store: T, database: "Database") -> T:
        """Have what was just opened closed with the answer; without a question, who asked does."""
        question = _question.get()
        if question is not None:
            kept = _Kept(store, database)
            question.use(kept)
            kept.retire()
        return store

    def call(self, verb: "Verb", given: dict[str, Any]) -> Any:
        """Call a verb of the table; a list of what is not there yet is empty."""
        try:
            if verb.upload:
                given = {**given, verb.upload: self._checked(verb, given[verb.upload])}
            if verb.filter and isinstance(given.get(verb.filter), dict):
                given = {**given, verb.filter: self._query(given[verb.filter])}
            return getattr(self._opened_for(verb), verb.name)(**given)
        except NoStore:
            if verb.nothing is None:
                raise
            return verb.nothing

    def _opened_for(self, verb: "Verb") -> Any:
        opens: dict[str, Callable[[Way], Any]] = {
            "chat": self.chat,
            "state": self.state,
            "state_sessions": lambda way: verb.owner.type(self.state(way)),
            "knowledge": lambda _: self.browse(),
            "mail": lambda _: verb.owner.type(self.home),
        }
        opened = opens.get(verb.owner.store)
        return verb.owner.type(self) if opened is None else opened(verb.opened_to)

    def _query(self, fields: dict[str, Any]) -> Any:
        """Read the fields of a filter that a request has; `q` is in the filter language."""
        from zoneinfo import ZoneInfo

        from threadkeep.base.clock import now_ms
        from threadkeep.knowledge.query import fill_query

        return fill_query(fields, now_ms(), ZoneInfo(self.home.zone))

    def _checked(self, verb: "Verb", lines: Any) -> Any:
        """Look at what is imported before a store is begun for it."""
        if isinstance(lines, str):
            lines = lines.splitlines(keepends=True)
        as_bytes = (_as_bytes(one) if isinstance(one, str) else one for one in lines)
        if verb.owner.store == "chat":
            return self.home.checked_input(as_bytes, path=self._chat)
        from threadkeep.state.naming import session_lines

        return session_lines(as_bytes)

    # ------------------------------------------------------------------ chat, state, mail

    def chat(self, way: Way) -> "ChatStore":
        """Return the chat store."""
        if way == "look":
            return self._looked_at(self.home.chat(self._chat, read_only=True))
        if way == "ask":
            try:
                return self.chat("change")
            except (ReadOnly, SchemaMismatch):
                return self.chat("look")

        def opens() -> "ChatStore":
            return self.home.chat(self._chat, must_exist=way != "begin")

        return self._once("chat", opens, lambda chat: chat.database)

    def replies(self) -> "Replies":
        """Return what follows the replies that are recorded in the chat store."""
        from threadkeep.chat.replies import Replies

        chat = self.chat("change")
        return self._once("replies", lambda: Replies(chat), lambda _: chat.database)

    def state(self, way: Way) -> "SessionDB":
        """Return the state store; one that only Hermes wrote is not asked, but looked at."""
        if way in ("look", "ask"):
            from threadkeep.state.naming import is_adopted

            looked_at = self.home.state(self._state, read_only=True)
            if way == "look" or not is_adopted(looked_at):
                return self._looked_at(looked_at)
            looked_at.close()
            try:
                return self.state("change")
            except (ReadOnly, SchemaMismatch):
                return self.state("look")

        def opens() -> "SessionDB":
            return self.home.state(self._state, must_exist=way != "begin")

        return self._once("state", opens, lambda state: state.database)

    def mail_index(self) -> "MailIndex":
        """Return the index of mailboxes, to look at it."""
        return self._looked_at(self.home.mail_index())

    # ------------------------------------------------------------------ what was captured

    def browse(self) -> "Browse":
        """Return what is read most, to look at it: lists, transcripts, sums."""
        from threadkeep.home.opening import open_browse

        return self._once("browse", lambda: open_browse(self.home, self.db), lambda b: b.database)

    def archive(self) -> "SessionArchive":
        """Return the captured sessions, to look at them."""
        from threadkeep.home.opening import open_archive

        return self._once("archive", lambda: open_archive(self.home, self.db), _database)

    def memory(self) -> "Memory":
        """Return memory, to ask it."""
        from threadkeep.home.opening import is_left_behind, open_memory_to_ask

        def opens() -> "Memory":
            return open_memory_to_ask(self.home, self.db)

        memory = self._once("memory", opens, _database)
        if not is_left_behind(memory):
            return memory
        self._leave("memory")  # another program wrote: one that may index takes its place
        return self._once("memory", opens, _database)

    def history(self, way: Literal["look", "change"]) -> "History":
        """Return the captured history with all that captures and forgets."""
        if way == "look":
            from threadkeep.home.opening import open_history_to_list

            found = open_history_to_list(self.home, self.db)
            return self._for_now(found, found.store.database)

        def opens() -> "History":
            return self.home.history(self.db, must_exist=True)

        return self._once("history", opens, _database)


def _as_bytes(line: str) -> bytes:
    """Write a line as it was; one that was no UTF-8 came with its bytes escaped."""
    try:
        return line.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return line.encode("utf-8", "surrogatepass")


def _database(found: "SessionArchive | Memory | History") -> "Database":
    return found.store.database
