"""What comes in from channels: mail of a chat for its agents, and answers to their questions."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from threadkeep.errors import NotFound
from threadkeep.mailbox import content as shapes, posting
from threadkeep.mailbox.given import need_each
from threadkeep.mailbox.ids import channel_message_id, new_id, question_row_id
from threadkeep.mailbox.index_records import MailboxSession, MessagingGroup, Wiring
from threadkeep.mailbox.records import Json, Mail, Place
from threadkeep.mailbox.times import read_moment

if TYPE_CHECKING:
    from threadkeep.mailbox.mailroom import Mailroom


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
        mail = posting.insert_message(
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
