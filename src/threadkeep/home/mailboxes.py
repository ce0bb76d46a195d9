"""The mailboxes of a home by the names of their sessions: letters, tasks, dead letters, and care.

A session is the beginning of its id, the name of its agent, or `last`. Only sessions that the index
knows are opened: a name never means a folder elsewhere.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from threadkeep.base.clock import iso, now_ms
from threadkeep.base.page import Cursor, Limit, Page, page_of, read_cursor, write_cursor
from threadkeep.base.verbs import Name, Number, with_limits
from threadkeep.errors import Conflict, NotFound, ThreadkeepError
from threadkeep.home.mail import folder_of, host_of, look_into, session_named
from threadkeep.mailbox.container.inbox import tasks as tasks_of
from threadkeep.mailbox.host.host import Host
from threadkeep.mailbox.host.sweep import PrunedMail, SweepReport
from threadkeep.mailbox.host.trace import MailboxEvent, trace as trace_mail
from threadkeep.mailbox.index_records import (
    AgentGroup,
    MailboxSession,
    MessagingGroup,
    SessionMode,
)
from threadkeep.mailbox.letters import (
    Letter,
    Overview,
    in_order,
    incoming,
    letters as newest_letters,
    outgoing,
    overview,
)
from threadkeep.mailbox.records import DeadLetter, Destination, Direction, Mail
from threadkeep.mailbox.recurrence import next_times
from threadkeep.mailbox.rows import read_moment
from threadkeep.mailbox.verification import Problem as Flaw, verify as verify_folder

if TYPE_CHECKING:
    from threadkeep.home.home import Home

Due = Annotated[str, Meta(max_length=64, description="A time in ISO form.")] | Number | None
Few = Annotated[int, Meta(ge=1, le=100)]
_DAY_MS = 86_400_000
_RUNS = 5


class Box(msgspec.Struct, frozen=True):
    """A session with what is open in it."""

    session: MailboxSession
    agent: str
    channel: str | None
    chat: str | None
    folder: str
    open: Overview | None
    problem: str = ""


class Task(msgspec.Struct, frozen=True):
    """A task that is still to come."""

    id: str
    seq: int | None
    status: str
    due: str | None
    every: str | None
    series: str | None
    prompt: str
    next: list[str]


class MailboxCheck(msgspec.Struct, frozen=True):
    """What a check of a folder found."""

    ok: bool
    problems: list[Flaw]


class LetterFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file that goes with a letter."""

    name: Name
    data: str  # base64
    type: str = "application/octet-stream"


class StoredLetter(msgspec.Struct, frozen=True):
    """A letter that is on the disk."""

    id: str
    seq: int | None
    direction: Literal["in", "out"] = "in"


class Runs(msgspec.Struct, frozen=True):
    """How many runs of a task were changed."""

    task: str
    changed: int


class Purged(msgspec.Struct, frozen=True):
    """Which dead letters were emptied, or would be."""

    dry_run: bool
    letters: list[str]
    purged: int


@with_limits
class NamedMailboxes:
    """All mailboxes of a home; `session` is the beginning of an id, an agent's name, or `last`."""

    def __init__(self, home: "Home") -> None:
        self._home = home

    def _host(self, session: str) -> Host:
        return host_of(self._home, session)

    # ------------------------------------------------------------------ sessions

    def sessions(
        self,
        *,
        status: Literal["active", "closed"] | None = None,
        limit: Limit = 50,
        cursor: Cursor | None = None,
    ) -> Page[Box]:
        """List sessions with what is open in each, the newest first."""
        with self._home.mail_index() as index:
            found = index.sessions(status=status)
        page = page_of(
            found, lambda one: (one.created_at, one.id), limit, cursor, newest_first=True
        )
        return Page([self._box(one) for one in page.items], page.next)

    def _box(self, session: MailboxSession) -> Box:
        with self._home.mail_index() as index:
            agent = index.agent_group(session.agent_group_id).name
            named = session.messaging_group_id
            chat = None if named is None else index.messaging_group(named)
        folder = str(folder_of(self._home, session))
        channel = None if chat is None else chat.channel_type
        place = None if chat is None else chat.platform_id
        counted, problem = self._overview(session)
        return Box(session, agent, channel, place, folder, counted, problem)

    def _overview(self, session: MailboxSession) -> tuple[Overview | None, str]:
        try:
            return overview(look_into(self._home, session.id)), ""
        except ThreadkeepError as error:
            return None, error.message

    def session(self, session: str) -> Box:
        """Return a session with what is open in it."""
        return self._box(session_named(self._home, session))

    def create_session(
        self,
        agent: Name,
        *,
        channel: Name | None = None,
        chat: Name | None = None,
        thread: Name | None = None,
        mode: SessionMode = "shared",
        zone: Name | None = None,
    ) -> Box:
        """Create a mailbox for a session of an agent, or return the existing one.

        A channel and a chat go together. `zone` is that of the agent's tasks, in all its sessions.
        """
        if (channel is None) != (chat is None):
            raise Conflict("--channel and --chat go together", hint="give both, or neither")
        with self._home.mailroom() as room:
            made = room.new_session(agent, channel, chat, thread_id=thread, mode=mode)
            if zone is not None:
                room.set_zone(made.agent_group_id, zone)
        return self.session(made.id)

    def close_session(self, session: str) -> MailboxSession:
        """Close a session, so that it gets no more mail."""
        with self._home.mailroom(must_exist=True) as room:
            return room.index.close_session(session_named(self._home, session).id)

    def reopen_session(self, session: str) -> MailboxSession:
        """Open a closed session again."""
        with self._home.mailroom(must_exist=True) as room:
            return room.index.reopen_session(session_named(self._home, session).id)

    def agents(self) -> list[AgentGroup]:
        """List the agents that have mailboxes."""
        with self._home.mail_index() as index:
            return index.agent_groups()

    def chats(self) -> list[MessagingGroup]:
        """List the chats that mail comes from."""
        with self._home.mail_index() as index:
            return index.messaging_groups()

    def destinations(self, session: str) -> list[Destination]:
        """List the destinations that an agent may write to."""
        return self._host(session).destinations()

    # ------------------------------------------------------------------ letters

    def letters(
        self,
        session: str,
        *,
        direction: Direction | None = None,
        newest: bool = False,
        state: Name | None = None,
        limit: Limit = 50,
        cursor: Cursor | None = None,
    ) -> Page[Letter]:
        """Return mail of both directions, ordered by time; even numbers came in, odd went out.

        With `newest` the newest alone, of these with `state` those in this state.
        """
        ctx = look_into(self._home, session)
        if newest or state is not None:
            return Page(newest_letters(ctx, direction=direction, state=state, limit=limit))
        seen = read_cursor(cursor, int, int) if cursor else [0, 0]
        coming = [] if direction == "out" else incoming(ctx, after=seen[0], limit=limit + 1)
        going = [] if direction == "in" else outgoing(ctx, after=seen[1], limit=limit + 1)
        both = in_order(coming, going)
        page = both[:limit]
        return Page(page, _behind(seen, page) if len(both) > limit else None)

    def trace(self, session: str, letter: Name) -> list[MailboxEvent]:
        """Return everything that happened to one letter, ordered by time."""
        return trace_mail(look_into(self._home, session), letter_ref(letter))

    def send(
        self,
        session: str,
        text: str,
        *,
        sender: Name = "user",
        sender_id: Name = "user",
        attachments: Sequence[LetterFile] = (),
        id: Name | None = None,  # noqa: A002  (told twice under one id, it is kept once)
        process_after: Due = None,
        trigger: bool = True,
        on_wake: bool = False,
    ) -> StoredLetter:
        """Send a letter to a mailbox; it is on the disk when this returns."""
        files = [msgspec.structs.asdict(one) for one in attachments]
        sent = self._host(session).send(
            text,
            sender=sender,
            sender_id=sender_id,
            attachments=files,
            id=id,
            process_after=process_after,
            trigger=trigger,
            on_wake=on_wake,
        )
        return _stored(sent)

    def receive(
        self,
        channel: Name,
        chat: Name,
        text: str,
        *,
        id: Name | None = None,  # noqa: A002  (as above)
        thread: Name | None = None,
        sender: Name = "user",
        sender_id: Name = "user",
        is_group: bool = False,
    ) -> list[StoredLetter]:
        """Receive a chat message for every agent that is connected to the chat."""
        given: dict[str, Any] = {"message_id": id, "thread_id": thread, "is_group": is_group}
        given |= {"sender": sender, "sender_id": sender_id}
        with self._home.mailroom(must_exist=True) as room:
            return [_stored(one) for one in room.receive(channel, chat, text, **given)]

    def answer(self, question: Name, option: Name, *, user_id: Name = "user") -> StoredLetter:
        """Answer a question that an agent asked."""
        with self._home.mailroom(must_exist=True) as room:
            return _stored(room.answer(question, option, user_id=user_id))

    # ------------------------------------------------------------------ dead letters and care

    def dead(
        self, session: str, *, limit: Limit = 50, cursor: Cursor | None = None
    ) -> Page[DeadLetter]:
        """List the letters that are not retried automatically."""
        found = self._host(session).dead_letters()
        return page_of(found, lambda one: (one.direction, one.id), limit, cursor)

    def retry(self, session: str, letter: Name, *, force: bool = False) -> StoredLetter:
        """Try a dead letter once more; one to the agent gets a new id.

        With `force` also what may have been sent already.
        """
        done = self._host(session).retry(letter_ref(letter), force=force)
        if isinstance(done, Mail):
            return _stored(done)
        return StoredLetter(done.message_out_id, done.seq, "out")

    def purge(
        self,
        session: str,
        *,
        letter: Name | None = None,
        older_than_ms: Number = 30 * _DAY_MS,
        dry_run: bool = False,
    ) -> Purged:
        """Remove the content of dead letters; a dry run unless `dry_run: false`."""
        host = self._host(session)
        found = _dead(host, letter, older_than_ms)
        count = 0 if dry_run else sum(host.purge(one.id) for one in found)
        return Purged(dry_run, [one.id for one in found], count)

    def prune(
        self,
        session: str,
        *,
        older_than_ms: Number | None = None,
        keep: Number | None = None,
        dry_run: bool = False,
    ) -> PrunedMail:
        """Remove old mail from the agent that was delivered; a dry run unless `dry_run: false`."""
        return self._host(session).prune(older_than_ms=older_than_ms, keep=keep, dry_run=dry_run)

    def sweep(self, session: str) -> SweepReport:
        """Process the agent's acks, and set up next runs; no agent is started."""
        return self._host(session).sweep()

    def verify(self, session: str) -> MailboxCheck:
        """Check files, numbers, states, times, hashes and attachments of a session."""
        found = verify_folder(folder_of(self._home, session_named(self._home, session)))
        return MailboxCheck(all(one.severity != "error" for one in found), found)

    # ------------------------------------------------------------------ tasks

    def tasks(self, session: str, *, limit: Limit = 50, cursor: Cursor | None = None) -> Page[Task]:
        """List the pending tasks, each with its next runs."""
        box = look_into(self._home, session)
        shown = [_task(one, box.zone) for one in tasks_of(box)]
        return page_of(shown, lambda one: (one.due or "", one.id), limit, cursor)

    def create_task(
        self,
        session: str,
        prompt: str,
        *,
        process_after: Due = None,
        every: Name | None = None,
        id: Name | None = None,  # noqa: A002  (as above)
    ) -> StoredLetter:
        """Create a task for an agent, once or recurring."""
        host = self._host(session)
        made = host.insert_task(prompt, process_after=process_after, recurrence=every, id=id)
        return _stored(made)

    def change_task(
        self,
        session: str,
        task: Name,
        *,
        prompt: str | UnsetType = UNSET,
        every: Name | UnsetType | None = UNSET,
        process_after: Due | UnsetType = UNSET,
    ) -> Task:
        """Change the prompt of a task, or when it runs; what is left out is not changed."""
        host = self._host(session)
        found = _live(host, task)
        said = {"prompt": prompt, "recurrence": every, "process_after": process_after}
        changes = {name: value for name, value in said.items() if value is not UNSET}
        host.update_task(found.series_id or found.id, **changes)
        return _task(_live(host, task), host.zone)

    def pause_task(self, session: str, task: Name) -> Runs:
        """Put a pending task on hold."""
        host = self._host(session)
        found = _live(host, task)
        return Runs(found.id, host.pause_task(found.series_id or found.id))

    def resume_task(self, session: str, task: Name) -> Runs:
        """Resume a task."""
        host = self._host(session)
        found = _live(host, task)
        return Runs(found.id, host.resume_task(found.series_id or found.id))

    def cancel_task(self, session: str, task: Name) -> Runs:
        """Cancel a task with all later runs."""
        host = self._host(session)
        found = _live(host, task)
        return Runs(found.id, host.cancel_task(found.series_id or found.id))

    def next_runs(self, every: Name, *, count: Few = 5) -> list[str]:
        """Return the next runs of a recurrence."""
        return _runs(every, self._home.zone, count)


def letter_ref(text: str) -> str | int:
    """Read what names a letter: a number, or an id."""
    plain = text.isascii() and text.isdigit() and len(text) < 16  # noqa: PLR2004
    return int(text) if plain else text


def _stored(mail: Mail) -> StoredLetter:
    return StoredLetter(mail.id, mail.seq)


def _behind(seen: list[int], page: list[Letter]) -> str:
    """Note how far each direction was read."""
    for letter in page:
        side = 0 if letter.direction == "in" else 1
        seen[side] = max(seen[side], letter.seq or 0)
    return write_cursor(seen)


def _dead(host: Host, letter: str | None, older_than_ms: int) -> list[DeadLetter]:
    if letter is None:
        latest = now_ms() - older_than_ms
        return [one for one in host.dead_letters() if (read_moment(one.at) or 0) <= latest]
    which = letter_ref(letter)
    found = [one for one in host.dead_letters() if which in (one.id, one.seq)]
    if not found:
        raise NotFound(f"there is no dead letter {letter[:80]!r}", hint="see …/dead")
    return found


def _live(host: Host, task: str) -> Mail:
    which = letter_ref(task)
    for found in host.tasks():
        if which in (found.id, found.seq, found.series_id):
            return found
    raise NotFound(f"there is no live task {task[:80]!r}", hint="see …/tasks")


def _task(mail: Mail, zone: str) -> Task:
    """Tell a task with its next five runs in the zone of its agent."""
    runs: list[str] = []
    if mail.recurrence:
        try:
            runs = _runs(mail.recurrence, zone, _RUNS)
        except ThreadkeepError:  # another program wrote what is no recurrence
            runs = []
    due, every = mail.process_after, mail.recurrence
    return Task(mail.id, mail.seq, mail.status, due, every, mail.series_id, mail.text, runs)


def _runs(every: str, zone: str, count: int) -> list[str]:
    found = next_times(every, now_ms(), zone, count)
    return [iso(int(one.timestamp() * 1000)) for one in found]
