"""The mailbox, looked at: sessions, letters, tasks, dead letters, and the way of one letter."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from threadkeep.base.clock import iso, now_ms
from threadkeep.base.page import Cursor, Limit, Page, page_of, read_cursor, write_cursor
from threadkeep.base.verb_table import Given
from threadkeep.errors import ThreadkeepError
from threadkeep.home.mail import folder_of, host_of, look_into, session_named
from threadkeep.home.stores import Stores
from threadkeep.mailbox.container.inbox import tasks as tasks_of
from threadkeep.mailbox.host.trace import MailboxEvent, trace as trace_mail
from threadkeep.mailbox.index_records import AgentGroup, MailboxSession, MessagingGroup
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
from threadkeep.mailbox.verification import Problem as Flaw, verify as verify_folder
from threadkeep.web.api.verb import ApiVerb, Empty, Name, verb

Few = Annotated[int, Meta(ge=1, le=100)]


class OneBox(Given, frozen=True):
    """A session: the beginning of its id, the name of its agent, or `last`."""

    session: Name


class BoxList(Given, frozen=True):
    """Which sessions to list."""

    status: Literal["active", "closed"] | None = None
    limit: Limit = 50
    cursor: Cursor = ""


class BoxPage(Given, frozen=True):
    """A session, and which page of what it has."""

    session: Name
    limit: Limit = 50
    cursor: Cursor = ""


class LetterList(Given, frozen=True):
    """Which letters of a session: oldest first, or the newest alone."""

    session: Name
    direction: Direction | None = None
    newest: bool = False
    state: Name | None = None  # of the newest, those in this state
    limit: Limit = 50
    cursor: Cursor = ""


class OneLetter(Given, frozen=True):
    """A letter of a session, by its number or id."""

    session: Name
    letter: Name


class NextRuns(Given, frozen=True):
    """A recurrence as cron writes it, and how many runs."""

    every: Name
    count: Few = 5


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


def sessions(stores: Stores, asked: BoxList) -> Page[Box]:
    """List sessions with what is open in each, the newest first."""
    found = stores.mail_index().sessions(status=asked.status)
    page = page_of(
        found, lambda one: (one.created_at, one.id), asked.limit, asked.cursor, newest_first=True
    )
    return Page([_box(stores, one) for one in page.items], page.next)


def _box(stores: Stores, session: MailboxSession) -> Box:
    with stores.home.mail_index() as index:
        agent = index.agent_group(session.agent_group_id).name
        named = session.messaging_group_id
        chat = None if named is None else index.messaging_group(named)
    folder = str(folder_of(stores.home, session))
    channel = None if chat is None else chat.channel_type
    place = None if chat is None else chat.platform_id
    counted, problem = _overview(stores, session)
    return Box(session, agent, channel, place, folder, counted, problem)


def _overview(stores: Stores, session: MailboxSession) -> tuple[Overview | None, str]:
    try:
        return overview(look_into(stores.home, session.id)), ""
    except ThreadkeepError as error:
        return None, error.message


def session(stores: Stores, asked: OneBox) -> Box:
    """Give a session with what is open in it."""
    return _box(stores, session_named(stores.home, asked.session))


def agents(stores: Stores, _: Empty) -> Page[AgentGroup]:
    """List the agents that have mailboxes."""
    return Page(stores.mail_index().agent_groups())


def chats(stores: Stores, _: Empty) -> Page[MessagingGroup]:
    """List the chats that mail comes from."""
    return Page(stores.mail_index().messaging_groups())


def destinations(stores: Stores, asked: OneBox) -> Page[Destination]:
    """List the names that an agent may write to."""
    return Page(host_of(stores.home, asked.session).destinations())


# ---------------------------------------------------------------------- letters


def letters(stores: Stores, asked: LetterList) -> Page[Letter]:
    """Give mail of both directions in the order of time; even numbers came in, odd went out."""
    ctx = look_into(stores.home, asked.session)
    if asked.newest or asked.state is not None:
        way, state = asked.direction, asked.state
        return Page(newest_letters(ctx, direction=way, state=state, limit=asked.limit))
    seen = read_cursor(asked.cursor, int, int) if asked.cursor else [0, 0]
    size = asked.limit + 1
    coming = [] if asked.direction == "out" else incoming(ctx, after=seen[0], limit=size)
    going = [] if asked.direction == "in" else outgoing(ctx, after=seen[1], limit=size)
    both = in_order(coming, going)
    page = both[: asked.limit]
    return Page(page, _behind(seen, page) if len(both) > asked.limit else None)


def _behind(seen: list[int], page: list[Letter]) -> str:
    """Note how far each direction was read."""
    for letter in page:
        side = 0 if letter.direction == "in" else 1
        seen[side] = max(seen[side], letter.seq or 0)
    return write_cursor(seen)


def trace(stores: Stores, asked: OneLetter) -> Page[MailboxEvent]:
    """Tell all that happened to one letter, in order of time."""
    return Page(trace_mail(look_into(stores.home, asked.session), letter_ref(asked.letter)))


def letter_ref(text: str) -> str | int:
    """Read what names a letter: a number, or an id."""
    plain = text.isascii() and text.isdigit() and len(text) < 16  # noqa: PLR2004
    return int(text) if plain else text


def dead(stores: Stores, asked: BoxPage) -> Page[DeadLetter]:
    """List the letters that nobody tries again by itself."""
    found = host_of(stores.home, asked.session).dead_letters()
    return page_of(found, lambda one: (one.direction, one.id), asked.limit, asked.cursor)


# ---------------------------------------------------------------------- tasks


def tasks(stores: Stores, asked: BoxPage) -> Page[Task]:
    """List the tasks that are still to come, each with its next runs."""
    box = look_into(stores.home, asked.session)
    shown = [task_of(one, box.zone) for one in tasks_of(box)]
    return page_of(shown, lambda one: (one.due or "", one.id), asked.limit, asked.cursor)


def task_of(mail: Mail, zone: str) -> Task:
    """Tell a task with its next five runs in the zone of its agent."""
    runs: list[str] = []
    if mail.recurrence:
        try:
            runs = _runs(mail.recurrence, zone, 5)
        except ThreadkeepError:  # another program wrote what is no recurrence
            runs = []
    series = mail.series_id
    due, every = mail.process_after, mail.recurrence
    return Task(mail.id, mail.seq, mail.status, due, every, series, mail.text, runs)


def _runs(every: str, zone: str, count: int) -> list[str]:
    found = next_times(every, now_ms(), zone, count)
    return [iso(int(one.timestamp() * 1000)) for one in found]


def next_runs(stores: Stores, asked: NextRuns) -> Page[str]:
    """Tell when a recurrence runs next."""
    return Page(_runs(asked.every, stores.home.zone, asked.count))


def verify(stores: Stores, asked: OneBox) -> MailboxCheck:
    """Check files, numbers, states, times, hashes and attachments of a session."""
    found = verify_folder(folder_of(stores.home, session_named(stores.home, asked.session)))
    return MailboxCheck(all(one.severity != "error" for one in found), found)


_ONE = "/mail/sessions/{session}"
VERBS: tuple[ApiVerb, ...] = (
    verb("GET", "/mail/sessions", sessions),
    verb("GET", "/mail/agents", agents),
    verb("GET", "/mail/chats", chats),
    verb("GET", "/mail/next-runs", next_runs),
    verb("GET", _ONE, session),
    verb("GET", f"{_ONE}/destinations", destinations),
    verb("GET", f"{_ONE}/letters", letters),
    verb("GET", f"{_ONE}/letters/{{letter}}/trace", trace),
    verb("GET", f"{_ONE}/dead", dead),
    verb("GET", f"{_ONE}/tasks", tasks),
    verb("GET", f"{_ONE}/verify", verify),
)
