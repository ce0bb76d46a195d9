"""Mail from one agent to another: into which session, how often, with which files."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from threadkeep.base.tx import Tx
from threadkeep.errors import Damaged, Invalid, NotFound
from threadkeep.mailbox import content as shapes, inbound, tasks
from threadkeep.mailbox.adapters import Adapter, Outgoing, Refused
from threadkeep.mailbox.arguments import need_each
from threadkeep.mailbox.attachments import hand_over, is_safe_name
from threadkeep.mailbox.context import MailContext, channel_message_id, new_id, question_row_id
from threadkeep.mailbox.host import post_office
from threadkeep.mailbox.index import MailIndex
from threadkeep.mailbox.index_records import MailboxSession, MessagingGroup, Wiring
from threadkeep.mailbox.records import Json, Mail, Place
from threadkeep.mailbox.rows import read_moment

if TYPE_CHECKING:
    from threadkeep.mailbox.mailroom import Mailroom


# Opens the mailbox of a session; makes its folder if it is missing.
Opener = Callable[[MailboxSession], MailContext]
_FIRST: Final = 1


class Passed(NamedTuple):
    """Mail in the inbox of another agent, and whose inbox it is."""

    mail: Mail
    session: MailboxSession


def pass_on(source: MailContext, index: MailIndex, open_: Opener, mail: Outgoing) -> Passed:
    """Write a message into the inbox of another agent, once, however often it is called."""
    try:
        return _pass_on(source, index, open_, mail)
    except NotFound as error:
        raise Refused(error.message, hint=error.hint) from error


def _pass_on(source: MailContext, index: MailIndex, open_: Opener, mail: Outgoing) -> Passed:
    sender, target = source.agent_group or "", mail.place.platform_id or ""
    _check_permission(index, sender, target)
    row_id = mail.derived_id("a2a")
    before = _from_before(source, index, open_, mail, row_id)
    if before is not None:
        return before
    hops = _hops(source, mail)
    if hops > source.policy.hops:
        msg = f"agents have forwarded mail {source.policy.hops} times, with no other sender"
        raise Refused(msg, hint="wait until somebody else writes")
    session = _choose_session(source, index, target, mail)
    context = open_(session)
    written = inbound.insert_message(
        context,
        "chat",
        _content(source, index, context, mail, row_id),
        message_id=row_id,
        place=Place("agent", sender),
        source_session_id=source.session,
        hops=hops,
    )
    return Passed(written, session)


def _check_permission(index: MailIndex, sender: str, target: str) -> None:
    if not index.may_reach_agent(sender, target):
        msg = f"the agent {target[:80]!r} is not among the destinations"
        raise Refused(msg, hint="the host can add it")


def _from_before(
    source: MailContext, index: MailIndex, open_: Opener, mail: Outgoing, row_id: str
) -> Passed | None:
    """Find what an earlier attempt wrote: another session may be the newest by now."""
    if mail.attempt == _FIRST:
        return None
    for session in index.sessions(agent_group_id=mail.place.platform_id):
        found = _find(open_, session, row_id)
        if found is not None and found.source_session_id == source.session:
            return Passed(found, session)
    return None


def _find(open_: Opener, session: MailboxSession, row_id: str) -> Mail | None:
    try:
        with open_(session).folder.inbound.read() as tx:
            return inbound.find(tx, row_id)
    except Damaged:  # one session that cannot be read does not cut off the others
        return None


# ---------------------------------------------------------------------- into which session


def _choose_session(
    source: MailContext, index: MailIndex, target: str, mail: Outgoing
) -> MailboxSession:
    """Answer where the question came from, else where the peer wrote from last, else its newest."""
    with source.folder.inbound.read() as tx:
        named = list(_named_sessions(tx, target, mail.in_reply_to))
    for session_id in named:
        session = _session(index, session_id)
        if session is not None and (session.agent_group_id, session.status) == (target, "active"):
            return session
    return index.newest_active_session(target) or index.resolve_session(target)[0]


def _named_sessions(tx: Tx, target: str, in_reply_to: str | None) -> Iterator[str]:
    answered = None if in_reply_to is None else inbound.find(tx, in_reply_to)
    if answered is not None and answered.source_session_id:
        yield answered.source_session_id
    newest = tx.value("newest_peer_session", {"platform_id": target})
    if newest:
        yield newest


def _session(index: MailIndex, session_id: str) -> MailboxSession | None:
    try:
        return index.session(session_id)
    except NotFound:
        return None


# ---------------------------------------------------------------------- how often


def _hops(source: MailContext, mail: Outgoing) -> int:
    """Count how many agents have passed this on, this one included.

    The count continues from the mail it answers, or else from the last mail of any agent: leaving
    out what is answered does not make the count start over.
    """
    with source.folder.inbound.read() as tx:
        answered = tx.one("hops_of", {"id": mail.in_reply_to}) or tx.one("newest_hop")
        if answered is None:
            return 1
        hops, seq, timestamp = answered
        if tx.value("spoken_since", {"seq": seq}):
            return 1
    age = source.clock() - (read_moment(timestamp) or 0)
    return 1 if age > source.policy.hop_memory_ms else int(hops) + 1


# ---------------------------------------------------------------------- with what


def _content(
    source: MailContext, index: MailIndex, target: MailContext, mail: Outgoing, row_id: str
) -> Json:
    """Shape a message for another agent: words and files, in the name of who really sends it."""
    names = mail.content.get("files")
    files = names if isinstance(names, list) else []
    if not mail.text and not files:
        raise Refused("only words and files can go to another agent", hint='send {"text": …}')
    sender = index.agent_group(source.agent_group or "")
    said = shapes.chat(mail.text, sender=sender.name, sender_id=f"agent:{sender.id}")
    given = hand_over(source.folder.path, mail.id, target.folder.path, row_id, files)
    return {**said, "attachments": given} if given else said


# ------------------------------------------------------------------------------
# The post office of a mailroom: what one session may send, to whom, and who is told of it.

_LATEST: Final = 253_402_300_799_999  # milliseconds up to the year 9999: as long as any


class RoomPost:
    """The post office for the mail of one session."""

    def __init__(
        self,
        session: MailboxSession,
        context: MailContext,
        index: MailIndex,
        *,
        adapters: Mapping[str, Adapter],
        handlers: Mapping[str, post_office.Handler],
        open_session: Opener,
        siblings: Callable[[MailboxSession], Iterable[MailContext]],
        wake: Callable[[MailboxSession], object],
    ) -> None:
        """Serve one session; `wake` is called for another one that got mail.

        `siblings` gives the other sessions of its agent, where tasks may be as well.
        """
        self._session = session
        self._context = context
        self._index = index
        self._adapters = adapters
        self._handlers = handlers
        self._open = open_session
        self._siblings = siblings
        self._wake = wake

    def adapter_for(self, channel_type: str) -> Adapter | None:
        """Return the channel of this type."""
        return self._adapters.get(channel_type)

    def check(self, mail: Outgoing) -> None:
        """Refuse a chat that is unknown, or neither the session's own nor one of the agent's."""
        channel, chat_id = mail.place.channel_type or "", mail.place.platform_id or ""
        chat = self._index.messaging_group_at(channel, chat_id)
        shown = f"{channel[:40]} {chat_id[:80]!r}"
        if chat is None:
            raise Refused(f"the chat {shown} is unknown here", hint="the host can add it")
        group = self._session.agent_group_id
        if chat.id != self._session.messaging_group_id and not self._index.may_send(
            group, channel, chat_id
        ):
            msg = f"the chat {shown} is not among the destinations"
            raise Refused(msg, hint="the host can add it")

    def pass_on(self, mail: Outgoing) -> str | None:
        """Bring a message to another agent, and wake it."""
        passed = pass_on(self._context, self._index, self._open, mail)
        self._wake(passed.session)
        return passed.mail.id

    def act(self, mail: Outgoing) -> None:
        """Do what the agent asks of the host."""
        post_office.act(self._context, mail, self._handlers, lambda: self._siblings(self._session))

    def asked(self, mail: Outgoing) -> None:
        """Keep a question until somebody answers it; refuse one that nobody could answer."""
        said = mail.content
        if not is_safe_name(question_row_id(str(said.get("questionId")), _LATEST)):
            msg = "the id of the question cannot be part of the id of its answer"
            raise Refused(msg, hint="no slashes, no NUL, at most 230 bytes")
        try:
            self._index.add_question(
                said.get("questionId", ""),
                session_id=self._session.id,
                message_out_id=mail.id,
                title=said["title"],
                options=said["options"],
                platform_id=mail.place.platform_id,
                channel_type=mail.place.channel_type,
                thread_id=mail.place.thread_id,
            )
            kept = self._index.question(said["questionId"])
        except Invalid as error:
            raise Refused(error.message, hint=error.hint) from error
        if (kept.session_id, kept.message_out_id) != (self._session.id, mail.id):
            msg = f"another question has the id {kept.question_id[:80]!r}"
            raise Refused(msg, hint="give each question an id of its own")

    def keep(self, mail: Outgoing) -> None:
        """Keep what a run of a task says of itself."""
        tasks.keep(self._context, mail)


# ------------------------------------------------------------------------------
# What comes in from channels: mail of a chat for its agents, and answers to their questions.


def receive(
    room: "Mailroom",
    channel_type: str,
    platform_id: str,
    said: str | Json,
    *,
    message_id: str | None = None,
    thread_id: str | None = None,
    sender: str = "user",
    sender_id: str = "user",
    attachments: Iterable[Json] = (),
    is_group: bool = False,
    threaded: bool = False,
    trigger: bool = True,
    kind: str = "chat",
    timestamp: datetime | str | int | None = None,
) -> list[Mail]:
    """Give mail from a chat, words or whole content, to every agent group that serves it.

    The same `message_id` with the same content is taken once, unless the first is long over: a
    platform may count from the start again. A file that cannot be kept does not hold up the
    words; its attachment then has an `error`. `threaded` tells that the channel knows threads,
    `timestamp` when it was said. If one agent cannot be given the mail, the others are, and then
    it raises.
    """
    chat = _chat(room, channel_type, platform_id, is_group=is_group)
    name = message_id or new_id("msg", room.clock())
    content = _chat_content(said, sender, sender_id, attachments) if isinstance(said, str) else said
    place = Place(channel_type, platform_id, thread_id)

    def give(wiring: Wiring) -> Mail:
        session = _session_for(room, chat, wiring, thread_id, threaded=threaded)
        row_id = channel_message_id(name, wiring.agent_group_id)
        mail = inbound.insert_message(
            room.host(session).context,
            kind,
            content,
            message_id=row_id,
            place=place,
            timestamp=timestamp,
            trigger=trigger,
            from_platform=True,
        )
        if trigger:
            room.wake(session)
        return mail

    return _all_then_raise(give, _wirings(room, chat))


def _chat(
    room: "Mailroom", channel_type: str, platform_id: str, *, is_group: bool
) -> MessagingGroup:
    chat = room.index.messaging_group_at(channel_type, platform_id)
    if chat is None:
        msg = f"the chat {platform_id[:80]!r} of {channel_type} is unknown"
        raise NotFound(msg, hint="add it with index.add_messaging_group, or use new_session")
    if is_group and not chat.is_group:
        return room.index.add_messaging_group(channel_type, platform_id, is_group=True)
    return chat


def _chat_content(text: str, sender: str, sender_id: str, attachments: Iterable[Json]) -> Json:
    said = shapes.chat(text, sender=sender, sender_id=sender_id)
    files = need_each(attachments, (dict,), "attachments")
    return {**said, "attachments": files} if files else said


def _wirings(room: "Mailroom", chat: MessagingGroup) -> list[Wiring]:
    wirings = room.index.agents_of(chat.channel_type, chat.platform_id)
    if not wirings:
        msg = f"no agent serves the chat {chat.platform_id[:80]!r} of {chat.channel_type}"
        raise NotFound(msg, hint="wire an agent group to it, or use new_session")
    return wirings


def _session_for(
    room: "Mailroom",
    chat: MessagingGroup,
    wiring: Wiring,
    thread_id: str | None,
    *,
    threaded: bool,
) -> MailboxSession:
    session, _ = room.index.resolve_session(
        wiring.agent_group_id, chat.id, thread_id, wiring.session_mode, threaded=threaded
    )
    room.refresh(session)  # also one that is known: we may have died before it had its places
    return session


def _all_then_raise(give: Callable[[Wiring], Mail], wirings: Iterable[Wiring]) -> list[Mail]:
    mails: list[Mail] = []
    errors: list[Exception] = []
    for wiring in wirings:
        try:
            mails.append(give(wiring))
        except Exception as error:  # noqa: BLE001  (raised below, when the others have theirs)
            errors.append(error)
    if errors:
        raise errors[0]
    return mails


def answer(room: "Mailroom", question_id: str, option: str, *, user_id: str = "user") -> Mail:
    """Give an agent the answer to its question, and wake it; only the first answer counts.

    The question is forgotten after the answer is written: a crash in between loses nothing.
    """
    session_id = room.index.question(question_id).session_id
    host = room.host(session_id)
    with room.turn(session_id):
        question = room.index.question(question_id)
        asked = read_moment(question.created_at) or 0
        place = Place(question.channel_type, question.platform_id, question.thread_id)
        try:
            mail = host.mail(question_row_id(question_id, asked))  # from before a crash
        except NotFound:
            mail = host.answer(question_id, option, user_id=user_id, place=place, asked_ms=asked)
        room.index.take_question(question_id)
    room.wake(session_id)
    return mail
