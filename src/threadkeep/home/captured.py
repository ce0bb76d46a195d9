"""What was captured, beyond lists: its lines, notes, how complete it is, how it is forgotten."""

import getpass
import socket
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Final
from uuid import uuid4
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta

from threadkeep.base.clock import now_ms
from threadkeep.base.page import Cursor, Limit, Page, page_of
from threadkeep.base.verbs import Moment, Name, Words, with_limits
from threadkeep.capture.coverage import Coverage
from threadkeep.capture.forget import ForgetReport
from threadkeep.capture.forget_selection import refuse_mixture
from threadkeep.capture.records import Exclusion
from threadkeep.errors import Invalid
from threadkeep.knowledge import nodes
from threadkeep.knowledge.labels import Labelled, Note, TagCount, TagName
from threadkeep.knowledge.opening import refuse_write
from threadkeep.knowledge.projects import ProjectDetail, ProjectName, RenamedProject
from threadkeep.knowledge.query import EVERYTHING, Query, format_query, parse_query
from threadkeep.knowledge.results import Labels
from threadkeep.memory.learn.identifiers import project_roots

if TYPE_CHECKING:
    from threadkeep.home.stores import Stores


_NOTED: Final = "What to remember, written so that it makes sense outside this conversation."
Noted = Annotated[str, Meta(min_length=1, max_length=8000, description=_NOTED)]
NoteTitle = Annotated[str, Meta(max_length=500, description="A few words.")]
NoteProject = Annotated[str, Meta(max_length=2000, description="Its folder, or owner/name.")]
NoteTag = Annotated[str, Meta(max_length=500, description="A word to find it by.")]


class NoteStored(msgspec.Struct, frozen=True):
    """Names a note that was stored."""

    uuid: str
    ref: str


class ParsedQuery(msgspec.Struct, frozen=True):
    """What a text of the filter bar means, and how it is written shortest."""

    query: Query
    text: str


class WouldGo(msgspec.Struct, frozen=True):
    """What was forgotten, or would be."""

    dry_run: bool
    forgotten: ForgetReport


@with_limits
class CapturedWork:
    """The captured work of a home, for callers who name what they mean."""

    def __init__(self, stores: "Stores") -> None:
        self._stores = stores
        self._zone = ZoneInfo(stores.home.zone)

    def parse(self, within: Query = EVERYTHING) -> ParsedQuery:
        """Explain what a text of the filter bar means."""
        return ParsedQuery(within, format_query(within, self._zone))

    def raw(self, session: Name) -> Iterator[str]:
        """Return the lines of a session as its agent wrote them, secrets masked."""
        history = self._stores.history("look")
        found = history.find(session)
        yield from (one.decode("utf-8", "replace") for one in history.raw(found))

    def remember(
        self,
        note: Noted,
        *,
        title: NoteTitle = "",
        project: NoteProject = "",
        tags: Sequence[NoteTag] = (),
        author: Name = "unknown",
        session: Name | None = None,
    ) -> NoteStored:
        """Store a note of an agent for later sessions, secrets masked.

        `author` is the program that the agent runs in; notes of one `session` belong together.
        """
        if not note.strip():
            raise Invalid("the note is empty", hint="give the text to remember")
        home, store = self._stores.home, self._stores.history("change").store
        refuse_write(store.access)
        if Exclusion(home.config.capture.exclude).of_place(project):
            msg = f"the project {project!r} is excluded by [capture] exclude"
            raise Invalid(msg, hint="do not store the note: the user excluded this project")
        masked = home.redactor().text
        is_folder = project.startswith(("/", "~"))
        made = nodes.Note(
            text=masked(note.strip()),
            author=masked(author),
            envelope_id=str(uuid4()),
            session=session or str(uuid4()),
            at=now_ms(),
            title=masked(title.strip()),
            cwd=project if is_folder else "",
            repo=None if is_folder or not project else project,
            tags=tuple(masked(tag) for tag in tags),
            hostname=socket.gethostname(),
            username=_user(),
        )
        uuid, roots = str(uuid4()), project_roots(home.config.enrich, home.environ)
        return NoteStored(uuid, f"node:{store.nodes.write_note(made, uuid=uuid, roots=roots)}")

    def label(
        self,
        ref: Name,
        *,
        star: bool | None = None,
        add: Sequence[TagName] = (),
        remove: Sequence[TagName] = (),
        note: Note | None = None,
    ) -> Labels:
        """Star a session or message, add and remove tags, write a note; "" removes the note.

        Secrets in tags and note are masked.
        """
        store = self._stores.history("change").store
        refuse_write(store.access)
        masked = self._stores.home.redactor().text
        return store.labels.put(
            ref,
            now=now_ms(),
            star=star,
            add=[masked(tag) for tag in add],
            remove=[masked(tag) for tag in remove],  # as it is stored
            note=None if note is None else masked(note),
        )

    def labels(self, ref: Name) -> Labels:
        """Return the star, tags and note of a session or message."""
        return self._stores.browse().store.labels.of(ref)

    def labelled(self, *, limit: Limit = 50, cursor: Cursor | None = None) -> Page[Labelled]:
        """List the sessions and messages with a star, a tag or a note, the latest first."""
        found = self._stores.browse().store.labels.listed()
        return page_of(found, lambda one: (one.at, one.ref), limit, cursor, newest_first=True)

    def tags(self) -> list[TagCount]:
        """List the tags, the most used first."""
        return self._stores.browse().store.labels.tags()

    def project(self, project: ProjectName) -> ProjectDetail:
        """Return a project with its folders, the files touched most, and its lessons."""
        return self._stores.browse().store.projects.project(project)

    def rename_project(self, project: ProjectName, to: ProjectName) -> RenamedProject:
        """Rename a project; the name of another project merges the two."""
        return self._stores.history("change").store.projects.rename(project, to)

    def split_project(self, project: ProjectName) -> RenamedProject:
        """Undo a merge: all folders of a project get their earlier names back."""
        return self._stores.history("change").store.projects.split(project)

    def coverage(self) -> Coverage:
        """Compare what is on the disk with what is in the store."""
        return self._stores.history("look").coverage()

    def forget(
        self,
        *,
        q: Words = "",
        session: Sequence[Name] = (),
        project: Name | None = None,
        agent: Name | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        pattern: Name | None = None,
        dry_run: bool = False,
    ) -> WouldGo:
        """Delete captured work; a dry run unless `dry_run: false`.

        What is meant is said in one way: sessions, a project, a time, a pattern, or a filter.
        """
        what = Query(
            session=tuple(session),
            project=() if project is None else (project,),
            agent=() if agent is None else (agent,),
            since=since,
            until=until,
            pattern=pattern,
        )
        if not q.strip():
            refuse_mixture(what)
        elif what != EVERYTHING:
            raise Invalid("the same filter is given in two ways", hint="give q, or other fields")
        else:
            what = parse_query(q, now_ms(), self._zone)
        would_go = self._stores.history("look").forget(what, dry_run=True)
        if dry_run:  # otherwise anything wrong with it was said before we write
            return WouldGo(dry_run, would_go)
        # What shells and browsers left could not be forgotten before it is brought in.
        with self._stores.home.observations(self._stores.db, must_exist=True) as observations:
            observations.collect()
        return WouldGo(dry_run, self._stores.history("change").forget(what))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        return ""
