"""The stores of a home that a server keeps open, each for as long as its file is the same one.

A file that was removed or replaced is noticed by the next who asks: a new one is opened, a missing
one is not there. Whoever uses the old store just then goes on with it, and the last of them
closes it.
"""

import getpass
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar, cast
from uuid import uuid4

from threadkeep.base.clock import now_ms
from threadkeep.base.sqlite_errors import translate_os
from threadkeep.capture.records import Exclusion
from threadkeep.errors import Invalid, NotFound, ThreadkeepError
from threadkeep.home.opening import open_archive, open_browse, open_memory_to_ask
from threadkeep.knowledge.agent_views import (
    AgentEntityView,
    AgentNodeView,
    AgentViewFilter,
    EventView,
    ProjectView,
    entity_views,
    event_views,
    latest_run,
    node_views,
    project_views,
)
from threadkeep.knowledge.lessons import Lesson, list_lessons
from threadkeep.knowledge.library import Browse
from threadkeep.knowledge.nodes import Note, write_note
from threadkeep.knowledge.opening import refuse_write
from threadkeep.knowledge.workflow_runs import RunDetails
from threadkeep.memory.learn.identifiers import project_roots
from threadkeep.memory.memory import Memory

if TYPE_CHECKING:
    from threadkeep.base.database import Database
    from threadkeep.capture.capture import History
    from threadkeep.chat.replies import Replies
    from threadkeep.chat.store import ChatStore
    from threadkeep.home.home import Home
    from threadkeep.knowledge.transcript import SessionArchive
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
        return self._once("memory", self._open_memory, lambda one: one.store.database)

    def _open_memory(self) -> "Memory":
        return open_memory_to_ask(self.home, self.db)

    def archive(self) -> "SessionArchive":
        """Give the captured history, to read it."""
        return self._once("archive", self._open_archive, lambda one: one.store.database)

    def _open_archive(self) -> "SessionArchive":
        return open_archive(self.home, self.db)

    def history(self) -> "History":
        """Give the captured history, to change it."""
        return self._once("history", self._open_history, lambda one: one.store.database)

    def _open_history(self) -> "History":
        return self.home.history(self.db, must_exist=True)

    def chat(self) -> "ChatStore":
        """Give the chat store; it is begun if there is none."""
        return self._once("chat", self.home.chat, lambda chat: chat.database)

    def replies(self) -> "Replies":
        """Give what follows the replies that are recorded in the chat store."""
        from threadkeep.chat.replies import Replies

        chat = self.chat()
        return self._once("replies", lambda: Replies(chat), lambda _: chat.database)

    def state(self) -> "SessionDB":
        """Give the state store; it is begun if there is none."""
        return self._once("state", self.home.state, lambda state: state.database)

    def close(self) -> None:
        """Close all that was opened; what is in use is closed when it is no more."""
        with self._guard:
            opened, self._opened = self._opened, {}
        for kept in opened.values():
            if kept.retire():
                kept.store.close()


# ------------------------------------------------------------------------------
# What agents ask of a home, at one desk: everything is opened once and shared by all who ask.
#
# Looking makes no store. A store that was replaced meanwhile is opened anew.

_NOTE_LIMIT: Final = 8_000


class Remembered(NamedTuple):
    """A note that was stored."""

    node: int
    uuid: str


class Desk:
    """Everything that agents may ask of one home; safe to share between threads."""

    def __init__(self, home: "Home", path: str | Path | None = None) -> None:
        self.home = home
        self.path = path
        self.stores = Stores(home, path)
        self._session = str(uuid4())

    @property
    def memory(self) -> Memory:
        """What recalls; NotFound while nothing was captured."""
        self._need_store()
        return self.stores.memory()

    @property
    def words_only(self) -> Memory:
        """The same without a comparison by meaning."""
        whole = self.memory
        parts = (whole.store, whole.sources, whole.settings, whole.clock)
        return Memory(*parts, zone=whole.zone, include_excluded=whole.include_excluded)

    @property
    def browse(self) -> Browse:
        """What lists sessions and shows them."""
        self._need_store()
        return self.stores.browse()

    def close(self) -> None:
        """Close what is open; it is opened again by the next question."""
        self.stores.close()

    def _need_store(self) -> None:
        path = self.home.knowledge_path(self.path)
        try:
            os.stat(path)
        except FileNotFoundError:
            msg = f"nothing was captured yet: there is no store at {path}"
            hint = "run `threadkeep capture` once, or `threadkeep up` to keep it current"
            raise NotFound(msg, hint=hint) from None
        except OSError as error:
            raise translate_os(error, path, "cannot look at") from error

    # ------------------------------------------------------------------ the contract's tables

    def nodes(self, ids: Sequence[int]) -> dict[int, AgentNodeView]:
        """Read nodes by their numbers."""
        with self.memory.store.read(lenient=True) as tx:
            return node_views(tx, ids)

    def events(self, source: str, wanted: AgentViewFilter) -> list[EventView]:
        """Give commands, slices of sessions and visits, the latest first."""
        with self.memory.store.read(lenient=True) as tx:
            return event_views(tx, source, wanted)

    def entities(self, kind: str | None, wanted: AgentViewFilter) -> list[AgentEntityView]:
        """Give what knowledge mentions."""
        with self.memory.store.read(lenient=True) as tx:
            return entity_views(tx, kind, wanted)

    def projects(self, limit: int) -> list[ProjectView]:
        """Give the places where something was done."""
        with self.memory.store.read(lenient=True) as tx:
            return project_views(tx, limit)

    def latest_run(self, repo: str, sha: str | None, branch: str | None) -> RunDetails | None:
        """Give the latest run of CI of a commit, a branch or a repository."""
        with self.memory.store.read(lenient=True) as tx:
            return latest_run(tx, repo, sha, branch)

    def lessons(
        self, repo: str | None, path: str | None, tool: str | None, limit: int
    ) -> list[Lesson]:
        """Give what went wrong more than once."""
        with self.memory.store.read(lenient=True) as tx:
            return list_lessons(tx, repo, path, tool, limit)

    # ------------------------------------------------------------------ writing

    def remember(
        self,
        text: str,
        *,
        author: str,
        title: str = "",
        project: str = "",
        tags: Sequence[str] = (),
    ) -> Remembered:
        """Store a note of an agent, its secrets masked."""
        store = self.memory.store
        refuse_write(store.access)
        note = self._note(text, author, title, project, tuple(tags))
        uuid = str(uuid4())
        roots = project_roots(self.home.config.enrich, self.home.environ)
        with store.write() as tx:
            return Remembered(write_note(tx, note, uuid=uuid, roots=roots), uuid)

    def _note(
        self, text: str, author: str, title: str, project: str, tags: tuple[str, ...]
    ) -> Note:
        if not text.strip():
            raise Invalid("the note is empty", hint="say what is to be remembered")
        if len(text) > _NOTE_LIMIT:
            msg = f"the note has {len(text)} characters, {_NOTE_LIMIT} at most are taken"
            raise Invalid(msg, hint="leave several shorter notes")
        if Exclusion(self.home.config.capture.exclude).of_place(project):
            msg = f"the project {project!r} is kept out by [capture] exclude"
            raise Invalid(msg, hint="leave the note unwritten: its user does not want it kept")
        masked = self.home.redactor().text
        is_folder = project.startswith(("/", "~"))
        return Note(
            text=masked(text.strip()),
            author=masked(author),
            envelope_id=str(uuid4()),
            session=self._session,
            at=now_ms(),
            title=masked(title.strip()),
            cwd=project if is_folder else "",
            repo=None if is_folder or not project else project,
            tags=tuple(masked(tag) for tag in tags),
            hostname=socket.gethostname(),
            username=_user(),
        )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        return ""
