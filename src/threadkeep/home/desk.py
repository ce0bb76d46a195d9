"""What agents ask of a home, at one desk: everything is opened once and shared by all who ask.

Looking makes no store. A store that was replaced meanwhile is opened anew.
"""

import getpass
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import uuid4

from threadkeep.base.clock import now_ms
from threadkeep.base.trouble import translate_os
from threadkeep.browse.browsing import Browse
from threadkeep.capture.exclusion import Exclusion
from threadkeep.errors import Invalid, NotFound
from threadkeep.home.learning import project_roots
from threadkeep.home.stores import Stores
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
from threadkeep.knowledge.notes import Note, write_note
from threadkeep.knowledge.opening import refuse_write
from threadkeep.knowledge.workflows import RunDetails
from threadkeep.recall.memory import Memory

if TYPE_CHECKING:
    from threadkeep.home.facade import Home


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
        with self.memory.store.context.db.read(lenient=True) as tx:
            return node_views(tx, ids)

    def events(self, source: str, wanted: AgentViewFilter) -> list[EventView]:
        """Give commands, slices of sessions and visits, the latest first."""
        with self.memory.store.context.db.read(lenient=True) as tx:
            return event_views(tx, source, wanted)

    def entities(self, kind: str | None, wanted: AgentViewFilter) -> list[AgentEntityView]:
        """Give what knowledge mentions."""
        with self.memory.store.context.db.read(lenient=True) as tx:
            return entity_views(tx, kind, wanted)

    def projects(self, limit: int) -> list[ProjectView]:
        """Give the places where something was done."""
        with self.memory.store.context.db.read(lenient=True) as tx:
            return project_views(tx, limit)

    def latest_run(self, repo: str, sha: str | None, branch: str | None) -> RunDetails | None:
        """Give the latest run of CI of a commit, a branch or a repository."""
        with self.memory.store.context.db.read(lenient=True) as tx:
            return latest_run(tx, repo, sha, branch)

    def lessons(
        self, repo: str | None, path: str | None, tool: str | None, limit: int
    ) -> list[Lesson]:
        """Give what went wrong more than once."""
        with self.memory.store.context.db.read(lenient=True) as tx:
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
        with store.context.db.write() as tx:
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
