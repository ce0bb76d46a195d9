"""The mailbox, written: new sessions, letters, tasks, another try for dead letters."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from threadkeep.base.clock import now_ms
from threadkeep.base.verb_table import Given
from threadkeep.base.verbs import Number
from threadkeep.errors import Conflict, NotFound
from threadkeep.home.mail import host_of, session_named
from threadkeep.home.stores import Stores
from threadkeep.mailbox.host.host import Host
from threadkeep.mailbox.host.sweep import PrunedMail, SweepReport
from threadkeep.mailbox.index_records import MailboxSession, SessionMode
from threadkeep.mailbox.records import DeadLetter, Mail
from threadkeep.mailbox.rows import read_moment
from threadkeep.web.api.mail import (
    Box,
    OneBox,
    OneLetter,
    Task,
    letter_ref,
    session as read_box,
    task_of,
)
from threadkeep.web.api.verb import ApiVerb, DryRun, Empty, Name, verb

Due = Annotated[str, Meta(max_length=64, description="A time in ISO form.")] | Number | None
_DAY_MS = 86_400_000


class NewBox(Given, frozen=True):
    """A mailbox for a session of an agent; a channel and a chat go together."""

    agent: Name
    channel: Name | None = None
    chat: Name | None = None
    thread: Name | None = None
    mode: SessionMode = "shared"
    zone: Name | None = None  # of the agent's tasks, in all its sessions


class LetterFile(Given, frozen=True):
    """A file that goes with a letter."""

    name: Name
    data: str  # base64
    type: str = "application/octet-stream"


class NewLetter(Given, frozen=True):
    """A letter to an agent."""

    text: str
    sender: Name = "user"
    sender_id: Name = "user"
    attachments: tuple[LetterFile, ...] = ()
    id: Name | None = None  # told twice under one id, it is kept once
    process_after: Due = None
    trigger: bool = True
    on_wake: bool = False


class NewTask(Given, frozen=True):
    """A task for an agent, once or again and again."""

    prompt: str
    process_after: Due = None
    every: Name | None = None
    id: Name | None = None


class TaskChange(Given, frozen=True):
    """What to change of a task; what is left out stays."""

    prompt: str | UnsetType = UNSET
    every: Name | UnsetType | None = UNSET
    process_after: Due | UnsetType = UNSET


class OneTask(Given, frozen=True):
    """A task of a session, by its number, id or series."""

    session: Name
    task: Name


class StoredLetter(msgspec.Struct, frozen=True):
    """A letter that is on the disk."""

    id: str
    seq: int | None
    direction: Literal["in", "out"] = "in"


class Runs(msgspec.Struct, frozen=True):
    """How many runs of a task were changed."""

    task: str
    changed: int


class Retry(Given, frozen=True):
    """Whether also to try what may have been sent already."""

    force: bool = False


class Purge(Given, frozen=True):
    """Which dead letters: one, or all that are old enough."""

    letter: Name | None = None
    older_than_ms: Number = 30 * _DAY_MS
    dry_run: DryRun = True


class Purged(msgspec.Struct, frozen=True):
    """Which dead letters were emptied, or would be."""

    dry_run: bool
    letters: list[str]
    purged: int


class PruneLimits(Given, frozen=True):
    """What of an agent's mail is old: by age, by how many of the newest stay, or by both."""

    older_than_ms: Number | None = None
    keep: Number | None = None
    dry_run: DryRun = True


class Received(Given, frozen=True):
    """What somebody said in a chat."""

    channel: Name
    chat: Name
    text: str
    id: Name | None = None
    thread: Name | None = None
    sender: Name = "user"
    sender_id: Name = "user"
    is_group: bool = False


class Delivered(msgspec.Struct, frozen=True):
    """Where something that was said went."""

    letters: list[StoredLetter]


class QuestionAnswer(Given, frozen=True):
    """The answer to a question that an agent asked."""

    option: Name
    user_id: Name = "user"


class OneQuestion(Given, frozen=True):
    """A question that an agent asked, by its id."""

    question: Name


# ---------------------------------------------------------------------- sessions


def create_session(stores: Stores, _: Empty, body: NewBox) -> Box:
    """Make a mailbox for a session of an agent, or give the one that is there."""
    if (body.channel is None) != (body.chat is None):
        raise Conflict("a channel and a chat go together", hint="give both, or neither")
    with stores.home.mailroom() as room:
        made = room.new_session(
            body.agent, body.channel, body.chat, thread_id=body.thread, mode=body.mode
        )
        if body.zone is not None:
            room.set_zone(made.agent_group_id, body.zone)
    return read_box(stores, OneBox(session=made.id))


def close(stores: Stores, asked: OneBox, _: Empty) -> MailboxSession:
    """Close a session: it gets no more mail."""
    with stores.home.mailroom(must_exist=True) as room:
        return room.index.close_session(session_named(stores.home, asked.session).id)


def reopen(stores: Stores, asked: OneBox, _: Empty) -> MailboxSession:
    """Open a closed session again."""
    with stores.home.mailroom(must_exist=True) as room:
        return room.index.reopen_session(session_named(stores.home, asked.session).id)


# ---------------------------------------------------------------------- letters


def send(stores: Stores, asked: OneBox, body: NewLetter) -> StoredLetter:
    """Put a letter into a mailbox; it is on the disk when this answers."""
    given = msgspec.structs.asdict(body)
    given["attachments"] = [msgspec.structs.asdict(one) for one in body.attachments]
    return _sent(host_of(stores.home, asked.session).send(given.pop("text"), **given))


def _sent(mail: Mail) -> StoredLetter:
    return StoredLetter(mail.id, mail.seq)


def receive(stores: Stores, _: Empty, body: Received) -> Delivered:
    """Take in what was said in a chat, for every agent that is wired to it."""
    given = msgspec.structs.asdict(body)
    said = (given.pop("channel"), given.pop("chat"), given.pop("text"))
    given |= {"message_id": given.pop("id"), "thread_id": given.pop("thread")}
    with stores.home.mailroom(must_exist=True) as room:
        return Delivered([_sent(one) for one in room.receive(*said, **given)])


def answer(stores: Stores, asked: OneQuestion, body: QuestionAnswer) -> StoredLetter:
    """Answer a question that an agent asked."""
    with stores.home.mailroom(must_exist=True) as room:
        return _sent(room.answer(asked.question, body.option, user_id=body.user_id))


def retry(stores: Stores, asked: OneLetter, body: Retry) -> StoredLetter:
    """Try a dead letter once more; one to the agent gets a new id."""
    host = host_of(stores.home, asked.session)
    done = host.retry(letter_ref(asked.letter), force=body.force)
    return (
        _sent(done)
        if isinstance(done, Mail)
        else StoredLetter(done.message_out_id, done.seq, "out")
    )


def purge(stores: Stores, asked: OneBox, body: Purge) -> Purged:
    """Remove what dead letters say; say `dry_run: false` to do it."""
    host = host_of(stores.home, asked.session)
    found = _dead(host, body)
    count = 0 if body.dry_run else sum(host.purge(one.id) for one in found)
    return Purged(body.dry_run, [one.id for one in found], count)


def _dead(host: Host, body: Purge) -> list[DeadLetter]:
    if body.letter is None:
        latest = now_ms() - body.older_than_ms
        return [one for one in host.dead_letters() if (read_moment(one.at) or 0) <= latest]
    which = letter_ref(body.letter)
    found = [one for one in host.dead_letters() if which in (one.id, one.seq)]
    if not found:
        raise NotFound(f"there is no dead letter {body.letter[:80]!r}", hint="see …/dead")
    return found


def prune(stores: Stores, asked: OneBox, body: PruneLimits) -> PrunedMail:
    """Remove old mail from the agent that is delivered; say `dry_run: false` to do it."""
    host = host_of(stores.home, asked.session)
    return host.prune(older_than_ms=body.older_than_ms, keep=body.keep, dry_run=body.dry_run)


def sweep(stores: Stores, asked: OneBox, _: Empty) -> SweepReport:
    """Take over what the agent said of its mail, and set up next runs; no agent is started."""
    return host_of(stores.home, asked.session).sweep()


# ---------------------------------------------------------------------- tasks


def create_task(stores: Stores, asked: OneBox, body: NewTask) -> StoredLetter:
    """Give an agent a task, once or again and again."""
    host = host_of(stores.home, asked.session)
    made = host.insert_task(
        body.prompt, process_after=body.process_after, recurrence=body.every, id=body.id
    )
    return _sent(made)


def change_task(stores: Stores, asked: OneTask, body: TaskChange) -> Task:
    """Change what a task says, or when it runs."""
    host = host_of(stores.home, asked.session)
    found = _task(host, asked.task)
    changes = {
        name: value
        for name, value in (
            ("prompt", body.prompt),
            ("recurrence", body.every),
            ("process_after", body.process_after),
        )
        if value is not UNSET
    }
    host.update_task(found.series_id or found.id, **changes)
    return task_of(_task(host, asked.task), host.zone)


def _task(host: Host, task: str) -> Mail:
    which = letter_ref(task)
    for found in host.tasks():
        if which in (found.id, found.seq, found.series_id):
            return found
    raise NotFound(f"there is no live task {task[:80]!r}", hint="see …/tasks")


def pause(stores: Stores, asked: OneTask, _: Empty) -> Runs:
    """Hold a task that is still to come."""
    host = host_of(stores.home, asked.session)
    found = _task(host, asked.task)
    return Runs(found.id, host.pause_task(found.series_id or found.id))


def resume(stores: Stores, asked: OneTask, _: Empty) -> Runs:
    """Go on with a task."""
    host = host_of(stores.home, asked.session)
    found = _task(host, asked.task)
    return Runs(found.id, host.resume_task(found.series_id or found.id))


def cancel(stores: Stores, asked: OneTask, _: Empty) -> Runs:
    """Drop a task with all later runs."""
    host = host_of(stores.home, asked.session)
    found = _task(host, asked.task)
    return Runs(found.id, host.cancel_task(found.series_id or found.id))


_ONE = "/mail/sessions/{session}"
VERBS: tuple[ApiVerb, ...] = (
    verb("POST", "/mail/sessions", create_session, 201),
    verb("POST", "/mail/receive", receive),
    verb("POST", "/mail/questions/{question}", answer),
    verb("POST", f"{_ONE}/close", close),
    verb("POST", f"{_ONE}/reopen", reopen),
    verb("POST", f"{_ONE}/letters", send, 201),
    verb("POST", f"{_ONE}/dead/{{letter}}/retry", retry),
    verb("POST", f"{_ONE}/purge", purge),
    verb("POST", f"{_ONE}/prune", prune),
    verb("POST", f"{_ONE}/sweep", sweep),
    verb("POST", f"{_ONE}/tasks", create_task, 201),
    verb("PATCH", f"{_ONE}/tasks/{{task}}", change_task),
    verb("POST", f"{_ONE}/tasks/{{task}}/pause", pause),
    verb("POST", f"{_ONE}/tasks/{{task}}/resume", resume),
    verb("POST", f"{_ONE}/tasks/{{task}}/cancel", cancel),
)
