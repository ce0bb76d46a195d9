"""The post office of a mailroom: what one session may send, to whom, and who is told of it."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from threadkeep.errors import Invalid
from threadkeep.mailbox import actions, passing, task_log
from threadkeep.mailbox.adapters import Adapter, Outgoing, Refused
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.ids import question_row_id
from threadkeep.mailbox.index import MailIndex
from threadkeep.mailbox.index_records import MailboxSession
from threadkeep.mailbox.names import is_safe_name

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
        handlers: Mapping[str, actions.Handler],
        open_session: passing.Opener,
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
        """Give the channel of this type."""
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
        passed = passing.pass_on(self._context, self._index, self._open, mail)
        self._wake(passed.session)
        return passed.mail.id

    def act(self, mail: Outgoing) -> None:
        """Do what the agent asks of the host."""
        actions.act(self._context, mail, self._handlers, lambda: self._siblings(self._session))

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
        task_log.keep(self._context, mail)
